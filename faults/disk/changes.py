"""Changes of names and sizes: the operations that a crash can undo until they are durable.

    change             durable under strict POSIX when              fault if lost
    create             its directory is synced                       name lost
    extend             the file is synced                            size lost, partial extend
    empty              the file is synced                            truncation undone
    truncate           the file is synced                            truncation undone
    unlink             its directory is synced                       unlink undone
    rename             the directory of the new name is synced       rename undone
    exchange           the directory of the second name is synced    rename undone
    link               the directory of the new name is synced       name lost
    symlink            its directory is synced                       name lost
    make directory     the directory above is synced                 directory lost
    remove directory   the directory above is synced                 removal undone

A crash state is the durable state plus the surviving changes in their original order. If the creation of a name is
lost, later changes of that name have no effect, except a rename: the file still gets the new name. If the rename of a
directory is lost, later changes inside the directory apply under the old path (`moved`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, Self

from ..kinds import FaultKind
from .page_cache import Inode

WORKING_DIRECTORY = "."
Lost = Mapping[int, int]
"""Numbers of lost changes. The value is the number of surviving bytes of a growth."""


@dataclass(slots=True)
class MetadataState:
    """Names, directories and sizes at one moment. A name maps to a file number, and a file number to an Inode.

    An emptied or truncated file gets a new Inode, because a crash may restore the old bytes. sizes, and written (number
    of the last `write` that grew the file), have Inode.identity as keys.
    """

    names: dict[str, int] = field(default_factory=dict)
    files: dict[int, Inode] = field(default_factory=dict)
    directories: set[str] = field(default_factory=lambda: {"/"})
    sizes: dict[int, int] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)
    symlinks: dict[int, str] = field(default_factory=dict)

    def copy(self) -> "MetadataState":
        """Return a copy that shares the inodes."""
        names, files, directories = dict(self.names), dict(self.files), set(self.directories)
        return MetadataState(names, files, directories, dict(self.sizes), dict(self.written), dict(self.symlinks))

    def inode(self, path: str) -> Inode | None:
        file = self.names.get(path)
        return None if file is None else self.files[file]

    def contents(self) -> list[tuple[str, Inode]]:
        """Return the files under each of their names, sorted by path."""
        symlinks = self.symlinks
        return [(path, self.files[file]) for path, file in sorted(self.names.items()) if file not in symlinks]

    def symlink_texts(self) -> dict[str, str]:
        if not self.symlinks:
            return {}
        return {path: self.symlinks[file] for path, file in sorted(self.names.items()) if file in self.symlinks}

    def replace_paths(self, where: Callable[[str], str]) -> None:
        """Replace every path. where: maps old to new paths."""
        self.names = {where(path): file for path, file in self.names.items()}
        self.directories = {where(path) for path in self.directories}

    @property
    def used_bytes(self) -> int:
        """Total size of all named files, including allocated but unwritten space."""
        return self._allocated_bytes(self.names.values())

    def used_bytes_below(self, directory: str) -> int:
        return self._allocated_bytes(file for path, file in self.names.items() if path.startswith(f"{directory}/"))

    def _allocated_bytes(self, files: Iterable[int]) -> int:
        return sum(self.files[file].allocated_bytes for file in dict.fromkeys(files))

    def remove_orphans(self) -> None:
        for directory in sorted(self.directories - {"/"}):
            if parent_of(directory) not in self.directories:
                self.directories.discard(directory)
        for path in [path for path in self.names if parent_of(path) not in self.directories]:
            del self.names[path]


@lru_cache(maxsize=4096)
def parent_of(path: str) -> str:
    """Return the directory of a path; `.` for a relative name. An image with relative names must contain `.`."""
    head, slash, _ = path.rpartition("/")
    return head or (WORKING_DIRECTORY if not slash and path != WORKING_DIRECTORY else "/")


def replace_path_prefix(path: str, source: str, target: str) -> str:
    return f"{target}{path[len(source) :]}" if f"{path}/".startswith(f"{source}/") else path


@dataclass(slots=True, eq=False)
class Change(ABC):
    """One change of a name or size. number: the operation that made the change."""

    kind: ClassVar[str]
    lost: ClassVar[FaultKind]
    number: int
    path: str
    synced: bool = field(default=False, init=False)
    """Whether a completed sync has made the change durable."""
    acknowledged: bool = field(default=False, init=False)
    """Whether the sync of this change has reported success. A lying drive reports success too early."""

    @property
    def directory(self) -> str | None:
        """The directory that a sync must cover to make the change durable; None: a sync of the file does."""
        return parent_of(self.path)

    @property
    def label(self) -> str:
        """Label of the random choice that decides whether the change is lost."""
        return f"{self.kind} {self.path}"

    @abstractmethod
    def apply(self, entries: MetadataState) -> None: ...

    def apply_loss(self, entries: MetadataState, kept_bytes: int = 0) -> None:  # noqa: B027 - most lost changes have no effect
        """Apply the surviving part of a lost change. kept_bytes: surviving bytes of a growth."""

    def loss_kind(self, kept_bytes: int = 0) -> FaultKind:
        return self.lost

    def with_moved_paths(self, where: Callable[[str], str]) -> Self:
        """Return the change with its paths before later renames of directories. where: maps new to old paths."""
        twin = copy(self)
        twin.path = where(self.path)
        return twin

    def before(self, path: str) -> str:
        """Map a path after this change to its path before the change."""
        return path


class _FileChange(Change):
    __slots__ = ()

    @property
    def directory(self) -> None:
        """A sync of the file itself makes the change durable."""


@dataclass(slots=True, eq=False)
class Link(Change):
    """A new name for an existing file."""

    kind = "link"
    lost = FaultKind.NAME_LOST
    file: int

    def apply(self, entries: MetadataState) -> None:
        entries.names[self.path] = self.file
        self.apply_loss(entries)


@dataclass(slots=True, eq=False)
class Create(Link):
    """A new, empty file."""

    kind = "create"
    inode: Inode

    def apply_loss(self, entries: MetadataState, kept_bytes: int = 0) -> None:
        """Keep the file without its name, because a surviving rename may still name the file."""
        entries.files[self.file] = self.inode


@dataclass(slots=True, eq=False)
class Extend(_FileChange):
    """A file grows. by_write: through a write. in_steps: by allocation of zeros. is_allocated: the file has its
    blocks.
    """

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
        return self.size_bytes - self.before_bytes

    def as_allocated(self) -> "Extend":
        twin = copy(self)
        twin.is_allocated = True
        return twin

    def apply(self, entries: MetadataState) -> None:
        """Set the size, unless the file is already longer because an earlier change was lost."""
        if self.size_bytes > entries.sizes.get(self.identity, 0):
            entries.sizes[self.identity] = self.size_bytes
        if self.by_write:
            entries.written[self.identity] = self.number

    def apply_loss(self, entries: MetadataState, kept_bytes: int = 0) -> None:
        assert 0 <= kept_bytes < self.grown_bytes, (kept_bytes, self.grown_bytes)
        if kept_bytes:
            grown = self.before_bytes + kept_bytes
            entries.sizes[self.identity] = max(grown, entries.sizes.get(self.identity, 0))

    def loss_kind(self, kept_bytes: int = 0) -> FaultKind:
        return FaultKind.PARTIAL_EXTEND if kept_bytes else self.lost


@dataclass(slots=True, eq=False)
class Empty(_FileChange):
    """A file is emptied and gets a new Inode."""

    kind = "empty"
    lost = FaultKind.TRUNCATION_UNDONE
    file: int
    inode: Inode

    def apply(self, entries: MetadataState) -> None:
        entries.files[self.file] = self.inode


@dataclass(slots=True, eq=False)
class Truncate(_FileChange):
    """A file is truncated to a new Inode. A lost truncation restores the old Inode without later writes."""

    kind = "truncate"
    lost = FaultKind.TRUNCATION_UNDONE
    file: int
    inode: Inode
    size_bytes: int

    def apply(self, entries: MetadataState) -> None:
        """Switch to the new Inode, at most as long as the file in these entries."""
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
        if entries.names.get(self.path) == self.file:
            del entries.names[self.path]


@dataclass(slots=True, eq=False)
class _Renaming(Change):
    """A change of a path to `target`. A sync of the target's directory makes the change durable."""

    lost = FaultKind.RENAME_UNDONE
    target: str

    @property
    def directory(self) -> str:
        return parent_of(self.target)

    def with_moved_paths(self, where: Callable[[str], str]) -> Self:
        twin = Change.with_moved_paths(self, where)
        twin.target = where(self.target)
        return twin


