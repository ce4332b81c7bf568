"""Router: chooses the processor and the task pool by the request code.

Channel and Processor connect the server, which transports frames, with the processors, which interpret them. A
processor runs in a task of its pool and may block. This delays only requests of the same pool. A send that waits for an
fsync or a slave blocks no task, because its processor returns a `LateResponse`.
Source: RocketMQ BrokerController.registerProcessor.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from functools import wraps
from typing import NamedTuple, Protocol, TypeVar

from ..errors import CorruptFileError, StoreError, StoreNotReadableError
from ..formats.messages import PutMessageResult
from ..formats.remoting.command import RemotingCommand
from ..log.put_wait import PutWait
from .requests import RequestRefusedError, ResponseCode, response_to


class Channel(Protocol):
    """The connection of a client, as seen by processors. Thread-safe."""

    @property
    def remote_address(self) -> str:
        """`host:port` of the client."""

    @property
    def local_address(self) -> str:
        """`host:port` of the server."""

    @property
    def is_open(self) -> bool: ...

    def send(self, command: RemotingCommand) -> bool:
        """Queue a command without blocking. Return False for a closed connection or a client that does not read."""

    def close(self) -> None: ...


class LateResponse:
    """The response to a put that may be incomplete. The processor passes `notify` to the put.

    The server calls `poll` after each notification and at the deadline.
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
        """Report that the put may be complete. Thread-safe."""
        self._is_notified = True  # set before the read of `_on_known`, so that one of two methods calls it
        if self._on_known is not None:
            self._on_known()

    def call_on_notify(self, on_known: Callable[[], None]) -> None:
        """Call a function after each notification. Call it at once if there was an earlier notification."""
        self._on_known = on_known  # set before the read of `_is_notified`, for the same reason as in `notify`
        if self._is_notified:
            on_known()

    def poll(self, now_ns: int) -> PutMessageResult | None:
        """Return the result, or None while the put is incomplete."""
        assert self._put is not None, "no put is pending"
        return self._put.poll(now_ns)

    def due_ns(self, now_ns: int) -> int:
        """Return the time to call `poll` even without a notification."""
        assert self._put is not None, "no put is pending"
        return self._put.due_ns(now_ns)


Response = RemotingCommand | LateResponse | None
"""Result of a request. None: no answer now; `channel.send` answers a held pull later."""
_Answer = TypeVar("_Answer", bound=Response)
Processor = Callable[[RemotingCommand, Channel], Response]
"""Answers a request.

The server sends the text of an exception as SYSTEM_ERROR, and no answer to a one-way request.
"""


class Pool(Enum):
    """A kind of request with its own tasks and queue."""

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
"""Maximum body of a request without messages: parsing delays other requests. 1,000 subscriptions fit."""
REGISTRATION_BYTES_MAX = 1024 * 1024
"""Maximum body of a registration with a built-in name server. 6,000 topics fit."""


class RequestRoute(NamedTuple):
    """Processor and pool of a request code."""

    pool: Pool
    processor: Processor
    body_bytes_max: int = BODY_BYTES_MAX
    """The server refuses a larger body before it queues the request."""


Routes = Mapping[int, RequestRoute]
"""Request code -> route. The server refuses other codes as not supported."""


def with_error_responses(
    processor: Callable[[RemotingCommand, Channel], _Answer],
) -> Callable[[RemotingCommand, Channel], _Answer | RemotingCommand]:

    @wraps(processor)
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
