"""Server counters: connections and requests, and their ends by reason."""

from enum import Enum

from ..world import Tasks


class ConnectionEnding(Enum):
    """Reason for the end of a connection."""

    BY_CLIENT = "closed by the client"
    BROKEN = "broken"
    BAD_LENGTH = "a frame with an impossible length"
    BAD_FRAME = "a frame without a valid command"
    HALF_FRAME = "a frame that was not completed in time"
    IDLE = "idle"
    NOT_READING = "answers that the client did not read"
    TOO_MUCH_HELD = "slowest client when memory ran out"
    TOO_MANY = "too many connections"
    TOO_MANY_OF_HOST = "too many connections of one host"
    FAILED = "an internal error of the server"
    BY_PROCESSOR = "closed by the broker"
    SHUTDOWN = "shut down"


class RequestRefusal(Enum):
    """Reason for the refusal or failure of a request."""

    QUEUE_FULL = "its queue was full"
    TOO_OLD = "it waited for too long"
    TOO_MUCH_HELD = "too many bytes were held"
    NOT_SUPPORTED = "its code is not supported"
    TOO_LARGE = "its body was too large"
    ACCESS = "access was denied"
    FAILED = "its processor failed"
    STRAY_RESPONSE = "it was a response without a request"


class ServerCounts:
    """Counters of a server. Thread-safe."""

    def __init__(self, tasks: Tasks) -> None:
        self._lock = tasks.lock("server counts")
        self.endings = dict.fromkeys(ConnectionEnding, 0)
        self.refusals = dict.fromkeys(RequestRefusal, 0)
        self.accepted = 0
        """Only the poller task writes `accepted`, `requests` and `accept_failures`."""
        self.requests = 0
        self.accept_failures = 0

    def count_ended(self, ending: ConnectionEnding) -> None:
        with self._lock:
            self.endings[ending] += 1

    def count_refused(self, refusal: RequestRefusal) -> None:
        with self._lock:
            self.refusals[refusal] += 1

    def counts_by_name(self) -> dict[str, int | dict[str, int]]:
        return {
            "accepted": self.accepted,
            "accept_failures": self.accept_failures,
            "requests": self.requests,
            "endings": {ending.name: count for ending, count in self.endings.items() if count},
            "refusals": {refusal.name: count for refusal, count in self.refusals.items() if count},
        }
