"""Recovery times: measures starts of filled stores after a stop or a crash."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from ....faults.devices.storage import BLOCK_BYTES
from ....sim.choices import Choices
from ....store.errors import CorruptFileError
from ....store.formats.columns import PlainRecords
from ....store.formats.scan import scan_records
from ....store.log.segment_queue import SegmentQueue
from ....store.message_store import MessageStore
from ....store.real.world import real_world
from ....store.recovery.recovery import RecoveryReport
from ..topics.grid import DEVICES
from .filled import QUEUES, SEGMENT_BYTES, TOPIC, FilledStore, fill_store

ALL = 1 << 62
"""A distance larger than any log: the checkpoint covers no records."""
HEADER = (
    *("exit", "recover_whole_log", "log_bytes", "behind_checkpoint_bytes", "scanned_bytes", "records"),
    *("total_s", "scan_s", "queues_s", "durable_s", "index_s"),
    *(f"cold_read_{disk.replace('-', '_')}_s" for disk in DEVICES),
)
"""One row per case, with the parts of `RecoveryTime`.

cold_read: time of a modelled disk to read the scanned bytes, which were cached during the measurement.
"""
TableRow = Sequence[Any]


@dataclass(frozen=True, slots=True)
class RecoveryCase:
    """The state of a store before a start, and the recovery setting."""

    clean_exit: bool
    recover_whole_log: bool
    behind_bytes: int = SEGMENT_BYTES
    """After a crash: number of log bytes after the checkpoint."""


class RecoveryTime(NamedTuple):
    """The times of one case and directory in seconds, each the median of all repetitions."""

    case: RecoveryCase
    log_bytes: int
    scanned_bytes: int
    """Log bytes that recovery scans with an index, possibly more than without."""
    records: int
    total_s: float
    scan_s: float
    """Time to scan, with all checks and CRCs, the part of the log that the queues need."""
    queues_s: float
    """Time to compare the queues, and for all other work."""
    durable_s: float
    """Time to sync all data that the checkpoint does not cover."""
    index_s: float
    """Additional time with an index, including additional scanning."""


def cases_by_size() -> list[RecoveryCase]:
    return [RecoveryCase(clean, whole) for clean in (False, True) for whole in (True, False)]


def cases_by_distance(log_bytes: int) -> list[RecoveryCase]:
    """Return crashes of the largest log at increasing distances from the checkpoint."""
    distances = [log_bytes // share for share in (4, 2) if log_bytes // share > SEGMENT_BYTES]
    return [RecoveryCase(False, False, distance) for distance in distances] + [
        RecoveryCase(False, whole, ALL) for whole in (True, False)
    ]


def measure_recovery(directory: str, sizes: Sequence[int], turns: int) -> Iterator[RecoveryTime]:
    for size in sizes:
        filled = fill_store(f"{directory}/{size}", size)
        cases = cases_by_size()
        if size == max(sizes):
            cases += cases_by_distance(size)
        for case in cases:
            yield _measure_case(filled, case, turns)


def _measure_case(filled: FilledStore, case: RecoveryCase, turns: int) -> RecoveryTime:
    found = [_measure_turn(filled, case) for _ in range(turns)]
    first = found[0]
    seconds = (median(column) for column in zip(*(one[4:] for one in found), strict=True))
    return RecoveryTime(case, first.log_bytes, first.scanned_bytes, first.records, *seconds)


def _measure_turn(filled: FilledStore, case: RecoveryCase) -> RecoveryTime:
    bare_s, durable_s, bare_report = _timed_recovery(filled, case, index=False)
    scan_s = _scan_seconds(filled, bare_report.start_offset)
    total_s, _, report = _timed_recovery(filled, case, index=True)
    queues_s = max(bare_s - durable_s - scan_s, 0.0)
    index_s = max(total_s - bare_s, 0.0)
    scanned_bytes = report.end_offset - report.start_offset
    return RecoveryTime(
        case, filled.log_bytes, scanned_bytes, report.records, total_s, scan_s, queues_s, durable_s, index_s
    )


def _timed_recovery(filled: FilledStore, case: RecoveryCase, *, index: bool) -> tuple[float, float, RecoveryReport]:
    """Return the duration of a recovery, the time spent in syncs, and the report."""
    if case.clean_exit:
        filled.make_clean()
    else:
        filled.make_crashed(case.behind_bytes)
    store = MessageStore(real_world(), filled.config(recover_whole_log=case.recover_whole_log, index=index))
    with _timed_syncs() as durable_s:
        begun = perf_counter()
        report = store.load()
        took_s = perf_counter() - begun
    store.close()
    if report.findings:
        raise RuntimeError(f"a recovery found damage: {report.findings[0]}")
    return took_s, sum(durable_s), report


@contextmanager
def _timed_syncs() -> Iterator[list[float]]:
    seconds: list[float] = []
    make_durable = SegmentQueue.make_durable

    def timed(row: SegmentQueue, first: int) -> None:
        begun = perf_counter()
        make_durable(row, first)
        seconds.append(perf_counter() - begun)

    SegmentQueue.make_durable = timed  # type: ignore[method-assign, assignment]
    try:
        yield seconds
    finally:
        SegmentQueue.make_durable = make_durable  # type: ignore[method-assign]


def _scan_seconds(filled: FilledStore, start_offset: int) -> float:
    world = real_world()
    files, plain = world.files, None if world.core is None else PlainRecords(world.core)
    if plain is not None:
        for queue_id in range(QUEUES):
            plain.register_queue(TOPIC, queue_id)
    directory = filled.config(recover_whole_log=True, index=False).commit_log_directory
    took_s = 0.0
    for name in files.list_directory(directory):
        if int(name) < start_offset:
            continue
        mapped = files.map(f"{directory}/{name}", SEGMENT_BYTES)
        view = mapped.view(0, SEGMENT_BYTES)
        begun, at = perf_counter(), 0
        while plain is not None and plain.scan(view, at, int(name), check_crc=True):
            at = plain.end
        with suppress(CorruptFileError):  # the scan stops at the zeros after the last record
            for _ in scan_records(view, at, len(view), file=name, base_offset=int(name), check_crc=True):
                pass
        took_s += perf_counter() - begun
        view.release()
        mapped.close()
    return took_s


def recovery_rows(found: Iterable[RecoveryTime]) -> list[TableRow]:
    """The distance to the checkpoint is 0 after a clean exit."""
    return [
        (
            "clean" if one.case.clean_exit else "crash",
            one.case.recover_whole_log,
            one.log_bytes,
            0 if one.case.clean_exit else min(one.case.behind_bytes, one.log_bytes),
            one.scanned_bytes,
            one.records,
            *(round(seconds, 4) for seconds in one[4:]),
            *(round(cold_read_s(disk, one.scanned_bytes), 4) for disk in DEVICES),
        )
        for one in found
    ]


def cold_read_s(disk: str, size_bytes: int) -> float:
    device = DEVICES[disk](Choices("cold read").stream("storage"))
    return device.read(0, (0, -(-size_bytes // BLOCK_BYTES))) / 1e9
