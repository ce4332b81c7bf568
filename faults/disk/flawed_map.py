"""A map of a file with flaws: touching a sector that cannot be read, or a hole that no block is left for, is a SIGBUS.

Few files have flaws, so the check is made here, and the maps of all others know nothing of it.
"""

from ...sim.machine import Machine
from .capacity import Capacity
from .fault_injector import FaultInjector, io_error
from .flaws import LATENT_SECTOR_ERROR, Flaws
from .mapped_file import Buffer, SimMappedFile
from .page_cache import Inode
from .syncs import Syncs

_HOLE_WITHOUT_ROOM = "hole without room"


class FlawedMappedFile(SimMappedFile):
    """A mapped file whose pages may be missing. A store into one of them is a scheduling point more."""

    __slots__ = ("_capacity", "_flaws")

    def __init__(
        self,
        path: str,
        size_bytes: int,
        inode: Inode,
        machine: Machine,
        injector: FaultInjector,
        syncs: Syncs,
        flaws: Flaws,
        capacity: Capacity,
    ) -> None:
        super().__init__(path, size_bytes, inode, machine, injector, syncs)
        self._flaws = flaws
        self._capacity = capacity

    def view(self, start: int, end: int) -> memoryview:
        """Return the bytes as readers see them now; a page with a bad sector is the death of who looks at it."""
        readable = super().view(start, end)
        if self._flaws.spoils(start, end):
            self._injector.signal_bus_error(self._machine, LATENT_SECTOR_ERROR)
        return readable

    def store(self, at: int, data: Buffer) -> None:
        """Write through the map; a page with a bad sector, or a hole and no room, is the death of the process."""
        end = at + len(data)
        if at >= 0 and end <= self._limit and (self._flaws.spoils(at, end) or self._flaws.holes_in(at, end)):
            self._fault_in(at, end)
        super().store(at, data)

    def pwrite(self, at: int, data: Buffer) -> int:
        """Write through the descriptor. OSError(EIO): a bad sector would be written in part; ENOSPC: no room."""
        end = at + len(data)
        if at >= 0 and end <= self._limit:
            self._injector.pause(self._machine, "pwrite")
            if self._flaws.spoils_write(at, end):
                self._injector.fired[LATENT_SECTOR_ERROR] += 1
                raise io_error(self.path)
            if not self._fill_holes(at, end):
                raise self._capacity.full(self.path)
        written = super().pwrite(at, data)
        self._flaws.overwrite(at, at + written)
        return written

    def _fault_in(self, start: int, end: int) -> None:
        """Let the pages of [start, end) come into memory, or die."""
        self._injector.pause(self._machine, "page fault")
        if self._flaws.spoils(start, end):
            self._injector.signal_bus_error(self._machine, LATENT_SECTOR_ERROR)
        if not self._fill_holes(start, end):
            self._injector.signal_bus_error(self._machine, _HOLE_WITHOUT_ROOM)

    def _fill_holes(self, start: int, end: int) -> bool:
        """Give blocks to the holes of [start, end), one by one; return False at the first there is none for."""
        inode = self._inode
        for page in self._flaws.holes_in(start, end):
            if not self._capacity.has_room(min(inode.page_bytes, inode.size_bytes - page * inode.page_bytes)):
                return False
            self._flaws.holes.discard(page)
        return True
