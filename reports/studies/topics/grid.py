"""Grid: measures topic layouts in all cases, and with single changed assumptions.

The grid combines disks, flush modes and numbers of topics.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import methodcaller
from typing import NamedTuple, TypeVar

from ....faults.devices.drives import MODELS, DeviceModel
from ....faults.devices.pages import PageCacheLimits
from ....scenarios.campaigns.worker_pool import run_jobs
from ....sim.interruption import interruptible
from ...quantities import percentiles_us
from ..latency.host import REFERENCE
from .layouts import FLUSHES, LAYOUTS, PARTITIONED, SHARED, TopicLayout, TopicsSetup
from .timed_machine import TimedMachine, run_timed
from .workload import CaughtUp, SustainedRate, closed_loop, few_topics_of, open_loop, run_late_consumers

T = TypeVar("T")
DEVICES: dict[str, DeviceModel] = {name: model.make for name, model in MODELS.items()}
RATES = {"sync": 100.0, "async": 50.0}
"""Puts per second for latencies: a rate that a single log sustains on every disk."""
_SYNC_PUTS = 1_000
_MINUTE_NS = 60_000_000_000
_PUTS_AT_RATE = {"sync": _SYNC_PUTS, "async": int(125 * RATES["async"])}
"""Number of puts to measure latencies. Under async flush they take two minutes, because all queues are flushed once a
minute.
"""
AS_ASSUMED = "as in the grid"
PACKED = "partitions packed together"
_TIMES = 2
_READ_AHEAD_PAGES = 256


@dataclass(frozen=True, slots=True)
class LayoutVariant:
    """A layout and its assumption about the placement of files on disk."""

    name: str
    layout: str
    packed: bool = False


SHARED_LOG = LayoutVariant("shared", SHARED)
PARTITIONED_LOG = LayoutVariant("partitioned", PARTITIONED)
PACKED_LOG = LayoutVariant("packed", PARTITIONED, packed=True)
"""The file system stores pages next to each other on disk if they are written back together."""


class RateResult(NamedTuple):
    """The latencies of puts that arrive at a rate of RATES."""

    p50_us: float
    p99_us: float
    most_us: float
    busy_share: float
    """The share of time in which the device was busy; under async flush, in the last full minute."""


class LateConsumerRates(NamedTuple):
    """The rates of consumers that read old records."""

    all_lag: CaughtUp
    few_lag: CaughtUp


class FullSpeedResult(NamedTuple):
    """The rates of producers at full speed and, under async flush, of late consumers."""

    sustained: SustainedRate
    late: LateConsumerRates | None


class LayoutResult(NamedTuple):
    """One layout with one number of topics on one disk."""

    disk: str
    variant: str
    flush: str
    topics: int
    at_full: FullSpeedResult
    at_rate: RateResult


def _variants_on(disk: str) -> tuple[LayoutVariant, ...]:
    """Return the variants to compare on a disk. Placement matters only on disks with seek times."""
    return (SHARED_LOG, PARTITIONED_LOG, PACKED_LOG) if disk == "hdd" else (SHARED_LOG, PARTITIONED_LOG)


class AssumptionResult(NamedTuple):
    """The result of one layout under one assumption: sustained puts, or rates of consumers of a few topics."""

    assumption: str
    layout: str
    topics: int
    sustained: SustainedRate | None
    few_lag: CaughtUp | None


@dataclass(frozen=True, slots=True)
class GridCell:
    """One case of the grid."""

    disk: str
    variant: LayoutVariant
    setup: TopicsSetup

    def measure(self) -> LayoutResult:
        """Measure sustained puts on one machine, then latencies and consumers on a second machine."""
        setup = self.setup
        arriving = replace(setup, puts=_PUTS_AT_RATE[setup.flush])
        at_full, at_rate = (
            _measure_case(self.disk, setup, _measure_at_full_speed),
            _measure_case(self.disk, arriving, _measure_at_rate),
        )
        return LayoutResult(self.disk, self.variant.name, setup.flush, setup.topics, at_full, at_rate)


@dataclass(frozen=True, slots=True)
class AssumptionCase:
    """A layout under one changed assumption."""

    disk: str
    assumption: str
    setup: TopicsSetup
    is_about_reading: bool

    def measure(self) -> AssumptionResult:
        setup, reads = self.setup, self.is_about_reading
        sustained = None if reads else _measure_case(self.disk, setup, closed_loop)
        few_lag = _measure_case(self.disk, setup, _measure_few_late_topics) if reads else None
        return AssumptionResult(self.assumption, setup.layout, setup.topics, sustained, few_lag)


def grid_cells(
    disks: Sequence[str], topics: Sequence[int], puts: int, memory: PageCacheLimits, seed: int
) -> list[GridCell]:
    def setup_of(flush: str, variant: LayoutVariant, number: int) -> TopicsSetup:
        count, packed = puts if flush == "async" else _SYNC_PUTS, variant.packed
        return TopicsSetup(variant.layout, flush, number, count, seed=seed, memory=memory, packed=packed)

    return [
        GridCell(disk, variant, setup_of(flush, variant, number))
        for disk in disks
        for flush in FLUSHES
        for variant in _variants_on(disk)
        for number in topics
    ]


def writing_cases(disk: str, topics: int, puts: int, memory: PageCacheLimits, seed: int) -> list[AssumptionCase]:
    """Return cases with async flush, one for each changed assumption about write-back."""
    more = replace(memory, dirty_bytes_max=memory.dirty_bytes_max * _TIMES)
    cases = []
    for layout in LAYOUTS:
        base = TopicsSetup(layout, "async", topics, puts, seed=seed, memory=memory)
        changed = {
            "twice the memory": replace(base, memory=more, puts=puts * _TIMES),
            "flushed only by the kernel": replace(base, flushes=False),
        }
        if layout == SHARED:
            changed["queues placed as written"] = replace(base, queues_ahead=False)
        cases += [AssumptionCase(disk, name, setup, False) for name, setup in changed.items()]
    return cases


def reading_cases(disk: str, topics: int, puts: int, memory: PageCacheLimits, seed: int) -> list[AssumptionCase]:
    """Return cases with late consumers of a few topics, one for each changed assumption about read-ahead."""
    cases = []
    for layout in LAYOUTS:
        base = TopicsSetup(layout, "async", topics, puts, seed=seed, memory=memory)
        changed = {"read-ahead up to 1 MiB": replace(base, read_ahead_pages=_READ_AHEAD_PAGES)}
        if layout == SHARED:
            changed["no read around faults of maps"] = replace(base, around_faults=False)
        cases += [AssumptionCase(disk, name, setup, True) for name, setup in changed.items()]
    return cases


def measure_each(
    cases: Iterable[GridCell | AssumptionCase], jobs: int = 1
) -> Iterator[LayoutResult | AssumptionResult]:
    """Measure the cases in `jobs` processes, and yield the results in order. `jobs` does not affect the results."""
    with interruptible() as interruption:
        for _, found in run_jobs(methodcaller("measure"), cases, jobs, interruption):
            yield found
    if interruption.is_requested:
        raise KeyboardInterrupt


def _measure_case(disk: str, setup: TopicsSetup, body: Callable[[TimedMachine, TopicLayout], T]) -> T:
    return run_timed(setup, REFERENCE, DEVICES[disk], lambda machine: body(machine, machine.start()))


def _measure_few_late_topics(machine: TimedMachine, layout: TopicLayout) -> CaughtUp:
    closed_loop(machine, layout)
    machine.settle(layout)
    return run_late_consumers(machine, layout, few_topics_of(machine.setup.topics))


def _measure_at_full_speed(machine: TimedMachine, layout: TopicLayout) -> FullSpeedResult:
    sustained = closed_loop(machine, layout)
    if machine.setup.flush == "sync":
        return FullSpeedResult(sustained, None)
    machine.settle(layout)
    few = run_late_consumers(machine, layout, few_topics_of(machine.setup.topics))
    return FullSpeedResult(
        sustained, LateConsumerRates(run_late_consumers(machine, layout, range(machine.setup.topics)), few)
    )


def _measure_at_rate(machine: TimedMachine, layout: TopicLayout) -> RateResult:
    flush, elevator = machine.setup.flush, machine.system.elevator
    looked: list[tuple[int, int]] = [(machine.kernel.now_ns, elevator.busy_ns)]

    def look_each_minute() -> None:
        while True:
            machine.sleep_ns(_MINUTE_NS)
            looked.append((machine.kernel.now_ns, elevator.busy_ns))

    machine.tasks.spawn("looks each minute", look_each_minute)
    latencies_ns = open_loop(machine, layout, RATES[flush])
    if flush == "sync":
        looked.append((machine.kernel.now_ns, elevator.busy_ns))
    (begun_ns, busy_begun_ns), (ended_ns, busy_ns) = looked[-2:]
    p50, p99, most = percentiles_us(latencies_ns, (0.5, 0.99, 1.0))
    return RateResult(p50, p99, most, min((busy_ns - busy_begun_ns) / (ended_ns - begun_ns), 1.0))


def writing_in_grid(rows: Sequence[LayoutResult], disk: str, topics: int) -> Iterator[AssumptionResult]:
    """Yield the grid's results of sustained puts under async flush."""
    for row in rows:
        if (row.disk, row.flush, row.topics) == (disk, "async", topics):
            packed = row.variant == PACKED_LOG.name
            name, layout = (PACKED, PACKED_LOG.layout) if packed else (AS_ASSUMED, row.variant)
            yield AssumptionResult(name, layout, topics, row.at_full.sustained, None)


def reading_in_grid(rows: Sequence[LayoutResult], disk: str, topics: int) -> Iterator[AssumptionResult]:
    """Yield the grid's results of consumers of a few topics."""
    for row in rows:
        if (row.disk, row.topics) == (disk, topics) and row.at_full.late and row.variant in LAYOUTS:
            yield AssumptionResult(AS_ASSUMED, row.variant, topics, None, row.at_full.late.few_lag)
