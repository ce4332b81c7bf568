"""Message options: chooses header, delay, light queues and shared keys of a message at random.

Half of the messages are plain. The others have flags, times, and IPv4 or IPv6 hosts. All fields have different values,
so the oracle notices a dropped, swapped or truncated field. Some keys and tags have unusual spaces and characters.
Hosts are IPv4 if all records of a run have one size.

A delayed message is a put with a DELAY property. The ledger also records its queue and time during the delay, and the
size of the record, to which the store adds the target topic and queue.

A message may also enter light queues, which all producers share: two with one queue for all queue ids, one with a queue
for each id, and one that is a topic with its own messages.

Each message has its name as a key. Some messages share more keys: two with the same hash, a long one, one that is not
ASCII, and a UNIQ_KEY, which a retry uses twice. Searchers look up random keys, some of which no message has.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from ...faults.disk.disk import Disk
from ...sim.choices import Stream
from ...store.errors import StoreNotReadableError
from ...store.formats.delay_level import SCHEDULE_TOPIC
from ...store.formats.host import Host
from ...store.formats.messages import Message
from ...store.message_store import MessageStore
from ..claims.machine import DELAYS_MS
from ..claims.plan import Plan
from ..oracle import allowances
from ..oracle.evidence import Violation
from ..oracle.invariants import idx
from ..oracle.ledger import CHECK_PROPERTIES, HALF_TOPIC, LIGHT_OFFSETS, Ledger, replaced_properties
from ..oracle.light_places import LIGHT_PREFIX, QueueKey, light_queue
from ..oracle.put_entry import PLAIN, PutContent, PutEntry, WaitingPlace
from .skew import Skew

_PATIENCE_MS_MAX = (1, 1_500, 4_000, max(DELAYS_MS.values()) + 2_000)

LIGHT_NAMES = (f"{LIGHT_PREFIX}L0", f"{LIGHT_PREFIX}L1", "M0", "T0")
_LIGHT_QUEUES_MAX = 3
_ODD_LIST_CHANCE = 0.15
_OFFSET_DIGITS_MAX = 19
_NO_WAIT = b"\2WAIT\1false"
_READS_CHANCE = 0.6

SHARED_KEYS = ("AaAa", "BBBB", "AaBB", "order-1", "k" * 150, "schlüssel")
"""The first three keys have the same hash in every topic."""
UNIQUE_KEYS = ("C0A80001", "C0A80002")
_KEYS_MAX = 3
_AGO_MS_MAX = 5_000
_PAUSE_CHANCE = 0.7
_SHARED_CHANCE = 0.4
_WINDOW_CHANCE = 0.3
_UNKNOWN_KEYS = ("", "\ud800")
"""Keys that no message has: the empty one, and a lone surrogate, which no encoding has."""
_ASKED_MAX = (*(idx.ANSWERS_MAX,) * 4, 0, 1, 3, 1_000)
"""The store returns at most `idx.ANSWERS_MAX` messages, whatever the limit of a request."""
_LATEST_PUTS = 16
_AROUND_MS = (-1_000, -999, -1, 0, 1, 999, 1_000)
"""How far a window begins or ends from a message's store time. Index entries have whole seconds."""


# -- headers ---------------------------------------------------------------------------------------

_VARIED_CHANCE = 0.5
_TOO_HIGH_CHANCE = 0.3
_ODD_CHANCE = 0.3
_FLAGS = (0, 1, 7, -1, 0x7FFF_FFFF, -0x8000_0000)
_BORN_MS_AGO = (0, 1, 3_600_000, -86_400_000)
"""How many ms a client's clock is late."""
_HOSTS = ((bytes((192, 0, 2, 7)), 40_001), (bytes((198, 51, 100, 250)), 65_535))
_HOSTS_V6 = (
    (bytes.fromhex("20010db8000100020003000400050006"), 40_006),
    (bytes.fromhex("fe80000000000000a00b0c0d0e0f1011"), 1),
)
_RECONSUME_TIMES = (0, 1, 3, 16)
_SYS_FLAGS = (0, 0x1, 0x2, 0x3, 0x201)
"""Compression, its kind, and multiple tags. A store ignores these flags."""
_WORDS = (
    *("two  words", " leading", "trailing "),
    *("\N{OLD ITALIC LETTER A}\N{GRINNING FACE}", "naïve", "tab\tbed", "名前"),
)
_PIECES = ("", "OLDTAGS\1TagB", "MYDELAY\0011", "DELAY\0010", "DELAY\1-1")
_SPACED = ("TagA\u3000", "\u00a0TagB")
_TAGS = ("\N{GRINNING FACE}", " TagA", "TagA ", "Étiquette", "taga", "Tag A", "polygenelubricants", "标签", *_SPACED)
"""Some subscriptions name a tag in `_SPACED` or one of the two with a negative hash, `Étiquette` and
`polygenelubricants`.
"""


