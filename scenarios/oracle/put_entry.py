"""Put entries: a put as its producer knows it. What was handed in, what was answered, and where its record is to be.

Beside topic, queue, properties and body a producer hands in, and a record keeps:

    flag, born time, both hosts, reconsumeTimes    as they were handed in, in every record that is made of the message
    sysFlag                                        likewise, with the bits of IPv6 hosts; its transaction bits say what
                                                   the record is: 8 of a committed message, 0 of all others here
    magic, bodyCRC                                 of the layout, and of the body
    preparedTransactionOffset                      0; of a committed message TX says what
    store time                                     as in the producer's answer, if it had one

An op, which ends a transaction, is the store's own: both its hosts are the store's, and it has no flags.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from ...store.formats.messages import PutMessageStatus
from .reader import MAGIC, Head, LogRecord, body_crc

PROPERTIES_MAX = 32_767
"""How many bytes of properties a record can have, and how many code units a put."""


_TOPIC_MAX = 127


_FIXED_BYTES = 91


_LENGTHS_BYTES = 3
"""Of topicLength and propertiesLength, which come behind the body."""


_COMMITTED = 8


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
"""Where fields begin in a record with IPv4 hosts."""


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
"""What the format calls the fields of a Head."""


class PutContent(NamedTuple):
    """What a producer handed in. Hosts are an address of 4 or 16 bytes, and a port."""

    flag: int = 0
    born_timestamp_ms: int = 0
    born_host: tuple[bytes, int] = (b"\x7f\0\0\1", 0)
    store_host: tuple[bytes, int] = (b"\x7f\0\0\1", 10911)
    reconsume_times: int = 0
    sys_flag: int = 0
    """Without the bits that say what hosts and transactions the record has."""

    def head(self, body: bytes) -> Head:
        """Return what the record of a message with that body must have."""
        return Head(
            MAGIC,
            body_crc(body),
            self.flag,
            self.born_timestamp_ms,
            _host_bytes(self.born_host),
            _host_bytes(self.store_host),
            self.reconsume_times,
            0,
        )

    def with_port_of(self, record: LogRecord) -> "PutContent":
        """Return the same from the port that a record has in its born host."""
        address, _ = self.born_host
        return self._replace(born_host=(address, int.from_bytes(record.head.born_host[-_PORT_BYTES:], "big")))

    @property
    def stored_sys_flag(self) -> int:
        """Return the sysFlag of a record that is no committed message's."""
        return self.sys_flag | _host_bits(_host_bytes(self.born_host), _host_bytes(self.store_host))

    @property
    def body_at(self) -> int:
        """Return where the body begins in a record."""
        return self.record_bytes(b"", "", b"") - _LENGTHS_BYTES

    def record_bytes(self, body: bytes, topic: str, properties: bytes) -> int:
        """Return the size of a record for a topic."""
        ipv6 = (len(self.born_host[0]) > 4) + (len(self.store_host[0]) > 4)
        return _FIXED_BYTES + ipv6 * _IPV6_EXTRA_BYTES + len(body) + len(topic) + len(properties)


PLAIN = PutContent()


def code_units(text: str) -> int:
    """Return how many characters a text has, as Java counts them."""
    return len(text.encode("utf-16-be")) // 2


def refusal(
    topic: str, properties: Sequence[bytes], *, in_batch: bool = False, is_possible: bool
) -> PutMessageStatus | None:
    """Return how a put is to be refused, as the first of its checks that it fails says; None if it can be stored.

    properties: of each record. is_possible: whether all else about it could be stored. Of a batch, one message that
    cannot be stored is as good as all; nobody asks for how many characters it has.
    """
    too_long = max(map(len, properties)) > PROPERTIES_MAX  # of those that are not, no code units are
    if too_long and not in_batch and len(topic) <= _TOPIC_MAX and code_units(properties[0].decode()) <= PROPERTIES_MAX:
        return PutMessageStatus.PROPERTIES_SIZE_EXCEEDED
    return PutMessageStatus.MESSAGE_ILLEGAL if too_long or not is_possible else None


