"""Where the logs differ that the two stores see, and why."""

from collections.abc import Iterator
from itertools import pairwise

from ..oracle.reader import UnreadableError, read
from .deviations import FOREIGN_RECORD, GAP, TORN_RECORD, Deviation
from .opened import OpenedDirectory, StoreDifference


def differences_of_log(opened: OpenedDirectory) -> Iterator[StoreDifference]:
    """Yield where the logs begin and end otherwise, and each record that is not the same."""
    ours, real = opened.ours, opened.real
    beyond = why_longer(opened)
    in_front = GAP if real.min_offset < ours.min_offset and has_gap(opened) else None
    if ours.min_offset != real.min_offset:
        yield StoreDifference("log, begin", str(ours.min_offset), str(real.min_offset), in_front)
    if ours.max_offset != real.max_offset:
        yield StoreDifference("log, end", str(ours.max_offset), str(real.max_offset), beyond)
    for offset in sorted(ours.records.keys() | real.records.keys()):
        here, there = ours.records.get(offset), real.records.get(offset)
        if here != there:
            why = in_front if offset < ours.min_offset else None
            if here is None and offset >= ours.max_offset:
                why = beyond
            elif there is None and has_gap(opened):
                why = GAP  # the walk over the real log has come to the hole
            yield StoreDifference(f"record {offset}", str(here), str(there), why)
    for offset in sorted(set(ours.unreadable) ^ set(real.unreadable)):
        explained = offset >= ours.max_offset
        yield StoreDifference(
            f"damage {offset}",
            str(offset in ours.unreadable),
            str(offset in real.unreadable),
            beyond if explained else None,
        )


def why_longer(opened: OpenedDirectory) -> Deviation | None:
    """Return why the real log goes on where ours ends, None if it does not or there is no reason.

    The bytes there have to say it themselves: our scanner is what is judged, so it is not asked.
    """
    ours, real, size = opened.ours, opened.real, opened.config.mapped_file_size_commit_log
    if real.max_offset <= ours.max_offset:
        return None
    at = ours.max_offset % size
    base = ours.max_offset - at
    content, file = opened.log_files.get(base, b""), f"commitlog/{base:020}"
    try:
        read(content, at, len(content), file=file, physical_offset=ours.max_offset)
    except UnreadableError as error:
        if error.field == "physicalOffset":
            return FOREIGN_RECORD
        return TORN_RECORD if error.is_torn else None
    return None


def has_gap(opened: OpenedDirectory) -> bool:
    """Return whether between the files of the log one is missing."""
    bases = sorted(opened.log_files)
    size = opened.config.mapped_file_size_commit_log
    return any(after - before != size for before, after in pairwise(bases))
