from pathlib import Path

import pytest

from tests.bench import command as module
from tests.bench.command import MEASUREMENTS, RATIOS, Measurement, run_bench, select
from tests.bench.figure import Figure
from tests.bench.simulated import (
    measure_crash_runs,
    measure_digest_overhead,
    measure_kernel_steps,
    measure_simulated_messages,
)
from tests.bench.store_measurements import (
    measure_batch_puts,
    measure_clean_load,
    measure_dispatch,
    measure_load_of_queues,
    measure_memory_copy,
    measure_page_sync,
    measure_pulls,
    measure_puts,
    measure_queries,
    measure_recovery_scan,
    measure_sequential_write,
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
def test_a_benchmark_crash_run_finishes_without_a_violation(*, sync_flush: bool) -> None:
    assert measure_crash_runs(sync_flush=sync_flush) > 0.0  # it asserts one crash per run and no violation itself


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("sync_flush", [False, True])
def test_simulated_messages_are_counted_and_break_no_invariant(*, sync_flush: bool, keyed: bool) -> None:
    assert measure_simulated_messages(sync_flush=sync_flush, keyed=keyed) > 0.0


def test_kernel_steps_are_counted() -> None:
    assert measure_kernel_steps() > 0.0


def test_measuring_the_digest_overhead_restores_the_original_functions() -> None:
    originals = RollingDigest.__init__, files.crc32, mapped_file.crc32, fault_injector.crc32
    assert -50.0 < measure_digest_overhead() < 100.0
    assert (RollingDigest.__init__, files.crc32, mapped_file.crc32, fault_injector.crc32) == originals


@pytest.mark.parametrize(("flush", "producers"), [(FlushDiskType.ASYNC_FLUSH, 1), (FlushDiskType.SYNC_FLUSH, 4)])
def test_puts_are_timed_one_by_one(settings: BenchSettings, flush: FlushDiskType, producers: int) -> None:
    with Workplace(settings) as place:
        for sample in (measure_puts(place, 100, flush, producers), measure_batch_puts(place, 100, flush)):
            assert sample.rate > 0.0
            assert sample.latency is not None
            assert 0 < sample.latency.p50_us <= sample.latency.p99_us <= sample.latency.max_us


def test_a_put_that_is_not_answered_ok_raises_an_error(
    settings: BenchSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = PutMessageResult(PutMessageStatus.OS_PAGECACHE_BUSY)
    monkeypatch.setattr(MessageStore, "put_message", lambda store, message: refused)
    with Workplace(settings) as place, pytest.raises(RuntimeError, match="answered OS_PAGECACHE_BUSY"):
        measure_puts(place, 100, FlushDiskType.ASYNC_FLUSH, 2)
    assert not any(Path(str(settings.directory)).iterdir())


def test_pulls_and_queries_find_every_message(settings: BenchSettings) -> None:
    with Workplace(settings) as place:
        assert measure_pulls(place, 100).rate > 0.0
        assert measure_queries(place).rate > 0.0


def test_a_pull_without_messages_raises_an_error(settings: BenchSettings) -> None:
    with Workplace(settings) as place:
        place._filled[settings.small_log_bytes, 100, False] = str(settings.directory)
        with pytest.raises(RuntimeError, match="answered NO_MESSAGE_IN_QUEUE, 0 records"):
            measure_pulls(place, 100)


def test_a_query_without_records_raises_an_error(settings: BenchSettings) -> None:
    with Workplace(settings) as place:
        place._filled[settings.small_log_bytes, 1024, True] = place.filled(settings.small_log_bytes)
        with pytest.raises(RuntimeError, match="a query for key 0 found 0 records"):
            measure_queries(place)


@pytest.mark.parametrize("keyed", [False, True])
def test_the_dispatch_benchmark_dispatches_the_whole_backlog(settings: BenchSettings, keyed: bool) -> None:
    with Workplace(settings) as place:
        assert measure_dispatch(place, keyed=keyed).rate > 0.0


def test_the_open_benchmark_reads_the_whole_log_after_clean_and_unclean_exits(settings: BenchSettings) -> None:
    with Workplace(settings) as place:
        for sample in (
            measure_recovery_scan(place),
            measure_recovery_scan(place, keyed=True),
            measure_clean_load(place),
        ):
            assert sample.rate > 0.0
        place._filled[settings.log_bytes, 1024, False] = str(settings.directory)
        with pytest.raises(RuntimeError, match="recovery found 0 records"):
            measure_clean_load(place)


def test_a_filled_store_is_created_once_and_is_complete(settings: BenchSettings) -> None:
    with Workplace(settings) as place:
        directory = place.filled(settings.small_log_bytes, 100, keyed=True)
        assert place.filled(settings.small_log_bytes, 100, keyed=True) == directory
        store = MessageStore(overlay_world(), place.config(directory))
        report = store.load()
        assert (report.clean_exit, report.findings, report.records % 32) == (True, [], 0)
        assert store.max_phy_offset >= settings.small_log_bytes
        store.close()


def test_the_load_benchmark_loads_every_queue_of_the_store(settings: BenchSettings) -> None:
    with Workplace(settings) as place:
        assert measure_load_of_queues(place, 300).rate > 0.0
        directory = place.with_queues(300)
        assert len(list(Path(directory, "store", "consumequeue", "Bench").iterdir())) == 300


def test_machine_figures_are_measured_without_a_store(settings: BenchSettings) -> None:
    with Workplace(settings) as place:
        assert measure_memory_copy(place).rate > 0.0
        assert measure_sequential_write(place).rate > 0.0
        assert measure_page_sync(place).latency is not None


def test_a_workplace_directory_is_removed_even_after_an_interrupt(settings: BenchSettings) -> None:
    def put_and_interrupt() -> None:
        with Workplace(settings) as place, place.store() as store:
            store.put_message(message(100))
            store.put_messages(batch(100))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        put_and_interrupt()
    assert not any(Path(str(settings.directory)).iterdir())


def test_figures_run_the_requested_number_of_times_and_ratios_are_taken_per_round(
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


def test_figures_are_selected_by_part_of_their_name_and_a_ratio_selects_both_figures() -> None:
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


def test_a_quick_bench_uses_smaller_sizes() -> None:
    settings = BenchSettings("/somewhere", log_bytes=1 << 20)
    quick = settings.quick()
    assert (quick.directory, quick.log_bytes, quick.segment_bytes) == ("/somewhere", 1 << 20, 64 << 20)
    assert quick.seconds < settings.seconds
    assert quick.small_log_bytes < settings.small_log_bytes
    assert quick.raw_bytes < settings.raw_bytes
    assert quick.history_operations < settings.history_operations
    assert Figure("sheep", "sheep/s", None, (1.0,)).latency is None
