"""Units of queue extensions: CQ-VALID (content and layout) and CKPT (durable in time).

Each entry that a running store adds leads to its record's unit. The unit follows that of the previous entry, or begins
the next file if the rest of the file has no room for it and an end mark. Then the end mark is after the previous unit.
No unit and no file follows the unit of the last entry.

A recovery may replace the address by the tagsCode, so these checks run when a store stops. They need a store without
errors of its disk, which would cost a unit.
"""

from collections.abc import Iterator

from ....faults.disk.disk import Disk
from ....store.formats.delay_level import SCHEDULE_TOPIC
from ....store.message_store import MessageStore
from ....store.queues.consume_queue import ConsumeQueue
from ..evidence import Violation, record_tried
from ..reader import ADDRESS_MAX, ENTRY, ENTRY_BYTES, UNIT, UNIT_OFFSET, LogRecord, read_records, tag_code_of

_TAGS_CODE_AT = 12
_END_BYTES = 4
_END_MARK = b"\xff\xff"


def check_units(store: MessageStore, disk: Disk) -> Iterator[Violation]:
    """After a clean stop, yield each entry of this start without its record's unit, and each unit at a wrong place."""
    rows = [queue for queue in store.queues.all_queues() if queue.ext is not None]
    records = {record.physical_offset: record for record in _records_of_this_start(store, disk)} if rows else {}
    for queue in rows:
        assert queue.ext is not None
        begin, segments = queue.ext.queue.min_offset, queue.ext.queue.segments
        units = b"".join(disk.content(segment.file.path) for segment in segments)
        file_bytes = queue.ext.queue.segment_bytes
        end: int | None = None  # of the last unit
        for file, position, (physical_offset, _, code) in _entries(queue, disk):
            record = records.get(physical_offset)
            at = code + UNIT_OFFSET - begin
            is_there = code <= ADDRESS_MAX and 0 <= at <= len(units) - UNIT.size
            found = UNIT.unpack_from(units, at) if is_there else None
            if found is not None and record is not None and end is not None:
                record_tried("CQ-VALID")
                yield from _check_place(units, end, at, found[0], file_bytes, file, position)
            if code <= ADDRESS_MAX:
                end = None if found is None else at + found[0]
            if record is None or record.topic != queue.topic:
                continue  # an older record, or one of another queue
            record_tried("CQ-VALID")
            wanted = (UNIT.size, _tags_code(store, queue, record), record.store_timestamp_ms, 0)
            if found != wanted:
                summary = "an entry that does not point at its record's unit"
                yield Violation("CQ-VALID", summary, file, position, "unit", str(wanted), str(found))
        if end is not None and (units[end:].strip(b"\0") or len(units) - end >= file_bytes):
            summary, path = "units without an entry", segments[-1].file.path
            yield Violation("CQ-VALID", summary, path, end, "bytes", "zeros, in one file", "other bytes, or more files")


def _check_place(
    units: bytes, end: int, at: int, size_bytes: int, file_bytes: int, file: str, position: int
) -> Iterator[Violation]:
    """Yield a unit at `at` that does not follow the previous unit, which ends at `end`."""
    next_file = (end // file_bytes + 1) * file_bytes
    is_in_next = end + size_bytes + _END_BYTES > next_file
    mark = units[end : end + len(_END_MARK)] if is_in_next else b""
    expected, found = ((next_file, _END_MARK), (at, mark)) if is_in_next else ((end, b""), (at, b""))
    if expected != found:
        summary, field = "a unit that does not follow the previous one", "offset, end mark"
        yield Violation("CQ-VALID", summary, file, position, field, str(expected), str(found))


def _records_of_this_start(store: MessageStore, disk: Disk) -> Iterator[LogRecord]:
    report = store.last_recovery
    assert report is not None, "the store is loaded"
    for segment in store.log.segments:
        content, base_offset = disk.content(segment.file.path), segment.base_offset
        for record, _ in read_records(content, segment.wrote.get(), file=segment.file.path, base_offset=base_offset):
            if record.physical_offset >= report.end_offset:
                yield record


def _entries(queue: ConsumeQueue, disk: Disk) -> Iterator[tuple[str, int, tuple[int, int, int]]]:
    """Yield file, position of the tagsCode, and values of each entry."""
    for segment in queue.queue.segments:
        entries = ENTRY.iter_unpack(disk.content(segment.file.path)[: segment.wrote.get()])
        for number, (physical_offset, size_bytes, code) in enumerate(entries):
            yield segment.file.path, number * ENTRY_BYTES + _TAGS_CODE_AT, (physical_offset, size_bytes, code)


def _tags_code(store: MessageStore, queue: ConsumeQueue, record: LogRecord) -> int:
    if queue.topic == SCHEDULE_TOPIC:
        return record.store_timestamp_ms + store.delays_ms[queue.queue_id + 1]
    return tag_code_of(record.properties)


def find_undurable_units(store: MessageStore, disk: Disk, timestamp_ms: int) -> Iterator[tuple[str, int]]:
    """Yield file and end of the units before a store time, for each file in which they are not durable."""
    rows = [queue.ext.queue for queue in store.queues.all_queues() if queue.ext is not None]
    for segment in (segment for row in rows for segment in row.segments):
        raw, end = disk.content(segment.file.path)[: segment.wrote.get()], 0
        while end + UNIT.size <= len(raw):
            size_bytes, _, stored_ms, _ = UNIT.unpack_from(raw, end)
            if size_bytes < UNIT.size or stored_ms >= timestamp_ms:
                break
            end += size_bytes
        if end and not disk.is_file_durable(segment.file.path, 0, end):
            yield segment.file.path, end
