"""Difference between two images: what to change in the first to get the second.

Successive crash states of a large program differ in few files, so processes and directories receive only differences.
"""

from dataclasses import dataclass
from itertools import compress
from operator import is_not

from .image import FileImage, Image

NOTHING = Image({}, ())


@dataclass(frozen=True, slots=True)
class ImageDifference:
    """Files and links that are gone, new or changed. directories: all directories of the second image, or None if they
    did not change.
    """

    removed: tuple[str, ...]
    files: dict[str, FileImage]
    symlinks: dict[str, str]
    directories: tuple[str, ...] | None

    @classmethod
    def from_images(cls, one: Image, other: Image) -> "ImageDifference":
        # Written for speed: large images differ in few files, and equal files are mostly the same object.
        before, now = one.files, other.files
        new = compress(now.items(), map(is_not, map(before.get, now), now.values()))
        files = {path: file for path, file in new if not _is_equal(before.get(path), file)}
        symlinks = {path: text for path, text in other.symlinks.items() if one.symlinks.get(path) != text}
        removed = sorted(before.keys() - now.keys()) + sorted(one.symlinks.keys() - other.symlinks.keys())
        directories = None if one.directories == other.directories else other.directories
        return cls(tuple(removed), files, symlinks, directories)


def _is_equal(one: FileImage | None, other: FileImage) -> bool:
    """Return whether two files are equal. Digests of files are kept, and contents can be long."""
    return one is not None and one.mtime_ms == other.mtime_ms and one.digest() == other.digest()