class FieldDifference(NamedTuple):
    """A field of a record that is not as it must be; offset: its position in the record."""

    offset: int
    field: str
    expected: str
    found: str


def differences(
    record: LogRecord,
    given: PutContent,
    head: Head,
    *,
    is_committed: bool = False,
    stored_ms: int | None = None,
    tears: bool = False,
) -> Iterator[FieldDifference]:
    """Yield every field of a record that has not what was handed in.

    head: given.head of its body. is_committed: whether it is the record of a message that was committed. stored_ms:
    what its producer was answered, None if it was not. tears: whether bytes may be zero instead, as power cuts tear
    them: no checksum covers these fields, so that no recovery can see it.
    """
    if is_committed:
        head = head._replace(prepared_transaction_offset=record.head.prepared_transaction_offset)
    fields: list[tuple[str, int | bytes, int | bytes]] = list(zip(_HEAD_FIELDS, head, record.head, strict=True))
    sys_flag = given.stored_sys_flag | (_COMMITTED if is_committed else 0)
    fields.append(("sysFlag", sys_flag, record.sys_flag))
    if stored_ms is not None:
        fields.append(("storeTimestamp", stored_ms, record.store_timestamp_ms))
    yield from _different(record, [one for one in fields if not (tears and _is_torn(one[1], one[2]))])


def differences_of_op(record: LogRecord, body: bytes) -> Iterator[FieldDifference]:
    """Yield what is wrong with an op, but for its body, its properties and its times."""
    found = record.head
    head = Head(MAGIC, body_crc(body), 0, found.born_timestamp_ms, found.store_host, found.store_host, 0, 0)
    yield from _different(record, zip(_HEAD_FIELDS, head, found, strict=True))
    yield from _different(record, [("sysFlag", _host_bits(head.born_host, head.store_host), record.sys_flag)])


def _different(record: LogRecord, fields: Iterable[tuple[str, object, object]]) -> Iterator[FieldDifference]:
    for name, expected, found in fields:
        if expected != found:
            yield FieldDifference(_position(record, name), name, _shown(expected), _shown(found))


def _is_torn(expected: int | bytes, found: int | bytes) -> bool:
    """Return whether what is found is what was expected, but for bytes that are zero."""
    wanted, there = _bytes_of(expected), _bytes_of(found)
    return len(wanted) == len(there) and all(one in (0, other) for one, other in zip(there, wanted, strict=True))


