"""Neighbour: a process that writes files at a limited rate, syncs them, and watches the dirty limits of the system.

Files of 64 MiB are written in turn and each is synced at its end, as a log or a backup would. The rate is a limit: the
process reports the bytes that it wrote. Linux makes writers pause once dirty pages exceed the mean of
`nr_dirty_background_threshold` and `nr_dirty_threshold` of /proc/vmstat (mm/page-writeback.c, balance_dirty_pages).
"""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

_BLOCK_BYTES = 1 << 20
_BLOCK = bytes(_BLOCK_BYTES)
_FILE_BLOCKS = 64
_FILES = 4
_SAMPLE_SECONDS = 0.05
_END_SECONDS_MAX = 120
SETTLE_SECONDS = 1.0
"""Time from the start of a neighbour to the first measured put."""


class NeighbourReport(NamedTuple):
    """The work of a neighbour between its start and its stop."""

    seconds: float
    written_bytes: int
    slowest_write_ms: float
    slowest_sync_ms: float
    dirty_share_max: float
    """Maximum of dirty pages and pages under write-back, relative to the number at which writers begin to pause."""

    @property
    def rate_bytes(self) -> float:
        """Return the bytes written per second."""
        return self.written_bytes / self.seconds


def dirty_share(counts: Mapping[str, int]) -> float:
    """counts: of /proc/vmstat, in pages."""
    pausing = (counts["nr_dirty_background_threshold"] + counts["nr_dirty_threshold"]) / 2
    return (counts["nr_dirty"] + counts["nr_writeback"]) / max(pausing, 1)


def dirty_limit_bytes() -> int:
    """Return the limit of dirty bytes of the whole system."""
    return _vmstat()["nr_dirty_threshold"] * os.sysconf("SC_PAGE_SIZE")


def _vmstat() -> dict[str, int]:
    lines = Path("/proc/vmstat").read_text().splitlines()
    return {name: int(count) for name, count in map(str.split, lines)}


class Writer:
    """Writes blocks at a rate without catching up, and keeps the figures of a report."""

    def __init__(self, directory: Path, rate_bytes: int) -> None:
        self._directory, self._gap_seconds = directory, _BLOCK_BYTES / rate_bytes
        self._began = self._due = time.monotonic()
        self._sampled = 0.0
        self._descriptor = -1
        self._blocks = 0
        self._slowest_write = self._slowest_sync = self._dirty_share = 0.0

    def wait_seconds(self) -> float:
        """Return the time until the rate allows the next block."""
        return max(self._due - time.monotonic(), 0.0)

    def write_block(self) -> None:
        """Write a block; after the last one of a file, sync the file."""
        self._due = max(self._due, time.monotonic() - self._gap_seconds) + self._gap_seconds
        if self._blocks % _FILE_BLOCKS == 0:
            self._open_next_file()
        self._slowest_write = max(self._slowest_write, _seconds_of(lambda: os.write(self._descriptor, _BLOCK)))
        self._blocks += 1
        if self._blocks % _FILE_BLOCKS == 0:
            self._slowest_sync = max(self._slowest_sync, _seconds_of(lambda: os.fsync(self._descriptor)))
        if time.monotonic() - self._sampled > _SAMPLE_SECONDS:
            self._sampled = time.monotonic()
            self._dirty_share = max(self._dirty_share, dirty_share(_vmstat()))

    def _open_next_file(self) -> None:
        self.close()
        path = self._directory / f"neighbour-{self._blocks // _FILE_BLOCKS % _FILES}"
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)

    def report(self) -> NeighbourReport:
        return NeighbourReport(
            time.monotonic() - self._began,
            self._blocks * _BLOCK_BYTES,
            self._slowest_write * 1e3,
            self._slowest_sync * 1e3,
            self._dirty_share,
        )

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


def _seconds_of(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def main(directory: str, rate_bytes: str) -> None:
    """Write until stdin is closed; then write the report to stdout."""
    writer = Writer(Path(directory), int(rate_bytes))
    while not select.select([sys.stdin], [], [], writer.wait_seconds())[0]:
        writer.write_block()
    writer.close()
    print(json.dumps(writer.report()))


class RunningNeighbour:
    """A running neighbour. `report` is set when the block of `neighbour` ends."""

    report: NeighbourReport


@contextmanager
def neighbour(directory: Path, rate_bytes: int) -> Iterator[RunningNeighbour]:
    """Run a neighbour in an existing directory, and remove its files afterwards."""
    command = [sys.executable, "-m", __name__, str(directory), str(rate_bytes)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    found = RunningNeighbour()
    try:
        time.sleep(SETTLE_SECONDS)
        yield found
        answer, _ = process.communicate(timeout=_END_SECONDS_MAX)  # closes its input, which stops it
        if process.returncode:
            raise RuntimeError(f"the neighbour ended with {process.returncode}")
        found.report = NeighbourReport(*json.loads(answer))
    finally:
        process.kill()
        process.wait()
        for path in directory.glob("neighbour-*"):
            path.unlink()


if __name__ == "__main__":
    main(*sys.argv[1:])
