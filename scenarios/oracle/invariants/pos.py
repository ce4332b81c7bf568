"""POS: flushed <= readable <= committed <= wrote <= size in each segment, no gaps between them; flushed is durable.

The last half is asked of the simulated disk, which knows: it holds from the moment the position moved, crash or not.
So is, of a segment with a write buffer, whether what counts as committed is in the page cache: whole records, unless
a failed sync has taken them back from there. And what recovery has cut does not come back.
"""

from collections.abc import Iterator

from ....faults.disk.disk import Disk
from ....store.log.segment import Segment
from ....store.log.transient_pool import BufferedSegment
from ....store.message_store import MessageStore
from .. import allowances
from ..evidence import Violation, tried
from ..ledger import Ledger
from ..reader import UnreadableError, walk


def check(store: MessageStore, disk: Disk, ledger: Ledger | None = None) -> Iterator[Violation]:
    """Yield every position that lies, as the store's memory has it now.

    ledger says what retention may have removed from the disk, and not from memory yet: that is not looked at.
    """
    expected_base = None
    for segment in store.log.segments:
        where = store.log.flushed_where.get()
        flushed, readable, file = segment.flushed.get(), segment.readable.get(), segment.file.path
        committed = segment.committed.get() if isinstance(segment, BufferedSegment) else readable
        wrote = segment.wrote.get()  # in this order, for each may move meanwhile
        if ledger is not None and segment.end_offset <= ledger.expired_to:
            continue
        tried("POS")
        if not 0 <= flushed <= readable <= committed <= wrote <= segment.size_bytes:
            yield Violation(
                "POS",
                "positions out of order",
                file,
                flushed,
                "positions",
                "flushed <= readable <= committed <= wrote <= size",
                f"{flushed}, {readable}, {committed}, {wrote}",
            )
        elif not disk.is_durable(file, 0, flushed):
            yield Violation(
                "POS",
                "flushed bytes that are not durable",
                file,
                flushed,
                "flushed",
                "a durable position",
                str(flushed),
            )
        if isinstance(segment, BufferedSegment) and flushed < committed and not allowances.has_reverted(disk, file):
            yield from _check_committed(segment, disk)
        below = min(where - segment.base_offset, wrote)
        if flushed < below and not disk.is_durable(file, 0, below):
            yield Violation(
                "POS",
                "bytes below flushedWhere that are not durable",
                file,
                flushed,
                "flushedWhere",
                f"<= {segment.base_offset + flushed}",
                str(segment.base_offset + below),
            )
        if expected_base not in (None, segment.base_offset) and not _is_known_gap(ledger, expected_base, segment):
            yield Violation(
                "POS", "a gap between segments", file, 0, "base", str(expected_base), str(segment.base_offset)
            )
        expected_base = segment.end_offset
    where, end = store.log.flushed_where.get(), store.log.max_offset
    if where > end:
        yield Violation(
            "POS",
            "more is flushed than was written",
            "commitlog",
            where,
            "flushedWhere",
            f"<= {end}",
            str(where),
        )


def _is_known_gap(ledger: Ledger | None, begin: int, segment: Segment) -> bool:
    """Return whether the segments from an offset up to a segment are known to be missing."""
    missing = range(begin, segment.base_offset, segment.size_bytes)
    return ledger is not None and len(missing) > 0 and all(map(ledger.known_damage.is_missing, missing))


def check_cut(store: MessageStore, disk: Disk) -> Iterator[Violation]:
    """Yield every file of a store just recovered whose zeros behind the end the next power cut may take.

    An old entry, or an old record, that comes back is taken for one of those that come now. What a failed write-back
    has kept from the disk is clean, and no store can tell; nor can one that finds a clean exit tell that another start
    has died since while it cut.
    """
    assert store.last_recovery is not None, "it has not been loaded"
    if store.last_recovery.clean_exit:
        return
    for row in (store.log, *(queue.queue for queue in store.queues.all())):
        segment = row.last()
        if segment is None:
            continue
        tried("POS")
        file, end = segment.file.path, segment.wrote.get()
        if disk.is_dirty(file, end, segment.size_bytes) and not any(disk.content(file)[end:]):
            yield Violation("POS", "what was cut may come back", file, end, "zeros behind the end", "durable", "dirty")


def _check_committed(segment: BufferedSegment, disk: Disk) -> Iterator[Violation]:
    """Yield where a buffered segment's file has something else than whole records below the committed position."""
    file, committed = segment.file.path, segment.committed.get()
    try:
        content = disk.content(file)
        for _ in walk(content, committed, file=file, base_offset=segment.base_offset, check_crc=True):
            pass
    except UnreadableError as error:
        yield Violation(
            "POS",
            "committed bytes that are not in the page cache",
            file,
            error.offset,
            "committed",
            f"records up to {committed}",
            f"{error.field}: {error.found}",
        )
