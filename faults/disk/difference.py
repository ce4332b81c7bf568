"""Difference between two images: the changes that turn the first into the second.

Successive crash states of a large program differ in few files, so processes and directories get only differences.
"""

from typing import NamedTuple

from .content import PAGE_BYTES, SparseBytes
from .image import FileImage, Image

NOTHING = Image({}, ())


class FilePatch(NamedTuple):
    """The changes that turn the old file at a path into the new file."""

    size_bytes: int
    mtime_ms: int
    pages: dict[int, bytes]

    @classmethod
    def from_images(cls, one: FileImage | None, other: FileImage) -> "FilePatch | FileImage":
        """Return a patch, or the other file if no shorter patch exists."""
        if one is None or not (isinstance(one.held, SparseBytes) and isinstance(other.held, SparseBytes)):
            return other
        pages = one.held.changed_pages(other.held)
        is_long = len(pages) * PAGE_BYTES >= other.held.data_bytes
        return other if is_long else cls(len(other.held), other.mtime_ms, pages)

    def applied_to(self, file: FileImage) -> FileImage:
        assert isinstance(file.held, SparseBytes), "patches are between sparse contents"
        return FileImage(file.held.patched(self.size_bytes, self.pages), self.mtime_ms)


class ImageDifference(NamedTuple):
    """Removed, new and changed files and links. directories: all directories of the second image; None: unchanged."""

    removed: tuple[str, ...]
    files: dict[str, FileImage | FilePatch]
    symlinks: dict[str, str]
    directories: tuple[str, ...] | None

    @classmethod
    def from_images(cls, one: Image, other: Image) -> "ImageDifference":
        before, found = one.tree, other.tree
        new, removed = before.difference(found)
        files = {
            path: FilePatch.from_images(before.get(path), file)
            for path, file in sorted(new.items())
            if not _is_equal(path, before.get(path), file)
        }
        symlinks: dict[str, str] = {}
        if one.symlinks is not other.symlinks:
            symlinks = {path: text for path, text in other.symlinks.items() if one.symlinks.get(path) != text}
            removed += sorted(one.symlinks.keys() - other.symlinks.keys())
        directories = None if one.directories == other.directories else other.directories
        return cls(tuple(removed), files, symlinks, directories)


def _is_equal(path: str, one: FileImage | None, other: FileImage) -> bool:
    """Compare two files by key, which trees have computed; contents can be long."""
    return one is not None and one.mtime_ms == other.mtime_ms and one.key_at(path) == other.key_at(path)
