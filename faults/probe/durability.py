"""Durability report: lists the effects that were not durable when the program made a promise.

A group has the effects of one kind and one source line, on files with names that differ only in numbers, and names the
missing sync. Disks with equal rules share the replay, and the report shows groups that are equal on several disks once.

If the page cache survives the crash, as after a process kill, the crash loses no effect, and the report omits the disk.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from ..crashes.profiles import PROFILES
from ..disk.image import Image
from .possible_losses import Effect, UnsyncedSpan
from .record import ProgramRecord
from .story import where
from .unsynced import UnsyncedEffects

_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class UnsyncedGroup:
    """Effects of one kind that were not durable at a promise, or effects after the last promise that were not durable
    at the end of the run.
    """

    kind: str
    """Kind of the change or write; "append" for a write that made its file longer."""
    name: str
    """The file or directory. For several files, # replaces each number in the name."""
    names: int
    missing: str
    """The sync that would have made the effects durable, such as `fsync of wal.log`."""
    step: int
    """The first step with such an effect."""
    steps: int
    data_bytes: int
    start: int
    end: int
    """The range of the data in the file. Both are 0 without data, or with several files."""
    first_promise: int
    """Number, from 1, of the first promise at which an effect was not durable; 0: no promise."""
    promises: int
    """Number of promises at which an effect was not durable."""


@dataclass(frozen=True, slots=True)
class DurabilityReport:
    """Groups of effects that were not durable, each with the disks on which the group is equal."""

    operations: int
    promises: int
    disks: tuple[str, ...]
    """The disks that lose their page cache in a crash."""
    kept_caches: tuple[str, ...]
    """The disks on which the page cache survives the crash."""
    at_promises: dict[UnsyncedGroup, tuple[str, ...]]
    """Groups of effects that were not durable at a promise. Empty if the run has no promise."""
    at_end: dict[UnsyncedGroup, tuple[str, ...]]
    """Groups of effects after the last promise that were not durable at the end of the run."""

    @property
    def durable_disks(self) -> list[str]:
        """Return the disks on which each promise came after all earlier effects were durable."""
        concerned = {disk for disks in self.at_promises.values() for disk in disks}
        return [disk for disk in self.disks if disk not in concerned] if self.promises else []


def durability_of(record: ProgramRecord, start: Image, disks: Sequence[str]) -> DurabilityReport:
    """Return the effects that were not durable at a promise or at the end of a record. disks: names of profiles.

    EndedEarlyError: the replay was interrupted.
    """
    cut = [disk for disk in disks if not PROFILES[disk].page_cache_survives]
    # Without lying syncs, these two rules alone decide which effects a power cut may lose.
    rules = {disk: (PROFILES[disk].metadata, PROFILES[disk].data_before_size) for disk in cut}
    first_disk = {rule: disk for disk, rule in reversed(rules.items())}
    effects = UnsyncedEffects(record, start, [PROFILES[disk] for disk in first_disk.values()])
    effects.replay_record()
    at_promises: dict[UnsyncedGroup, tuple[str, ...]] = {}
    at_end: dict[UnsyncedGroup, tuple[str, ...]] = {}
    for rule, disk in first_disk.items():
        same = tuple(one for one in cut if rules[one] == rule)
        spans = effects.losses[disk].spans
        for found, is_wanted in ((at_promises, True), (at_end, False)):
            for group in _group_spans(record, [span for span in spans if (span.first <= span.last) is is_wanted]):
                found[group] = found.get(group, ()) + same
    kept = tuple(disk for disk in disks if disk not in cut)
    return DurabilityReport(
        effects.operations,
        effects.promises,
        tuple(cut),
        kept,
        _sort_groups(at_promises, cut),
        _sort_groups(at_end, cut),
    )


def _sort_groups(found: dict[UnsyncedGroup, tuple[str, ...]], disks: list[str]) -> dict[UnsyncedGroup, tuple[str, ...]]:
    """Sort groups by first promise and step, and the disks of each group in the user's order."""
    ordered = sorted(found, key=lambda one: (one.first_promise, one.step, one.kind, disks.index(found[one][0])))
    return {one: tuple(sorted(found[one], key=disks.index)) for one in ordered}


@dataclass(slots=True)
class _GroupSpans:
    """The spans of one group."""

    first: Effect
    names: set[str] = field(default_factory=set)
    steps: set[int] = field(default_factory=set)
    promises: list[tuple[int, int]] = field(default_factory=list)
    data_bytes: int = 0
    start: int = 0
    end: int = 0

    def add(self, span: UnsyncedSpan) -> None:
        effect = span.effect
        if effect.number < self.first.number:
            self.first = effect
        self.names.add(effect.name)
        if effect.end and effect.step not in self.steps:  # a step may have several operations
            self.start = min(self.start, effect.start) if self.data_bytes else effect.start
            self.end = max(self.end, effect.end)
            self.data_bytes += effect.end - effect.start
        self.steps.add(effect.step)
        if span.first <= span.last:
            self.promises.append((span.first, span.last))

    def group(self) -> UnsyncedGroup:
        first, is_one = self.first, len(self.names) == 1
        return UnsyncedGroup(
            first.kind,
            first.name if is_one else _mask_numbers(first.name),
            len(self.names),
            first.missing if is_one else _mask_numbers(first.missing),
            first.step,
            len(self.steps),
            self.data_bytes,
            self.start if is_one else 0,
            self.end if is_one else 0,
            min((one for one, _ in self.promises), default=0),
            _count_covered(self.promises),
        )


def _group_spans(record: ProgramRecord, spans: Iterable[UnsyncedSpan]) -> list[UnsyncedGroup]:
    places = [where(stack) for stack in record.stacks]
    found: dict[tuple[str, ...], _GroupSpans] = {}
    for span in spans:
        effect, step = span.effect, record.steps[span.effect.step]
        name, missing = _mask_numbers(effect.name), _mask_numbers(effect.missing)
        place = places[step.stack] or (step.call if effect.end else "")
        key = effect.kind, name, missing, place
        found.setdefault(key, _GroupSpans(effect)).add(span)
    return [one.group() for one in found.values()]


@lru_cache(maxsize=4096)
def _mask_numbers(text: str) -> str:
    return _DIGITS.sub("#", text)


def _count_covered(ranges: list[tuple[int, int]]) -> int:
    """Return the number of integers in a union of ranges. A range includes its end."""
    covered = upto = 0
    for first, last in sorted(ranges):
        covered += max(0, last - max(first - 1, upto))
        upto = max(upto, last)
    return covered
