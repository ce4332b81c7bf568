"""Which request is answered by whom, and in whose time.

Each kind of request has a pool of tasks, so that what waits (a sync, a slave, a long list) holds up only its own kind.
Source: RocketMQ BrokerController.registerProcessor.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from .channel import Processor


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


@dataclass(frozen=True, slots=True)
class Router:
    """Routes by request code."""

    routes: Mapping[int, Route]
    default: Route | None = None
    """For every other code; None: these are not supported."""

    def route(self, code: int) -> Route | None:
        """Return where a request of this code goes, None if it is not supported."""
        return self.routes.get(code, self.default)
