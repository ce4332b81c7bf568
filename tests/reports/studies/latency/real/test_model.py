import errno
import os
from array import array
from contextlib import ExitStack
from pathlib import Path

import pytest

from tornlog.faults.devices.unjournaled import MetadataWrites
from tornlog.reports.studies.latency.real.device import DeviceFile, MeasuredDevice, has_direct_writes
from tornlog.reports.studies.latency.real.file_system import (
    SyncCosts,
    SyncRequests,
    counts_of,
    measure_syncs,
    requests_of,
)
from tornlog.reports.studies.latency.real.model import MachineModel, system_of
from tornlog.reports.studies.latency.real.parts import costs_of_cell
from tornlog.reports.studies.latency.real.tables import sync_notes
from tornlog.reports.studies.latency.real.turns import MachineCondition, MeasuredCell, Mode, TurnPlan
from tornlog.sim.choices import Choices

MIB = 1 << 20
BLOCK_NS, FLUSH_NS = 20_000, 5_000
BULK_NS = 8_192 * 1_000 + FLUSH_NS


def ns(*durations: int) -> "array[int]":
    return array("q", durations)


def costs_of(overwritten: tuple[int, int], preallocated: tuple[int, int]) -> SyncCosts:
    """Counts are writes and flushes."""
    kinds = {"overwritten": overwritten, "preallocated": preallocated, "appended": preallocated}
    return SyncCosts(*(SyncRequests(kind, *counts, 120.0) for kind, counts in kinds.items()))


@pytest.fixture
def device_file(tmp_path: Path) -> DeviceFile:
    try:
        return DeviceFile(tmp_path)
    except OSError as error:
        pytest.skip(f"no O_DIRECT here: {error}")


def test_a_measured_drive_takes_the_measured_times_in_their_order() -> None:
    drive = MeasuredDevice(ns(BLOCK_NS, 90_000), ns(700_000, FLUSH_NS), ns(BULK_NS)).drive(Choices("").stream("drive"))
    ended_ns, took_ns = 0, []
    for _ in range(3):
        for call in (lambda at_ns: drive.write(at_ns, [(5, 4)]), drive.flush):
            begun_ns, ended_ns = ended_ns, call(ended_ns)
            took_ns.append(ended_ns - begun_ns)

    transfer_ns = 4 * 1_000  # 8,192 blocks in 8.192 ms
    assert took_ns == [BLOCK_NS + transfer_ns, 700_000, 90_000 + transfer_ns, FLUSH_NS, BLOCK_NS + transfer_ns, 700_000]


@pytest.mark.parametrize(("code", "has"), [(errno.EINVAL, False), (errno.EACCES, None)])
def test_a_file_system_without_direct_writes_is_told_from_other_errors(
    code: int, has: bool | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(code, "refused")

    monkeypatch.setattr(os, "open", refuse)
    if has is None:
        with pytest.raises(OSError, match="refused"):
            has_direct_writes(tmp_path)
    else:
        assert has_direct_writes(tmp_path) is has


def test_the_disk_under_a_directory_is_probed_and_the_files_removed(device_file: DeviceFile, tmp_path: Path) -> None:
    found = device_file.measure([0] * 8, writes=3)
    device_file.close()

    assert (len(found.write_ns), len(found.flush_ns)) == (24, 8)
    assert min(*found.write_ns, *found.flush_ns, *found.bulk_ns) > 0
    assert has_direct_writes(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("overwritten", "preallocated", "metadata"),
    [
        ((1, 1), (4, 2), None),  # ext4: two blocks of the journal, a flush, the commit block, a flush
        ((1, 1), (4, 1), None),  # the same with FUA
        ((1, 0), (4, 0), None),  # a disk without a cache
        ((2, 1), (3, 1), MetadataWrites(1, 2)),
        ((1, 1), (2, 1), MetadataWrites(0, 1)),
    ],
)
def test_a_journal_is_found_by_the_requests_of_a_sync_that_changes_metadata(
    overwritten: tuple[int, int], preallocated: tuple[int, int], metadata: MetadataWrites | None
) -> None:
    costs = costs_of(overwritten, preallocated)

    assert costs.has_journal is (metadata is None)
    assert costs.unjournaled() == metadata


def test_the_costs_of_syncs_are_reported_in_a_sentence() -> None:
    assert sync_notes(costs_of((2, 1), (3, 1))) == [
        "a sync of one page: overwritten 2 writes, 1 flush, 120 µs; preallocated 3 writes, 1 flush, 120 µs; appended "
        "3 writes, 1 flush, 120 µs; the file system has no journal"
    ]
    assert "assumes a file system with a journal" in sync_notes(None)[0]


@pytest.mark.parametrize("blocks", [0, 2])
def test_a_flush_is_no_written_block_although_linux_counts_it_as_a_write(blocks: int, tmp_path: Path) -> None:
    stat, fields = tmp_path / "stat", [0] * 17

    def sync(_: int) -> None:
        for field, count in ((4, blocks + 1), (6, 8 * blocks), (15, 1)):
            fields[field] += count
        stat.write_text(" ".join(map(str, fields)))

    sync(0)
    counts = counts_of(stat)
    assert counts is not None
    assert requests_of("", sync, counts)[1:3] == (blocks, 1)


def test_the_requests_of_syncs_are_counted_if_the_system_counts_them(tmp_path: Path) -> None:
    found = measure_syncs(tmp_path)

    assert list(tmp_path.iterdir()) == []
    if found is not None:  # a virtual file system has no disk
        assert [one.kind for one in found] == ["overwritten", "preallocated", "appended"]
        assert min(one.writes for one in found) > 0
        assert found.preallocated.writes >= found.overwritten.writes


def test_a_condition_sets_the_memory_and_the_neighbour_of_the_model() -> None:
    device = MeasuredDevice(ns(1), ns(1), ns(1))
    free, short = (
        system_of(one, device, MetadataWrites(1, 2))
        for one in (MachineCondition(), MachineCondition(256 * MIB, 50 * MIB))
    )

    assert (short.memory_bytes, short.is_full, short.neighbour.write_bytes_per_s) == (256 * MIB, True, 50 * MIB)
    assert free.memory_bytes > 256 * MIB
    assert (free.is_full, free.neighbour.write_bytes_per_s) == (False, 0)
    assert free.unjournaled == MetadataWrites(1, 2)


def test_the_costs_of_a_synced_put_are_computing_among_all_producers_and_a_handover() -> None:
    free, plain, synced = MachineCondition(), Mode("async"), Mode("sync")
    parts = {(free, plain, 1): ns(20_000), (free, plain, 2): ns(25_000), (free, synced, 1): ns(120_000)}
    costs = costs_of_cell(parts, MeasuredCell("real", synced, free, 2))

    assert (costs.put_work_ns, costs.put.quantile(0.5), costs.handover.quantile(0.5)) == (20_000, 25_000, 100_000)


@pytest.mark.slow
def test_the_model_simulates_each_cell_of_a_turn_at_its_arrivals(device_file: DeviceFile, tmp_path: Path) -> None:
    device_file.close()
    plan = TurnPlan([MachineCondition()], [2], seconds=0.1, modes=(Mode("sync"), Mode("pool")))
    with ExitStack() as stack:
        model = MachineModel(plan, tmp_path, stack)
        model.measure_parts(MachineCondition(), 0)
        found = list(model.turns(0))

    assert [(one.cell.source, one.cell.mode.flush, len(one.puts.latencies_ns)) for one in found] == [
        ("simulated", "sync", 40),
        ("simulated", "pool", 200),
    ]
    assert all(one.slowest for one in found)
