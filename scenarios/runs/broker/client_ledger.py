"""The client ledger: what clients of a broker were answered, and what that promises.

    a send                     answered SUCCESS: it is where the answer says; answered otherwise: as the code says;
                               not answered: nobody knows, it may be there once for each time it was sent
    a message that was shown   it is where it was shown
    a recovery                 what it has found is there for good
    a half message             it is there, in one form or another; once committed, it may be there once for each time
                               that was said; once rolled back, never

After a power cut under ASYNC_FLUSH the first and second hold as far as the log was flushed; otherwise they hold. An
answer of a life that has ended, which was under way until now, promises what its life did: under ASYNC_FLUSH nothing.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ....faults.crashes.profiles import CrashProfile
from ....store.delivery.half_message import GIVEN_UP_TOPIC, HALF_TOPIC
from ...oracle.evidence import Violation, tried
from ...oracle.put_entry import PLAIN, PutContent, differences
from ...oracle.recovered import FoundRecord

_OF_HALVES = (HALF_TOPIC, GIVEN_UP_TOPIC)
_BESIDE_BODY_BYTES_MAX = 400
"""More than a record of a run has beside its body."""
Queue = tuple[str, int]


class MessagePlace(NamedTuple):
    """Where a message is for clients."""

    topic: str
    queue_id: int
    queue_offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.queue_id} @ {self.queue_offset}"


class Why(Enum):
    """Why a message has to be at a place, by the invariant that is broken if it is not."""

    ANSWERED = "DUR"
    SHOWN = "VIS"


class ExpectedMessage(NamedTuple):
    """A message that has to be somewhere."""

    name: str
    why: Why
    log_end: int
    """An offset of the log that its record ends before."""


@dataclass(slots=True)
class Send:
    """One message, as its producer sends it: maybe several times."""

    name: str
    body: bytes
    answered: int = 0
    """How often it was answered SUCCESS."""
    maybe: int = 0
    """How often it was sent, or its half message committed, and not answered, or not so that anything follows."""
    is_half: bool = False
    """Whether it is sent as a half message."""
    commits: bool = False
    """Whether its producer commits it, then."""
    given: PutContent = PLAIN
    """What it has beside its body, but for the time it was born: each time it is sent that is another."""
    born_ms: list[int] = field(default_factory=list)
    """Those times."""
    is_insisted_on: bool = False
    """Whether it was answered when all was well again, so that nothing excuses giving it up."""


@dataclass(slots=True)
class ClientLedger:
    """Invariant: `durable` is there after every recovery to come, `expected` too if the end of this life leaves it."""

    sync_flush: bool
    hits: Counter[str] = field(default_factory=Counter)
    """What was met of scenarios.marks."""
    life: int = 0
    """How many lives of the broker have ended: answers to what was asked before may be of an earlier one."""
    sends: dict[str, Send] = field(default_factory=dict)
    durable: dict[MessagePlace, ExpectedMessage] = field(default_factory=dict)
    expected: dict[MessagePlace, ExpectedMessage] = field(default_factory=dict)
    halves: dict[str, int] = field(default_factory=dict)
    """Half messages that were answered, and where in the log they end."""
    durable_halves: set[str] = field(default_factory=set)
    """Those that a recovery has found."""
    shown: dict[MessagePlace, str] = field(default_factory=dict)
    """What consumers were given and no crash has taken."""
    seen_until: dict[Queue, int] = field(default_factory=dict)
    """Behind what has ever been shown of a queue."""
    excused_until: dict[Queue, int] = field(default_factory=dict)
    """Offsets of a queue that consumers were past when a crash took them, and others came in their place."""
    committed: dict[Queue, int] = field(default_factory=dict)
    """The greatest offset that the group has ever asked to be kept."""
    answered_commits: dict[Queue, int] = field(default_factory=dict)
    """The newest one whose request was answered, or what the group has asked for since, if that is less."""
    kept_commits: dict[Queue, int] = field(default_factory=dict)
    """The least that a clean stop has kept, and every end since."""
    _last_sent: dict[tuple[int, Queue], int] = field(default_factory=dict)
    """Of each producer and queue, the offset of its newest answered message."""

    def begin(self, name: str, body: bytes, *, is_half: bool = False, commits: bool = False) -> Send:
        """Note a message that is about to be sent for the first time."""
        send = self.sends[name] = Send(name, body, is_half=is_half, commits=commits)
        return send

    def answer_half(self, send: Send, log_offset: int, *, asked_in: int) -> None:
        """Note that a half message was answered SUCCESS that was sent in some life."""
        if asked_in == self.life or self.sync_flush:
            self.halves[send.name] = log_offset + len(send.body) + _BESIDE_BODY_BYTES_MAX

    def answer(
        self, producer: int, send: Send, place: MessagePlace, log_offset: int, *, asked_in: int
    ) -> Iterator[Violation]:
        """Note that a message was answered SUCCESS that was sent in some life; yield what that contradicts."""
        send.answered += 1
        self.hits["late answer"] += asked_in != self.life
        if asked_in != self.life and not self.sync_flush:
            return
        key = (producer, place[:2])
        last = self._last_sent.get(key, -1)
        tried("QOFF")
        if place.queue_offset <= last:
            summary = f"{send.name}, sent after another was answered, is before it in its queue"
            expected = f"{place.topic}/{place.queue_id} @ more than {last}"
            yield Violation("QOFF", summary, field="order", expected=expected, found=str(place))
        self._last_sent[key] = place.queue_offset
        yield from self._expect(place, send.name, Why.ANSWERED, log_offset)

    def show(self, place: MessagePlace, body: bytes, log_offset: int, *, asked_in: int) -> Iterator[Violation]:
        """Note what a consumer was given that had asked for it in some life; yield what that contradicts."""
        name = name_in(body)
        self.seen_until[place[:2]] = max(self.seen_until.get(place[:2], 0), place.queue_offset + 1)
        send = self.sends.get(name)
        if send is None or send.body != body:
            yield _unsent(place, body)
            return
        if asked_in != self.life and not self.sync_flush:
            there = self.durable.get(place) or self.expected.get(place)
            if there is None or there.name != name:
                self._excuse(place[:2], place.queue_offset + 1)
                return
        self.shown[place] = name
        yield from self._expect(place, name, Why.SHOWN, log_offset)

    def answer_commit(self, queue: Queue, offset: int, *, asked_in: int) -> None:
        """Note that a commit was answered."""
        if asked_in == self.life:
            self.answered_commits[queue] = offset

    def commit(self, queue: Queue, offset: int) -> None:
        """Note that an offset is about to be committed."""
        self.committed[queue] = max(self.committed.get(queue, 0), offset)
        for known in (self.answered_commits, self.kept_commits):
            if queue in known:
                known[queue] = min(known[queue], offset)

    def check_commit(self, queue: Queue, offset: int) -> Iterator[Violation]:
        """Yield what is wrong with a committed offset that the broker answers."""
        tried("META")
        low, high = self.kept_commits.get(queue, 0), self.committed.get(queue, 0)
        if not low <= offset <= high:
            summary = f"the group's offset in {queue[0]}/{queue[1]} is none that was committed"
            yield Violation("META", summary, field="offset", expected=f"{low} to {high}", found=str(offset))

    # -- lives -------------------------------------------------------------------------------------

    def note_stop(self) -> None:
        """Note a clean stop, which keeps everything."""
        self.life += 1
        self.durable_halves |= self.halves.keys()
        self.halves.clear()
        self.durable |= self.expected
        self.expected.clear()
        self.kept_commits |= self.answered_commits

    def note_crash(self, profile: CrashProfile, *, flushed_where: int) -> None:
        """Note a crash, and what it may not take."""
        self.life += 1
        self.answered_commits.clear()
        if profile.page_cache_survives or self.sync_flush:
            return
        expected = self.expected.items()
        self.expected = {place: each for place, each in expected if each.log_end <= flushed_where}
        self.halves = {name: end for name, end in self.halves.items() if end <= flushed_where}
        self._last_sent.clear()

    def check_recovery(self, records: list[FoundRecord]) -> Iterator[Violation]:
        """Yield what of the promises a recovery has broken."""
        found = found_places(records)
        for place, expected in {**self.durable, **self.expected}.items():
            tried(expected.why.value)
            record = found.get(place)
            if record is None or record.body != self.sends[expected.name].body:
                there = "nothing"
                if record is not None:
                    there = f"{len(record.body)} bytes that begin {record.body[:20]!r}"
                name, why = expected.name, expected.why
                summary = f"{name}, which was {why.name.lower()} at {place}, is not there"
                yield Violation(why.value, summary, field="message", expected=name, found=there)
        halves = self.durable_halves | self.halves.keys()
        for name in sorted(halves - {name_in(one.body) for one in records}):
            summary = f"the half message of {name}, which was answered, is not there"
            yield Violation("DUR", summary, field="half message", expected=name, found="nothing")
        copies: Counter[str] = Counter()
        for place, record in found.items():
            tried("ONCE")
            send = self.sends.get(name_in(record.body))
            if send is None or send.body != record.body:
                yield _unsent(place, record.body)
            else:
                copies[send.name] += 1
                yield from _changed(send, record)
        for record in records:
            send = self.sends.get(name_in(record.body))
            if record.record.topic in _OF_HALVES and send is not None:
                yield from _changed(send, record)
        self.hits["stored twice"] += any(count > 1 for count in copies.values())
        for name, count in copies.items():
            send = self.sends[name]
            if count > send.answered + send.maybe:
                summary = f"{name} is there more often than it was, or may have been, stored"
                expected_copies = f"at most {send.answered} answered and {send.maybe} not"
                yield Violation("ONCE", summary, field="copies", expected=expected_copies, found=str(count))

    def note_recovery(self, records: list[FoundRecord]) -> None:
        """Note what a recovery has found, and what it has not: both are final."""
        found = found_places(records)
        names = {place: name_in(record.body) for place, record in found.items()}
        self.durable = {place: ExpectedMessage(name, Why.ANSWERED, 0) for place, name in names.items()}
        self.expected.clear()
        self.halves.clear()
        self.durable_halves = {name_in(found.body) for found in records if found.record.topic in _OF_HALVES}
        self.shown = {place: name for place, name in self.shown.items() if place in found}
        ends: dict[Queue, int] = {}
        for place in found:
            ends[place[:2]] = max(ends.get(place[:2], 0), place.queue_offset + 1)
        for queue, seen_until in self.seen_until.items():
            if seen_until > ends.get(queue, 0):
                self._excuse(queue, seen_until)

    def check_shown(self, records: list[FoundRecord]) -> Iterator[Violation]:
        """Yield every message that is there and that consumers, who are past it, have never been given."""
        for place, record in found_places(records).items():
            tried("LIVE")
            if place not in self.shown and place.queue_offset >= self.excused_until.get(place[:2], 0):
                summary = f"{name_in(record.body)} at {place} was never given to a consumer"
                yield Violation("LIVE", summary, field="delivery", expected="at least once", found="never")

    def check_decided(self, records: list[FoundRecord]) -> Iterator[Violation]:
        """Yield every half message that should have been committed and is neither that nor, if excused, given up."""
        committed = {name_in(found.body) for found in records if is_of_users(found.record.topic)}
        given_up = {name_in(found.body) for found in records if found.record.topic == GIVEN_UP_TOPIC}
        for name in sorted(self.durable_halves | self.halves.keys()):
            send = self.sends[name]
            tried("TX")
            is_decided = name in committed or (name in given_up and not send.is_insisted_on)
            if send.commits and not is_decided:
                found = "given up" if name in given_up else "undecided"
                summary = f"{name} was to be committed"
                yield Violation("TX", summary, field="decision", expected="committed", found=found)

    def _excuse(self, queue: Queue, until: int) -> None:
        self.excused_until[queue] = max(self.excused_until.get(queue, 0), until)

    def _expect(self, place: MessagePlace, name: str, why: Why, log_offset: int) -> Iterator[Violation]:
        there = self.durable.get(place) or self.expected.get(place)
        if there is not None and there.name != name:
            summary = f"{name} was {why.name.lower()} where {there.name} is"
            yield Violation("QOFF", summary, field="place", expected=there.name, found=f"{name} at {place}")
        if there is None or there.why is Why.SHOWN:
            log_end = log_offset + len(self.sends[name].body) + _BESIDE_BODY_BYTES_MAX
            self.expected[place] = ExpectedMessage(name, why, log_end)


def found_places(records: list[FoundRecord]) -> dict[MessagePlace, FoundRecord]:
    """Return the records of users' topics by their places."""
    of_users = [(found, found.record) for found in records if is_of_users(found.record.topic)]
    return {MessagePlace(one.topic, one.queue_id, one.queue_offset): found for found, one in of_users}


