"""A simulated machine's files on a host where a store to a map takes its time: page faults, and stalls of the disk."""

from ....faults.disk.files import SimFiles
from ....faults.disk.mapped_file import Buffer, SimMappedFile
from ....sim.processor import Processor
from .stalls import FileStalls

_PAGE_BYTES = 4096


class TouchedFiles:
    """The files of one machine; all but `map` is theirs."""

    def __init__(self, files: SimFiles, processor: Processor, touch_ns: int) -> None:
        self._files = files
        self._processor = processor
        self._touch_ns = touch_ns
        self.touches = 0
        """How many pages were touched first."""
        self.stalls = FileStalls()
        """Which stores from now on the disk keeps waiting."""

    def __getattr__(self, name: str) -> object:
        return getattr(self._files, name)

    def map(self, path: str, size_bytes: int) -> "TouchedMappedFile":
        """Map a file, as the machine does."""
        return TouchedMappedFile(self._files.map(path, size_bytes), self)

    def pay(self, path: str, pages: int) -> None:
        """Let the current task take the time of so many page faults, and of a stall if there is one."""
        self.touches += pages
        took_ns = pages * self._touch_ns + self.stalls.of(path).next_ns()
        if took_ns:
            self._processor.work(took_ns)


class TouchedMappedFile:
    """A mapped file that knows which pages have been stored to; all but `store` is the map's.

    Invariant: bit n of `_touched` says whether page n has been.
    """

    def __init__(self, mapped: SimMappedFile, files: TouchedFiles) -> None:
        self._mapped = mapped
        self._files = files
        self._touched = bytearray(-(-mapped.size_bytes // _PAGE_BYTES))

    def __getattr__(self, name: str) -> object:
        return getattr(self._mapped, name)

    def store(self, at: int, data: Buffer) -> None:
        """Write through the map, after a page fault for each page that is touched first."""
        first, last = at // _PAGE_BYTES, (at + max(len(data), 1) - 1) // _PAGE_BYTES
        new = self._touched.count(0, first, last + 1)
        if new:
            self._touched[first : last + 1] = b"\1" * (last + 1 - first)
        self._files.pay(self._mapped.path, new)
        self._mapped.store(at, data)
