"""Put entries: the content of a put, its answer, and the queue and offsets of its record.

In addition to topic, queue, properties and body, a producer sets these fields, and a record keeps them:

    flag, born time, both hosts, reconsumeTimes    unchanged in every record of the message
    sysFlag                                        likewise, with the bits of IPv6 hosts, and 8 as the transaction bits
                                                   of a committed message
    magic, bodyCRC                                 of the layout, and of the body
    preparedTransactionOffset                      0; for a committed message TX checks it
    store time                                     as in the producer's answer, if it had one

An op, which ends a transaction, is a record of the store: both its hosts are the store's, and it has no flags.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from ...store.formats.messages import PutMessageStatus
from .reader import MAGIC, LogRecord, RecordHead, body_crc, is_queued, properties_of

PROPERTIES_MAX = 32_767
"""The limit is in bytes for a record, in UTF-16 code units for a put."""


TOPIC_MAX = 127


_FIXED_BYTES = 91


_LENGTHS_BYTES = 3
"""The sizes of topicLength and propertiesLength, which come after the body."""


_COMMITTED = 8

_OP_PROPERTIES = {"TAGS": "d", "WAIT": "true"}
_OP_AGE_MS_MAX = 3_600_000
"""Long, because a task may be paused between the decision and the put."""


_PORT_BYTES = 4


_AT = {
    "magicCode": 4,
    "bodyCRC": 8,
    "flag": 16,
    "sysFlag": 36,
    "bornTimestamp": 40,
    "bornHost": 48,
    "storeTimestamp": 56,
    "storeHost": 64,
    "reconsumeTimes": 72,
    "preparedTransactionOffset": 76,
}
"""Positions of fields in a record with IPv4 hosts."""


_HEAD_FIELDS = (
    "magicCode",
    "bodyCRC",
    "flag",
    "bornTimestamp",
    "bornHost",
    "storeHost",
    "reconsumeTimes",
    "preparedTransactionOffset",
)


class PutContent(NamedTuple):
    """The fields that a producer sets. A host is an address of 4 or 16 bytes, and a port."""

    flag: int = 0
    born_timestamp_ms: int = 0
    born_host: tuple[bytes, int] = (b"\x7f\0\0\1", 0)
    store_host: tuple[bytes, int] = (b"\x7f\0\0\1", 10911)
    reconsume_times: int = 0
    sys_flag: int = 0
    """The sysFlag without the bits for hosts. Only a message outside all queues has bits for transactions."""

    def head(self, body: bytes) -> RecordHead:
        born, hosts = self.born_timestamp_ms, (_host_bytes(self.born_host), _host_bytes(self.store_host))
        return RecordHead(MAGIC, body_crc(body), self.flag, born, *hosts, self.reconsume_times, 0)

    def with_port_of(self, record: LogRecord) -> "PutContent":
        address, _ = self.born_host
        return self._replace(born_host=(address, int.from_bytes(record.head.born_host[-_PORT_BYTES:], "big")))

    @property
    def stored_sys_flag(self) -> int:
        """The sysFlag of a record, except of a committed message."""
        return self.sys_flag | _host_bits(_host_bytes(self.born_host), _host_bytes(self.store_host))

    @property
    def body_at(self) -> int:
        return self.record_bytes(b"", "", b"") - _LENGTHS_BYTES

    def record_bytes(self, body: bytes, topic: str, properties: bytes) -> int:
        ipv6 = (len(self.born_host[0]) > 4) + (len(self.store_host[0]) > 4)
        return _FIXED_BYTES + ipv6 * _IPV6_EXTRA_BYTES + len(body) + len(topic) + len(properties)


PLAIN = PutContent()


def java_length(text: str) -> int:
    return len(text.encode("utf-16-be")) // 2


def refusal(
    topic: str, properties: Sequence[bytes], *, in_batch: bool = False, is_possible: bool
) -> PutMessageStatus | None:
    """Return the status with which a put must be refused. The first failed check decides.

    properties: of each record. is_possible: whether the rest of the put can be stored. A batch with an invalid message
    is refused as a whole. The characters of a batch are not counted.
    """
    too_long = max(map(len, properties)) > PROPERTIES_MAX  # properties that fit in bytes also fit in code units
    if too_long and not in_batch and len(topic) <= TOPIC_MAX and java_length(properties[0].decode()) <= PROPERTIES_MAX:
        return PutMessageStatus.PROPERTIES_SIZE_EXCEEDED
    return PutMessageStatus.MESSAGE_ILLEGAL if too_long or not is_possible else None


class FieldDifference(NamedTuple):
    """A wrong field of a record."""

    offset: int
    field: str
    expected: str
    found: str


def differences(
    record: LogRecord,
    content: PutContent,
    head: RecordHead,
    *,
    is_committed: bool = False,
    stored_ms: int | None = None,
    tears: bool = False,
) -> Iterator[FieldDifference]:
    """Yield each field of a record that differs from the put.

    head: content.head of its body. is_committed: whether the record is that of a committed message. stored_ms: the
    store time in the answer. tears: whether a torn sector may have zeroed bytes that no checksum covers, which recovery
    cannot detect.
    """
    if is_committed:
        head = head._replace(prepared_transaction_offset=record.head.prepared_transaction_offset)
    fields: list[tuple[str, int | bytes, int | bytes]] = list(zip(_HEAD_FIELDS, head, record.head, strict=True))
    sys_flag = content.stored_sys_flag | (_COMMITTED if is_committed else 0)
    fields.append(("sysFlag", sys_flag, record.sys_flag))
    if stored_ms is not None:
        fields.append(("storeTimestamp", stored_ms, record.store_timestamp_ms))
    yield from _wrong_fields(record, [one for one in fields if not (tears and _differs_only_in_zeros(one[1], one[2]))])


def differences_of_op(record: LogRecord, body: bytes, *, clock_is_true: bool) -> Iterator[FieldDifference]:
    """Yield differences of an op, except in its body. clock_is_true: whether the clock was never set back.

    The born time is that of the decision, right before the put.
    """
    found = record.head
    if clock_is_true and not 0 <= record.store_timestamp_ms - found.born_timestamp_ms <= _OP_AGE_MS_MAX:
        expected = f"up to {_OP_AGE_MS_MAX} ms before {record.store_timestamp_ms}"
        position = _position(record, "bornTimestamp")
        yield FieldDifference(position, "bornTimestamp", expected, str(found.born_timestamp_ms))
    if properties_of(record.properties) != _OP_PROPERTIES:
        at = record.size_bytes - len(record.properties)
        yield FieldDifference(at, "properties", str(_OP_PROPERTIES), repr(record.properties))
    head = RecordHead(MAGIC, body_crc(body), 0, found.born_timestamp_ms, found.store_host, found.store_host, 0, 0)
    yield from _wrong_fields(record, zip(_HEAD_FIELDS, head, found, strict=True))
    yield from _wrong_fields(record, [("sysFlag", _host_bits(head.born_host, head.store_host), record.sys_flag)])


def _wrong_fields(record: LogRecord, fields: Iterable[tuple[str, object, object]]) -> Iterator[FieldDifference]:
    for name, expected, found in fields:
        if expected != found:
            yield FieldDifference(_position(record, name), name, _shown(expected), _shown(found))


def _differs_only_in_zeros(expected: int | bytes, found: int | bytes) -> bool:
    wanted, there = _bytes_of(expected), _bytes_of(found)
    return len(wanted) == len(there) and all(one in (0, other) for one, other in zip(there, wanted, strict=True))


def _bytes_of(value: int | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.to_bytes(8, "big", signed=True)


def _position(record: LogRecord, field: str) -> int:
    at = _AT[field]
    at += len(record.head.born_host) - _IPV4_BYTES if at > _AT["bornHost"] else 0
    return at + (len(record.head.store_host) - _IPV4_BYTES if _AT[field] > _AT["storeHost"] else 0)


def _shown(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


@lru_cache(maxsize=1024)
def _host_bytes(host: tuple[bytes, int]) -> bytes:
    address, port = host
    return address + port.to_bytes(4, "big")


def _host_bits(born_host: bytes, store_host: bytes) -> int:
    return (_BORN_V6 if len(born_host) > _IPV4_BYTES else 0) | (_STORE_V6 if len(store_host) > _IPV4_BYTES else 0)


class ProducerKnowledge(Enum):
    """The producer's knowledge from the answer to a put."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    UNKNOWN = "unknown"


