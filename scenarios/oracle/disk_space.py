"""Disk space: limits a disk during traffic and checks what retention removes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from ...faults.disk.disk import Disk
from ...sim.kernel import Kernel
from ...store.directories import directory_of
from ...store.log.segment_queue import file_name_of
from ...store.message_store import MessageStore
from ...store.retention.cleaning import SEGMENTS_PER_PASS
from .evidence import Violation
from .invariants import clean

_ACCEPTED_PERCENT = 85
_SEGMENTS_FREE = 2
_PASS_NS_MAX = 5_000_000_000
"""Pauses do not count. One retention pass measures the disk only once."""


class DiskFilling(NamedTuple):
    """The disk usage since the last measurement."""

    too_full: bool
    """The store must refuse puts, because usage stayed above RocketMQ's default limit of 90 %."""
    enough: bool
    """The store must accept puts, because usage stayed below RocketMQ's 85 %, and a few segments fit."""


class DiskRoom:
    """The capacity of the disk between a start and a stop of the store, at first unlimited."""

    def __init__(self, kernel: Kernel, disk: Disk, paused_ns: Callable[[int], int]) -> None:
        self._kernel = kernel
        self._disk = disk
        self._paused_ns = paused_ns
        self._returned_ns: int | None = None

    @property
    def is_limited(self) -> bool:
        return self._disk.capacity_bytes is not None

    def take_filling(self, segment_bytes: int) -> DiskFilling:
        """Return the usage since the last call. The store may have replaced a segment since it measured."""
        least_bytes, most_bytes = self._disk.take_used_extremes()
        assert least_bytes <= most_bytes, (least_bytes, most_bytes)
        capacity_bytes = self._disk.capacity_bytes
        if capacity_bytes is None:
            return DiskFilling(too_full=False, enough=True)
        fits = capacity_bytes - most_bytes >= _SEGMENTS_FREE * segment_bytes
        return DiskFilling(
            too_full=least_bytes * 10 > capacity_bytes * 9,
            enough=fits and most_bytes * 100 <= capacity_bytes * _ACCEPTED_PERCENT,
        )

    def raise_capacity(self, used_percent: int) -> None:
        assert 0 < used_percent <= 100, used_percent
        if self.is_limited:
            self._disk.capacity_bytes = self._disk.used_bytes * 100 // used_percent + 1

    def limit_capacity(self, capacity_bytes: int) -> None:
        assert capacity_bytes > 0, capacity_bytes
        self._disk.capacity_bytes = capacity_bytes

    def lift_limit(self) -> None:
        if self.is_limited:
            self._disk.capacity_bytes = None
            self._returned_ns = self._kernel.now_ns

    def was_limited(self, before_ns: int, within_ns: int = 0) -> bool:
        """Return whether the capacity was limited at a time, or at most `within_ns` before it without pauses."""
        if self.is_limited or self._returned_ns is None:
            return self.is_limited
        return self.unpaused_ns(self._returned_ns, before_ns) <= within_ns

    def unpaused_ns(self, since_ns: int, until_ns: int) -> int:
        return until_ns - since_ns - (self._paused_ns(since_ns) - self._paused_ns(until_ns))


def _is_queue_file(directory: str, path: str) -> bool:
    return path.startswith(f"{directory}/") and directory_of(path).rpartition("/")[2].isdecimal()


class RemovalObserver(Protocol):
    """Receives each removal by retention before it happens."""

    def record_expired_before(self, log_offset: int) -> None: ...

    def record_queue_end(self, place: tuple[str, int]) -> None: ...


@dataclass(eq=False)
class WatchedRemovals:
    """The files of a running store. Checks and records each file removal before it happens.

    `check_durable_puts` and `check_log_prefix` check removals during a recovery.
    """

    _files: Any
    _disk: Disk
    _room: DiskRoom
    _ledger: RemovalObserver
    _report: Callable[[Iterable[Violation]], None]
    is_time: Callable[[MessageStore], bool] = lambda _: True
    """Whether expired segments may be removed, if the disk has space."""
    store: MessageStore | None = field(default=None, init=False)
    _forced: int = field(default=0, init=False)
    """The number of unexpired segments that retention may still remove because the disk is full."""

    def __getattr__(self, name: str) -> Any:
        method = vars(self)[name] = getattr(self._files, name)  # later calls find the method here
        return method

    def unlink(self, path: str) -> None:
        store = self.store
        if store is not None:
            config = store.config
            if directory_of(path) in config.commit_log_directories:
                self._judge_segment_removal(store, path)
            elif _is_queue_file(config.consume_queue_directory, path):
                names = sorted(set(self._files.list_directory(directory_of(path))) - {file_name_of(path)})
                left = [name for name in names if name.isdigit()]  # other files are foreign
                following = f"{directory_of(path)}/{left[0]}" if left else None
                self._report(clean.check_queue_removal(store, self._disk, path, following))
                if not left:
                    topic, queue_id = directory_of(path).split("/")[-2:]
                    self._ledger.record_queue_end((topic, int(queue_id)))
        self._files.unlink(path)

    def _judge_segment_removal(self, store: MessageStore, path: str) -> None:
        base_offset = int(file_name_of(path))
        if base_offset not in [segment.base_offset for segment in store.log.segments]:
            return  # the file was never used
        self._report(clean.check_removal(store, self._disk, base_offset, asked=self._is_permitted(store, path)))
        self._ledger.record_expired_before(base_offset + store.log.segment_bytes)

    def _is_permitted(self, store: MessageStore, path: str) -> bool:
        config, clock = store.config, store.world.clock
        used_bytes, capacity_bytes = self._disk.used_bytes, self._disk.capacity_bytes
        full = capacity_bytes is not None and used_bytes > config.disk_space_clean_forcibly_ratio * max(
            used_bytes, capacity_bytes
        )
        if not config.clean_file_forcibly_enable:
            self._forced = 0
        elif full or (not self._room.is_limited and self._room.was_limited(clock.monotonic_ns(), _PASS_NS_MAX)):
            self._forced = SEGMENTS_PER_PASS
        if self._forced:
            self._forced -= 1
            return True
        changed_ms = self._files.status(path).mtime_ms
        return self.is_time(store) and bool(clock.now_ms() >= changed_ms + config.file_reserved_time_hours * 3_600_000)
