"""Simulated puts: runs series on models of disk and host, for the grid and single effects.

The grid combines flush modes, disks and numbers of producers. Each producer offers a fifth of the rate of one
closed-loop producer, up to a total that the CPU can handle. So on a slow disk 64 producers offer 64 times the load of
one, and need group commit.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import nsmallest
from typing import Any, NamedTuple

from ....faults.devices.drives import MODELS
from ....sim.machine import WaitReason
from ....sim.policies.random_walk import RoundRobin
from ....sim.process import collect_garbage_at_end
from ....store.message_store import MessageStore
from .host import REFERENCE, HostCosts
from .machine import (
    CONDITIONS,
    FREE,
    PRODUCERS_UNDER_LOAD,
    RATE_UNDER_LOAD,
    SECONDS_UNDER_LOAD,
    SYNC_PUTS_UNDER_LOAD,
    SYNC_RATE_UNDER_LOAD,
    LatencyMachine,
    SystemConfig,
)
from .traffic import FLUSHES, Setup, arrivals, checked_put, message_of, produce
from .waits import RecordingKernel

_ROOT = "/store"
_UNTIL_IT_BLOCKS = 1 << 40
_ARRIVAL = WaitReason("the next arrival")
_DELAYED = WaitReason("what delays a put")
_TIME_LIMIT_NS = 3_600 * 1_000_000_000
DISKS = {name: model.meaning for name, model in MODELS.items()}
PRODUCERS = (1, 4, 16, 64)
RATE_MAX = 4_000.0
"""Puts per second, of all producers together."""
_SHARE = 0.2
_PILOT_PUTS = 200
_SLOWEST = 50
"""Number of puts per series with an explanation of their waits."""
ALL_AT_ONCE = 1e9
"""At this rate each put arrives before the preceding answer, as in a closed loop."""


class SlowPut(NamedTuple):
    """One of the slowest puts of a series."""

    arrived_ns: int
    """Time since the start of the series."""
    latency_ns: int
    causes: dict[str, int]
    """Cause of `waits.CAUSES`, or computing -> ns, longest first."""


@dataclass(frozen=True, slots=True)
class Series:
    """The measurements of one series of puts."""

    latencies_ns: "array[int]"
    """Latencies of all puts, by producer."""
    answered_ns: "array[int]"
    """Times of the answers since the start, in the same order."""
    took_ns: int
    """Time from the start to the last answer."""
    syncs: int
    """File syncs of the store, except those of its start and stop."""
    slowest: tuple[SlowPut, ...]
    """The slowest puts, slowest first."""

    @property
    def rate(self) -> float:
        return len(self.latencies_ns) / self.took_ns * 1e9


def simulate(
    setup: Setup,
    host: HostCosts,
    system: SystemConfig,
    *,
    prepare: Callable[[MessageStore], None] | None = None,
    lead_ns: int = 0,
    **faults: Any,
) -> Series:
    """Run one series of puts in virtual time, with faults named as in FaultPlan.

    prepare: called with the store before its first put. lead_ns: time for which a neighbour runs before the first
    arrival. The same arguments give the same series.
    """
    kernel = RecordingKernel(RoundRobin(_UNTIL_IT_BLOCKS), step_limit=1 << 60)
    with collect_garbage_at_end(), kernel:
        run = _SimulatedSeries(setup, LatencyMachine(kernel, host, system, setup.seed), faults)
        return kernel.run(run.on.machine, lambda: run.body(prepare, lead_ns), time_limit_ns=_TIME_LIMIT_NS)


class _SimulatedSeries:
    def __init__(self, setup: Setup, on: LatencyMachine, faults: dict[str, Any]) -> None:
        self.setup, self.on, self.faults = setup, on, faults

    def body(self, prepare: Callable[[MessageStore], None] | None, lead_ns: int) -> Series:
        setup, on, kernel = self.setup, self.on, self.on.kernel
        store = MessageStore(on.world(), setup.config(_ROOT))
        store.load()
        store.start()
        if prepare is not None:
            prepare(store)
        store.put_message(message_of(setup))  # creates the first segment
        store.on_arriving.append(lambda _: on.processor.compute(on.host.dispatch_ns))
        if lead_ns:
            kernel.park(_ARRIVAL, kernel.now_ns + lead_ns)
        begun_ns, syncs = kernel.now_ns, on.syncs
        kernel.machine_name = on.machine.name
        producers = [_Producer(self.on, store, setup, number) for number in range(setup.producers)]
        with on.disk.with_faults(**self.faults):
            tasks = [
                on.tasks.spawn(producer.name, partial(producer.run, gaps_ns))
                for producer, gaps_ns in zip(producers, arrivals(setup), strict=True)
            ]
            for task in tasks:
                task.join(None)
        took_ns = kernel.now_ns - begun_ns
        kernel.machine_name = None
        found = Series(
            sum((one.latencies_ns for one in producers), array("q")),
            array("q", (ended_ns - begun_ns for one in producers for ended_ns in one.answered_ns)),
            took_ns,
            on.syncs - syncs,
            self._explain_slowest(producers, begun_ns),
        )
        store.shutdown()
        return found

    def _explain_slowest(self, producers: Sequence["_Producer"], begun_ns: int) -> tuple[SlowPut, ...]:
        kernel, prefix = self.on.kernel, self.on.machine.name
        kernel.machine_name = prefix
        puts = (
            (-latency_ns, ended_ns, one.name)
            for one in producers
            for latency_ns, ended_ns in zip(one.latencies_ns, one.answered_ns, strict=True)
        )
        found = []
        for negative_ns, ended_ns, name in nsmallest(_SLOWEST, puts):
            arrived_ns = ended_ns + negative_ns
            causes = kernel.causes_of(f"{prefix}/{name}", arrived_ns, ended_ns)
            found.append(SlowPut(arrived_ns - begun_ns, -negative_ns, causes))
        kernel.machine_name = None
        return tuple(found)


class _Producer:
    """One producer, with the latencies and times of its answers."""

    def __init__(self, on: LatencyMachine, store: MessageStore, setup: Setup, number: int) -> None:
        self.name = f"producer-{number}"
        self.latencies_ns: array[int] = array("q")
        self.answered_ns: array[int] = array("q")
        self._on = on
        self._put_message = checked_put(store, message_of(setup))
        self._stream = on.choices.stream(f"puts-{number}")

    def run(self, gaps_ns: "array[int]") -> None:
        kernel = self._on.kernel
        self.latencies_ns = produce(gaps_ns, lambda: kernel.now_ns, self._sleep_ns, self._put)

    def _sleep_ns(self, ns: int) -> None:
        kernel = self._on.kernel
        kernel.park(_ARRIVAL, kernel.now_ns + ns)

    def _put(self) -> None:
        kernel, host = self._on.kernel, self._on.host
        took_ns = host.put.draw(self._stream, "put")
        work_ns = min(host.put_work_ns, took_ns)
        self._on.processor.compute(work_ns)
        if took_ns > work_ns:
            kernel.park(_DELAYED, kernel.now_ns + took_ns - work_ns)
        self._put_message()
        self.answered_ns.append(kernel.now_ns)


class LatencySeries(NamedTuple):
    """One series of the grid."""

    disk: str
    condition: str
    """One of conditions.CONDITIONS."""
    setup: Setup
    series: Series


def grid_cells(disks: Sequence[str], producers: Sequence[int]) -> list[tuple[str, str, str, int]]:
    """Return disk, condition, flush mode and number of producers of each series, in order of measurement."""
    free = [(disk, FREE, flush, number) for disk in disks for flush in FLUSHES for number in producers]
    others = [condition for condition in CONDITIONS if condition != FREE]
    return free + [(disk, name, flush, PRODUCERS_UNDER_LOAD) for disk in disks for name in others for flush in FLUSHES]


def measure_grid(disks: Sequence[str], producers: Sequence[int], puts: int, seed: int) -> Iterator[LatencySeries]:
    """Yield each finished series. The same arguments give the same series."""
    alone: dict[tuple[str, str], float] = {}
    for disk, condition, flush, number in grid_cells(disks, producers):
        system, rate, count = CONDITIONS[condition].system(disk), RATE_UNDER_LOAD, puts
        if condition == FREE:
            if (disk, flush) not in alone:
                alone[disk, flush] = simulate(Setup(flush, 1, ALL_AT_ONCE, _PILOT_PUTS), REFERENCE, system).rate
            rate = min(_SHARE * alone[disk, flush] * number, RATE_MAX)
        elif flush == "sync":
            rate, count = SYNC_RATE_UNDER_LOAD, min(puts, SYNC_PUTS_UNDER_LOAD)
        else:
            count = min(puts, round(rate * SECONDS_UNDER_LOAD))
        setup = Setup(flush, number, rate, count, seed=seed)
        yield LatencySeries(disk, condition, setup, simulate(setup, REFERENCE, system))


class GroupCommit(NamedTuple):
    """The throughput of closed-loop producers on one disk under sync flush."""

    disk: str
    producers: int
    puts_per_second: float
    puts_per_sync: float


class EffectSeries(NamedTuple):
    """One of several series that differ in one setting."""

    name: str
    series: Series


def group_commit(disks: Sequence[str], producers: Sequence[int], puts: int) -> Iterator[GroupCommit]:
    for disk in disks:
        for number in producers:
            setup = Setup("sync", number, ALL_AT_ONCE, puts)
            series = simulate(setup, REFERENCE, SystemConfig(disk))
            yield GroupCommit(disk, number, series.rate, puts / max(series.syncs, 1))


def rollover(disk: str, puts: int) -> Iterator[EffectSeries]:
    """Simulate one producer under async flush, over many small segments.

    Three variants: segments are created and warmed ahead, only created ahead, or created on demand.
    """
    system = SystemConfig(disk)
    for name, warm, prepare in (
        ("created and warmed ahead", True, None),
        ("created ahead", False, None),
        ("created on demand", False, _create_segments_on_demand),
    ):
        setup = Setup("async", 1, RATE_MAX / 8, puts, segment_bytes=256 << 10, warm=warm)
        yield EffectSeries(name, simulate(setup, REFERENCE, system, prepare=prepare))


def slow_syncs(disk: str, puts: int) -> Iterator[EffectSeries]:
    """Simulate four producers: with usual syncs, and with one in a hundred syncs taking up to half a second."""
    system = SystemConfig(disk)
    for flush in ("sync", "async"):
        setup = Setup(flush, 4, 100.0, puts)
        yield EffectSeries(f"{flush}, all as usual", simulate(setup, REFERENCE, system))
        slow = simulate(setup, REFERENCE, system, slow_sync_chance=0.01, slow_sync_ms_max=500)
        yield EffectSeries(f"{flush}, 1 % of syncs slow", slow)


def _create_segments_on_demand(store: MessageStore) -> None:
    """Make a store create segments only on demand. No setting does this."""
    store.allocate._remaining_request_budget = lambda: 1  # type: ignore[method-assign]
