"""Crash images: the page cache, the durable state, or a mix of both after a power cut.

`sampling` selects random losses, and this module applies them.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from ..disk.changes import Change, Lost, MetadataState, RenameDirectory, RenameExchange
from ..disk.content import Content, with_pages_replaced
from ..disk.image import DamagedRange, Image
from ..disk.namespace import Namespace
from ..disk.page_cache import Inode, Write
from ..kinds import FaultKind
from .page_outcomes import DirtyPage, PageOutcome, apply_outcome, apply_version
from .profiles import CrashProfile, Metadata


def surviving_cache_image(entries: MetadataState, wall_start_ms: int) -> Image:
    """Return the image after a crash that keeps the page cache."""
    files = {path: inode.visible or inode.visible_file(wall_start_ms) for path, inode in entries.contents()}
    return Image(files, tuple(entries.directories - {"/"}), entries.symlink_texts())


def durable_image(entries: MetadataState, upto: int, wall_start_ms: int) -> Image:
    """Return the image after write-back of all dirty pages, without data that failed syncs dropped."""
    contents = {}
    for path, inode in entries.contents():
        inode.make_durable(upto, 0, inode.size_bytes)
        contents[path] = inode.durable_bytes(inode.size_bytes)
    return _build_image(entries, contents, wall_start_ms)


@dataclass(slots=True, eq=False)
class PowerCut:
    """One loss of the page cache: first of metadata, then of dirty pages by path. The disk does not change."""

    _profile: CrashProfile
    _names: Namespace
    page_bytes: int
    _sector_bytes: int
    damage: list[DamagedRange] = field(default_factory=list)
    """Sectors that the power cut filled with garbage, possibly over durable bytes."""
    _dirty: dict[int, list[tuple[int, list[Write]]]] = field(default_factory=dict)
    """Dirty pages with their writes, by Inode.identity."""

    @property
    def page_sectors(self) -> int:
        """Number of sectors of a page; 0 if pages cannot be torn."""
        return 0 if self._profile.whole_pages else self.page_bytes // self._sector_bytes

    def losable_changes(self) -> list[Change]:
        """Return the metadata changes that a crash may lose, oldest first.

        Ordered changes (Metadata.is_in_order) survive as a prefix.
        """
        metadata, names = self._profile.metadata, self._names
        unsynced = [change for change in names.journal if not change.synced]
        if self._profile.drive_cache_survives:
            unsynced = [change for change in unsynced if not change.acknowledged]
        if metadata is Metadata.ANY:
            return unsynced
        if metadata is Metadata.PREFIX_BUT_LOGGED:
            logged = names.logged_changes()
            return [change for change in unsynced if change.number not in logged]
        return [one for one in unsynced if one.number > names.committed or not metadata.is_in_order(one)]

    def entries_without_changes(self, lost: Lost, injected: Counter[str]) -> MetadataState:
        """Return names and sizes without the lost changes, and count each loss in injected."""
        assert lost.keys() <= {change.number for change in self._names.journal}, lost
        entries = self._names.durable.copy()
        undone: list[Change] = []  # lost directory renames, undone in the paths of later changes
        for recorded in self._names.journal:
            change = recorded
            for one in reversed(undone):
                change = change.with_moved_paths(one.before)
            kept_bytes = lost.get(change.number)
            if kept_bytes is not None:
                if isinstance(change, RenameDirectory | RenameExchange):
                    undone.append(recorded)
                change.apply_loss(entries, kept_bytes)
                injected[change.loss_kind(kept_bytes)] += 1
                if change.acknowledged:
                    injected[FaultKind.SYNCED_DATA_LOST] += 1
            else:
                change.apply(entries)
        entries.remove_orphans()  # a lost directory loses its entries
        return entries

    def dirty_pages(self, entries: MetadataState) -> list[DirtyPage]:
        """Return the surviving dirty pages with several possible versions, under each file's first name."""
        files = entries.contents()
        # Reversed, so that the dict keeps the first name. Two names could tear one page in two ways.
        first_name = {inode.identity: path for path, inode in reversed(files)}
        return [
            page
            for path, inode in files
            if inode.pending and first_name[inode.identity] == path
            for page in self.dirty_pages_of(path, inode, entries)
        ]

    def dirty_pages_of(self, path: str, inode: Inode, entries: MetadataState) -> Iterator[DirtyPage]:
        """Yield the surviving dirty pages of one file with several possible versions."""
        size_bytes = entries.sizes.get(inode.identity, 0)
        written = entries.written.get(inode.identity, -1) if self._profile.data_before_size else -1
        pages = self._dirty.get(inode.identity)
        if pages is None:
            pages = self._dirty[inode.identity] = inode.dirty_pages(inode.size_bytes)
        for page, writes in pages:
            if page * self.page_bytes >= size_bytes:
                break
            least = 0
            # If a size survives, the data appended before it does too.
            while least < len(writes) and writes[least][0] <= written:
                least += 1
            if inode.in_drive and self._profile.drive_cache_survives:
                least = max(least, inode.acknowledged_writes(page, writes))
            assert least <= len(writes), (path, page, least, len(writes))
            yield DirtyPage(path, page, writes, least)

    def image(
        self,
        entries: MetadataState,
        dirty: Sequence[DirtyPage],
        page_outcomes: Sequence[PageOutcome],
        injected: Counter[str],
        wall_start_ms: int,
    ) -> Image:
        """Return the durable files with an outcome for each dirty page. injected: counts the faults."""
        outcomes: dict[str, list[tuple[DirtyPage, PageOutcome]]] = {}
        for page, page_outcome in zip(dirty, page_outcomes, strict=True):
            outcomes.setdefault(page.path, []).append((page, page_outcome))
        contents: dict[str, Content] = {}
        laid: dict[int, Content] = {}
        for path, inode in entries.contents():
            content = laid.get(inode.identity)
            if content is None:
                content = inode.durable_bytes(entries.sizes.get(inode.identity, 0))
                if path in outcomes:
                    content = self._content_after_crash(inode, content, outcomes[path], injected)
                laid[inode.identity] = content
            contents[path] = content
        return _build_image(entries, contents, wall_start_ms)

    def _content_after_crash(
        self, inode: Inode, durable: Content, outcomes: Sequence[tuple[DirtyPage, PageOutcome]], injected: Counter[str]
    ) -> Content:
        pages: dict[int, bytearray] = {}
        for page, page_outcome in outcomes:
            start = page.page * self.page_bytes
            content = pages[start] = bytearray(durable[start : start + self.page_bytes])
            version, _, sectors, torn_at, _, filling = page_outcome
            assert page.least <= version <= len(page.writes), (page.label, page.least, page_outcome)
            if sectors or torn_at or filling:
                tears = apply_outcome(content, start, page.writes, page_outcome, self._sector_bytes, durable)
                injected[FaultKind.TORN_PAGE if tears.page else _outcome_name(page, version)] += 1
                if tears.sectors:
                    injected[FaultKind.TORN_SECTOR] += tears.sectors
                if tears.garbage:
                    injected[FaultKind.GARBAGE_SECTOR] += tears.garbage
                    self.damage += self._garbage_ranges(page, page_outcome)
            else:
                if version == len(page.writes):
                    content[:] = inode.readable[start : start + len(content)]
                else:
                    apply_version(content, start, page.writes[:version])
                injected[_outcome_name(page, version)] += 1
            if inode.in_drive and self._exposes_lie(inode, page, page_outcome, content, durable):
                injected[FaultKind.SYNCED_DATA_LOST] += 1
        return with_pages_replaced(durable, pages)

    def _garbage_ranges(self, page: DirtyPage, page_outcome: PageOutcome) -> Iterator[DamagedRange]:
        start = page.page * self.page_bytes
        for sector in range(self.page_sectors):
            if page_outcome.garbage >> sector & 1:
                at = start + sector * self._sector_bytes
                yield DamagedRange(page.path, at, at + self._sector_bytes, FaultKind.GARBAGE_SECTOR)

    def _exposes_lie(
        self, inode: Inode, page: DirtyPage, page_outcome: PageOutcome, found: bytearray, durable: Content
    ) -> bool:
        """Return whether the page has lost acknowledged data of a lying drive."""
        least = inode.acknowledged_writes(page.page, page.writes)
        start = page.page * self.page_bytes
        honest = bytearray(durable[start : start + len(found)])
        version, other = max(page_outcome.version, least), max(page_outcome.other, least)
        honored = page_outcome._replace(version=version, other=other, garbage=0, filling=0)
        apply_outcome(honest, start, page.writes, honored, self._sector_bytes)
        return least > 0 and honest != found


