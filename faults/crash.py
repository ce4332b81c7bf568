"""What a crash leaves: the page cache, the platter, or, after a power cut, what chance lets survive of the difference.

A power cut first decides which metadata changes survive, then, in the order of paths and pages, at which moment each
dirty page is. Pure chance per page would almost never lose everything or just one thing, and bugs live there, so each
cut has a mood, drawn first.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from ..sim.choices import Stream
from .changes import Change, Entries
from .image import FileImage, Image
from .moments import DirtyPage, Survivor, lay_survivor
from .namespace import Namespace
from .page_cache import Inode
from .profiles import CrashProfile, Metadata

_CHANGE_MOODS = ("none", "all", "each on its own", "one missing", "one alone")
_PAGE_MOODS = ("none", "all", "any moment", "any moment", "torn", "torn", "one missing", "one alone")
_TEAR_CHANCES = (0.1, 0.5, 1.0)


def cache_image(entries: Entries, wall_start_ms: int) -> Image:
    """Return what survives if the page cache does."""
    return _image(entries, {path: inode.content() for path, inode in _files(entries)}, wall_start_ms)


def platter_image(entries: Entries, upto: int, wall_start_ms: int) -> Image:
    """Return what survives if everything dirty is written out first; what failed syncs dropped is not dirty."""
    contents = {}
    for path, inode in _files(entries):
        inode.make_durable(upto, 0, inode.size_bytes)
        contents[path] = inode.platter(inode.size_bytes)
    return _image(entries, contents, wall_start_ms)


class PowerCut:
    """One loss of the page cache, with the fates it draws and counts."""

    def __init__(
        self, profile: CrashProfile, stream: Stream, fired: Counter[str], page_bytes: int, sector_bytes: int
    ) -> None:
        self._profile = profile
        self._stream = stream
        self._fired = fired
        self._page_bytes = page_bytes
        self._sector_bytes = sector_bytes

    def image(self, names: Namespace, wall_start_ms: int) -> Image:
        """Return what is on the platter."""
        entries = self._surviving_entries(names)
        files = _files(entries)
        dirty: list[DirtyPage] = []
        for path, inode in files:
            if inode.pending:
                dirty += self._dirty_pages(path, inode, entries)
        fates: dict[str, list[tuple[DirtyPage, Survivor]]] = {}
        for page, survivor in zip(dirty, self._survivors(dirty), strict=True):
            fates.setdefault(page.path, []).append((page, survivor))
        contents = {}
        for path, inode in files:
            durable = inode.platter(entries.sizes.get(inode.identity, 0))
            contents[path] = self._content(inode, durable, fates[path]) if path in fates else durable
        return _image(entries, contents, wall_start_ms)

    # ---- metadata --------------------------------------------------------------------------------------------

    def _surviving_entries(self, names: Namespace) -> Entries:
        entries = names.durable.copy()
        kept = self._kept_changes(names)
        for change in names.journal:
            if change.number in kept:
                change.apply(entries)
            else:
                change.lose(entries)
                self._fired[change.lost] += 1
        entries.prune()
        return entries

    def _kept_changes(self, names: Namespace) -> set[int]:
        """Return the numbers of the changes that survive."""
        if self._profile.metadata is Metadata.PREFIX:
            unsure = [change for change in names.journal if change.number > names.committed]
            kept = unsure[: self._moment(len(unsure), "journal length")] if unsure else []
        else:
            unsure = [change for change in names.journal if not change.synced]
            kept = self._kept_in_any_combination(unsure) if unsure else []
        lost = {change.number for change in unsure} - {change.number for change in kept}
        return {change.number for change in names.journal} - lost

    def _kept_in_any_combination(self, unsure: list[Change]) -> list[Change]:
        mood = self._stream.pick(_CHANGE_MOODS, "surviving changes")
        if mood == "none":
            return []
        if mood == "all":
            return unsure
        if mood == "each on its own":
            return [change for change in unsure if self._stream.chance(0.5, change.label)]
        index = self._stream.below(len(unsure), mood)
        return [unsure[index]] if mood == "one alone" else unsure[:index] + unsure[index + 1 :]

    # ---- pages -----------------------------------------------------------------------------------------------

    def _dirty_pages(self, path: str, inode: Inode, entries: Entries) -> Iterator[DirtyPage]:
        """Yield a file's dirty pages in order. Those beyond its surviving size are gone without a draw."""
        size_bytes = entries.sizes.get(inode.identity, 0)
        written = entries.written.get(inode.identity, -1) if self._profile.data_before_size else -1
        for page, writes in inode.dirty_pages(size_bytes):
            least = 0
            while least < len(writes) and writes[least][0] <= written:
                least += 1
            yield DirtyPage(path, page, writes, least)

    def _survivors(self, dirty: Sequence[DirtyPage]) -> list[Survivor]:
        """Draw a mood, and by it what becomes of each dirty page."""
        if not dirty:
            return []
        stream = self._stream
        mood = stream.pick(_PAGE_MOODS, "surviving pages")
        if mood == "any moment":
            return [self._at_any_moment(page, page.label) for page in dirty]
        if mood == "torn":
            chance = stream.pick(_TEAR_CHANCES, "tearing")
            return [self._torn(page, chance) for page in dirty]
        latest = mood in ("all", "one missing")
        survivors = [Survivor(len(page.writes) if latest else page.least) for page in dirty]
        if mood in ("one missing", "one alone"):
            index = stream.below(len(dirty), mood)
            survivors[index] = Survivor(dirty[index].least if latest else len(dirty[index].writes))
        return survivors

    def _at_any_moment(self, page: DirtyPage, label: str) -> Survivor:
        return Survivor(page.least + self._moment(len(page.writes) - page.least, label))

    def _torn(self, page: DirtyPage, chance: float) -> Survivor:
        """Draw a moment and, by chance, another one and the sectors that have that."""
        label = page.label
        whole = self._at_any_moment(page, label)
        moments = len(page.writes) - page.least + 1
        if moments == 1 or not self._stream.chance(chance, f"{label} torn"):
            return whole
        further = 1 + self._stream.below(moments - 1, f"{label} other")
        other = page.least + (whole.moment - page.least + further) % moments
        sectors = self._stream.below(1 << self._page_bytes // self._sector_bytes, f"{label} sectors")
        return Survivor(whole.moment, other, sectors)

    def _moment(self, last: int, label: str) -> int:
        """Draw a moment, 0 to last: half of the time any, else an end."""
        if last == 0:
            return 0
        drawn = self._stream.below(2 * (last + 1), label)
        if drawn <= last:
            return drawn
        return last if drawn % 2 else 0

    def _content(self, inode: Inode, durable: bytes, fates: list[tuple[DirtyPage, Survivor]]) -> bytes:
        content = bytearray(durable)
        for page, survivor in fates:
            start = page.page * self._page_bytes
            end = min(start + self._page_bytes, len(content))
            torn = False
            if survivor == (len(page.writes), 0, 0):
                content[start:end] = inode.readable[
                    start:end
                ]  # a dirty page's last moment is what readers see
            else:
                torn = lay_survivor(content, start, end, page.writes, survivor, self._sector_bytes)
            self._fired[_fate(page, survivor, torn)] += 1
        return durable if content == durable else bytes(content)


def _fate(page: DirtyPage, survivor: Survivor, torn: bool) -> str:
    if torn:
        return "torn page"
    if survivor.moment == len(page.writes):
        return "page kept"
    return "page at a middle moment" if survivor.moment else "page lost"


def _files(entries: Entries) -> list[tuple[str, Inode]]:
    return [(path, entries.files[file]) for path, file in sorted(entries.names.items())]


def _image(entries: Entries, contents: dict[str, bytes], wall_start_ms: int) -> Image:
    files = {}
    for path, inode in _files(entries):
        content = contents[path]
        mtime_ms = inode.mtime_ms(wall_start_ms)
        if inode.loaded is not None and content is inode.loaded.content:
            files[path] = inode.loaded.touched(mtime_ms)
        else:
            files[path] = FileImage(content, mtime_ms)
    return Image(files, tuple(entries.directories - {"/"}))
