"""Namespace of one disk: names, sizes, and the journal of the changes to them that a crash can take back one by one.

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

Which changes a crash may take back depends on the file system, known only when it happens. So the journal keeps both
answers: a change is `synced` once a sync meant for it is complete (strict POSIX), and everything up to operation
`committed` is durable because a journal commits in order (ext4): there, any sync commits all that came before.
"""

import errno
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, TypeVar

from ..kinds import FaultKind
from .fault_injector import os_error
from .image import DamagedRange, Image
from .page_cache import Inode

K = TypeVar("K", int, str)
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


@dataclass(slots=True, eq=False)
class Change(ABC):
    """One change, with the number of the operation that made it, which is its own."""

    kind: ClassVar[str]
    lost: ClassVar[FaultKind]
    number: int
    path: str
    synced: bool = field(default=False, init=False)
    """Whether a sync meant for it is complete."""
    acknowledged: bool = field(default=False, init=False)
    """Whether one was answered so, which may have been a lie."""

    @property
    def directory(self) -> str | None:
        """Return the directory whose sync makes the change durable; None if the file's own does."""
        return parent_of(self.path)

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


class _FileChange(Change):
    """A change of a file's size or content, which a sync of the file itself makes durable."""

    __slots__ = ()

    @property
    def directory(self) -> None:
        """Return None: no directory is concerned."""


@dataclass(slots=True, eq=False)
class Create(Change):
    """A new, empty file."""

    kind = "create"
    lost = FaultKind.NAME_LOST
    file: int
    inode: Inode

    def apply(self, entries: MetadataState) -> None:
        """Give the file its name and its first content."""
        entries.names[self.path] = self.file
        entries.files[self.file] = self.inode

    def lose(self, entries: MetadataState, kept_bytes: int = 0) -> None:
        """Leave the file nameless: a later rename may still name it."""
        entries.files[self.file] = self.inode


@dataclass(slots=True, eq=False)
class Extend(_FileChange):
    """A file grows. by_write: by writing the bytes, not by asking for zeros; in_steps: by having zeros allocated."""

    kind = "extend"
    lost = FaultKind.SIZE_LOST
    identity: int
    before_bytes: int
    size_bytes: int
    by_write: bool = False
    in_steps: bool = False

    @property
    def grown_bytes(self) -> int:
        """Return how much longer the file has become."""
        return self.size_bytes - self.before_bytes

    def apply(self, entries: MetadataState) -> None:
        """Set the size; it only grows."""
        # Replayed without a change that was lost, the file may be longer by now than this one had made it.
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


@dataclass(slots=True, eq=False)
class Empty(_FileChange):
    """A file loses its content and goes on with a new, empty one."""

    kind = "empty"
    lost = FaultKind.EMPTYING_UNDONE
    file: int
    inode: Inode

    def apply(self, entries: MetadataState) -> None:
        """Give the file its new content."""
        entries.files[self.file] = self.inode


@dataclass(slots=True, eq=False)
class Truncate(_FileChange):
    """A file loses its end and goes on with a new Inode that has the rest.

    Lost, the file is the old one again, without what was written after the cut.
    """

    kind = "truncate"
    lost = FaultKind.EMPTYING_UNDONE
    file: int
    inode: Inode
    size_bytes: int

    def apply(self, entries: MetadataState) -> None:
        """Give the file its rest, as far as it has grown in these entries."""
        assert self.file in entries.files, self.file
        before, after = entries.files[self.file].identity, self.inode.identity
        entries.files[self.file] = self.inode
        entries.sizes[after] = min(self.size_bytes, entries.sizes.get(before, 0))
        if before in entries.written:
            entries.written[after] = entries.written[before]


@dataclass(slots=True, eq=False)
class Unlink(Change):
    """A name goes away."""

    kind = "unlink"
    lost = FaultKind.UNLINK_UNDONE
    file: int

    def apply(self, entries: MetadataState) -> None:
        """Remove the name if it still means this file."""
        if entries.names.get(self.path) == self.file:
            del entries.names[self.path]


