"""Host costs: adds the time of CPU work, handovers, page faults and pauses to simulated tasks.

Simulated code takes no virtual time, so these costs are added at the operations that cause them. The model has one
CPU, because CPython's interpreter lock allows only one running thread. A store to a memory-mapped file holds this lock
while its page fault waits, so one stalled store stops all threads. With `holds_interpreter_lock` off, as in a JVM, only
threads that need the put lock stop.

Scheduling noise is an option: pauses of all threads, by other processes or by a JVM's safepoints. PAUSES_OF_JVM is an
assumption within the default goal of the collector G1 (MaxGCPauseMillis=200).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ....faults.devices.drives import DurationDistribution
from ....faults.devices.system import TimedFiles, TimedMappedFile
from ....faults.disk.mapped_file import Buffer
from ....sim.choices import Stream
from ....sim.machine import Machine, Scheduler, SimProcessor, SimSignal, SimTask, SimTasks, WaitGate, WaitReason
from ....store.log.flush import GroupCommitService

_US = 1_000
_WAKING = WaitReason("waking up")
_TO_SERVICE = GroupCommitService.name
_TO_PRODUCER = "group commit done"


@dataclass(frozen=True, slots=True)
class Pauses:
    """Pauses of all threads, which begin at random times."""

    per_second: float
    durations: DurationDistribution


PAUSES_OF_JVM = Pauses(
    0.2,
    DurationDistribution.from_points(
        [(0.0, 2_000 * _US), (0.5, 10_000 * _US), (0.9, 40_000 * _US), (1.0, 200_000 * _US)]
    ),
)


@dataclass(frozen=True, slots=True)
class HostCosts:
    """Durations of operations on one machine, in ns."""

    put: DurationDistribution
    """Duration of a put without waiting for a disk."""
    put_work_ns: int
    """CPU time of a put. During this time other tasks wait."""
    handover: DurationDistribution
    """Time from a wake-up call until the waiting task runs, summed over both handovers of a put."""
    handover_work_ns: int
    """CPU time of both handovers."""
    dispatch_ns: int
    """CPU time for the dispatch of one message."""
    touch_ns: int
    """CPU time of a page fault of a write to a memory-mapped page."""
    holds_interpreter_lock: bool = True
    """Whether a store that waits in a page fault stops all threads."""
    pauses: Pauses | None = None


REFERENCE = HostCosts(
    put=DurationDistribution.from_points(
        [(0.0, 12 * _US), (0.5, 19 * _US), (0.9, 40 * _US), (0.99, 110 * _US), (0.999, 250 * _US), (1.0, 600 * _US)]
    ),
    put_work_ns=14 * _US,
    handover=DurationDistribution.from_points(
        [(0.0, 60 * _US), (0.5, 140 * _US), (0.9, 230 * _US), (0.99, 390 * _US), (1.0, 1_000 * _US)]
    ),
    handover_work_ns=50 * _US,
    dispatch_ns=8 * _US,
    touch_ns=1 * _US,
)
"""Rounded measurements on a 2-core virtual machine under CPython 3.11."""


class HostTasks(SimTasks):
    """Tasks that need time for a handover between a put and its group commit.

    The costs of other services are part of the measured put costs.
    """

    __slots__ = ("_host", "_processor", "_stream")

    def __init__(self, machine: Machine, host: HostCosts, processor: SimProcessor, stream: Stream) -> None:
        super().__init__(machine)
        self._host = host
        self._processor = processor
        self._stream = stream

    def signal(self, name: str) -> SimSignal:
        """Create a signal. If it is for a handover, the waiting task needs time to wake up."""
        if name in (_TO_SERVICE, _TO_PRODUCER):
            return _Handover(self, self._kernel, name)
        return super().signal(name)

    def wake(self, name: str) -> None:
        """Spend the time of a handover in the current task.

        The measurement is the sum of both handovers of a put. The first takes half of the median, the second the rest.
        """
        host = self._host
        took_ns = host.handover.quantile(0.5) // 2
        if name == _TO_PRODUCER:
            took_ns = max(host.handover.draw(self._stream, "handover") - took_ns, 0)
        work_ns = min(host.handover_work_ns // 2, took_ns)
        assert 0 <= work_ns <= took_ns, (work_ns, took_ns)
        if took_ns > work_ns:
            self._kernel.park(_WAKING, self._kernel.now_ns + took_ns - work_ns)
        self._processor.compute(work_ns)


class _Handover(SimSignal):
    """A signal that wakes its waiter with a delay, unless it was set before the wait."""

    __slots__ = ("_name", "_tasks")

    def __init__(self, tasks: HostTasks, kernel: Scheduler, name: str) -> None:
        super().__init__(kernel, name)
        self._tasks = tasks
        self._name = name

    def _park_current_task(self, due_ns: int | None) -> None:
        super()._park_current_task(due_ns)
        if self._is_set:
            self._tasks.wake(self._name)


class InterpreterLock(WaitGate):
    """Tasks that wait until the holder of the interpreter lock releases it."""

    __slots__ = ("holder",)

    def __init__(self, kernel: Scheduler) -> None:
        super().__init__(kernel, "interpreter lock")
        self.holder: SimTask | None = None

    def describe(self) -> str:
        return self.label if self.holder is None else f"{self.label} held by {self.holder.name}"


class Interpreter(SimProcessor):
    """The processor. A task can hold it while the task waits, so that no other task computes."""

    __slots__ = ("_lock", "_scheduler")

    def __init__(self, kernel: Scheduler) -> None:
        super().__init__(kernel)
        self._scheduler = kernel
        self._lock = InterpreterLock(kernel)

    def compute(self, cost_ns: int) -> None:
        self._wait_for_holder()
        super().compute(cost_ns)
        self._wait_for_holder()  # a task that was granted the processor before may hold it now

    def run_holding(self, call: Callable[[], object]) -> None:
        """Run a call during which no other task computes. Calls nest."""
        self._wait_for_holder()
        lock, current = self._lock, self._scheduler.current
        before, lock.holder = lock.holder, current
        try:
            call()
        finally:
            assert lock.holder is current, "only the holder releases the lock"
            lock.holder = before
            if before is None:
                lock.open()

    def _wait_for_holder(self) -> None:
        lock, current = self._lock, self._scheduler.current
        while lock.holder is not None and lock.holder is not current:
            lock.wait(None)


class HoldingFiles:
    """Files that hold the interpreter lock while a store through a map waits."""

    def __init__(self, files: TimedFiles, interpreter: Interpreter) -> None:
        self._files = files
        self._interpreter = interpreter

    def __getattr__(self, name: str) -> object:
        return getattr(self._files, name)

    def map(self, path: str, size_bytes: int) -> "HoldingMappedFile":
        return HoldingMappedFile(self._files.map(path, size_bytes), self._interpreter)


class HoldingMappedFile:
    """A map of `HoldingFiles`. Calls of the kernel other than page faults release the lock."""

    def __init__(self, mapped: TimedMappedFile, interpreter: Interpreter) -> None:
        self._mapped = mapped
        self._interpreter = interpreter
        self.view = mapped.view  # `__getattr__` would slow down every view

    def __getattr__(self, name: str) -> object:
        return getattr(self._mapped, name)

    def store(self, at: int, data: Buffer) -> None:
        self._interpreter.run_holding(partial(self._mapped.store, at, data))
