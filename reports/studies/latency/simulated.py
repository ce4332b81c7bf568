"""Simulated puts: runs series on models of disk and host, for the grid and single effects.

The grid combines flush modes, disks and numbers of producers. Each producer offers a fifth of the rate of one
closed-loop producer, up to a total that the CPU can handle. So on a slow disk 64 producers offer 64 times the load of
one, and need group commit.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from ....faults.devices.drives import MODELS, StorageModel
from ....faults.devices.storage import StorageTiming
from ....faults.disk.disk import Disk
from ....sim.choices import Choices
from ....sim.kernel import Kernel
from ....sim.machine import SimProcessor, WaitReason
from ....sim.policies.random_walk import RoundRobin
from ....store.formats.messages import Message
from ....store.message_store import MessageStore
from ....store.world import Files, World
from .host import REFERENCE, FileStalls, HostCosts, HostTasks, PageFaultFiles
from .traffic import FLUSHES, Setup, arrivals, checked_put, message_of, produce

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
ALL_AT_ONCE = 1e9
"""At this rate each put arrives before the preceding answer, as in a closed loop."""


@dataclass(frozen=True, slots=True)
class Series:
    """The measurements of one series of puts."""

    latencies_ns: "array[int]"
    """Latencies of all puts, by producer."""
    took_ns: int
    """Time from the start to the last answer."""
    syncs: int
    """File syncs of the store, except those of its start and stop."""

    @property
    def rate(self) -> float:
        return len(self.latencies_ns) / self.took_ns * 1e9


def simulate(
    setup: Setup,
    host: HostCosts,
    model: StorageModel,
    *,
    prepare: Callable[[MessageStore], None] | None = None,
    on_traffic: Callable[[], None] | None = None,
    stalls: FileStalls | None = None,
    **faults: Any,
) -> Series:
    """Run one series of puts in virtual time, with faults named as in FaultPlan.

    prepare: called with the store before its first put. on_traffic: called before the first arrival; stalls apply from
    then on. The same arguments give the same series.
    """
    with Kernel(RoundRobin(_UNTIL_IT_BLOCKS), step_limit=1 << 60) as kernel:
        run = _SimulatedSeries(setup, host, model, kernel, faults)
        return kernel.run(run.machine, lambda: run.body(prepare, on_traffic, stalls), time_limit_ns=_TIME_LIMIT_NS)


class _SimulatedSeries:
    def __init__(
        self, setup: Setup, host: HostCosts, model: StorageModel, kernel: Kernel, faults: dict[str, Any]
    ) -> None:
        self.setup, self.host, self.kernel, self.faults = setup, host, kernel, faults
        self.choices = Choices(f"latency/{setup.seed}")
        self.machine = kernel.create_machine("host")
        self.timing = StorageTiming(model(self.choices.stream("storage")))
        self.disk = Disk(kernel, self.choices.stream("disk"), timing=self.timing)
        self.processor = SimProcessor(kernel)

    def body(
        self,
        prepare: Callable[[MessageStore], None] | None,
        on_traffic: Callable[[], None] | None,
        stalls: FileStalls | None,
    ) -> Series:
        setup, kernel, machine = self.setup, self.kernel, self.machine
        files = PageFaultFiles(self.disk.mount(machine), self.processor, self.host.touch_ns)
        tasks = HostTasks(machine, self.host, self.processor, self.choices.stream("handovers"))
        store = MessageStore(World(machine.clock, tasks, cast(Files, files)), setup.config(_ROOT))
        store.load()
        store.start()
        if prepare is not None:
            prepare(store)
        message = message_of(setup)
        store.put_message(message)  # creates the first segment
        store.on_arriving.append(lambda _: self.processor.compute(self.host.dispatch_ns))
        if on_traffic is not None:
            on_traffic()
        if stalls is not None:
            files.stalls = stalls.from_first_write()
        begun_ns, syncs = kernel.now_ns, self.timing.syncs
        series: list[array[int]] = [array("q") for _ in range(setup.producers)]
        with self.disk.with_faults(**self.faults):
            producers = [
                tasks.spawn(f"producer-{number}", self._producer(store, message, gaps_ns, series, number))
                for number, gaps_ns in enumerate(arrivals(setup))
            ]
            for producer in producers:
                producer.join(None)
        found = Series(sum(series, array("q")), kernel.now_ns - begun_ns, self.timing.syncs - syncs)
        store.shutdown()
        return found

    def _producer(
        self, store: MessageStore, message: Message, gaps_ns: "array[int]", series: list["array[int]"], number: int
    ) -> Callable[[], None]:
        kernel, host, work = self.kernel, self.host, self.processor.compute
        draw, stream = host.put.draw, self.choices.stream(f"puts-{number}")
        put_message = checked_put(store, message)

        def put() -> None:
            took_ns = draw(stream, "put")
            work_ns = min(host.put_work_ns, took_ns)
            work(work_ns)
            if took_ns > work_ns:
                kernel.park(_DELAYED, kernel.now_ns + took_ns - work_ns)
            put_message()

        def sleep_ns(ns: int) -> None:
            kernel.park(_ARRIVAL, kernel.now_ns + ns)

        def body() -> None:
            series[number] = produce(gaps_ns, lambda: kernel.now_ns, sleep_ns, put)

        return body


class LatencySeries(NamedTuple):
    """One series of the grid."""

    disk: str
    setup: Setup
    series: Series


def grid_cells(disks: Sequence[str], producers: Sequence[int]) -> list[tuple[str, str, int]]:
    """Return disk, flush mode and number of producers of each series, in order of measurement."""
    return [(disk, flush, number) for disk in disks for flush in FLUSHES for number in producers]


def measure_grid(disks: Sequence[str], producers: Sequence[int], puts: int, seed: int) -> Iterator[LatencySeries]:
    """Yield each finished series. The same arguments give the same series."""
    alone: dict[tuple[str, str], float] = {}
    for disk, flush, number in grid_cells(disks, producers):
        model = MODELS[disk].make
        if (disk, flush) not in alone:
            alone[disk, flush] = simulate(Setup(flush, 1, ALL_AT_ONCE, _PILOT_PUTS), REFERENCE, model).rate
        rate = min(_SHARE * alone[disk, flush] * number, RATE_MAX)
        setup = Setup(flush, number, rate, puts, seed=seed)
        yield LatencySeries(disk, setup, simulate(setup, REFERENCE, model))


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
            series = simulate(setup, REFERENCE, MODELS[disk].make)
            yield GroupCommit(disk, number, series.rate, puts / max(series.syncs, 1))


def rollover(disk: str, puts: int) -> Iterator[EffectSeries]:
    """Simulate one producer under async flush, over many small segments.

    Three variants: segments are created and warmed ahead, only created ahead, or created on demand.
    """
    model = MODELS[disk].make
    for name, warm, prepare in (
        ("created and warmed ahead", True, None),
        ("created ahead", False, None),
        ("created on demand", False, _create_segments_on_demand),
    ):
        setup = Setup("async", 1, RATE_MAX / 8, puts, segment_bytes=256 << 10, warm=warm)
        yield EffectSeries(name, simulate(setup, REFERENCE, model, prepare=prepare))


def slow_syncs(disk: str, puts: int) -> Iterator[EffectSeries]:
    """Simulate four producers: with usual syncs, and with one in a hundred syncs taking up to half a second."""
    model = MODELS[disk].make
    for flush in ("sync", "async"):
        setup = Setup(flush, 4, 100.0, puts)
        yield EffectSeries(f"{flush}, all as usual", simulate(setup, REFERENCE, model))
        slow = simulate(setup, REFERENCE, model, slow_sync_chance=0.01, slow_sync_ms_max=500)
        yield EffectSeries(f"{flush}, 1 % of syncs slow", slow)


def _create_segments_on_demand(store: MessageStore) -> None:
    """Make a store create segments only on demand. No setting does this."""
    store.allocate._remaining_request_budget = lambda: 1  # type: ignore[method-assign]
