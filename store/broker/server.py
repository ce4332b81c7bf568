"""Remoting server: receives requests, runs them in pools, sends answers.

One worker task checks the access of a request, processes it and answers it. Another task sends responses that wait for
an fsync or a slave. If a task of the server fails, some clients would get no answers. So the process ends, for a
supervisor to restart it.
Source: RocketMQ NettyRemotingServer, NettyRemotingAbstract.processRequestCommand.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from ..errors import AccessDeniedError
from ..formats.messages import PutMessageResult
from ..formats.remoting.command import RemotingCommand
from ..service import Service, do_nothing
from ..world import World
from .connections import Connections
from .late_answers import LateAnswerService
from .limits import ServerLimits
from .operator_log import Emit, debug_line, failure_line, warning_line
from .request_pool import OVERLOAD, PooledRequest, RequestPool
from .requests import REMARK_CHARACTERS_MAX, ResponseCode, response_to
from .router import Channel, LateResponse, Response, Routes
from .server_counts import RequestRefusal, ServerCounts
from .session import Session

DRAIN_MS = 10_000
"""Time limit of pending requests in `shutdown`."""

AccessCheck = Callable[[RemotingCommand, Channel], None]
"""Raises AccessDeniedError for a forbidden request."""


class RemotingServer:
    """Serves requests of clients.

    server = RemotingServer(world)
    server.listen(["127.0.0.1:10911"])
    server.start(routes)
    """

    def __init__(self, world: World, limits: ServerLimits | None = None, emit: Emit = lambda line: None) -> None:
        self.failure: str | None = None
        """Reason why the process must end, or None."""
        self.on_failure: Callable[[], None] = do_nothing
        """The failed task calls this function."""
        self.limits = limits or ServerLimits()
        self.counts = ServerCounts(world.tasks)
        self._world = world
        self._emit = emit
        self._routes: Routes = {}
        self._check: AccessCheck | None = None
        self._on_response: Callable[[Channel, RemotingCommand], bool] | None = None
        pools = self.limits.pools.items()
        self._pools = {
            pool: RequestPool(world, pool, own, self._handle_request, self._refuse_request, self.record_service_failure)
            for pool, own in pools
        }
        self._impatient = [pool for pool in self._pools.values() if pool.limits.wait_ms_max is not None]
        self._offered: dict[RequestPool, None] = {}
        """Pools to wake up at the end of the turn."""
        self._late = LateAnswerService(world, self._answer_late)
        self._closed = ClosedChannelService(world, emit)
        self.connections = Connections(
            world, self.limits, self.counts, self._receive, self._closed.add, self._end_turn, emit
        )

        for service in (self._closed, self._late, self.connections):
            service.on_failure = self.record_service_failure

    def record_service_failure(self, name: str, error: Exception) -> None:
        """Record why the process must end. Thread-safe."""
        reason = f"{name} has ended: {type(error).__name__}: {error}"
        self.end_process(f"{reason}; the server cannot work without it")

    def end_process(self, reason: str) -> None:
        """Record why the process must end, and call `on_failure`. Thread-safe."""
        self.failure = self.failure or reason  # keep the first failure, which often causes the later ones
        self._emit(failure_line(f"{reason}, so the process ends"))
        self.on_failure()

    def listen(self, addresses: Sequence[str]) -> list[str]:
        """Listen; connections wait for `start`. Return the addresses with their actual ports.

        After an OSError no address is open.
        """
        return self.connections.listen(addresses)

    def start(
        self,
        routes: Routes,
        *,
        check: AccessCheck | None = None,
        on_channel_closed: Callable[[Channel], None] | None = None,
        on_response: Callable[[Channel, RemotingCommand], bool] | None = None,
    ) -> None:
        """Start to serve. `check` raises AccessDeniedError for a forbidden request; None allows all requests.

        A separate task calls `on_channel_closed` once per ended connection. The poller task calls `on_response` with
        each response of a client; `on_response` returns False if no request waits for it.
        """
        self._on_response = on_response
        self._routes = routes
        self._check = check
        self._closed.on_closed = on_channel_closed
        for pool in self._pools.values():
            pool.start()
        self._closed.start()
        self._late.start()
        self.connections.start()

    def shutdown(self) -> bool:
        """Stop receiving, answer pending requests, and close all connections. Return False on a timeout.

        A request that runs longer than DRAIN_MS gets no answer. The method waits for its end, so that the request does
        not write to the store after another process has locked it.
        """
        self.connections.stop_receiving()
        for pool in self._pools.values():
            pool.start_shutdown()
        until_ns = self._world.clock.monotonic_ns() + DRAIN_MS * 1_000_000
        unfinished = [pool for pool in self._pools.values() if not pool.await_end(until_ns)]
        all_done = self._late.await_end(until_ns) and not unfinished
        if not all_done:
            line = f"requests are still running {DRAIN_MS // 1_000} s after the stop; waiting for their end"
            self._emit(warning_line(line))
        for pool in unfinished:
            pool.refuse_queued_requests()
        self.connections.shutdown()
        for pool in unfinished:
            pool.join()
        for pool in self._pools.values():  # if the drain timed out, requests may have come after the end of the tasks
            if pool.count:
                pool.refuse_queued_requests()
        self._late.shutdown()
        self._closed.shutdown()
        return all_done

    @property
    def pools(self) -> Iterable[RequestPool]:
        return self._pools.values()

    # -- in the poller task ------------------------------------------------------------------------

    def _receive(self, session: Session, command: RemotingCommand, size_bytes: int, now_ns: int) -> None:
        self.counts.requests += 1
        if command.is_response:
            if self._on_response is None or not self._on_response(session, command):
                self.counts.count_refused(RequestRefusal.STRAY_RESPONSE)
            return
        route = self._routes.get(command.code)
        if route is None:
            remark = f"request type {command.code} not supported"
            self._refuse_at_once(
                session, command, RequestRefusal.NOT_SUPPORTED, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark
            )
            return
        if len(command.body) > route.body_bytes_max:
            remark = f"body: expected {route.body_bytes_max} bytes or fewer, found {len(command.body)}"
            self._refuse_at_once(session, command, RequestRefusal.TOO_LARGE, ResponseCode.SYSTEM_ERROR, remark)
            return
        is_pipelined = session.is_pipelining  # read before the session counts this request
        session.count_request_begun(size_bytes)
        request = PooledRequest(command, session, route.processor, size_bytes, now_ns, is_pipelined)
        if not self.connections.close_slowest_clients():
            self._refuse_request(request, RequestRefusal.TOO_MUCH_HELD, OVERLOAD)
        else:
            pool = self._pools[route.pool]
            pool.enqueue(request)
            self._offered[pool] = None

    def _refuse_at_once(
        self, session: Session, command: RemotingCommand, refusal: RequestRefusal, code: ResponseCode, remark: str
    ) -> None:
        self.counts.count_refused(refusal)
        self._emit(debug_line(f"{session.remote_address}: request {command.code}: {remark}"))
        if not command.is_one_way:
            session.send(response_to(command, code, remark))

    def _end_turn(self, now_ns: int) -> int | None:
        """Return the next deadline of a queued request."""
        for pool in self._offered:
            pool.wake()
        self._offered.clear()
        next_due_ns: int | None = None
        for pool in self._impatient:
            due_ns = pool.next_due_ns
            if due_ns is not None and due_ns <= now_ns:
                pool.refuse_overdue(now_ns)
                due_ns = pool.next_due_ns
            if due_ns is not None and (next_due_ns is None or due_ns < next_due_ns):
                next_due_ns = due_ns
        return next_due_ns

    # -- in a task of a pool -----------------------------------------------------------------------

    def _handle_request(self, request: PooledRequest) -> None:
        response = self._make_response(request)
        if isinstance(response, LateResponse):
            self._late.add(request, response)
        else:
            self._finish_request(request, response)

    def _answer_late(self, request: PooledRequest, late: LateResponse, result: PutMessageResult) -> None:
        try:
            response = late.respond(result)
        except Exception as error:
            response = self._error_response(request, error)
        self._finish_request(request, response)

    def _finish_request(self, request: PooledRequest, response: RemotingCommand | None) -> None:
        command, session = request.command, request.session
        # Count down before the answer; otherwise the client's next request would count as pipelined.
        session.count_request_done(request.size_bytes)
        if response is None or command.is_one_way:
            return
        try:
            session.send(response)
        except Exception as error:  # the response is too large for a frame
            self._answer_with_remark(request, ResponseCode.SYSTEM_ERROR, str(error))

    def _refuse_request(self, request: PooledRequest, refusal: RequestRefusal, remark: str) -> None:
        self.counts.count_refused(refusal)
        self._emit(debug_line(f"{request.session.remote_address}: request {request.command.code}: {refusal.value}"))
        request.session.count_request_done(request.size_bytes)
        self._answer_with_remark(request, ResponseCode.SYSTEM_BUSY, remark)

    def _make_response(self, request: PooledRequest) -> Response:
        command, session = request.command, request.session
        try:
            if self._check is not None:
                self._check(command, session)
            return request.processor(command, session)
        except AccessDeniedError as error:
            self.counts.count_refused(RequestRefusal.ACCESS)
            self._emit(debug_line(f"{session.remote_address}: request {command.code}: access denied: {error}"))
            return response_to(command, error.code, str(error))
        except Exception as error:
            return self._error_response(request, error)

    def _error_response(self, request: PooledRequest, error: Exception) -> RemotingCommand:
        self.counts.count_refused(RequestRefusal.FAILED)
        text = f"{type(error).__name__}: {error}"[:REMARK_CHARACTERS_MAX]
        self._emit(failure_line(f"{request.session.remote_address}: request {request.command.code}: {text}"))
        return response_to(request.command, ResponseCode.SYSTEM_ERROR, text)

    def _answer_with_remark(self, request: PooledRequest, code: int, remark: str) -> None:
        if not request.command.is_one_way:
            request.session.send(response_to(request.command, code, remark))


class ClosedChannelService(Service):
    """Reports ended connections in a task that, unlike the poller task, may block."""

    name = "closed channels"

    def __init__(self, world: World, emit: Emit) -> None:
        super().__init__(world)
        self.on_closed: Callable[[Channel], None] | None = None
        self._emit = emit
        self._ended: deque[Session] = deque()

    def add(self, session: Session) -> None:
        if self.on_closed is not None:
            self._ended.append(session)
            self.wake()

    def run_once(self) -> None:
        self.signal.wait(None)
        self.finish_remaining_work()

    def finish_remaining_work(self) -> None:
        while self._ended:
            session = self._ended.popleft()
            assert self.on_closed is not None
            try:
                self.on_closed(session)
            except Exception as error:
                line = f"{session.remote_address}: cleanup after its connection: {type(error).__name__}: {error}"
                self._emit(failure_line(line))
