"""What a producer is told: one answer per put, in RocketMQ's words."""

from enum import Enum
from typing import NamedTuple

from .formats.host import Host
from .formats.message_id import encode_message_id


class PutMessageStatus(Enum):
    """The answer to a put. The first four mean that the message is in the log."""

    PUT_OK = "PUT_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    CREATE_MAPEDFILE_FAILED = "CREATE_MAPEDFILE_FAILED"
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    OS_PAGECACHE_BUSY = "OS_PAGECACHE_BUSY"
    UNKNOWN_ERROR = "UNKNOWN_ERROR"
    LMQ_CONSUME_QUEUE_NUM_EXCEEDED = "LMQ_CONSUME_QUEUE_NUM_EXCEEDED"


class AppendMessageResult(NamedTuple):
    """Where a put's records are: contiguous in one segment, queue offsets counting up by one."""

    wrote_offset: int
    wrote_bytes: int
    queue_offset: int
    store_timestamp_ms: int
    store_host: Host
    record_starts: tuple[int, ...] = (0,)
    """Where each record of the put begins, counted from wrote_offset."""

    @property
    def message_count(self) -> int:
        """Return how many records the put became."""
        return len(self.record_starts)

    @property
    def message_id(self) -> str:
        """Return the offset message ids, joined by commas for a batch."""
        return ",".join(
            encode_message_id(self.store_host, self.wrote_offset + start) for start in self.record_starts
        )


class PutMessageResult(NamedTuple):
    """The answer to a put; append is None when nothing was written."""

    status: PutMessageStatus
    append: AppendMessageResult | None = None

    @property
    def is_stored(self) -> bool:
        """Return whether the message is in the log, durable or not."""
        return self.append is not None
