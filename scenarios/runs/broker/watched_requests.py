"""Watched requests: checks each answer of a broker's processors before it is sent.

Under SYNC_FLUSH, SUCCESS for a send means that the record is durable; a timeout means that the time has passed or a
sync has failed. While the broker holds a pull, its queue has no message for it. A server turns every exception of a
processor into an answer, so unexpected exceptions are reported here. `watched_routes` checks routes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from ....faults.disk.disk import Disk
from ....sim.kernel import Kernel
from ....store.broker.broker import Broker
from ....store.broker.long_polling import HeldPull, PullRequestHoldService
from ....store.broker.requests import RequestCode, RequestRefusedError, ResponseCode
from ....store.broker.router import Channel, LateResponse, Pool, Processor, Response, Routes
from ....store.errors import StoreError
from ....store.formats.host import decode_message_id
from ....store.formats.messages import PutMessageResult, PutMessageStatus
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.remoting.json_body import MessageQueue
from ....store.message_store import MessageStore
from ...claims.plan import Plan
from ...oracle.evidence import FoundInRequest, Violation, place_of
from ...oracle.invariants import live, status
from ...oracle.queue_locks import QueueLocks
from .answers import put_status_of_response
from .commands import waits_for_durability
from .group_member import GROUP
from .watched_routes import FindTables, OwnBroker, WatchedRoutes, registered_ms_max

_SENDS = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
_LOOK_NS = 100_000_000
"""A missed message is noticed by the broker itself after up to 5 s."""
_DOCUMENTED_ERRORS = (RequestRefusedError, StoreError, OSError)


@dataclass(slots=True, eq=False)
class WatchedRequests:
    """The requests since the broker's last start. Invariant: `_waiting` has the sends with a pending late answer."""

    _plan: Plan
    _kernel: Kernel
    _store: MessageStore
    _disk: Disk
    _report: Callable[[Iterable[Violation]], None]
    _expired_to: Callable[[], int]
    _paused_ns: Callable[[int], int]
    """Returns the sum of all pauses since a time."""
    _own: OwnBroker
    _find_tables: FindTables
    _waiting: dict[LateResponse, int] = field(default_factory=dict, init=False)
    """Pending answer -> arrival of its request, in virtual time."""
    _pulls: dict[tuple[Channel, int], tuple[int, int]] = field(default_factory=dict, init=False)
    """Connection and number of an unanswered pull -> its arrival in virtual ns, and the hold time in ms."""
    _held: dict[tuple[Channel, int], HeldPull] = field(default_factory=dict, init=False)
    """Connection and number of each pull that was held and is unanswered."""
    _look_ns: int = field(default=0, init=False)
    """The next time for a look at all held pulls."""
    _of_host: Counter[str] = field(default_factory=Counter, init=False)
    """Host -> number of requests that pools with a limit per host process for it."""

    @property
    def _begin_ms(self) -> int:
        """startAcceptSendRequestTimeStamp."""
        after_ms = self._plan.broker_settings.accepts_sends_after_ms
        return self._kernel.wall_start_ms + after_ms if after_ms else 0

    def judged_routes(self, routes: Routes, held: PullRequestHoldService) -> Routes:
        answer = held.answer

        def answer_held(request: RemotingCommand, channel: Channel) -> None:
            self._pulls.pop((channel, request.opaque), None)
            self._held.pop((channel, request.opaque), None)
            answer(request, channel)

        held.answer = answer_held
        judges: dict[Pool, Callable[..., Response]] = {
            Pool.ADMIN: self._process_of_host,
            Pool.SEND_MESSAGE: self._process_send,
            Pool.PULL_MESSAGE: partial(self._process_pull, held),
        }
        watched = self._process_request, lambda: self._kernel.now_ns, self._report_in_task
        names = WatchedRoutes(*watched, self._own, self._find_tables, registered_ms_max(self._plan)).judges
        judged = {
            code: names.get(code) or judges.get(route.pool, self._process_request) for code, route in routes.items()
        }
        return {
            code: route._replace(processor=partial(judged[code], route.processor)) for code, route in routes.items()
        }

    def watch_locks(self, broker: Broker, locks: QueueLocks) -> None:
        """Before each request for locks, check that the broker has lost no lock of the group of members."""
        lock = broker.locks.try_lock

        def watched(group: str, queues: Iterable[MessageQueue], client_id: str) -> list[MessageQueue]:
            holders = {(each.topic, each.queue_id): client for each, client in broker.locks.holders_of(GROUP).items()}
            if found := list(locks.check_held(self._kernel.now_ns, holders)):
                self._report_in_task(found)
            return lock(group, queues, client_id)

        cast(Any, broker.locks).try_lock = watched

    def _process_request(self, processor: Processor, request: RemotingCommand, channel: Channel) -> Response:
        with self._unexpected_reported(request):
            return processor(request, channel)

    def _process_of_host(self, processor: Processor, request: RemotingCommand, channel: Channel) -> Response:
        """Process a request of a pool that limits the requests of a host at a time, see `BrokerNode`."""
        host = channel.remote_address.rpartition(":")[0]
        self._of_host[host] += 1
        try:
            if found := list(live.check_requests_of_host(self._plan, host, self._of_host[host])):
                self._report_in_task(found)
            return self._process_request(processor, request, channel)
        finally:
            self._of_host[host] -= 1

    def _process_pull(
        self, held: PullRequestHoldService, processor: Processor, request: RemotingCommand, channel: Channel
    ) -> Response:
        with self._kernel.without_scheduling_points():
            found = list(self._check_held_pulls(self._kernel.now_ns))
            if self._kernel.now_ns >= self._look_ns:
                self._look_ns = self._kernel.now_ns + _LOOK_NS
                found += self._check_announced(held)
        if found:
            self._report_in_task(found)
        key, is_held = (channel, request.opaque), False
        self._pulls[key] = self._kernel.now_ns, self._hold_ms(request)
        try:
            response = self._process_request(processor, request, channel)
            is_held = response is None
        finally:
            if not is_held:
                self._pulls.pop(key, None)
        if is_held:
            with self._kernel.without_scheduling_points():
                of_client = held.held_pulls_of(channel)
                own = [pull for pull in of_client if pull.request.opaque == request.opaque]
                found = [violation for pull in own for violation in live.check_held_pull(self._store, pull)]
                if own:  # the broker has not begun to answer all pulls because of a stop
                    before = [pull for (of, _), pull in self._held.items() if of is channel and pull not in of_client]
                    found += live.check_still_held(self._store, before, self._kernel.now_ns)
                    self._held[key] = own[0]
                found += live.check_held_count(self._plan, held.held_count, len(of_client))
            if found:
                self._report_in_task(found)
        return response

    def _process_send(self, processor: Processor, request: RemotingCommand, channel: Channel) -> Response:
        asked_ns, asked_at = self._kernel.now_ns, self._count_segments()
        response = self._process_at_time(processor, request, channel)
        if not isinstance(response, LateResponse):
            if response is not None:
                self._judge_answer(request, response, asked_ns)
            return response
        respond, late = response.respond, response
        self._waiting[late] = asked_ns

        def judged(put: PutMessageResult) -> RemotingCommand:
            del self._waiting[late]
            with self._unexpected_reported(request):
                answer = respond(put)
            self._judge_answer(request, answer, asked_ns)
            now_ns, paused_ms = self._kernel.now_ns, -(-self._paused_ns(asked_ns) // 1_000_000)
            times_ms = (now_ns - asked_ns) // 1_000_000, self._count_segments() - asked_at, paused_ms
            if found := list(live.check_send_time(self._plan, *times_ms)):
                self._report_in_task(found)
            return answer

        response.respond = judged
        return response

    def _count_segments(self) -> int:
        with self._kernel.without_scheduling_points():
            return self._store.log.put_offset // self._plan.commit_log_bytes

    def _process_at_time(self, processor: Processor, request: RemotingCommand, channel: Channel) -> Response:
        """Process a request, and check that the broker executes none before it accepts sends."""
        begin_ms, now_ms = self._begin_ms, self._store.world.clock.now_ms
        if not begin_ms:
            return self._process_request(processor, request, channel)
        before_ms = now_ms()
        response = self._process_request(processor, request, channel)
        is_done = isinstance(response, LateResponse) or (response is not None and response.code == ResponseCode.SUCCESS)
        is_too_early = isinstance(response, RemotingCommand) and str(begin_ms) in (response.remark or "")
        if is_done or is_too_early:
            found = list(status.check_begin_of_sends(begin_ms, before_ms, now_ms(), is_done=is_done))
            if found:
                self._report_in_task(found)
        return response

    @contextmanager
    def _unexpected_reported(self, request: RemotingCommand) -> Iterator[None]:
        """Report an unexpected exception. Refusals and errors of disk and store are expected."""
        try:
            yield
        except _DOCUMENTED_ERRORS:
            raise
        except Exception as error:
            summary = f"a request with code {request.code} ended in {type(error).__name__}: {error}"
            self._report_in_task(
                [Violation("STATUS", summary, place_of(error), -1, "answer", "a documented one", "an error")]
            )
            raise

    def _hold_ms(self, request: RemotingCommand) -> int:
        is_long = self._plan.settings.long_polling_enable
        text = request.ext_fields.get("suspendTimeoutMillis", "0")
        return int(text) if is_long else self._plan.broker_settings.short_polling_time_ms

    def check_waiting(self, now_ns: int) -> Iterator[Violation]:
        yield from live.check_waiting(self._plan, self._waiting.values(), now_ns)
        yield from self._check_held_pulls(now_ns)

    def _check_held_pulls(self, now_ns: int) -> Iterator[Violation]:
        """LIVE: yield each pull of an open connection that the broker has neither answered nor still has to hold."""
        open_pulls = [times for (channel, _), times in self._pulls.items() if channel.is_open]
        return live.check_held_until(self._plan, open_pulls, now_ns)

    def count_held(self) -> int:
        """Return the number of held pulls of open connections that have no answer."""
        return sum(channel.is_open for channel, _ in list(self._held))  # a copy: tasks may switch at each `is_open`

    def _check_announced(self, held: PullRequestHoldService) -> Iterator[Violation]:
        """LIVE: yield each pull that the broker still holds after it has announced a message for the pull."""
        for (channel, _), pull in self._held.items():
            if channel.is_open and pull in held.held_pulls_of(channel):
                yield from live.check_held_pull(self._store, pull)

    def _judge_answer(self, request: RemotingCommand, answer: RemotingCommand, asked_ns: int) -> None:
        ids = answer.ext_fields.get("msgId")
        answered, waited_ms = put_status_of_response(answer.code), (self._kernel.now_ns - asked_ns) // 1_000_000
        place = self._plan, self._store, self._disk
        if ids is None and self._begin_ms and str(self._begin_ms) in (answer.remark or ""):
            return  # `_process_at_time` checks a send that came too early
        if ids is None:  # no record was stored
            if request.code not in _SENDS:
                return
            with self._kernel.without_scheduling_points():
                refused = list(status.check_refused_send(*place, answered))
            if refused:
                self._report_in_task(refused)
            return
        log_offsets = [decode_message_id(each)[1] for each in ids.split(",")]
        if answered is PutMessageStatus.PUT_OK and not waits_for_durability(request):
            return
        with self._kernel.without_scheduling_points():
            found = list(status.check_response(*place, answered, log_offsets, waited_ms, expired_to=self._expired_to()))
        if found:
            self._report_in_task(found)

    def _report_in_task(self, found: list[Violation]) -> None:
        """Report in a separate task, because a server turns the exceptions of a processor into answers."""
        if self._kernel.trace is not None:
            self._kernel.trace.emit(FoundInRequest(found))
        self._store.world.tasks.spawn("judge of an answer", lambda: self._report(found))
