"""Mapped file of a simulated disk: stores and views through the map, pwrite, syncs.

A map of a file with unreadable sectors or holes has its own class, which raises SIGBUS.
"""

import errno
from typing import Protocol

from isal.isal_zlib import crc32

from ...sim.machine import Machine
from ..kinds import FaultKind
from .fault_injector import CrashPhase, os_error
from .page_cache import FileFlaws, Inode
from .syncs import Syncs, SyncWait
from .volume import Volume

Buffer = bytes | bytearray | memoryview
_NOTE_STORE, _NOTE_PWRITE = 1 << 56, 2 << 56
_WORD_BYTES = 8
# memcpy copies so few bytes by whole words. It may copy more by `rep movsb`, which an interrupt can end at any byte.
_WHOLE_WORDS_BYTES_MAX = 64
_IDENTITY_MAX = 0xFFFF  # 16 bits of a digest word; all higher numbers share a value


class SimMappedFile:
    """A map of the first size_bytes of a file. ValueError: an offset is outside the map."""

    __slots__ = (
        *("_injector", "_inode", "_kernel", "_limit", "_machine", "_msync", "_pwrite_word", "_store_word"),
        *("__weakref__", "_syncs", "_volume", "path", "size_bytes"),
    )

    def __init__(
        self, path: str, size_bytes: int, inode: Inode, machine: Machine, volume: Volume, syncs: Syncs
    ) -> None:
        assert size_bytes <= inode.size_bytes, (path, size_bytes, inode.size_bytes)
        self.path = path
        self.size_bytes = size_bytes
        self._limit = size_bytes  # -1 after close, so that one comparison rejects closed maps and bad offsets
        self._inode = inode
        self._machine = machine
        self._volume = volume
        self._injector = volume.injector
        self._kernel = volume.injector.kernel
        self._syncs = syncs
        self._msync = SyncWait("msync", path, data_only=True)
        file = min(inode.identity, _IDENTITY_MAX) << 40
        self._store_word = _NOTE_STORE | file
        self._pwrite_word = _NOTE_PWRITE | file

    def view(self, start: int, end: int) -> memoryview:
        """Return a read-only view without copying. No scheduling point."""
        if not 0 <= start <= end <= self._limit:
            raise self._out_of_bounds_error(start, end)
        return self._inode.readable[start:end]

    @property
    def pages(self) -> "MapPages":
        """Return the map as writable pages."""
        return MapPages(self)

    def store(self, at: int, data: Buffer) -> None:
        """Write through the map. Readers see the bytes at once, but the bytes become durable later."""
        # `pause` and `begin` of the injector and `Inode.write` are inlined, because the calls would dominate the cost.
        injector, kernel = self._injector, self._kernel
        kernel.fuel -= 1
        if kernel.fuel < 0:
            injector.pause_slowly(self._machine, "store")
        end = at + len(data)
        if at < 0 or end > self._limit:
            raise self._out_of_bounds_error(at, end)
        if type(data) is not bytes:
            data = bytes(data)  # a copy, because the caller may change its buffer
        number = injector.operations
        injector.operations = number + 1
        if number == injector.crash_at and injector.is_crash_due(number, "store", self.path, at):
            self._crash_in_write("store", number, at, data)
        if kernel.trace is not None:
            kernel.trace.add_event("store", f"{self.path} [{at}, {end})")
        inode = self._inode
        inode.cache[at:end] = data
        inode.mtime_ns = kernel.now_ns + self._machine.wall_offset_ms * 1_000_000
        kernel.note((self._store_word | at, crc32(data)))
        if inode.stale:
            at, data = inode.write_in_cache(at, data)
        inode.pending.append((number, at, data))

    def pwrite(self, at: int, data: Buffer) -> int:
        """Write through the descriptor and return the number of written bytes."""
        injector, kernel = self._injector, self._kernel
        kernel.fuel -= 1
        if kernel.fuel < 0:
            injector.pause_slowly(self._machine, "pwrite")
        injector.wait_for_device("pwrite", self.path)
        end = at + len(data)
        if at < 0 or end > self._limit:
            raise self._out_of_bounds_error(at, end)
        if injector.stopped:
            injector.failed_writes.add(self.path)
            raise os_error(injector.stopped, self.path)
        if type(data) is not bytes:
            data = bytes(data)
        faults = injector.faults
        if faults.failed_write_chance > 0.0 or faults.short_write_chance > 0.0:
            data = data[: injector.writable_bytes(self.path, len(data))]
            end = at + len(data)
        number = injector.operations
        injector.operations = number + 1
        if number == injector.crash_at and injector.is_crash_due(number, "pwrite", self.path, at):
            self._crash_in_write("pwrite", number, at, data)
        if kernel.trace is not None:
            kernel.trace.add_event("pwrite", f"{self.path} [{at}, {end})")
        mtime_ns = kernel.now_ns + self._machine.wall_offset_ms * 1_000_000
        self._inode.write(number, at, data, mtime_ns)
        kernel.note((self._pwrite_word | at, crc32(data)))
        return len(data)

    def msync(self, start: int, end: int) -> None:
        """Make the pages of [start, end) and the size durable. After OSError(EIO) the pages' unsynced data is lost."""
        kernel = self._kernel
        kernel.fuel -= 1
        if kernel.fuel < 0:
            self._injector.pause_slowly(self._machine, "msync")
        if not 0 <= start <= end <= self._limit:
            raise self._out_of_bounds_error(start, end)
        self._syncs.file(self._machine, self._msync, self._inode, start, end)

    def fdatasync(self) -> None:
        """Make earlier writes and the size durable. OSError(EIO): as for msync."""
        self._pause_if_open("fdatasync")
        why = SyncWait("fdatasync", self.path, data_only=True)
        self._syncs.file(self._machine, why, self._inode, 0, self._inode.size_bytes)

    def mlock(self) -> None:
        """Lock the pages in memory. OSError(ENOMEM): by chance."""
        injector = self._injector
        self._pause_if_open("mlock")
        if injector.inject_if(FaultKind.REFUSED_MLOCK, self.path):
            raise os_error(errno.ENOMEM, self.path)
        self._volume.note_mlock(self, self._machine, self.path)

    def munlock(self) -> None:
        self._pause_if_open("munlock")
        self._volume.note_munlock(self)

    def advise_will_need(self) -> None:
        """Hints have no effect in the simulation."""
        self._pause_if_open("madvise")

    def advise_dont_need(self, start: int, end: int) -> None:
        self._injector.pause(self._machine, "madvise")
        if not 0 <= start <= end <= self._limit:
            raise self._out_of_bounds_error(start, end)

    def close(self) -> None:
        """Close map and descriptor; a second call has no effect. Earlier views stay readable."""
        self._injector.pause(self._machine, "close")
        self._limit = -1
        self._volume.note_unmap(self)

    def _pause_if_open(self, kind: str) -> None:
        self._injector.pause(self._machine, kind)
        if self._limit < 0:
            raise self._out_of_bounds_error(0, self.size_bytes)

    def _crash_in_write(self, kind: str, number: int, at: int, data: bytes) -> None:
        """Crash during the write, which loses a random number of its last bytes. A short store loses whole words."""
        injector = self._injector
        reached = 0
        if injector.moment == CrashPhase.AFTER:
            reached = len(data)
        elif injector.moment == CrashPhase.DURING:
            reached = len(data) - injector.stream.randbelow(len(data) + 1, f"bytes not written {self.path}")
            if kind == "store" and reached < len(data) <= _WHOLE_WORDS_BYTES_MAX:
                reached -= reached % _WORD_BYTES
        if reached:
            self._inode.write(number, at, data[:reached], injector.wall_ns(self._machine))
        injector.crash_now(self._machine, kind)

    def _out_of_bounds_error(self, start: int, end: int) -> ValueError:
        if self._limit < 0:
            return ValueError(f"{self.path}: the map is closed")
        return ValueError(f"{self.path}: [{start}, {end}) is not within [0, {self.size_bytes})")


