"""Syncs: make earlier writes durable after some time, fail, lie, or write the wrong page.

The effect of a failed sync depends on the file system (`FaultPlan.failing_sync`). A later sync always succeeds:

    ext4-ordered  EIO at once; the pages are clean, and readers see the new bytes, which no later sync will write
    xfs           the same
    btrfs         EIO at once; the pages are clean, and readers see the old bytes again
    ext4-data     success, because the journal has the data. The later copy to the file fails, and the data is lost when
                  the journal's space is reused. The file's next sync raises EIO; then as with ext4-ordered

`FaultPlan.sync_error` can replace EIO.

After a failed directory sync the names are not durable. A failed journal write (`stopped_file_system_chance`) stops the
file system until a power-off.

A failed background write-back loses one page, unless a later write repeats the page. The next sync of any part of the
file, by any process, raises EIO.

A lying sync reports success when its data is in the drive's volatile cache, which survives a process kill and a system
crash, but not a power cut. A failed sync also drops its pages from this cache.

A lost or misdirected write affects one page of a successful sync. Readers see the new bytes until a power-off, then the
previous durable content, as after a failed sync.

Sources: Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020; "Improved block-layer error
handling", LWN 724307, and "PostgreSQL's fsync() surprise", LWN 752063, for the report of a failed write-back; Rajimwale
et al., "Coerced Cache Eviction and Discreet-Mode Journaling", DSN 2011, for disks that ignore a flush; Zheng et al.,
FAST 2013, for SSDs that lose acknowledged data; the kernel's description of how volatile write caches are controlled;
Bairavasundaram et al., "An Analysis of Data Corruption in the Storage Stack", FAST 2008, for the frequency of lost and
misdirected writes; Prabhakaran et al., "IRON File Systems", SOSP 2005; Krioukov et al., "Parity Lost and Parity
Regained", FAST 2008, for the effects of a misdirected write on both pages.
"""

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from ...sim.machine import Machine, WaitReason
from ..kinds import FaultKind
from ..plan import FAILING_SYNCS
from .fault_injector import CrashPhase, FaultInjector, os_error
from .image import DamagedRange
from .namespace import Namespace
from .page_cache import Inode

_NOTE_RANGE, _NOTE_FAILED, _NOTE_LIED = 4 << 56, 5 << 56, 6 << 56
_BEFORE_ALL = -1  # less than every operation number
# ext4 and btrfs become read-only. xfs shuts down and refuses reads too.
_STOPPED_WITH = {name: errno.EIO if name == "xfs" else errno.EROFS for name in FAILING_SYNCS}
_Saved = tuple[int, int, bytes]  # durable bytes of a page before a sync: number of the sync, offset, data


class SyncWait(WaitReason):
    """A wait for a sync of one path. data_only: whether the sync excludes timestamps."""

    __slots__ = ("data_only", "kind", "path")

    def __init__(self, kind: str, path: str, *, data_only: bool = False) -> None:
        super().__init__(f"{kind} {path}")
        self.kind = kind
        self.path = path
        self.data_only = data_only


@dataclass(frozen=True, slots=True)
class SyncTiming:
    """Random durations from base_ns_min to base_ns_max. A slow sync takes much longer, as during garbage collection."""

    base_ns_min: int = 100_000
    base_ns_max: int = 2_000_000

    def __post_init__(self) -> None:
        assert 0 <= self.base_ns_min <= self.base_ns_max, self

    def draw(self, injector: FaultInjector, label: str) -> int:
        """Return a random duration in ns, including the rest of a stall. A fixed duration needs no random choice."""
        stream, faults = injector.stream, injector.faults
        stalled_ns = injector.stalled_ns(label) if faults.stall_chance > 0.0 else 0
        if injector.inject_if(FaultKind.SLOW_SYNC, label):
            return stalled_ns + injector.draw_ns(max(self.base_ns_max, 1), faults.slow_sync_ms_max, f"slow {label} ns")
        if self.base_ns_min == self.base_ns_max:
            return stalled_ns + self.base_ns_min
        return stalled_ns + stream.randint(self.base_ns_min, self.base_ns_max, f"{label} ns")