def _outcome_name(page: DirtyPage, version: int) -> str:
    if version == len(page.writes):
        return FaultKind.PAGE_KEPT
    return FaultKind.INTERMEDIATE_PAGE if version else FaultKind.PAGE_LOST


def _build_image(entries: MetadataState, contents: dict[str, Content], wall_start_ms: int) -> Image:
    files = {path: inode.file_image_with(contents[path], wall_start_ms) for path, inode in entries.contents()}
    return Image(files, tuple(entries.directories - {"/"}), entries.symlink_texts())


def crash_fingerprint(names: Namespace) -> str:
    """Return a digest of the durable state, the possible losses and the times."""
    digest = blake2b(digest_size=16)
    inodes: dict[int, Inode] = {}
    for entries in (names.durable, names.current):
        digest.update(repr((sorted(entries.names.items()), sorted(entries.directories))).encode())
        inodes.update((inode.identity, inode) for inode in entries.files.values())
    for change in names.journal:
        facts = (change.kind, change.number, change.path, change.synced, change.acknowledged)
        digest.update(repr(facts).encode())
    digest.update(repr(names.committed).encode())
    for identity, inode in sorted(inodes.items()):
        pending = [(number, at, len(data)) for number, at, data in inode.pending]
        rest = (pending, sorted(inode.stale), inode.in_drive, inode.synced_upto, inode.mtime_ns)
        digest.update(repr((identity, inode.size_bytes, rest)).encode())
        digest.update(bytes(inode.durable_bytes(inode.size_bytes)))
    return digest.hexdigest()
