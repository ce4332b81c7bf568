"""Routing: which processor answers a request, and in which pool of tasks.

Channel and Processor are the joint between the server, which moves frames, and the processors, which know what they
mean. The server calls a processor in a task of the processor's pool, so a processor may wait, but a send that waits for
a sync or a slave holds no task: it is a `LateResponse`. Each kind of request has a pool of its own, so what waits holds
up only its own kind. `answering` turns what a processor raises into a response.
Source: RocketMQ BrokerController.registerProcessor.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple, Protocol, TypeVar

from ..errors import CorruptFileError, StoreError, StoreNotReadableError
from ..formats.messages import PutMessageResult
from ..formats.remoting.command import RemotingCommand
from ..log.put_wait import PutWait
from .requests import RequestRefusedError, ResponseCode, response_to


class Channel(Protocol):
    """One client's connection, as processors see it. Any task may use it."""

    @property
    def remote_address(self) -> str:
        """Return the client as `host:port`."""

    @property
    def local_address(self) -> str:
        """Return what the client has connected to, as `host:port`."""

    @property
    def is_open(self) -> bool:
        """Return whether anything can still be sent."""

    def send(self, command: RemotingCommand) -> bool:
        """Have a command sent, never waiting; False if it never will be: closed, or the client does not read."""

    def close(self) -> None:
        """End the connection."""


class LateResponse:
    """The response to a put that may have to wait; a processor begins that with `notify`, and returns what it waits in.

    Whoever asks it looks when it is notified, and when its time is over.
    """

    __slots__ = ("_is_notified", "_on_known", "_put", "respond")

    def __init__(self, respond: Callable[[PutMessageResult], RemotingCommand]) -> None:
        self.respond = respond
        """Makes the response of the put's answer."""
        self._put: PutWait | None = None
        self._on_known: Callable[[], None] | None = None
        self._is_notified = False

    def to(self, put: PutMessageResult | PutWait) -> "RemotingCommand | LateResponse":
        """Return the response to a put whose answer is known, or else this."""
        if not isinstance(put, PutWait):
            return self.respond(put)
        self._put = put
        return self

    def notify(self) -> None:
        """Say that its put may have been answered. Any task may call."""
        self._is_notified = True  # before reading `_on_known`, as `follow` sets and then reads: one of the two calls it
        if self._on_known is not None:
            self._on_known()

    def follow(self, on_known: Callable[[], None]) -> None:
        """Have a function called whenever a look may be worth it: at once, if that was said before."""
        self._on_known = on_known  # before the look: whoever notifies meanwhile calls, or is seen
        if self._is_notified:
            on_known()

    def look(self, now_ns: int) -> PutMessageResult | None:
        """Return the put's answer; None if it is not known yet."""
        assert self._put is not None, "it waits"
        return self._put.look(now_ns)

    def due_ns(self, now_ns: int) -> int:
        """Return when to look again, though nobody may have notified it."""
        assert self._put is not None, "it waits"
        return self._put.due_ns(now_ns)


Response = RemotingCommand | LateResponse | None
"""What becomes of a request. None: nothing to answer now; a held pull is answered later by `channel.send`."""
_Answer = TypeVar("_Answer", bound=Response)
Processor = Callable[[RemotingCommand, Channel], Response]
"""Answers one request.

What it raises becomes SYSTEM_ERROR with the text of the exception. A one-way request's answer is dropped.
"""


class Pool(Enum):
    """The kinds of requests, each with tasks and a queue of its own."""

    SEND_MESSAGE = "send message"
    PULL_MESSAGE = "pull message"
    REPLY_MESSAGE = "reply message"
    QUERY_MESSAGE = "query message"
    CLIENT_MANAGE = "client manage"
    CONSUMER_MANAGE = "consumer manage"
    HEARTBEAT = "heartbeat"
    END_TRANSACTION = "end transaction"
    ADMIN = "admin"


BODY_BYTES_MAX = 256 * 1024
"""Of a request that carries no messages: a heartbeat of a thousand subscriptions fits. Parsing it delays all others."""
REGISTRATION_BYTES_MAX = 1024 * 1024
"""Of a broker that registers at the name server of another broker: six thousand topics."""


class Route(NamedTuple):
    """Where a request goes."""

    pool: Pool
    processor: Processor
    body_bytes_max: int = BODY_BYTES_MAX
    """A request with a larger body is refused before it is queued."""


Routes = Mapping[int, Route]
"""By request code; others are not supported."""


def answering(
    processor: Callable[[RemotingCommand, Channel], _Answer],
) -> Callable[[RemotingCommand, Channel], _Answer | RemotingCommand]:
    """Return a processor that answers what another one refuses or fails at, and never raises an error of ours."""

    def process(request: RemotingCommand, channel: Channel) -> _Answer | RemotingCommand:
        try:
            return processor(request, channel)
        except RequestRefusedError as refused:
            return response_to(request, refused.code, refused.remark)
        except StoreNotReadableError as error:
            return response_to(request, ResponseCode.SERVICE_NOT_AVAILABLE, str(error))
        except CorruptFileError as error:
            remark = f"{error.file}: {error.field}: expected {error.expected}, found {error.found}"
            return response_to(request, ResponseCode.SYSTEM_ERROR, remark)
        except (StoreError, OSError) as error:
            return response_to(request, ResponseCode.SYSTEM_ERROR, str(error))

    return process
