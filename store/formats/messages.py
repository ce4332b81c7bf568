"""Messages and results: the arguments and return values of put and pull."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from .host import Host, encode_message_id
from .properties import PROPERTY_KEYS, PROPERTY_TAGS, encode_properties

LOOPBACK_BROKER = Host(b"\x7f\0\0\1", 10911)
LOOPBACK_CLIENT = Host(b"\x7f\0\0\1", 0)


@dataclass(slots=True)
class Message:
    """A message for one queue. `properties` is the encoded property string, which is stored unchanged."""

    topic: str
    body: bytes = b""
    queue_id: int = 0
    properties: str = ""
    flag: int = 0
    sys_flag: int = 0
    born_timestamp_ms: int = 0
    born_host: Host = LOOPBACK_CLIENT
    store_host: Host = LOOPBACK_BROKER
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    wait_store_ok: bool = True
    """Whether a put under SYNC_FLUSH waits for the disk (RocketMQ's WAIT)."""
    honour_delay: bool = True
    """Whether a DELAY property delays the message. False for a delivered copy."""

    @classmethod
    def create(
        cls,
        topic: str,
        body: bytes,
        *,
        queue_id: int = 0,
        tags: str = "",
        keys: str = "",
        properties: Mapping[str, str] | None = None,
    ) -> "Message":
        """Create a message. `keys` are separated by spaces."""
        named = dict(properties or {})
        if tags:
            named[PROPERTY_TAGS] = tags
        if keys:
            named[PROPERTY_KEYS] = keys
        return cls(topic, body, queue_id, encode_properties(named))


@dataclass(slots=True)
class MessageBatch:
    """Messages for one queue that are stored in one segment, without other records between them.

    `head` contains topic, queue, hosts, times, and properties for each message. `units` is the batch body
    (`formats.batch`).
    """

    head: Message
    units: bytes = field(repr=False)


@lru_cache(maxsize=4096)
def is_storable_topic(topic: str) -> bool:
    """Return whether a topic can be the name of a directory."""
    return bool(topic) and "/" not in topic and "\0" not in topic and topic not in (".", "..")


class PutMessageStatus(Enum):
    """Status of a put. The first four values mean that the message is in the log."""

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

    @property
    def is_final(self) -> bool:
        """Whether the store will refuse the same message again, unless its settings change."""
        return self in (PutMessageStatus.MESSAGE_ILLEGAL, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED)


PUT_OK = PutMessageStatus.PUT_OK  # an attribute of an Enum takes ten times as long as a name


class AppendMessageResult(NamedTuple):
    """Position of a put's records, which are adjacent in one segment and have consecutive queue offsets."""

    wrote_offset: int
    wrote_bytes: int
    queue_offset: int
    store_timestamp_ms: int
    store_host: Host
    record_starts: tuple[int, ...] = (0,)
    """The start of each record, relative to wrote_offset."""

    @property
    def message_count(self) -> int:
        return len(self.record_starts)

    @property
    def message_id(self) -> str:
        """Offset message ids, separated by commas."""
        host, begin = self.store_host, self.wrote_offset
        if len(self.record_starts) == 1:  # a single message, the common case
            return encode_message_id(host, begin + self.record_starts[0])
        return ",".join(encode_message_id(host, begin + start) for start in self.record_starts)


class PutMessageResult(NamedTuple):
    """Result of a put. `append` is None if the log is unchanged."""

    status: PutMessageStatus
    append: AppendMessageResult | None = None

    @property
    def is_stored(self) -> bool:
        """Whether the message is in the log, durable or not."""
        return self.append is not None


class GetMessageStatus(Enum):
    """Status of a pull."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


@dataclass(slots=True)
class GetMessageResult:
    """Result of a pull. All offsets except physical_offsets are queue offsets."""

    status: GetMessageStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    records: list[bytes] = field(default_factory=list, repr=False)
    queue_offsets: list[int] = field(default_factory=list)
    physical_offsets: list[int] = field(default_factory=list)
    suggest_pulling_from_slave: bool = False
    fall_behind_bytes: int = -1
    """Bytes from the last examined message to the end of the log, or -1 if no message was examined."""

    @property
    def buffer_total_bytes(self) -> int:
        return sum(map(len, self.records))