@dataclass(slots=True, eq=False)
class Rename(Change):
    """A file moves from path to target, replacing what had that name."""

    kind = "rename"
    lost = FaultKind.RENAME_UNDONE
    target: str
    file: int

    @property
    def directory(self) -> str:
        """Return the directory of the new name."""
        return parent_of(self.target)

    def apply(self, entries: MetadataState) -> None:
        """Move the name; without the old one, which a crash may have taken, the file still gets the new one."""
        if entries.names.get(self.path) == self.file:
            del entries.names[self.path]
        entries.names[self.target] = self.file


@dataclass(slots=True, eq=False)
class Link(Change):
    """A file gets one more name."""

    kind = "link"
    lost = FaultKind.NAME_LOST
    file: int

    def apply(self, entries: MetadataState) -> None:
        """Add the name."""
        entries.names[self.path] = self.file


class MakeDirectory(Change):
    """A new, empty directory."""

    __slots__ = ()
    kind = "make directory"
    lost = FaultKind.DIRECTORY_LOST

    def apply(self, entries: MetadataState) -> None:
        """Add the directory."""
        entries.directories.add(self.path)


class RemoveDirectory(Change):
    """An empty directory goes away."""

    __slots__ = ()
    kind = "remove directory"
    lost = FaultKind.REMOVAL_UNDONE

    def apply(self, entries: MetadataState) -> None:
        """Remove the directory."""
        entries.directories.discard(self.path)