@dataclass(slots=True, eq=False)
class Rename(_Renaming):
    """A file moves from path to target, and replaces any file at target."""

    kind = "rename"
    file: int

    def apply(self, entries: MetadataState) -> None:
        """Give the file its new name even if a crash removed the old name."""
        if entries.names.get(self.path) == self.file:
            del entries.names[self.path]
        entries.names[self.target] = self.file


@dataclass(slots=True, eq=False)
class RenameDirectory(_Renaming):
    """A directory moves to target. The target path is free or an empty directory."""

    kind = "rename"

    def apply(self, entries: MetadataState) -> None:
        """Give the directory its new name even if its creation was lost."""
        entries.replace_paths(self.after)
        entries.directories.add(self.target)

    def after(self, path: str) -> str:
        return replace_path_prefix(path, self.path, self.target)

    def before(self, path: str) -> str:
        return replace_path_prefix(path, self.target, self.path)


@dataclass(slots=True, eq=False)
class RenameExchange(_Renaming):
    """Two files or directories exchange their paths."""

    kind = "exchange"

    def apply(self, entries: MetadataState) -> None:
        """Move both files, or the only one that a crash left."""
        entries.replace_paths(self.after)

    def after(self, path: str) -> str:
        moved = replace_path_prefix(path, self.path, self.target)
        return moved if moved != path else replace_path_prefix(path, self.target, self.path)

    def before(self, path: str) -> str:
        """An exchange is its own inverse."""
        return self.after(path)


@dataclass(slots=True, eq=False)
class Symlink(Create):
    """A new symbolic link. The target survives with the name."""

    kind = "symlink"
    text: str

    def apply_loss(self, entries: MetadataState, kept_bytes: int = 0) -> None:
        Create.apply_loss(self, entries)
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
