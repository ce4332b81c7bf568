"""Routing: which processor answers a request, and in which pool of tasks.

Channel and Processor are the joint between the server, which moves frames, and the processors, which know what they
mean. The server calls a processor in a task of the processor's pool, so a processor may wait: for a sync, for a slave.
Each kind of request has a pool of its own, so what waits holds up only its own kind. `answering` turns what a processor
raises into a response.
Source: RocketMQ BrokerController.registerProcessor.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from ..errors import CorruptFileError, StoreError, StoreNotReadableError
from ..formats.remoting.command import RemotingCommand
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


Processor = Callable[[RemotingCommand, Channel], RemotingCommand | None]
"""Answers one request. None: nothing to answer now; a held pull is answered later by `channel.send`.

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


class Route(NamedTuple):
    """Where a request goes."""

    pool: Pool
    processor: Processor


Routes = Mapping[int, Route]
"""By request code; others are not supported."""


def answering(processor: Processor) -> Processor:
    """Return a processor that answers what another one refuses or fails at, and never raises an error of ours."""

    def process(request: RemotingCommand, channel: Channel) -> RemotingCommand | None:
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
