"""Queue offset lookup: finds records by topic, queue id and queue offset.

If each requested queue offset has an entry, and each entry points to a record with that topic, queue id and queue
offset, the reader reads only these records. It does not return older records of a deleted topic with the same name.
Queue offset 0 is never looked up, because prepared and rolled-back records, which are in no queue, have it too.
"""

from itertools import product

from ....store.errors import CorruptFileError
from ....store.formats.consume_queue import is_valid
from ....store.formats.scan import scan_records
from .columns import RowConditions
from .directory import StoreDirectory, StoreFile
from .log_ranges import LogRange, whole_record_at
from .queue_array import QueueArray

_PLACES_MAX = 64


def ranges_of_queue_offsets(directory: StoreDirectory, conditions: RowConditions) -> list[LogRange] | None:
    """Return the ranges to read; None if the query names no queue offsets, or if a record is not found."""
    topics, queue_ids = conditions.listed_values("topic"), conditions.listed_values("queue_id")
    places = _queue_offsets(conditions)
    if topics is None or queue_ids is None or places is None or 0 in places:
        return None
    if len(topics) * len(queue_ids) * len(places) > _PLACES_MAX:
        return None
    segments, found = directory.segments(), list[LogRange]()
    for topic, queue_id in product(topics, queue_ids):
        queue = QueueArray(directory, directory.files_of_queue(topic, queue_id))
        for place in places:
            one = _range_of_record(directory, segments, queue, (topic, queue_id, place))
            if one is None:
                return None
            found.append(one)
    return sorted(found, key=lambda one: (one.segment.base_offset, one.start))


def _queue_offsets(conditions: RowConditions) -> list[int] | None:
    pinned = conditions.listed_values("queue_offset")
    if pinned is not None:
        return pinned
    low, high = conditions.bounds("queue_offset")
    return list(range(low, high + 1)) if high - low < _PLACES_MAX else None


def _range_of_record(
    directory: StoreDirectory, segments: list[StoreFile], queue: QueueArray, place: tuple[str, int, int]
) -> LogRange | None:
    """Return the range of one record; None if its entry or the record is invalid or does not match."""
    entry = queue.at(place[2])
    if entry is None or not is_valid(entry):
        return None
    for segment in segments:
        begin = entry.physical_offset - segment.base_offset
        end = begin + entry.size_bytes
        if begin >= 0 and end <= segment.size_bytes:
            view, origin = whole_record_at(directory, segment, begin, entry.size_bytes)
            base_offset, file = segment.base_offset + origin, segment.path
            scan = scan_records(view, begin - origin, end - origin, file=file, base_offset=base_offset, check_crc=True)
            try:
                record = next(scan, None)
            except CorruptFileError:
                return None
            if record is None or (record.topic, record.queue_id, record.queue_offset) != place:
                return None
            is_whole = record.size_bytes == entry.size_bytes
            return LogRange(segment, begin, end, is_last=False, known=begin) if is_whole else None
    return None
