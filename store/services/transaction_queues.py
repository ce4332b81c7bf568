"""Transaction queues: readers of half and op messages, and a table of decisions."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from ..errors import CorruptFileError
from ..formats.half_message import DECIDED_TAG, OP_TOPIC, QUEUE_ID, HalfMessage, parse_non_negative
from ..formats.message import MessageRecord, decode_record
from ..formats.messages import GetMessageStatus
from ..formats.properties import PROPERTY_TAGS, decode_properties
from ..message_store import MessageStore
from ..world import World

_PULL_MESSAGES_MAX = 32  # as in RocketMQ's calls of TransactionalMessageBridge.getOpMessage
_NOTHING_NEW = (GetMessageStatus.NO_MESSAGE_IN_QUEUE, GetMessageStatus.OFFSET_OVERFLOW_ONE)

_SEPARATOR = ","
"""An op message of RocketMQ 5 separates queue offsets with a comma."""


class PulledMessage(NamedTuple):
    """A queue offset and its message. The iterator yields existing offsets in increasing order."""

    offset: int
    record: MessageRecord | None
    """None if the message is corrupt or no longer exists."""


def pull_from(store: MessageStore, topic: str, begin: int, end: int) -> Iterator[PulledMessage]:
    """Yield the messages of a queue from `begin` to `end`, or to the end of the queue.

    A queue can skip offsets, so a pull can return messages after `end`. The iterator does not yield these: the check
    has just put them back, and cannot know their decisions yet.

    If a pull makes no progress, the iteration ends early.
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
            yield PulledMessage(at, _decode_record(raw, physical_offset))
            offset = at + 1
        if offset < following:
            yield PulledMessage(following - 1, None)
            offset = following


def _decode_record(raw: bytes, physical_offset: int) -> MessageRecord | None:
    try:
        return decode_record(raw, 0, file="commitlog", file_offset=physical_offset)
    except CorruptFileError:
        return None


class OpQueue:
    """Decisions read from the op queue. Not thread-safe."""

    def __init__(self, store: MessageStore, begin: int) -> None:
        self._store = store
        self._begin = begin
        self._ops: dict[int, tuple[int, ...]] = {}
        """Queue offset of each needed op message -> queue offsets of the half messages that the op decides."""
        self._decided: set[int] = set()
        self._read_to = begin

    @property
    def first_needed_offset(self) -> int:
        """Queue offset at which the check reads the op queue after a restart."""
        return min(self._ops, default=self._read_to)

    def is_decided(self, half: HalfMessage) -> bool:
        return any(offset in self._decided for offset in half.offsets)

    def read(self) -> None:
        end = self._store.get_max_offset_in_queue(OP_TOPIC, QUEUE_ID)
        if self._read_to > end:  # after a truncation or re-creation of the queue; reading an op twice is harmless
            self._read_to = max(self._store.get_min_offset_in_queue(OP_TOPIC, QUEUE_ID), 0)
        for at, record in pull_from(self._store, OP_TOPIC, self._read_to, end):
            assert at >= self._read_to, (at, self._read_to)
            self._read_to = at + 1
            if record is None or decode_properties(record.properties).get(PROPERTY_TAGS) != DECIDED_TAG:
                continue
            texts = record.body.decode(errors="replace").split(_SEPARATOR)
            halves = tuple(number for number in map(parse_non_negative, texts) if number is not None)
            if halves:
                self._ops[at] = halves
                self._decided.update(halves)

    def forget_settled(self, is_settled: Callable[[int], bool]) -> None:
        """Drop each op if the check cannot reach its half messages again."""
        self._ops = {at: halves for at, halves in self._ops.items() if not all(map(is_settled, halves))}
        self._decided = {half for halves in self._ops.values() for half in halves}


_IN_FLIGHT = -1
_MISSING = -2


