"""Real puts: a store over threads and maps on this machine, under the same traffic, and files that clock the disk."""

import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

from ....store.message_store import MessageStore
from ....store.real.files import RealFiles, RealMappedFile
from ....store.world import World
from .host import FileStalls
from .traffic import Setup, arrivals, message_of, produce


@contextmanager
def running_store(world: World, setup: Setup, directory: str) -> Iterator[MessageStore]:
    """Yield a new store in a directory, with a first message in it; shut it down in the end."""
    store = MessageStore(world, setup.config(directory))
    store.load()
    store.start()
    try:
        store.put_message(message_of(setup))  # makes the first segment
        yield store
    finally:
        store.shutdown()


def measure(setup: Setup, put: Callable[[], None]) -> "array[int]":
    """Run one series of puts in real time; return their latencies in ns, producer by producer."""
    series: list[array[int]] = [array("q") for _ in range(setup.producers)]
    failures: list[BaseException] = []

    def work(number: int, gaps_ns: "array[int]") -> None:
        try:
            series[number] = produce(gaps_ns, time.perf_counter_ns, lambda ns: time.sleep(ns / 1e9), put)
        except BaseException as failure:
            failures.append(failure)

    threads = [
        Thread(target=work, args=(number, gaps_ns), daemon=True)
        for number, gaps_ns in enumerate(arrivals(setup))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return sum(series, array("q"))


class ClockedFiles:
    """Files of the operating system that note how long the disk kept a store waiting; or whose syncs only sleep.

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