class OddKeysAndTag(NamedTuple):
    """The unusual keys and tag of one message."""

    words: tuple[str, ...] = ()
    """The text in KEYS, with additional spaces."""
    tags: str | None = None
    """Replaces the random tag unless None."""
    piece: str = ""
    """A property whose name ends like that of another, an empty one, or a level without a delay. Empty: none."""


NO_ODDITIES = OddKeysAndTag()


def draw_header(stream: Stream, now_ms: int, *, one_size: bool) -> PutContent:
    if not stream.chance(_VARIED_CHANCE, "header"):
        return PLAIN
    hosts = _HOSTS if one_size else _HOSTS + _HOSTS_V6
    return PutContent(
        draw_flag(stream),
        now_ms - stream.choice(_BORN_MS_AGO, "born ms ago"),
        stream.choice(hosts, "born host"),
        stream.choice(hosts, "store host"),
        stream.choice(_RECONSUME_TIMES, "reconsume times"),
        stream.choice(_SYS_FLAGS, "sysFlag"),
    )


def draw_flag(stream: Stream) -> int:
    return stream.choice(_FLAGS, "flag")


def draw_odd_keys_and_tag(stream: Stream) -> OddKeysAndTag:
    if not stream.chance(_ODD_CHANCE, "odd"):
        return NO_ODDITIES
    words = tuple(stream.choice(_WORDS, "word") for _ in range(stream.randbelow(3, "words")))
    return OddKeysAndTag(words, stream.choice((None, *_TAGS), "odd tag"), stream.choice(_PIECES, "odd property"))


def message_of(
    topic: str, body: bytes, queue_id: int, properties: str, content: PutContent, *, wait: bool, sys_flag: int = 0
) -> Message:
    return Message(
        topic,
        body,
        queue_id,
        properties,
        content.flag,
        content.sys_flag | sys_flag,
        content.born_timestamp_ms,
        _draw_host(content.born_host),
        _draw_host(content.store_host),
        content.reconsume_times,
        wait_store_ok=wait,
    )


@lru_cache(maxsize=1024)
def _draw_host(host: tuple[bytes, int]) -> Host:
    return Host(*host)


# -- delays ----------------------------------------------------------------------------------------


def draw_delay_level(stream: Stream, plan: Plan, skew: Skew) -> int:
    """Return the delay level of a message, 0 for no delay."""
    if not stream.chance(plan.delay.chance, "delayed"):
        return 0
    return skew.level(stream, list(DELAYS_MS))


def delay_text(stream: Stream, level: int) -> str:
    """Return a value of DELAY for a level. The store reduces a greater number to its highest level."""
    return "9" if level == max(DELAYS_MS) and stream.chance(_TOO_HIGH_CHANCE, "too high") else str(level)


def set_delay_level(put: PutEntry, level: int) -> None:
    set_waiting_place(put, place_of_level(level))


def place_of_level(level: int) -> WaitingPlace:
    return WaitingPlace((SCHEDULE_TOPIC, level - 1), DELAYS_MS[level])


def set_waiting_place(put: PutEntry, waiting: WaitingPlace) -> None:
    """Set the queue in which a message waits, and the size of its record there."""
    put.waiting_place = waiting
    put.wrote_bytes = put.content.record_bytes(
        put.body, waiting.place[0], _kept_properties(put) + _target_properties(put)
    )