_STORED_OR_NOT = (
    PutMessageStatus.FLUSH_DISK_TIMEOUT,
    PutMessageStatus.FLUSH_SLAVE_TIMEOUT,
    PutMessageStatus.SLAVE_NOT_AVAILABLE,
    PutMessageStatus.UNKNOWN_ERROR,
)


class WaitingPlace(NamedTuple):
    """The queue in which a delayed message waits for its due time, or a half message for its decision."""

    place: tuple[str, int]
    delay_ms: int | None = None


@dataclass(slots=True, eq=False)
class PutEntry:
    """One message that a producer put, alone or in a batch. The properties of a put contain the put's name.

    Fields with compare=False follow from the name or other fields, so the state digest omits them.
    """

    name: str
    topic: str = field(compare=False)
    queue_id: int = field(compare=False)
    """-1 while only the broker knows the queue that it has chosen."""
    tags: str = field(compare=False)
    body: bytes = field(compare=False)
    properties: bytes = field(compare=False)
    wait: bool = field(compare=False)
    asked_ns: int = field(compare=False)
    answered_ns: int | None = None
    status: PutMessageStatus | None = None
    physical_offset: int | None = None
    queue_offset: int | None = None
    """None also for a put outside all queues."""
    is_durable: bool = False
    waiting_place: WaitingPlace | None = field(default=None, compare=False)
    """The queue in which the record waits first; None if it is stored in its own queue at once."""
    delayed_at_commit: WaitingPlace | None = field(default=None, compare=False)
    """The queue in which the committed message of a transaction waits; None if it is delivered at its commit."""
    light_names: tuple[str, ...] = field(default=(), compare=False)
    """Light queues in the put's properties, in addition to the put's own queue."""
    wrote_bytes: int | None = None
    content: PutContent = field(default=PLAIN, compare=False)
    """All other fields that the producer set."""
    stored_ms: int | None = None
    """The store time, from the answer or the record."""
    over_in: int | None = field(default=-1, compare=False)
    """The start after which the client's wait timed out; None while it waits. No later start may store the put."""
    knows_port: bool = field(default=True, compare=False)
    """Whether the born port is known. The client's system chooses it, and the first record contains it."""
    refused_because: str = field(default="", compare=False)
    """The reasons for which the put must be refused; empty if it can be stored."""
    _head: RecordHead | None = field(default=None, init=False, repr=False, compare=False)
    _sys_flag: int = field(default=0, init=False, repr=False, compare=False)

    @property
    def place(self) -> tuple[str, int]:
        """The topic and queue of the put's own record."""
        return (self.topic, self.queue_id) if self.waiting_place is None else self.waiting_place.place

    @property
    def is_queued(self) -> bool:
        """Whether the record has a place in its queue. Without one it has queue offset 0, and no consumer gets it."""
        return is_queued(self.content.sys_flag)

    @property
    def delay_ms(self) -> int | None:
        return None if self.waiting_place is None else self.waiting_place.delay_ms

    @property
    def delivery_delay_ms(self) -> int | None:
        """The delay of the delivery, which begins at the put or at the commit. None: no delay."""
        return self.delay_ms if self.delayed_at_commit is None else self.delayed_at_commit.delay_ms

    @property
    def head(self) -> RecordHead:
        if self._head is None:
            self._head = self.content.head(self.body)
            self._sys_flag = self.content.stored_sys_flag
        return self._head

    def has_expected_head(self, record: LogRecord) -> bool:
        """Compare head and sysFlag. Committed messages must not be compared."""
        return record.head == self.head and record.sys_flag == self._sys_flag

    def differences(
        self, record: LogRecord, *, is_committed: bool = False, tears: bool = False
    ) -> Iterator[FieldDifference]:
        answered_ms = self.stored_ms if record.physical_offset == self.physical_offset else None
        content, head = self.content, self.head
        if not self.knows_port:
            content = content.with_port_of(record)
            head = content.head(self.body)
        return differences(record, content, head, is_committed=is_committed, stored_ms=answered_ms, tears=tears)

    def set_born_port(self, record: LogRecord) -> None:
        """Set the port of the born host from a record. All records of a message must have the same port."""
        self.content = self.content.with_port_of(record)
        self.knows_port, self._head = True, None

    @property
    def record_bytes(self) -> int:
        """The size of the record. The caller knows it in advance unless the message waits in another queue."""
        if self.wrote_bytes is not None:
            return self.wrote_bytes
        return self.content.record_bytes(self.body, self.topic, self.properties)

    @property
    def knowledge(self) -> ProducerKnowledge:
        if self.status is None or self.status in _STORED_OR_NOT:
            return ProducerKnowledge.UNKNOWN
        if self.status is PutMessageStatus.PUT_OK:
            return ProducerKnowledge.ACKNOWLEDGED
        return ProducerKnowledge.REFUSED


_IPV4_BYTES = 8


_IPV6_EXTRA_BYTES = 12


_BORN_V6, _STORE_V6 = 0x10, 0x20
