"""The op queue as the check reads it: which half messages are decided, and which ops are needed no more."""

from collections.abc import Callable

from ..formats.properties import PROPERTY_TAGS, decode_properties
from ..message_store import MessageStore
from .half_message import DECIDED_TAG, OP_TOPIC, QUEUE_ID, HalfMessage, whole_number
from .pulling import pull_from

_SEPARATOR = ","
"""Between the queue offsets of an op message of RocketMQ 5."""


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
