"""Request pool: queues and worker tasks of one kind of request.

The workers serve sessions in round robin. A request is pipelined if its client sends further requests before it reads
the answer. Three rules keep one client from blocking others. Up to four other requests may overtake a pipelined one.
Pipelined requests may occupy only a part of the tasks. If the requests of a pool wait for answers of other clients,
one host may occupy only a part of the pool's tasks.
Source: RocketMQ's BrokerFixedThreadPoolExecutor and BrokerFastFailure, including their texts of refusals; RFC 8290,
sparse flows.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

from ..formats.remoting.command import RemotingCommand
from ..world import Task, World
from .deadlines import TimeoutTable
from .fair_queue import HostFairQueue
from .limits import PoolLimits
from .router import Pool, Processor
from .server_counts import RequestRefusal
from .session import Session

_NAMES = {
    Pool.SEND_MESSAGE: "sendThreadPoolQueue",
    Pool.PULL_MESSAGE: "pullThreadPoolQueue",
    Pool.QUERY_MESSAGE: "queryThreadPoolQueue",
    Pool.END_TRANSACTION: "EndTransactionThreadPoolQueue",
}
"""RocketMQ's names of the queues in its runtime information."""
_PASSED_MAX = 4
"""Maximum number of requests that overtake a pipelined request."""


@dataclass(slots=True, eq=False)
class PooledRequest:
    """A request in a pool. No code changes it; `frozen` would make its creation three times as slow."""

    command: RemotingCommand
    session: Session
    processor: Processor
    size_bytes: int
    arrived_ns: int
    is_pipelined: bool


Handle = Callable[[PooledRequest], None]
Fail = Callable[[str, Exception], None]
"""Arguments: the name of a task and the unexpected error that ended it."""
Refuse = Callable[[PooledRequest, RequestRefusal, str], None]
"""Answers a request with SYSTEM_BUSY and the given text."""
OVERLOAD = "[OVERLOAD]system busy, start flow control for a while"
_TOO_OLD = "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while"


