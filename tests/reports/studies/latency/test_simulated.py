from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest

from tornlog.faults.devices.drives import DurationDistribution
from tornlog.faults.devices.storage import Run
from tornlog.faults.devices.unjournaled import MetadataWrites
from tornlog.reports.quantities import percentiles_us
from tornlog.reports.studies.latency.host import PAUSES_OF_JVM, REFERENCE, HostCosts
from tornlog.reports.studies.latency.machine import FREE as FREE_MEMORY
from tornlog.reports.studies.latency.machine import SYNC_PUTS_UNDER_LOAD, Neighbour, SystemConfig
from tornlog.reports.studies.latency.simulated import (
    ALL_AT_ONCE,
    DISKS,
    RATE_MAX,
    LatencySeries,
    Series,
    grid_cells,
    group_commit,
    measure_grid,
    rollover,
    simulate,
    slow_syncs,
)
from tornlog.reports.studies.latency.traffic import Setup
from tornlog.sim.choices import Stream

US = 1_000
MIB = 1 << 20
FREE = HostCosts(DurationDistribution([0]), 0, DurationDistribution([0]), 0, 0, 0)
"""A host on which no operation takes time."""


class Steady:
    """A device on which each flush takes 500 us, and other requests take no time."""

    blocks = 1 << 30

    def __init__(self, stream: Stream) -> None:
        pass

    def write(self, now_ns: int, runs: Sequence[Run]) -> int:
        return now_ns

    def read(self, now_ns: int, run: Run) -> int:
        return now_ns

    def flush(self, now_ns: int) -> int:
        return now_ns + 500 * US


STEADY = SystemConfig("steady", device=Steady, unjournaled=MetadataWrites(0, 0))


def test_a_put_under_sync_flush_takes_computing_handover_and_sync() -> None:
    host = replace(
        FREE, put=DurationDistribution([20 * US]), put_work_ns=20 * US, handover=DurationDistribution([80 * US])
    )
    series = simulate(Setup("sync", 1, 100.0, 50), host, STEADY)

    assert percentiles_us(series.latencies_ns, [0.5]) == [20 + 80 + 500]
    assert series.syncs == 50


def test_a_put_under_async_flush_takes_only_computing() -> None:
    host = replace(FREE, put=DurationDistribution([20 * US]), put_work_ns=20 * US)
    for flush in ("async", "pool"):
        series = simulate(Setup(flush, 1, 100.0, 50), host, STEADY)
        assert set(series.latencies_ns) == {20 * US}


def test_producers_share_the_processor_and_the_syncs() -> None:
    host = replace(FREE, put=DurationDistribution([50 * US]), put_work_ns=50 * US)
    alone = simulate(Setup("async", 1, ALL_AT_ONCE, 200), host, STEADY)
    together = simulate(Setup("async", 8, ALL_AT_ONCE, 200), host, STEADY)
    assert together.rate == pytest.approx(alone.rate, rel=0.01)

    alone = simulate(Setup("sync", 1, ALL_AT_ONCE, 200), FREE, STEADY)
    together = simulate(Setup("sync", 8, ALL_AT_ONCE, 200), FREE, STEADY)
    assert alone.rate == pytest.approx(2_000, rel=0.02)
    assert together.rate > 3 * alone.rate
    assert together.syncs < alone.syncs / 3


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("system", [STEADY, SystemConfig("nvme-ssd")])
def test_the_first_write_to_a_page_causes_a_fault_also_if_warmed_because_a_new_segment_is_synced(
    system: SystemConfig, *, warm: bool
) -> None:
    setup = Setup("async", 1, 1_000.0, 400, body_bytes=1_000, segment_bytes=1 << 20, warm=warm)
    latencies_ns = simulate(setup, replace(FREE, touch_ns=30 * US), system).latencies_ns

    assert sum(took_ns > 0 for took_ns in latencies_ns) == pytest.approx(400 * 1_100 / 4096, rel=0.1)


BUSY = SystemConfig("hdd", memory_bytes=256 * MIB, neighbour=Neighbour(400 * MIB, sync_ms=0))


@cache
def puts_beside(neighbour: Neighbour, flush: str = "async") -> Series:
    return simulate(Setup(flush, 2, 400.0, 2_400), REFERENCE, replace(BUSY, neighbour=neighbour))


def test_a_neighbour_that_writes_too_fast_delays_puts_under_async_flush_but_not_puts_into_the_pool() -> None:
    def p99_us(flush: str) -> float:
        return percentiles_us(puts_beside(BUSY.neighbour, flush).latencies_ns, [0.99])[0]

    assert p99_us("async") > 5_000
    assert p99_us("pool") < 500


def test_a_neighbour_that_writes_past_the_page_cache_delays_puts_less() -> None:
    def p99_us(neighbour: Neighbour) -> float:
        return percentiles_us(puts_beside(neighbour).latencies_ns, [0.99])[0]

    assert p99_us(replace(BUSY.neighbour, is_direct=True)) < p99_us(BUSY.neighbour) / 2


