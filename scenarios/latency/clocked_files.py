"""Real files whose syncs only sleep, and say exactly how long: for measuring what is not the disk."""

import time
from array import array

from ...store.real.files import RealFiles, RealMappedFile


class StandInFiles:
    """Files of the operating system, but for syncs.

    slept_ns: how long the syncs of the commit log's files have slept, one after the other.
    """

    def __init__(self, sleep_seconds: float) -> None:
        self._files = RealFiles()
        self.sleep_seconds = sleep_seconds
        self.slept_ns = array("q")

    def __getattr__(self, name: str) -> object:
        return getattr(self._files, name)

    def map(self, path: str, size_bytes: int) -> "StandInMappedFile":
        """Map a file."""
        return StandInMappedFile(self._files.map(path, size_bytes), self, is_log="/commitlog/" in path)

    def sync(self, path: str) -> None:
        """Sleep."""
        time.sleep(self.sleep_seconds)

    def sync_directory(self, path: str) -> None:
        """Sleep."""
        time.sleep(self.sleep_seconds)


class StandInMappedFile:
    """A mapped file whose syncs sleep; all else is the map's."""

    def __init__(self, mapped: RealMappedFile, files: StandInFiles, *, is_log: bool) -> None:
        self._mapped = mapped
        self._files = files
        self._is_log = is_log
        self.path = mapped.path
        self.size_bytes = mapped.size_bytes
        self.view = mapped.view
        self.store = mapped.store
        self.pwrite = mapped.pwrite
        self.mlock = mapped.mlock
        self.munlock = mapped.munlock
        self.advise_will_need = mapped.advise_will_need
        self.advise_dont_need = mapped.advise_dont_need
        self.close = mapped.close

    def msync(self, start: int, end: int) -> None:
        """Sleep, and note for how long."""
        begun_ns = time.perf_counter_ns()
        time.sleep(self._files.sleep_seconds)
        if self._is_log:
            self._files.slept_ns.append(time.perf_counter_ns() - begun_ns)

    def fdatasync(self) -> None:
        """Sleep, and note for how long."""
        self.msync(0, self.size_bytes)
