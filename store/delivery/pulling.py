"""Reads a queue of transactions from an offset on, whatever its pulls are answered with."""

from collections.abc import Iterator
from typing import NamedTuple

from ..errors import CorruptFileError
from ..formats.message import MessageRecord, decode_record
from ..get_result import GetMessageStatus
from ..message_store import MessageStore
from .half_message import QUEUE_ID

_PULL_MESSAGES_MAX = 32
_NOTHING_NEW = (GetMessageStatus.NO_MESSAGE_IN_QUEUE, GetMessageStatus.OFFSET_OVERFLOW_ONE)


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
