"""The ledger: records the requests of users, the answers, and consumed messages.

A put is acknowledged, refused, or unknown. A put in flight at a crash, or answered with a timeout, is unknown.

The fields of a ledger are its whole state. A check of several crash images calls `savepoint` once, and `restore` before
each image. A state digest includes all fields, also nested ones, except fields with `compare=False`: their values
follow from other fields, or are reset at a restart.
"""

import pickle
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from ...sim.disturbances import ClockSetBack
from ...store.formats.delay_level import SCHEDULE_TOPIC
from ..claims.machine import CONFIG
from .group_commits import GroupCommits
from .known_damage import KnownDamage
from .put_entry import PutEntry
from .reader import LogRecord, properties_of
from .returned import ADDED, SentBackMessages, is_returned
from .transactions import Transactions

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
TRANSACTION_TOPICS = (HALF_TOPIC, GIVEN_UP_TOPIC)
"""Topics of undecided transactional messages, and of messages that were given up."""
BOOKKEEPING_TOPICS = (HALF_TOPIC, OP_TOPIC, GIVEN_UP_TOPIC)

EVENT_TOPIC = "OFFSET_MOVED_EVENT"
"""The topic of records that tell consumers that the broker moved them past expired messages."""

LIGHT_OFFSETS = "INNER_MULTI_QUEUE_OFFSET"
"""The property with a message's offsets in light queues."""
PUT_BACK = "TRAN_PREPARED_QUEUE_OFFSET"
"""The property with the first queue offset of a half message that the store put back."""

CHECK_PROPERTIES = ("TRANSACTION_CHECK_TIMES", PUT_BACK)
_TARGET = ("REAL_TOPIC", "REAL_QID")
_ADDED_LATER = (LIGHT_OFFSETS, *CHECK_PROPERTIES)
_ADDED = (*_TARGET, *_ADDED_LATER)
_LIGHT_MARK = f"{LIGHT_OFFSETS}\1".encode()


@dataclass(slots=True)
class ConsumedMessage:
    """A message that a consumer received."""

    topic: str
    queue_id: int
    queue_offset: int
    put: PutEntry
    copy_end: int | None = None
    """The log offset at which the received copy ends; None if the consumer received the put's own record."""
    copy_is_durable: bool = False
    given_at: int | None = None
    """The log offset in the received record, for a put without an answer."""

    @property
    def physical_offset(self) -> int | None:
        if self.copy_end is not None:
            return self.copy_end - 1
        return self.given_at if self.put.physical_offset is None else self.put.physical_offset

    @property
    def is_durable(self) -> bool:
        return self.put.is_durable if self.copy_end is None else self.copy_is_durable


@dataclass(slots=True)
class Pull:
    """A consumer's pulls over one queue: filter, range of queue offsets, and received messages in order."""

    topic: str
    queue_id: int
    tags: str | None
    puts: list[PutEntry] = field(default_factory=list)
    begin_offset: int = 0
    end_offset: int = 0
    """All matching messages before this queue offset have been received."""
    is_over: bool = False

    def restart(self) -> None:
        """Restart at the first message, because the store removed the queue and uses its offsets again."""
        self.puts.clear()
        self.begin_offset = self.end_offset = 0


class Delivery(NamedTuple):
    """The state of delayed delivery at a start of the store."""

    log_end: int
    """The log's end at the start. Copies after this offset were made after the start."""
    offsets: dict[int, int]
    """Delay level -> queue offset of the level's next message."""
    began_ms: int = 0
    late_ms_max: int | None = None
    """The maximum delay of a delivery, without the time for other puts; None if faults may delay it."""