def _bytes_of(value: int | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.to_bytes(8, "big", signed=True)


def _position(record: LogRecord, field: str) -> int:
    """Return where a field begins in a record."""
    at = _AT[field]
    at += len(record.head.born_host) - _IPV4_BYTES if at > _AT["bornHost"] else 0
    return at + (len(record.head.store_host) - _IPV4_BYTES if _AT[field] > _AT["storeHost"] else 0)


def _shown(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


@lru_cache(maxsize=1024)
def _host_bytes(host: tuple[bytes, int]) -> bytes:
    """Return a host as a record has it; puts of one host share the bytes."""
    address, port = host
    return address + port.to_bytes(4, "big")


def _host_bits(born_host: bytes, store_host: bytes) -> int:
    return (_BORN_V6 if len(born_host) > _IPV4_BYTES else 0) | (_STORE_V6 if len(store_host) > _IPV4_BYTES else 0)


class Knowledge(Enum):
    """What a producer may conclude from its answer."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    UNKNOWN = "unknown"


_STORED_OR_NOT = (
    PutMessageStatus.FLUSH_DISK_TIMEOUT,
    PutMessageStatus.FLUSH_SLAVE_TIMEOUT,
    PutMessageStatus.SLAVE_NOT_AVAILABLE,
    PutMessageStatus.UNKNOWN_ERROR,
)


class Detour(NamedTuple):
    """Where a record waits: for its time, or for its transaction to be decided."""

    place: tuple[str, int]
    """Topic and queue."""
    delay_ms: int | None = None
    """How long after it was stored it is due, if it waits for its time."""


@dataclass(slots=True, eq=False)
class PutEntry:
    """One message a producer put, alone or in a batch. Its properties name it, and are in its record.

    Fields with compare=False follow from the name, or say no more of the state than the others (`state_digest`).
    """

    name: str
    topic: str = field(compare=False)
    queue_id: int = field(compare=False)
    tags: str = field(compare=False)
    body: bytes = field(compare=False)
    properties: bytes = field(compare=False)
    wait: bool = field(compare=False)
    asked_ns: int = field(compare=False)
    answered_ns: int | None = None
    status: PutMessageStatus | None = None
    physical_offset: int | None = None
    queue_offset: int | None = None
    is_durable: bool = False
    """Whether even a power cut may not take it any more."""
    detour: Detour | None = field(default=None, compare=False)
    """Where its record waits, if it does not go straight to its queue."""
    light_names: tuple[str, ...] = field(default=(), compare=False)
    """The light queues it is to enter beside its own, as it names them."""
    wrote_bytes: int | None = None
    """Size of its record, once known."""
    given: PutContent = field(default=PLAIN, compare=False)
    """What else its producer handed in."""
    stored_ms: int | None = None
    """When it was stored, as the answer said, or a record of it."""
    over_in: int | None = field(default=-1, compare=False)
    """The life of the store in which its client stopped waiting; None: it still waits. A later life cannot store it."""
    knows_port: bool = field(default=True, compare=False)
    """Whether the port in its born host is known. A client's system chooses it, and the first record tells."""
    _head: Head | None = field(default=None, init=False, repr=False, compare=False)
    _sys_flag: int = field(default=0, init=False, repr=False, compare=False)

    @property
    def place(self) -> tuple[str, int]:
        """Return the topic and queue its own record is in."""
        return (self.topic, self.queue_id) if self.detour is None else self.detour.place

    @property
    def delay_ms(self) -> int | None:
        """Return how long after it was stored it is due, if it is to be delivered later."""
        return None if self.detour is None else self.detour.delay_ms

    @property
    def head(self) -> Head:
        """Return what its record must have beside its place, its message and its store time."""
        if self._head is None:
            self._head = self.given.head(self.body)
            self._sys_flag = self.given.stored_sys_flag
        return self._head

    def is_kept_by(self, record: LogRecord) -> bool:
        """Return whether a record, of no committed message, has what was handed in beside the message's text."""
        return record.head == self.head and record.sys_flag == self._sys_flag

    def differences(
        self, record: LogRecord, *, is_committed: bool = False, tears: bool = False
    ) -> Iterator[FieldDifference]:
        """Yield every field of a record of this message that has not what was handed in, or answered."""
        answered_ms = self.stored_ms if record.physical_offset == self.physical_offset else None
        given, head = self.given, self.head
        if not self.knows_port:
            given = given.with_port_of(record)
            head = given.head(self.body)
        return differences(record, given, head, is_committed=is_committed, stored_ms=answered_ms, tears=tears)

    def learn_port(self, record: LogRecord) -> None:
        """Take the port of its born host from its record; other records of the message must have the same one."""
        self.given = self.given.with_port_of(record)
        self.knows_port, self._head = True, None

    @property
    def record_bytes(self) -> int:
        """Return the size of its record; of one that is not redirected it is known beforehand."""
        if self.wrote_bytes is not None:
            return self.wrote_bytes
        return self.given.record_bytes(self.body, self.topic, self.properties)

    @property
    def knowledge(self) -> Knowledge:
        """Return what the producer knows of it."""
        if self.status is None or self.status in _STORED_OR_NOT:
            return Knowledge.UNKNOWN
        if self.status is PutMessageStatus.PUT_OK:
            return Knowledge.ACKNOWLEDGED
        return Knowledge.REFUSED


_IPV4_BYTES = 8


_IPV6_EXTRA_BYTES = 12


_BORN_V6, _STORE_V6 = 0x10, 0x20
