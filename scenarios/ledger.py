"""The ledger: what users asked for, what they were told, and what they saw. The oracle of every judgement.

A put is acknowledged, refused, or unknown: in flight when the machine died, or answered with a time-out.
"""

from dataclasses import dataclass, field
from enum import Enum

from ..store.put_result import PutMessageStatus


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

    @property
    def record_bytes(self) -> int:
        """Return the size of its record (IPv4 hosts)."""
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

    def promise(self, entry: PutEntry) -> None:
        """Note that a put must survive from now on."""
        self.promised[entry.name] = entry
