"""Drives: model durations of writes, reads and flushes on hard disks and flash.

Hard disk: seek, rotation, transfer. The angle of the platter depends only on the time, so a sequential write that
misses its sector waits for a whole rotation, as small syncs on real disks do. A finished write is on the medium, so a
flush takes no time. The disk accepts a request while it executes another (command queueing). After a read the disk
prefetches into its buffer until the head must move, so the next sequential read is fast.

Flash drive: a write is finished when its data is in the drive's cache. Without capacitors a flush waits until the data
is programmed into the flash, sometimes much longer because of garbage collection. With capacitors ("data centre"
models) a flush returns at once.

Hard disk figures: 7,200 turns a minute, 0.6 ms from track to track, 8.5 ms for a third of the stroke, 200 MB/s (10^6
bytes), from data sheets of 3.5-inch drives of about 4 TB. Seek times grow as the root of the distance, as in Ruemmler
and Wilkes, "An Introduction to Disk Drive Modeling", IEEE Computer 27(3), 1994. Flash figures: SATA at 500 MB/s and 60
us a command; NVMe at 2.5 GB/s and 12 us, from data sheets of consumer drives; flush times as in Hao et al., "The Tail
at Store", FAST 2016 (slow flushes take tens of times as long as the median).
"""

from collections.abc import Callable, Iterable, Sequence
from math import isqrt
from typing import NamedTuple, Protocol

from ...sim.choices import Stream
from .storage import BLOCK_BYTES, BlockDevice, Run

_MS, _US = 1_000_000, 1_000
_STEPS = 1000  # a resolution for quantiles of 0.1 %


class Durations(Protocol):
    """Durations of one kind of operation."""

    def draw(self, stream: Stream, label: str) -> int:
        """Return the next duration in ns."""


class DurationDistribution:
    """Equally likely durations in ns.

    Invariant: durations are ascending, so that 0, the default choice, selects the shortest.
    """

    __slots__ = ("ns",)

    def __init__(self, ns: Iterable[int]) -> None:
        self.ns = tuple(sorted(ns))
        if not self.ns or self.ns[0] < 0:
            raise ValueError("durations: expected at least one, each of 0 ns or more")

    @classmethod
    def from_points(cls, points: Sequence[tuple[float, int]]) -> "DurationDistribution":
        """Interpolate between points (share of all durations, ns), with shares from 0 to 1."""
        shares = [share for share, _ in points]
        if shares[0] != 0 or shares[-1] != 1 or shares != sorted(set(shares)):
            raise ValueError(f"shares: expected 0 to 1, ascending, found {shares}")
        found, at = [], 0
        for step in range(_STEPS):
            share = (step + 0.5) / _STEPS
            while points[at + 1][0] < share:
                at += 1
            (left, low), (right, high) = points[at], points[at + 1]
            found.append(round(low + (high - low) * (share - left) / (right - left)))
        return cls(found)

    def draw(self, stream: Stream, label: str) -> int:
        return self.ns[stream.randbelow(len(self.ns), label)]

    def quantile(self, share: float) -> int:
        """Return the longest of the given share of shortest durations."""
        return self.ns[min(len(self.ns) - 1, int(share * len(self.ns)))]

    def scaled(self, factor: float) -> "DurationDistribution":
        return DurationDistribution(round(one * factor) for one in self.ns)


_TURN_NS = 60_000_000_000 // 7_200
_BYTES_PER_SECOND = 200_000_000
_TRACK_BLOCKS = _BYTES_PER_SECOND * _TURN_NS // 1_000_000_000 // BLOCK_BYTES
_BLOCK_NS = _TURN_NS // _TRACK_BLOCKS
_TRACK_TO_TRACK_NS = 600_000
_THIRD_OF_STROKE_NS = 8_500_000  # the average seek in data sheets: mean distance of two random tracks
_COMMAND_NS = 50_000


