from pathlib import Path

import pytest

from tests.bench import command as module
from tests.bench.command import MEASUREMENTS, RATIOS, Measurement, run_bench, select
from tests.bench.figure import Figure
from tests.bench.simulated import crash_runs, digest_overhead, kernel_steps, simulated_messages
from tests.bench.store_measurements import (
    batch_puts,
    clean_load,
    dispatch,
    load_of_queues,
    memory_copy,
    pulls,
    puts,
    queries,
    recovery_scan,
    sequential_write,
    sync_of_a_page,
)
from tests.bench.workplace import BenchSettings, Workplace
from tornlog.faults.disk import fault_injector, files, mapped_file
from tornlog.reports.studies.closed_loop import Latency, Sample
from tornlog.reports.studies.recovery.filled import batch, message
from tornlog.sim.trace import RollingDigest
from tornlog.store.config import FlushDiskType, StoreConfig
from tornlog.store.formats.messages import PutMessageResult, PutMessageStatus
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import overlay_world

_TINY = {
    "seconds": 0.01,
    "log_bytes": 300_000,
    "small_log_bytes": 300_000,
    "segment_bytes": 1 << 20,
    "raw_bytes": 1 << 20,
}


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BenchSettings:
    monkeypatch.setattr(Workplace, "config", _small_config)
    return BenchSettings(str(tmp_path), **_TINY)


def _small_config(place: Workplace, directory: str, **others: object) -> StoreConfig:
    """Keep index files small: the default ones have 420 MB."""
    return StoreConfig(
        f"{directory}/store",
        mapped_file_size_commit_log=place.settings.segment_bytes,
        max_hash_slot_num=1000,
        max_index_num=4000,
        **others,
    )


@pytest.mark.parametrize("sync_flush", [False, True])
def test_a_crash_run_is_complete_and_holds(*, sync_flush: bool) -> None:
    assert crash_runs(sync_flush=sync_flush) > 0.0  # it asserts one crash per run and no violation itself


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("sync_flush", [False, True])
def test_simulated_messages_are_counted_and_hold(*, sync_flush: bool, keyed: bool) -> None:
    assert simulated_messages(sync_flush=sync_flush, keyed=keyed) > 0.0


def test_kernel_steps_are_counted() -> None:
    assert kernel_steps() > 0.0


def test_the_digest_works_again_after_its_overhead_was_measured() -> None:
    originals = RollingDigest.__init__, files.crc32, mapped_file.crc32, fault_injector.crc32
    assert -50.0 < digest_overhead() < 100.0
    assert (RollingDigest.__init__, files.crc32, mapped_file.crc32, fault_injector.crc32) == originals


@pytest.mark.parametrize(("flush", "producers"), [(FlushDiskType.ASYNC_FLUSH, 1), (FlushDiskType.SYNC_FLUSH, 4)])
def test_puts_are_timed_one_by_one(settings: BenchSettings, flush: FlushDiskType, producers: int) -> None:
    with Workplace(settings) as place:
        for sample in (puts(place, 100, flush, producers), batch_puts(place, 100, flush)):
            assert sample.rate > 0.0
            assert sample.latency is not None
            assert 0 < sample.latency.p50_us <= sample.latency.p99_us <= sample.latency.max_us


