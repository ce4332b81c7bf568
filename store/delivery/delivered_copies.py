"""Delivered copies: restores delivery progress from the log.

Used if `delayOffset.json` is lost. A copy has the same body, properties, born time and born host as the delayed record,
so copies in the log prove which delayed records were delivered. The progress ends before the first entry without a
copy, because a message may be delivered twice but must not be lost. For the same reason, two identical delayed records
never count as delivered.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import NamedTuple

from ..errors import CorruptFileError
from ..formats.consume_queue import is_valid
from ..formats.delay_level import SCHEDULE_TOPIC
from ..formats.half_message import HALF_TOPIC
from ..formats.message import MessageRecord, decode_record
from ..formats.messages import Message
from ..formats.properties import (
    PROPERTY_INNER_MULTI_QUEUE_OFFSET,
    PROPERTY_REAL_TOPIC,
    PROPERTY_WAIT,
    decode_properties,
)
from ..formats.redirect import message_to_deliver
from ..formats.scan import scan_records
from ..log.commit_log import CommitLog
from ..queues.consume_queue import ConsumeQueue
from ..queues.consume_queue_table import ConsumeQueueTable

_MARK = PROPERTY_REAL_TOPIC.encode()


class DeliveredLevel(NamedTuple):
    """Delivery progress of one delay level."""

    offset: int
    """Queue offset of the first entry without a copy in the log."""
    copy_end: int
    """Log offset after the last copy that proves this progress."""


def delivered_levels(
    commit_log: CommitLog, queues: ConsumeQueueTable, levels: Iterable[int], known: Mapping[int, int]
) -> dict[int, DeliveredLevel]:
    """Return the delivery progress from a read of the whole log. `known` is progress from a backup."""
    waiting = {
        level: list(_entries_with_keys(commit_log, queue))
        for level in levels
        if (queue := queues.find(SCHEDULE_TOPIC, level - 1)) is not None
    }
    alike = Counter(key for entries in waiting.values() for _, key in entries if key is not None)
    copies = {key: end for key, end in _possible_copies(commit_log) if alike[key] == 1} if alike else {}
    found = {}
    for level, entries in waiting.items():
        offset = copy_end = 0
        for at, key in entries:
            # Copies of entries before the known progress may have expired.
            if at >= known.get(level, 0) and key is not None and key not in copies:
                break
            assert at >= offset, (level, at, offset)
            offset, copy_end = at + 1, max(copy_end, copies.get(key or b"", 0))
        found[level] = DeliveredLevel(offset, copy_end)
    return found


def _entries_with_keys(commit_log: CommitLog, queue: ConsumeQueue) -> Iterator[tuple[int, bytes | None]]:
    """Yield (queue offset, key of the copy) of each entry; the key is None if delivery skips the entry."""
    limit = commit_log.queue.max_offset
    for at in range(queue.min_offset, queue.max_offset):
        entry = queue.entry(at)
        record = None
        if entry is not None and is_valid(entry):
            record = commit_log.record_at(entry.physical_offset, limit)
        message = None if record is None else message_to_deliver(record)
        yield at, None if message is None or message.topic == HALF_TOPIC else _copy_key(message)


def _possible_copies(commit_log: CommitLog) -> Iterator[tuple[bytes, int]]:
    """Yield (key, end offset) of each possible copy. Reads each segment up to the first damage."""
    for segment in commit_log.queue.segments:
        view, end, file = segment.file.view(0, segment.size_bytes), segment.readable.get(), segment.file.path
        base_offset = segment.base_offset
        try:
            for one in scan_records(view, 0, end, file=file, base_offset=base_offset, check_crc=True):
                # Decoding is slow, so records of the schedule topic, which are never copies, are not decoded.
                if _MARK in one.properties and one.topic != SCHEDULE_TOPIC:
                    copy = decode_record(view, one.physical_offset - base_offset, file=file)
                    yield _copy_key(copy), one.physical_offset + one.size_bytes
        except CorruptFileError:
            continue


def _copy_key(message: Message | MessageRecord) -> bytes:
    text = message.properties.encode(errors="surrogateescape").decode(errors="replace")
    properties = decode_properties(text)
    for changed_by_light_queues in (PROPERTY_INNER_MULTI_QUEUE_OFFSET, PROPERTY_WAIT):
        properties.pop(changed_by_light_queues, None)  # the copy gets the offsets, and loses WAIT
    place = message.topic, message.queue_id, message.flag, message.reconsume_times
    origin = message.born_timestamp_ms, tuple(message.born_host), sorted(properties.items())
    return sha256(repr((place, origin)).encode() + message.body).digest()
