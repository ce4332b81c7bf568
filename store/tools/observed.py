"""Observed state of a loaded store: plain values under RocketMQ's names.

The field names are those of `inspect.observed` in the manifests of the golden stores. Offsets and sizes are in bytes,
queue offsets are indexes, times are in ms since 1970, and -1 means that a value is missing.
"""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from struct import Struct
from typing import Any

from ..delivery.schedule import encoded_offsets
from ..errors import CorruptFileError
from ..formats.consume_queue import ENTRY_BYTES, decode_entry, is_valid
from ..formats.message import (
    BLANK_BYTES,
    BLANK_MAGIC,
    BODY_CRC_AT,
    MESSAGE_MAGIC,
    MESSAGE_MAGIC_V2,
    RECORD_BYTES_MIN,
    MessageRecord,
    body_crc,
    check_record,
    decode_record,
)
from ..index.index_file import IndexFile
from ..log.segment import Segment, segment_name
from ..message_store import MessageStore
from ..queues.consume_queue import ConsumeQueue
from ..recovery.recovery import RecoveryReport

Fields = dict[str, Any]

_HEAD = Struct(">ii")
_RECORD_FILE = "commitlog"


def observe(store: MessageStore, report: RecoveryReport, mtimes_ms: Mapping[str, int]) -> Fields:
    """Return the state of a store without records and queue entries. mtimes_ms maps queue files to their mtimes."""
    return {
        "minPhyOffset": store.min_phy_offset,
        "maxPhyOffset": store.max_phy_offset,
        "dispatchBehindBytes": store.dispatch.behind_bytes,
        "runningFlagBits": store.flags.bits,
        "earliestMessageTime": _earliest_message_time(store),
        "checkpoint": _checkpoint_fields(store, report),
        "commitLogFiles": [_segment_fields(segment) for segment in store.log.segments],
        "queues": [
            _queue_fields(store, queue, mtimes_ms) for queue in store.queues.all_queues() if queue.queue.segments
        ],
        "topicQueueTable": {
            f"{topic}-{queue_id}": offset
            for (topic, queue_id), offset in sorted(store.commit_log.topic_queue_table.items())
            if offset
        },
        "indexFiles": [] if store.index is None else [_index_file_fields(file) for file in store.index.table.files],
        "delayOffsetTable": {str(level): offset for level, offset in sorted(store.schedule.offsets.items())},
        "delayOffsetJson": encoded_offsets(store.schedule.offsets).decode(),
    }


def _earliest_message_time(store: MessageStore) -> int:
    """Return the first record's store time. As in RocketMQ, -1 if less than twice the largest body follows."""
    offset, bytes_min = store.min_phy_offset, 2 * store.config.max_message_size
    if offset < 0 or store.commit_log.record_bytes(offset, bytes_min, store.max_phy_offset) is None:
        return -1
    return _read_store_timestamp_ms(store, offset)


def _read_store_timestamp_ms(store: MessageStore, physical_offset: int) -> int:
    record = store.look_message_by_offset(physical_offset)
    return -1 if record is None else record.store_timestamp_ms


def _checkpoint_fields(store: MessageStore, report: RecoveryReport) -> Fields:
    """Return the checkpoint's times. After an unclean exit the second one is the last record's store time."""
    values = store.checkpoint.values
    redispatched = not report.clean_exit and report.records > 0
    return {
        "physicMsgTimestamp": values.physic_msg_timestamp_ms,
        "logicsMsgTimestamp": report.last_store_timestamp_ms if redispatched else values.logics_msg_timestamp_ms,
        "indexMsgTimestamp": values.index_msg_timestamp_ms,
    }


def _segment_fields(segment: Segment) -> Fields:
    name, wrote = segment_name(segment.base_offset), segment.wrote.get()
    return {"name": name, "size": segment.size_bytes, "wrotePosition": wrote}


def _index_file_fields(file: IndexFile) -> Fields:
    header = file.header
    return {
        "name": file.name,
        "beginTimestamp": header.begin_timestamp_ms,
        "endTimestamp": header.end_timestamp_ms,
        "beginPhyOffset": header.begin_physical_offset,
        "endPhyOffset": header.end_physical_offset,
        "hashSlotCount": header.used_slots,
        "indexCount": header.next_entry,
        "writeFull": file.is_full,
    }


# -- queues ----------------------------------------------------------------------------------------


def _queue_fields(store: MessageStore, queue: ConsumeQueue, mtimes_ms: Mapping[str, int]) -> Fields:
    first = queue.entry(queue.min_offset)
    earliest_ms = -1
    if first is not None and is_valid(first) and queue.min_offset < queue.max_offset:
        earliest_ms = _read_store_timestamp_ms(store, first.physical_offset)
    return {
        "topic": queue.topic,
        "queueId": queue.queue_id,
        "minOffset": queue.min_offset,
        "maxOffset": queue.max_offset,
        "minLogicOffset": queue.min_logic_offset,
        "maxPhysicOffset": queue.max_physical_offset,
        "lastOffset": _last_offset(queue),
        "messageTotal": queue.max_offset - queue.min_offset,
        "earliestMessageTime": earliest_ms,
        "files": [
            _segment_fields(segment) | {"mtimeMs": mtimes_ms.get(segment.file.path, -1)}
            for segment in queue.queue.segments
        ],
    }


