"""One put as its producer knows it: what was handed in, what was answered, and where its record is to be."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ...store.message import PutMessageStatus
from .put_content import PLAIN, FieldDifference, PutContent, differences
from .reader import Head, LogRecord


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
    """One message a producer put, alone or in a batch. Its properties name it, and are in its record."""

    name: str
    topic: str
    queue_id: int
    tags: str
    body: bytes
    properties: bytes
    wait: bool
    asked_ns: int
    answered_ns: int | None = None
    status: PutMessageStatus | None = None
    physical_offset: int | None = None
    queue_offset: int | None = None
    is_durable: bool = False
    """Whether even a power cut may not take it any more."""
    detour: Detour | None = None
    """Where its record waits, if it does not go straight to its queue."""
    light_names: tuple[str, ...] = ()
    """The light queues it is to enter beside its own, as it names them."""
    wrote_bytes: int | None = None
    """Size of its record, once known."""
    given: PutContent = PLAIN
    """What else its producer handed in."""
    stored_ms: int | None = None
    """When it was stored, as the answer said."""
    _head: Head | None = field(default=None, init=False, repr=False)
    _sys_flag: int = field(default=0, init=False, repr=False)

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

    def differences(self, record: LogRecord, *, is_committed: bool = False) -> Iterator[FieldDifference]:
        """Yield every field of a record of this message that has not what was handed in, or told."""
        told_ms = self.stored_ms if record.physical_offset == self.physical_offset else None
        return differences(record, self.given, self.head, is_committed=is_committed, stored_ms=told_ms)

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
