"""Difference between two images: what to change in the first to get the second.

Successive crash states of a large program differ in few files, so processes and directories receive only differences.
"""

from dataclasses import dataclass
from typing import NamedTuple

from .content import PAGE_BYTES, SparseBytes
from .image import FileImage, Image

NOTHING = Image({}, ())


class FilePatch(NamedTuple):
    """A file as its differences from the one that was at its path."""

    size_bytes: int
    mtime_ms: int
    pages: dict[int, bytes]

    @classmethod
    def from_images(cls, one: FileImage | None, other: FileImage) -> "FilePatch | FileImage":
        """Return the patch that leads to the other file, or that file if a patch is not possible or not shorter."""
        if one is None or not (isinstance(one.held, SparseBytes) and isinstance(other.held, SparseBytes)):
            return other
        pages = one.held.changed_pages(other.held)
        is_long = len(pages) * PAGE_BYTES >= other.held.data_bytes
        return other if is_long else cls(len(other.held), other.mtime_ms, pages)

    def applied_to(self, file: FileImage) -> FileImage:
        assert isinstance(file.held, SparseBytes), "patches are between sparse contents"
        return FileImage(file.held.patched(self.size_bytes, self.pages), self.mtime_ms)


@dataclass(frozen=True, slots=True)
class ImageDifference:
    """Files and links that are gone, new or changed. directories: all directories of the second image, or None if they
    did not change.
    """

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
    """Return whether two files at a path are equal. Trees know the keys already, and contents can be long."""
    return one is not None and one.mtime_ms == other.mtime_ms and one.key_at(path) == other.key_at(path)