def _target_properties(put: PutEntry) -> bytes:
    """Return the properties that the store adds to a redirected message."""
    return f"\2REAL_TOPIC\1{put.topic}\2REAL_QID\1{put.queue_id}".encode() + (b"" if put.wait else _NO_WAIT)


def _kept_properties(put: PutEntry) -> bytes:
    """Return the properties that the store keeps while a message waits."""
    replaced = tuple(f"{name}\1".encode() for name in replaced_properties(put))
    return b"\2".join(piece for piece in put.properties.split(b"\2") if not piece.startswith(replaced))


def draw_wait_ms(stream: Stream) -> int:
    """Return a time that is long enough for every level, for some levels, or for none."""
    return stream.randint(1, stream.choice(_PATIENCE_MS_MAX, "patience"), "patience ms")


# -- forwarded messages ----------------------------------------------------------------------------

_EARLIER_TOPICS = ("T0", "T7", HALF_TOPIC)
_EARLIER_NUMBERS = (0, 1, 2, 3)


def draw_earlier_properties(stream: Stream) -> list[str]:
    """Return properties that a store added to an earlier message: of a delay, of a transaction, or of both."""
    delayed = (("REAL_TOPIC", stream.choice(_EARLIER_TOPICS, "earlier topic")), ("REAL_QID", 1))
    checked = tuple((name, stream.choice(_EARLIER_NUMBERS, f"earlier {name}")) for name in CHECK_PROPERTIES)
    return [f"{name}\1{value}" for name, value in stream.choice((delayed, checked, delayed + checked), "earlier kind")]


# -- light queues ----------------------------------------------------------------------------------


def draw_light_names(stream: Stream, plan: Plan) -> tuple[str, ...]:
    """Return the names of light queues, usually none. One queue may be named twice."""
    if not stream.chance(plan.light_queues.chance, "light"):
        return ()
    count = stream.randint(1, _LIGHT_QUEUES_MAX, "light queues")
    # Clients of a broker expect only messages of their topic in its queues. A store that switches light queues off
    # knows existing ones by their prefix.
    only_prefixed = plan.broker.serves or plan.starts.switched
    names = [name for name in LIGHT_NAMES if name.startswith(LIGHT_PREFIX) or not only_prefixed]
    return tuple(stream.choice(names, "light queue") for _ in range(count))


def draw_light_list(stream: Stream, plan: Plan, names: tuple[str, ...]) -> tuple[str, bool]:
    """Return the text that names light queues, and whether a store refuses the message because of it."""
    text = ",".join(names)
    if not stream.chance(_ODD_LIST_CHANCE, "odd list"):
        return text, False
    # A store that switches light queues off does not read the text.
    ends = (",", ",,") if plan.starts.switched else (",", ",,", ",,M0", ",no/queue", f",{'n' * 256}")
    end = stream.choice(ends, "end of the list")
    return text + end, end.strip(",") != ""


def longest_record_bytes(put: PutEntry) -> int:
    """Return the largest possible size of a put's record or of its delivered copy.

    Offsets in light queues are unknown before the put, so they count with their maximum length.
    """
    if put.waiting_place is None and not put.light_names:
        return put.record_bytes
    added = b""
    if put.light_names:
        added += f"\2{LIGHT_OFFSETS}\1".encode() + b",".join(b"9" * _OFFSET_DIGITS_MAX for _ in put.light_names)
    if put.waiting_place is None:
        return put.content.record_bytes(put.body, put.topic, put.properties + added)
    goes_to = _target_properties(put)
    if put.light_names:
        goes_to = goes_to.removesuffix(_NO_WAIT)  # the store drops WAIT when it rewrites properties with offsets
    # The put's topic may be longer than the topic in which the record waits. The waiting record contains it twice.
    due = put.content.record_bytes(put.body, put.topic, _kept_properties(put) + added + goes_to)
    return max(due, put.record_bytes)


def draw_queue(stream: Stream, plan: Plan, own: QueueKey) -> QueueKey:
    if not plan.light_queues.chance or not stream.chance(_READS_CHANCE, "reads light"):
        return own
    return light_queue(stream.choice(LIGHT_NAMES, "light queue"), own[1])


# -- keys ------------------------------------------------------------------------------------------


