"""Puts into the store on a simulated machine, whose disk and whose computing take the time that models say."""

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from ....faults.devices.models import StorageModel
from ....faults.devices.timing import StorageTiming
from ....faults.disk.disk import Disk
from ....sim.choices import Choices
from ....sim.kernel import Kernel
from ....sim.machine import Machine
from ....sim.policies.random_walk import RoundRobin
from ....sim.processor import Processor
from ....sim.task import Waiting
from ....store.message import Message
from ....store.message_store import MessageStore
from ....store.world import Files, World
from .host import HostCosts
from .host_tasks import HostTasks
from .open_loop import arrivals, produce
from .putting import checked_put, message_of
from .setup import Setup
from .stalls import FileStalls
from .touched_files import TouchedFiles

_ROOT = "/store"
_UNTIL_IT_BLOCKS = 1 << 40
_ARRIVAL = Waiting("the next arrival")
_DELAYED = Waiting("what delays a put")
_TIME_LIMIT_NS = 3_600 * 1_000_000_000


@dataclass(frozen=True, slots=True)
class Series:
    """What became of a series of puts."""

    latencies_ns: "array[int]"
    """Of each put, producer by producer."""
    took_ns: int
    """From the first arrival's wait to the last answer."""
    syncs: int
    """Of files, all of the store's, its start and stop left out."""

    @property
    def rate(self) -> float:
        """Return how many puts a second were answered."""
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
    """Run one series of puts in virtual time, under faults named as FaultPlan names them.

    prepare gets the store before its first put, on_traffic is called before the first arrival; stalls are met from
    there on. The same arguments give the same series.
    """
    choices = Choices(f"latency/{setup.seed}")
    with Kernel(RoundRobin(_UNTIL_IT_BLOCKS), step_limit=1 << 60) as kernel:
        machine = kernel.machine("host")
        timing = StorageTiming(model(choices.stream("storage")))
        disk = Disk(kernel, choices.stream("disk"), timing=timing)
        processor = Processor(kernel)
        run = _Run(setup, host, choices, kernel, machine, disk, timing, processor, faults)
        return kernel.run(
            machine, lambda: run.body(prepare, on_traffic, stalls), time_limit_ns=_TIME_LIMIT_NS
        )


@dataclass(slots=True)
class _Run:
    """One series under way."""

    setup: Setup
    host: HostCosts
    choices: Choices
    kernel: Kernel
    machine: Machine
    disk: Disk
    timing: StorageTiming
    processor: Processor
    faults: dict[str, Any]

    def body(
        self,
        prepare: Callable[[MessageStore], None] | None,
        on_traffic: Callable[[], None] | None,
        stalls: FileStalls | None,
    ) -> Series:
        """Open a store, let the producers put, and stop it."""
        setup, kernel, machine = self.setup, self.kernel, self.machine
        files = TouchedFiles(self.disk.mount(machine), self.processor, self.host.touch_ns)
        tasks = HostTasks(machine, self.host, self.processor, self.choices.stream("handovers"))
        store = MessageStore(World(machine.clock, tasks, cast(Files, files)), setup.config(_ROOT))
        store.load()
        store.start()
        if prepare is not None:
            prepare(store)
        message = message_of(setup)
        store.put_message(message)  # makes the first segment
        store.on_arriving.append(lambda _: self.processor.work(self.host.dispatch_ns))
        if on_traffic is not None:
            on_traffic()
        if stalls is not None:
            files.stalls = stalls.again()
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
        self,
        store: MessageStore,
        message: Message,
        gaps_ns: "array[int]",
        series: list["array[int]"],
        number: int,
    ) -> Callable[[], None]:
        kernel, host, work = self.kernel, self.host, self.processor.work
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
