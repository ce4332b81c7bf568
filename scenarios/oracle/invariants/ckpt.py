"""CKPT: the checkpoint never claims more than is durable: no record, queue entry or full index file older than it says.

The times in memory are judged, for they may reach the disk at any moment. The disk is asked about bytes, not about
the names of their files; records of the very millisecond that is claimed are left out, as recovery does with its
margin of seconds.
"""

from collections.abc import Iterator

from ....faults.disk.disk import Disk
from ....store.log.segment import Segment
from ....store.message_store import MessageStore
from ..evidence import Violation, tried
from ..ledger import Ledger
from ..reader import ENTRY, UnreadableError, leads_to_a_record, walk


def check(store: MessageStore, disk: Disk, ledger: Ledger | None = None) -> Iterator[Violation]:
    """Yield every time in the checkpoint that is ahead of the disk.

    ledger says what retention may have removed from the disk, and not from memory yet: that is not looked at.
    """
    claimed = store.checkpoint.values
    if any(claimed):
        tried("CKPT")
    logs = [segment for segment in store.log.segments if not _is_durable(segment, disk)]
    if logs:
        log_end = _end_of_records_before(store, disk, claimed.physic_msg_timestamp_ms)
        for segment in logs:
            end = min(log_end - segment.base_offset, segment.size_bytes)
            if ledger is not None and segment.end_offset <= ledger.expired_to:
                continue
            if end > 0 and not disk.is_durable(segment.file.path, 0, end):
                yield _ahead("physicMsgTimestamp", segment.file.path, end, claimed.physic_msg_timestamp_ms)
    entries = [
        segment
        for queue in store.queues.all()
        for segment in queue.queue.segments
        if not _is_durable(segment, disk)
    ]
    if entries:
        log_end = _end_of_records_before(store, disk, claimed.logics_msg_timestamp_ms)
        for segment in entries:
            end = _end_of_entries_below(segment, disk, log_end)
            if end and not disk.is_durable(segment.file.path, 0, end):
                yield _ahead("logicsMsgTimestamp", segment.file.path, end, claimed.logics_msg_timestamp_ms)
    for file in () if store.index is None else store.index.table.files:
        path, end, claimed_ms = file.file.path, file.file.size_bytes, claimed.index_msg_timestamp_ms
        if file.end_timestamp_ms <= claimed_ms and file.is_full and not disk.is_durable(path, 0, end):
            yield _ahead("indexMsgTimestamp", path, end, claimed_ms)


def _is_durable(segment: Segment, disk: Disk) -> bool:
    """Return whether nothing that could be claimed of a segment is wrong: most are, and need no look at the log."""
    return disk.is_durable(segment.file.path, 0, segment.size_bytes)


def _end_of_records_before(store: MessageStore, disk: Disk, timestamp_ms: int) -> int:
    """Return the log offset behind the last record stored before a time; store times never fall along the log."""
    end = store.log.min_offset
    if timestamp_ms <= 0:
        return end
    for segment in store.log.segments:
        content = disk.content(segment.file.path)
        if not content:
            end = segment.end_offset  # removed a moment ago, when every queue entry it needs was durable
            continue
        try:
            end_position, file = segment.wrote.get(), segment.file.path
            for record, _ in walk(content, end_position, file=file, base_offset=segment.base_offset):
                if record.store_timestamp_ms >= timestamp_ms:
                    return end
                end = record.physical_offset + record.size_bytes
        except UnreadableError:
            return end  # PREFIX says what is wrong there
    return end


def _end_of_entries_below(segment: Segment, disk: Disk, log_end: int) -> int:
    """Return the position behind a queue segment's last entry for a record below log_end."""
    raw = disk.content(segment.file.path)[: segment.wrote.get()]
    end = 0
    while end < len(raw):
        entry = ENTRY.unpack_from(raw, end)
        if not leads_to_a_record(*entry) or entry[0] >= log_end:
            break  # of a blank entry nothing says when it was written; CQ-VALID says that it must not be there
        end += ENTRY.size
    return end


def _ahead(field: str, file: str, end: int, timestamp_ms: int) -> Violation:
    return Violation(
        "CKPT",
        "the checkpoint speaks for bytes that are not durable",
        file,
        end,
        field,
        "a time before theirs",
        str(timestamp_ms),
    )
