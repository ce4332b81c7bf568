"""Variants of a crash: names and sizes after a loss of changes, with all contents of dirty pages.

`CrashCache` shares pages between crashes of one disk, because successive crash points differ in few pages.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heapreplace
from itertools import chain, product
from operator import getitem, mul
from sys import maxsize

from ..disk.changes import Change, Lost, MetadataState
from ..disk.content import with_pages_replaced
from ..disk.image import FileImage, Image
from ..disk.keys import PRIME, names_key, path_factor
from ..disk.namespace import Namespace
from ..disk.page_cache import Inode
from .crash import PowerCut
from .page_contents import PageContents, PageOutcomes
from .page_outcomes import PageOutcome, SectorFaults

Chosen = tuple[int, ...]
"""The outcome number of each dirty page."""
_PAGES_MAX = 1 << 13
_NAMES_MAX = 1 << 16


class SurvivingNames:
    """The names and sizes after a crash, with values that depend only on them."""

    def __init__(self, entries: MetadataState) -> None:
        self.entries = entries
        self.files: dict[str, Inode] = {}
        """Files by path, sorted, without symbolic links."""
        self.names: dict[str, list[str]] = {}
        """All names of each file, by its first name."""
        first: dict[int, str] = {}
        for path, file in sorted(entries.names.items()):
            if file not in entries.symlinks:
                self.files[path] = entries.files[file]
                self.names.setdefault(first.setdefault(file, path), []).append(path)
        self.factors = {path: sum(map(path_factor, names)) for path, names in self.names.items()}
        self.symlinks = entries.symlink_texts()
        self.directories = tuple(sorted(entries.directories - {"/"}))
        self.key = names_key(self.directories, self.symlinks.items())


class _SettledFile:
    """The durable contents of one file by length, and the contents of its dirty pages. A sync makes them stale."""

    __slots__ = ("files", "pages", "settlements")

    def __init__(self, settlements: int) -> None:
        self.settlements = settlements
        self.files: dict[int, FileImage] = {}
        self.pages: dict[tuple[int, int], PageContents] = {}


class CrashCache:
    """Cache of names, durable files and page contents of one disk, for its next crashes.

    Invariant: a cached file is used only while `settlements` of its inode is unchanged.
    """

    def __init__(self, names: Namespace, page_bytes: int, sector_bytes: int, wall_ms: int) -> None:
        self._names = names
        self._page_bytes = page_bytes
        self._sector_bytes = sector_bytes
        self._wall_ms = wall_ms
        self._settled: dict[int, _SettledFile] = {}
        self._page_count = 0
        self._journal_changes = -1
        self._survivors: dict[frozenset[tuple[int, int]], SurvivingNames] = {}
        self._name_count = 0

    def survivors(self, cut: PowerCut, lost: Lost) -> SurvivingNames:
        if self._names.journal_changes != self._journal_changes or self._name_count > _NAMES_MAX:
            self._journal_changes, self._name_count = self._names.journal_changes, 0
            self._survivors.clear()
        key = frozenset(lost.items())
        found = self._survivors.get(key)
        if found is None:
            found = self._survivors[key] = SurvivingNames(cut.entries_without_changes(lost, Counter()))
            self._name_count += 1 + len(found.files)
        return found

    def file(self, inode: Inode, size_bytes: int) -> FileImage:
        """Return a durable file at the length that survives the crash."""
        files = self._settled_file(inode).files
        known = files.get(size_bytes)
        if known is None:
            known = inode.file_image_with(inode.durable_bytes(size_bytes), self._wall_ms)
        else:
            known = known.with_mtime(inode.mtime_ms(self._wall_ms))
        files[size_bytes] = known
        return known

    def contents(self, inode: Inode, page: int, file: FileImage) -> PageContents:
        """Return the contents of a dirty page. file: the durable file."""
        start = page * self._page_bytes
        size_bytes = min(self._page_bytes, len(file.held) - start)
        pages = self._settled_file(inode).pages
        known = pages.get((page, size_bytes))
        if known is None:
            durable = bytes(file.held[start : start + size_bytes])
            known = pages[page, size_bytes] = PageContents(page, self._page_bytes, durable, self._sector_bytes)
            self._page_count += 1
        return known

    def _settled_file(self, inode: Inode) -> _SettledFile:
        found = self._settled.get(inode.identity)
        if found is None or found.settlements != inode.settlements:
            if self._page_count > _PAGES_MAX:  # some entries are stale, or of removed files
                self._settled.clear()
                self._page_count = 0
            found = self._settled[inode.identity] = _SettledFile(inode.settlements)
        return found


class MetadataVariant:
    """The names and sizes after a loss of metadata changes, with all states of the files' pages."""

    def __init__(
        self, cut: PowerCut, unsure: Sequence[Change], lost: Lost, sector_faults: SectorFaults, cache: CrashCache
    ) -> None:
        survivors = cache.survivors(cut, lost)
        self.lost = lost
        self.loss_kinds = frozenset(change.loss_kind(lost[change.number]) for change in unsure if change.number in lost)
        self._survivors = survivors
        sizes = survivors.entries.sizes
        self._durable = {
            path: cache.file(inode, sizes.get(inode.identity, 0)) for path, inode in survivors.files.items()
        }
        self._durable_image: Image | None = None
        self._durable_key: int | None = None
        self.pages: list[PageOutcomes] = []
        self._pages_of: dict[str, list[int]] = {}
        for path, factor in survivors.factors.items():
            inode, file = survivors.files[path], self._durable[path]
            dirty = cut.dirty_pages_of(path, inode, survivors.entries) if inode.pending else ()
            for page in dirty:
                contents = cache.contents(inode, page.page, file)
                self._pages_of.setdefault(path, []).append(len(self.pages))
                self.pages.append(PageOutcomes(page, contents, file.held, factor, cut.page_sectors, sector_faults))
        self._key_changes = [page.key_changes for page in self.pages]
        self._files: dict[tuple[str, Chosen], FileImage] = {}
        self._tried: set[Chosen] = set()

    def new_choices(self, wanted: Iterable[Chosen]) -> Iterator[Chosen]:
        """Yield each choice that is new."""
        tried = self._tried
        for chosen in wanted:
            if chosen not in tried:
                tried.add(chosen)
                yield chosen

    def drawn(self, page_outcomes: Iterable[PageOutcome]) -> Chosen:
        return tuple(page.number(one) for page, one in zip(self.pages, page_outcomes, strict=True))

    def choices_before_operations(self, operations: Iterable[int]) -> Iterator[Chosen]:
        """Yield for each operation the choice in which durable writes and writes before it survive.

        operations: latest first. The cost of a choice depends only on the pages that differ from the last one.
        """
        chosen = [0] * len(self.pages)
        newest = [(-maxsize, index) for index in range(len(self.pages))]  # a heap; the first operation sets all pages
        for operation in operations:
            while newest and -newest[0][0] >= operation:
                index = newest[0][1]
                page = self.pages[index]
                kept = bisect_left(page.operations, operation)
                chosen[index] = page.version(max(page.page.least, kept))
                if kept:
                    heapreplace(newest, (-page.operations[kept - 1], index))
                else:
                    heappop(newest)
            yield tuple(chosen)

    @property
    def extreme_choices(self) -> tuple[Chosen, Chosen]:
        """Two choices: all writes survive; only durable writes survive."""
        return tuple(page.latest_version for page in self.pages), tuple(page.least for page in self.pages)

    def every_choice(self) -> Iterator[Chosen]:
        return product(*[range(len(page.contents)) for page in self.pages])

    def single_page_choices(self) -> Iterator[Chosen]:
        """Yield choices with one page that is torn, or has another version than all other pages."""
        return self._choices_for_each_page(lambda page: chain(page.versions, page.tears()))

    def with_sector_faults(self) -> Iterator[Chosen]:
        """Yield choices with one page that is torn inside a sector, or contains garbage."""
        return self._choices_for_each_page(PageOutcomes.with_sector_faults)

    def _choices_for_each_page(self, numbers: Callable[[PageOutcomes], Iterable[int]]) -> Iterator[Chosen]:
        """Yield choices with one page at each of these numbers. All other pages are kept, or all are lost."""
        everything, nothing = self.extreme_choices
        for index, page in enumerate(self.pages):
            for number in numbers(page):
                yield (*everything[:index], number, *everything[index + 1 :])
                yield (*nothing[:index], number, *nothing[index + 1 :])

    def image(self, chosen: Chosen) -> Image:
        assert len(chosen) == len(self.pages), (chosen, len(self.pages))
        survivors, durable = self._survivors, self._durable_image
        if durable is None:
            durable = self._durable_image = Image(self._durable, survivors.directories, survivors.symlinks)
        return durable.with_files(durable.tree.changed(self._changed(chosen), ()))

    def key(self, chosen: Chosen) -> int:
        if self._durable_key is None:
            factors = self._survivors.factors
            keys = (self._durable[path].content_key for path in factors)
            self._durable_key = self._survivors.key + sum(map(mul, factors.values(), keys))
        try:
            return sum(map(getitem, self._key_changes, chosen), self._durable_key) % PRIME
        except IndexError:
            for page in self.pages:
                page.find_key_changes()
            return sum(map(getitem, self._key_changes, chosen), self._durable_key) % PRIME

    def digest(self, chosen: Chosen) -> str:
        survivors = self._survivors
        return Image(self._durable | self._changed(chosen), survivors.directories, survivors.symlinks).digest()

    def _changed(self, chosen: Chosen) -> dict[str, FileImage]:
        """Return the files with dirty pages after a choice."""
        files: dict[str, FileImage] = {}
        for path, indexes in self._pages_of.items():
            files |= dict.fromkeys(self._survivors.names[path], self._file(path, indexes, chosen))
        return files

    def _file(self, path: str, indexes: list[int], chosen: Chosen) -> FileImage:
        key = (path, tuple([chosen[index] for index in indexes]))
        known = self._files.get(key)
        if known is None:
            known = self._files[key] = self._build_file(path, indexes, chosen)
        return known

    def _build_file(self, path: str, indexes: list[int], chosen: Chosen) -> FileImage:
        durable = self._durable[path]
        content = with_pages_replaced(
            durable.held, {self.pages[index].start: self.pages[index].contents[chosen[index]] for index in indexes}
        )
        if content is durable.held:
            return durable
        file = FileImage(content, durable.mtime_ms)
        if self._durable_key is not None:  # the state has computed its key
            changes = (self.pages[index].content_key_change(chosen[index]) for index in indexes)
            file.content_key = (durable.content_key + sum(changes)) % PRIME
        return file