@dataclass(slots=True, eq=False)
class DriveCache:
    """Data of lying syncs in a drive's volatile cache. Invariant: ordered by acknowledgement."""

    _names: Namespace
    _held: list[Callable[[], None]] = field(default_factory=list)

    def add_file(self, inode: Inode, upto: int, start: int, end: int, *, data_only: bool) -> bool:
        """Add the data of a lying file sync. Return whether it has any."""
        grown = self._names.acknowledge_file(inode, upto)
        if not inode.covered_pages(upto, start, end) and not grown:
            return False
        inode.in_drive = (*inode.in_drive, (upto, start, end))

        def make_data_durable() -> None:
            self._names.sync_file(inode, upto, start, end, data_only=data_only)
            inode.make_durable(upto, start, end)
            inode.in_drive = ()

        self._held.append(make_data_durable)
        return True

    def add_directory(self, path: str, upto: int) -> bool:
        """Add the names of a lying directory sync. Return whether it has any."""
        if not self._names.acknowledge_directory(path, upto):
            return False
        self._held.append(lambda: self._names.sync_directory(path, upto))
        return True

    def flush(self) -> None:
        if self._held:
            held, self._held = self._held, []  # oldest first, because a later sync has newer bytes of a page
            for make_data_durable in held:
                make_data_durable()
            assert not self._held, "a flush put something into the drive's cache"