class TransactionDecisions:
    """Half messages that were decided, put back or given up in this process run."""

    def __init__(self, world: World) -> None:
        self.lock = world.tasks.lock("transactions")
        """The check holds this lock while it puts a half message back, so that no producer can decide it."""
        self._ops: dict[int, int] = {}
        """Half offset -> queue offset of an op that a pull cannot return yet, _IN_FLIGHT or _MISSING."""
        self._put_back: dict[int, int] = {}
        """First offset of a half message -> offset of its newest copy, if the check has not passed this copy."""
        self._decided: set[int] = set()
        """First offsets of decided half messages. Offsets in `_passed` are removed."""
        self._given_up: set[int] = set()
        """First offsets of given-up half messages without a decision."""
        self._passed = range(0)
        """First offsets that the check has passed, except those in `_put_back` and `_given_up`."""

    def claim_half_message(self, half: HalfMessage, visible_ops: int) -> bool:
        """Reserve a half message for a decision. Return False if it is already decided or reserved.

        `visible_ops` is the end offset of the op queue.
        """
        with self.lock:
            self._drop_visible(visible_ops)
            if self._was_decided_and_passed(half.first_offset):
                return False
            if half.first_offset in self._decided or any(offset in self._ops for offset in half.offsets):
                return False
            self._ops |= dict.fromkeys(half.offsets, _IN_FLIGHT)
            return True

    def _was_decided_and_passed(self, first_offset: int) -> bool:
        is_kept = first_offset in self._put_back or first_offset in self._given_up
        return first_offset in self._passed and not is_kept

    def _drop_visible(self, visible_ops: int) -> None:
        while self._ops:
            half_offset, op_offset = next(iter(self._ops.items()))
            if not 0 <= op_offset < visible_ops:
                return  # a pull cannot return this op: it is in flight, not stored or not dispatched
            del self._ops[half_offset]

    def release_claim(self, half: HalfMessage) -> None:
        with self.lock:
            for offset in half.offsets:
                self._ops.pop(offset, None)

    def record_decision(self, half: HalfMessage, ops: Mapping[int, int | None]) -> None:
        """`ops` maps half offsets to queue offsets of ops, or to None if the op is not stored."""
        with self.lock:
            for half_offset, op_offset in ops.items():
                assert op_offset is None or op_offset >= 0, (half_offset, op_offset)
                self._ops[half_offset] = _MISSING if op_offset is None else op_offset
            self._decided.add(half.first_offset)
            self._given_up.discard(half.first_offset)

    def record_op_stored(self, half_offset: int, op_offset: int) -> None:
        assert op_offset >= 0, op_offset
        with self.lock:
            self._ops[half_offset] = op_offset

    def decisions_without_op(self) -> list[int]:
        with self.lock:
            return [half_offset for half_offset, op_offset in self._ops.items() if op_offset == _MISSING]

    def clear(self) -> None:
        """Forget all half messages, because the half queue was created again and reuses its offsets."""
        with self.lock:
            self._ops.clear()
            self._put_back.clear()
            self._decided.clear()
            self._given_up.clear()
            self._passed = range(0)

    # -- with the lock held ------------------------------------------------------------------------

    def is_hidden(self, half: HalfMessage, visible_ops: int) -> bool:
        """Return whether a half message is decided or reserved, but a pull cannot return its op yet."""
        ops = [self._ops[offset] for offset in half.offsets if offset in self._ops]
        return any(not 0 <= op_offset < visible_ops for op_offset in ops)

    def record_put_back(self, half: HalfMessage, offset: int) -> None:
        self._put_back[half.first_offset] = offset

    def record_passed(self, half: HalfMessage) -> None:
        if self._put_back.get(half.first_offset) == half.record.queue_offset:
            del self._put_back[half.first_offset]

    def is_put_back(self, first_offset: int) -> bool:
        """Return whether the newest copy is still ahead of the check."""
        return first_offset in self._put_back

    def record_given_up(self, half: HalfMessage) -> None:
        self._given_up.add(half.first_offset)

    def is_given_up(self, first_offset: int) -> bool:
        """Return whether no copy is ahead of the check and no decision is known."""
        is_decided = (
            self._was_decided_and_passed(first_offset) or first_offset in self._decided or first_offset in self._ops
        )
        return not is_decided and first_offset not in self._put_back

    def record_resumed(self, half: HalfMessage) -> None:
        """Record the new copy of a half message after an operator resumed its checks."""
        self._given_up.discard(half.first_offset)
        if half.first_offset != half.record.queue_offset:
            self._put_back[half.first_offset] = half.record.queue_offset

    def forget_settled(self, is_settled: Callable[[int], bool], passed: range) -> None:
        """Drop decisions about half messages that the check cannot reach again.

        `passed` contains the offsets of this process run that the check has passed. Decisions about older half messages
        stay, because no range describes their first offsets.
        """
        self._passed = passed
        self._decided = {first for first in self._decided if first not in passed or not is_settled(first)}
