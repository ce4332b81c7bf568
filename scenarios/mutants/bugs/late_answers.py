"""Bugs of a broker's server: answers that come late, twice or over another connection, and tasks that end."""

from collections.abc import Callable
from dataclasses import replace
from heapq import heappop

from ....store.broker.late_answers import LateAnswerService
from ....store.broker.processors.pull import PullMessageProcessor
from ....store.broker.request_pool import PooledRequest, RequestPool
from ....store.broker.requests import ResponseCode, response_to
from ....store.broker.router import Channel, LateResponse
from ....store.broker.server import RemotingServer
from ....store.formats.remoting.command import RemotingCommand
from ...claims.catalogue import SCENARIOS
from ..mutant import bit, bug, needs

_IN_FLIGHT = SCENARIOS["requests-in-flight"].ranges.replace(sync_flush=(True,))


@bug("early-flush-unnoticed", LateResponse, "call_on_notify", found_by=("LIVE",))
@needs(_IN_FLIGHT, disturbances={"paused_task_chance": (1.0,)})
def call_on_later_notify(self: LateResponse, on_known: Callable[[], None]) -> None:
    """If the flush of a send ends before the send is registered, the answer comes only at the timeout."""
    self._on_known = on_known
    bit(self._is_notified)


@bug("one-late-answer-per-turn", LateAnswerService, "_take_numbers_to_check", found_by=("LIVE",))
@needs(_IN_FLIGHT)
def take_first_number(self: LateAnswerService, now_ns: int) -> list[int]:
    """If one flush completes several sends, the broker answers the first at once, and the others at their timeouts."""
    with self._lock:
        looks, self._notified = dict.fromkeys(self._notified[:1]), self._notified[1:]
        bit(len(self._notified) > 0)
        while self._due and self._due[0][0] <= now_ns:
            looks[heappop(self._due)[1]] = None
        return [number for number in looks if number in self._waiting]


# The process of the broker ends, and its supervisor restarts it.
@bug("late-answers-changed-in-loop", LateAnswerService, "_answer_completed", found_by=("LIVE",))
@needs(_IN_FLIGHT)
def look_at_all_without_lock(self: LateAnswerService) -> None:
    """A send that arrives while the broker looks through the waiting sends ends the task that answers them."""
    now_ns, count = self.world.clock.monotonic_ns(), len(self._waiting)
    for number, (_, late) in self._waiting.items():
        late.poll(now_ns)
        bit(len(self._waiting) > count and number >= 0)
    look_at_all_without_lock.original(self)


# apache/kafka pull request 3530 prevents this for a port that is used again.
@bug("answer-to-next-connection", RemotingServer, "_finish_request", found_by=("STATUS",))
@needs(SCENARIOS["requests-in-flight"].ranges, network={"broken_chance": (0.1,)}, heals=(True,))
def finish_over_next_connection(self: RemotingServer, request: PooledRequest, response: RemotingCommand | None) -> None:
    """After the end of a connection, the answer to its request goes to the next connection of the same host."""
    session = request.session
    others = [each for each in self.connections.sessions if each.is_open and each.host is session.host]
    if bit(response is not None and not session.is_open and bool(others)):
        session.count_request_done(request.size_bytes)
        request = replace(request, session=others[-1])
        others[-1].count_request_begun(request.size_bytes)
    finish_over_next_connection.original(self, request, response)


@bug("held-answer-to-newest-pull", PullMessageProcessor, "_answer_held_pull", found_by=("STATUS", "LIVE", "READ"))
@needs(SCENARIOS["consumer-order"].ranges, queues_per_topic=(2,))
def answer_newest_held(self: PullMessageProcessor, request: RemotingCommand, channel: Channel) -> None:
    """If a broker holds several pulls of a client, an answer goes to the newest of them."""
    held = self._parts.held_pulls.held_pulls_of(channel)
    if bit(len(held) > 0):
        request = replace(request, opaque=held[-1].request.opaque)
    answer_newest_held.original(self, request, channel)


# RocketMQ marks the task of a refused request as stopped, see BrokerFastFailure.
@bug("overdue-request-executed", RequestPool, "refuse_overdue", found_by=("STATUS",))
@needs(_IN_FLIGHT, disturbances={"paused_task_chance": (1.0,), "paused_task_ms_max": (2_000,)})
def refuse_and_keep(self: RequestPool, now_ns: int) -> None:
    """A request that waited for too long is refused, and then executed and answered again."""
    if self._ages is None:
        return
    with self._lock:
        old = self._ages.pop_due(now_ns, self.count)
    for request in old:
        if bit(not request.command.is_one_way):
            request.session.send(response_to(request.command, ResponseCode.SYSTEM_BUSY, "[TIMEOUT_CLEAN_QUEUE]"))


@refuse_and_keep.also(RequestPool, "_handle_requests")
def _handle_all_requests(self: RequestPool) -> None:
    request: PooledRequest | None = None
    while (request := self._finish_and_take_next(request)) is not None:
        self._handle(request)


@bug("one-way-request-answered", RemotingServer, "_finish_request", found_by=("STATUS",))
@needs(SCENARIOS["transaction-network-faults"].ranges)
def answer_one_way(self: RemotingServer, request: PooledRequest, response: RemotingCommand | None) -> None:
    """A broker answers a request that is sent one way."""
    if bit(response is not None and request.command.is_one_way):
        request = replace(request, command=replace(request.command, flag=0))
    answer_one_way.original(self, request, response)


_OPERATED = SCENARIOS["operator-changes"].ranges


@bug("host-stays-paused", RequestPool, "_count_done", found_by=("LIVE", "QUIET"))
@needs(_OPERATED)
def count_done_and_pause(self: RequestPool, request: PooledRequest) -> None:
    """A host that had as many requests as it may have is served no more, because the count falls before the test."""
    most, host = self.limits.of_one_host_tasks, request.session.host.name
    waits = bool(self._awaited._paused.get(host) or self._pipelined._paused.get(host))
    if bit(most is not None and waits):
        self._host_tasks[host] -= 1
        return
    count_done_and_pause.original(self, request)


@bug("first-request-of-host-uncounted", RequestPool, "_count_started", found_by=("LIVE",))
@needs(_OPERATED, broker={"tasks_each": (2,)})
def count_pipelined_alone(self: RequestPool, request: PooledRequest) -> None:
    """A request of a client without others in flight does not count for the limit of its host."""
    if not bit(self.limits.of_one_host_tasks is not None and not request.is_pipelined):
        count_pipelined_alone.original(self, request)


@count_pipelined_alone.also(RequestPool, "_count_done")
def _count_pipelined_done(self: RequestPool, request: PooledRequest) -> None:
    if self.limits.of_one_host_tasks is None or request.is_pipelined:
        _count_pipelined_done.original(self, request)