def test_a_slow_put_names_the_waits_of_the_task_for_which_it_waited() -> None:
    series = puts_beside(BUSY.neighbour)
    slowest = series.slowest[0]

    assert slowest.latency_ns == max(series.latencies_ns)
    assert sum(slowest.causes.values()) == slowest.latency_ns
    assert next(iter(slowest.causes)) in ("journal locked", "journal buffer")
    others = [one for one in series.slowest if one.arrived_ns != slowest.arrived_ns]
    assert any("journal locked" in one.causes for one in others)


def test_a_fault_that_waits_stops_all_threads_of_a_host_with_an_interpreter_lock_only() -> None:
    def p99_us(flush: str, holds: bool) -> float:
        host = replace(REFERENCE, holds_interpreter_lock=holds)
        stable = replace(BUSY, stable_pages=True)
        return percentiles_us(simulate(Setup(flush, 2, 400.0, 1_200), host, stable).latencies_ns, [0.99])[0]

    assert p99_us("pool", True) > 5_000  # dispatch stores to a queue file
    assert p99_us("pool", False) < 1_000


def test_pauses_of_all_threads_delay_puts_in_every_flush_mode() -> None:
    host = replace(REFERENCE, pauses=replace(PAUSES_OF_JVM, per_second=2.0))
    for flush in ("async", "pool"):
        slowest = simulate(Setup(flush, 2, 400.0, 1_200), host, SystemConfig("nvme-ssd")).slowest[0]
        assert slowest.latency_ns > 2_000 * US
        assert next(iter(slowest.causes)) == "pause"


def test_the_same_arguments_give_the_same_series_on_every_disk() -> None:
    for disk in DISKS:
        setup, system = Setup("sync", 4, 200.0, 60, seed=5), SystemConfig(disk, neighbour=Neighbour(10 * MIB))
        one, other = (simulate(setup, REFERENCE, system) for _ in range(2))
        assert one == other
        assert one != simulate(replace(setup, seed=6), REFERENCE, system)


def test_slow_syncs_delay_puts_under_sync_flush_but_not_under_async_flush() -> None:
    def slowest_us(flush: str, chance: float) -> float:
        series = simulate(Setup(flush, 2, 100.0, 300), FREE, STEADY, slow_sync_chance=chance, slow_sync_ms_max=200)
        return max(series.latencies_ns) / US

    assert slowest_us("sync", 0.0) < 5_000
    assert slowest_us("sync", 0.05) > 20_000
    assert slowest_us("async", 0.05) == 0


def test_group_commit_increases_the_rate_with_the_number_of_producers() -> None:
    alone, many = group_commit(["sata-ssd"], [1, 16], 200)

    assert (alone.producers, many.producers) == (1, 16)
    assert 0.95 < alone.puts_per_sync <= 1.0
    assert many.puts_per_sync > 4
    assert many.puts_per_second > 4 * alone.puts_per_second


def test_a_segment_created_on_demand_delays_the_put_that_needs_it() -> None:
    slowest_us = {one.name: max(one.series.latencies_ns) / 1_000 for one in rollover("hdd", 800)}

    assert slowest_us["created on demand"] > 30_000
    assert slowest_us["created ahead"] < slowest_us["created on demand"] / 3
    assert slowest_us["created and warmed ahead"] < slowest_us["created on demand"] / 3


@pytest.mark.ci
def test_a_slow_sync_delays_the_puts_that_wait_for_it() -> None:
    p99_us = {one.name: percentiles_us(one.series.latencies_ns, [0.99])[0] for one in slow_syncs("sata-ssd", 4_000)}

    assert p99_us["sync, 1 % of syncs slow"] > 3 * p99_us["sync, all as usual"]
    assert p99_us["async, 1 % of syncs slow"] == p99_us["async, all as usual"]


@pytest.fixture(scope="module")
def grid() -> list[LatencySeries]:
    return list(measure_grid(["hdd", "nvme-ssd"], [1, 4, 64], 100, seed=1))


@pytest.mark.ci
def test_the_latency_grid_has_a_series_for_every_disk_flush_mode_and_number_of_producers(
    grid: list[LatencySeries],
) -> None:
    places = [(one.disk, one.condition, one.setup.flush, one.setup.producers) for one in grid]

    assert places == grid_cells(["hdd", "nvme-ssd"], [1, 4, 64])
    assert len(grid) == 18 + 12
    assert {len(one.series.latencies_ns) for one in grid} == {100, SYNC_PUTS_UNDER_LOAD}


@pytest.mark.ci
def test_the_load_grows_with_the_number_of_producers_up_to_a_limit(grid: list[LatencySeries]) -> None:
    rates = {
        (one.disk, one.setup.flush, one.setup.producers): one.setup.rate for one in grid if one.condition == FREE_MEMORY
    }

    assert rates["hdd", "sync", 4] == pytest.approx(4 * rates["hdd", "sync", 1])
    assert rates["nvme-ssd", "sync", 64] == rates["hdd", "async", 64] == RATE_MAX
