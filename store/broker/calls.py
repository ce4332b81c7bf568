"""What a broker asks its clients and waits to be answered.

Few such calls are under way at a time: a client that never answers is to hold up nobody but whoever asked.
Source: RocketMQ Broker2Client.callClient.
"""

from collections.abc import Mapping

from ..formats.remoting.command import RemotingCommand
from ..world import Signal, World
from .channel import Channel
from .requests import RequestRefusedError, ResponseCode
from .responses import BROKER_VERSION

TIMEOUT_MS = 5_000
CALLS_MAX = 2
_OPAQUE_BASE = 1 << 30
"""Apart from those of pushes, which nobody answers."""
_OPAQUE_MASK = _OPAQUE_BASE - 1


class _Call:
    __slots__ = ("answered", "response")

    def __init__(self, answered: Signal) -> None:
        self.answered = answered
        self.response: RemotingCommand | None = None


class ClientCalls:
    """Sends requests to clients, and takes their responses. Any task may call it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lock = world.tasks.lock("calls of clients")
        self._opaques = world.tasks.cell("opaques of calls")
        self._calls: dict[tuple[Channel, int], _Call] = {}

    def call(
        self, channel: Channel, code: int, fields: Mapping[str, str], body: bytes = b""
    ) -> RemotingCommand:
        """Return a client's response. Refuses the request that this is for if none comes, or too much is asked."""
        opaque = _OPAQUE_BASE | self._opaques.add(1) & _OPAQUE_MASK
        call = _Call(self._world.tasks.signal("answer of a client"))
        key = channel, opaque
        with self._lock:
            if len(self._calls) >= CALLS_MAX:
                raise RequestRefusedError(
                    ResponseCode.SYSTEM_BUSY, "other clients are being asked: try again"
                )
            self._calls[key] = call
        try:
            request = RemotingCommand(code, opaque, version=BROKER_VERSION, ext_fields=fields, body=body)
            if not channel.send(request) or not call.answered.wait(TIMEOUT_MS):
                raise RequestRefusedError(
                    ResponseCode.CONSUME_MSG_TIMEOUT,
                    f"{channel.remote_address}: no answer in {TIMEOUT_MS} ms",
                )
        finally:
            with self._lock:
                del self._calls[key]
        assert call.response is not None, "set before it is notified"
        return call.response

    def answered(self, channel: Channel, response: RemotingCommand) -> bool:
        """Hand a response to whoever waits for it; False if nobody does."""
        with self._lock:
            call = self._calls.get((channel, response.opaque))
        if call is None:
            return False
        call.response = response
        call.answered.notify()
        return True
