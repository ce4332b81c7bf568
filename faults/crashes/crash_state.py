"""One state that a crash may leave, and those that differ from it only in what becomes of dirty pages.

States are many and mostly the same as others: each has its digest at once, and its image only when it is asked for.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product
from typing import NamedTuple

from ..disk.changes import Change, Lost, MetadataState
from ..disk.image import FileImage, Image, digest_of_pieces, directory_piece, file_piece
from ..disk.page_cache import Inode
from .crash import PowerCut, file_image
from .page_outcomes import PageOutcomes
from .page_versions import DirtyPage, PageOutcome
from .sampling import SectorHarm

Chosen = tuple[int, ...]
"""For each dirty page, in order, the number of its outcome."""


class CrashLosses(NamedTuple):
    """What one state has lost: changes, with the bytes left of a growth; of the dirty pages, what became of each."""

    changes: tuple[tuple[Change, int], ...]
    pages: tuple[tuple[DirtyPage, PageOutcome], ...]


class CrashState:
    """One state a crash may leave: which changes of metadata are lost, and what becomes of the dirty pages."""

    __slots__ = ("_chosen", "_variant", "digest")

    def __init__(self, variant: "MetadataVariant | SurvivingCache", chosen: Chosen, digest: str) -> None:
        self._variant = variant
        self._chosen = chosen
        self.digest = digest
        """The digest of its image."""

    @property
    def lost(self) -> Lost:
        """Return the changes that are lost."""
        return self._variant.lost

    @property
    def page_outcomes(self) -> list[PageOutcome]:
        """Return what survived of each dirty page."""
        pages = self._variant.pages
        return [page.page_outcomes[number] for page, number in zip(pages, self._chosen, strict=True)]

    @property
    def dirty_pages(self) -> list[DirtyPage]:
        """Return the pages that may be at several moments, in the order of survivors."""
        return [page.page for page in self._variant.pages]

    @property
    def losses(self) -> int:
        """Return how many changes are lost, and pages not as they were last written."""
        pages = zip(self._variant.pages, self._chosen, strict=True)
        return len(self.lost) + sum(number != page.latest for page, number in pages)

    @property
    def image(self) -> Image:
        """Return what is left, made anew each time."""
        return self._variant.image(self._chosen)


class SurvivingCache:
    """The one state that the page cache leaves if it survives."""

    def __init__(self, whole: Image) -> None:
        self.lost: Lost = {}
        self.pages: list[PageOutcomes] = []
        self._whole = whole

    def image(self, _: Chosen) -> Image:
        """Return it."""
        return self._whole


class DurableFiles:
    """The files as they are surely durable, by content and length, with their pieces of digests, for all variants."""

    def __init__(self, wall_ms: int) -> None:
        self._wall_ms = wall_ms
        self._files: dict[tuple[str, int, int], tuple[FileImage, bytes]] = {}

    def file(self, path: str, inode: Inode, entries: MetadataState) -> tuple[FileImage, bytes]:
        """Return a file with the length it has left, and what it gives to a digest."""
        size_bytes = entries.sizes.get(inode.identity, 0)
        key = (path, inode.identity, size_bytes)
        known = self._files.get(key)
        if known is None:
            file = file_image(inode, inode.durable_bytes(size_bytes), self._wall_ms)
            known = self._files[key] = (file, file_piece(path, file))
        return known


class MetadataVariant:
    """What is left of names and sizes once some changes are lost, and the states of pages on top of that."""

    def __init__(
        self, cut: PowerCut, lost: Lost, page_bytes: int, harm: SectorHarm, durable_files: "DurableFiles"
    ):
        entries = cut.entries_without(lost, Counter())
        self.lost = lost
        self._directories = tuple(sorted(entries.directories - {"/"}))
        self._platter: dict[str, FileImage] = {}
        self._pieces = {path: directory_piece(path) for path in self._directories}
        """Of the digest of the platter, by path, directories first."""
        self._twins: dict[str, list[str]] = {}
        """Of a file with several names, the others behind the first."""
        first: dict[int, str] = {}
        for path, file in sorted(entries.names.items()):
            self._platter[path], self._pieces[path] = durable_files.file(path, entries.files[file], entries)
            if first.setdefault(file, path) != path:
                self._twins.setdefault(first[file], []).append(path)
        self.pages = [
            PageOutcomes(page, self._platter[page.path].content, page_bytes, cut.page_sectors, harm)
            for page in cut.dirty_pages(entries)
        ]
        self._pages_of: dict[str, list[int]] = {}
        for index, outcomes in enumerate(self.pages):
            self._pages_of.setdefault(outcomes.page.path, []).append(index)
        self._files: dict[tuple[str, Chosen], tuple[FileImage, bytes]] = {}
        self._tried: set[Chosen] = set()

    def states(self, wanted: Iterable[Chosen]) -> Iterator[CrashState]:
        """Yield the states of some choices, each once."""
        for chosen in wanted:
            if chosen not in self._tried:
                self._tried.add(chosen)
                yield self.state(chosen)

    def state(self, chosen: Chosen) -> CrashState:
        """Return the state of one choice."""
        return CrashState(self, chosen, self._digest(chosen))

    def drawn(self, page_outcomes: Iterable[PageOutcome]) -> Chosen:
        """Return the choice that survivors come to."""
        return tuple(
            page.number(page_outcome) for page, page_outcome in zip(self.pages, page_outcomes, strict=True)
        )

    def before_operation(self, operation: int) -> Chosen:
        """Return the choice of all that was written before an operation, or is sure."""
        return tuple(page.before_operation(operation) for page in self.pages)

    @property
    def extremes(self) -> tuple[Chosen, Chosen]:
        """Return the choices of everything, and of no more than is sure."""
        return tuple(page.latest for page in self.pages), tuple(page.least for page in self.pages)

    def every(self) -> Iterator[Chosen]:
        """Yield the product of all that has been found for the pages."""
        return product(*[range(len(page.contents)) for page in self.pages])

    def single(self) -> Iterator[Chosen]:
        """Yield the choices in which one page is at another moment than all others, or torn."""
        everything, nothing = self.extremes
        for index, page in enumerate(self.pages):
            for number in page.moments:
                yield _with(everything, index, number)
                yield _with(nothing, index, number)
            for number in page.tears():
                yield _with(everything, index, number)
                yield _with(nothing, index, number)

    def harmed(self) -> Iterator[Chosen]:
        """Yield the choices in which one page is torn inside a sector, or has garbage."""
        everything, nothing = self.extremes
        for index, page in enumerate(self.pages):
            for number in page.harmed():
                yield _with(everything, index, number)
                yield _with(nothing, index, number)

    def image(self, chosen: Chosen) -> Image:
        """Return the image of a choice."""
        files = dict(self._platter)
        for path, indexes in self._pages_of.items():
            files[path] = self._file(path, indexes, chosen)[0]
            for twin in self._twins.get(path, ()):
                files[twin] = files[path]
        return Image(files, self._directories)

    def _digest(self, chosen: Chosen) -> str:
        """Return the digest of the image of a choice, which has not been made yet."""
        pieces = self._pieces.copy()
        for path, indexes in self._pages_of.items():
            file, pieces[path] = self._file(path, indexes, chosen)
            for twin in self._twins.get(path, ()):
                pieces[twin] = file_piece(twin, file)
        return digest_of_pieces(pieces.values())

    def _file(self, path: str, indexes: list[int], chosen: Chosen) -> tuple[FileImage, bytes]:
        """Return a file of a choice, and its piece of the digest."""
        key = (path, tuple([chosen[index] for index in indexes]))
        known = self._files.get(key)
        if known is None:
            file = self._lay(path, indexes, chosen)
            known = self._files[key] = (file, file_piece(path, file))
        return known

    def _lay(self, path: str, indexes: list[int], chosen: Chosen) -> FileImage:
        durable_bytes = self._platter[path]
        content = bytearray(durable_bytes.content)
        for index in indexes:
            page = self.pages[index]
            content[page.start : page.end] = page.contents[chosen[index]]
        return (
            durable_bytes
            if content == durable_bytes.content
            else FileImage(bytes(content), durable_bytes.mtime_ms)
        )


def _with(chosen: Chosen, index: int, number: int) -> Chosen:
    return (*chosen[:index], number, *chosen[index + 1 :])
