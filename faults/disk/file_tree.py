"""File tree: an immutable map from paths to files, in parts that trees share.

A changed tree shares all parts without changed files with the old tree. So the cost of the new tree, its key, and the
difference depends only on the changed files.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import compress
from operator import is_not
from typing import Generic, Protocol, TypeVar
from zlib import crc32

from .keys import PRIME

_PARTS = 256
_SMALL_MAX = 64
"""A tree with more files is split into _PARTS parts for good."""


class KeyedFile(Protocol):
    """An immutable file with a key."""

    def key_at(self, path: str) -> int: ...


F = TypeVar("F", bound=KeyedFile)


class FileTree(Generic[F]):
    """Files by path. Invariant: `key` is the sum of the files' keys; each file is in the part of its path."""

    __slots__ = ("_parts", "count", "key")

    def __init__(self, parts: tuple[dict[str, F], ...], key: int, count: int) -> None:
        assert 0 <= key < PRIME, key
        self._parts = parts
        self.key = key
        self.count = count

    @classmethod
    def of(cls, files: Mapping[str, F]) -> "FileTree[F]":
        return cls(({},), 0, 0).changed(files, ())

    def get(self, path: str) -> F | None:
        return self._parts[_part_of(path, len(self._parts))].get(path)

    def items(self) -> Iterator[tuple[str, F]]:
        """Yield the files in no particular order."""
        for part in self._parts:
            yield from part.items()

    def changed(self, files: Mapping[str, F], removed: Collection[str]) -> "FileTree[F]":
        """Return the tree with files added or replaced, and paths removed if they exist."""
        if len(self._parts) == 1 and self.count + len(files) > _SMALL_MAX:
            return self._split().changed(files, removed)
        parts, copied = list(self._parts), set[int]()
        key, count = self.key, self.count
        for path, file in (*files.items(), *((path, None) for path in removed)):
            number = _part_of(path, len(parts))
            before = parts[number].get(path)
            if before is file:
                continue
            if number not in copied:
                parts[number] = parts[number].copy()
                copied.add(number)
            if before is not None:
                key -= before.key_at(path)
            if file is None:
                del parts[number][path]
            else:
                key += file.key_at(path)
                parts[number][path] = file
            count += (file is not None) - (before is not None)
        return FileTree(tuple(parts), key % PRIME, count)

    def _split(self) -> "FileTree[F]":
        parts: tuple[dict[str, F], ...] = tuple({} for _ in range(_PARTS))
        for path, file in self.items():
            parts[_part_of(path, _PARTS)][path] = file
        return FileTree(parts, self.key, self.count)

    def difference(self, other: "FileTree[F]") -> tuple[dict[str, F], list[str]]:
        """Return the new or different objects of the other tree, and the paths that the other tree lacks."""
        if len(self._parts) == len(other._parts):
            pairs: Iterable[tuple[dict[str, F], dict[str, F]]] = zip(self._parts, other._parts, strict=True)
            if len(self._parts) > 1:
                pairs = compress(pairs, map(is_not, self._parts, other._parts))
        else:
            pairs = [(dict(self.items()), dict(other.items()))]
        files: dict[str, F] = {}
        removed: list[str] = []
        for before, now in pairs:
            files.update(compress(now.items(), map(is_not, map(before.get, now), now.values())))
            if len(before) != len(now) or before.keys() != now.keys():
                removed += before.keys() - now.keys()
        return files, sorted(removed)


def _part_of(path: str, parts: int) -> int:
    return crc32(path.encode()) % parts if parts > 1 else 0
