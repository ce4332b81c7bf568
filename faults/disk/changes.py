"""Changes of names and sizes, each of which a crash can take back, and the state that they apply to.

    change             durable, strictly, once                       counted when lost as
    create             its directory is synced                       name lost
    extend             the file is synced                            size lost, partial extend
    empty              the file is synced                            emptying undone
    truncate           the file is synced                            emptying undone
    unlink             its directory is synced                       unlink undone
    rename             the directory of the new name is synced       rename undone
    exchange           the directory of the second name is synced    rename undone
    link               the directory of the new name is synced       name lost
    symlink            its directory is synced                       name lost
    make directory     the directory above is synced                 directory lost
    remove directory   the directory above is synced                 removal undone

Replayed over the durable state, a change of a name that is missing, because its creation was lost, has no effect. A
rename that is kept while its file's creation was lost still gives the new name. Paths in a change follow the renames of
directories: if such a rename is lost, later changes inside apply under the old name (`moved`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, Self

from ..kinds import FaultKind
from .page_cache import Inode

WORKING_DIRECTORY = "."
Lost = Mapping[int, int]
"""Changes that a crash loses, by number, each with the bytes that it leaves of a file's growth (0: none)."""


@dataclass(slots=True)
class MetadataState:
    """Names, directories and sizes at one moment. A name leads to the number of a file, the number to its Inode.

    Emptying or cutting a file makes a new Inode, because the old bytes may come back. sizes and written (the last
    `write` that grew the file) are by Inode.identity.
    """

    names: dict[str, int] = field(default_factory=dict)
    files: dict[int, Inode] = field(default_factory=dict)
    directories: set[str] = field(default_factory=lambda: {"/"})
    sizes: dict[int, int] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)
    symlinks: dict[int, str] = field(default_factory=dict)

    def copy(self) -> "MetadataState":
        """Return a copy that can change independently. The inodes are shared."""
        names, files, directories = dict(self.names), dict(self.files), set(self.directories)
        return MetadataState(names, files, directories, dict(self.sizes), dict(self.written), dict(self.symlinks))

    def inode(self, path: str) -> Inode | None:
        """Return the content of the file at path, else None."""
        file = self.names.get(path)
        return None if file is None else self.files[file]

    def contents(self) -> list[tuple[str, Inode]]:
        """Return the files that have a name, by path, a file with several under each of them."""
        symlinks = self.symlinks
        return [(path, self.files[file]) for path, file in sorted(self.names.items()) if file not in symlinks]

    def symlink_texts(self) -> dict[str, str]:
        """Return the texts of the symbolic links that have a name, by path."""
        return {path: self.symlinks[file] for path, file in sorted(self.names.items()) if file in self.symlinks}

    def relocate(self, where: Callable[[str], str]) -> None:
        """Apply a mapping to all paths."""
        self.names = {where(path): file for path, file in self.names.items()}
        self.directories = {where(path) for path in self.directories}

    @property
    def used_bytes(self) -> int:
        """Return the size of all files with a name, allocated ahead or not."""
        files = self.names.values()
        return sum(self.files[file].allocated_bytes for file in dict.fromkeys(files))

    def prune(self) -> None:
        """Remove all entries of missing directories."""
        for directory in sorted(self.directories - {"/"}):
            if parent_of(directory) not in self.directories:
                self.directories.discard(directory)
        for path in [path for path in self.names if parent_of(path) not in self.directories]:
            del self.names[path]


@lru_cache(maxsize=4096)
def parent_of(path: str) -> str:
    """Return the directory of a path, `.` for a relative name; an image must hold `.` before such paths are used."""
    head, slash, _ = path.rpartition("/")
    return head or (WORKING_DIRECTORY if not slash and path != WORKING_DIRECTORY else "/")


def below(path: str, source: str, target: str) -> str:
    """Return a path with the prefix source replaced by target, or unchanged if it is not at or below source."""
    return f"{target}{path[len(source) :]}" if f"{path}/".startswith(f"{source}/") else path