class HardDisk:
    """One hard disk. Invariant: from `_idle_ns` on the disk is idle, or prefetches after the last run if
    `_reads_on`.
    """

    def __init__(self, blocks: int = 1 << 30) -> None:
        self.blocks = blocks
        self._tracks = blocks // _TRACK_BLOCKS
        self._head = 0
        self._idle_ns = 0
        self._reads_on = False

    def write(self, now_ns: int, runs: Sequence[Run]) -> int:
        """Return when a write that begins at now_ns is on the medium."""
        self._reads_on = False
        for run in runs:
            now_ns = self._serve_run(now_ns, run)
        return now_ns

    def read(self, now_ns: int, run: Run) -> int:
        """Return when a read of a block run that begins at now_ns ends."""
        first, count = run
        if not self._reads_on or first != self._head:
            self._reads_on = True
            return self._serve_run(now_ns, run)
        self._head += count
        self._idle_ns += count * _BLOCK_NS  # time, possibly past, at which the last block passes the head
        return max(now_ns + _COMMAND_NS, self._idle_ns)

    def flush(self, now_ns: int) -> int:
        """Return now_ns, because finished writes are on the medium."""
        return max(now_ns, self._idle_ns)

    def _serve_run(self, now_ns: int, run: Run) -> int:
        first, count = run
        assert 0 <= first <= self.blocks - count, (run, self.blocks)
        at_ns = max(now_ns + _COMMAND_NS, self._idle_ns) + self._seek_ns(first)
        angle_ns = first % _TRACK_BLOCKS * _BLOCK_NS
        at_ns += (angle_ns - at_ns) % (_TRACK_BLOCKS * _BLOCK_NS)  # wait for the sector; never negative
        self._head = first + count
        self._idle_ns = at_ns + count * _BLOCK_NS
        assert self._idle_ns > now_ns, (now_ns, self._idle_ns)
        return self._idle_ns

    def _seek_ns(self, block: int) -> int:
        # Proportional to the root of the distance, because the arm accelerates for half of the way, then brakes.
        distance = abs(block // _TRACK_BLOCKS - self._head // _TRACK_BLOCKS)
        if not distance:
            return 0
        per_root_track = (_THIRD_OF_STROKE_NS - _TRACK_TO_TRACK_NS) // isqrt(self._tracks // 3)
        return _TRACK_TO_TRACK_NS + isqrt(distance) * per_root_track


class FlashDrive:
    """One flash drive. Invariant: the drive is idle from `_idle_ns` on, and its cache is empty unless `_dirty`."""

    def __init__(
        self,
        stream: Stream,
        *,
        command_ns: int,
        bytes_per_second: int,
        flush: Durations,
        write_command: Durations | None = None,
        blocks: int = 1 << 30,
        depth: int = 1,
    ) -> None:
        """write_command: durations of write commands without transfer; None: command_ns. depth: number of commands
        that the drive executes at once, except their transfers.
        """
        assert depth > 0, depth
        self.blocks = blocks
        self._stream = stream
        self._command_ns = command_ns
        self._write_command = write_command
        self._overlapped_ns = command_ns // depth
        self._block_ns = BLOCK_BYTES * 1_000_000_000 // bytes_per_second
        self._flush = flush
        self._idle_ns = 0
        self._dirty = False

    def write(self, now_ns: int, runs: Sequence[Run]) -> int:
        """Return when a write that begins at now_ns is in the drive's cache."""
        self._idle_ns = max(now_ns, self._idle_ns)
        if runs:
            self._dirty = True
            command_ns = self._command_ns
            if self._write_command is not None:
                command_ns = self._write_command.draw(self._stream, "write")
            self._idle_ns += command_ns + (len(runs) - 1) * self._overlapped_ns
            self._idle_ns += sum(count for _, count in runs) * self._block_ns
        return self._idle_ns

    def read(self, now_ns: int, run: Run) -> int:
        """Return when a read of a block run that begins at now_ns ends."""
        begun_ns = max(now_ns, self._idle_ns)
        transfer_ns = run[1] * self._block_ns
        # The drive executes `depth` commands at once, so the link is busy for the transfer and a share of the command.
        self._idle_ns = begun_ns + self._overlapped_ns + transfer_ns
        return begun_ns + self._command_ns + transfer_ns

    def flush(self, now_ns: int) -> int:
        """Return when a flush has programmed the cache into the flash."""
        self._idle_ns = max(now_ns, self._idle_ns)
        if self._dirty:
            self._dirty = False
            self._idle_ns += self._flush.draw(self._stream, "flush")
        return self._idle_ns


def sata_ssd(stream: Stream, depth: int = 1) -> FlashDrive:
    """A consumer SATA drive without capacitors."""
    points = [(0.0, 300 * _US), (0.5, 600 * _US), (0.9, 1_200 * _US), (0.99, 6 * _MS), (1.0, 25 * _MS)]
    flush = DurationDistribution.from_points(points)
    return FlashDrive(stream, command_ns=60 * _US, bytes_per_second=500_000_000, flush=flush, depth=depth)


def nvme_ssd(stream: Stream, depth: int = 1) -> FlashDrive:
    """An NVMe server drive with capacitors."""
    points = [(0.0, 8 * _US), (0.5, 12 * _US), (0.9, 25 * _US), (0.99, 150 * _US), (1.0, 2 * _MS)]
    flush = DurationDistribution.from_points(points)
    return FlashDrive(stream, command_ns=12 * _US, bytes_per_second=2_500_000_000, flush=flush, depth=depth)


DeviceModel = Callable[[Stream], BlockDevice]
"""Creates a device that takes its random choices from a stream."""


class NamedModel(NamedTuple):
    """A device model and its description."""

    meaning: str
    make: DeviceModel


MODELS: dict[str, NamedModel] = {
    "hdd": NamedModel("a hard disk of 7,200 turns a minute", lambda stream: HardDisk()),
    "sata-ssd": NamedModel("a SATA flash drive without capacitors", lambda stream: sata_ssd(stream, depth=32)),
    "nvme-ssd": NamedModel("an NVMe flash drive with capacitors", lambda stream: nvme_ssd(stream, depth=64)),
}
"""A flash device executes all commands in its queue at once."""
