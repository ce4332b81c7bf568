"""Device measurement: times writes past the page cache and flushes of the disk under a directory.

A flush is a sync of a file that has not changed: there is nothing to write, but Linux flushes the disk, and with it the
blocks of the other file (fs/ext4/fsync.c, needs_barrier; fs/xfs/xfs_file.c, xfs_file_fsync). A sync of the written file
would write its inode too.
"""

import mmap
import os
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .....faults.devices.drives import DurationDistribution, FlashDrive
from .....sim.choices import Stream

_BLOCK_BYTES, _CHUNK_BYTES = 4096, 1 << 20
_CHUNKS = 32
DEPTH = 32
"""Commands that a drive executes at once; it is not measured."""


class MeasuredDevice(NamedTuple):
    """The durations of one disk."""

    command_ns: int
    """Shortest time of a write of one block, without a flush. Others include waits for a processor."""
    bytes_per_second: int
    """Rate of the fastest large write."""
    flush_ns: "array[int]"
    """Durations of all flushes, in order."""

    def drive(self, stream: Stream) -> FlashDrive:
        """Return a model of this disk."""
        flush = DurationDistribution(self.flush_ns)
        return FlashDrive(
            stream, command_ns=self.command_ns, bytes_per_second=self.bytes_per_second, flush=flush, depth=DEPTH
        )


class DeviceFile:
    """An open file on the disk, for repeated measurements."""

    def __init__(self, directory: Path) -> None:
        """Raises OSError if the file system has no O_DIRECT."""
        self._path = directory / "device"
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
        self._chunk = mmap.mmap(-1, _CHUNK_BYTES)  # aligned, as O_DIRECT needs
        for number in range(_CHUNKS):
            self._write(number * _CHUNK_BYTES, _CHUNK_BYTES)
        os.fsync(self._descriptor)
        self._unchanged_path = directory / "unchanged"
        self._unchanged = os.open(self._unchanged_path, os.O_RDWR | os.O_CREAT, 0o600)
        os.fsync(self._unchanged)

    def measure(self, flushes: int) -> MeasuredDevice:
        blocks, flush_ns = array("q"), array("q")
        for number in range(flushes):
            at = number % (_CHUNKS * _CHUNK_BYTES // _BLOCK_BYTES) * _BLOCK_BYTES
            blocks.append(_ns_of(lambda at=at: self._write(at, _BLOCK_BYTES)))  # type: ignore[misc]
            flush_ns.append(_ns_of(lambda: os.fdatasync(self._unchanged)))
        command_ns = min(blocks)
        chunk_ns = min(
            _ns_of(lambda number=number: self._write(number * _CHUNK_BYTES, _CHUNK_BYTES))  # type: ignore[misc]
            for number in range(_CHUNKS)
        )
        transfer_ns = max(chunk_ns - command_ns, 1)
        return MeasuredDevice(command_ns, _CHUNK_BYTES * 1_000_000_000 // transfer_ns, flush_ns)

    def _write(self, at: int, size_bytes: int) -> None:
        wrote = os.pwrite(self._descriptor, memoryview(self._chunk)[:size_bytes], at)
        assert wrote == size_bytes, wrote

    def close(self) -> None:
        for descriptor, path in ((self._descriptor, self._path), (self._unchanged, self._unchanged_path)):
            os.close(descriptor)
            path.unlink()


def _ns_of(call: Callable[[], object]) -> int:
    begun_ns = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - begun_ns
