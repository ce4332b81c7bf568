"""Requests of one kind: a bounded queue, and the tasks that work it off, a request of each session in turn.

Source: RocketMQ's BrokerFixedThreadPoolExecutor and BrokerFastFailure, whose words are sent to those who are refused.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ..formats.remoting.command import RemotingCommand
from ..world import Task, World
from .channel import Processor
from .deadlines import Deadlines
from .fair_queue import FairQueue
from .limits import PoolLimits
from .router import Pool
from .server_counts import Refusal
from .session import Session


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One request on its way to its processor."""

    command: RemotingCommand
    session: Session
    processor: Processor
    size_bytes: int
    arrived_ns: int


Refuse = Callable[[Request, Refusal, str], None]
"""Answers a request SYSTEM_BUSY, in these words."""


class RequestPool:
    """One kind of request. Only one task offers; each request that was taken is either handled or refused, once."""

    def __init__(
        self, world: World, pool: Pool, limits: PoolLimits, handle: Callable[[Request], None], refuse: Refuse
    ) -> None:
        self.limits = limits
        self._name = pool.value
        self._world = world
        self._handle = handle
        self._refuse = refuse
        self._lock = world.tasks.lock(f"{self._name} queue")
        self._queue: FairQueue[Session, Request] = FairQueue()
        self._ages = None if limits.wait_ms_max is None else Deadlines[Request](limits.wait_ms_max)
        """Of all that is in the queue; None if nothing is ever too old."""
        self._signal = world.tasks.signal(self._name)
        self._ending = world.tasks.cell(f"{self._name} ending")
        self._tasks: list[Task] = []

    def start(self) -> None:
        """Begin to work."""
        for number in range(self.limits.tasks):
            self._tasks.append(self._world.tasks.spawn(f"{self._name} {number}", self._work))

    def end(self) -> None:
        """Have what waits worked off, and then the tasks end."""
        self._ending.set(1)
        self._signal.notify()

    def await_end(self, until_ns: int) -> bool:
        """Wait for that, until a moment at the most; return whether it has come to its end."""
        clock = self._world.clock
        ended = [task.join(max((until_ns - clock.monotonic_ns()) // 1_000_000, 0)) for task in self._tasks]
        return all(ended)

    def offer(self, request: Request) -> None:
        """Queue a request until `wake`, or refuse it for there are too many."""
        with self._lock:
            is_full = len(self._queue) >= self.limits.queue_capacity
            if not is_full:
                self._queue.put(request.session, request)
                if self._ages is not None:
                    self._ages.set(request, request.arrived_ns)
        if is_full:
            words = "[OVERLOAD]system busy, start flow control for a while"
            self._refuse(request, Refusal.QUEUE_FULL, words)

    def wake(self) -> None:
        """Have what was queued taken: once for all that came together, for tasks get in each other's way."""
        if self._queue:
            self._signal.notify()

    @property
    def next_due_ns(self) -> int | None:
        """Return when the first that waits will have waited too long, None if none ever will."""
        if self._ages is None or not self._queue:
            return None
        with self._lock:
            return self._ages.next_due_ns

    def refuse_old(self, now_ns: int) -> None:
        """Refuse those that have waited too long."""
        if self._ages is None:
            return
        with self._lock:
            old = self._ages.pop_due(now_ns, len(self._queue))
            for request in old:
                self._queue.drop_first(request.session)  # the others of a session came later
        for request in old:
            self._refuse_old(request, now_ns)

    def _work(self) -> None:
        while (request := self._take()) is not None:
            now_ns = self._world.clock.monotonic_ns()
            if self._is_old(request, now_ns):
                self._refuse_old(request, now_ns)
            else:
                self._handle(request)

    def _take(self) -> Request | None:
        """Wait for a request; None once the pool is to end and none is left."""
        while True:
            with self._lock:
                request = self._queue.take() if self._queue else None
                if request is not None and self._ages is not None:
                    self._ages.drop(request)
            if request is None:
                if self._ending.get():
                    self._signal.notify()  # the next task is to end, too
                    return None
                self._signal.wait(None)
                continue
            if self._queue:
                self._signal.notify()  # a notice wakes one task, and stands for any number of requests
            return request

    def _is_old(self, request: Request, now_ns: int) -> bool:
        wait_ms_max = self.limits.wait_ms_max
        return wait_ms_max is not None and now_ns - request.arrived_ns >= wait_ms_max * 1_000_000

    def _refuse_old(self, request: Request, now_ns: int) -> None:
        waited_ms = (now_ns - request.arrived_ns) // 1_000_000
        words = (
            "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
            f"period in queue: {waited_ms}ms, size of queue: {len(self._queue)}"
        )
        self._refuse(request, Refusal.TOO_OLD, words)
