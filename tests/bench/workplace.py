"""Workplace of measurements: a temporary directory, its stores and their messages."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

from tornlog.reports.studies.recovery.filled import SteppingClock, batch, message
from tornlog.store.config import StoreConfig
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import real_world

SMALL_QUEUE_BYTES = 2_000
"""Size of a file of each of many queues: a hundred entries."""


@dataclass(frozen=True, slots=True)
class BenchSettings:
    """Sizes and place of the measurements."""

    directory: str | None = None
    """Parent of the new directory; None: the system's directory of temporary files."""
    seconds: float = 1.0
    """Of each loop of calls."""
    log_bytes: int = 1 << 30
    """Of the log that recovery scans."""
    small_log_bytes: int = 64 << 20
    """Of the logs for pulls, queries and dispatch."""
    segment_bytes: int = 64 << 20
    raw_bytes: int = 256 << 20
    """Of the file that measures the disk."""
    history_operations: int = 1_000_000
    """Of the history that is judged."""

    def quick(self) -> "BenchSettings":
        """Return small sizes, for a trial."""
        return replace(
            self,
            seconds=0.2,
            log_bytes=min(self.log_bytes, 64 << 20),
            small_log_bytes=8 << 20,
            raw_bytes=32 << 20,
            history_operations=50_000,
        )


class Workplace:
    """A new directory, removed at the end of the block, also after an error or Ctrl-C."""

    def __init__(self, settings: BenchSettings) -> None:
        self.settings = settings
        self._root = ""
        self._filled: dict[tuple[int, int, bool], str] = {}

    def __enter__(self) -> Self:
        self._root = tempfile.mkdtemp(prefix="tornlog-bench-", dir=self.settings.directory)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._root)

    @contextmanager
    def directory(self) -> Iterator[str]:
        """Yield a new directory and remove it."""
        path = tempfile.mkdtemp(dir=self._root)
        try:
            yield path
        finally:
            shutil.rmtree(path)

    def config(self, directory: str, **others: Any) -> StoreConfig:
        """Return the settings of a store in a directory."""
        return StoreConfig(f"{directory}/store", mapped_file_size_commit_log=self.settings.segment_bytes, **others)

    @contextmanager
    def store(self, **others: Any) -> Iterator[MessageStore]:
        """Yield a new running store with a first message; shut it down and remove it."""
        with self.directory() as directory:
            store = MessageStore(real_world(), self.config(directory, **others))
            store.load()
            store.start()
            try:
                store.put_message(message(0))  # makes the first segment
                yield store
            finally:
                store.shutdown()

    def filled(self, log_bytes: int, body_bytes: int = 1024, *, keyed: bool = False) -> str:
        """Return the directory of a stopped store with a log of that size, made once."""
        which = (log_bytes, body_bytes, keyed)
        if which not in self._filled:
            directory = tempfile.mkdtemp(dir=self._root)
            self._fill(directory, *which)
            self._filled[which] = directory
        return self._filled[which]

    def with_queues(self, queues: int) -> str:
        """Return the directory of a stopped store with so many queues of two messages each, made once."""
        which = (queues, 0, False)
        if which not in self._filled:
            directory = tempfile.mkdtemp(dir=self._root)
            config = self.config(directory, mapped_file_size_consume_queue=SMALL_QUEUE_BYTES)
            store = MessageStore(replace(real_world(), clock=SteppingClock()), config)
            store.load()
            store.start()
            try:
                for number in range(2 * queues):
                    store.put_message(message(100, number % queues))
            finally:
                store.shutdown()
            self._filled[which] = directory
        return self._filled[which]

    def _fill(self, directory: str, log_bytes: int, body_bytes: int, keyed: bool) -> None:
        store = MessageStore(replace(real_world(), clock=SteppingClock()), self.config(directory))
        store.load()
        store.start()
        try:
            number = 0
            while store.max_phy_offset < log_bytes:
                store.put_messages(batch(body_bytes, number, keyed=keyed))
                number += 1
        finally:
            store.shutdown()