@dataclass(slots=True, eq=False)
class Change(ABC):
    """One change. number: that of the operation that made it."""

    kind: ClassVar[str]
    lost: ClassVar[FaultKind]
    number: int
    path: str
    synced: bool = field(default=False, init=False)
    """Whether a sync meant for it is complete."""
    acknowledged: bool = field(default=False, init=False)
    """Whether such a sync was acknowledged. The acknowledgement may be a lie."""

    @property
    def directory(self) -> str | None:
        """Return the directory that must be synced for the change to be durable; None: the file itself."""
        return parent_of(self.path)

    @property
    def label(self) -> str:
        """Return the label of the draw about this change."""
        return f"{self.kind} {self.path}"

    @abstractmethod
    def apply(self, entries: MetadataState) -> None:
        """Do the change to entries."""

    def lose(self, entries: MetadataState, kept_bytes: int = 0) -> None:  # noqa: B027 - most leave nothing
        """Apply the remains of a lost change. kept_bytes: surviving part of a file's growth."""

    def lost_as(self, kept_bytes: int = 0) -> FaultKind:
        return self.lost

    def moved(self, where: Callable[[str], str]) -> Self:
        """Return the change with the paths before later renames of directories."""
        twin = copy(self)
        twin.path = where(self.path)
        return twin

    def before(self, path: str) -> str:
        """Map a path used after this change to its path if the change is lost."""
        return path


class _FileChange(Change):
    __slots__ = ()

    @property
    def directory(self) -> None:
        """Return None: no directory has to be synced."""


@dataclass(slots=True, eq=False)
class Link(Change):
    """A file gets one more name."""

    kind = "link"
    lost = FaultKind.NAME_LOST
    file: int

    def apply(self, entries: MetadataState) -> None:
        entries.names[self.path] = self.file
        self.lose(entries)


@dataclass(slots=True, eq=False)
class Create(Link):
    """A new, empty file."""

    kind = "create"
    inode: Inode

    def lose(self, entries: MetadataState, kept_bytes: int = 0) -> None:
        """Keep the file without a name, because a later rename may still name it."""
        entries.files[self.file] = self.inode


@dataclass(slots=True, eq=False)
class Extend(_FileChange):
    """A file grows: by_write of bytes, or in_steps by allocation of zeros. is_allocated: its blocks are known."""

    kind = "extend"
    lost = FaultKind.SIZE_LOST
    identity: int
    before_bytes: int
    size_bytes: int
    by_write: bool = False
    in_steps: bool = False
    is_allocated: bool = False

    @property
    def grown_bytes(self) -> int:
        """Return the number of added bytes."""
        return self.size_bytes - self.before_bytes

    def allocated(self) -> "Extend":
        """Return the same growth with known blocks."""
        twin = copy(self)
        twin.is_allocated = True
        return twin

    def apply(self, entries: MetadataState) -> None:
        """Set the size; it only grows."""
        # If an earlier change was lost, the file may already be longer.
        if self.size_bytes > entries.sizes.get(self.identity, 0):
            entries.sizes[self.identity] = self.size_bytes
        if self.by_write:
            entries.written[self.identity] = self.number

    def lose(self, entries: MetadataState, kept_bytes: int = 0) -> None:
        assert 0 <= kept_bytes < self.grown_bytes, (kept_bytes, self.grown_bytes)
        if kept_bytes:
            grown = self.before_bytes + kept_bytes
            entries.sizes[self.identity] = max(grown, entries.sizes.get(self.identity, 0))

    def lost_as(self, kept_bytes: int = 0) -> FaultKind:
        """Return the kind of the loss, which depends on whether it is partial."""
        return FaultKind.PARTIAL_EXTEND if kept_bytes else self.lost


@dataclass(slots=True, eq=False)
class Empty(_FileChange):
    """A file is emptied and gets new content."""

    kind = "empty"
    lost = FaultKind.EMPTYING_UNDONE
    file: int
    inode: Inode

    def apply(self, entries: MetadataState) -> None:
        """Give the file its new Inode."""
        entries.files[self.file] = self.inode


