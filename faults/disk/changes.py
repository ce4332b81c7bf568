"""Metadata changes of a file system, each of which a crash can take back on its own.

    change             durable, strictly, once                       counted when lost as
    create             its directory is synced                       name lost
    extend             the file is synced                            size lost, partial extend
    empty              the file is synced                            emptying undone
    truncate           the file is synced                            emptying undone
    unlink             its directory is synced                       unlink undone
    rename             the directory of the new name is synced       rename undone
    link               the directory of the new name is synced       name lost
    make directory     the directory above is synced                 directory lost
    remove directory   the directory above is synced                 removal undone

What a crash takes is a `Lost`: a file that was made longer by allocation may keep a part of its growth.

Replayed over the durable entries, a change does what it can: one that refers to a name that is not there, because the
change that made it was lost, does nothing. A rename kept while its file's creation was lost still gives the new name.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

from ..kinds import FaultKind
from .page_cache import Inode

Lost = Mapping[int, int]
"""The changes that a crash takes, by number, and how many bytes of its growth each leaves a file: 0, or some."""


@dataclass(slots=True)
class MetadataState:
    """Names, directories and sizes as they are at some moment.

    A name leads to a file's number, and that to its present content: emptying or cutting a file gives it a new Inode,
    for the old bytes may come back. Several names may lead to one file. sizes is by Inode.identity. written is the last
    `write` operation that grew it.
    """

    names: dict[str, int] = field(default_factory=dict)
    files: dict[int, Inode] = field(default_factory=dict)
    directories: set[str] = field(default_factory=lambda: {"/"})
    sizes: dict[int, int] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)

    def copy(self) -> "MetadataState":
        """Return entries that can change on their own; the inodes are shared."""
        return MetadataState(
            dict(self.names), dict(self.files), set(self.directories), dict(self.sizes), dict(self.written)
        )

    def inode(self, path: str) -> Inode | None:
        """Return the content of the file at path, None if there is none."""
        file = self.names.get(path)
        return None if file is None else self.files[file]

    def contents(self) -> list[tuple[str, Inode]]:
        """Return the files that have a name, by path, a file with several under each of them."""
        return [(path, self.files[file]) for path, file in sorted(self.names.items())]

    @property
    def used_bytes(self) -> int:
        """Return what the files with a name take, allocated ahead or not."""
        files = self.names.values()
        return sum(self.files[file].allocated_bytes for file in dict.fromkeys(files))

    def prune(self) -> None:
        """Remove what lies in directories that do not exist."""
        for directory in sorted(self.directories - {"/"}):
            if parent_of(directory) not in self.directories:
                self.directories.discard(directory)
        for path in [path for path in self.names if parent_of(path) not in self.directories]:
            del self.names[path]


@lru_cache(maxsize=4096)
def parent_of(path: str) -> str:
    """Return the directory a path lies in."""
    return path.rpartition("/")[0] or "/"


class Change(ABC):
    """One change, with the number of the operation that made it, which is its own.

    synced: a sync meant for it is complete. acknowledged: one was answered so, which may have been a lie.
    """

    __slots__ = ("acknowledged", "directory", "number", "path", "synced")
    kind: ClassVar[str]
    lost: ClassVar[FaultKind]

    def __init__(self, number: int, path: str, directory: str | None) -> None:
        assert path.startswith("/"), path
        self.number = number
        self.path = path
        self.directory = directory
        """The directory whose sync makes the change durable; None if the file's own does."""
        self.synced = False
        self.acknowledged = False

    @property
    def label(self) -> str:
        """Return what the draw about this change is labelled with."""
        return f"{self.kind} {self.path}"

    @abstractmethod
    def apply(self, entries: MetadataState) -> None:
        """Do the change to entries."""

    def lose(self, entries: MetadataState, kept_bytes: int = 0) -> None:  # noqa: B027 - most leave nothing behind
        """Do to entries what is left of a lost change. kept_bytes: of the growth of a file."""

    def lost_as(self, kept_bytes: int = 0) -> FaultKind:
        """Return what the loss is counted as."""
        return self.lost


class Create(Change):
    """A new, empty file."""

    __slots__ = ("file", "inode")
    kind = "create"
    lost = FaultKind.NAME_LOST

    def __init__(self, number: int, path: str, file: int, inode: Inode) -> None:
        super().__init__(number, path, parent_of(path))
        self.file = file
        self.inode = inode

    def apply(self, entries: MetadataState) -> None:
        """Give the file its name and its first content."""
        entries.names[self.path] = self.file
        entries.files[self.file] = self.inode

    def lose(self, entries: MetadataState, kept_bytes: int = 0) -> None:
        """Leave the file nameless: a later rename may still name it."""
        entries.files[self.file] = self.inode