@dataclass(slots=True, eq=False)
class Versions:
    """The versions of a side file over all starts of a store.

    A version is durable after its write has returned. After a failed or unfinished write it may be on disk.
    A start must find the durable version or a later one, complete; before the first durable version, the file may be
    missing.
    """

    path: str
    durable: bytes | None = None
    unfinished: list[bytes] = field(default_factory=list)
    """Versions after the durable one, with failed or unfinished writes."""
    backup: bytes | None = None
    """The version before the durable one, which the backup file must have; None: no backup is required."""
    loaded: bytes | None = None
    """The version that the last load found."""
    allowed: tuple[bytes | None, ...] = (None,)
    """The versions that the last load could find: the durable one, then later ones."""

    def note_load(self, found: bytes | None) -> None:
        self.loaded, self.allowed = found, (self.durable, *self.unfinished)

    def lose_durable(self) -> None:
        self.durable, self.backup = self.backup, None

    @property
    def is_persisted(self) -> bool:
        return not self.unfinished

    def mark_loaded_durable(self) -> None:
        """Record that a start has loaded the version `loaded`, which is durable from now on.

        No effect if the start has written a newer version since, as a correction of offsets does.
        """
        if self.allowed != (self.durable, *self.unfinished):
            return
        if self.unfinished or self.loaded != self.durable:
            self.backup = None
        self.durable = self.loaded
        self.unfinished.clear()


OnRequest = Callable[[PutEntry], None]


