"""A simulated machine's tasks on a host that takes its time: a put is not handed over to its group commit at once."""

from ....sim.choices import Stream
from ....sim.kernel import Kernel
from ....sim.machine import Machine, SimTasks
from ....sim.processor import Processor
from ....sim.sync import SimSignal
from ....sim.task import Waiting
from ....store.log.flush import GroupCommitService
from .host import HostCosts

_WAKING = Waiting("waking up")
_TO_SERVICE = GroupCommitService.name
_TO_PRODUCER = "group commit done"


class HostTasks(SimTasks):
    """Tasks of which those that hand over a put to its group commit, and back, take the time that it takes on a host.

    All other services work beside the puts, and what they cost a put is in what puts were measured to cost.
    """

    __slots__ = ("_host", "_processor", "_stream")

    def __init__(self, machine: Machine, host: HostCosts, processor: Processor, stream: Stream) -> None:
        super().__init__(machine)
        self._host = host
        self._processor = processor
        self._stream = stream

    def signal(self, name: str) -> SimSignal:
        """Make a signal; in a handover, its waiter pays for waking up."""
        if name in (_TO_SERVICE, _TO_PRODUCER):
            return _Handover(self, self._kernel, name)
        return super().signal(name)

    def wake(self, name: str) -> None:
        """Let the current task take the time of a handover.

        Both handovers of a put were measured as one. The first takes half of the usual here, the second the rest.
        """
        host = self._host
        took_ns = host.handover.quantile(0.5) // 2
        if name == _TO_PRODUCER:
            took_ns = max(host.handover.draw(self._stream, "handover") - took_ns, 0)
        work_ns = min(host.handover_work_ns // 2, took_ns)
        if took_ns > work_ns:
            self._kernel.park(_WAKING, self._kernel.now_ns + took_ns - work_ns)
        self._processor.work(work_ns)


class _Handover(SimSignal):
    """A signal whose waiter pays for waking up, unless it found the notice there already."""

    __slots__ = ("_name", "_tasks")

    def __init__(self, tasks: HostTasks, kernel: Kernel, name: str) -> None:
        super().__init__(kernel, name)
        self._tasks = tasks
        self._name = name

    def _park(self, due_ns: int | None) -> None:
        super()._park(due_ns)
        if self._is_set:
            self._tasks.wake(self._name)
