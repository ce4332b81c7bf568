"""Transaction queues as the check reads them: half messages in order, and which of them an op has decided."""

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
    """One place in a queue; everything before it was pulled too, or is gone."""

    offset: int
    record: MessageRecord | None
    """None: nothing is to be had here any more, or it is damaged."""


def pull_from(store: MessageStore, topic: str, begin: int, end: int) -> Iterator[PulledPlace]:
    """Yield what a queue holds between two queue offsets; less if the queue ends before.

    Numbers that the queue skips take no place among the messages of an answer, which then reach beyond the end: the
    check would come upon what it has put back itself, and forget in one pass who had decided it.

    An answer that points back, as one beyond the queue's end does, ends it: that is for the caller to think about.
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
    """The ops from a queue offset on. One task at a time calls it."""

    def __init__(self, store: MessageStore, begin: int) -> None:
        self._store = store
        self._begin = begin
        self._ops: dict[int, tuple[int, ...]] = {}
        """Half messages by the queue offset of the op that decided them, of ops still needed."""
        self._decided: set[int] = set()
        self._read_to = begin

    @property
    def needed_from(self) -> int:
        """Return the queue offset of the first op that a later life needs."""
        return min(self._ops, default=self._read_to)

    def is_decided(self, half: HalfMessage) -> bool:
        """Return whether an op that was read decided a half message, under any of its offsets."""
        return any(offset in self._decided for offset in half.offsets)

    def read(self) -> None:
        """Read all ops there are now. At the end of the queue there is nothing to read, and that is all it means."""
        end = self._store.get_max_offset_in_queue(OP_TOPIC, QUEUE_ID)
        if self._read_to > end:  # the queue lost its end, or began anew: to read an op twice does no harm
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
        """Drop ops whose half messages are all settled: no later check can come upon them again."""
        self._ops = {at: halves for at, halves in self._ops.items() if not all(map(is_settled, halves))}
        self._decided = {half for halves in self._ops.values() for half in halves}


_IN_FLIGHT = -1
_OWED = -2


class Decisions:
    """Decisions made and half messages put back in this life. Methods that say so are called with `lock` held."""

    def __init__(self, world: World) -> None:
        self.lock = world.tasks.lock("transactions")
        """Whoever holds it can put a half message back, and nobody decides it meanwhile."""
        self._ops: dict[int, int] = {}
        """Half offset -> queue offset of its op, or why there is none, until the op can be pulled."""
        self._put_back: dict[int, int] = {}
        """First offset -> newest one, until the check is done with it."""
        self._decided: set[int] = set()
        """First offsets of what was decided; of half messages of this life, until the check has passed them."""
        self._given_up: set[int] = set()
        """First offsets of what the check has passed undecided, and nobody has decided since."""
        self._passed = range(0)
        """First offsets of what the check is done with, but for what was put back or given up."""

    def begin(self, half: HalfMessage, visible_ops: int) -> bool:
        """Claim the right to decide; False if that is known to have happened, or is happening.

        visible_ops: the end of the op queue.
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
        """Return whether the check has come upon the decision about a half message of this life, and forgotten it."""
        is_kept = first_offset in self._put_back or first_offset in self._given_up
        return first_offset in self._passed and not is_kept

    def _prune(self, visible_ops: int) -> None:
        """Forget the oldest decisions as far as everyone can see their ops."""
        while self._ops:
            half_offset, op_offset = next(iter(self._ops.items()))
            if not 0 <= op_offset < visible_ops:
                return  # in flight, owed, or not dispatched: the op cannot be pulled yet
            del self._ops[half_offset]

    def abandon(self, half: HalfMessage) -> None:
        """Give the right back: nothing was decided."""
        with self.lock:
            for offset in half.offsets:
                self._ops.pop(offset, None)

    def conclude(self, half: HalfMessage, ops: Mapping[int, int | None]) -> None:
        """Note that a half message is decided. ops: half offset -> queue offset of its op, None if it is not stored."""
        with self.lock:
            for half_offset, op_offset in ops.items():
                assert op_offset is None or op_offset >= 0, (half_offset, op_offset)
                self._ops[half_offset] = _OWED if op_offset is None else op_offset
            self._decided.add(half.first_offset)
            self._given_up.discard(half.first_offset)

    def op_stored(self, half_offset: int, op_offset: int) -> None:
        """Note that an op that was owed is in the log."""
        assert op_offset >= 0, op_offset
        with self.lock:
            self._ops[half_offset] = op_offset

    def owed(self) -> list[int]:
        """Return the decided half messages whose op is not in the log."""
        with self.lock:
            return [half_offset for half_offset, op_offset in self._ops.items() if op_offset == _OWED]

    def clear(self) -> None:
        """Forget everything: the half queue counts from 0 again, and the offsets would be those of others."""
        with self.lock:
            self._ops.clear()
            self._put_back.clear()
            self._decided.clear()
            self._given_up.clear()
            self._passed = range(0)

    # -- with the lock held ------------------------------------------------------------------------

    def is_hidden(self, half: HalfMessage, visible_ops: int) -> bool:
        """Return whether a half message is decided, or about to be, and its op cannot be pulled yet."""
        ops = [self._ops[offset] for offset in half.offsets if offset in self._ops]
        return any(not 0 <= op_offset < visible_ops for op_offset in ops)

    def was_put_back(self, half: HalfMessage, offset: int) -> None:
        """Note that a half message is now also at a later queue offset."""
        self._put_back[half.first_offset] = offset

    def was_passed(self, half: HalfMessage) -> None:
        """Note that the check is done with a half message."""
        if self._put_back.get(half.first_offset) == half.record.queue_offset:
            del self._put_back[half.first_offset]

    def is_put_back(self, first_offset: int) -> bool:
        """Return whether the half message that was first at a queue offset may come up again."""
        return first_offset in self._put_back

    def was_given_up(self, half: HalfMessage) -> None:
        """Note that the check has passed a half message that nobody decided."""
        self._given_up.add(half.first_offset)

    def is_given_up(self, first_offset: int) -> bool:
        """Return whether a half message may still be undecided of which the check has no record in its way."""
        is_decided = self._is_past(first_offset) or first_offset in self._decided or first_offset in self._ops
        return not is_decided and first_offset not in self._put_back

    def was_resumed(self, half: HalfMessage) -> None:
        """Note that a half message that was given up is in the check's way again, as this record."""
        self._given_up.discard(half.first_offset)
        if half.first_offset != half.record.queue_offset:
            self._put_back[half.first_offset] = half.record.queue_offset

    def forget(self, is_settled: Callable[[int], bool], passed: range) -> None:
        """Drop decisions about half messages that the check cannot come upon again.

        passed: the first offsets, of this life, that the check is done with, but for what was put back or given up.
        What lies before them was left undecided by earlier lives, and no range says what became of it: it is kept.
        """
        self._passed = passed
        self._decided = {first for first in self._decided if first not in passed or not is_settled(first)}
