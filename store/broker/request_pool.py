"""Requests of one kind: a bounded queue, and the tasks that work it off.

Source: RocketMQ's BrokerFixedThreadPoolExecutor and BrokerFastFailure, whose words are sent to those who are refused.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ..formats.remoting.command import RemotingCommand
from ..world import Task, World
from .channel import Processor
from .limits import PoolLimits
from .router import Pool
from .server_counts import Refusal
from .session import Session


class Request(NamedTuple):
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
        self._queue: deque[Request] = deque()
        self._signal = world.tasks.signal(self._name)
        self._ending = world.tasks.cell(f"{self._name} ending")
        self._tasks: list[Task] = []
        self._wait_ns_max = None if limits.wait_ms_max is None else limits.wait_ms_max * 1_000_000

    def start(self) -> None:
        """Begin to work."""
        for number in range(self.limits.tasks):
            self._tasks.append(self._world.tasks.spawn(f"{self._name} {number}", self._work))

    def shutdown(self, timeout_ms: int) -> bool:
        """Work off what waits, and end; False if it took longer than it may."""
        self._ending.set(1)
        self._signal.notify()
        clock = self._world.clock
        until_ns = clock.monotonic_ns() + timeout_ms * 1_000_000
        ended = [task.join(max((until_ns - clock.monotonic_ns()) // 1_000_000, 0)) for task in self._tasks]
        return all(ended)

    def offer(self, request: Request) -> None:
        """Queue a request until `wake`, or refuse it for there are too many."""
        if len(self._queue) >= self.limits.queue_capacity:
            words = "[OVERLOAD]system busy, start flow control for a while"
            self._refuse(request, Refusal.QUEUE_FULL, words)
            return
        self._queue.append(request)

    def wake(self) -> None:
        """Have what was queued taken: once for all that came together, for tasks get in each other's way."""
        if self._queue:
            self._signal.notify()

    @property
    def next_due_ns(self) -> int | None:
        """Return when the first that waits will have waited too long, None if none ever will."""
        if self._wait_ns_max is None or not self._queue:
            return None
        try:
            return self._queue[0].arrived_ns + self._wait_ns_max
        except IndexError:
            return None  # taken meanwhile

    def refuse_old(self, now_ns: int) -> None:
        """Refuse those that have waited too long."""
        while (due_ns := self.next_due_ns) is not None and due_ns <= now_ns:
            try:
                request = self._queue.popleft()
            except IndexError:
                return
            if not self._is_old(request, now_ns):  # a task has taken the old one meanwhile
                self._queue.appendleft(request)
                return
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
            try:
                request = self._queue.popleft()
            except IndexError:
                if self._ending.get():
                    self._signal.notify()  # the next task is to end, too
                    return None
                self._signal.wait(None)
                continue
            if self._queue:
                self._signal.notify()  # a notice wakes one task, and stands for any number of requests
            return request

    def _is_old(self, request: Request, now_ns: int) -> bool:
        return self._wait_ns_max is not None and now_ns - request.arrived_ns >= self._wait_ns_max

    def _refuse_old(self, request: Request, now_ns: int) -> None:
        waited_ms = (now_ns - request.arrived_ns) // 1_000_000
        words = (
            "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
            f"period in queue: {waited_ms}ms, size of queue: {len(self._queue)}"
        )
        self._refuse(request, Refusal.TOO_OLD, words)
