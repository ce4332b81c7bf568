"""What becomes of one request in the task that has taken it: allowed or not, processed, answered.

Source: RocketMQ NettyRemotingAbstract.processRequestCommand.
"""

from collections.abc import Callable

from ..errors import AccessDeniedError
from ..formats.remoting.command import RemotingCommand
from .channel import Channel
from .request_pool import PooledRequest
from .requests import ResponseCode
from .responses import response_to
from .server_counts import RequestRefusal, ServerCounts

AccessCheck = Callable[[RemotingCommand, Channel], None]
"""Raises AccessDeniedError if a request is not allowed."""

REMARK_CHARACTERS_MAX = 1_000


class RequestHandler:
    """Answers requests. tell: what an operator should know of."""

    def __init__(self, counts: ServerCounts, tell: Callable[[str], None]) -> None:
        self.check: AccessCheck | None = None
        """Whether a request is allowed; None: all are."""
        self._counts = counts
        self._tell = tell

    def handle(self, request: PooledRequest) -> None:
        """Process a request and send what it is answered."""
        command, session = request.command, request.session
        try:
            response = self._response(request)
        finally:
            session.done_request(
                request.size_bytes
            )  # before its client can ask again: who waits does not pipeline
        if response is None or command.is_one_way:
            return
        try:
            session.send(response)
        except Exception as error:  # of the response: nothing that a frame can hold
            self._answer(request, ResponseCode.SYSTEM_ERROR, str(error))

    def refuse(self, request: PooledRequest, refusal: RequestRefusal, remark: str) -> None:
        """Answer a request that is not processed SYSTEM_BUSY."""
        self._counts.refused(refusal)
        request.session.done_request(request.size_bytes)
        self._answer(request, ResponseCode.SYSTEM_BUSY, remark)

    def _response(self, request: PooledRequest) -> RemotingCommand | None:
        command, session = request.command, request.session
        try:
            if self.check is not None:
                self.check(command, session)
            return request.processor(command, session)
        except AccessDeniedError as error:
            self._counts.refused(RequestRefusal.ACCESS)
            return response_to(command, error.code, str(error)[:REMARK_CHARACTERS_MAX])
        except Exception as error:
            self._counts.refused(RequestRefusal.FAILED)
            text = f"{type(error).__name__}: {error}"[:REMARK_CHARACTERS_MAX]
            self._tell(f"{session.remote_address}: request {command.code}: {text}")
            return response_to(command, ResponseCode.SYSTEM_ERROR, text)

    def _answer(self, request: PooledRequest, code: int, remark: str) -> None:
        if not request.command.is_one_way:
            request.session.send(response_to(request.command, code, remark[:REMARK_CHARACTERS_MAX]))