class WritableMap(Protocol):
    """The part of a mapped file that `MapPages` uses."""

    size_bytes: int

    def store(self, at: int, data: Buffer) -> None: ...


class MapPages:
    """A map as a sequence of bytes. An assignment to a slice is one store through the map."""

    __slots__ = ("_file",)

    def __init__(self, file: WritableMap) -> None:
        self._file = file

    def __len__(self) -> int:
        return self._file.size_bytes

    def __setitem__(self, where: slice, data: Buffer) -> None:
        assert where.stop - where.start == len(data), (where, len(data))
        self._file.store(where.start, data)


class ReclaimedMappedFile(SimMappedFile):
    """A map with evicted clean pages. A view reads evicted pages from the disk, or raises an error."""

    __slots__ = ()

    def view(self, start: int, end: int) -> memoryview:
        """Return a view after a page-in. OSError(EIO): by chance."""
        injector = self._injector
        if injector.may_have_page_in_faults and self._inode.is_reclaimable(start, end):
            if injector.inject_if(FaultKind.SLOW_PAGE_IN, self.path):
                injector.wait_for_page(self.path)
            injector.fail_by_chance(FaultKind.FAILED_PAGE_IN, self.path)
        return super().view(start, end)


class FlawedMappedFile(SimMappedFile):
    """A map with bad sectors or holes. A store to such a page is an additional scheduling point."""

    __slots__ = ()

    @property
    def _flaws(self) -> FileFlaws:
        flaws = self._inode.flaws
        assert flaws is not None, self.path
        return flaws

    def view(self, start: int, end: int) -> memoryview:
        """Return a view. A bad sector kills the process (SIGBUS)."""
        readable = super().view(start, end)
        if self._flaws.has_bad_page(start, end):
            self._injector.signal_bus_error(self._machine, FaultKind.LATENT_SECTOR_ERROR, self.path)
        return readable

    def store(self, at: int, data: Buffer) -> None:
        """Write through the map. A bad sector, or a hole on a full disk, kills the process (SIGBUS)."""
        end = at + len(data)
        if at >= 0 and end <= self._limit and (self._flaws.has_bad_page(at, end) or self._flaws.holes_in(at, end)):
            self._load_pages(at, end)
        super().store(at, data)

    def pwrite(self, at: int, data: Buffer) -> int:
        """Write through the descriptor. OSError: EIO for a write of a part of a bad sector, ENOSPC on a full disk."""
        end = at + len(data)
        if at >= 0 and end <= self._limit:
            self._injector.pause(self._machine, "pwrite")
            self._volume.check_write(self.path, self._inode, at, end)
        written = super().pwrite(at, data)
        self._flaws.record_overwrite(at, at + written)
        return written

    def _load_pages(self, start: int, end: int) -> None:
        """Load the pages of [start, end). An unavailable page kills the process."""
        self._injector.pause(self._machine, "page fault")
        if self._flaws.has_bad_page(start, end):
            self._injector.signal_bus_error(self._machine, FaultKind.LATENT_SECTOR_ERROR, self.path)
        if not self._volume.fill_holes(self.path, self._inode, start, end):
            self._injector.signal_bus_error(self._machine, FaultKind.SIGBUS_ON_FULL_DISK, self.path)
