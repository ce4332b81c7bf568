"""Disk space: how much room a store's disk has while there is traffic, and what retention removes to make some."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from ...faults.disk.disk import Disk
from ...sim.kernel import Kernel
from ...store.directories import directory_of
from ...store.log.segment_queue import name_of
from ...store.message_store import MessageStore
from ...store.retention.cleaning import SEGMENTS_PER_PASS
from .evidence import Violation
from .invariants import clean

_TAKEN_BACK_PERCENT = 85
_SEGMENTS_FREE = 2
_PASS_NS_MAX = 5_000_000_000
"""How long one pass may take beside pauses; it looks at the disk but once."""


class Filling(NamedTuple):
    """How full a disk was all the time."""

    too_full: bool
    """Whether so little was left that a store must not take any more: RocketMQ's default mark is 90 %."""
    enough: bool
    """Whether a store must take puts: no more was used than RocketMQ's 85 %, and a few segments would fit."""


class Room:
    """The capacity of one life's disk: there is plenty, but for as long as somebody limits it."""

    def __init__(self, kernel: Kernel, disk: Disk, paused_ns: Callable[[int], int]) -> None:
        """paused_ns: returns how long all pauses together are, as far as they are later than some moment."""
        self._kernel = kernel
        self._disk = disk
        self._paused_ns = paused_ns
        self._returned_ns: int | None = None
        """When room last returned."""

    @property
    def is_short(self) -> bool:
        """Return whether there is an end to the room."""
        return self._disk.capacity_bytes is not None

    def look(self, segment_bytes: int) -> Filling:
        """Return how full the disk has been since the last look.

        A store goes by what it has read when it looked. Between two looks it may have removed a segment, found
        that there is room, and made another one.
        """
        least_bytes, most_bytes = self._disk.take_used_extremes()
        capacity_bytes = self._disk.capacity_bytes
        if capacity_bytes is None:
            return Filling(too_full=False, enough=True)
        fits = capacity_bytes - most_bytes >= _SEGMENTS_FREE * segment_bytes
        return Filling(
            too_full=least_bytes * 10 > capacity_bytes * 9,
            enough=fits and most_bytes * 100 <= capacity_bytes * _TAKEN_BACK_PERCENT,
        )

    def ease(self, used_percent: int) -> None:
        """Let the disk hold more than it does now, so that so much of it is used."""
        if self.is_short:
            self._disk.capacity_bytes = self._disk.used_bytes * 100 // used_percent + 1

    def limit(self, capacity_bytes: int) -> None:
        """Let the disk hold so much and no more."""
        assert capacity_bytes > 0, capacity_bytes
        self._disk.capacity_bytes = capacity_bytes

    def give_back(self) -> None:
        """Let there be plenty again."""
        if self.is_short:
            self._disk.capacity_bytes = None
            self._returned_ns = self._kernel.now_ns

    def was_short(self, before_ns: int, within_ns: int = 0) -> bool:
        """Return whether there was an end to the room at some moment, or at most so long before it, pauses left out."""
        if self.is_short or self._returned_ns is None:
            return self.is_short
        return self.awake_ns(self._returned_ns, before_ns) <= within_ns

    def awake_ns(self, since_ns: int, until_ns: int) -> int:
        """Return how much time a store had between two moments to look at its disk: who is paused cannot."""
        return until_ns - since_ns - (self._paused_ns(since_ns) - self._paused_ns(until_ns))


def _is_of_a_queue(directory: str, path: str) -> bool:
    """Return whether a path leads to a file of a queue; others may be beside those, and are nobody's."""
    return path.startswith(f"{directory}/") and directory_of(path).rpartition("/")[2].isdecimal()


class Expiring(Protocol):
    """Whoever keeps what was promised of messages that retention takes."""

    def expire(self, log_offset: int) -> None:
        """Note that segments in front of a log offset are about to go."""

    def end_queue(self, place: tuple[str, int]) -> None:
        """Note that a queue is about to have no file left."""


class WatchedRemovals:
    """A store's files, with an eye on what it removes while it runs; what a recovery removes is DUR's and PREFIX's.

    Each removal is judged, and noted in the ledger, beforehand.
    """

    def __init__(
        self,
        files: Any,
        disk: Disk,
        room: Room,
        ledger: Expiring,
        report: Callable[[Iterable[Violation]], None],
    ) -> None:
        self.store: MessageStore | None = None
        """The store once it has been loaded."""
        self._files = files
        self._disk = disk
        self._room = room
        self._ledger = ledger
        self._report = report
        self._forced = 0
        """How many segments whose time is not over may still go because the disk was found too full."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def unlink(self, path: str) -> None:
        """Remove a name, after a look at what it stands for."""
        store = self.store
        if store is not None:
            config = store.config
            if directory_of(path) in config.commit_log_directories:
                self._segment_goes(store, path)
            elif _is_of_a_queue(config.consume_queue_directory, path):
                left = sorted(set(self._files.list_directory(directory_of(path))) - {name_of(path)})
                following = f"{directory_of(path)}/{left[0]}" if left else None
                self._report(clean.check_queue_removal(store, self._disk, path, following))
                if not left:
                    topic, queue_id = directory_of(path).split("/")[-2:]
                    self._ledger.end_queue((topic, int(queue_id)))
        self._files.unlink(path)

    def _segment_goes(self, store: MessageStore, path: str) -> None:
        base_offset = int(name_of(path))
        if base_offset not in [segment.base_offset for segment in store.log.segments]:
            return  # one that was never used
        self._report(clean.check_removal(store, self._disk, base_offset, asked=self._is_asked_for(store, path)))
        self._ledger.expire(base_offset + store.log.segment_bytes)

    def _is_asked_for(self, store: MessageStore, path: str) -> bool:
        """Return whether a segment's time is over, or the disk so full that it may go for that alone."""
        config, clock = store.config, store.world.clock
        space = self._files.space(path)
        full = space.used_bytes > config.disk_space_clean_forcibly_ratio * (space.used_bytes + space.usable_bytes)
        if full or (not self._room.is_short and self._room.was_short(clock.monotonic_ns(), _PASS_NS_MAX)):
            self._forced = SEGMENTS_PER_PASS
        if self._forced:
            self._forced -= 1
            return True
        changed_ms = self._files.status(path).mtime_ms
        return bool(clock.now_ms() >= changed_ms + config.file_reserved_time_hours * 3_600_000)