class Extend(Change):
    """A file grows. by_write: by writing the bytes, not by asking for zeros; in_steps: by having zeros allocated."""

    __slots__ = ("before_bytes", "by_write", "identity", "in_steps", "size_bytes")
    kind = "extend"
    lost = FaultKind.SIZE_LOST

    def __init__(
        self,
        number: int,
        path: str,
        identity: int,
        before_bytes: int,
        size_bytes: int,
        *,
        by_write: bool,
        in_steps: bool = False,
    ) -> None:
        assert before_bytes < size_bytes, (path, before_bytes, size_bytes)
        super().__init__(number, path, None)
        self.identity = identity
        self.before_bytes = before_bytes
        self.size_bytes = size_bytes
        self.by_write = by_write
        self.in_steps = in_steps

    @property
    def grown_bytes(self) -> int:
        """Return how much longer the file has become."""
        return self.size_bytes - self.before_bytes

    def apply(self, entries: MetadataState) -> None:
        """Set the size; it only grows."""
        if self.size_bytes > entries.sizes.get(self.identity, 0):
            entries.sizes[self.identity] = self.size_bytes
        if self.by_write:
            entries.written[self.identity] = self.number

    def lose(self, entries: MetadataState, kept_bytes: int = 0) -> None:
        """Leave the file as long as a part of the growth makes it."""
        assert 0 <= kept_bytes < self.grown_bytes, (kept_bytes, self.grown_bytes)
        if kept_bytes:
            grown = self.before_bytes + kept_bytes
            entries.sizes[self.identity] = max(grown, entries.sizes.get(self.identity, 0))

    def lost_as(self, kept_bytes: int = 0) -> FaultKind:
        """Return what the loss is counted as: there is a name of its own for one in part."""
        return FaultKind.PARTIAL_EXTEND if kept_bytes else self.lost


class Empty(Change):
    """A file loses its content and goes on with a new, empty one."""

    __slots__ = ("file", "inode")
    kind = "empty"
    lost = FaultKind.EMPTYING_UNDONE

    def __init__(self, number: int, path: str, file: int, inode: Inode) -> None:
        super().__init__(number, path, None)
        self.file = file
        self.inode = inode

    def apply(self, entries: MetadataState) -> None:
        """Give the file its new content."""
        entries.files[self.file] = self.inode


class Truncate(Change):
    """A file loses its end and goes on with a new Inode that has the rest.

    Lost, the file is the old one again, without what was written after the cut.
    """

    __slots__ = ("file", "inode", "size_bytes")
    kind = "truncate"
    lost = FaultKind.EMPTYING_UNDONE

    def __init__(self, number: int, path: str, file: int, inode: Inode, size_bytes: int) -> None:
        super().__init__(number, path, None)
        self.file = file
        self.inode = inode
        self.size_bytes = size_bytes

    def apply(self, entries: MetadataState) -> None:
        """Give the file its rest, as far as it has grown in these entries."""
        assert self.file in entries.files, self.file
        before, after = entries.files[self.file].identity, self.inode.identity
        entries.files[self.file] = self.inode
        entries.sizes[after] = min(self.size_bytes, entries.sizes.get(before, 0))
        if before in entries.written:
            entries.written[after] = entries.written[before]


class Unlink(Change):
    """A name goes away."""

    __slots__ = ("file",)
    kind = "unlink"
    lost = FaultKind.UNLINK_UNDONE

    def __init__(self, number: int, path: str, file: int) -> None:
        super().__init__(number, path, parent_of(path))
        self.file = file

    def apply(self, entries: MetadataState) -> None:
        """Remove the name if it still means this file."""
        if entries.names.get(self.path) == self.file:
            del entries.names[self.path]


class Rename(Change):
    """A file moves from path to target, replacing what had that name."""

    __slots__ = ("file", "target")
    kind = "rename"
    lost = FaultKind.RENAME_UNDONE

    def __init__(self, number: int, path: str, target: str, file: int) -> None:
        super().__init__(number, path, parent_of(target))
        self.target = target
        self.file = file

    def apply(self, entries: MetadataState) -> None:
        """Move the name."""
        if entries.names.get(self.path) == self.file:
            del entries.names[self.path]
        entries.names[self.target] = self.file


class Link(Change):
    """A file gets one more name."""

    __slots__ = ("file",)
    kind = "link"
    lost = FaultKind.NAME_LOST

    def __init__(self, number: int, path: str, file: int) -> None:
        super().__init__(number, path, parent_of(path))
        self.file = file

    def apply(self, entries: MetadataState) -> None:
        """Add the name."""
        entries.names[self.path] = self.file


class MakeDirectory(Change):
    """A new, empty directory."""

    __slots__ = ()
    kind = "make directory"
    lost = FaultKind.DIRECTORY_LOST

    def __init__(self, number: int, path: str) -> None:
        super().__init__(number, path, parent_of(path))

    def apply(self, entries: MetadataState) -> None:
        """Add the directory."""
        entries.directories.add(self.path)


class RemoveDirectory(Change):
    """An empty directory goes away."""

    __slots__ = ()
    kind = "remove directory"
    lost = FaultKind.REMOVAL_UNDONE

    def __init__(self, number: int, path: str) -> None:
        super().__init__(number, path, parent_of(path))

    def apply(self, entries: MetadataState) -> None:
        """Remove the directory."""
        entries.directories.discard(self.path)
