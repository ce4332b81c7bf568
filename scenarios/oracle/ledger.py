"""The ledger: what users asked for, what they were answered, and what they saw. The oracle of every judgement.

A put is acknowledged, refused, or unknown: in flight when the machine died, or answered with a time-out.

All that a ledger knows stands in its fields. `savepoint` and `restore` go back to an earlier moment, as often as there
are states of a crash to judge. A history of events from which all of it follows would be no less: what must be there
after a recovery depends on what that recovery found. `state_digest` takes every field, and every field of what is in
it, but those declared with `compare=False`: these follow from others, or are over with a life.
"""

import pickle
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from ...sim.disturbances import SetBack
from ...store.formats.delay_level import SCHEDULE_TOPIC
from ..claims.machine import CONFIG
from .group_commits import GroupCommits
from .known_damage import KnownDamage
from .put_entry import PutEntry
from .reader import LogRecord, properties_of
from .returned import ADDED, Returned, is_returned
from .transactions import Transactions

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
TRANSACTION_TOPICS = (HALF_TOPIC, GIVEN_UP_TOPIC)
"""Topics in which a transactional message is before it is decided, or instead."""
BOOKKEEPING_TOPICS = (HALF_TOPIC, OP_TOPIC, GIVEN_UP_TOPIC)
"""Topics in which the store puts records of its own."""

EVENT_TOPIC = "OFFSET_MOVED_EVENT"
"""A topic in which a broker stores a record for each consumer that it has sent past expired messages."""

LIGHT_OFFSETS = "INNER_MULTI_QUEUE_OFFSET"
"""The property that holds a message's places in light queues."""
PUT_BACK = "TRAN_PREPARED_QUEUE_OFFSET"
"""The property of a half message that was put back: the queue offset it had first."""

_ADDED = ("REAL_TOPIC", "REAL_QID", LIGHT_OFFSETS, PUT_BACK, "TRANSACTION_CHECK_TIMES")
_LIGHT_MARK = f"{LIGHT_OFFSETS}\1".encode()


@dataclass(slots=True)
class ConsumedMessage:
    """A message that a consumer was given."""

    topic: str
    queue_id: int
    queue_offset: int
    put: PutEntry
    copy_end: int | None = None
    """Log offset behind its record, if that is not the put's own but a copy the store has made of it."""
    copy_is_durable: bool = False
    given_at: int | None = None
    """Log offset at which the record says that it is: of a put that was never answered nobody else knows it."""

    @property
    def physical_offset(self) -> int | None:
        """Return a log offset in the record that was given; None if it is unknown."""
        if self.copy_end is not None:
            return self.copy_end - 1
        return self.given_at if self.put.physical_offset is None else self.put.physical_offset

    @property
    def is_durable(self) -> bool:
        """Return whether even a power cut may not take what was given."""
        return self.put.is_durable if self.copy_end is None else self.copy_is_durable


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
    is_over: bool = False
    """Whether nobody walks any more."""

    def begin_again(self) -> None:
        """Walk from the queue's first message on: what was given before is gone, and its offsets are others' now."""
        self.puts.clear()
        self.begin_offset = self.end_offset = 0


class Delivery(NamedTuple):
    """What one life of a store began to deliver delayed messages with."""

    log_end: int
    """The log's end then: copies behind it are its own, or a later life's."""
    offsets: dict[int, int]
    """Progress: level -> queue offset."""
    began_ms: int = 0
    """When that was, by the wall clock."""
    late_ms_max: int | None = None
    """How late each may be, but for what waits with it; None: something may have held the life up."""


@dataclass(slots=True, eq=False)
class Versions:
    """The versions of a side file over all lives of a store: which one a start may find, by what was said of them.

    A store that has returned from making a version durable has said so; of one whose making was begun and has not
    returned, or has failed, nothing is known. A start finds one of these, complete, or nothing if none was ever
    durable.
    """

    path: str
    durable: bytes | None = None
    """The version that is the current one unless a later one is; None before the first."""
    begun: list[bytes] = field(default_factory=list)
    """Versions begun after that."""
    kept: bytes | None = None
    """The version before the durable one, to be found when that cannot be read; None if none has to be."""
    loaded: bytes | None = None
    """What the last start found."""
    is_known: bool = True
    """Whether the file is the one whose versions were noted: a slave that takes over has another one."""

    def lose_durable(self) -> None:
        """Note that the durable version cannot be read any more."""
        self.durable, self.kept = self.kept, None

    @property
    def is_persisted(self) -> bool:
        """Return whether the last version that was begun is durable."""
        return not self.begun

    def settle(self) -> None:
        """Note that a start has found `loaded`, which is durable from then on."""
        if self.begun or self.loaded != self.durable:
            self.kept = None
        self.durable, self.is_known = self.loaded, True
        self.begun.clear()


