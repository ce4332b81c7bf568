"""Late answers: sends that are in the log, whose clients wait for a sync, for a slave, or for the end of their time.

The task that has put a message goes on to the next request. One task here writes the answers: all that a sync has
brought at once, in the order in which the log has answered them.
Source: RocketMQ SendMessageProcessor.asyncProcessRequest, CommitLog.asyncPutMessage.
"""

from collections.abc import Callable
from functools import partial
from heapq import heapify, heappop, heappush

from ..formats.messages import PutMessageResult
from ..service import Service, ms_until
from ..world import World
from .request_pool import PooledRequest
from .router import LateResponse

_NEVER_NS = 1 << 63
_LEFTOVERS_MAX = 1_000
"""How many deadlines are kept of those that were answered in time."""

Answer = Callable[[PooledRequest, LateResponse, PutMessageResult], None]


class LateAnswers(Service):
    """The requests of one server whose puts wait. Any task may add one.

    Invariant: each is answered once, or, if the service ends first, never; each that waits has a deadline in the heap.
    """

    name = "late answers"

    def __init__(self, world: World, answer: Answer) -> None:
        """answer: answers a request whose put has been answered; called in the task of this service."""
        super().__init__(world)
        self._answer = answer
        self._lock = world.tasks.lock(self.name)
        self._waiting: dict[int, tuple[PooledRequest, LateResponse]] = {}
        """By a number; the service's task alone takes them out."""
        self._count = 0
        """How many there have been."""
        self._notified: list[int] = []
        """Those at which a look is worth it."""
        self._due: list[tuple[int, int]] = []
        """A heap of moments and numbers. Those that are answered stay for a while, which saves waking the task for the
        next one's deadline: that is later."""
        self._wake_ns = _NEVER_NS
        """Until when the task sleeps at the most."""
        self._ending = world.tasks.cell(f"{self.name} ending")
        self._ended = world.tasks.signal(f"{self.name} ended")
        self._is_over = False
        """Whether the task has let go of all: who stops a server that was stopped waits for nobody."""

    def add(self, request: PooledRequest, late: LateResponse) -> None:
        """Have a request answered when its put is."""
        due_ns = late.due_ns(self.world.clock.monotonic_ns())
        with self._lock:
            number = self._count
            self._count += 1
            self._waiting[number] = request, late
            heappush(self._due, (due_ns, number))
            is_first = due_ns < self._wake_ns
        if is_first:
            self.wake()
        # Last: a known answer notifies at once, and its request must be in the table by then.
        late.follow(partial(self._notify, number))

    def _notify(self, number: int) -> None:
        with self._lock:
            self._notified.append(number)
            is_first = len(self._notified) == 1
        if is_first:
            self.wake()

    def await_end(self, until_ns: int) -> bool:
        """Wait until all are answered, until a moment at the most; return whether they are. No more are added."""
        if self._task is None or self._is_over:
            return True
        if self.has_failed:
            return False
        self._ending.set(1)
        self.wake()
        return self._ended.wait(ms_until(until_ns, self.world.clock))

    # -- its task ----------------------------------------------------------------------------------

    def step(self) -> None:
        """Wait for a put's answer, or the end of its time, and answer all whose put is answered."""
        with self._lock:
            self._wake_ns = wake_ns = self._due[0][0] if self._due else _NEVER_NS
        self.signal.wait(None if wake_ns == _NEVER_NS else ms_until(wake_ns, self.world.clock))
        self._answer_known()
        if self._ending.get() and not self._waiting:
            self._ended.notify()

    def _answer_known(self) -> None:
        now_ns = self.world.clock.monotonic_ns()
        known: list[tuple[int, PutMessageResult]] = []
        for number in self._take_looks(now_ns):
            _, late = self._waiting[number]
            result = late.look(now_ns)
            if result is not None:
                known.append((number, result))
            else:
                self._set_due(number, late.due_ns(now_ns))
        with self._lock:
            done = [(*self._waiting.pop(number), result) for number, result in known]
            if len(self._due) > 2 * len(self._waiting) + _LEFTOVERS_MAX:
                self._due = [each for each in self._due if each[1] in self._waiting]
                heapify(self._due)
        for each in done:
            self._answer(*each)

    def _take_looks(self, now_ns: int) -> list[int]:
        """Return those that wait and are to be looked at: they were notified, or their time is over."""
        with self._lock:
            looks, self._notified = dict.fromkeys(self._notified), []
            while self._due and self._due[0][0] <= now_ns:
                looks[heappop(self._due)[1]] = None
            return [number for number in looks if number in self._waiting]

    def _set_due(self, number: int, due_ns: int) -> None:
        with self._lock:
            heappush(self._due, (due_ns, number))

    def finish(self) -> None:
        """Let go of those that still wait: their connections have ended."""
        for request, _ in self._waiting.values():
            request.session.done_request(request.size_bytes)
        self._waiting.clear()
        self._is_over = True