class Syncs:
    """The syncs of one disk. The calling task has passed a scheduling point, and sleeps until the sync completes.

    Invariant: `_journalled` has the durable bytes before each successful sync under ext4-data.
    """

    __slots__ = ("_drive", "_injector", "_journalled", "_kernel", "_names", "_timing")

    def __init__(self, injector: FaultInjector, names: Namespace, timing: SyncTiming) -> None:
        self._kernel = injector.kernel
        self._injector = injector
        self._names = names
        self._timing = timing
        self._drive = DriveCache(names)
        self._journalled: dict[int, list[_Saved]] = {}  # pages only in the journal, by Inode.identity

    def file(self, machine: Machine, why: SyncWait, inode: Inode, start: int, end: int) -> None:
        """Make the pages of [start, end) and the size durable.

        OSError(EIO): the unsynced data of these pages is dropped.
        """
        assert 0 <= start <= end, (start, end)
        injector = self._injector
        number = self._sleep_until_synced(machine, why)
        faults = injector.faults  # the plan may have changed during the wait
        self._kernel.note((_NOTE_RANGE | start, end))
        if (self._journalled and self._journal_fails(why.path, inode)) or (
            (faults.failed_sync_chance > 0.0 and self._write_back_fails(why, inode, number, start, end))
            or (faults.failed_write_back_chance > 0.0 and self._write_back_has_failed(why, inode))
        ):
            self._raise_sync_error(machine, why, number)
        lies = faults.lying_sync_chance > 0.0 and self._draw_lie(why)
        if lies and self._drive.add_file(inode, number, start, end, data_only=why.data_only):
            self._record_lie(number, why.path)
        else:
            self._drive.flush()  # a true sync sends a flush command for all data in the drive
            self._names.sync_file(inode, number, start, end, data_only=why.data_only)
            if faults.lost_write_chance > 0.0 or faults.misdirected_write_chance > 0.0:
                self._write_with_faults(why.path, inode, number, start, end)
            else:
                inode.make_durable(number, start, end)
        if number == injector.crash_at:
            injector.crash_now(machine, why.kind)

    def directory(self, machine: Machine, why: SyncWait) -> None:
        """Make the names in why.path durable. OSError(EIO): the sync failed, and names can still be lost."""
        injector = self._injector
        number = self._sleep_until_synced(machine, why)
        if injector.inject_if(FaultKind.FAILED_DIRECTORY_SYNC, why.label):
            self._raise_sync_error(machine, why, number)
        lies = injector.faults.lying_sync_chance > 0.0 and self._draw_lie(why)
        if lies and self._drive.add_directory(why.path, number):
            self._record_lie(number, why.path)
        else:
            self._drive.flush()
            self._names.sync_directory(why.path, number)
        injector.end_operation(machine, why.kind, number)

    def _sleep_until_synced(self, machine: Machine, why: SyncWait) -> int:
        """Sleep until a sync completes.

        Return the number of the sync, which covers all operations with lower numbers.
        """
        injector = self._injector
        kernel = self._kernel
        number = injector.begin_operation(machine, why.kind, why.path)
        latency_ns = self._timing.draw(injector, why.label)
        assert latency_ns >= 0, (why.label, latency_ns)
        dying = number == injector.crash_at and injector.moment == CrashPhase.DURING
        if dying:  # other tasks have run, but no byte is durable yet
            latency_ns //= 2
        if latency_ns:
            kernel.park(why, kernel.now_ns + latency_ns)
        if dying:
            injector.crash_now(machine, why.kind)
        return number

    def _raise_sync_error(self, machine: Machine, why: SyncWait, number: int) -> NoReturn:
        """Raise the error of a failed sync. A random choice decides whether the file system stops too."""
        injector = self._injector
        self._kernel.note((_NOTE_FAILED, number))
        if injector.inject_if(FaultKind.STOPPED_FILE_SYSTEM, why.label):
            injector.stopped = _STOPPED_WITH[injector.faults.failing_sync]
        injector.end_operation(machine, why.kind, number)
        raise os_error(getattr(errno, injector.faults.sync_error), why.path)

    # -- failed syncs ------------------------------------------------------------------------------

    def _write_back_fails(self, why: SyncWait, inode: Inode, number: int, start: int, end: int) -> bool:
        """Decide randomly whether write-back fails; if so, drop its pages.

        Return whether to raise the error now. Under ext4-data the next sync raises it.
        """
        injector = self._injector
        faults = injector.faults
        if not injector.stream.chance(faults.failed_sync_chance, f"failed sync {why.label}"):
            return False
        if faults.failing_sync == "ext4-data":
            self._save_journalled(inode, number, start, end)
            return False
        injector.count_fault(FaultKind.FAILED_SYNC, why.label)
        self._drop_pages(FaultKind.FAILED_SYNC, why.path, inode, number, start, end)
        return True

    def _write_back_has_failed(self, why: SyncWait, inode: Inode) -> bool:
        """Decide randomly whether an earlier background write-back of one page failed. If so, drop the page.

        A decision at this sync is early enough, because before it only a crash reveals whether the page is durable.
        """
        injector, written = self._injector, self._injector.operations
        dirty = inode.covered_pages(written, 0, inode.size_bytes)
        if not dirty or not injector.inject_if(FaultKind.FAILED_WRITE_BACK, why.label):
            return False
        chosen = injector.stream.randbelow(len(dirty) + 1, f"page of a failed write-back {why.path}")
        if chosen:  # 0: a later write has repeated the page
            first = dirty[chosen - 1] * inode.page_bytes
            self._drop_pages(FaultKind.FAILED_WRITE_BACK, why.path, inode, written, first, first + inode.page_bytes)
        return True

    def _drop_pages(self, kind: FaultKind, path: str, inode: Inode, upto: int, start: int, end: int) -> None:
        """Make dirty pages clean after a failed write-back."""
        lost = inode.fail_write_back(upto, start, end)
        if self._injector.faults.failing_sync == "btrfs":
            self._injector.damage += [DamagedRange(path, *inode.revert_stale_page(page), kind) for page in sorted(lost)]

    def _save_journalled(self, inode: Inode, number: int, start: int, end: int) -> None:
        """Save the durable bytes of pages for a sync that writes only to the journal."""
        page_bytes = inode.page_bytes
        durable_bytes = inode.durable_bytes(inode.size_bytes)
        saved = [
            (number, page * page_bytes, durable_bytes[page * page_bytes : (page + 1) * page_bytes])
            for page in inode.covered_pages(number, start, end)
        ]
        assert all(saved_at % page_bytes == 0 for _, saved_at, _ in saved), saved
        if saved:
            self._journalled.setdefault(inode.identity, []).extend(saved)

    def _journal_fails(self, path: str, inode: Inode) -> bool:
        """Undo earlier syncs that only wrote to the journal. Return whether to raise an error."""
        saved = self._journalled.pop(inode.identity, None)
        if saved is None:
            return False
        # Newest first, because each entry has the bytes before its sync.
        lost = [
            DamagedRange(path, at, at + len(data), FaultKind.LATE_SYNC_ERROR)
            for number, at, data in reversed(saved)
            if inode.restore_old_page(number, at, data)
        ]
        if not lost:
            return False
        self._injector.count_fault(FaultKind.LATE_SYNC_ERROR, path, lost)
        self._injector.count_fault(FaultKind.FAILED_SYNC, path)
        return True

    # -- lying syncs ------------------------------------------------------------------------------

    def _draw_lie(self, why: SyncWait) -> bool:
        injector = self._injector
        return injector.stream.chance(injector.faults.lying_sync_chance, f"lying sync {why.label}")

    def _record_lie(self, number: int, path: str) -> None:
        self._kernel.note((_NOTE_LIED, number))
        self._injector.count_fault(FaultKind.LYING_SYNC, path)

    # -- lost and misdirected writes ------------------------------------------------------------------

    def _write_with_faults(self, path: str, inode: Inode, upto: int, start: int, end: int) -> None:
        """Make writes durable (Inode.make_durable), except a lost or misdirected write."""
        injector = self._injector
        faults, chance = injector.faults, injector.stream.chance
        chances = (
            (FaultKind.LOST_WRITE, faults.lost_write_chance),
            (FaultKind.MISDIRECTED_WRITE, faults.misdirected_write_chance),
        )
        page_bytes = inode.page_bytes
        before = inode.durable_bytes(inode.size_bytes)
        faulty: list[tuple[int, FaultKind]] = []
        for page in inode.covered_pages(upto, start, end):
            for kind, of_all in chances:
                if of_all > 0.0 and chance(of_all, f"{kind} {path}#{page}"):
                    faulty.append((page, kind))
                    break
        inode.make_durable(upto, start, end)
        after = inode.durable_bytes(inode.size_bytes)
        for page, kind in faulty:
            first, last = page * page_bytes, (page + 1) * page_bytes
            if kind is FaultKind.MISDIRECTED_WRITE:
                self._misdirect(path, inode, page, before[first:last], after[first:last])
            elif inode.restore_old_page(_BEFORE_ALL, first, before[first:last]):
                damage = DamagedRange(path, first, first + len(before[first:last]), kind)
                injector.count_fault(kind, path, [damage])

    def _misdirect(self, path: str, inode: Inode, page: int, before: bytes, data: bytes) -> None:
        """Write a page to a random page of some file. The right page stays unchanged if the random page is another
        one.
        """
        label = f"misdirected write {path}#{page}"
        stream, current = self._injector.stream, self._names.current
        sizes = {name: current.files[current.names[name]].size_bytes for name in sorted(current.names)}
        filled = [name for name, size_bytes in sizes.items() if size_bytes]
        target = stream.choice(filled or [path], f"file of a {label}")
        victim = current.inode(target)
        if victim is None:  # no named file has data
            return
        page_bytes = inode.page_bytes
        other = stream.randbelow(-(-victim.size_bytes // page_bytes), f"page of a {label}")
        if victim is inode and other == page:
            return
        first, at = page * page_bytes, other * page_bytes
        end = min(at + page_bytes, victim.size_bytes)
        victim.writable_cache(0)  # readers must no longer see the loaded image
        damage = []
        if inode.restore_old_page(_BEFORE_ALL, first, before):
            damage.append(DamagedRange(path, first, first + len(before), FaultKind.MISDIRECTED_WRITE))
        if victim.restore_old_page(_BEFORE_ALL, at, data[: end - at].ljust(end - at, b"\0")):
            damage.append(DamagedRange(target, at, end, FaultKind.MISDIRECTED_WRITE))
        if damage:
            self._injector.count_fault(FaultKind.MISDIRECTED_WRITE, path, damage)
