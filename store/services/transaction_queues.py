"""Transaction queues as the check reads them: half messages, ops, decisions."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from ..errors import CorruptFileError
from ..formats.half_message import DECIDED_TAG, OP_TOPIC, QUEUE_ID, HalfMessage, whole_number
from ..formats.message import MessageRecord, decode_record
from ..formats.messages import GetMessageStatus
from ..formats.properties import PROPERTY_TAGS, decode_properties
from ..message_store import MessageStore
from ..world import World

_PULL_MESSAGES_MAX = 32  # as RocketMQ's TransactionalMessageBridge.getOpMessage is called
_NOTHING_NEW = (GetMessageStatus.NO_MESSAGE_IN_QUEUE, GetMessageStatus.OFFSET_OVERFLOW_ONE)

_SEPARATOR = ","
"""Between the queue offsets of an op message of RocketMQ 5."""


class PulledPlace(NamedTuple):
    """One place in a queue. All places before it were returned or do not exist."""

    offset: int
    record: MessageRecord | None
    """None: the message is corrupt or no longer exists."""


def pull_from(store: MessageStore, topic: str, begin: int, end: int) -> Iterator[PulledPlace]:
    """Yield the places of a queue between two queue offsets, or up to the end of the queue.

    A queue can skip offsets, and the answer to a pull does not count those. It can therefore reach beyond `end`; the
    check would then read records that it has just put back, and miss their decisions. Such records are left out.

    A pull that points backwards, such as one beyond the queue's end, ends the iteration. The caller handles that case.
    """
    offset = begin
    while offset < end:
        pulled = store.get_message(topic, QUEUE_ID, offset, min(_PULL_MESSAGES_MAX, end - offset))
        following = min(pulled.next_begin_offset, end)
        if pulled.status in _NOTHING_NEW or following <= offset:
            return
        places = pulled.queue_offsets, pulled.physical_offsets, pulled.records
        for at, physical_offset, raw in zip(*places, strict=True):
            assert at >= offset, (at, offset)
            if at >= end:
                break
            yield PulledPlace(at, _decoded(raw, physical_offset))
            offset = at + 1
        if offset < following:
            yield PulledPlace(following - 1, None)
            offset = following


def _decoded(raw: bytes, physical_offset: int) -> MessageRecord | None:
    try:
        return decode_record(raw, 0, file="commitlog", file_offset=physical_offset)
    except CorruptFileError:
        return None


class OpQueue:
    """The ops from a queue offset on. Not thread-safe."""

    def __init__(self, store: MessageStore, begin: int) -> None:
        self._store = store
        self._begin = begin
        self._ops: dict[int, tuple[int, ...]] = {}
        """Queue offset of an op -> half messages that it decided, for ops that are still needed."""
        self._decided: set[int] = set()
        self._read_to = begin

    @property
    def needed_from(self) -> int:
        """Return the queue offset of the first op that a later life needs."""
        return min(self._ops, default=self._read_to)

    def is_decided(self, half: HalfMessage) -> bool:
        """Return whether an op decided a half message under any of its offsets."""
        return any(offset in self._decided for offset in half.offsets)

    def read(self) -> None:
        """Read all new ops."""
        end = self._store.get_max_offset_in_queue(OP_TOPIC, QUEUE_ID)
        if self._read_to > end:  # the queue was truncated or has begun anew; reading an op twice is harmless
            self._read_to = max(self._store.get_min_offset_in_queue(OP_TOPIC, QUEUE_ID), 0)
        for at, record in pull_from(self._store, OP_TOPIC, self._read_to, end):
            assert at >= self._read_to, (at, self._read_to)
            self._read_to = at + 1
            if record is None or decode_properties(record.properties).get(PROPERTY_TAGS) != DECIDED_TAG:
                continue
            texts = record.body.decode(errors="replace").split(_SEPARATOR)
            halves = tuple(number for number in map(whole_number, texts) if number is not None)
            if halves:
                self._ops[at] = halves
                self._decided.update(halves)

    def forget(self, is_settled: Callable[[int], bool]) -> None:
        """Drop ops whose half messages are all settled: no later check can find them."""
        self._ops = {at: halves for at, halves in self._ops.items() if not all(map(is_settled, halves))}
        self._decided = {half for halves in self._ops.values() for half in halves}


_IN_FLIGHT = -1
_OWED = -2


class Decisions:
    """Decisions and put-backs of this life. Some methods require `lock`, as a comment below says."""

    def __init__(self, world: World) -> None:
        self.lock = world.tasks.lock("transactions")
        """While it is held, a half message can be put back, and no producer can decide it."""
        self._ops: dict[int, int] = {}
        """Half offset -> queue offset of its op, or why there is none, until the op can be pulled."""
        self._put_back: dict[int, int] = {}
        """First offset -> newest offset, until the check has passed it."""
        self._decided: set[int] = set()
        """First offsets of decided half messages; those of this life until the check has passed them."""
        self._given_up: set[int] = set()
        """First offsets of half messages that were given up and are still undecided."""
        self._passed = range(0)
        """First offsets that the check has passed, apart from those in `_put_back` and `_given_up`."""

    def begin(self, half: HalfMessage, visible_ops: int) -> bool:
        """Claim a half message for a decision. Return False if it is decided or claimed.

        `visible_ops` is the end of the op queue.
        """
        with self.lock:
            self._prune(visible_ops)
            if self._is_past(half.first_offset):
                return False
            if half.first_offset in self._decided or any(offset in self._ops for offset in half.offsets):
                return False
            self._ops |= dict.fromkeys(half.offsets, _IN_FLIGHT)
            return True

    def _is_past(self, first_offset: int) -> bool:
        """Return whether the check has passed the decision on a half message of this life and forgotten it."""
        is_kept = first_offset in self._put_back or first_offset in self._given_up
        return first_offset in self._passed and not is_kept

    def _prune(self, visible_ops: int) -> None:
        while self._ops:
            half_offset, op_offset = next(iter(self._ops.items()))
            if not 0 <= op_offset < visible_ops:
                return  # in flight, owed, or not dispatched: the op cannot be pulled yet
            del self._ops[half_offset]

    def abandon(self, half: HalfMessage) -> None:
        """Release a claim without a decision."""
        with self.lock:
            for offset in half.offsets:
                self._ops.pop(offset, None)

    def conclude(self, half: HalfMessage, ops: Mapping[int, int | None]) -> None:
        """Record a decision. `ops` maps half offsets to queue offsets of ops; None: not stored."""
        with self.lock:
            for half_offset, op_offset in ops.items():
                assert op_offset is None or op_offset >= 0, (half_offset, op_offset)
                self._ops[half_offset] = _OWED if op_offset is None else op_offset
            self._decided.add(half.first_offset)
            self._given_up.discard(half.first_offset)

    def op_stored(self, half_offset: int, op_offset: int) -> None:
        """Record that an owed op was stored."""
        assert op_offset >= 0, op_offset
        with self.lock:
            self._ops[half_offset] = op_offset

    def owed(self) -> list[int]:
        """Return the decided half messages whose op is not in the log."""
        with self.lock:
            return [half_offset for half_offset, op_offset in self._ops.items() if op_offset == _OWED]

    def clear(self) -> None:
        """Forget everything, because the half queue has begun anew and reuses its offsets."""
        with self.lock:
            self._ops.clear()
            self._put_back.clear()
            self._decided.clear()
            self._given_up.clear()
            self._passed = range(0)

    # -- with the lock held ------------------------------------------------------------------------

    def is_hidden(self, half: HalfMessage, visible_ops: int) -> bool:
        """Return whether a half message is decided or claimed while its op cannot be pulled yet."""
        ops = [self._ops[offset] for offset in half.offsets if offset in self._ops]
        return any(not 0 <= op_offset < visible_ops for op_offset in ops)

    def was_put_back(self, half: HalfMessage, offset: int) -> None:
        """Record that a half message has a further queue offset."""
        self._put_back[half.first_offset] = offset

    def was_passed(self, half: HalfMessage) -> None:
        """Record that the check has passed a half message."""
        if self._put_back.get(half.first_offset) == half.record.queue_offset:
            del self._put_back[half.first_offset]

    def is_put_back(self, first_offset: int) -> bool:
        """Return whether a half message may come up again."""
        return first_offset in self._put_back

    def was_given_up(self, half: HalfMessage) -> None:
        self._given_up.add(half.first_offset)

    def is_given_up(self, first_offset: int) -> bool:
        """Return whether a half message may be undecided without a record ahead of the check."""
        is_decided = self._is_past(first_offset) or first_offset in self._decided or first_offset in self._ops
        return not is_decided and first_offset not in self._put_back

    def was_resumed(self, half: HalfMessage) -> None:
        """Record that a half message was resumed, as the given record."""
        self._given_up.discard(half.first_offset)
        if half.first_offset != half.record.queue_offset:
            self._put_back[half.first_offset] = half.record.queue_offset

    def forget(self, is_settled: Callable[[int], bool], passed: range) -> None:
        """Drop decisions on half messages that the check cannot find again.

        `passed` are the first offsets of this life that the check has passed, apart from those put back or given up.
        Earlier offsets belong to earlier lives, whose decisions no range describes, so they are kept.
        """
        self._passed = passed
        self._decided = {first for first in self._decided if first not in passed or not is_settled(first)}
