"""What a master's log has ever held: every slave's log is a prefix of one of these, from its own first byte on.

A master that loses its tail in a crash goes on with other bytes in the place of those, so there may be several. Bytes
that were never sent to anybody are not kept.
"""

from struct import Struct

from ...store.formats.message import BLANK_MAGIC
from ...store.log.segment_queue import SegmentQueue

_HEAD = Struct(">ii")


class MasterHistory:
    """The log of one master through all its lives. Invariant: the last of `logs` is a prefix of the present one."""

    def __init__(self) -> None:
        self.logs: list[bytes] = [b""]

    def begin(self, log: SegmentQueue) -> None:
        """Begin another life, with what recovery has found."""
        found = log_bytes(log, 0, log.max_offset)
        if not found.startswith(self.logs[-1]):
            self.logs.append(found)
        self.logs[-1] = found

    def extend(self, log: SegmentQueue) -> None:
        """Take note of all that the log holds, before any of it is sent."""
        end = log.max_offset
        self.logs[-1] += log_bytes(log, len(self.logs[-1]), end)

    def differs_at(self, first: int, found: bytes) -> int | None:
        """Return the log offset at which bytes from an offset on leave every log there was; None if they fit in one."""
        longest = max(common_bytes(log, first, found) for log in self.logs)
        return None if longest == len(found) else first + longest


def common_bytes(log: bytes, first: int, found: bytes) -> int:
    """Return how many of the bytes found from an offset on are those of a log, torn fields that nothing checks aside.

    A crash may leave zeros in a record's times and hosts, and no recovery can tell.
    """
    own = log[first : first + len(found)]
    if own == found:
        return len(found)
    unchecked = _unchecked(log)
    for at, byte in enumerate(own):
        if byte != found[at] and (found[at] or first + at not in unchecked):
            return at
    return len(own)


def _unchecked(log: bytes) -> set[int]:
    """Return the offsets of what in records may be zero instead: sysFlag to preparedTransactionOffset."""
    offsets: set[int] = set()
    at = 0
    while at + _HEAD.size <= len(log):
        size_bytes, magic = _HEAD.unpack_from(log, at)
        if size_bytes <= 0:
            break
        if magic != BLANK_MAGIC:
            offsets.update(range(at + 36, at + 84))
        at += size_bytes
    return offsets


def log_bytes(log: SegmentQueue, start: int, end: int) -> bytes:
    """Return the bytes [start, end) of a log, as readers see them; less if it begins later or ends sooner."""
    pieces = []
    for segment in log.segments:
        readable = segment.readable.get()
        from_, to = max(start - segment.base_offset, 0), min(end - segment.base_offset, readable)
        if from_ < to:
            pieces.append(bytes(segment.file.view(from_, to)))
    return b"".join(pieces)
