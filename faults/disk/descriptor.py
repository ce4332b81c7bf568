"""A file opened by its descriptor: reads, writes anywhere and behind its end, cuts, allocation, syncs.

It means the file, not its name: it goes on when the file has been renamed or has no name any more. What it is opened
under stays the path in traces, draws and errors.
"""

import errno

from isal.isal_zlib import crc32

from ...sim.machine import Machine
from .capacity import Capacity
from .fault_injector import DURING, FaultInjector, io_error
from .flaws import LATENT_SECTOR_ERROR
from .namespace import Namespace
from .page_cache import Inode
from .syncs import Syncs, SyncWait

_NOTE_WRITE = 7 << 56  # a tag of digest words, beside those of the injector, maps and syncs


class SimDescriptor:
    """One file of a simulated disk. Every call is a scheduling point."""

    __slots__ = ("_capacity", "_file", "_injector", "_is_closed", "_machine", "_names", "_syncs", "path")

    def __init__(
        self,
        path: str,
        file: int,
        machine: Machine,
        names: Namespace,
        injector: FaultInjector,
        syncs: Syncs,
        capacity: Capacity,
    ) -> None:
        self.path = path
        self._file = file
        self._machine = machine
        self._names = names
        self._injector = injector
        self._syncs = syncs
        self._capacity = capacity
        self._is_closed = False

    @property
    def size_bytes(self) -> int:
        """Return the size as readers see it. Not a scheduling point."""
        return self._inode.size_bytes

    @property
    def _inode(self) -> Inode:
        if self._is_closed:
            raise OSError(errno.EBADF, "Bad file descriptor", self.path)
        return self._names.current.files[self._file]

    def read(self, at: int, size_bytes: int) -> bytes:
        """Return up to size_bytes from a position on; fewer only where the file ends first. OSError(EIO) by chance."""
        injector = self._injector
        injector.pause(self._machine, "read")
        injector.wait_for_device("read", self.path)
        injector.check_readable(self.path)
        inode = self._inode
        injector.fail_by_chance(injector.faults.failed_read_chance, "failed read", self.path)
        end = min(at + size_bytes, inode.size_bytes)
        if inode.flaws is not None and inode.flaws.spoils_read(at, end):
            injector.fired[LATENT_SECTOR_ERROR] += 1
            raise io_error(self.path)
        inode.thaw(0)
        return bytes(inode.readable[at:end])

    def write(self, at: int, data: bytes) -> int:
        """Write at a position, growing the file if need be; return how much: all of it, but for a fault that says less.

        What lies between the old end and the position is zeros. OSError(ENOSPC) if there is no room to grow.
        """
        injector = self._injector
        injector.pause(self._machine, "write")
        injector.wait_for_device("write", self.path)
        inode = self._inode
        data = bytes(data[: injector.writable_bytes(self.path, len(data))])
        self._capacity.check_growth(self.path, at + len(data) - inode.size_bytes)
        write_through(injector, self._machine, self._names, self.path, inode, at, data)
        return len(data)

    def allocate(self, size_bytes: int) -> None:
        """Let the file be at least that long, with zeros. OSError(ENOSPC) if there is no room for them."""
        self._injector.pause(self._machine, "extend")
        more_bytes = size_bytes - self.size_bytes
        if more_bytes > 0:
            self._capacity.check_growth(self.path, more_bytes)
            injector, inode = self._injector, self._inode
            number, grown_bytes = injector.begin_growth(
                self._machine, self.path, inode.size_bytes, size_bytes
            )
            inode.thaw(grown_bytes)
            self._names.extend(number, self.path, inode, grown_bytes, in_steps=True)
            injector.end(self._machine, "extend", number)

    def truncate(self, size_bytes: int) -> None:
        """Let the file be exactly that long: cut, or with zeros behind its old end.

        On a drive that lies, what was acknowledged before a cut is unsure until an honest sync of this file.
        """
        injector = self._injector
        injector.pause(self._machine, "truncate")
        if size_bytes > self.size_bytes:
            inode = self._inode
            number = injector.begin_atomic(self._machine, "extend", self.path)
            inode.thaw(size_bytes)
            self._names.extend(number, self.path, inode, size_bytes)
            injector.end(self._machine, "extend", number)
        elif size_bytes < self.size_bytes:
            number = injector.begin_atomic(self._machine, "truncate", self.path)
            wall_ns = injector.wall_ns(self._machine)
            self._names.truncate(number, self.path, self._file, size_bytes, wall_ns)
            injector.end(self._machine, "truncate", number)

    def sync(self) -> None:
        """Make everything written so far, and the size, durable. OSError(EIO): its data never will be."""
        self._injector.pause(self._machine, "sync")
        self._syncs.file(self._machine, SyncWait("sync", self.path), self._inode, 0, self.size_bytes)

    def close(self) -> None:
        """Give the descriptor back. Not a scheduling point; a second call does nothing. Any other use is EBADF."""
        self._is_closed = True


def write_through(
    injector: FaultInjector, machine: Machine, names: Namespace, path: str, inode: Inode, at: int, data: bytes
) -> None:
    """Write data to the page cache as one operation, and note the size if the file grows.

    A crash during it leaves a drawn number of the first bytes. The caller has passed a scheduling point.
    """
    number = injector.begin(machine, "write", path)
    if number == injector.armed and injector.moment == DURING:
        data = data[: len(data) - injector.stream.below(len(data) + 1, f"bytes not written {path}")]
    if data:
        injector.kernel.note((_NOTE_WRITE | at, crc32(data)))
        grows = at + len(data) > inode.size_bytes
        inode.write(number, at, bytes(data), injector.wall_ns(machine))
        if grows:
            names.extend(number, path, inode, inode.size_bytes, by_write=True)
    injector.end(machine, "write", number)
