"""Light queues: additional queues that contain a message without a second record.

The property INNER_MULTI_DISPATCH contains the names of a message's light queues, separated by `,`.
INNER_MULTI_QUEUE_OFFSET contains the message's offset in each light queue, in the same order. The put lock protects the
counters of light queues, which share one table with all other queues. With `enable_lmq`, a light queue with the prefix
%LMQ% has queue id 0; any other light queue has the queue id of the message.

The store adds a delayed or transactional message to its light queues only at its delivery or commit. Source: RocketMQ
MultiDispatch, ConsumeQueue.multiDispatchLmqQueue, MixAll.isLmq.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..errors import InvalidMessageError
from .delay_level import SCHEDULE_TOPIC
from .half_message import GIVEN_UP_TOPIC, HALF_TOPIC
from .java_text import is_java_blank, java_split
from .messages import is_storable_topic
from .properties import (
    ENTRY_SEPARATOR,
    NAME_SEPARATOR,
    PROPERTY_INNER_MULTI_DISPATCH,
    PROPERTY_INNER_MULTI_QUEUE_OFFSET,
    PROPERTY_WAIT,
    decode_properties,
    find_property,
    rebuild_properties,
)
from .scan import ScannedRecord

LIGHT_PREFIX = "%LMQ%"
LIGHT_MARK = b"INNER_MULTI_"
"""Bytes that occur in the properties of every message that may be in a light queue."""

_NAMES = PROPERTY_INNER_MULTI_DISPATCH.encode()
_OFFSETS = PROPERTY_INNER_MULTI_QUEUE_OFFSET.encode()
_SPLITTER = ","
_NAME_BYTES_MAX = 255
_OFFSET_MAX = (1 << 63) - 1
_DIGITS_MAX = len(str(_OFFSET_MAX))
_WAITING_TOPICS = (SCHEDULE_TOPIC, HALF_TOPIC, GIVEN_UP_TOPIC)

QueueKey = tuple[str, int]


# -- records in the log ----------------------------------------------------------------------------


def light_records(record: ScannedRecord, *, lmq: bool) -> list[ScannedRecord]:
    """Return a copy of a record for each of its light queues, with topic, queueId and queueOffset in that queue.

    If offsets and names differ in number, the list is empty. Light queues may have been disabled at the put.
    """
    names, offsets = find_property(record.properties, _NAMES), find_property(record.properties, _OFFSETS)
    if names is None or offsets is None:
        return []
    split_names = _split_names(names.decode(errors="surrogateescape"))
    split_offsets = offsets.split(_SPLITTER.encode())
    if len(split_names) != len(split_offsets) or not all(map(_is_offset, split_offsets)):
        return []
    seen: dict[QueueKey, int] = {(record.topic, record.queue_id): record.queue_offset}
    for name, offset in zip(split_names, split_offsets, strict=True):
        if _is_queue_name(name):
            seen.setdefault((name, _queue_id(name, record.queue_id, lmq=lmq)), int(offset))
    _, *others = seen.items()
    return [record._replace(topic=key[0], queue_id=key[1], queue_offset=offset) for key, offset in others]


def _split_names(text: str) -> list[str]:
    """Split names like Java, which drops empty names at the end. A blank text has no names."""
    return [] if is_java_blank(text) else java_split(text, _SPLITTER)


def _is_offset(text: bytes) -> bool:
    return text.isdigit() and len(text) <= _DIGITS_MAX


def _is_queue_name(name: str) -> bool:
    return is_storable_topic(name) and len(name.encode(errors="surrogateescape")) <= _NAME_BYTES_MAX


def _queue_id(name: str, queue_id: int, *, lmq: bool) -> int:
    return 0 if lmq and name.startswith(LIGHT_PREFIX) else queue_id


# -- messages to put -------------------------------------------------------------------------------


def without_offsets(properties: bytes) -> bytes:
    """Remove light-queue offsets, which only the store may set."""
    separator, dropped = ENTRY_SEPARATOR.encode(), _OFFSETS + NAME_SEPARATOR.encode()
    return separator.join(piece for piece in properties.split(separator) if not piece.startswith(dropped))


@dataclass(slots=True)
class LightPut:
    """A message for light queues. The put lock must be held during encoding."""

    keys: tuple[QueueKey, ...]
    """The light queues in the order of INNER_MULTI_DISPATCH. A queue may occur twice."""
    properties: dict[str, str]
    encode: Callable[[bytes], bytearray]
    offsets: tuple[int, ...] = ()

    def properties_with_widest_offsets(self) -> bytes:
        """Return the longest possible properties, for a check of their length."""
        return self._properties_with(_OFFSET_MAX for _ in self.keys)

    def assign_offsets(self, table: dict[QueueKey, int]) -> bytearray:
        """Assign the next offset of each light queue, and return the encoded record."""
        # If the caller released the put lock before `count`, two producers could get the same offset in a light queue.
        self.offsets = tuple(table.get(key, 0) for key in self.keys)
        return self.encode(self._properties_with(self.offsets))

    def _properties_with(self, offsets: Iterable[int]) -> bytes:
        named = self.properties | {PROPERTY_INNER_MULTI_QUEUE_OFFSET: _SPLITTER.join(map(str, offsets))}
        return rebuild_properties(named).encode()

    def count(self, table: dict[QueueKey, int]) -> None:
        for key, offset in zip(self.keys, self.offsets, strict=True):
            table[key] = offset + 1

    def exceeds_queue_limit(self, table: dict[QueueKey, int], queues_max: int) -> bool:
        new = {key for key in self.keys if key not in table and key[0].startswith(LIGHT_PREFIX)}
        if not new or len(table) + len(new) <= queues_max:
            return False
        return sum(name.startswith(LIGHT_PREFIX) for name, _ in table) + len(new) > queues_max


def light_put(
    topic: str, queue_id: int, properties: bytes, encode: Callable[[bytes], bytearray], *, lmq: bool
) -> LightPut | None:
    """Return the put of a message for light queues, or None if the message has no light queue.

    Raises InvalidMessageError if the name of a light queue cannot be a directory name.
    """
    if topic in _WAITING_TOPICS:
        return None
    named = decode_properties(properties.decode())
    names = _split_names(named.get(PROPERTY_INNER_MULTI_DISPATCH, ""))
    if not names:
        return None
    if not all(map(_is_queue_name, names)):
        found = f"one of {names} cannot be the name of a directory"
        raise InvalidMessageError(f"{PROPERTY_INNER_MULTI_DISPATCH}: {found}")
    named.pop(PROPERTY_WAIT, None)
    return LightPut(tuple((name, _queue_id(name, queue_id, lmq=lmq)) for name in names), named, encode)