@dataclass(eq=False, repr=False)
class Ledger:
    """Everything users did in all lives of one store."""

    tears: bool = field(default=False, compare=False)
    """Whether a power cut may tear records where no recovery can see it."""
    puts: list[PutEntry] = field(default_factory=list)
    by_properties: dict[bytes, PutEntry] = field(default_factory=dict, compare=False)
    by_name: dict[str, PutEntry] = field(default_factory=dict, compare=False)
    promised: dict[str, PutEntry] = field(default_factory=dict)
    """Puts, by name, that must be there from now on, in the order in which they were promised."""
    gone: dict[str, PutEntry] = field(default_factory=dict)
    """Puts that a recovery found missing: they must not come back."""
    stable: list[ConsumedMessage] = field(default_factory=list)
    """What consumers saw and must find again at the same place."""
    seen: list[ConsumedMessage] = field(default_factory=list, compare=False)
    """What consumers saw in the present life."""
    pulls: list[Pull] = field(default_factory=list, compare=False)
    """Walks of the present life."""
    transactions: Transactions = field(default_factory=Transactions)
    """What became of puts that are half messages."""
    deliveries: list[Delivery] = field(default_factory=list)
    delivered_into_damage: set[str] = field(default_factory=set)
    """Delayed puts whose copies, made before a stop, may be in what was damaged after it."""
    commits: GroupCommits = field(default_factory=GroupCommits)
    """What consumer groups have committed."""
    delay_progress: Versions = field(default_factory=lambda: Versions(f"{CONFIG}/delayOffset.json"))
    group_progress: Versions = field(default_factory=lambda: Versions(f"{CONFIG}/consumerOffset.json"))
    unreported_damage: str = ""
    """The side file that was damaged while the machine was off, until a start has reported it."""
    progress_is_final: bool = False
    """Whether the last life ended cleanly and persisted all progress."""
    expired_to: int = 0
    """Log offset up to which retention has set out to remove segments: what is in front of it may be gone."""
    ended_queues: set[tuple[str, int]] = field(default_factory=set)
    """Queues that were removed because nothing was left of them: they may have begun again at 0."""
    holes: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    """Queue offsets, by topic and queue, that have no record: skipped by a restart, or of one that is damaged."""
    known_damage: KnownDamage = field(default_factory=KnownDamage)
    clock_set_back: list[SetBack] = field(default_factory=list, compare=False)
    """When a machine's clock was set back."""
    queue_ends: Counter[tuple[str, int]] = field(default_factory=Counter, compare=False)
    """How often users learned that a queue ends: queue offsets from before mean nothing any more."""
    queues_going: int = field(default=0, compare=False)
    """How many operators are having queues removed now."""
    life: int = field(default=0, compare=False)
    """How many lives have begun. An answer to a request from an earlier one may still be on its way."""
    returned: Returned = field(default_factory=Returned, compare=False)
    """Messages that consumers sent back."""
    topics: dict[str, int] = field(default_factory=dict, compare=False)
    """Topics that a broker made for answered puts, each with the greatest id of a queue. They are durable before."""
    groups: set[str] = field(default_factory=set, compare=False)
    """Groups that a broker made for answered pulls, likewise."""
    _life_begins_at: int = field(default=0, compare=False)
    _on_queue_end: Callable[[tuple[str, int]], None] | None = field(default=None, compare=False)

    def savepoint(self) -> bytes:
        """Return all that is known now, for `restore`; who watches queues end is not part of it."""
        known = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "_on_queue_end"}
        return pickle.dumps(known, pickle.HIGHEST_PROTOCOL)

    def restore(self, savepoint: bytes) -> None:
        """Know again what was known at a savepoint, of this ledger or of another one."""
        vars(self).update(pickle.loads(savepoint))

    def watch_queue_ends(self, on_queue_end: Callable[[tuple[str, int]], None]) -> None:
        """Have on_queue_end called, until the life is over, with each queue whose last file is about to go."""
        self._on_queue_end = on_queue_end

    def end_queue(self, place: tuple[str, int]) -> None:
        """Note that the last file of a queue is about to go: what comes behind it may begin at 0."""
        self.ended_queues.add(place)
        self.count_queue_end(place)
        if self._on_queue_end is not None:
            self._on_queue_end(place)

    def count_queue_end(self, place: tuple[str, int]) -> None:
        """Have who walks a queue begin again, at its next pull, and those whose walk is over now."""
        self.queue_ends[place] += 1
        for pull in self.pulls:
            if pull.is_over and (pull.topic, pull.queue_id) == place:
                pull.begin_again()

    def begin_life(self) -> None:
        """Begin another life of the store: what was seen and walked in the last one is over."""
        self.life += 1
        self._life_begins_at = len(self.puts)
        self.seen = []
        self.pulls = []
        self.queues_going = 0
        self._on_queue_end = None
        self.transactions.begin_life()

    def puts_of_this_life(self) -> list[PutEntry]:
        """Return the puts asked since the life began."""
        return self.puts[self._life_begins_at :]

    def ask(self, entry: PutEntry) -> None:
        """Note a put before it is made."""
        self.puts.append(entry)
        assert entry.properties not in self.by_properties, entry.name
        self.by_properties[entry.properties] = entry
        self.by_name[entry.name] = entry

    def put_of(self, record: LogRecord) -> PutEntry | None:
        """Return the put whose own record this is: as it was put, redirected, or with its places in light queues."""
        put = self.by_properties.get(record.properties)
        if put is not None or not _is_changed(record):
            return put
        put = self.named_by(record)
        return put if put is not None and put.place == (record.topic, record.queue_id) else None

    def copied_by(self, record: LogRecord) -> PutEntry | None:
        """Return the put that the store has carried on to where it was meant to go: delivered, or committed."""
        if b"REAL_TOPIC\1" not in record.properties:
            return None
        put = self.named_by(record)
        if put is None or put.detour is None:
            return None
        return put if (put.topic, put.queue_id) == (record.topic, record.queue_id) else None

    def seen_in(self, record: LogRecord) -> PutEntry | None:
        """Return the put that a consumer sees in a record: its own, or the one it carries on."""
        return self.put_of(record) or self.copied_by(record)

    def returned_in(self, record: LogRecord) -> PutEntry | None:
        """Return the put that a consumer has sent back, if this is a record of that with all of its properties."""
        if not is_returned(record):
            return None
        found = properties_of(record.properties)
        put = self._first_key(found)
        if put is None or found.get("RETRY_TOPIC") != put.topic:
            return None
        kept, asked = (
            {name: value for name, value in each.items() if name not in _ADDED + ADDED}
            for each in (found, properties_of(put.properties))
        )
        return put if kept == asked else None

    def _first_key(self, properties: dict[str, str]) -> PutEntry | None:
        return self.by_name.get(properties.get("KEYS", "").lstrip(" ").partition(" ")[0])

    def named_by(self, record: LogRecord) -> PutEntry | None:
        """Return the put that a changed or carried-on record names, if it still has all of its properties."""
        found = properties_of(record.properties)
        put = self._first_key(found)
        if put is None:
            return None
        goes_to = (put.topic, str(put.queue_id)) if put.detour is not None else (None, None)
        if (found.get("REAL_TOPIC"), found.get("REAL_QID")) != goes_to:
            return None
        asked = properties_of(put.properties)
        if put.detour is not None and not put.wait and LIGHT_OFFSETS not in found:
            asked["WAIT"] = "false"  # a message that waits is stored with what a broker had taken out of it
        kept = {name: value for name, value in found.items() if name not in _ADDED}
        return put if kept == asked else None

    def begin_delivery(
        self, log_end: int, offsets: dict[int, int], *, began_ms: int = 0, late_ms_max: int | None = None
    ) -> None:
        """Note what another life begins to deliver delayed messages with."""
        self.deliveries.append(Delivery(log_end, dict(offsets), began_ms, late_ms_max))

    def delivery_of(self, physical_offset: int) -> int:
        """Return the number, in `deliveries`, of the life that stored the record at a log offset.

        The last that found no more of the log than that: what an earlier one had stored there was cut.
        """
        numbers = range(len(self.deliveries) - 1, -1, -1)
        return next(number for number in numbers if self.deliveries[number].log_end <= physical_offset)

    def expire(self, log_offset: int) -> None:
        """Note that retention is about to remove what is in front of a log offset; a gap there goes with it."""
        self.expired_to = max(self.expired_to, self.known_damage.after_gap(log_offset))

    def has_clock_read(self, wall_ms: int) -> bool:
        """Return whether a clock has read a time or a later one before it was set back."""
        return any(back.from_ms >= wall_ms for back in self.clock_set_back)

    def has_expired(self, physical_offset: int | None, log_min_offset: int) -> bool:
        """Return whether what began at a log offset is in front of a log that rightly begins behind it."""
        return physical_offset is not None and physical_offset < min(log_min_offset, self.expired_to)

    def may_be_removed(self, put: PutEntry) -> bool:
        """Return whether retention has set out to remove a put's own record: consumers may be given it or not."""
        return put.physical_offset is not None and put.physical_offset < self.expired_to

    def lose_progress(self) -> None:
        """Note that what groups have committed last cannot be read any more: a start finds the backup."""
        self.group_progress.lose_durable()
        self.progress_is_final = False
        self.commits.lose()

    def may_still_come(self, put: PutEntry) -> bool:
        """Return whether the present life may yet store a put: its client waits, or stopped waiting in this life."""
        return put.over_in is None or put.over_in == self.life

    def promise(self, entry: PutEntry) -> None:
        """Note that a put must survive from now on."""
        self.promised[entry.name] = entry


def _is_changed(record: LogRecord) -> bool:
    """Return whether a record may be a put's own although the store has changed its properties."""
    properties = record.properties
    if record.topic == HALF_TOPIC:
        return f"{PUT_BACK}\1".encode() not in properties
    return record.topic == SCHEDULE_TOPIC or _LIGHT_MARK in properties
