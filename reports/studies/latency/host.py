"""Host costs: charges simulated tasks and files for computing, handovers and page faults.

Simulated code takes no virtual time by itself, so these costs are charged where they occur. There is one processor,
because CPython's interpreter lock allows one running thread per process.

A stall is a store through a map that the kernel blocks, because a page under write-back cannot be written. Such a store
holds the interpreter lock, so all tasks wait with it.
"""

from dataclasses import dataclass, field

from ....faults.devices.drives import Spread
from ....faults.disk.files import SimFiles
from ....faults.disk.mapped_file import Buffer, SimMappedFile
from ....sim.choices import Stream
from ....sim.machine import Machine, Processor, Scheduler, SimSignal, SimTasks, Waiting
from ....store.log.flush import GroupCommitService

_US = 1_000
STALL_NS_MIN = 1_000_000
"""Shorter delays are jitter, which is part of the put costs."""
_WAKING = Waiting("waking up")
_TO_SERVICE = GroupCommitService.name
_TO_PRODUCER = "group commit done"
_PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class HostCosts:
    """The costs of one machine, in ns."""

    put: Spread
    """Duration of a put that does not wait for a disk."""
    put_work_ns: int
    """The computing part of a put, which delays other tasks."""
    handover: Spread
    """Time from a notice until its waiter runs, summed over both handovers: to the flush service and back."""
    handover_work_ns: int
    """The computing part of the handovers."""
    dispatch_ns: int
    """Computing to dispatch one message."""
    touch_ns: int
    """Computing of the first store to a mapped page: the page fault that makes it writable."""


REFERENCE = HostCosts(
    put=Spread.through(
        [(0.0, 12 * _US), (0.5, 19 * _US), (0.9, 40 * _US), (0.99, 110 * _US), (0.999, 250 * _US), (1.0, 600 * _US)]
    ),
    put_work_ns=14 * _US,
    handover=Spread.through(
        [(0.0, 60 * _US), (0.5, 140 * _US), (0.9, 230 * _US), (0.99, 390 * _US), (1.0, 1_000 * _US)]
    ),
    handover_work_ns=50 * _US,
    dispatch_ns=8 * _US,
    touch_ns=1 * _US,
)
"""A 2-core virtual machine under CPython 3.11, in round figures measured by `here`."""


@dataclass(slots=True)
class Stalls:
    """The stalls of one sequence of stores."""

    stores: int = 0
    """Number of stores so far."""
    took_ns: dict[int, int] = field(default_factory=dict)
    """Durations of stalled stores, by number."""

    def note(self, took_ns: int) -> None:
        """Count a store, and keep it if it stalled."""
        if took_ns >= STALL_NS_MIN:
            self.took_ns[self.stores] = took_ns
        self.stores += 1

    def next_ns(self) -> int:
        """Count a replayed store; return its stall, or 0."""
        number = self.stores
        self.stores += 1
        return self.took_ns.get(number, 0)


@dataclass(slots=True)
class FileStalls:
    """The stalls of a store's files: puts write to the log and dispatch to the others, so each has its own order."""

    log: Stalls = field(default_factory=Stalls)
    others: Stalls = field(default_factory=Stalls)

    def of(self, path: str) -> Stalls:
        return self.log if "/commitlog/" in path else self.others

    def again(self) -> "FileStalls":
        """Return the same stalls from the beginning."""
        return FileStalls(Stalls(0, self.log.took_ns), Stalls(0, self.others.took_ns))


class HostTasks(SimTasks):
    """Tasks that charge the handovers between a put and its group commit.

    The costs of other services are part of the measured put costs.
    """

    __slots__ = ("_host", "_processor", "_stream")

    def __init__(self, machine: Machine, host: HostCosts, processor: Processor, stream: Stream) -> None:
        super().__init__(machine)
        self._host = host
        self._processor = processor
        self._stream = stream

    def signal(self, name: str) -> SimSignal:
        """Create a signal; for a handover, its waiter pays for waking up."""
        if name in (_TO_SERVICE, _TO_PRODUCER):
            return _Handover(self, self._kernel, name)
        return super().signal(name)

    def wake(self, name: str) -> None:
        """Charge the current task for a handover.

        Both handovers of a put were measured together. The first costs half of the median, the second the rest.
        """
        host = self._host
        took_ns = host.handover.quantile(0.5) // 2
        if name == _TO_PRODUCER:
            took_ns = max(host.handover.draw(self._stream, "handover") - took_ns, 0)
        work_ns = min(host.handover_work_ns // 2, took_ns)
        assert 0 <= work_ns <= took_ns, (work_ns, took_ns)
        if took_ns > work_ns:
            self._kernel.park(_WAKING, self._kernel.now_ns + took_ns - work_ns)
        self._processor.work(work_ns)


class _Handover(SimSignal):
    """A signal whose waiter pays for waking up, unless the notice came first."""

    __slots__ = ("_name", "_tasks")

    def __init__(self, tasks: HostTasks, kernel: Scheduler, name: str) -> None:
        super().__init__(kernel, name)
        self._tasks = tasks
        self._name = name

    def _park(self, due_ns: int | None) -> None:
        super()._park(due_ns)
        if self._is_set:
            self._tasks.wake(self._name)


class TouchedFiles:
    """Files that charge for stores through maps."""

    def __init__(self, files: SimFiles, processor: Processor, touch_ns: int) -> None:
        self._files = files
        self._processor = processor
        self._touch_ns = touch_ns
        self.touches = 0
        """Number of pages touched for the first time."""
        self.stalls = FileStalls()
        """Stalls of further stores."""

    def __getattr__(self, name: str) -> object:
        return getattr(self._files, name)

    def map(self, path: str, size_bytes: int) -> "TouchedMappedFile":
        return TouchedMappedFile(self._files.map(path, size_bytes), self)

    def pay(self, path: str, pages: int) -> None:
        """Charge the current task for page faults, and for a stall if there is one."""
        self.touches += pages
        took_ns = pages * self._touch_ns + self.stalls.of(path).next_ns()
        if took_ns:
            self._processor.work(took_ns)


class TouchedMappedFile:
    """A mapped file that records which pages were stored to.

    Invariant: byte n of `_touched` is 1 if page n was stored to.
    """

    def __init__(self, mapped: SimMappedFile, files: TouchedFiles) -> None:
        self._mapped = mapped
        self._files = files
        self._touched = bytearray(-(-mapped.size_bytes // _PAGE_BYTES))

    def __getattr__(self, name: str) -> object:
        return getattr(self._mapped, name)

    def store(self, at: int, data: Buffer) -> None:
        """Write through the map, after a page fault for each new page."""
        first, last = at // _PAGE_BYTES, (at + max(len(data), 1) - 1) // _PAGE_BYTES
        assert 0 <= first <= last < len(self._touched), (at, len(data))
        new = self._touched.count(0, first, last + 1)
        if new:
            self._touched[first : last + 1] = b"\1" * (last + 1 - first)
        self._files.pay(self._mapped.path, new)
        self._mapped.store(at, data)
