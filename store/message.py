"""What a producer hands in."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .formats.host import Host
from .formats.properties import PROPERTY_KEYS, PROPERTY_TAGS, encode_properties

LOOPBACK_BROKER = Host(b"\x7f\0\0\1", 10911)
LOOPBACK_CLIENT = Host(b"\x7f\0\0\1", 0)


@dataclass(slots=True)
class Message:
    """One message for one queue. `properties` is the encoded string, stored as it is."""

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
    """Whether the answer waits for the disk under SYNC_FLUSH (RocketMQ's WAIT)."""
    honour_delay: bool = True
    """Whether a DELAY property counts. Not that of a copy on delivery, whose properties still have it."""

    @classmethod
    def of(
        cls,
        topic: str,
        body: bytes,
        *,
        queue_id: int = 0,
        tags: str = "",
        keys: str = "",
        properties: Mapping[str, str] | None = None,
    ) -> "Message":
        """Make a message from plain values; keys are separated by spaces."""
        named = dict(properties or {})
        if tags:
            named[PROPERTY_TAGS] = tags
        if keys:
            named[PROPERTY_KEYS] = keys
        return cls(topic, body, queue_id, encode_properties(named))


@dataclass(slots=True)
class MessageBatch:
    """Messages for one queue that are stored next to each other, in one segment.

    `head` gives topic, queue, hosts, times and the properties every unit gets appended; `units` is the batch body
    (`formats.batch`).
    """

    head: Message
    units: bytes = field(repr=False)
