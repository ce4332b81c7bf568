"""Drawing: creates each producer's messages at random, from a separate stream per producer.

Random choices depend only on the plan, the stream and the message's name, not on the schedule. For a single producer
such choices may also depend on the end of the producer's last record.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ...sim.choices import Stream
from ...store.formats.batch import BatchUnit, encode_batch
from ...store.formats.message import BLANK_BYTES, MAX_TOPIC_BYTES, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from ...store.formats.messages import PutMessageStatus
from ..claims.machine import DELAYS_MS
from ..claims.plan import Plan
from ..oracle.invariants.status import Allocation
from ..oracle.ledger import HALF_TOPIC
from ..oracle.put_entry import PLAIN, PROPERTIES_MAX, PutContent, PutEntry, WaitingPlace, refusal
from ..oracle.transactions import TransactionBehaviour
from . import odd_requests, options, transaction_traffic
from .sizes import LongestProperties, draw_body_bytes, draw_longest
from .skew import Skew

TAGS = ("", "TagA", "TagB", "TagC")
ILLEGAL_TOPICS = ("no/topic", "t" * (MAX_TOPIC_BYTES + 1), "\N{CJK UNIFIED IDEOGRAPH-4E3B}" * 43)
"""A topic with a character that is illegal in paths, one a byte too long, and one too long only in bytes."""
LONGEST_TOPIC = "t" * MAX_TOPIC_BYTES
ILLEGAL_NUMBERS = (1 << 31, -(1 << 31) - 1, 1 << 63)
"""Numbers beyond the 32 bits of reconsumeTimes."""
BATCH_UNITS_MAX = 4
_FIRST_NAME = "m0.0.0"
_TIERS = (None, "-3", "0", "1", "2", "10", "12", "gold")
"""Values of a property for SQL expressions: the order of numbers differs from that of their texts."""
_ODD_NUMBER_CHANCE = 0.25
_SHARED_PROPERTY = "batch\1all"
"""A property of the whole batch."""
_DELAYS_OF_UNITS = ("DELAY\0011", "DELAY\0013", "DELAY\1-1")
"""Delays of messages in a batch. A store ignores them, as RocketMQ does."""
_FORM_CHANCE = 0.4
"""The chance of each unusual form of a batch."""
_BATCH_FLAW_CHANCE = 0.05
_FLAW_CHANCE = 0.6
"""The chance of another broken rule instead of an illegal topic."""


def topic_of_users(number: int) -> str:
    return f"T{number}"


@dataclass(slots=True)
class DrawnMessage:
    """One random message. Each send of the message is a put with its own name."""

    name: str
    tags: str
    keys: str
    """The keys after the name of the put, each after a space."""
    pieces: list[str]
    """The encoded properties except KEYS."""
    content: PutContent
    level: int = 0
    """The delay level; 0 for a message that is due at once."""
    light_names: tuple[str, ...] = ()
    body: bytes = b""
    forged: tuple[str, ...] = ()
    """Properties in the send that the store must remove: none or one."""

    def set_body(self, size_bytes: int) -> None:
        self.body = (f"{self.name}|".encode() * (size_bytes // len(self.name) + 1))[:size_bytes]

    def properties(self, put_name: str, *shared: str) -> str:
        return "\2".join((f"KEYS\1{put_name:<10}{self.keys}", *self.pieces, *shared))


@dataclass(slots=True)
class Draft:
    """The content of one send: one message or a batch."""

    topic: str
    queue_id: int
    wait: bool
    content: PutContent
    is_legal: bool
    """Whether topic and numbers can be stored."""
    messages: list[DrawnMessage] = field(default_factory=list)
    in_batch: bool = False
    shared: tuple[str, ...] = ()
    """Properties of the whole batch: none or one."""
    ends_with_separator: bool = False
    """Whether the properties of each message in a batch end with a separator."""
    flaw: str = ""
    """The broken rule, a key of `odd_requests`; empty if there is none."""
    behaviour: TransactionBehaviour | None = None
    """How the producer handles the transaction; None if the message is not a half message."""
    log_end: int = 0
    """The end of the log before the messages were created. Unused in broker runs."""
    allocation: Allocation | None = None
    """The allocation of segments at that time. Unused in broker runs."""
    sends: int = 0
    limit_bytes: int = 0
    """The maximum size of a body; 0: the plan's."""
    names_bad_queue: bool = False
    """Whether the name of a light queue cannot be that of a directory."""

    def put(
        self, message: DrawnMessage, name: str, properties: bytes, asked_ns: int, queue_id: int, content: PutContent
    ) -> PutEntry:
        put = PutEntry(name, self.topic, queue_id, message.tags, message.body, properties, self.wait, asked_ns)
        put.content = content
        put.light_names = message.light_names
        if self.behaviour is not None:
            put.delayed_at_commit = options.place_of_level(message.level) if message.level else None
            options.set_waiting_place(put, WaitingPlace((HALF_TOPIC, 0)))
        elif message.level:
            options.set_delay_level(put, message.level)
        return put

    def batch_body(self, names: Iterable[str]) -> bytes:
        end = "\2" if self.ends_with_separator else ""
        return encode_batch(
            BatchUnit(each.content.flag, each.body, f"{each.properties(name, *each.forged)}{end}".encode())
            for each, name in zip(self.messages, names, strict=True)
        )

    def stored_properties(self, message: DrawnMessage, name: str) -> bytes:
        """Return the properties in the record of a message that is not redirected."""
        end = ("",) if self.ends_with_separator and not self.shared else ()
        return message.properties(name, *self.shared, *end).encode()

    def refusal(self, puts: Sequence[PutEntry], plan: Plan) -> PutMessageStatus | None:
        assert len(puts) == len(self.messages), self.messages[0].name
        assert self.in_batch or len(puts) == 1, "several messages are a batch"
        properties, reasons = [put.properties for put in puts], list(self._reasons_to_refuse(puts, plan))
        status = refusal(self.topic, properties, in_batch=self.in_batch, is_possible=not reasons)
        if status is not None:
            too_long = f"its properties have {max(map(len, properties))} bytes, at most {PROPERTIES_MAX}"
            puts[0].refused_because = "; ".join(reasons) or too_long
        return status

    def _reasons_to_refuse(self, puts: Sequence[PutEntry], plan: Plan) -> Iterator[str]:
        """Yield each reason, except the length of the properties, for which no record can hold the puts."""
        limit_bytes, segment_bytes = self.limit_bytes or plan.messages.limit_bytes, plan.commit_log_bytes
        if not self.is_legal and self.content.reconsume_times in ILLEGAL_NUMBERS:
            yield f"reconsumeTimes {self.content.reconsume_times} has more than 32 bits"
        elif not self.is_legal:
            topic_bytes = len(self.topic.encode())
            fault = "a '/'" if "/" in self.topic else f"{topic_bytes} bytes, at most {MAX_TOPIC_BYTES}"
            yield f"its topic has {fault}"
        if self.flaw:
            yield f"it has {self.flaw}"
        if self.names_bad_queue:
            yield "it names a light queue that cannot be a directory"
        if self.behaviour is not None:
            if plan.broker_settings.reject_transaction_message:
                yield "the broker rejects transactions"
            elif not transaction_traffic.fits_segment(puts[0], plan):
                yield f"a record of its transaction does not fit into a segment of {segment_bytes} bytes"
        else:
            needed_bytes = sum([options.longest_record_bytes(put) for put in puts]) + BLANK_BYTES
            if needed_bytes > segment_bytes:
                yield f"it needs {needed_bytes} bytes in a segment of {segment_bytes}"
        body_bytes = len(self.batch_body(put.name for put in puts) if self.in_batch else puts[0].body)
        if limit_bytes and body_bytes > limit_bytes:
            yield f"its body has {body_bytes} bytes, at most {limit_bytes}"


