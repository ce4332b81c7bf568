"""Transaction queues as the check reads them: half messages in order, and which of them an op has decided."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..errors import CorruptFileError
from ..formats.message import MessageRecord, decode_record
from ..formats.properties import PROPERTY_TAGS, decode_properties
from ..message import GetMessageStatus
from ..message_store import MessageStore
from .half_message import DECIDED_TAG, OP_TOPIC, QUEUE_ID, HalfMessage, whole_number

_PULL_MESSAGES_MAX = 32
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

    An answer that points back, as one beyond the queue's end does, ends it: that is for the caller to think about.
    """
    offset = begin
    while offset < end:
        pulled = store.get_message(topic, QUEUE_ID, offset, min(_PULL_MESSAGES_MAX, end - offset))
        following = pulled.next_begin_offset
        if pulled.status in _NOTHING_NEW or following <= offset:
            return
        for at, physical_offset, raw in zip(
            pulled.queue_offsets, pulled.physical_offsets, pulled.records, strict=True
        ):
            assert at >= offset, (at, offset)
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
        self._ops = {
            at: halves for at, halves in self._ops.items() if not all(is_settled(half) for half in halves)
        }
        self._decided = {half for halves in self._ops.values() for half in halves}
