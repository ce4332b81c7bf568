"""Cuts and faults: records the losses of each crash, by file and sector."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ....faults.disk.aftermath import Aftermath, DiskState, FileState, PageFate
from ....faults.disk.content import Content
from ....faults.disk.disk import Disk
from ....sim.machine import Machine
from .record import ABSENT, BACK, CHANGED, DIRTY, DROPPED, DURABLE, EMPTY, KEPT, LOST, MIXED, Cut, Fault, FileMap, Put
from .task_activity import Moments, Operations


def file_map(
    path: str,
    before: FileState | None,
    at_once: Content | None,
    after: Content | None,
    torn: tuple[int, ...],
    disk: DiskState,
    pages_max: int | None = None,
) -> FileMap:
    """Return the sectors of one file before and after a cut.

    at_once: the content immediately after the cut. after: the content at the next mount. disk has the sizes of pages
    and sectors. For a file with more than pages_max pages, the result has only the pages that were not durable.
    """
    size_before = -1 if before is None else len(before.cache)
    size_after = -1 if after is None else len(after)
    size = max(size_before, size_after, 0)
    page_bytes, sector_bytes = disk.page_bytes, disk.sector_bytes
    pages: Sequence[int] = range(-(-size // page_bytes))
    is_whole, more = pages_max is None or len(pages) <= pages_max, 0
    if not is_whole:
        touched = _touched_sectors(before, len(pages), page_bytes)
        pages, more = touched[:pages_max], len(touched[pages_max:])
    starts = [at for page in pages for at in range(page * page_bytes, min((page + 1) * page_bytes, size), sector_bytes)]
    letters = sector_letters_before(before, starts, sector_bytes)
    letters_after = "".join(
        _letter_after(letter, before, at_once, after, start, start + sector_bytes)
        for letter, start in zip(letters, starts, strict=True)
    )
    is_named = before is not None and before.name_is_durable
    shown = () if is_whole else tuple(pages)
    return FileMap(path, size_before, size_after, letters, letters_after, torn, is_named, shown, more)


def sector_letters_before(file: FileState | None, starts: Iterable[int], sector_bytes: int) -> str:
    size_bytes = 0 if file is None else len(file.cache)
    return "".join(
        ABSENT if file is None or start >= size_bytes else _letter_before(file, start, start + sector_bytes)
        for start in starts
    )


def _touched_sectors(file: FileState | None, pages: int, page_bytes: int) -> list[int]:
    if file is None:
        return []
    dirty = {page for first, last in file.dirty for page in range(first // page_bytes, -(-last // page_bytes))}
    return sorted(page for page in dirty | file.stale if page < pages)


def _letter_before(file: FileState, start: int, stop: int) -> str:
    if any(first < stop and start < last for first, last in file.dirty):
        return DIRTY
    seen = file.cache[start:stop]
    if seen != file.durable_bytes[start:stop]:
        return DROPPED
    return DURABLE if any(seen) else EMPTY


def _letter_after(
    letter: str, before: FileState | None, at_once: Content | None, after: Content | None, start: int, stop: int
) -> str:
    found = b"" if after is None else after[start:stop]
    if not found:
        return ABSENT
    if at_once is None or found != at_once[start:stop]:
        return CHANGED
    if before is None:
        return BACK
    if letter in (EMPTY, DURABLE):
        return letter if found == before.cache[start:stop] else CHANGED
    if found == before.cache[start:stop]:
        return KEPT
    return LOST if found == before.durable_bytes[start:stop] else MIXED


PROCESS_KILL = "process-kill"
_WHILE_OFF = "changed while off"
DISTURBANCES = ("paused task", "paused machine", "clock step")
"""Kinds of fault that a run reports to its trace when it injects them."""
_OF_CUTS = ("crash", "page ", "torn ", "garbage ", "name ", "size ", "directory ", "synced data lost")
_UNDONE = " undone"


class Cuts:
    """The cuts (crashes) of one run. A cut is complete when the next machine has mounted the disk."""

    def __init__(self, puts: Sequence[Put]) -> None:
        self.all: list[Cut] = []
        self._puts = puts
        self._disk: Disk | None = None
        self._machine = ""
        self._open: Cut | None = None
        self._before: DiskState | None = None
        self._aftermath: Aftermath | None = None
        self._crashed: Disk | None = None
        """The last disk with a crash image."""

    @property
    def disk(self) -> Disk | None:
        return self._disk

    def on_mount(self, machine: Machine, disk: Disk, at: int) -> None:
        if disk is not self._disk:
            if self._open is None and self._disk is not None:
                self._record_changes_while_off(at, disk)
            self._close_cut_if_open(disk.content_state(), machine.name)
        elif self._open is not None:
            self._open.how = PROCESS_KILL
            self._close_cut_if_open(disk.content_state(), machine.name)
        self._disk, self._machine = disk, machine.name

    def on_kill(self, at: int) -> None:
        disk = self._disk
        if disk is None:
            return
        met = disk.crash_site
        cut = self._open = Cut(at, self._machine)
        if met is not None:
            cut.operation, cut.path = met.kind, met.path
        self._before, self._aftermath = disk.content_state(), None
        self.all.append(cut)

    @property
    def is_open(self) -> bool:
        """Return whether no machine has mounted the disk since the last crash."""
        return self._open is not None

    @property
    def is_of_the_disk_shown(self) -> bool:
        """Return whether the next reported crash is of the recorded disk. Disks of slaves report crashes too."""
        return self._disk is not None and self._disk.is_finished and self._disk is not self._crashed

    def crashed(self, aftermath: Aftermath) -> None:
        self._aftermath, self._crashed = aftermath, self._disk
        if self._open is not None:
            self._open.how, self._open.lost = aftermath.profile, aftermath.lost

    def finish(self) -> None:
        if self._open is None:
            return
        if self._aftermath is not None:
            self._complete_cut({path: file.content for path, file in self._aftermath.image.files.items()})
        elif self._before is not None:  # the run ended before a crash image existed
            for path, file in self._before.files.items():
                size, sector_bytes = len(file.cache), self._before.sector_bytes
                letters = sector_letters_before(file, range(0, size, sector_bytes), sector_bytes)
                self._open.files.append(FileMap(path, size, size, letters, "", (), file.name_is_durable))

    def _record_changes_while_off(self, at: int, disk: Disk) -> None:
        """If a file changed after a clean stop, open a cut for the changes."""
        assert self._disk is not None, "a machine has mounted the disk"
        before = self._disk.content_state()
        if {path: file.cache for path, file in before.files.items()} != _file_contents(disk.content_state()):
            self._open = Cut(at, self._machine, _WHILE_OFF)
            self._before, self._aftermath = before, None
            self.all.append(self._open)

    def _close_cut_if_open(self, after: DiskState, machine: str) -> None:
        if self._open is not None:
            self._open.following = machine
            self._complete_cut(_file_contents(after))

    def _complete_cut(self, after: Mapping[str, Content]) -> None:
        """after: the files on the disk after the crash."""
        cut, before = self._open, self._before
        assert cut is not None, "a cut is open"
        assert before is not None, "the state before the cut is known"
        left = None if self._aftermath is None else self._aftermath.image.files
        torn = (
            set()
            if self._aftermath is None
            else {(one.path, one.page) for one in self._aftermath.pages if one.ending is PageFate.TORN}
        )
        for path in sorted(before.files.keys() | after.keys()):
            at_once = after.get(path)
            if left is not None:
                at_once = left[path].content if path in left else None
            pages = tuple(sorted(page for name, page in torn if name == path))
            cut.files.append(file_map(path, before.files.get(path), at_once, after.get(path), pages, before))
        cut.damaged = [number for number, put in enumerate(self._puts) if _is_damaged(put, before.files, after)]
        self._open = self._before = self._aftermath = None


def _file_contents(state: DiskState) -> dict[str, Content]:
    return {path: file.cache for path, file in state.files.items()}


def _is_damaged(put: Put, before: Mapping[str, FileState], after: Mapping[str, Content]) -> bool:
    """Return whether the cut damaged the record of a put that readers could see before."""
    had_gone = put.outcomes and not put.outcomes[-1].found
    if put.path not in before or put.start < 0 or had_gone:
        return False
    seen = before[put.path].cache[put.start : put.stop]
    return after.get(put.path, b"")[put.start : put.stop] != seen


class Faults:
    """The faults of a run, except losses in crashes, which `Cuts` records."""

    def __init__(self, moments: Moments) -> None:
        self.all: list[Fault] = []
        self._moments = moments
        self._known: Counter[str] = Counter()

    def record_fault(self, kind: str, about: str) -> None:
        self.all.append(Fault(self._moments.mark(), kind, about))

    def watch_disk(self, disk: Disk) -> None:
        self._known = Counter(disk.injected)

    def record_injected(self, disk: Disk | None, operations: Operations) -> None:
        """Record the faults injected since the last call, and assign them to the current operation."""
        if disk is None or disk.injected == self._known:
            return
        for kind in (disk.injected - self._known).elements():
            if not kind.startswith(_OF_CUTS) and not kind.endswith(_UNDONE):
                self.record_fault(kind, operations.current_operation_path())
        self._known = Counter(disk.injected)