def topic_of_users(number: int) -> str:
    """Return the name of a topic that producers send to."""
    return f"T{number}"


def is_of_users(topic: str) -> bool:
    """Return whether it is one of those, and none of the broker's own."""
    return topic[:1] == "T" and topic[1:].isdigit()


def body_of(name: str, size_bytes: int) -> bytes:
    """Return a body that has the message's name and differs from all others."""
    head = f"{name}|".encode()
    return (head * (size_bytes // len(head) + 1))[: max(size_bytes, len(head))]


def name_in(body: bytes) -> str:
    """Return the name of the message that a body is of."""
    return body.partition(b"|")[0].decode("ascii", "replace")


def _changed(send: Send, found: FoundRecord) -> Iterator[Violation]:
    """Yield what of a message the broker has not stored as it was sent; of its client's port nobody knows."""
    record, found_head = found.record, found.record.head
    if not send.born_ms:
        return  # nobody says when it was born, nor with what
    born_ms = found_head.born_timestamp_ms
    if born_ms not in send.born_ms:
        born_ms = send.born_ms[-1]
    address, _ = send.given.born_host
    port = int.from_bytes(found_head.born_host[-4:], "big")
    given = send.given._replace(born_timestamp_ms=born_ms, born_host=(address, port))
    is_committed = send.is_half and record.topic not in _OF_HALVES
    summary = f"{send.name} is not stored as it was sent"
    head = given.head(send.body)
    for offset, name, expected, there in differences(record, given, head, is_committed=is_committed):
        yield Violation("PREFIX", summary, found.file, found.position + offset, name, expected, there)


def _unsent(place: MessagePlace, body: bytes) -> Violation:
    summary = f"what is at {place} was never sent"
    return Violation("ONCE", summary, field="body", expected="a body that was sent", found=repr(body[:40]))
