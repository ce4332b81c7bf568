"""Device measurement: times the requests of syncs on the disk under a directory, past the page cache.

A probe sends what a sync sends: writes of one block (O_DIRECT), one after the other, and a flush. Probes come at the
pace of syncs, because a pause of the disk hits as many of them as there are in its time, and the first request after
a rest is slower. A flush is a sync of a file that has not changed: there is nothing to write, but Linux flushes the
disk, and with it the blocks of the other file (fs/ext4/fsync.c, needs_barrier; fs/xfs/xfs_file.c, xfs_file_fsync). A
sync of the written file would write its inode too.

This module is also the program of a process that probes on request, because the system favours a process that has
rested: the parent process has just simulated, while a store has been suspended. Its argument is the directory.
"""

import mmap
import os
import sys
import time
from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from statistics import median_low
from typing import NamedTuple

from .....faults.devices.drives import FlashDrive
from .....sim.choices import Stream
from .process import serve, store_process, write_stopped

_BLOCK_BYTES, _CHUNK_BYTES = 4096, 1 << 20
_CHUNKS = 32
_CHUNK_BLOCKS = _CHUNK_BYTES // _BLOCK_BYTES
DEPTH = 32
"""Commands that a drive executes at once; it is not measured."""


class MeasuredDevice(NamedTuple):
    """The durations of one disk."""

    write_ns: "array[int]"
    """Durations of writes of one block, without a flush, in order."""
    flush_ns: "array[int]"
    """Durations of flushes, in order."""
    chunk_ns: "array[int]"
    """Durations of writes of 1 MiB, one after the other."""

    def joined(self, other: "MeasuredDevice") -> "MeasuredDevice":
        return MeasuredDevice(*(mine + more for mine, more in zip(self, other, strict=True)))

    def drive(self, stream: Stream) -> FlashDrive:
        """Return a model of this disk."""
        command_ns = min(self.write_ns)
        transfer_ns = max(median_low(self.chunk_ns) - median_low(self.write_ns), 1)
        return FlashDrive(
            stream,
            command_ns=command_ns,
            bytes_per_second=_CHUNK_BYTES * 1_000_000_000 // transfer_ns,
            flush=InOrder(self.flush_ns),
            write_command=InOrder(self.write_ns),
            depth=DEPTH,
        )


class InOrder:
    """Measured durations in their order, again and again, because a slow phase of a disk lasts for many requests."""

    def __init__(self, durations_ns: Sequence[int]) -> None:
        self._durations_ns = cycle(durations_ns)

    def draw(self, stream: Stream, label: str) -> int:
        return next(self._durations_ns)


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

    def measure(self, gaps_ns: Iterable[int], writes: int) -> MeasuredDevice:
        """Time some large writes, and a probe after each gap. writes: of one probe, before its flush."""
        found = MeasuredDevice(array("q"), array("q"), array("q"))
        for number in range(_CHUNKS):
            found.chunk_ns.append(_ns_of(lambda at=number * _CHUNK_BYTES: self._write(at, _CHUNK_BYTES)))  # type: ignore[misc]
        os.fdatasync(self._unchanged)
        blocks = cycle(range(_CHUNKS * _CHUNK_BLOCKS))
        for gap_ns in gaps_ns:
            time.sleep(gap_ns / 1e9)
            for block in (next(blocks) for _ in range(writes)):
                found.write_ns.append(_ns_of(lambda at=block * _BLOCK_BYTES: self._write(at, _BLOCK_BYTES)))  # type: ignore[misc]
            found.flush_ns.append(_ns_of(lambda: os.fdatasync(self._unchanged)))
        return found

    def _write(self, at: int, size_bytes: int) -> None:
        wrote = os.pwrite(self._descriptor, memoryview(self._chunk)[:size_bytes], at)
        assert wrote == size_bytes, wrote

    def close(self) -> None:
        for descriptor, path in ((self._descriptor, self._path), (self._unchanged, self._unchanged_path)):
            os.close(descriptor)
            path.unlink()


class DeviceProbe:
    """A process with a DeviceFile."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        """stack: its exit ends the process. Raises StoreProcessFailed if the file system has no O_DIRECT."""
        command = [sys.executable, "-m", __name__, str(directory)]
        self._process = stack.enter_context(store_process(command, directory / "probe-scratch", None))

    def measure(self, gaps_ns: Sequence[int], writes: int) -> MeasuredDevice:
        """As of DeviceFile."""
        with self._process.resumed():
            found = self._process.ask(do="probe", gaps_ns=list(gaps_ns), writes=writes)
        return MeasuredDevice(*(array("q", found[name]) for name in MeasuredDevice._fields))


def _ns_of(call: Callable[[], object]) -> int:
    begun_ns = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - begun_ns


def main(directory: str) -> None:
    file = DeviceFile(Path(directory))
    serve(
        lambda request: {
            name: list(durations_ns)
            for name, durations_ns in file.measure(request["gaps_ns"], request["writes"])._asdict().items()
        }
    )
    file.close()
    write_stopped()


if __name__ == "__main__":
    main(*sys.argv[1:])
