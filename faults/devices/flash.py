"""Flash drives: no arm, a cache, and a flush that takes as long as what the cache holds takes to program.

A write ends in the drive's cache. A flush of a drive without capacitors waits for the flash, with the tail that
collecting garbage gives it; one with them answers at once, and such drives are what "data centre" models are.

Figures: SATA at 500 MB/s and 60 us a command; NVMe at 2.5 GB/s and 12 us (10^6 and 10^9 bytes), from data sheets of
consumer drives; flushes and their tails as in Hao et al., "The Tail at Store", FAST 2016 (slow ones are tens of times
the usual).
"""

from collections.abc import Sequence

from ...sim.choices import Stream
from .spread import Spread
from .storage import BLOCK_BYTES, Run

_MS, _US = 1_000_000, 1_000


class FlashDrive:
    """One drive. Invariant: it is idle from `_idle_ns` on, and its cache is empty unless `_dirty`."""

    def __init__(
        self,
        stream: Stream,
        *,
        command_ns: int,
        bytes_per_second: int,
        flush: Spread,
        blocks: int = 1 << 30,
        depth: int = 1,
    ) -> None:
        """depth: how many commands that are there at once it works on side by side, but for their transfers."""
        self.blocks = blocks
        self._stream = stream
        self._command_ns = command_ns
        self._overlapped_ns = command_ns // depth
        self._block_ns = BLOCK_BYTES * 1_000_000_000 // bytes_per_second
        self._flush = flush
        self._idle_ns = 0
        self._dirty = False

    def write(self, now_ns: int, runs: Sequence[Run]) -> int:
        """Return when runs are in the drive's cache, begun at now_ns."""
        self._idle_ns = max(now_ns, self._idle_ns)
        if runs:
            self._dirty = True
            self._idle_ns += self._command_ns + (len(runs) - 1) * self._overlapped_ns
            self._idle_ns += sum(count for _, count in runs) * self._block_ns
        return self._idle_ns

    def read(self, now_ns: int, run: Run) -> int:
        """Return when a run has been read, begun at now_ns."""
        begun_ns = max(now_ns, self._idle_ns)
        transfer_ns = run[1] * self._block_ns
        self._idle_ns = begun_ns + self._overlapped_ns + transfer_ns
        return begun_ns + self._command_ns + transfer_ns

    def flush(self, now_ns: int) -> int:
        """Return when the cache has been programmed, begun at now_ns."""
        self._idle_ns = max(now_ns, self._idle_ns)
        if self._dirty:
            self._dirty = False
            self._idle_ns += self._flush.draw(self._stream, "flush")
        return self._idle_ns


def sata_ssd(stream: Stream, depth: int = 1) -> FlashDrive:
    """Return a consumer's SATA drive, without capacitors."""
    flush = Spread.through(
        [(0.0, 300 * _US), (0.5, 600 * _US), (0.9, 1_200 * _US), (0.99, 6 * _MS), (1.0, 25 * _MS)]
    )
    return FlashDrive(stream, command_ns=60 * _US, bytes_per_second=500_000_000, flush=flush, depth=depth)


def nvme_ssd(stream: Stream, depth: int = 1) -> FlashDrive:
    """Return an NVMe drive with capacitors, as servers have."""
    flush = Spread.through(
        [(0.0, 8 * _US), (0.5, 12 * _US), (0.9, 25 * _US), (0.99, 150 * _US), (1.0, 2 * _MS)]
    )
    return FlashDrive(stream, command_ns=12 * _US, bytes_per_second=2_500_000_000, flush=flush, depth=depth)