@dataclass(eq=False, repr=False)
class Ledger:
    """All requests, answers and consumed messages of one store, from its first start to the end of the run."""

    on_request: OnRequest | None = field(default=None, compare=False)
    """Called with each put before it is sent, for example to record a timeline."""
    tears: bool = field(default=False, compare=False)
    """Whether a power cut may change fields of a record that no checksum covers."""
    puts: list[PutEntry] = field(default_factory=list)
    by_properties: dict[bytes, PutEntry] = field(default_factory=dict, compare=False)
    by_name: dict[str, PutEntry] = field(default_factory=dict, compare=False)
    promised: dict[str, PutEntry] = field(default_factory=dict)
    """Name -> put. These puts must survive from now on. The order is that of the calls of `promise`."""
    lost_puts: dict[str, PutEntry] = field(default_factory=dict)
    """Puts that a recovery found missing, and that must not reappear."""
    lost_from: int = 1 << 63
    """Log offset from which a lost master's messages may be lost, also those in answers that arrive later."""
    kept_messages: list[ConsumedMessage] = field(default_factory=list)
    """Consumed messages that must stay at the same queue offset."""
    consumed: list[ConsumedMessage] = field(default_factory=list, compare=False)
    pulls: list[Pull] = field(default_factory=list, compare=False)
    """All pulls since the last start."""
    transactions: Transactions = field(default_factory=Transactions)

    deliveries: list[Delivery] = field(default_factory=list)
    delivered_into_damage: set[str] = field(default_factory=set)
    """Delayed puts with copies in a part of the log that may have been damaged after a stop."""
    commits: GroupCommits = field(default_factory=GroupCommits)
    delay_progress: Versions = field(default_factory=lambda: Versions(f"{CONFIG}/delayOffset.json"))
    group_progress: Versions = field(default_factory=lambda: Versions(f"{CONFIG}/consumerOffset.json"))
    unreported_damage: str = ""
    """The side file that was damaged while the machine was off; empty after a start has reported the damage."""
    progress_is_final: bool = False
    """Whether the last stop was clean and persisted all progress."""
    delivery_is_restored: bool = False
    """Whether the progress of delivery was lost after the last stop, so that the next start reads it from the log."""
    expired_to: int = 0
    """Retention has removed, or has begun to remove, the segments before this log offset."""
    ended_queues: set[tuple[str, int]] = field(default_factory=set)
    """Queues that the store removed because they were empty. A later put may have started the queue again at 0."""
    missing_offsets: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    """Topic and queue id -> queue offsets without a readable record: a restart skipped them, or damage affects them."""
    known_damage: KnownDamage = field(default_factory=KnownDamage)
    clock_set_back: list[ClockSetBack] = field(default_factory=list, compare=False)
    queue_ends: Counter[tuple[str, int]] = field(default_factory=Counter, compare=False)
    """How often each queue was removed. A removal makes earlier queue offsets invalid."""
    queue_removals_in_progress: int = field(default=0, compare=False)
    life: int = field(default=0, compare=False)
    """The number of starts so far. An answer to a request from before the last start may still be in flight."""
    returned: SentBackMessages = field(default_factory=SentBackMessages, compare=False)
    topics: dict[str, int] = field(default_factory=dict, compare=False)
    """Topic -> greatest queue id. A broker created these topics for answered puts, so they must be durable."""
    groups: set[str] = field(default_factory=set, compare=False)
    """Groups that a broker created for answered pulls, so they must be durable."""
    _life_begins_at: int = field(default=0, compare=False)
    _on_queue_end: Callable[[tuple[str, int]], None] | None = field(default=None, compare=False)

    def savepoint(self) -> bytes:
        """Return the state, without the callback of `watch_queue_ends`."""
        known = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "_on_queue_end"}
        return pickle.dumps(known, pickle.HIGHEST_PROTOCOL)

    def restore(self, savepoint: bytes) -> None:
        vars(self).update(pickle.loads(savepoint))

    def watch_queue_ends(self, on_queue_end: Callable[[tuple[str, int]], None]) -> None:
        """Until the next stop, call on_queue_end before a queue's last file is removed."""
        self._on_queue_end = on_queue_end

    def record_queue_end(self, place: tuple[str, int]) -> None:
        """Record that a queue's last file is about to be removed. The queue may restart at 0."""
        self.ended_queues.add(place)
        self.restart_finished_pulls(place)
        if self._on_queue_end is not None:
            self._on_queue_end(place)

    def restart_finished_pulls(self, place: tuple[str, int]) -> None:
        """Restart each consumer that has read the whole queue. Other consumers restart at their next pull."""
        self.queue_ends[place] += 1
        for pull in self.pulls:
            if pull.is_over and (pull.topic, pull.queue_id) == place:
                pull.restart()

    def begin_life(self) -> None:
        self.life += 1
        self._life_begins_at = len(self.puts)
        self.consumed = []
        self.pulls = []
        self.queue_removals_in_progress = 0
        self._on_queue_end = None
        self.transactions.begin_life()

    def puts_of_this_life(self) -> list[PutEntry]:
        return self.puts[self._life_begins_at :]

    def record_request(self, entry: PutEntry) -> None:
        self.puts.append(entry)
        assert entry.properties not in self.by_properties, entry.name
        self.by_properties[entry.properties] = entry
        self.by_name[entry.name] = entry
        if self.on_request is not None:
            self.on_request(entry)

    def put_of(self, record: LogRecord) -> PutEntry | None:
        """Return the put with this own record. A copy has none.

        The record may be in the queue of a delayed or half message, or also in light queues.
        """
        put = self.by_properties.get(record.properties)
        if put is not None and put.queue_id < 0:  # the broker has chosen a queue, in which all records must be
            put.queue_id = record.queue_id
        if put is not None or not _may_be_changed_by_store(record):
            return put
        put = self.put_named_by(record)
        return put if put is not None and put.place == (record.topic, record.queue_id) else None

    def put_copied_by(self, record: LogRecord) -> PutEntry | None:
        """Return the put of which the record is a copy: a delivered delayed message, or a committed half message.

        A committed half message may wait in the queue of a delay, and then has a delivered copy, too.
        """
        if b"REAL_TOPIC\1" not in record.properties:
            return None
        put = self.put_named_by(record)
        if put is None or put.waiting_place is None:
            return None
        place, delayed = (record.topic, record.queue_id), put.delayed_at_commit
        return put if place == (put.topic, put.queue_id) or (delayed is not None and place == delayed.place) else None

    def put_delayed_in(self, record: LogRecord) -> PutEntry | None:
        """Return the put that waits for its delay as this record, in the queue of a level."""
        return self.put_seen_in(record) if record.topic == SCHEDULE_TOPIC else None

    def put_seen_in(self, record: LogRecord) -> PutEntry | None:
        """Return the put of which the record is the own record or a copy."""
        return self.put_of(record) or self.put_copied_by(record)

    def put_returned_in(self, record: LogRecord) -> PutEntry | None:
        """Return the put that a consumer sent back and that was stored again as this record."""
        if not is_returned(record):
            return None
        found = properties_of(record.properties)
        put = self._first_key(found)
        if put is None or found.get("RETRY_TOPIC") != put.topic:
            return None
        # A broker removes WAIT from a consumer's own send, but not from the messages of a batch. A client may remove
        # TRAN_MSG. Light queues remove WAIT.
        removed = ("WAIT", "TRAN_MSG") if "RECONSUME_TIME" in found else ("WAIT",) if put.light_names else ()
        changed = (*_ADDED, *ADDED, *removed)
        kept, asked = (
            {name: value for name, value in each.items() if name not in changed}
            for each in (found, _stored_properties(put, found))
        )
        return put if kept == asked else None

    def _first_key(self, properties: dict[str, str]) -> PutEntry | None:
        return self.by_name.get(properties.get("KEYS", "").lstrip(" ").partition(" ")[0])

    def put_named_by(self, record: LogRecord) -> PutEntry | None:
        """Return the put named in KEYS of a changed record or a copy, if the record has all properties of the put."""
        found = properties_of(record.properties)
        put = self._first_key(found)
        if put is None:
            return None
        asked = _stored_properties(put, found)
        if put.waiting_place is not None:
            asked |= {"REAL_TOPIC": put.topic, "REAL_QID": str(put.queue_id)}
        asked, kept = (
            {name: value for name, value in each.items() if name not in _ADDED_LATER} for each in (asked, found)
        )
        return put if kept == asked else None

    def begin_delivery(
        self, log_end: int, offsets: dict[int, int], *, began_ms: int = 0, late_ms_max: int | None = None
    ) -> None:
        self.deliveries.append(Delivery(log_end, dict(offsets), began_ms, late_ms_max))

    def delivery_of(self, physical_offset: int) -> int:
        """Return the index in `deliveries` of the last start at which the log ended at or before the offset."""
        numbers = range(len(self.deliveries) - 1, -1, -1)
        return next(number for number in numbers if self.deliveries[number].log_end <= physical_offset)

    def record_expired_before(self, log_offset: int) -> None:
        """Record that retention is about to remove the segments before a log offset."""
        self.expired_to = max(self.expired_to, self.known_damage.first_present_offset(log_offset))

    def has_clock_read(self, wall_ms: int) -> bool:
        """Return whether a clock had shown this time before it was set back."""
        return any(back.from_ms >= wall_ms for back in self.clock_set_back)

    def has_expired(self, physical_offset: int | None, log_min_offset: int) -> bool:
        return physical_offset is not None and physical_offset < min(log_min_offset, self.expired_to)

    def may_be_removed(self, put: PutEntry) -> bool:
        """Return whether retention has begun to remove a put's own record."""
        return put.physical_offset is not None and put.physical_offset < self.expired_to

    def lose_progress(self) -> None:
        """Record that consumerOffset.json is unreadable, so that the next start reads its backup."""
        self.group_progress.lose_durable()
        self.progress_is_final = False
        self.commits.lose_newest_file()

    def may_still_be_stored(self, put: PutEntry) -> bool:
        """Return whether the broker may still store the put: its client waits, or timed out after the last start."""
        return put.over_in is None or put.over_in == self.life

    def promise(self, entry: PutEntry) -> None:
        self.promised[entry.name] = entry