class RequestPool:
    """The pool of one kind of request.

    Only one task may call `enqueue`. The pool handles or refuses each request exactly once.

    Invariant: queued requests <= capacity, and 0 <= pipelined tasks <= their limit. Both queues pause a host with the
    maximum number of busy tasks.
    """

    def __init__(
        self, world: World, pool: Pool, limits: PoolLimits, handle: Handle, refuse: Refuse, fail: Fail
    ) -> None:
        self.limits = limits
        self._pool = pool
        self._name = pool.value
        self._world = world
        self._handle = handle
        self._refuse = refuse
        self._fail = fail
        self._lock = world.tasks.lock(f"{self._name} queue")
        self._awaited: HostFairQueue[Session, PooledRequest] = HostFairQueue()
        self._pipelined: HostFairQueue[Session, PooledRequest] = HostFairQueue()
        self._pipelined_tasks = 0
        self._host_tasks: Counter[str] = Counter()
        """Host -> number of busy tasks. Empty without a limit per host."""
        self._passed = 0
        self._ages = None if limits.wait_ms_max is None else TimeoutTable[PooledRequest](limits.wait_ms_max)
        """Deadlines of queued requests; None: no limit of the wait."""
        self._signal = world.tasks.signal(self._name)
        self._ending = world.tasks.cell(f"{self._name} ending")
        self._tasks: list[Task] = []

    def start(self) -> None:
        for number in range(self.limits.tasks):
            self._tasks.append(self._world.tasks.spawn(f"{self._name} {number}", self._run_worker))

    def start_shutdown(self) -> None:
        """Let the tasks handle all queued requests and end."""
        self._ending.set(1)
        self._signal.notify()

    def await_end(self, until_ns: int) -> bool:
        now_ns = self._world.clock.monotonic_ns
        ended = [task.join(max((until_ns - now_ns()) // 1_000_000, 0)) for task in self._tasks]
        return all(ended)

    def refuse_queued_requests(self) -> None:
        now_ns = self._world.clock.monotonic_ns()
        with self._lock:
            for queue in (self._awaited, self._pipelined):
                queue.resume_all()
            requests = [queue.take() for queue in (self._awaited, self._pipelined) for _ in range(len(queue))]
            if self._ages is not None:
                for request in requests:
                    self._ages.drop(request)
        for request in requests:
            self._refuse_overdue(request, now_ns)

    def join(self) -> None:
        for task in self._tasks:
            task.join(None)

    def enqueue(self, request: PooledRequest) -> None:
        """Add a request, or refuse it if the queue is full. Then call `wake`."""
        with self._lock:
            is_full = self.count >= self.limits.queue_capacity
            if not is_full:
                self._queue_of(request).put(request.session.host.name, request.session, request)
                assert 0 < self.count <= self.limits.queue_capacity, self.count
                if self._ages is not None:
                    self._ages.set(request, request.arrived_ns)
        if is_full:
            self._refuse(request, RequestRefusal.QUEUE_FULL, OVERLOAD)

    def wake(self) -> None:
        """Wake a task. Call this once per poller turn: a wake-up per request would make the tasks compete."""
        if self._can_start_request:
            self._signal.notify()

    @property
    def count(self) -> int:
        return len(self._awaited) + len(self._pipelined)

    def runtime_info_fields(self, now_ns: int) -> dict[str, str]:
        """Return the queue's size, capacity and longest wait, under RocketMQ's names."""
        name = _NAMES.get(self._pool)
        if name is None:
            return {}
        fields = {f"{name}Size": str(self.count), f"{name}Capacity": str(self.limits.queue_capacity)}
        if self._pool is Pool.END_TRANSACTION:  # RocketMQ has another name for this size, and no longest wait
            return {"EndTransactionQueueSize": fields.pop(f"{name}Size"), **fields}
        return {**fields, f"{name}HeadWaitTimeMills": str(self.head_request_wait_ms(now_ns))}

    @property
    def name(self) -> str:
        return self._pool.value

    def head_request_wait_ms(self, now_ns: int) -> int:
        with self._lock:
            oldest_ns = self.unlocked_oldest_ns
        return 0 if oldest_ns is None else max(now_ns - oldest_ns, 0) // 1_000_000

    @property
    def unlocked_oldest_ns(self) -> int | None:
        """Return the arrival of the oldest queued request. Without the lock, no other task may run."""
        firsts = chain(self._awaited.first_item_of_each_owner(), self._pipelined.first_item_of_each_owner())
        return min((request.arrived_ns for request in firsts), default=None)

    @property
    def next_due_ns(self) -> int | None:
        if self._ages is None or not self.count:
            return None
        with self._lock:
            return self._ages.next_due_ns

    def refuse_overdue(self, now_ns: int) -> None:
        if self._ages is None:
            return
        with self._lock:
            overdue = self._ages.pop_due(now_ns, self.count)
            # All requests have the same timeout, so an overdue request is the first of its session.
            for request in overdue:
                session = request.session
                self._queue_of(request).drop_first(session.host.name, session)
        for request in overdue:
            self._refuse_overdue(request, now_ns)

    def _queue_of(self, request: PooledRequest) -> HostFairQueue[Session, PooledRequest]:
        return self._pipelined if request.is_pipelined else self._awaited

    def _run_worker(self) -> None:
        try:
            self._handle_requests()
        except Exception as error:
            self._fail(self._name, error)
            raise

    def _handle_requests(self) -> None:
        request: PooledRequest | None = None
        while (request := self._finish_and_take_next(request)) is not None:
            now_ns = self._world.clock.monotonic_ns()
            wait_ms_max = self.limits.wait_ms_max
            if wait_ms_max is not None and now_ns - request.arrived_ns >= wait_ms_max * 1_000_000:
                self._refuse_overdue(request, now_ns)
            else:
                self._handle(request)

    def _finish_and_take_next(self, done: PooledRequest | None) -> PooledRequest | None:
        """Return None if the pool is ending and its queues are empty."""
        if done is not None:
            with self._lock:
                self._count_done(done)
        while True:
            with self._lock:
                request = self._take_next_request()
                has_more = self._can_start_request
            if request is None:
                if self._ending.get():
                    self._signal.notify()  # end the next task, too
                    return None
                self._signal.wait(None)
                continue
            if has_more:
                self._signal.notify()  # a notification wakes only one task
            return request

    @property
    def _can_start_request(self) -> bool:
        has_task = self._pipelined_tasks < self.limits.max_pipelined_tasks
        return self._awaited.has_turn or (self._pipelined.has_turn and has_task)

    def _take_next_request(self) -> PooledRequest | None:
        may_be_pipelined = self._pipelined.has_turn and self._pipelined_tasks < self.limits.max_pipelined_tasks
        if may_be_pipelined and (not self._awaited.has_turn or self._passed >= _PASSED_MAX):
            request = self._pipelined.take()
            self._pipelined_tasks += 1
            assert self._pipelined_tasks <= self.limits.tasks, self._pipelined_tasks
            self._passed = 0
        elif self._awaited.has_turn:
            request = self._awaited.take()
            self._passed += self._pipelined.has_turn
        else:
            return None
        if self._ages is not None:
            self._ages.drop(request)  # under the lock, so that `refuse_overdue` does not find the request
        self._count_started(request)
        return request

    def _count_started(self, request: PooledRequest) -> None:
        tasks_max, host = self.limits.of_one_host_tasks, request.session.host.name
        if tasks_max is None:
            return
        self._host_tasks[host] += 1
        assert self._host_tasks[host] <= tasks_max, self._host_tasks
        if self._host_tasks[host] == tasks_max:
            self._awaited.pause(host)
            self._pipelined.pause(host)

    def _count_done(self, request: PooledRequest) -> None:
        if request.is_pipelined:
            self._pipelined_tasks -= 1
            assert self._pipelined_tasks >= 0, self._pipelined_tasks
        tasks_max, host = self.limits.of_one_host_tasks, request.session.host.name
        if tasks_max is None:
            return
        if self._host_tasks[host] == tasks_max:
            self._awaited.resume(host)
            self._pipelined.resume(host)
        self._host_tasks[host] -= 1
        if not self._host_tasks[host]:
            del self._host_tasks[host]

    def _refuse_overdue(self, request: PooledRequest, now_ns: int) -> None:
        waited_ms = (now_ns - request.arrived_ns) // 1_000_000
        remark = f"{_TOO_OLD}, period in queue: {waited_ms}ms, size of queue: {self.count}"
        self._refuse(request, RequestRefusal.TOO_OLD, remark)