@dataclass(slots=True, eq=False)
class Truncate(_FileChange):
    """A file is cut; a new Inode has the rest. If the change is lost, the old Inode returns, without later writes."""

    kind = "truncate"
    lost = FaultKind.EMPTYING_UNDONE
    file: int
    inode: Inode
    size_bytes: int

    def apply(self, entries: MetadataState) -> None:
        """Give the file the Inode with the rest, up to its size in these entries."""
        assert self.file in entries.files, self.file
        before, after = entries.files[self.file].identity, self.inode.identity
        entries.files[self.file] = self.inode
        entries.sizes[after] = min(self.size_bytes, entries.sizes.get(before, 0))
        if before in entries.written:
            entries.written[after] = entries.written[before]


@dataclass(slots=True, eq=False)
class Unlink(Change):
    """A name is removed."""

    kind = "unlink"
    lost = FaultKind.UNLINK_UNDONE
    file: int

    def apply(self, entries: MetadataState) -> None:
        """Remove the name if it still refers to this file."""
        if entries.names.get(self.path) == self.file:
            del entries.names[self.path]


@dataclass(slots=True, eq=False)
class _Renaming(Change):
    """A change of a path to `target`. A sync of the target's directory makes it durable."""

    lost = FaultKind.RENAME_UNDONE
    target: str

    @property
    def directory(self) -> str:
        return parent_of(self.target)

    def moved(self, where: Callable[[str], str]) -> Self:
        twin = Change.moved(self, where)
        twin.target = where(self.target)
        return twin


@dataclass(slots=True, eq=False)
class Rename(_Renaming):
    """A file moves from path to target, replacing any file there."""

    kind = "rename"
    file: int

    def apply(self, entries: MetadataState) -> None:
        """Move the name. If a crash took the old name, the file still gets the new one."""
        if entries.names.get(self.path) == self.file:
            del entries.names[self.path]
        entries.names[self.target] = self.file


@dataclass(slots=True, eq=False)
class RenameDirectory(_Renaming):
    """A directory moves from path to target, which is free or an empty directory."""

    kind = "rename"

    def apply(self, entries: MetadataState) -> None:
        """Move the directory. It gets the new name even if its creation was lost."""
        entries.relocate(self.after)
        entries.directories.add(self.target)

    def after(self, path: str) -> str:
        """Map a path before the change to the one after it."""
        return below(path, self.path, self.target)

    def before(self, path: str) -> str:
        return below(path, self.target, self.path)


@dataclass(slots=True, eq=False)
class RenameExchange(_Renaming):
    """Two files or directories exchange their paths."""

    kind = "exchange"

    def apply(self, entries: MetadataState) -> None:
        """Exchange them. If a crash has taken one, the other still moves."""
        entries.relocate(self.after)

    def after(self, path: str) -> str:
        """Map a path before the change to the one after it."""
        moved = below(path, self.path, self.target)
        return moved if moved != path else below(path, self.target, self.path)

    def before(self, path: str) -> str:
        """Map a path after the change to the one before it. An exchange is its own inverse."""
        return self.after(path)


@dataclass(slots=True, eq=False)
class Symlink(Create):
    """A new symbolic link. The link's text survives with its name."""

    kind = "symlink"
    text: str

    def lose(self, entries: MetadataState, kept_bytes: int = 0) -> None:
        """Leave the link nameless, as Create does."""
        Create.lose(self, entries)
        entries.symlinks[self.file] = self.text


class MakeDirectory(Change):
    """A new, empty directory."""

    __slots__ = ()
    kind = "make directory"
    lost = FaultKind.DIRECTORY_LOST

    def apply(self, entries: MetadataState) -> None:
        entries.directories.add(self.path)


class RemoveDirectory(Change):
    """An empty directory is removed."""

    __slots__ = ()
    kind = "remove directory"
    lost = FaultKind.REMOVAL_UNDONE

    def apply(self, entries: MetadataState) -> None:
        entries.directories.discard(self.path)
