"""POS: flushed <= wrote <= size in every segment, segments without gaps, and what counts as flushed is durable.

The last half is asked of the simulated disk, which knows: it holds from the moment the position moved, crash or not.
"""

from collections.abc import Iterator

from ...faults.disk import Disk
from ...store.message_store import MessageStore
from ..evidence import Violation


def check(store: MessageStore, disk: Disk) -> Iterator[Violation]:
    """Yield every position that lies, as the store's memory has it now."""
    expected_base = None
    for segment in store.log.segments:
        wrote, flushed, file = segment.wrote.get(), segment.flushed.get(), segment.file.path
        if not 0 <= flushed <= wrote <= segment.size_bytes:
            yield Violation(
                "POS",
                "positions out of order",
                file,
                flushed,
                "positions",
                "flushed <= wrote <= size",
                f"{flushed}, {wrote}",
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
        below = min(store.log.flushed_where.get() - segment.base_offset, wrote)
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
        if expected_base not in (None, segment.base_offset):
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
