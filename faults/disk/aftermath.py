"""Disk snapshot for traces: the files at one moment, and the effects of a crash."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from ..crashes.page_outcomes import DirtyPage, PageOutcome, apply_version
from .changes import Change, Create, MakeDirectory, MetadataState, Rename
from .content import Content, SparseBytes
from .image import Image
from .namespace import Namespace


class PageFate(StrEnum):
    """The state of a dirty page after a power cut."""

    KEPT = "kept"
    MIDDLE = "middle"
    """The page contains some but not all of its unsynced writes."""
    LOST = "lost"
    TORN = "torn"


class FileState(NamedTuple):
    """A file at some moment."""

    path: str
    cache: Content
    durable_bytes: Content
    """Durable content, at the file length that readers see."""
    dirty: tuple[tuple[int, int], ...]
    """Ranges [start, end) whose writes may not be durable."""
    stale: frozenset[int]
    """Pages with data that a failed sync dropped."""
    name_is_durable: bool
    """Whether the name survives every crash under strict POSIX."""


class DiskState(NamedTuple):
    """All files of a disk at one moment, by path."""

    page_bytes: int
    sector_bytes: int
    files: dict[str, FileState]


class CrashedPage(NamedTuple):
    """A page that was dirty at a power cut, and its state afterwards."""

    path: str
    page: int
    ending: PageFate


class Aftermath(NamedTuple):
    """The state after a crash. lost: labels of undone names, sizes and removals."""

    profile: str
    lost: tuple[str, ...]
    pages: tuple[CrashedPage, ...]
    image: Image


def disk_state(names: Namespace, page_bytes: int, sector_bytes: int) -> DiskState:
    unsure = _unsure_names(names.journal)
    files = {}
    for path, file in sorted(names.current.names.items()):
        inode = names.current.files[file]
        cache = _snapshot(inode.content())
        files[path] = FileState(
            path,
            cache,
            _snapshot(inode.durable_bytes(len(cache))),
            tuple((at, at + len(data)) for _, at, data in inode.pending),
            inode.stale,
            not any(path == name or path.startswith(f"{name}/") for name in unsure),
        )
    return DiskState(page_bytes, sector_bytes, files)


def _snapshot(content: Content) -> Content:
    return content.copy() if isinstance(content, SparseBytes) else bytes(content)


def aftermath_of(
    profile: str,
    entries: MetadataState,
    lost: Sequence[tuple[Change, int]],
    outcomes: Sequence[tuple[DirtyPage, PageOutcome]],
    image: Image,
    page_bytes: int,
) -> Aftermath:
    """Return the effects of a power cut. entries: surviving names. lost: lost changes, with surviving bytes of a
    growth.
    """
    return Aftermath(
        profile,
        tuple(f"{change.loss_kind(kept_bytes)}: {change.label}" for change, kept_bytes in lost),
        tuple(
            CrashedPage(page.path, page.page, _page_fate(page, page_outcome, entries, image, page_bytes))
            for page, page_outcome in outcomes
        ),
        image,
    )


def _unsure_names(journal: Sequence[Change]) -> list[str]:
    changes = [change for change in journal if not change.synced]
    made = [change.path for change in changes if isinstance(change, Create | MakeDirectory)]
    return made + [change.target for change in changes if isinstance(change, Rename)]


def _page_fate(
    page: DirtyPage, page_outcome: PageOutcome, entries: MetadataState, image: Image, page_bytes: int
) -> PageFate:
    inode, content = entries.inode(page.path), image.files[page.path].content
    assert inode is not None, page.path
    start = page.page * page_bytes
    end = min(start + page_bytes, len(content))
    for version in (page_outcome.version, page_outcome.other):
        laid = bytearray(inode.durable_bytes(len(content))[start:end])
        apply_version(laid, start, page.writes[:version])
        if laid == content[start:end]:
            if version == len(page.writes):
                return PageFate.KEPT
            return PageFate.MIDDLE if version else PageFate.LOST
    return PageFate.TORN