def _last_offset(queue: ConsumeQueue) -> int:
    last = queue.entry(queue.max_offset - 1)
    return -1 if last is None or not is_valid(last) else last.physical_offset + last.size_bytes


def entries_of(queue: ConsumeQueue) -> Iterator[list[int]]:
    """Yield the queue's entries as lists [phyOffset, size, tagsCode]."""
    at = queue.min_offset
    while at < queue.max_offset:
        raw = queue.entries_from(at)
        if not raw:
            return
        yield from (list(decode_entry(raw, start)) for start in range(0, len(raw), ENTRY_BYTES))
        entries, odd_bytes = divmod(len(raw), ENTRY_BYTES)
        assert not odd_bytes, len(raw)
        at += entries


# -- records ---------------------------------------------------------------------------------------


def records_of(store: MessageStore) -> Iterator[Fields]:
    """Yield the records and other contents of the log. One of these fields marks each item that is not a valid record:

    blank          the rest of the file is empty
    crcMismatch    actual checksum of the body, if the record has another
    at             actual offset of the record, if its physicalOffset differs from it
    illegalMagic   hex of an unknown magic; the rest of the file is skipped
    unreadable     why the record cannot be read; without a size, the rest of the file is skipped
    """
    for segment in store.log.segments:
        yield from _records_of_segment(segment)


def _records_of_segment(segment: Segment) -> Iterator[Fields]:
    view, end, at = segment.file.view(0, segment.size_bytes), segment.wrote.get(), 0
    while at < end:
        fields = _fields_at(view, at, end, segment.base_offset)
        yield fields
        if not fields["size"] or fields.keys() & {"blank", "illegalMagic"}:
            return
        assert fields["size"] > 0, fields
        at += fields["size"]


def _fields_at(view: memoryview, at: int, end: int, base_offset: int) -> Fields:
    offset = base_offset + at
    if end - at < BLANK_BYTES:
        return {"offset": offset, "unreadable": f"{end - at} bytes left", "size": 0}
    size_bytes, magic = _HEAD.unpack_from(view, at)
    if magic == BLANK_MAGIC:
        return {"offset": offset, "size": size_bytes, "blank": True}
    if magic not in (MESSAGE_MAGIC, MESSAGE_MAGIC_V2):
        return {"offset": offset, "illegalMagic": f"{magic & 0xFFFFFFFF:x}", "size": size_bytes}
    try:
        record = decode_record(view[:end], at, file=_RECORD_FILE, file_offset=base_offset)
    except CorruptFileError as error:
        return _damaged_fields(view, at, end, base_offset, error)
    return _prepend_offset(_record_fields(record), offset)


def _damaged_fields(view: memoryview, at: int, end: int, base_offset: int, error: CorruptFileError) -> Fields:
    """Return the fields of a damaged record. All fields are readable if only the body checksum is wrong."""
    size_bytes, _ = _HEAD.unpack_from(view, at)
    if error.field == "bodyCRC":
        try:
            return _mismatched_fields(view, at, end, base_offset)
        except CorruptFileError as second_error:
            error = second_error
    fits = RECORD_BYTES_MIN <= size_bytes <= end - at
    return {"offset": base_offset + at, "unreadable": str(error), "size": size_bytes if fits else 0}


def _mismatched_fields(view: memoryview, at: int, end: int, base_offset: int) -> Fields:
    bounds = check_record(view, at, end, file=_RECORD_FILE, file_offset=base_offset, check_crc=False)
    crc = body_crc(view[bounds.body_at : bounds.body_end])
    corrected = bytearray(view[at : bounds.end])
    stored = corrected[BODY_CRC_AT : BODY_CRC_AT + 4]
    corrected[BODY_CRC_AT : BODY_CRC_AT + 4] = crc.to_bytes(4, "big")
    record = decode_record(corrected, 0, file=_RECORD_FILE, file_offset=base_offset + at)
    fields = _prepend_offset(_record_fields(record), base_offset + at)
    return fields | {"bodyCRC": int.from_bytes(stored, "big", signed=True), "crcMismatch": crc}


def _prepend_offset(fields: Fields, offset: int) -> Fields:
    return fields if fields["offset"] == offset else fields | {"at": offset}


def _record_fields(record: MessageRecord) -> Fields:
    return {
        "offset": record.physical_offset,
        "size": record.size_bytes,
        "bodyCRC": record.body_crc,
        "queueId": record.queue_id,
        "flag": record.flag,
        "queueOffset": record.queue_offset,
        "sysFlag": record.sys_flag,
        "bornTimestamp": record.born_timestamp_ms,
        "bornHost": str(record.born_host),
        "storeTimestamp": record.store_timestamp_ms,
        "storeHost": str(record.store_host),
        "reconsumeTimes": record.reconsume_times,
        "preparedTransactionOffset": record.prepared_transaction_offset,
        "bodyLen": len(record.body),
        "bodySha256": sha256(record.body).hexdigest(),
        "topic": record.topic,
        "properties": record.properties,
    }
