"""Difference between two images: what to change in the first to get the second.

Successive crash states of a large program differ in few files, so processes and directories receive only differences.
"""

from collections.abc import Collection
from dataclasses import dataclass

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
    def between(cls, one: Image, other: Image) -> "ImageDifference":
        before = one.files
        files = {
            path: file
            for path, file in other.files.items()
            if (known := before.get(path)) is not file and not _is_equal(known, file)
        }
        symlinks = {path: text for path, text in other.symlinks.items() if one.symlinks.get(path) != text}
        removed = _remove_from_table(before, other.files) + _remove_from_table(one.symlinks, other.symlinks)
        directories = None if one.directories == other.directories else other.directories
        return cls(removed, files, symlinks, directories)


def _is_equal(one: FileImage | None, other: FileImage) -> bool:
    """Return whether two files are equal. Digests of files are kept, and contents can be long."""
    return one is not None and one.mtime_ms == other.mtime_ms and one.digest() == other.digest()


def _remove_from_table(before: Collection[str], now: Collection[str]) -> tuple[str, ...]:
    return tuple(path for path in before if path not in now)