def replaced_properties(put: PutEntry) -> tuple[str, ...]:
    """Return the names of properties that the store removes or sets itself while a put waits in another queue."""
    if put.waiting_place is None:
        return ()
    return (*_TARGET, *CHECK_PROPERTIES) if put.delay_ms is None else _TARGET


def _may_be_changed_by_store(record: LogRecord) -> bool:
    properties = record.properties
    if record.topic == HALF_TOPIC:
        return f"{PUT_BACK}\1".encode() not in properties
    return record.topic == SCHEDULE_TOPIC or _LIGHT_MARK in properties


def _stored_properties(put: PutEntry, found: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a put as its record has them. found: the record's properties.

    A redirected message keeps WAIT, also after it is committed and sent back. A broker removes WAIT from others.
    """
    asked = properties_of(put.properties)
    if put.waiting_place is not None and not put.wait and LIGHT_OFFSETS not in found:
        asked["WAIT"] = "false"
    level = put.place if put.delayed_at_commit is None else put.delayed_at_commit.place
    if level[0] == SCHEDULE_TOPIC and "DELAY" in asked:
        text = str(level[1] + 1)  # instead of a greater number; of a transaction only after its commit
        asked["DELAY"] = text if put.delayed_at_commit is None or found.get("DELAY") == text else asked["DELAY"]
    return asked
