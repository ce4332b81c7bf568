"""Routing: the processor and the task pool of each request code.

The server transports frames, and the processors interpret them. Channel and Processor are the interface between server
and processors. A processor runs in a task of its pool and may block. A send that waits for an fsync or a slave blocks
no task, because its processor returns a `LateResponse`. Each kind of request has its own pool, so blocked requests
delay only requests of their kind.
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
    """The connection of one client, as seen by processors. Thread-safe."""

    @property
    def remote_address(self) -> str:
        """The client, as `host:port`."""

    @property
    def local_address(self) -> str:
        """The server, as `host:port`."""

    @property
    def is_open(self) -> bool: ...

    def send(self, command: RemotingCommand) -> bool:
        """Queue a command without blocking. Return False if the connection is closed or the client does not read."""

    def close(self) -> None: ...


class LateResponse:
    """The response to a put that may still be incomplete. The processor passes `notify` to the put.

    The receiver calls `poll` after each notification and at the deadline.
    """

    __slots__ = ("_is_notified", "_on_known", "_put", "respond")

    def __init__(self, respond: Callable[[PutMessageResult], RemotingCommand]) -> None:
        self.respond = respond
        self._put: PutWait | None = None
        self._on_known: Callable[[], None] | None = None
        self._is_notified = False

    def response_or_self(self, put: PutMessageResult | PutWait) -> "RemotingCommand | LateResponse":
        """Return the response if the put is complete, otherwise this object."""
        if not isinstance(put, PutWait):
            return self.respond(put)
        self._put = put
        return self

    def notify(self) -> None:
        """Report that the put may be complete now. Thread-safe."""
        self._is_notified = True  # set before `_on_known` is read: either this call or `call_on_notify` calls it
        if self._on_known is not None:
            self._on_known()

    def call_on_notify(self, on_known: Callable[[], None]) -> None:
        """Call a function after each notification, and now if a notification came before."""
        self._on_known = on_known  # set before `_is_notified` is read: either `notify` or this call calls it
        if self._is_notified:
            on_known()

    def poll(self, now_ns: int) -> PutMessageResult | None:
        """Return None if the put is not complete."""
        assert self._put is not None, "it waits"
        return self._put.poll(now_ns)

    def due_ns(self, now_ns: int) -> int:
        """Return when `poll` must be called even without a notification."""
        assert self._put is not None, "it waits"
        return self._put.due_ns(now_ns)


Response = RemotingCommand | LateResponse | None
"""Outcome of a request; None: no answer now. The answer to a held pull is sent later by `channel.send`."""
_Answer = TypeVar("_Answer", bound=Response)
Processor = Callable[[RemotingCommand, Channel], Response]
"""Answers one request.

The text of an exception is sent as SYSTEM_ERROR. The answer to a one-way request is dropped.
"""


class Pool(Enum):
    """The kinds of requests, each with its own tasks and queue."""

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
"""Body limit of requests without messages, because parsing delays other requests. 1,000 subscriptions fit."""
REGISTRATION_BYTES_MAX = 1024 * 1024
"""Body limit of a registration with a built-in name server. 6,000 topics fit."""


class RequestRoute(NamedTuple):
    """Destination of a request."""

    pool: Pool
    processor: Processor
    body_bytes_max: int = BODY_BYTES_MAX
    """A request with a larger body is refused before the request is queued."""


Routes = Mapping[int, RequestRoute]
"""By request code. All other codes are refused as not supported."""


def with_error_responses(
    processor: Callable[[RemotingCommand, Channel], _Answer],
) -> Callable[[RemotingCommand, Channel], _Answer | RemotingCommand]:
    """Convert refusals and errors into responses."""

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