def test_a_put_that_is_not_answered_ok_is_no_measurement(
    settings: BenchSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = PutMessageResult(PutMessageStatus.OS_PAGECACHE_BUSY)
    monkeypatch.setattr(MessageStore, "put_message", lambda store, message: refused)
    with Workplace(settings) as place, pytest.raises(RuntimeError, match="answered OS_PAGECACHE_BUSY"):
        puts(place, 100, FlushDiskType.ASYNC_FLUSH, 2)
    assert not any(Path(str(settings.directory)).iterdir())


def test_pulls_and_queries_find_every_message(settings: BenchSettings) -> None:
    with Workplace(settings) as place:
        assert pulls(place, 100).rate > 0.0
        assert queries(place).rate > 0.0


def test_a_pull_without_messages_is_no_measurement(settings: BenchSettings) -> None:
    with Workplace(settings) as place:
        place._filled[settings.small_log_bytes, 100, False] = str(settings.directory)
        with pytest.raises(RuntimeError, match="answered NO_MESSAGE_IN_QUEUE, 0 records"):
            pulls(place, 100)


def test_a_query_without_records_is_no_measurement(settings: BenchSettings) -> None:
    with Workplace(settings) as place:
        place._filled[settings.small_log_bytes, 1024, True] = place.filled(settings.small_log_bytes)
        with pytest.raises(RuntimeError, match="a query for key 0 found 0 records"):
            queries(place)


@pytest.mark.parametrize("keyed", [False, True])
def test_dispatch_goes_through_the_whole_backlog(settings: BenchSettings, keyed: bool) -> None:
    with Workplace(settings) as place:
        assert dispatch(place, keyed=keyed).rate > 0.0


def test_opening_reads_the_whole_log_after_any_exit(settings: BenchSettings) -> None:
    with Workplace(settings) as place:
        for sample in (recovery_scan(place), recovery_scan(place, keyed=True), clean_load(place)):
            assert sample.rate > 0.0
        place._filled[settings.log_bytes, 1024, False] = str(settings.directory)
        with pytest.raises(RuntimeError, match="recovery found 0 records"):
            clean_load(place)


def test_a_filled_store_is_made_once_and_is_whole(settings: BenchSettings) -> None:
    with Workplace(settings) as place:
        directory = place.filled(settings.small_log_bytes, 100, keyed=True)
        assert place.filled(settings.small_log_bytes, 100, keyed=True) == directory
        store = MessageStore(overlay_world(), place.config(directory))
        report = store.load()
        assert (report.clean_exit, report.findings, report.records % 32) == (True, [], 0)
        assert store.max_phy_offset >= settings.small_log_bytes
        store.close()


def test_a_store_of_many_queues_is_loaded_with_all_of_them(settings: BenchSettings) -> None:
    with Workplace(settings) as place:
        assert load_of_queues(place, 300).rate > 0.0
        directory = place.with_queues(300)
        assert len(list(Path(directory, "store", "consumequeue", "Bench").iterdir())) == 300


def test_the_machine_is_measured_without_a_store(settings: BenchSettings) -> None:
    with Workplace(settings) as place:
        assert memory_copy(place).rate > 0.0
        assert sequential_write(place).rate > 0.0
        assert sync_of_a_page(place).latency is not None


def test_a_workplace_is_removed_also_after_an_interrupt(settings: BenchSettings) -> None:
    def put_and_interrupt() -> None:
        with Workplace(settings) as place, place.store() as store:
            store.put_message(message(100))
            store.put_messages(batch(100))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        put_and_interrupt()
    assert not any(Path(str(settings.directory)).iterdir())


def test_every_figure_is_measured_as_often_as_asked_and_ratios_round_by_round(
    settings: BenchSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratio = next(ratio for ratio in RATIOS if ratio.floor is not None)
    rates = iter((12.0, 2.0, 21.0, 3.0))
    fakes = [
        Measurement(name, "puts/s", floor, lambda place: Sample(next(rates), Latency(1.0, 2.0, 3.0)))
        for name, floor in ((ratio.over, 10.0), (ratio.under, None))
    ]
    monkeypatch.setattr(module, "MEASUREMENTS", fakes)
    begun: list[str] = []
    figures = run_bench(2, begun.append, settings)
    assert begun == [f"round {number} of 2: {fake.name}" for number in (1, 2) for fake in fakes]
    assert [(figure.name, figure.samples, figure.floor) for figure in figures] == [
        (ratio.over, (12.0, 21.0), 10.0),
        (ratio.under, (2.0, 3.0), None),
        (ratio.name, (6.0, 7.0), ratio.floor),
    ]
    assert all(len(figure.latencies) == len(figure.loads) == 2 for figure in figures[:2])
    assert not any(Path(str(settings.directory)).iterdir())


def test_figures_are_chosen_by_a_part_of_their_names_and_a_ratio_stands_for_both_its_sides() -> None:
    assert select(()) == list(MEASUREMENTS)
    assert len({one.name for one in (*MEASUREMENTS, *RATIOS)}) == len(MEASUREMENTS) + len(RATIOS)
    assert [one.name for one in select(("RECOVERY", "query"))] == [
        one.name for one in MEASUREMENTS if "recovery" in one.name or "query" in one.name
    ]
    there = {one.name for one in MEASUREMENTS}  # without strace, or Maven, a ratio may lack a side
    for ratio in RATIOS:
        assert {ratio.over, ratio.under} & there == {one.name for one in select((ratio.name,))}
    with pytest.raises(ValueError, match="no figure has 'sheep' in its name"):
        select(("query", "sheep"))


def test_a_quick_bench_has_smaller_sizes_in_the_same_place() -> None:
    settings = BenchSettings("/somewhere", log_bytes=1 << 20)
    quick = settings.quick()
    assert (quick.directory, quick.log_bytes, quick.segment_bytes) == ("/somewhere", 1 << 20, 64 << 20)
    assert quick.seconds < settings.seconds
    assert quick.small_log_bytes < settings.small_log_bytes
    assert quick.raw_bytes < settings.raw_bytes
    assert quick.history_operations < settings.history_operations
    assert Figure("sheep", "sheep/s", None, (1.0,)).latency is None
