"""The series that the layouts are compared by: on each disk, by each way to flush, with more and more topics."""

from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from ....faults.devices.flash import nvme_ssd, sata_ssd
from ....faults.devices.hdd import HardDisk
from ....faults.devices.memory import Memory
from ....scenarios.campaigns.interruption import in_processes, interruptible
from ..latency.host import REFERENCE
from ..latency.quantiles import percentiles_us
from .closed_loop import SustainedRate, closed_loop
from .consuming import CaughtUp, catch_up, few_of
from .layouts import TopicLayout
from .open_loop import open_loop
from .setup import FLUSHES, PARTITIONED, SHARED, TopicsSetup
from .timed_machine import DeviceModel, TimedMachine, run_timed

DEVICES: dict[str, DeviceModel] = {
    "hdd": lambda stream: HardDisk(),
    "sata-ssd": lambda stream: sata_ssd(stream, depth=32),
    "nvme-ssd": lambda stream: nvme_ssd(stream, depth=64),
}
"""The devices there are models of. Flash works on as many commands side by side as its queue has room for."""


@dataclass(frozen=True, slots=True)
class LayoutVariant:
    """A layout, under assumptions of its own on where files lie."""

    name: str
    layout: str
    packed: bool = False
    queues_ahead: bool = True


SHARED_LOG = LayoutVariant("shared", SHARED)
PARTITIONED_LOG = LayoutVariant("partitioned", PARTITIONED)
PACKED_LOG = LayoutVariant("packed", PARTITIONED, packed=True)
"""Where a hard disk would find the partitions' pages if the file system packed what it writes back together."""

RATES = {"sync": 100.0, "async": 50.0}
"""Puts per second of the latencies: what one log takes on every disk."""
_SYNC_PUTS = 1_000
_MINUTE_NS = 60_000_000_000
_PUTS_AT_RATE = {"sync": _SYNC_PUTS, "async": int(125 * RATES["async"])}
"""Under async flush over two minutes of them: the longest interval is a minute, between flushes of all queues."""


class AtRate(NamedTuple):
    """What became of puts that arrived at one of RATES."""

    p50_us: float
    p99_us: float
    most_us: float
    busy_share: float
    """For how much of the time the device was busy; under async flush, of the last full minute."""


class Late(NamedTuple):
    """What consumers get who come late."""

    all_lag: CaughtUp
    """Those of all topics."""
    few_lag: CaughtUp
    """Those of a few topics."""


class AtFull(NamedTuple):
    """What producers get who put as fast as they can, and, under async flush, consumers who come late."""

    sustained: SustainedRate
    late: Late | None


class LayoutResult(NamedTuple):
    """What one layout did with so many topics on one disk."""

    disk: str
    variant: str
    flush: str
    topics: int
    at_full: AtFull
    at_rate: AtRate


def memory_of(dirty_mib: int) -> Memory:
    """Return memory of which so many MiB may be dirty before writers wait."""
    return Memory(dirty_bytes_max=dirty_mib << 20)


def variants_on(disk: str) -> tuple[LayoutVariant, ...]:
    """Return what is compared on a disk: placement is a matter of seeks."""
    return (SHARED_LOG, PARTITIONED_LOG, PACKED_LOG) if disk == "hdd" else (SHARED_LOG, PARTITIONED_LOG)


def cells(disks: Sequence[str], topics: Sequence[int]) -> list[tuple[str, str, LayoutVariant, int]]:
    """Return disk, flush, variant and topics of each row, in the order in which they are measured."""
    return [
        (disk, flush, variant, number)
        for disk in disks
        for flush in FLUSHES
        for variant in variants_on(disk)
        for number in topics
    ]


def measure_grid(
    disks: Sequence[str], topics: Sequence[int], puts: int, memory: Memory, seed: int, jobs: int = 1
) -> Iterator[LayoutResult]:
    """Yield each row as it is done, in the order of `cells`. The same arguments give the same rows, with any jobs."""
    measure = partial(_measure_cell, puts=puts, memory=memory, seed=seed)
    if jobs == 1:
        yield from map(measure, cells(disks, topics))
        return
    with interruptible() as interruption:
        for _, found in in_processes(measure, cells(disks, topics), jobs, interruption):
            if isinstance(found, BrokenProcessPool):
                raise found
            yield found
    if interruption.is_wanted:
        raise KeyboardInterrupt


def _measure_cell(
    cell: tuple[str, str, LayoutVariant, int], puts: int, memory: Memory, seed: int
) -> LayoutResult:
    """Return one row: a machine for what is sustained, one for latencies and what consumers get afterwards."""
    disk, flush, variant, topics = cell
    setup = TopicsSetup(
        variant.layout,
        flush,
        topics,
        puts if flush == "async" else _SYNC_PUTS,
        seed=seed,
        memory=memory,
        packed=variant.packed,
        queues_ahead=variant.queues_ahead,
    )
    arriving = replace(setup, puts=_PUTS_AT_RATE[flush])
    return LayoutResult(
        disk, variant.name, flush, topics, measure_at_full(disk, setup), measure_at_rate(disk, arriving)
    )


def measure_at_full(disk: str, setup: TopicsSetup) -> AtFull:
    """Let producers ask again as soon as they are answered, then, under async flush, consumers catch up."""
    return run_timed(setup, REFERENCE, DEVICES[disk], lambda machine: _at_full(machine, machine.start()))


def measure_at_rate(disk: str, setup: TopicsSetup) -> AtRate:
    """Let puts arrive; return what came of it."""
    return run_timed(setup, REFERENCE, DEVICES[disk], lambda machine: _at_rate(machine, machine.start()))


def measure_sustained(disk: str, setup: TopicsSetup) -> SustainedRate:
    """Let producers ask again as soon as they are answered; return what they get."""
    return run_timed(setup, REFERENCE, DEVICES[disk], lambda machine: closed_loop(machine, machine.start()))


def measure_few_lag(disk: str, setup: TopicsSetup) -> CaughtUp:
    """Let producers put as fast as they can; return what late consumers of a few topics get."""
    return run_timed(setup, REFERENCE, DEVICES[disk], lambda machine: _few_lag(machine, machine.start()))


def _few_lag(machine: TimedMachine, layout: TopicLayout) -> CaughtUp:
    closed_loop(machine, layout)
    machine.settle(layout)
    return catch_up(machine, layout, few_of(machine.setup.topics))


def _at_full(machine: TimedMachine, layout: TopicLayout) -> AtFull:
    sustained = closed_loop(machine, layout)
    if machine.setup.flush == "sync":
        return AtFull(sustained, None)
    machine.settle(layout)
    few = catch_up(machine, layout, few_of(machine.setup.topics))
    return AtFull(sustained, Late(catch_up(machine, layout, range(machine.setup.topics)), few))


def _at_rate(machine: TimedMachine, layout: TopicLayout) -> AtRate:
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
    return AtRate(p50, p99, most, min((busy_ns - busy_begun_ns) / (ended_ns - begun_ns), 1.0))
