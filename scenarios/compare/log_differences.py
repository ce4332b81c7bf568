"""Where the logs differ that the two stores see, and why."""

from collections.abc import Iterator
from itertools import pairwise
from struct import Struct

from .deviations import (
    FOREIGN_RECORD,
    GAP,
    TORN_RECORD,
    Deviation,
)
from .opened import Difference, Opened

_MAGIC = 0xDAA320A7
_HEAD = Struct(">iI20xqi")
"""Of a record: totalSize, magicCode, physicalOffset, sysFlag; at 48 the host follows where it was born."""
_BORN_HOST_AT = 48
_BORN_HOST_V6, _STORE_HOST_V6 = 0x10, 0x20
_BODY_BYTES, _TOPIC_BYTES, _PROPERTIES_BYTES = Struct(">i"), Struct(">B"), Struct(">h")
_SECTOR_BYTES = 512


def differences_of_log(opened: Opened) -> Iterator[Difference]:
    """Yield where the logs begin and end otherwise, and each record that is not the same."""
    ours, real = opened.ours, opened.real
    beyond = why_longer(opened)
    in_front = GAP if real.min_offset < ours.min_offset and has_gap(opened) else None
    if ours.min_offset != real.min_offset:
        yield Difference("log, begin", str(ours.min_offset), str(real.min_offset), in_front)
    if ours.max_offset != real.max_offset:
        yield Difference("log, end", str(ours.max_offset), str(real.max_offset), beyond)
    for offset in sorted(ours.records.keys() | real.records.keys()):
        here, there = ours.records.get(offset), real.records.get(offset)
        if here != there:
            why = in_front if offset < ours.min_offset else None
            if here is None and offset >= ours.max_offset:
                why = beyond
            elif there is None and has_gap(opened):
                why = GAP  # the walk over the real log has come to the hole
            yield Difference(f"record {offset}", str(here), str(there), why)
    for offset in sorted(set(ours.unreadable) ^ set(real.unreadable)):
        explained = offset >= ours.max_offset
        yield Difference(
            f"damage {offset}",
            str(offset in ours.unreadable),
            str(offset in real.unreadable),
            beyond if explained else None,
        )


def why_longer(opened: Opened) -> Deviation | None:
    """Return why the real log goes on where ours ends, None if it does not or there is no reason.

    The bytes there have to say it themselves: our scanner is what is judged, so it is not asked.
    """
    ours, real, size = opened.ours, opened.real, opened.config.mapped_file_size_commit_log
    if real.max_offset <= ours.max_offset:
        return None
    at = ours.max_offset % size
    base = ours.max_offset - at
    content = opened.log_files.get(base, b"")
    if len(content) - at < _HEAD.size:
        return None
    _, magic, physical_offset, _ = _HEAD.unpack_from(content, at)
    if magic != _MAGIC:
        return None
    if physical_offset != ours.max_offset:
        return FOREIGN_RECORD
    return TORN_RECORD if _is_torn(content, at) else None


def _is_torn(content: bytes, at: int) -> bool:
    """Return whether topic or properties of the record at a position in a file of the log show lost bytes.

    A sector that was never written is zeros, so it has lost bytes whose topic has a 0, or whose properties have one
    as their last byte or as that of a sector of the file. A record that is none by its own lengths shows nothing.
    """
    size, _, _, sys_flag = _HEAD.unpack_from(content, at)
    end = at + size
    hosts_bytes = sum(20 if sys_flag & is_v6 else 8 for is_v6 in (_BORN_HOST_V6, _STORE_HOST_V6))
    body = _field(content, at + _BORN_HOST_AT + hosts_bytes + 8 + 4 + 8, end, _BODY_BYTES)
    topic = None if body is None else _field(content, body.stop, end, _TOPIC_BYTES)
    properties = None if topic is None else _field(content, topic.stop, end, _PROPERTIES_BYTES)
    if topic is None or properties is None or properties.stop != end:
        return False
    if any(content[position] == 0 for position in topic):
        return True
    return any(
        content[position] == 0
        for position in properties
        if position == end - 1 or position % _SECTOR_BYTES == _SECTOR_BYTES - 1
    )


def _field(content: bytes, at: int, end: int, length: Struct) -> range | None:
    """Return the positions of a field that has its length in front, None if it does not end before `end`."""
    start = at + length.size
    if start > min(end, len(content)):
        return None
    (size,) = length.unpack_from(content, at)
    stop: int = start + size
    return range(start, stop) if start <= stop <= min(end, len(content)) else None


def has_gap(opened: Opened) -> bool:
    """Return whether between the files of the log one is missing."""
    bases = sorted(opened.log_files)
    size = opened.config.mapped_file_size_commit_log
    return any(after - before != size for before, after in pairwise(bases))