def draw_keys(stream: Stream, plan: Plan, name: str, skew: Skew) -> tuple[list[str], str]:
    """Choose additional keys of a message, and its UNIQ_KEY; an empty text means no key."""
    if not stream.chance(plan.index.keys_chance, "more keys"):
        return [], ""
    count = stream.randbelow(_KEYS_MAX + 1, "shared keys")
    shared = [skew.key(stream, SHARED_KEYS) for _ in range(count)]
    return shared, stream.choice(("", name, *UNIQUE_KEYS), "unique key")


@dataclass(slots=True, eq=False)
class StoreUser:
    """A user of a store between a start and a stop. It reports wrong answers of the store."""

    plan: Plan
    store: MessageStore
    disk: Disk
    ledger: Ledger
    report: Callable[[Iterable[Violation]], None]

    @property
    def shared_fields(self) -> tuple[Plan, MessageStore, Disk, Ledger, Callable[[Iterable[Violation]], None]]:
        """The fields of all users of this store."""
        return self.plan, self.store, self.disk, self.ledger, self.report


@dataclass(slots=True, eq=False)
class KeySearcher(StoreUser):
    """A user that looks up as many messages as a producer puts, and checks the answers."""

    life: int
    stream: Stream

    def search_repeatedly(self, messages_each: int) -> None:
        for _ in range(messages_each):
            try:
                self.search_once(messages_each)
            except StoreNotReadableError:
                return

    def search_once(self, messages_each: int) -> None:
        """messages_each: message names per producer. Raises StoreNotReadableError."""
        plan, store, stream = self.plan, self.store, self.stream
        topic = f"T{stream.randbelow(plan.topics, 'topic')}"
        key = self._draw_key(messages_each)
        asked_max = stream.choice(_ASKED_MAX, "asked messages")
        if stream.chance(_PAUSE_CHANCE, "pause"):
            store.world.tasks.sleep(stream.randint(1, plan.pauses.ms_max, "pause ms"))
        window_ms = self._draw_window()
        dispatched_to = store.dispatch.reput_from.get()
        try:
            with self.disk.with_page_ins():
                result = store.query_message(topic, key, asked_max, *window_ms)
        except OSError:
            if not allowances.count_errors(self.disk):
                raise
            return
        # No checksum covers store times.
        has_other_times = self.ledger.tears or plan.rot.is_possible
        may_miss = allowances.has_reverted_data(self.disk) or (has_other_times and window_ms != idx.ALWAYS_MS)
        most = min(asked_max, idx.ANSWERS_MAX)
        self.report(
            idx.check_lookup_answer(
                store, self.ledger, (topic, key), window_ms, result, dispatched_to, may_miss=may_miss, most=most
            )
        )

    def _draw_key(self, messages_each: int) -> str:
        """Choose a shared key, or a message name from before or after the last start."""
        stream = self.stream
        if stream.chance(_SHARED_CHANCE, "shared"):
            return stream.choice((*SHARED_KEYS, *UNIQUE_KEYS, *_UNKNOWN_KEYS), "shared key")
        life, count = stream.randbelow(self.life + 1, "life"), stream.randbelow(messages_each, "message")
        return f"m{life}.{stream.randbelow(self.plan.producers, 'producer')}.{count}"

    def _draw_window(self) -> tuple[int, int]:
        """Choose the time window of a query: all times, two ages, or around the store time of a message."""
        stream = self.stream
        if not stream.chance(_WINDOW_CHANCE, "window"):
            return idx.ALWAYS_MS
        begin_ms = stream.randbelow(_AGO_MS_MAX, "begins ms ago")
        end_ms = stream.randbelow(begin_ms + 1, "ends ms ago")
        about_ms, times = self.store.world.clock.now_ms(), [put.stored_ms for put in self.ledger.puts]
        stored_ms = stream.choice(times[-_LATEST_PUTS:], "message") if times else None
        if stored_ms is not None and stream.chance(0.5, "around a message"):
            about_ms = stored_ms
            end_ms, begin_ms = sorted(stream.choice(_AROUND_MS, "ms before it") for _ in range(2))
        return about_ms - begin_ms, about_ms - end_ms
