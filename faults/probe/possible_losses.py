"""Possible losses: tracks the effects that one kind of power cut may lose during a run.

An effect is one change of a name or size, the data of one write, or both if the write extends its file. The effect is
open from its operation until it is durable, or until a later step removes its result.
"""

import sys
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from ..crashes.profiles import CrashProfile
from ..disk.changes import Change
from ..disk.disk import Disk

APPEND = "append"
"""Kind of a write that extends its file. Its data and the new size must become durable."""
HIDDEN = sys.maxsize


@dataclass(slots=True, eq=False)
class Effect:
    """The effect of one disk operation."""

    number: int
    """Number of the disk operation."""
    step: int
    kind: str
    """Kind of the change or step, or APPEND."""
    name: str
    """Path of the file, directory or link, or both paths of a rename, as the program uses them."""
    missing: str
    """The sync that makes the effect durable on every disk."""
    file: int
    """File number in the record, or -1."""
    start: int
    end: int
    """Range of the written data. Both are 0 without data."""
    promises_before: int
    """Number of promises before the effect. HIDDEN: the file has no name yet, so a loss has no effect."""


class UnsyncedSpan(NamedTuple):
    """The promises, from first to last, at which an effect was not durable.

    If last is less than first, the effect was not durable at the end of the run, and no promise came after it.
    """

    effect: Effect
    first: int
    last: int


class PossibleLosses:
    """The effects that one kind of power cut may lose now. `spans` has the closed effects that were not durable at a
    promise.

    Invariant: an effect is open while a power cut may lose its change or its data.
    """

    def __init__(self, profile: CrashProfile, disk: Disk) -> None:
        assert not profile.page_cache_survives, profile.name
        self._profile = profile
        self._disk = disk
        self._changes: dict[int, Effect] = {}
        self._data: dict[int, Effect] = {}
        self._journal: list[int] = []
        """A heap of operations with changes that survive as a prefix. The heap may contain durable changes."""
        self._writes: dict[int, deque[Effect]] = defaultdict(deque)
        """Open writes of each file, oldest first. Used only if the file system writes data before the size."""
        self.promises = 0
        self.spans: list[UnsyncedSpan] = []

    def is_open(self, effect: Effect) -> bool:
        return effect.number in self._changes or effect.number in self._data

    def add(self, effect: Effect, change: Change | None, *, has_data: bool) -> None:
        if change is not None:
            self._changes[effect.number] = effect
            self.record_in_journal(change)
        if has_data:
            self._data[effect.number] = effect
            if self._profile.data_before_size:
                self._writes[effect.file].append(effect)

    def record_in_journal(self, change: Change) -> None:
        """On a disk with an ordered journal, record that a change survives if a later one survives."""
        if self._profile.metadata.is_in_order(change):
            heappush(self._journal, change.number)

    def close_durable(self, effects: Iterable[Effect], changes: list[Change]) -> None:
        """Close the effects that are durable now. changes: their changes that are still in the journal."""
        unsure = {change.number for change in self._disk.losable_changes(self._profile, changes)}
        for effect in effects:
            if effect.number not in unsure:
                self._close_durable_change(effect.number)

    def close_committed_changes(self) -> None:
        """Close the changes that the journal has committed."""
        count = 1
        while self._journal:
            oldest = [heappop(self._journal) for _ in range(min(count, len(self._journal)))]
            changes = self._disk.changes_by(number for number in oldest if number in self._changes)
            unsure = {change.number for change in self._disk.losable_changes(self._profile, changes)}
            for number in oldest:
                if number in unsure:
                    heappush(self._journal, number)
                else:
                    self._close_durable_change(number)
            if unsure:
                return
            count *= 2

    def close_data(self, effect: Effect) -> None:
        if self._data.pop(effect.number, None) is not None and effect.number not in self._changes:
            self._close(effect)

    def close_removed(self, effect: Effect) -> None:
        """Close an effect whose result a later step has removed."""
        change, data = self._changes.pop(effect.number, None), self._data.pop(effect.number, None)
        if change is not None or data is not None:
            self._close(effect)

    def finish(self) -> None:
        """Close all effects at the end of the run."""
        for _, effect in sorted({**self._changes, **self._data}.items()):
            if effect.promises_before <= self.promises:
                self.spans.append(UnsyncedSpan(effect, effect.promises_before + 1, self.promises))
        self._changes.clear()
        self._data.clear()

    def _close_durable_change(self, number: int) -> None:
        effect = self._changes.pop(number, None)
        if effect is None:
            return
        has_data = number in self._data
        if effect.kind == APPEND and self._profile.data_before_size:
            # If a length is durable, all earlier data of the file is durable.
            writes = self._writes[effect.file]
            while writes and writes[0].number <= number:
                self.close_data(writes.popleft())
            assert number not in self._data, number
        if not has_data:
            self._close(effect)

    def _close(self, effect: Effect) -> None:
        if effect.promises_before < self.promises:
            self.spans.append(UnsyncedSpan(effect, effect.promises_before + 1, self.promises))
