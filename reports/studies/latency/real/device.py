"""Device measurement: times the requests of a sync on the disk of a directory, without the page cache.

A probe sends the requests of one sync: writes of one block (O_DIRECT), one after the other, then a flush. Probes have
the rate of a store's syncs, so the same share of them meets a pause of the disk or follows an idle time. A flush is a
sync of an unchanged file: it writes no data, but Linux flushes the disk, and so the blocks of the other file
(fs/ext4/fsync.c, needs_barrier; fs/xfs/xfs_file.c, xfs_file_fsync). A sync of the written file would also write its
inode. The transfer rate is that of write-back: a sync of many dirty pages.

The module is also the program of a process that probes on request. The scheduler favours a process that was idle, as a
suspended store is; the parent process has just computed a simulation. The argument is the directory.
"""

import errno
import mmap
import os
import sys
import time
from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import median_low
from typing import NamedTuple

from .....faults.devices.drives import FlashDrive
from .....sim.choices import Stream
from .process import serve, store_process, write_stopped

_BLOCK_BYTES = 4096
_FILE_BYTES = 32 << 20
DEPTH = 32
"""Commands that a drive executes at once; it is not measured."""


class MeasuredDevice(NamedTuple):
    """The durations of one disk."""

    write_ns: "array[int]"
    """Durations of writes of one block, without a flush, in order."""
    flush_ns: "array[int]"
    """Durations of flushes, in order."""
    bulk_ns: "array[int]"
    """Durations of syncs of a file with 32 MiB of dirty pages."""

    def joined(self, other: "MeasuredDevice") -> "MeasuredDevice":
        return MeasuredDevice(*(mine + more for mine, more in zip(self, other, strict=True)))

    def drive(self, stream: Stream) -> FlashDrive:
        """Return a model of this disk."""
        transfer_ns = max(median_low(self.bulk_ns) - median_low(self.flush_ns), 1)
        return FlashDrive(
            stream,
            command_ns=min(self.write_ns),
            bytes_per_second=_FILE_BYTES * 1_000_000_000 // transfer_ns,
            flush=InOrder(self.flush_ns),
            write_command=InOrder(self.write_ns),
            depth=DEPTH,
        )


class InOrder:
    """Measured durations in their order, repeated, because a slow phase of a disk lasts for many requests."""

    def __init__(self, durations_ns: Sequence[int]) -> None:
        self._durations_ns = cycle(durations_ns)

    def draw(self, stream: Stream, label: str) -> int:
        return next(self._durations_ns)


def has_direct_writes(directory: Path) -> bool:
    """Return whether the file system of a directory takes writes without the page cache."""
    path = directory / "direct"
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_DIRECT, 0o600))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return False
    finally:
        path.unlink(missing_ok=True)
    return True


class DeviceFile:
    """Open files on the disk, for repeated measurements."""

    def __init__(self, directory: Path) -> None:
        """Raises OSError if the file system has no O_DIRECT."""
        self._paths = [directory / name for name in ("probed", "bulk", "unchanged")]
        flags = os.O_RDWR | os.O_CREAT
        self._probed = os.open(self._paths[0], flags | os.O_DIRECT, 0o600)
        self._bulk, self._unchanged = (os.open(path, flags, 0o600) for path in self._paths[1:])
        self._block = mmap.mmap(-1, _BLOCK_BYTES)  # aligned, as O_DIRECT needs
        for descriptor in (self._bulk, self._probed):
            os.posix_fallocate(descriptor, 0, _FILE_BYTES)
            self._write_bulk(descriptor)
        os.fsync(self._unchanged)

    def measure(self, gaps_ns: Iterable[int], writes: int) -> MeasuredDevice:
        """Time the sync of a large file, and a probe after each gap. writes: of one probe, before its flush."""
        found = MeasuredDevice(array("q"), array("q"), array("q", [self._write_bulk(self._bulk)]))
        places = cycle(range(0, _FILE_BYTES, _BLOCK_BYTES))
        for gap_ns in gaps_ns:
            time.sleep(gap_ns / 1e9)
            for at in (next(places) for _ in range(writes)):
                found.write_ns.append(_ns_of(partial(os.pwrite, self._probed, self._block, at)))
            found.flush_ns.append(_ns_of(partial(os.fdatasync, self._unchanged)))
        return found

    def _write_bulk(self, descriptor: int) -> int:
        """Write a whole file; return the ns of its sync."""
        chunk = mmap.mmap(-1, _FILE_BYTES)
        os.pwrite(descriptor, chunk, 0)
        return _ns_of(partial(os.fdatasync, descriptor))

    def close(self) -> None:
        for descriptor in (self._probed, self._bulk, self._unchanged):
            os.close(descriptor)
        for path in self._paths:
            path.unlink()


class DeviceProbe:
    """A process with a DeviceFile."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        """stack: its exit ends the process. Raises StoreProcessFailed if the file system has no O_DIRECT."""
        command = [sys.executable, "-m", __name__, str(directory)]
        self._process = stack.enter_context(store_process(command, directory / "probe-scratch", None))

    def measure(self, gaps_ns: Sequence[int], writes: int) -> MeasuredDevice:
        """See `DeviceFile.measure`."""
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
