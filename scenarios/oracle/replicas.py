"""What slaves have said they have: each report is compared with the slave's own log in the moment it is sent.

A slave with SYNC_FLUSH promises the disk, any other the page cache, which only a power cut may take from it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...faults.crashes.profiles import CrashProfile
from ...faults.disk.disk import Disk
from ...store.config import FlushDiskType
from ...store.message_store import MessageStore
from .evidence import Violation
from .master_history import log_bytes


@dataclass(slots=True)
class ReportedRange:
    """A stretch of the log that a slave has reported."""

    first: int = 0
    data: bytes = b""

    @property
    def size_bytes(self) -> int:
        """Return how much that is."""
        return len(self.data)

    @property
    def end(self) -> int:
        """Return the log offset behind it."""
        return self.first + len(self.data)

    def holds(self, start: int, wanted: bytes) -> bool:
        """Return whether it has these bytes at a log offset."""
        at = start - self.first
        return at >= 0 and self.data[at : at + len(wanted)] == wanted


@dataclass(slots=True)
class Replicas:
    """All slaves of one master, by host."""

    held: dict[str, ReportedRange] = field(default_factory=dict)
    """What each must still have."""
    lost: list[ReportedRange] = field(default_factory=list)
    """What some had reported before a power cut took it from them."""

    def reported(self, host: str, store: MessageStore, disk: Disk, offset: int) -> Iterator[Violation]:
        """Take note of a report that is being sent; yield what is untrue about it."""
        log = store.log
        if offset > log.max_offset:
            yield Violation(
                "REP",
                f"{host} reports what it does not have",
                "commitlog",
                offset,
                "report",
                str(log.max_offset),
            )
            return
        held = self.held.setdefault(host, ReportedRange())
        if not held.data:
            held.first = max(log.min_offset, 0)
        held.data += log_bytes(log, held.end, offset)
        if store.config.flush_disk_type is FlushDiskType.SYNC_FLUSH:
            for segment in log.segments:
                end = min(offset - segment.base_offset, segment.size_bytes)
                if end > 0 and not disk.is_durable(segment.file.path, 0, end):
                    yield Violation(
                        "REP",
                        f"{host} reports what is not durable there",
                        segment.file.path,
                        end,
                        "report",
                        "after the sync",
                        "before it",
                    )

    def crashed(self, host: str, profile: CrashProfile, *, sync_flush: bool, flushed_where: int) -> None:
        """Take note of the end of a slave's machine: a power cut takes what the slave never promised to keep."""
        held = self.held.get(host)
        if held is None or profile.page_cache_survives or sync_flush:
            return
        self.lost.append(ReportedRange(held.first, held.data))
        held.data = held.data[: max(flushed_where - held.first, 0)]

    def recovered(self, host: str, store: MessageStore) -> None:
        """Take note that a slave still has what it reported, but for a blank record at the end that recovery cuts.

        A master that lost its tail, too, may put a record in the place of that.
        """
        held = self.held.get(host)
        if held is not None:
            held.data = held.data[: max(store.log.max_offset - held.first, 0)]

    def have_had(self, start: int, wanted: bytes) -> bool:
        """Return whether any slave has ever reported these bytes at a log offset."""
        return any(held.holds(start, wanted) for held in (*self.held.values(), *self.lost))
