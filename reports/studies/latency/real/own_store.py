"""Program of a store process with this package's store.

Arguments: its directory, the fields of a Setup as JSON, and for a store without a disk the duration of the sleep that
replaces a sync. Such a store answers with the durations of its puts, without these sleeps, instead of latencies.
"""

import json
import sys
import time
from array import array
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from .....store.message_store import MessageStore
from .....store.real.files import RealFiles, RealMappedFile
from .....store.real.world import real_world
from .....store.world import Files
from ..traffic import Setup, checked_put, message_of
from .process import PUT_TIMEOUT_MS, little_endian, serve, write_stopped
from .puts import MeasuredPuts, measure, running_store

_UNCHANGED = (
    *("readable", "pages", "view", "store", "pwrite", "mlock", "munlock", "close"),
    *("advise_will_need", "advise_dont_need"),
)


class SleepingFiles:
    """Real files whose syncs sleep. log_syncs_ns: durations of the sleeps for the commit log, in order."""

    def __init__(self, sleep_seconds: float) -> None:
        self._files = RealFiles()
        self.sleep_seconds = sleep_seconds
        self.log_syncs_ns = array("q")

    def __getattr__(self, name: str) -> object:
        return getattr(self._files, name)

    def map(self, path: str, size_bytes: int) -> "SleepingMappedFile":
        return SleepingMappedFile(self._files.map(path, size_bytes), self)

    def sync(self, path: str) -> None:
        time.sleep(self.sleep_seconds)

    def sync_directory(self, path: str) -> None:
        time.sleep(self.sleep_seconds)


class SleepingMappedFile:
    """A memory-mapped file of `SleepingFiles`."""

    def __init__(self, mapped: RealMappedFile, files: SleepingFiles) -> None:
        self._files = files
        self._is_log = "/commitlog/" in mapped.path
        self.path = mapped.path
        self.size_bytes = mapped.size_bytes
        # Bound once, because __getattr__ would slow down calls. Without `readable` and `pages`, the store would read
        # and append in Python instead of its core in C.
        for name in _UNCHANGED:
            setattr(self, name, getattr(mapped, name))

    def msync(self, start: int, end: int) -> None:
        begun_ns = time.perf_counter_ns()
        time.sleep(self._files.sleep_seconds)
        if self._is_log:
            self._files.log_syncs_ns.append(time.perf_counter_ns() - begun_ns)

    def fdatasync(self) -> None:
        self.msync(0, self.size_bytes)


def main(root: str, setup: str, sleep_seconds: str = "") -> None:
    chosen = Setup(**json.loads(setup))
    timeouts = {"os_page_cache_busy_time_out_ms": PUT_TIMEOUT_MS, "sync_flush_timeout_ms": PUT_TIMEOUT_MS}
    files = SleepingFiles(float(sleep_seconds)) if sleep_seconds else None
    world = real_world() if files is None else replace(real_world(), files=cast(Files, files))
    with running_store(world, chosen, root, **timeouts) as store:
        serve(lambda request: _put(store, chosen, request, files))
    write_stopped()


def _put(store: MessageStore, setup: Setup, request: dict[str, Any], files: SleepingFiles | None) -> dict[str, Any]:
    arrivals = array("q", little_endian(array("q", Path(request["arrivals"]).read_bytes())))
    gaps_ns, start = [], 0
    for count in request["counts"]:
        gaps_ns.append(arrivals[start : start + count])
        start += count
    put = checked_put(store, message_of(setup))
    found = measure(gaps_ns, put) if files is None else _measure_without_disk(gaps_ns, put, setup, files)
    Path(request["answers"]).write_bytes(b"".join(map(little_endian, found)))
    return {"puts": start}


def _measure_without_disk(
    gaps_ns: "list[array[int]]", put: Callable[[], None], setup: Setup, files: SleepingFiles
) -> MeasuredPuts:
    """With sync flush there is one producer, so that each put has a sync of its own."""
    took_ns = array("q")
    del files.log_syncs_ns[:]

    def timed_put() -> None:
        begun_ns = time.perf_counter_ns()
        put()
        took_ns.append(time.perf_counter_ns() - begun_ns)

    found = measure(gaps_ns, timed_put)
    if setup.flush == "sync":
        took_ns = array("q", (took - slept for took, slept in zip(took_ns, files.log_syncs_ns, strict=True)))
    return found._replace(latencies_ns=took_ns)


if __name__ == "__main__":
    main(*sys.argv[1:])
