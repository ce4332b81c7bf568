"""Known damage: where the disk has damaged the log unasked, and what the harness has done to single records.

A judge reads the log as it would be without the harness's damage, as long as it is there: what a recovery cut, or what
was put in its place, is seen as it is.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ...faults.disk.image import DamagedRange
from ...store.config import StoreConfig
from ...store.directories import directory_of
from ...store.log.segment_queue import name_of
from .put_entry import PutEntry


class Flaw(NamedTuple):
    """One stretch of bytes that was changed."""

    log_offset: int
    was: bytes
    became: bytes
    put: PutEntry
    """Whose record it is in."""


@dataclass(slots=True, eq=False)
class KnownDamage:
    """Every record that was damaged in one run."""

    flaws: list[Flaw] = field(default_factory=list)
    unreadable: set[int] = field(default_factory=set)
    """Log offsets of records that need not be shown any more; those around them must be."""
    unfit: set[int] = field(default_factory=set)
    """Those of them that no entry may lead to: their queues were lost, and who makes these anew can see the damage."""

    missing: list[tuple[int, int]] = field(default_factory=list)
    """Where the log has no bytes any more, from one log offset to another: segments that were lost."""

    def is_missing(self, log_offset: int) -> bool:
        """Return whether a segment was lost that had the byte at a log offset."""
        return any(begin <= log_offset < end for begin, end in self.missing)

    def after_gap(self, log_offset: int) -> int:
        """Return the first log offset at or after another one that no lost segment had."""
        for begin, end in sorted(self.missing):
            if begin <= log_offset < end:
                log_offset = end
        return log_offset

    @property
    def misnumbered(self) -> set[int]:
        """Log offsets of the records whose number is wrong: where their queues have them, only entries know for sure.

        Neither is what a queue's first number is, nor whether its last record was behind a gap.
        """
        offsets = {flaw.put.physical_offset for flaw in self.flaws}
        return {offset for offset in offsets if offset is not None} - self.unreadable

    def note(self, flaw: Flaw, *, unreadable: bool, unfit: bool = False) -> None:
        """Note what was done to a record."""
        self.flaws.append(flaw)
        if unfit:
            assert flaw.put.physical_offset is not None, flaw.put.name
            self.unfit.add(flaw.put.physical_offset)
        if unreadable:
            assert flaw.put.physical_offset is not None, flaw.put.name
            self.unreadable.add(flaw.put.physical_offset)

    def seen_through(self, view: memoryview, base_offset: int) -> memoryview:
        """Return a segment as it was before the damage; view itself if there is none in it."""
        mended: bytearray | None = None
        for flaw in self.flaws:
            at = flaw.log_offset - base_offset
            if 0 <= at < len(view) and view[at : at + len(flaw.became)] == flaw.became:
                mended = bytearray(view) if mended is None else mended
                mended[at : at + len(flaw.was)] = flaw.was
        return view if mended is None else memoryview(mended)


def damaged_log_offset(config: StoreConfig, damage: Iterable[DamagedRange]) -> int | None:
    """Return the first log offset that is damaged, None if the log is not."""
    directories = config.commit_log_directories
    named = [(name_of(path), start) for path, start, _, _ in damage if directory_of(path) in directories]
    offsets = [int(name) + start for name, start in named if name.isdecimal()]  # others are not of the log
    return min(offsets, default=None)