@dataclass(slots=True)
class Drawing:
    """Creates the drafts of all producers."""

    plan: Plan
    streams: Callable[[str], Stream]
    skew: Skew
    draw_behaviour: Callable[[Stream], TransactionBehaviour] | None = None
    """How a producer handles a transaction, None if producers send no half messages."""
    log_end: int | None = field(default=None, init=False)
    """The end of the log, if the user of a store knows it. Other producers may put meanwhile."""

    def draw(self, stream: Stream, name: str, now_ms: int, place: tuple[str, int] | None = None) -> Draft:
        """Create a message with the given name, or a batch. place: the required topic and queue, if any."""
        plan = self.plan
        # A client of a broker checks topics and numbers itself.
        is_odd = not plan.broker.serves and stream.chance(plan.messages.illegal_chance, "illegal")
        topic_number, queue_id = self.skew.draw_place(stream, plan)
        topic = topic_of_users(topic_number)
        odd_number, is_flawed = None, False
        if is_odd:
            possible = () if plan.messages.equal_sizes else (LONGEST_TOPIC,)
            topic = stream.choice(ILLEGAL_TOPICS + possible, "odd topic")
            numbers = self.streams(f"{stream.name}/odd numbers").with_subject(name)
            if topic in ILLEGAL_TOPICS and numbers.chance(_ODD_NUMBER_CHANCE, "odd number"):
                topic, odd_number = topic_of_users(topic_number), numbers.choice(ILLEGAL_NUMBERS, "which number")
            elif topic in ILLEGAL_TOPICS and numbers.chance(_FLAW_CHANCE, "flaw"):
                topic, is_flawed = topic_of_users(topic_number), True
        elif place is not None:
            topic, queue_id = place
        wait = not stream.chance(plan.messages.no_wait_chance, "no wait")
        about = self.streams(f"{stream.name}/headers").with_subject(name)
        # The hosts in a client's message are those of the connection.
        content = options.draw_header(about, now_ms, one_size=plan.messages.equal_sizes or plan.broker.serves)
        if odd_number is not None:
            content = content._replace(reconsume_times=odd_number)
        is_legal = topic not in ILLEGAL_TOPICS and odd_number is None
        draft = Draft(topic, queue_id, wait, content, is_legal)
        if self.draw_behaviour is not None and stream.chance(plan.transactions.chance, "transaction"):
            draft.behaviour = self.draw_behaviour(stream)
            # The immunity time begins at the born time.
            draft.content = content._replace(born_timestamp_ms=now_ms + self._draw_clock_ahead_ms(stream, name))
            self._draw_message(draft, stream, about, name, self._draw_level_at_commit(stream, name))
            return draft
        longest = draw_longest(about, plan)
        backlog = plan.messages.backlog if name == _FIRST_NAME else 0
        draft.in_batch = backlog > 0 or stream.chance(plan.messages.batch_chance, "batch")
        if is_flawed and not draft.in_batch:
            draft.flaw, longest = numbers.choice(odd_requests.FLAWS, "which flaw"), None
        if draft.in_batch:
            units = backlog or stream.randint(1, BATCH_UNITS_MAX, "units")
            self._draw_batch(draft, stream, about, name, longest, units)
            return draft
        level = options.draw_delay_level(stream, plan, self.skew) if plan.delay.chance else 0
        light_names = options.draw_light_names(stream, plan) if plan.light_queues.chance else ()
        longest = None if level or light_names else longest
        if not level and not light_names and about.chance(plan.messages.unqueued_chance, "unqueued"):
            flag = about.choice((TRANSACTION_PREPARED, TRANSACTION_ROLLBACK), "transaction flag")
            draft.content = draft.content._replace(sys_flag=draft.content.sys_flag | flag)
        self._draw_message(draft, stream, about, name, level, light_names, longest)
        if light_names and not plan.broker.serves:
            forms = self.streams(f"{stream.name}/forms").with_subject(name)
            draft.messages[0].forged = (odd_requests.FORGED_OFFSET,) if self._draw_forged(forms) else ()
        return draft

    def _draw_clock_ahead_ms(self, stream: Stream, name: str) -> int:
        ahead_ms = self.plan.transactions.clock_ahead_ms
        return self.streams(f"{stream.name}/clock").with_subject(name).choice((0, ahead_ms), "ahead") if ahead_ms else 0

    def _draw_level_at_commit(self, stream: Stream, name: str) -> int:
        about, chance = self.streams(f"{stream.name}/commit").with_subject(name), self.plan.transactions.delayed_chance
        return self.skew.level(about, list(DELAYS_MS)) if about.chance(chance, "delayed") else 0

    def _draw_earlier_properties(self, stream: Stream, name: str) -> list[str]:
        about = self.streams(f"{stream.name}/forwarded").with_subject(name)
        is_forwarded = about.chance(self.plan.messages.forwarded_chance, "forwarded")
        return options.draw_earlier_properties(about) if is_forwarded else []

    def _draw_batch(
        self, draft: Draft, stream: Stream, about: Stream, name: str, longest: LongestProperties | None, units: int
    ) -> None:
        plan, log_end, content, is_forged, around = self.plan, self.log_end, draft.content, False, None
        delay = ""
        lengths: list[LongestProperties | None] = [None] * units
        if longest is not None:  # the length must also fit the two bytes of the batch format
            draft.shared = (_SHARED_PROPERTY,)
            lengths[about.randbelow(units, "longest unit")] = longest._replace(by_bytes=True)
        elif not plan.broker.serves and not plan.messages.equal_sizes:
            forms = self.streams(f"{stream.name}/forms").with_subject(name)
            draft.shared = (_SHARED_PROPERTY,) if forms.chance(_FORM_CHANCE, "shared") else ()
            draft.ends_with_separator = forms.chance(_FORM_CHANCE, "separator")
            is_forged = self._draw_forged(forms)
            delays = self.streams(f"{stream.name}/delays").with_subject(name)
            delay = delays.choice(_DELAYS_OF_UNITS, "delay") if delays.chance(_FORM_CHANCE, "has a delay") else ""
            if forms.chance(_BATCH_FLAW_CHANCE, "flaw"):
                draft.flaw = forms.choice(odd_requests.BATCH_FLAWS, "which flaw")
            if plan.messages.limit_bytes and forms.chance(_FORM_CHANCE, "at the limit"):
                around = forms.choice((-1, 0, 1), "around the limit")
        for number, length in enumerate(lengths):
            unit = f"{name}.{number}"
            self._draw_message(draft, stream.with_subject(unit), about.with_subject(unit), unit, longest=length)
            drawn = draft.messages[-1]
            if delay:
                drawn.pieces.append(delay)
            if is_forged:
                drawn.pieces.append(f"INNER_MULTI_DISPATCH\1{options.LIGHT_NAMES[0]}")
                drawn.forged = (odd_requests.FORGED_OFFSET,)
            if self.log_end is not None:
                properties = draft.stored_properties(drawn, unit)
                self.log_end += content.record_bytes(drawn.body, draft.topic, properties)
        self.log_end = log_end
        if around is not None:
            last, other_bytes = draft.messages[-1], len(draft.batch_body(each.name for each in draft.messages))
            last.set_body(max(plan.messages.limit_bytes + around - other_bytes + len(last.body), 0))
        if content is not PLAIN:
            for each in draft.messages[1:]:
                each.content = content._replace(flag=options.draw_flag(about.with_subject(each.name)))

    def _draw_forged(self, forms: Stream) -> bool:
        """Return whether a message has offsets in light queues, as a client has that forwards a message."""
        plan = self.plan
        # A store without light queues keeps the offsets, and would use them after a switch.
        return plan.light_queues.chance > 0 and not plan.starts.switched and forms.chance(_FORM_CHANCE, "forged")

    def _draw_message(
        self,
        draft: Draft,
        stream: Stream,
        about: Stream,
        name: str,
        level: int = 0,
        light_names: tuple[str, ...] = (),
        longest: LongestProperties | None = None,
    ) -> None:
        """Create one message with unique properties.

        about: the stream for header and unusual keys. longest: the required length of the properties, None for any.
        """
        plan = self.plan
        in_backlog = plan.messages.backlog > 0 and name.startswith(f"{_FIRST_NAME}.")
        fixed, body_bytes = plan.messages.equal_sizes or in_backlog, plan.messages.body_bytes_max
        extra_bytes = plan.messages.property_bytes_max
        if extra_bytes and not fixed:
            extra_bytes = stream.randbelow(extra_bytes + 1, "property bytes")
        tags = "TagA" if fixed else stream.choice(TAGS, "tags")
        odd = options.NO_ODDITIES if fixed else options.draw_odd_keys_and_tag(about)
        tags = tags if odd.tags is None else odd.tags
        pieces = [f"TAGS\1{tags}"] if tags else []
        if odd.piece and not (level and odd.piece.startswith("DELAY")):
            pieces.append(odd.piece)
        keys: list[str] = []
        if plan.index.keys_chance and not fixed:
            keys, unique = options.draw_keys(stream, plan, name, self.skew)
            if unique:
                pieces.append(f"UNIQ_KEY\1{unique}")
        if plan.broker.serves and plan.consuming.filtered:
            tier = stream.choice(_TIERS, "tier")
            if tier is not None:
                pieces.append(f"tier\1{tier}")
        if extra_bytes:
            pieces.append(f"extra\1{'p' * extra_bytes}")
        if plan.messages.forwarded_chance and not fixed:
            pieces += self._draw_earlier_properties(stream, name)
        if level:
            pieces.append(f"DELAY\1{options.delay_text(about, level)}")
        if light_names:
            light_list, draft.names_bad_queue = options.draw_light_list(about, plan, light_names)
            pieces.append(f"INNER_MULTI_DISPATCH\1{light_list}")
        all_keys = "".join(f" {word}" for word in (*keys, *odd.words))
        drawn = DrawnMessage(name, tags, all_keys, pieces, draft.content, level, light_names)
        if longest is not None:
            pieces.append(longest.filling_property([drawn.properties(name)], draft.shared))
        if draft.behaviour is not None:
            pieces += draft.behaviour.properties
        if not fixed:
            other_bytes = draft.content.record_bytes(b"", draft.topic, drawn.properties(name, *draft.shared).encode())
            body_bytes = draw_body_bytes(stream, plan, self.log_end, other_bytes)
        drawn.set_body(body_bytes)
        draft.messages.append(drawn)
