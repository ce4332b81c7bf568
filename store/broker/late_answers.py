"""Late answers: answers sends after their puts have waited for an fsync, a slave or a timeout.

The task that appends a message does not wait, but continues with the next request. After an fsync, a separate task
answers all completed puts in the order of the log.
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
"""Maximum number of deadlines of answered requests in the heap."""

Answer = Callable[[PooledRequest, LateResponse, PutMessageResult], None]


class LateAnswerService(Service):
    """Answers requests after their puts are complete. Thread-safe.

    Invariant: the service answers each request once, or not at all if the service ends first. The heap contains a
    deadline of each pending request.
    """

    name = "late answers"

    def __init__(self, world: World, answer: Answer) -> None:
        """The service's task calls `answer` for completed requests."""
        super().__init__(world)
        self._answer = answer
        self._lock = world.tasks.lock(self.name)
        self._waiting: dict[int, tuple[PooledRequest, LateResponse]] = {}
        """Number -> pending request. Only the task of this service removes entries."""
        self._count = 0
        self._notified: list[int] = []
        self._due: list[tuple[int, int]] = []
        """Heap of deadlines and request numbers, which may contain answered requests."""
        self._wake_ns = _NEVER_NS
        """The latest time at which the task wakes up."""
        self._ending = world.tasks.cell(f"{self.name} ending")
        self._ended = world.tasks.signal(f"{self.name} ended")
        self._is_over = False
        """Whether the task has ended, so that a second stop of the server does not wait."""

    def add(self, request: PooledRequest, late: LateResponse) -> None:
        due_ns = late.due_ns(self.world.clock.monotonic_ns())
        with self._lock:
            number = self._count
            self._count += 1
            waiting = self._waiting
            assert number not in waiting, number
            waiting[number] = request, late
            heappush(self._due, (due_ns, number))
            is_first = due_ns < self._wake_ns
        if is_first:
            self.wake()
        # Register the request first, because `call_on_notify` may notify at once.
        late.call_on_notify(partial(self._on_answer_known, number))

    def _on_answer_known(self, number: int) -> None:
        with self._lock:
            self._notified.append(number)
            is_first = len(self._notified) == 1
        if is_first:
            self.wake()

    def await_end(self, until_ns: int) -> bool:
        """Return whether all answers were sent before `until_ns`. Add no request after this call."""
        if self._task is None or self._is_over:
            return True
        if self.has_failed:
            return False
        self._ending.set(1)
        self.wake()
        return self._ended.wait(ms_until(until_ns, self.world.clock))

    # -- its task ----------------------------------------------------------------------------------

    def run_once(self) -> None:
        with self._lock:
            self._wake_ns = wake_ns = self._due[0][0] if self._due else _NEVER_NS
        self.signal.wait(None if wake_ns == _NEVER_NS else ms_until(wake_ns, self.world.clock))
        self._answer_completed()
        if self._ending.get() and not self._waiting:
            self._ended.notify()

    def _answer_completed(self) -> None:
        now_ns = self.world.clock.monotonic_ns()
        completed: list[tuple[int, PutMessageResult]] = []
        for number in self._take_numbers_to_check(now_ns):
            _, late = self._waiting[number]
            result = late.poll(now_ns)
            if result is not None:
                completed.append((number, result))
            else:
                self._schedule_check(number, late.due_ns(now_ns))
        with self._lock:
            done = [(*self._waiting.pop(number), result) for number, result in completed]
            if len(self._due) > 2 * len(self._waiting) + _LEFTOVERS_MAX:
                self._due = [each for each in self._due if each[1] in self._waiting]
                heapify(self._due)
        for each in done:
            self._answer(*each)

    def _take_numbers_to_check(self, now_ns: int) -> list[int]:
        with self._lock:
            numbers, self._notified = dict.fromkeys(self._notified), []
            while self._due and self._due[0][0] <= now_ns:
                numbers[heappop(self._due)[1]] = None
            return [number for number in numbers if number in self._waiting]

    def _schedule_check(self, number: int, due_ns: int) -> None:
        with self._lock:
            heappush(self._due, (due_ns, number))

    def finish_remaining_work(self) -> None:
        """Drop pending requests without an answer, because their connections have ended."""
        for request, _ in self._waiting.values():
            request.session.count_request_done(request.size_bytes)
        self._waiting.clear()
        self._is_over = True
