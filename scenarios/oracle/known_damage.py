"""Known damage: parts of the log that the simulated disk or the test itself damaged.

Checkers read bytes that the test damaged as before, unless recovery has truncated or replaced them since.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ...faults.disk.image import DamagedRange
from ...store.config import StoreConfig
from ...store.directories import directory_of
from ...store.log.segment_queue import file_name_of
from .put_entry import PutEntry


class DamagedBytes(NamedTuple):
    """One changed range of bytes."""

    log_offset: int
    was: bytes
    became: bytes
    put: PutEntry


@dataclass(slots=True, eq=False)
class KnownDamage:
    """All damaged records of a run."""

    flaws: list[DamagedBytes] = field(default_factory=list)
    unreadable: set[int] = field(default_factory=set)
    """Log offsets of records that may be unreadable. Adjacent records must stay readable."""
    without_entry: set[int] = field(default_factory=set)
    """Log offsets of unreadable records that must have no queue entry, because a rebuild finds the damage."""
    missing: list[tuple[int, int]] = field(default_factory=list)
    """Log ranges of lost segments."""

    @property
    def offsets(self) -> set[int | None]:
        return {flaw.put.physical_offset for flaw in self.flaws}

    def is_missing(self, log_offset: int) -> bool:
        return any(begin <= log_offset < end for begin, end in self.missing)

    def first_present_offset(self, log_offset: int) -> int:
        """Return the first log offset, from the given one on, outside of lost segments."""
        for begin, end in sorted(self.missing):
            if begin <= log_offset < end:
                log_offset = end
        assert not self.is_missing(log_offset), log_offset
        return log_offset

    @property
    def wrong_queue_offset_records(self) -> set[int]:
        """Log offsets of records with a wrong queueOffset. Only queue entries have the right offset.

        The log does not determine the first offset of such a queue, nor a gap before its last record.
        """
        return {offset for offset in self.offsets if offset is not None} - self.unreadable

    def record_damage(self, flaw: DamagedBytes, *, unreadable: bool, must_lack_entry: bool = False) -> None:
        assert len(flaw.was) == len(flaw.became), flaw
        self.flaws.append(flaw)
        if must_lack_entry:
            assert flaw.put.physical_offset is not None, flaw.put.name
            self.without_entry.add(flaw.put.physical_offset)
        if unreadable:
            assert flaw.put.physical_offset is not None, flaw.put.name
            self.unreadable.add(flaw.put.physical_offset)

    def view_before_damage(self, view: memoryview, base_offset: int) -> memoryview:
        restored: bytearray | None = None
        for flaw in self.flaws:
            at = flaw.log_offset - base_offset
            if 0 <= at < len(view) and view[at : at + len(flaw.became)] == flaw.became:
                restored = bytearray(view) if restored is None else restored
                restored[at : at + len(flaw.was)] = flaw.was
        return view if restored is None else memoryview(restored)


def damaged_log_offset(config: StoreConfig, damage: Iterable[DamagedRange]) -> int | None:
    directories = config.commit_log_directories
    named = [(file_name_of(path), start) for path, start, _, _ in damage if directory_of(path) in directories]
    offsets = [int(name) + start for name, start in named if name.isdecimal()]  # other names are foreign files
    return min(offsets, default=None)
