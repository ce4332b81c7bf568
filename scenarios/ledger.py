"""The ledger: what users asked for, what they were told, and what they saw. The oracle of every judgement.

A put is acknowledged, refused, or unknown: in flight when the machine died, or answered with a time-out.
"""

from dataclasses import dataclass, field
from enum import Enum

from ..store.formats.delay_level import SCHEDULE_TOPIC
from ..store.formats.properties import decode_properties
from ..store.formats.scan import ScannedRecord
from ..store.put_result import PutMessageStatus

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECKED_TOO_OFTEN_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
BOOKKEEPING_TOPICS = (HALF_TOPIC, OP_TOPIC, CHECKED_TOO_OFTEN_TOPIC)
"""Topics in which the store puts records of its own."""

_REDIRECTION = ("REAL_TOPIC", "REAL_QID")


class Knowledge(Enum):
    """What a producer may conclude from its answer."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    UNKNOWN = "unknown"


_STORED_OR_NOT = (PutMessageStatus.FLUSH_DISK_TIMEOUT, PutMessageStatus.UNKNOWN_ERROR)


@dataclass(slots=True, eq=False)
class PutEntry:
    """One message a producer put, alone or in a batch. Its properties name it, and are in its record."""

    name: str
    life: int
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
    delay_ms: int | None = None
    """How long after it was stored it is due, if it is to be delivered later."""
    redirected_to: tuple[str, int] | None = None
    """Topic and queue where its record waits: for its time, or for its transaction to be decided."""
    wrote_bytes: int | None = None
    """Size of its record, once known."""

    @property
    def place(self) -> tuple[str, int]:
        """Return the topic and queue its own record is in."""
        return self.redirected_to or (self.topic, self.queue_id)

    @property
    def record_bytes(self) -> int:
        """Return the size of its record; of one that is not redirected it is known beforehand (IPv4 hosts)."""
        if self.wrote_bytes is not None:
            return self.wrote_bytes
        return 91 + len(self.body) + len(self.topic) + len(self.properties)

    @property
    def knowledge(self) -> Knowledge:
        """Return what the producer knows of it."""
        if self.status is None or self.status in _STORED_OR_NOT:
            return Knowledge.UNKNOWN
        if self.status is PutMessageStatus.PUT_OK:
            return Knowledge.ACKNOWLEDGED
        return Knowledge.REFUSED


@dataclass(frozen=True, slots=True)
class Seen:
    """A message that a consumer was given."""

    topic: str
    queue_id: int
    queue_offset: int
    put: PutEntry


@dataclass(slots=True)
class Pull:
    """One consumer's walk over one queue: what it asked for, and what came, in order."""

    topic: str
    queue_id: int
    tags: str | None
    puts: list[PutEntry] = field(default_factory=list)
    begin_offset: int = 0
    end_offset: int = 0
    """Queue offset up to which everything that matches has been given."""


class Ledger:
    """Everything users did in all lives of one store."""

    def __init__(self) -> None:
        self.puts: list[PutEntry] = []
        self.by_properties: dict[bytes, PutEntry] = {}
        self.promised: dict[str, PutEntry] = {}
        """Puts, by name, that must be there from now on, in the order in which they were promised."""
        self.gone: dict[str, PutEntry] = {}
        """Puts that a recovery found missing: they must not come back."""
        self.stable: list[Seen] = []
        """What consumers saw and must find again at the same place."""
        self.seen: list[Seen] = []
        """What consumers saw in the present life."""
        self.pulls: list[Pull] = []
        """Walks of the present life."""
        self.by_name: dict[str, PutEntry] = {}
        self._life_begins_at = 0

    def begin_life(self) -> None:
        """Begin another life of the store: what was seen and walked in the last one is over."""
        self._life_begins_at = len(self.puts)
        self.seen = []
        self.pulls = []

    def puts_of_this_life(self) -> list[PutEntry]:
        """Return the puts asked since the life began."""
        return self.puts[self._life_begins_at :]

    def ask(self, entry: PutEntry) -> None:
        """Note a put before it is made."""
        self.puts.append(entry)
        assert entry.properties not in self.by_properties, entry.name
        self.by_properties[entry.properties] = entry
        self.by_name[entry.name] = entry

    def put_of(self, record: ScannedRecord) -> PutEntry | None:
        """Return the put whose own record this is: as it was put, or redirected with nothing else changed."""
        put = self.by_properties.get(record.properties)
        if put is not None or record.topic not in (SCHEDULE_TOPIC, HALF_TOPIC):
            return put
        put = self._named(record)
        return put if put is not None and put.place == (record.topic, record.queue_id) else None

    def copied_by(self, record: ScannedRecord) -> PutEntry | None:
        """Return the put that the store has carried on to where it was meant to go: delivered, or committed."""
        if b"REAL_TOPIC\1" not in record.properties:
            return None
        put = self._named(record)
        if put is None or put.redirected_to is None:
            return None
        return put if (put.topic, put.queue_id) == (record.topic, record.queue_id) else None

    def seen_in(self, record: ScannedRecord) -> PutEntry | None:
        """Return the put that a consumer sees in a record: its own, or the one it carries on."""
        return self.put_of(record) or self.copied_by(record)

    def _named(self, record: ScannedRecord) -> PutEntry | None:
        """Return the put that a redirected or carried-on record names, if it still has all of its properties."""
        found = decode_properties(record.properties.decode())
        put = self.by_name.get(found.get("KEYS", "").strip())
        if put is None or found.get("REAL_TOPIC") != put.topic or found.get("REAL_QID") != str(put.queue_id):
            return None
        asked = decode_properties(put.properties.decode())
        kept = {name: value for name, value in found.items() if name not in _REDIRECTION}
        return put if kept == asked else None

    def promise(self, entry: PutEntry) -> None:
        """Note that a put must survive from now on."""
        self.promised[entry.name] = entry
