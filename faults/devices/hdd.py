"""A hard disk: an arm that seeks, a platter that turns, and bytes that pass under the head.

Where the platter stands is a matter of the time alone, so a write right behind the last one that comes too late for
its sector waits for a whole turn, as small syncs on real disks do. A request is on the medium when it ends, so flushing
costs nothing more; blocks are written in the order in which an elevator would. One that is there before the last one
has ended is taken in meanwhile (command queueing). After a read the disk goes on reading into its buffer until it has
to move, so a read right behind the last one finds there what has passed under the head since.

Figures: 7,200 turns a minute, 0.6 ms from track to track, 8.5 ms for a third of the stroke, 200 MB/s (10^6 bytes):
those of data sheets of 3.5-inch drives of some 4 TB. Seek times grow as the root of the distance, as in Ruemmler and
Wilkes, "An Introduction to Disk Drive Modeling", IEEE Computer 27(3), 1994.
"""

from collections.abc import Sequence
from math import isqrt

from .storage import BLOCK_BYTES, Run

_TURN_NS = 60_000_000_000 // 7_200
_BYTES_PER_SECOND = 200_000_000
_TRACK_BLOCKS = _BYTES_PER_SECOND * _TURN_NS // 1_000_000_000 // BLOCK_BYTES
_BLOCK_NS = _TURN_NS // _TRACK_BLOCKS
_TRACK_TO_TRACK_NS = 600_000
_THIRD_OF_STROKE_NS = 8_500_000
_COMMAND_NS = 50_000


class HardDisk:
    """One hard disk.

    Invariant: the head stands behind the block it touched last, and is idle from `_idle_ns` on, but for reading on into
    the buffer if `_reads_on`.
    """

    def __init__(self, blocks: int = 1 << 30) -> None:
        self.blocks = blocks
        self._tracks = blocks // _TRACK_BLOCKS
        self._head = 0
        self._idle_ns = 0
        self._reads_on = False

    def write(self, now_ns: int, runs: Sequence[Run]) -> int:
        """Return when runs are on the medium, begun at now_ns."""
        self._reads_on = False
        for run in runs:
            now_ns = self._serve(now_ns, run)
        return now_ns

    def read(self, now_ns: int, run: Run) -> int:
        """Return when a run has been read, begun at now_ns."""
        first, count = run
        if not self._reads_on or first != self._head:
            self._reads_on = True
            return self._serve(now_ns, run)
        self._head += count
        self._idle_ns += count * _BLOCK_NS  # when the last block has passed, which may be over
        return max(now_ns + _COMMAND_NS, self._idle_ns)

    def flush(self, now_ns: int) -> int:
        """Return at once: what was written is on the medium."""
        return max(now_ns, self._idle_ns)

    def _serve(self, now_ns: int, run: Run) -> int:
        first, count = run
        at_ns = max(now_ns + _COMMAND_NS, self._idle_ns) + self._seek_ns(first)
        angle_ns = first % _TRACK_BLOCKS * _BLOCK_NS
        at_ns += (angle_ns - at_ns) % (_TRACK_BLOCKS * _BLOCK_NS)
        self._head = first + count
        self._idle_ns = at_ns + count * _BLOCK_NS
        return self._idle_ns

    def _seek_ns(self, block: int) -> int:
        distance = abs(block // _TRACK_BLOCKS - self._head // _TRACK_BLOCKS)
        if not distance:
            return 0
        per_root_track = (_THIRD_OF_STROKE_NS - _TRACK_TO_TRACK_NS) // isqrt(self._tracks // 3)
        return _TRACK_TO_TRACK_NS + isqrt(distance) * per_root_track
