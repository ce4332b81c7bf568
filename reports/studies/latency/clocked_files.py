"""Real files that say how long the disk kept a store waiting: in syncs of its log, and in stores through its maps.

Or whose syncs only sleep, to measure what is not the disk.
"""

import time
from array import array

from ....store.real.files import RealFiles, RealMappedFile
from .stalls import FileStalls


class ClockedFiles:
    """Files of the operating system.

    log_syncs_ns: how long the syncs of the commit log's files took, one after the other. stalls: which stores did not
    go through at once.
    """

    def __init__(self, sleep_seconds: float | None = None) -> None:
        """sleep_seconds: how long syncs sleep in place of syncing; None: they sync."""
        self._files = RealFiles()
        self.sleep_seconds = sleep_seconds
        self.log_syncs_ns = array("q")
        self.stalls = FileStalls()

    def __getattr__(self, name: str) -> object:
        return getattr(self._files, name)

    def map(self, path: str, size_bytes: int) -> "ClockedMappedFile":
        """Map a file."""
        return ClockedMappedFile(self._files.map(path, size_bytes), self)

    def begin(self) -> None:
        """Forget what was noted."""
        del self.log_syncs_ns[:]
        self.stalls = FileStalls()

    def sync(self, path: str) -> None:
        """Sync a file, or sleep."""
        if not self._sleep():
            self._files.sync(path)

    def sync_directory(self, path: str) -> None:
        """Sync a directory, or sleep."""
        if not self._sleep():
            self._files.sync_directory(path)

    def _sleep(self) -> bool:
        if self.sleep_seconds is not None:
            time.sleep(self.sleep_seconds)
        return self.sleep_seconds is not None


class ClockedMappedFile:
    """A mapped file; all but its syncs and stores is the map's."""

    def __init__(self, mapped: RealMappedFile, files: ClockedFiles) -> None:
        self._mapped = mapped
        self._files = files
        self._is_log = "/commitlog/" in mapped.path
        self.path = mapped.path
        self.size_bytes = mapped.size_bytes
        self.view = mapped.view
        self.pwrite = mapped.pwrite
        self.mlock = mapped.mlock
        self.munlock = mapped.munlock
        self.advise_will_need = mapped.advise_will_need
        self.advise_dont_need = mapped.advise_dont_need
        self.close = mapped.close

    def store(self, at: int, data: bytes | bytearray | memoryview) -> None:
        """Write through the map, and note how long it took."""
        begun_ns = time.perf_counter_ns()
        self._mapped.store(at, data)
        self._files.stalls.of(self.path).note(time.perf_counter_ns() - begun_ns)

    def msync(self, start: int, end: int) -> None:
        """Sync, or sleep, and note how long it took."""
        begun_ns = time.perf_counter_ns()
        if self._files.sleep_seconds is None:
            self._mapped.msync(start, end)
        else:
            time.sleep(self._files.sleep_seconds)
        if self._is_log:
            self._files.log_syncs_ns.append(time.perf_counter_ns() - begun_ns)

    def fdatasync(self) -> None:
        """Sync all of it, or sleep, and note how long it took."""
        self.msync(0, self.size_bytes)