class Namespace:
    """One file system's names. Every mutating method takes the number of the operation it is.

    Invariant: durable with the journal applied in order is current, and the journal is in the order of operations, its
    first change one that is not synced. Each name and each directory is among the children of what is above it.
    """

    def __init__(self, page_bytes: int) -> None:
        self.current = MetadataState()
        self.durable = MetadataState()
        self.journal: list[Change] = []
        self.committed = -1
        self.acknowledged = -1
        """What committed would be if no sync had lied."""
        self._page_bytes = page_bytes
        self._inodes = 0
        self._children: dict[str, set[str]] = {"/": set()}
        self._unsynced: dict[int, list[Change]] = {}
        """The changes to each file's size and content that no sync of it covers, by `Inode.identity`."""
        self._in_directory: dict[str, list[Change]] = {}
        """The changes to the names in each directory that no sync of it covers."""

    @classmethod
    def load(cls, image: Image, page_bytes: int, wall_start_ms: int) -> "Namespace":
        """Make the names of an image, all durable. File contents stay the image's until someone writes to them."""
        namespace = cls(page_bytes)
        current = namespace.current
        children = namespace._children
        for directory in image.directories:
            current.directories.add(directory)
            children[directory] = set()
            children[parent_of(directory)].add(directory.rpartition("/")[2])
        for file, (path, content) in enumerate(image.files.items()):
            above, _, name = path.rpartition("/")
            children[above or "/"].add(name)
            current.names[path] = file
            mtime_ns = (content.mtime_ms - wall_start_ms) * 1_000_000
            current.files[file] = Inode(file, page_bytes, mtime_ns, content)
            current.sizes[file] = len(content.content)
        namespace._inodes = len(image.files)
        namespace.durable = current.copy()
        return namespace

    def find(self, path: str) -> Inode:
        """Return the content of the file at path; FileNotFoundError or IsADirectoryError if there is none."""
        inode = self.current.inode(path)
        if inode is not None:
            return inode
        if path in self.current.directories:
            raise os_error(errno.EISDIR, path)
        raise self.nothing_at(path)

    def nothing_at(self, path: str) -> OSError:
        """Make the error for a path that is not there: the way to it may lead through a file."""
        above = parent_of(path)
        while above != "/" and above not in self.current.directories:
            if above in self.current.names:
                return os_error(errno.ENOTDIR, path)
            above = parent_of(above)
        return os_error(errno.ENOENT, path)

    def children(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        self.check_directory(path)
        return sorted(self._children[path])

    def check_directory(self, path: str) -> None:
        """Raise the OSError that using path as a directory would meet."""
        if path not in self.current.directories:
            raise os_error(errno.ENOTDIR, path) if path in self.current.names else self.nothing_at(path)

    def check_parent(self, path: str) -> None:
        """Raise the OSError that creating path would meet because of what is above it, or at it."""
        if path in self.current.directories:
            raise os_error(errno.EISDIR, path)
        above = parent_of(path)
        if above not in self.current.directories:
            raise self.nothing_at(path)

    def create(self, number: int, path: str, mtime_ns: int) -> Inode:
        """Make an empty file."""
        assert path not in self.current.names, path
        inode = self._new_inode(mtime_ns)
        self._record(Create(number, path, inode.identity, inode))
        self._add_child(path)
        return inode

    def empty(self, number: int, path: str, mtime_ns: int) -> Inode:
        """Take a file's content away. Maps of the file keep the old bytes."""
        inode = self._new_inode(mtime_ns)
        file = self.current.names[path]
        inode.synced_upto = self.current.files[file].synced_upto
        change = Empty(number, path, file, inode)
        self._record(change)
        self._unsynced.setdefault(inode.identity, []).append(change)
        return inode

    def extend(self, number: int, path: str, inode: Inode, size_bytes: int, **how: bool) -> None:
        """Note a file's new size; its page cache is the caller's to grow. how: `by_write`, `in_steps` of the Extend."""
        before_bytes = self.current.sizes.get(inode.identity, 0)
        assert before_bytes < size_bytes, (path, before_bytes, size_bytes)
        change = Extend(number, path, inode.identity, before_bytes, size_bytes, **how)
        self._record(change)
        self._unsynced.setdefault(inode.identity, []).append(change)

    def truncate(self, number: int, path: str, file: int, size_bytes: int, mtime_ns: int) -> None:
        """Take the end of a file away, so that size_bytes are left; its number, not its name, says which."""
        before = self.current.files[file]
        inode = before.cut(self._inodes, size_bytes, mtime_ns)
        self._inodes += 1
        change = Truncate(number, path, file, inode, size_bytes)
        self._record(change)
        # A sync of the file is one of all that it has been through.
        self._unsynced[inode.identity] = [*self._unsynced.pop(before.identity, ()), change]

    def unlink(self, number: int, path: str) -> None:
        """Remove a name that exists."""
        self._record(Unlink(number, path, self.current.names[path]))
        self._remove_child(path)

    def rename(self, number: int, path: str, target: str) -> None:
        """Move a name that exists to a target whose directory exists."""
        self._record(Rename(number, path, target, self.current.names[path]))
        self._remove_child(path)
        self._add_child(target)

    def link(self, number: int, path: str, target: str) -> None:
        """Give the file at path one more name, in a directory that exists."""
        assert target not in self.current.names, target
        self._record(Link(number, target, self.current.names[path]))
        self._add_child(target)

    def make_directory(self, number: int, path: str) -> None:
        """Make a directory below an existing one."""
        assert path not in self.current.directories, path
        self._record(MakeDirectory(number, path))
        self._children[path] = set()
        self._add_child(path)

    def remove_directory(self, number: int, path: str) -> None:
        """Remove an empty directory."""
        assert not self._children[path], (path, self._children[path])
        self._record(RemoveDirectory(number, path))
        del self._children[path]
        self._remove_child(path)

    def sync_file(self, inode: Inode, upto: int) -> None:
        """Make a file's size durable, as far as operations up to number upto made it."""
        inode.synced_upto = max(inode.synced_upto, upto)
        self._sync(self._unsynced, inode.identity, upto)

    def sync_directory(self, path: str, upto: int) -> None:
        """Make durable what operations up to number upto did to the names in one directory."""
        self._sync(self._in_directory, path, upto)

    def _sync(self, unsynced: dict[K, list[Change]], key: K, upto: int) -> None:
        self.committed = max(self.committed, upto)  # a journal commits in order, with all that came before
        changes = unsynced.pop(key, ())
        later = [change for change in changes if change.number > upto]
        if later:
            unsynced[key] = later
        for change in changes:
            change.synced = change.number <= upto
        if changes:
            self._retire_synced()

    def acknowledge_file(self, inode: Inode, upto: int) -> bool:
        """Note that sync_file would have succeeded; return whether it would have changed anything."""
        self.acknowledged = max(self.acknowledged, upto)
        return _acknowledge(self._unsynced.get(inode.identity, ()), upto)

    def acknowledge_directory(self, path: str, upto: int) -> bool:
        """Note that sync_directory would have succeeded; return as acknowledge_file does."""
        self.acknowledged = max(self.acknowledged, upto)
        return _acknowledge((change for change in self.journal if change.directory == path), upto)

    def lay_bad_sectors(self, bad_sectors: Iterable[DamagedRange], sector_bytes: int) -> None:
        """Let the sectors that damages touch be unreadable, where they lie in files that exist."""
        for damage in bad_sectors:
            inode = self.current.inode(damage.path)
            if inode is None:
                continue
            end = min(damage.end, inode.size_bytes)
            sectors = range(damage.start // sector_bytes, -(-end // sector_bytes))
            if sectors:
                inode.with_flaws(sector_bytes).bad_sectors.update(sectors)

    def lay_holes(self, sector_bytes: int) -> None:
        """Let the pages that hold nothing but zeros be holes, in every file: an image does not say which ones were."""
        page_bytes = self._page_bytes
        nothing = bytes(page_bytes)
        for _, inode in self.current.contents():
            content = inode.content()
            starts = range(0, len(content), page_bytes)
            holes = {at // page_bytes for at in starts if nothing.startswith(content[at : at + page_bytes])}
            if holes:
                inode.with_flaws(sector_bytes).holes = holes

    def bad_sectors(self) -> list[DamagedRange]:
        """Return the sectors that cannot be read of the files that have a name, by path and place."""
        flawed = [(path, inode.flaws, inode) for path, inode in self.current.contents() if inode.flaws is not None]
        return [one for path, flaws, inode in flawed for one in flaws.ranges(path, inode.size_bytes)]

    def logged(self) -> set[int]:
        """Return the numbers of the changes that the syncs of files have logged, as some file systems do.

        These are the names of a file that was synced since it got them, and the new directories above it.
        """
        numbers: set[int] = set()
        above: set[str] = set()
        for change in self.journal:
            if not isinstance(change, Create | Rename | Link):
                continue
            if self.current.files[change.file].synced_upto < change.number:
                continue
            numbers.add(change.number)
            directory = change.directory or "/"
            while directory != "/":
                above.add(directory)
                directory = parent_of(directory)
        made = (change for change in self.journal if isinstance(change, MakeDirectory))
        numbers.update(change.number for change in made if change.path in above)
        return numbers

    def _retire_synced(self) -> None:
        """Move the synced changes at the head of the journal to the durable entries: their order no longer matters."""
        done = 0
        for change in self.journal:
            if not change.synced:
                break  # what is behind it may be synced, but has to be replayed in order
            change.apply(self.durable)
            done += 1
        del self.journal[:done]
        if done and not self.journal:  # the invariant, where it can be checked for the price of a comparison
            assert self.durable.names == self.current.names, (self.durable.names, self.current.names)
            assert self.durable.directories == self.current.directories

    def _record(self, change: Change) -> None:
        assert not self.journal or self.journal[-1].number < change.number, change.label
        assert change.path.startswith("/"), change.path
        change.apply(self.current)
        self.journal.append(change)
        directory = change.directory
        if directory is not None:
            self._in_directory.setdefault(directory, []).append(change)

    def _new_inode(self, mtime_ns: int) -> Inode:
        inode = Inode(self._inodes, self._page_bytes, mtime_ns)
        self._inodes += 1
        return inode

    def _add_child(self, path: str) -> None:
        self._children[parent_of(path)].add(path.rpartition("/")[2])

    def _remove_child(self, path: str) -> None:
        self._children[parent_of(path)].remove(path.rpartition("/")[2])


def _acknowledge(changes: Iterable[Change], upto: int) -> bool:
    """Mark those up to a number, and return whether there are any that are not synced."""
    found = False
    for change in changes:
        if change.number <= upto and not change.synced:
            change.acknowledged = found = True
    return found
