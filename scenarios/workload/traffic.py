"""The users of a store: producers that put and note their answers, and all others beside them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ...faults.disk.disk import Disk
from ...sim.choices import Stream
from ...sim.kernel import Kernel
from ...store.errors import StoreNotReadableError
from ...store.formats.batch import BatchUnit, encode_batch
from ...store.formats.message import BLANK_BYTES, MAX_TOPIC_BYTES
from ...store.formats.messages import MessageBatch, PutMessageResult, PutMessageStatus
from ...store.message_store import MessageStore
from ...store.services.consumer_offsets import ConsumerOffsetManager
from ...store.world import Signal, Task
from ..claims.plan import Plan
from ..oracle import allowances
from ..oracle.disk_space import Room
from ..oracle.evidence import Violation, services_text
from ..oracle.invariants import iso, live, status
from ..oracle.ledger import HALF_TOPIC, Ledger
from ..oracle.put_entry import PLAIN, Detour, PutContent, PutEntry, refusal
from . import operators, options, transaction_traffic
from .consuming import Consumer
from .longest import Longest, draw_longest
from .sizes import draw_body_bytes
from .skew import Skew, draw_skew
from .transaction_traffic import TransactionTraffic

TAGS = ("", "TagA", "TagB", "TagC")
_BATCH_UNITS_MAX = 4
_LOOK_MS = 50
_SECOND_START_MS_MAX = 100
ILLEGAL_TOPICS = ("no/topic", "t" * (MAX_TOPIC_BYTES + 1), "\N{CJK UNIFIED IDEOGRAPH-4E3B}" * 43)
"""Of a character that no path may have, too long by a byte, and too long in bytes though not in characters."""
LONGEST_TOPIC = "t" * MAX_TOPIC_BYTES
ILLEGAL_NUMBERS = (1 << 31, -(1 << 31) - 1, 1 << 63)
"""None fits the 32 bits that a record has for how often it was consumed again."""
_ODD_NUMBER_CHANCE = 0.25
_SHARED_PROPERTY = "batch\1all"
"""What a batch adds to the properties of its messages where one of them has as many as it can."""

Report = Callable[[Iterable[Violation]], None]


@dataclass(slots=True)
class Traffic:
    """The users of one life of a store. What they do is drawn per task, so that no schedule changes it."""

    plan: Plan
    life: int
    kernel: Kernel
    store: MessageStore
    disk: Disk
    ledger: Ledger
    report: Report
    streams: Callable[[str], Stream]
    progress: ConsumerOffsetManager | None = None
    """What consumers commit to, and begin from."""
    transactions: TransactionTraffic | None = None
    """Who decides about half messages, if producers put some."""
    on_answer: Callable[[PutEntry, PutMessageResult], Iterable[Violation]] | None = None
    """Who else judges an answer."""
    room: Room | None = None
    """The disk's, if there is an end to it."""
    paused_ns: Callable[[int], int] = lambda _: 0
    """Returns how long all pauses together are that have begun, as far as they are later than some moment."""
    _skew: Skew = field(init=False)
    _log_end: int | None = field(default=None, init=False)
    """Where the record ends of what a lone producer put last."""
    _producing: int = field(default=0, init=False)
    _stop: "StopDue | None" = field(default=None, init=False)
    _answer_ms_max: int | None = field(init=False)
    _segment_ms_max: int = field(init=False)

    def __post_init__(self) -> None:
        self._skew = draw_skew(self._stream("skew"), self.plan)
        self._answer_ms_max = live.answer_ms_max(self.plan)
        self._segment_ms_max = live.segment_ms_max(self.plan)

    def _stream(self, name: str) -> Stream:
        """Return the stream of one user in this life."""
        return self.streams(f"life-{self.life}/{name}")

    def run(self, messages_each: int) -> None:
        """Let all users do their work, and wait for them."""
        for user in self._begin(messages_each):
            user.join(None)

    def run_into_a_stop(self, messages_each: int, stop: Callable[[], bool]) -> bool:
        """Let all users begin, and stop the store under them as they are at a drawn one of their puts.

        Wait for them, too; return what stop does.
        """
        stream = self._stream("stop")
        puts_max = sum(len(self._names_of(number, messages_each)) for number in range(self.plan.producers))
        puts = stream.between(1, puts_max, "puts before the stop")
        self._stop = StopDue(puts, self.store.world.tasks.signal("stop due"))
        users = self._begin(messages_each)
        self._stop.signal.wait(None)
        self._stop.has_begun = True
        clean = stop()
        self._stop.ended_ns = self.kernel.now_ns
        for user in users:
            user.join(None)
        return clean

    def _begin(self, messages_each: int) -> list[Task]:
        plan, store, spawn = self.plan, self.store, self.store.world.tasks.spawn
        self._producing = plan.producers
        users = [spawn(f"producer-{number}", self._producer(number, messages_each)) for number in range(plan.producers)]
        users += [spawn(f"consumer-{number}", self._consumer(number)) for number in range(plan.consumers)]
        if plan.consuming.commits_offsets and self.progress is not None and self.life < len(plan.lives):
            persisting = operators.persisting_operators(self.progress, self._stream("persisting"))
            users.append(spawn("persisting operators", persisting))
        if plan.starts.second and self._stop is None:  # once it has stopped, anybody may start
            users.append(spawn("operator", self._second_start))
        if plan.retention.deletes_segments:
            retention = operators.retention_operator(store, self._stream("retention"))
            users.append(spawn("retention operator", retention))
        if plan.retention.deletes_segments and plan.retention.deletes_queues and self._stop is None:
            removing = operators.removing_operator(
                store, self._stream("removing"), self.disk, self.ledger, lambda: self._producing > 0
            )
            users.append(spawn("removing operator", removing))
            users.append(spawn("returning producer", self._returning_producer()))
        if self.room is not None and self.room.is_short:
            finding_room = operators.room_operator(store, self._stream("room"), self.room, self._report_while_running)
            users.append(spawn("room operator", finding_room))
        if plan.delay.chance:
            self._producing += 1
            users.append(spawn("patient", self._wait_for_delayed))
        if self.transactions is not None:
            self._producing += 1
            users.append(spawn("producer-group", self._decide_late))
        for number in range(plan.index.seekers):
            stream = self._stream(f"seeker-{number}")
            seeker = options.Seeker(plan, self.life, store, self.disk, self.ledger, stream, self.report)
            users.append(spawn(f"seeker-{number}", partial(seeker.seek, messages_each)))
        return users

    @property
    def _is_stopping(self) -> bool:
        """Return whether the store is being stopped under its users, or has been."""
        return self._stop is not None and self._stop.has_begun

    def _report_while_running(self, violations: Iterable[Violation]) -> None:
        """Report what is only wrong of a store that runs."""
        if not self._is_stopping:
            self.report(violations)

    def _second_start(self) -> None:
        pause_ms = self._stream("operator").below(_SECOND_START_MS_MAX, "pause ms")
        self.store.world.tasks.sleep(pause_ms)
        self.disk.injected["second start"] += 1
        found = list(iso.check(self.store))
        if not allowances.errors(self.disk):  # which whoever starts meets as well
            self.report(found)

    def _wait_for_delayed(self) -> None:
        """Give what is delayed some time to come, and consumers to see it."""
        stream = self._stream("patient")
        self.store.world.tasks.sleep(options.draw_patience_ms(stream))
        self._producing -= 1

    def _decide_late(self) -> None:
        """Let the producer group decide what earlier lives left undecided, and be asked for a while."""
        assert self.transactions is not None
        healing = self.life == len(self.plan.lives)
        self.transactions.come_back(self._stream("producer-group"), healing=healing)
        self._producing -= 1

    # -- producing ---------------------------------------------------------------------------------

    def _names_of(self, producer: int, messages_each: int) -> Sequence[str]:
        """Return the names of what a producer puts, in order."""
        return self._skew.taken(producer, message_names(self.plan, self.life, producer, messages_each))

    def _producer(self, number: int, messages_each: int) -> Callable[[], None]:
        stream = self._stream(f"producer-{number}")

        def produce() -> None:
            for name in self._names_of(number, messages_each):
                about = stream.within(name)
                self.put_one(about, name)
                if about.chance(self.plan.pauses.chance, "pause"):
                    self.store.world.tasks.sleep(about.between(1, self.plan.pauses.ms_max, "pause ms"))
            self._producing -= 1

        return produce

    def _returning_producer(self) -> Callable[[], None]:
        """Return a task that puts to each queue that is being removed, as it is."""
        stream = self._stream("returning-producer")
        ending: list[tuple[str, int]] = []
        users_topics = {f"T{number}" for number in range(self.plan.topics)}
        due = self.store.world.tasks.signal("queue ends")

        def note(place: tuple[str, int]) -> None:
            if place[0] in users_topics:  # no user puts to others by name
                ending.append(place)
                due.notify()

        self.ledger.watch_queue_ends(note)

        def produce() -> None:
            put = 0
            while self._producing > 0:
                due.wait(_LOOK_MS)
                while ending:
                    name = f"m{self.life}.back.{put}"
                    place, put = ending.pop(), put + 1
                    if name not in self.plan.left_out:
                        self.put_one(stream.within(name), name, place)

        return produce

    def put_one(self, stream: Stream, name: str, place: tuple[str, int] | None = None) -> None:
        """Put what is drawn: a message of a name, or a batch of some, and note what came of it. place: its queue."""
        plan = self.plan
        if self._stop is not None:
            self._stop.count()
        with self.kernel.at_one_moment():
            busy = status.check_busy(self.store)
            asked_at = self.store.log.put_offset
        self.report(busy)
        is_odd = stream.chance(plan.messages.illegal_chance, "illegal")
        topic_number, queue_id = self._skew.place(stream, plan)
        topic = f"T{topic_number}"
        odd_number = None
        if is_odd:
            possible = () if plan.messages.equal_sizes else (LONGEST_TOPIC,)
            topic = stream.pick(ILLEGAL_TOPICS + possible, "odd topic")
            numbers = self.streams(f"{stream.name}/odd numbers").within(name)
            if topic in ILLEGAL_TOPICS and numbers.chance(_ODD_NUMBER_CHANCE, "odd number"):
                topic, odd_number = f"T{topic_number}", numbers.pick(ILLEGAL_NUMBERS, "which number")
        elif place is not None:
            topic, queue_id = place
        legal = topic not in ILLEGAL_TOPICS and odd_number is None
        wait = not stream.chance(plan.messages.no_wait_chance, "no wait")
        about = self.streams(f"{stream.name}/headers").within(name)
        now_ms = self.store.world.clock.now_ms()
        given = options.draw_given(about, now_ms, one_size=plan.messages.equal_sizes)
        if odd_number is not None:
            given = given._replace(reconsume_times=odd_number)
        if self.transactions is not None and stream.chance(plan.transactions.chance, "transaction"):
            behaviour = transaction_traffic.draw_behaviour(stream)
            added = behaviour.properties
            given = given._replace(born_timestamp_ms=now_ms)  # immunity counts from it
            half = self._entry(stream, about, name, topic, queue_id, given, wait=wait, added=added)
            options.make_detour(half, Detour((HALF_TOPIC, 0)))
            result = self.transactions.prepare(half, behaviour)
            fits = transaction_traffic.fits(half, plan) and self._is_admitted(half.body)
            must = refusal(topic, [half.properties], is_possible=legal and fits)
            self._answered([half], result, must, asked_at)
            self.transactions.decide(half)
            return
        longest, in_batch = draw_longest(about, plan), stream.chance(plan.messages.batch_chance, "batch")
        if in_batch:
            log_end, entries = self._log_end, []
            units = stream.between(1, _BATCH_UNITS_MAX, "units")
            lengths: list[Longest | None] = [None] * units
            shared = ""
            if longest is not None:  # its own length has to fit the two bytes that a batch has for it, too
                shared = _SHARED_PROPERTY
                lengths[about.below(units, "longest unit")] = longest._replace(by_bytes=True)
            for number, length in enumerate(lengths):
                unit = f"{name}.{number}"
                within, added = (stream.within(unit), about.within(unit)), (shared,) if shared else ()
                entry = self._entry(*within, unit, topic, queue_id, given, wait=wait, longest=length, added=added)
                entries.append(entry)
                if self._log_end is not None:
                    self._log_end += entries[-1].record_bytes  # a batch's records are one run
            self._log_end = log_end
            for number, entry in enumerate(entries):  # each has a flag of its own
                if given is not PLAIN and number:
                    entry.given = given._replace(flag=options.draw_flag(about.within(entry.name)))
            suffix = f"\2{shared}".encode() if shared else b""
            body = encode_batch(
                BatchUnit(one.given.flag, one.body, one.properties.removesuffix(suffix)) for one in entries
            )
            head = options.message_of(topic, b"", queue_id, shared, given, wait=wait)
            admitted = self._is_admitted(body)
            result = self.store.put_messages(MessageBatch(head, body))
        else:
            level = options.draw_level(stream, plan, self._skew) if plan.delay.chance else 0
            light_names = options.draw_light_names(stream, plan) if plan.light_queues.chance else ()
            entry = self._entry(
                stream,
                about,
                name,
                topic,
                queue_id,
                given,
                wait=wait,
                level=level,
                light_names=light_names,
                longest=None if level or light_names else longest,
            )
            entries, properties = [entry], entry.properties.decode()
            message = options.message_of(topic, entry.body, queue_id, properties, given, wait=wait)
            admitted = self._is_admitted(entry.body)
            result = self.store.put_message(message)
        widest_bytes = sum([options.widest_bytes(entry) for entry in entries])
        fits = widest_bytes + BLANK_BYTES <= plan.commit_log_bytes
        is_possible = legal and fits and admitted
        must = refusal(topic, [each.properties for each in entries], in_batch=in_batch, is_possible=is_possible)
        self._answered(entries, result, must, asked_at)

    def _is_admitted(self, content: bytes) -> bool:
        """Return whether a body, or what a batch is made of, is as short as settings ask for."""
        limit_bytes = self.plan.messages.limit_bytes
        return not limit_bytes or len(content) <= limit_bytes

    def _entry(
        self,
        stream: Stream,
        about: Stream,
        name: str,
        topic: str,
        queue_id: int,
        given: PutContent,
        *,
        wait: bool,
        level: int = 0,
        light_names: tuple[str, ...] = (),
        longest: Longest | None = None,
        added: tuple[str, ...] = (),
    ) -> PutEntry:
        """Make one message, the only one with its properties, and note that it is asked for.

        about: for what is odd about it. level: how long it is to be delayed, 0 for not at all. longest: how long its
        properties are to be, if it matters. added: more properties, its last ones.
        """
        plan = self.plan
        fixed, body_bytes = plan.messages.equal_sizes, plan.messages.body_bytes_max
        extra_bytes = plan.messages.property_bytes_max
        if extra_bytes and not fixed:
            extra_bytes = stream.below(extra_bytes + 1, "property bytes")
        tags = "TagA" if fixed else stream.pick(TAGS, "tags")
        pieces = [f"KEYS\1{name:<10}"]
        odd = options.NO_ODDITIES if fixed else options.draw_oddities(about)
        tags = tags if odd.tags is None else odd.tags
        if tags:
            pieces.append(f"TAGS\1{tags}")
        if plan.index.keys_chance and not fixed:
            shared, unique = options.draw_keys(stream, plan, name, self._skew)
            pieces[0] = " ".join((pieces[0], *shared))
            if unique:
                pieces.append(f"UNIQ_KEY\1{unique}")
        pieces[0] = " ".join((pieces[0], *odd.words))
        if extra_bytes:
            pieces.append(f"extra\1{'p' * extra_bytes}")
        if level:
            pieces.append(f"DELAY\1{level}")
        if light_names:
            pieces.append(f"INNER_MULTI_DISPATCH\1{','.join(light_names)}")
        if longest is not None:
            pieces.append(longest.filling(pieces, added))
        pieces += added
        properties = "\2".join(pieces).encode()
        if not fixed:
            other_bytes = given.record_bytes(b"", topic, properties)
            body_bytes = draw_body_bytes(stream, plan, self._log_end, other_bytes)
        body = (f"{name}|".encode() * (body_bytes // len(name) + 1))[:body_bytes]
        entry = PutEntry(name, topic, queue_id, tags, body, properties, wait, self.kernel.now_ns)
        entry.given = given
        entry.light_names = light_names
        if level:
            options.redirect(entry, level)
        self.ledger.ask(entry)
        return entry

    def _answered(
        self, entries: list[PutEntry], result: PutMessageResult, must: PutMessageStatus | None, asked_at: int
    ) -> None:
        """Note what came of messages, and judge it.

        must: how they are to be refused, None if they can be stored. asked_at: where the log ended when they were put.
        """
        plan = self.plan
        answer, append = result
        if append is not None and plan.producers == 1:
            self._log_end = append.wrote_offset + append.wrote_bytes
        now_ns = self.kernel.now_ns
        for number, entry in enumerate(entries):
            entry.answered_ns = now_ns
            entry.status = answer
            if append is not None:
                entry.physical_offset = append.wrote_offset + append.record_starts[number]
                entry.queue_offset = append.queue_offset + number
                entry.stored_ms = append.store_timestamp_ms
                if entry.light_names:
                    entry.wrote_bytes = append.wrote_bytes
        first = entries[0]
        with self.kernel.at_one_moment():
            untrue = status.check(
                plan,
                self.store,
                self.disk,
                first,
                result,
                refusal=must,
                room=self.room,
                expired_to=self.ledger.expired_to,
                stopping=self._is_stopping,
            )
            made = self.store.log.put_offset // plan.commit_log_bytes - asked_at // plan.commit_log_bytes
        if untrue:
            self.report(untrue)
        if self.on_answer is not None:
            self.report(self.on_answer(first, result))
        paused_ms = -(-self.paused_ns(first.asked_ns) // 1_000_000)
        late = live.check_answer(self._answer_ms_max, first, made * self._segment_ms_max + paused_ms)
        if late:
            detail = services_text(self.store, self.store.flush.name)
            self.report([replace(each, detail=detail) for each in late])
        if not self._is_stopping:
            now_ms = self.store.world.clock.now_ms()
            self.report(live.check_flush_wait(plan, first, result, now_ms - paused_ms))
        if self._stop is not None and self._stop.ended_ns is not None:
            self.report(live.check_left_over(plan, first, self._stop.ended_ns))

    # -- consuming ---------------------------------------------------------------------------------

    def _consumer(self, number: int) -> Callable[[], None]:
        stream = self._stream(f"consumer-{number}")
        consumer = Consumer(
            self.plan, self.kernel, self.store, self.disk, self.ledger, stream, self.report, f"G{number}"
        )

        def consume() -> None:
            try:
                consumer.walk(self.progress, lambda: self._producing > 0)
            except StoreNotReadableError:
                if not self._is_stopping:
                    raise

        return consume


def message_names(plan: Plan, life: int, producer: int, messages_each: int) -> list[str]:
    """Return the names of what one producer puts in one life, in order."""
    names = [f"m{life}.{producer}.{count}" for count in range(messages_each)]
    return [name for name in names if name not in plan.left_out] if plan.left_out else names


@dataclass(slots=True)
class StopDue:
    """Counts puts down, and gives the signal at the last."""

    puts: int
    signal: Signal
    has_begun: bool = False
    """Whether the store is being stopped, or has been: it may turn users away."""
    ended_ns: int | None = None
    """When it had stopped; None before."""

    def count(self) -> None:
        """Count a put that is about to be made."""
        self.puts -= 1
        if self.puts == 0:
            self.signal.notify()
