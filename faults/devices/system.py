"""A machine's way to its storage: page cache, file system and elevator over one device, as far as they take time.

It knows which pages are dirty and where they lie, not what is in them: bytes, and what a crash leaves of them, are
the simulated disk's (`faults.disk`), which lies behind, and whose syncs then take no time of their own.
"""

from collections.abc import Callable

from ...sim.machine import Machine
from .cached_reads import CachedReads
from .elevator import Elevator
from .file_pages import FilePages
from .journal import Journal
from .memory import Memory
from .placement import Placement
from .read_ahead import ReadAhead
from .storage import BLOCK_BYTES, BlockDevice
from .waiters import Waiters
from .write_back import WriteBack

_JOURNAL_BLOCKS = 32_768


class StorageSystem:
    """The storage of one machine. Its tasks, elevator and flusher, belong to `machine`."""

    def __init__(
        self,
        machine: Machine,
        device: BlockDevice,
        memory: Memory,
        *,
        room_blocks: int = 0,
        read_ahead: Callable[[str], ReadAhead] | None = None,
    ) -> None:
        """room_blocks: how many blocks growing files take at a time, 0 for as many as they need.

        read_ahead: makes the read-ahead of a reader of a file, by the file's path; None for Linux's.
        """
        self._kernel = machine.kernel
        self._placement = Placement(device.blocks, room_blocks=room_blocks)
        self.elevator = Elevator(machine, device)
        place = self._placement.take(_JOURNAL_BLOCKS), _JOURNAL_BLOCKS
        self.journal = Journal(self._kernel, self.elevator, place)
        self.write_back = WriteBack(machine, self.elevator, self.journal, self._placement, memory)
        self.reads = CachedReads(self.elevator, memory, read_ahead)
        self._files: dict[str, FilePages] = {}

    def file(self, path: str) -> FilePages:
        """Return what is known of a file."""
        found = self._files.get(path)
        if found is None:
            found = self._files[path] = FilePages(path, Waiters(self._kernel, f"write-back of {path}"))
        return found

    def allocate_ahead(self, path: str, size_bytes: int) -> None:
        """Let a file have blocks side by side for so many bytes, unless it has some already."""
        blocks = self.file(path).blocks
        if blocks.ahead is None and not blocks.placed:
            blocks.ahead = self._placement.take(-(-size_bytes // BLOCK_BYTES))

    def read(self, reader: str, path: str, start: int, end: int) -> None:
        """Let the current task wait until a file's bytes [start, end) are in the page cache."""
        if end > start:
            self.reads.read(reader, self.file(path), start // BLOCK_BYTES, (end - 1) // BLOCK_BYTES)
