"""POS: the positions in each segment are in order, and flushed data is durable.

The order is flushed <= readable <= committed <= wrote <= size, without gaps between segments. Flushed data must be
durable on the simulated disk. In a segment with a write buffer, committed data must be complete records in the page
cache, unless a failed sync has reverted them.
"""

from collections.abc import Iterator
from functools import partial

from ....faults.disk.disk import Disk
from ....store.log.segment import Segment
from ....store.log.transient_pool import BufferedSegment
from ....store.message_store import MessageStore
from .. import allowances
from ..evidence import Violation, record_tried
from ..ledger import Ledger
from ..reader import UnreadableError, read_records

_broken = partial(Violation, "POS")


def check_positions(store: MessageStore, disk: Disk, ledger: Ledger | None = None) -> Iterator[Violation]:
    """Yield each wrong position of a store now.

    With a ledger, segments that retention may have removed from disk but not yet from memory are skipped.
    """
    expected_base = None
    for segment in store.log.segments:
        where = store.log.flushed_where.get()
        flushed, readable, file = segment.flushed.get(), segment.readable.get(), segment.file.path
        committed = segment.committed.get() if isinstance(segment, BufferedSegment) else readable
        wrote = segment.wrote.get()  # read last, because each position may advance during the reads
        if ledger is not None and segment.end_offset <= ledger.expired_to:
            continue
        record_tried("POS")
        if not 0 <= flushed <= readable <= committed <= wrote <= segment.size_bytes:
            order = "flushed <= readable <= committed <= wrote <= size"
            found = f"{flushed}, {readable}, {committed}, {wrote}"
            yield _broken("positions out of order", file, flushed, "positions", order, found)
        elif not disk.is_durable(file, 0, flushed):
            summary = "flushed bytes that are not durable"
            yield _broken(summary, file, flushed, "flushed", "a durable position", str(flushed))
        if (
            isinstance(segment, BufferedSegment)
            and flushed < committed
            and not allowances.has_reverted_data(disk, file)
        ):
            yield from _check_committed(segment, disk)
        below = min(where - segment.base_offset, wrote)
        if flushed < below and not disk.is_durable(file, 0, below):
            expected, found = f"<= {segment.base_offset + flushed}", str(segment.base_offset + below)
            summary = "bytes below flushedWhere that are not durable"
            yield _broken(summary, file, flushed, "flushedWhere", expected, found)
        if expected_base not in (None, segment.base_offset) and not _is_known_gap(ledger, expected_base, segment):
            yield _broken("a gap between segments", file, 0, "base", str(expected_base), str(segment.base_offset))
        expected_base = segment.end_offset
    where, end = store.log.flushed_where.get(), store.log.max_offset
    if where > end:
        yield _broken("more is flushed than was written", "commitlog", where, "flushedWhere", f"<= {end}", str(where))


def _is_known_gap(ledger: Ledger | None, begin: int, segment: Segment) -> bool:
    missing = range(begin, segment.base_offset, segment.size_bytes)
    return ledger is not None and len(missing) > 0 and all(map(ledger.known_damage.is_missing, missing))


def check_truncated_bytes(store: MessageStore, disk: Disk) -> Iterator[Violation]:
    """Yield each file in which a power cut right after recovery may restore truncated bytes.

    Readers would take a restored entry or record for a new one. Two cases are permitted because no store can notice
    them: clean pages whose write-back failed, and an earlier start, after a clean exit, that crashed during truncation.
    """
    assert store.last_recovery is not None, "the store is loaded"
    if store.last_recovery.clean_exit:
        return
    for row in (store.log, *(queue.queue for queue in store.queues.all_queues())):
        segment = row.last_segment()
        if segment is None:
            continue
        record_tried("POS")
        file, end = segment.file.path, segment.wrote.get()
        if disk.is_dirty(file, end, segment.size_bytes) and not any(disk.content(file)[end:]):
            yield _broken("truncated bytes may reappear", file, end, "zeros behind the end", "durable", "dirty")


def check_log_names(store: MessageStore, disk: Disk) -> Iterator[Violation]:
    """After a load, yield each name in a log directory that a power cut may remove or restore.

    A killed process may have created or removed the file without a sync of the directory. If a power cut restores a
    truncated segment, its records reappear.
    """
    for directory in store.config.commit_log_directories:
        record_tried("POS")
        for path in disk.undurable_names(directory):
            yield _broken("a load leaves an unsynced name in a log directory", path, 0, "name", "durable", "not synced")


def _check_committed(segment: BufferedSegment, disk: Disk) -> Iterator[Violation]:
    file, committed = segment.file.path, segment.committed.get()
    try:
        content = disk.content(file)
        for _ in read_records(content, committed, file=file, base_offset=segment.base_offset, check_crc=True):
            pass
    except UnreadableError as error:
        summary, found = "committed bytes that are not in the page cache", f"{error.field}: {error.found}"
        yield _broken(summary, file, error.offset, "committed", f"records up to {committed}", found)
