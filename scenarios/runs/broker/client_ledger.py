"""The client ledger: what clients of one broker were answered, and what that promises; its slaves hold it, too.

    a send                     answered SUCCESS: it is where the answer says; answered otherwise: as the code says;
                               not answered: nobody knows, it may be there once for each time it was sent
    a message that was shown   it is where it was shown; it is shown again if the consumer died before dealing with it
    a recovery                 what it has found is there for good
    a message that is to wait  as a half message; it is delivered when its time has come, in each life once at most
    a half message             it is there, in one form or another; once committed, it may be there once for each time
                               that was said; once rolled back, never
    what was sent back         it is there once more, and is given again when its time has come
    what expires               may be gone, in whatever form it is; consumers are moved past nothing else

After a power cut under ASYNC_FLUSH the first and second hold as far as the log was flushed; otherwise they hold, but of
what was in a buffer only when its process was killed. What a recovery found after a sync that failed may be in the page
cache alone. An answer of a life that has ended, which was under way until now, promises what its life did: under
ASYNC_FLUSH nothing.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ....faults.crashes.profiles import CrashProfile
from ....store.formats.half_message import GIVEN_UP_TOPIC
from ...oracle.evidence import Violation, tried
from ...oracle.misfiled import may_be_misfiled
from ...oracle.put_entry import PLAIN
from ...oracle.recovered import FoundRecord
from .group_commits import GroupCommits
from .message_options import EVERYTHING, Subscription
from .pull_times import PullTimes, Queue
from .sent_messages import (
    AGAIN,
    WAITING,
    MessagePlace,
    Send,
    check_unchanged,
    found_places,
    is_of_users,
    is_sent_back,
    name_in,
    unsent,
)

_BESIDE_BODY_BYTES_MAX = 400
"""More than a record of a run has beside its body."""


class Why(Enum):
    """Why a message has to be at a place, by the invariant that is broken if it is not."""

    ANSWERED = "DUR"
    SHOWN = "VIS"


class ExpectedMessage(NamedTuple):
    """A message that has to be somewhere."""

    name: str
    why: Why
    log_begin: int
    """Where in the log its record begins."""
    log_end: int
    """An offset of the log that its record ends before."""


@dataclass(slots=True)
class ClientLedger:
    """Invariant: `durable` is there after every recovery to come, `expected` too if the end of this life leaves it."""

    sync_flush: bool
    subscription: Subscription = EVERYTHING
    """What the group of consumers wants."""
    pull_times: PullTimes = field(default_factory=PullTimes)
    commits: GroupCommits = field(default_factory=GroupCommits)
    has_steady_clock: bool = True
    """Whether no machine's clock steps, so that nothing may be delivered before its time."""
    store_hosts: tuple[tuple[bytes, int], ...] = (PLAIN.store_host,)
    """Who has stored messages, as their records have it: the broker, and a slave that has taken its place."""
    tears: bool = False
    """Whether a power cut may tear records where no recovery can see it."""
    holes: Mapping[Queue, set[int]] = field(default_factory=dict)
    """Numbers that queues may lack because of that."""
    hits: Counter[str] = field(default_factory=Counter)
    """What was met of `runs.marks`; brokers of one run have it in common, as they have what is sent."""
    life: int = 0
    """How many lives of the broker have ended: answers to what was asked before may be of an earlier one."""
    sends: dict[str, Send] = field(default_factory=dict)
    durable: dict[MessagePlace, ExpectedMessage] = field(default_factory=dict)
    expected: dict[MessagePlace, ExpectedMessage] = field(default_factory=dict)
    cached: dict[MessagePlace, ExpectedMessage] = field(default_factory=dict)
    """What a recovery has found that a failed sync may have kept from the disk: in the page cache at least."""
    halves: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Half messages, and those that are to wait, that were answered, and where in the log they begin and end."""
    durable_halves: dict[str, int] = field(default_factory=dict)
    """Those that a recovery has found, and where in the log each begins, or its newest copy."""
    sent_back: set[str] = field(default_factory=set)
    """Messages that were sent back and answered; an end of this life may take them."""
    durable_sent_back: set[str] = field(default_factory=set)
    """Those that are there after every recovery to come."""
    expired_to: int = 0
    """Log offset up to which retention has set out to remove segments: what is in front of it may be gone."""
    dealt_with: set[MessagePlace] = field(default_factory=set)
    """What consumers were given, and lived to deal with, and no crash has taken."""
    seen_until: dict[Queue, int] = field(default_factory=dict)
    """Behind what has ever been shown of a queue."""
    excused_until: dict[Queue, int] = field(default_factory=dict)
    """Offsets of a queue that consumers were past when a crash took them, and others came in their place."""
    _recovered_ends: list[tuple[int, dict[Queue, int]]] = field(default_factory=list)
    """Of each recovery, the life that it began, and where queues ended that had anything."""
    topics: dict[str, int] = field(default_factory=dict)
    """Topics that were put to and answered, with the greatest number of a queue: they are durable before."""
    groups: set[str] = field(default_factory=set)
    """Groups that were pulled for and answered: likewise."""
    _last_sent: dict[tuple[int, Queue], int] = field(default_factory=dict)
    """Of each producer and queue, the offset of its newest answered message."""

    def begin(self, name: str, body: bytes, *, is_half: bool = False, commits: bool = False) -> Send:
        """Note a message that is about to be sent for the first time."""
        send = self.sends[name] = Send(name, body, is_half=is_half, commits=commits)
        return send

    def answer_half(self, send: Send, log_offset: int, *, asked_in: int) -> None:
        """Note that a half message was answered SUCCESS that was sent in some life."""
        if asked_in == self.life or self.sync_flush:
            self.halves[send.name] = log_offset, log_offset + len(send.body) + _BESIDE_BODY_BYTES_MAX

    def answer_delayed(self, send: Send, log_offset: int, *, asked_in: int) -> None:
        """Note that a message was answered SUCCESS that is to wait."""
        send.answered += 1
        self.answer_half(send, log_offset, asked_in=asked_in)

    def answer(
        self, producer: int, send: Send, place: MessagePlace, log_offset: int, *, asked_in: int, now_ns: int = 0
    ) -> Iterator[Violation]:
        """Note that a message was answered SUCCESS that was sent in some life; yield what that contradicts."""
        send.answered += 1
        self.topics[place.topic] = max(place.queue_id, self.topics.get(place.topic, 0))
        self.hits["late answer"] += asked_in != self.life
        if asked_in == self.life and self.subscription.wants(send.options):
            self.pull_times.note(place[:2], place.queue_offset, now_ns)
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

    def show(
        self, place: MessagePlace, body: bytes, log_offset: int, *, asked_in: int, now_ns: int
    ) -> Iterator[Violation]:
        """Note what a consumer was given that had asked for it in some life; yield what that contradicts."""
        name = name_in(body)
        self.pass_over(place[:2], place.queue_offset + 1, asked_in=asked_in)
        send = self.sends.get(name)
        if send is None or send.body != body:
            yield unsent(place, body)
            return
        if not self.subscription.wants(send.options):
            summary = f"{name} was given to a consumer that does not want it"
            yield Violation("READ", summary, field="filter", expected=self.subscription.text, found=str(send.options))
        yield from self._check_delay(send, now_ns)
        if asked_in != self.life and not self.sync_flush:
            there = self.durable.get(place) or self.expected.get(place)
            if there is None or there.name != name:
                return
        if not may_be_misfiled(log_offset, tears=self.tears):  # what the place was is not known
            yield from self._expect(place, name, Why.SHOWN, log_offset)

    def send_back(self, body: bytes, *, asked_in: int) -> None:
        """Note that a message was answered SUCCESS that a consumer had sent back, who had asked for it in some life."""
        self.hits["sent back"] += 1
        if asked_in == self.life or self.sync_flush:
            self.sent_back.add(name_in(body))

    def deal_with(self, places: Iterable[MessagePlace]) -> None:
        """Note that a consumer is done with what it was given."""
        self.dealt_with.update(places)

    def _check_delay(self, send: Send, now_ns: int) -> Iterator[Violation]:
        if not send.options.delay_level or not self.has_steady_clock:
            return
        tried("SCHED")
        assert send.asked_ns is not None, send.name
        waited_ms = now_ns // 1_000_000 - send.asked_ns // 1_000_000  # store times are whole ms
        if waited_ms < send.options.delay_ms:
            summary, expected = f"{send.name} was given to a consumer early", f">= {send.options.delay_ms} ms"
            yield Violation("SCHED", summary, field="delivery", expected=expected, found=f"{waited_ms} ms")

    def check_skipped(self, queue: Queue, begin: int, end: int, *, asked_in: int) -> Iterator[Violation]:
        """Yield the first message of a queue's offsets that a consumer is sent past although it has not expired.

        It had asked in some life: what an earlier one says of its queue's bounds, no later one need have.
        """
        if asked_in != self.life:
            return
        tried("CLEAN")
        for queue_offset in range(begin, end):
            place = MessagePlace(*queue, queue_offset)
            owed = self.durable.get(place) or self.expected.get(place)
            if owed is not None and owed.log_begin >= self.expired_to:
                summary = f"a consumer is sent past {owed.name}, which has not expired"
                expected = f"{queue[0]}/{queue[1]} @ {queue_offset}"
                yield Violation("CLEAN", summary, field="next offset", expected=expected, found=f"@ {end}")
                return

    def seen_place(self, place: MessagePlace, following: MessagePlace, log_offset: int) -> MessagePlace:
        """Return where a consumer has seen a record that says a place, when another was to follow."""
        return following if place < following and may_be_misfiled(log_offset, tears=self.tears) else place

    def lacks(self, queue: Queue, begin: int, end: int) -> bool:
        """Return whether a queue may have nothing in [begin, end)."""
        return self.tears and self.holes.get(queue, set()).issuperset(range(begin, end))

    def pass_over(self, queue: Queue, until: int, *, asked_in: int) -> None:
        """Note that a consumer wants what is before an offset no more, whether or not it was given any of that.

        It had asked in some life. If a recovery since has found the queue to be shorter, something else may be there
        now, or come, and it is past that, too.
        """
        self.seen_until[queue] = max(self.seen_until.get(queue, 0), until)
        if any(life > asked_in and ends.get(queue, 0) < until for life, ends in self._recovered_ends):
            self._excuse(queue, until)

    def check_topic(self, topic: str) -> Iterator[Violation]:
        """Yield what is wrong with the answer that there is no such topic: it is made before anything is put to it."""
        tried("META")
        if topic in self.topics:
            summary = f"{topic} has messages, and the broker does not know it"
            yield Violation("META", summary, field="topic", expected=topic, found="no such topic")

    def check_tables(self, topics: Mapping[str, int], groups: Container[str]) -> Iterator[Violation]:
        """Yield what a broker that was just loaded has forgotten of what it has made for those whom it answered.

        topics: how many queues each has that it knows; groups: those that it knows.
        """
        for topic, queue_ids in sorted(self.topics.items()):
            tried("META")
            if topics.get(topic, 0) <= queue_ids:
                summary = f"{topic} was made, and a start does not find it"
                found = f"{topics[topic]} queues" if topic in topics else "no such topic"
                yield Violation("META", summary, field="topic", expected=f"queue {queue_ids}", found=found)
        for group in sorted(self.groups):
            tried("META")
            if group not in groups:
                summary = f"{group} was made, and a start does not find it"
                yield Violation("META", summary, field="group", expected=group, found="no such group")

    # -- lives -------------------------------------------------------------------------------------

    def note_stop(self, *, keeps_progress: bool = True) -> None:
        """Note a clean stop, which keeps everything that a sync could; progress only if the disk let it."""
        self.cached.clear()
        self._keep_halves()
        self.halves.clear()
        self._keep_sent_back()
        self.durable |= self.expected
        self.expected.clear()
        if keeps_progress:
            self.commits.note_kept()
        self._end_life()

    def _keep_sent_back(self) -> None:
        self.durable_sent_back |= self.sent_back
        self.sent_back.clear()

    def _keep_halves(self) -> None:
        self.durable_halves |= {name: begin for name, (begin, _) in self.halves.items()}

    def _owed_halves(self) -> list[str]:
        """Return those that have to be there."""
        begins = self.durable_halves | {name: begin for name, (begin, _) in self.halves.items()}
        return sorted(name for name, begin in begins.items() if begin >= self.expired_to)

    def _end_life(self) -> None:
        self.life += 1
        self.pull_times.begin_life()
        self.commits.end_life()

    def note_crash(
        self,
        profile: CrashProfile,
        *,
        flushed_where: int,
        committed_where: int | None = None,
        cache_is_whole: bool = True,
        persisted_within_ms: int | None = None,
        died_ns: int = 0,
    ) -> None:
        """Note a crash, and what it may not take.

        committed_where: how far the page cache has the log, if puts went to a buffer first. cache_is_whole: not so if a
        failed sync has taken back what readers had seen in it. persisted_within_ms, died_ns: as `GroupCommits` has it.
        """
        self.commits.note_crash(persisted_within_ms, died_ns)
        self._end_life()
        keeps_cache = profile.page_cache_survives and cache_is_whole
        if not keeps_cache:
            self.cached.clear()
        if self.sync_flush or (keeps_cache and committed_where is None):
            return
        kept_where = flushed_where
        if keeps_cache and committed_where is not None:
            kept_where = max(flushed_where, committed_where)
        expected = self.expected.items()
        self.sent_back.clear()  # no answer has said where in the log they are
        self.expected = {place: each for place, each in expected if each.log_end <= kept_where}
        self.halves = {name: span for name, span in self.halves.items() if span[1] <= kept_where}
        self._last_sent.clear()

    def check_recovery(self, records: list[FoundRecord]) -> Iterator[Violation]:
        """Yield what of the promises a recovery has broken."""
        found = found_places(records)
        for place, expected in {**self.cached, **self.durable, **self.expected}.items():
            tried(expected.why.value)
            record = found.get(place)
            if record is None and expected.log_begin < self.expired_to:
                continue
            if record is None or record.body != self.sends[expected.name].body:
                there = "nothing"
                if record is not None:
                    there = f"{len(record.body)} bytes that begin {record.body[:20]!r}"
                name, why = expected.name, expected.why
                summary = f"{name}, which was {why.name.lower()} at {place}, is not there"
                yield Violation(why.value, summary, field="message", expected=name, found=there)
        there_in_some_form = {name_in(one.body) for one in records}
        for name in self._owed_halves():
            if name in there_in_some_form:
                continue
            summary = f"the waiting message of {name}, which was answered, is not there"
            yield Violation("DUR", summary, field="waiting message", expected=name, found="nothing")
        if not self.expired_to:
            again = {name_in(one.body) for one in records if is_sent_back(one)}
            for name in sorted((self.durable_sent_back | self.sent_back) - again):
                summary = f"{name}, which was sent back, is there no more than once"
                yield Violation("DUR", summary, field="message to be given again", expected=name, found="nothing")
        copies: Counter[str] = Counter()
        for place, record in found.items():
            tried("ONCE")
            send = self.sends.get(name_in(record.body))
            if send is None or send.body != record.body:
                yield unsent(place, record.body)
            else:
                copies[send.name] += 1
                yield from check_unchanged(send, record, self.store_hosts, tears=self.tears)
        for record in records:
            send = self.sends.get(name_in(record.body))
            if record.record.topic in WAITING and send is not None and not is_sent_back(record):
                yield from check_unchanged(send, record, self.store_hosts, tears=self.tears)
        self.hits["stored twice"] += any(count > 1 for count in copies.values())
        for name, count in copies.items():
            send = self.sends[name]
            stored_max = send.answered + send.maybe
            if send.options.delay_level:  # each life may deliver again what the last one's progress had not passed
                stored_max *= self.life + 1
            if count > stored_max:
                summary = f"{name} is there more often than it was, or may have been, stored"
                expected_copies = f"at most {send.answered} answered and {send.maybe} not"
                yield Violation("ONCE", summary, field="copies", expected=expected_copies, found=str(count))

    def note_recovery(
        self, records: list[FoundRecord], queue_ends: Mapping[Queue, int], *, durable: bool = True
    ) -> None:
        """Note what a recovery has found, and what it has not: both are final, if what it found is durable.

        queue_ends: where its queues end, of whose messages all may have expired.
        """
        found = found_places(records)
        everything = {
            place: ExpectedMessage(name_in(record.body), Why.ANSWERED, record.record.physical_offset, 0)
            for place, record in found.items()
        }
        halves = {
            name_in(found.body): found.record.physical_offset for found in records if found.record.topic in WAITING
        }
        if durable:
            self.durable, self.durable_halves, self.cached = everything, halves, {}
            self.durable_sent_back = {name_in(found.body) for found in records if is_sent_back(found)}
        else:
            if self.sync_flush:
                self.durable |= self.expected
                self._keep_halves()
                self._keep_sent_back()
            self.cached = everything
        self.expected.clear()
        self.halves.clear()
        self.sent_back.clear()
        self.dealt_with &= found.keys()
        ends = dict(queue_ends) if self.expired_to else {}
        for place in found:
            ends[place[:2]] = max(ends.get(place[:2], 0), place.queue_offset + 1)
        self._recovered_ends.append((self.life, ends))
        self.commits.take_back(ends)
        for queue, seen_until in self.seen_until.items():
            if seen_until > ends.get(queue, 0):
                self._excuse(queue, seen_until)

    def check_shown(self, records: list[FoundRecord]) -> Iterator[Violation]:
        """Yield every message that is there, and that consumers are past who have never dealt with it."""
        for place, record in found_places(records).items():
            tried("LIVE")
            send = self.sends.get(name_in(record.body))
            if send is not None and not self.subscription.wants(send.options):
                continue
            if place not in self.dealt_with and place.queue_offset >= self.excused_until.get(place[:2], 0):
                summary = f"{name_in(record.body)} at {place} was never given to a consumer that dealt with it"
                yield Violation("LIVE", summary, field="delivery", expected="at least once", found="never")

    def check_given_again(self, records: list[FoundRecord]) -> Iterator[Violation]:
        """Yield what was sent back and is where no consumer comes, now that its time has come."""
        if self.expired_to:
            return
        again = {name_in(found.body) for found in records if found.record.topic.startswith(AGAIN)}
        for name in sorted(self.durable_sent_back | self.sent_back):
            tried("SCHED")
            if name not in again:
                summary = f"{name} was sent back, and is not given again"
                yield Violation("SCHED", summary, field="delivery", expected=" or ".join(AGAIN), found="waiting")

    def check_decided(self, records: list[FoundRecord], *, resumed: bool = False) -> Iterator[Violation]:
        """Yield every message that waits, now that none may: half ones are committed or, if excused, given up.

        resumed: whether in the end all that had been given up was asked about again, which ends excuses.
        """
        committed = {name_in(found.body) for found in records if is_of_users(found.record.topic)}
        given_up = {name_in(found.body) for found in records if found.record.topic == GIVEN_UP_TOPIC}
        for name in self._owed_halves():
            send = self.sends[name]
            if send.options.delay_level:
                tried("SCHED")
                if name not in committed:
                    summary = f"{name} was to be delivered"
                    yield Violation("SCHED", summary, field="delivery", expected="delivered", found="waiting")
                continue
            tried("TX")
            is_decided = name in committed or (name in given_up and not send.is_insisted_on and not resumed)
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
            self.expected[place] = ExpectedMessage(name, why, log_offset, log_end)
