"""Namespace of one disk: names, sizes, and the journal of changes that a crash can undo.

The effect of a sync depends on the file system, which only the crash selects. So the journal records both rules. Under
strict POSIX a change is durable if `synced`: after a sync of its own file or directory. On ext4 and XFS a journal
commits in order, so all changes up to operation `committed` are durable.

A journal may have committed early, so a sync only guarantees the changes up to the last one of its own file or
directory. fdatasync, msync and O_DSYNC do not commit changed times, only a new length, block or name of the file
(`sync_file`).

Source: Linux, ext4_sync_file() with i_sync_tid and i_datasync_tid; xfs_fsync_flush_log() with ili_datasync_seq.
"""

import errno
from bisect import bisect_left
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeVar

from .changes import (
    Change,
    Create,
    Empty,
    Extend,
    Link,
    MakeDirectory,
    MetadataState,
    RemoveDirectory,
    Rename,
    RenameDirectory,
    RenameExchange,
    Symlink,
    Truncate,
    Unlink,
    parent_of,
)
from .fault_injector import os_error
from .image import DamagedRange, FileImage, Image
from .page_cache import Inode
from .sparse_inode import SparseInode

K = TypeVar("K", int, str)
_BY_NUMBER = attrgetter("number")


@dataclass(slots=True)
class Touched:
    """The names and files that changed since `clear`. Inodes of a sparse disk record themselves."""

    names: set[str] = field(default_factory=set)
    files: set[int] = field(default_factory=set)
    """Files with a new inode."""
    inodes: set[int] = field(default_factory=set)
    has_other_names: bool = False
    """Whether directories or symbolic links changed."""
    is_all: bool = False
    """Whether so many names changed that all count as changed."""

    def clear(self) -> None:
        self.names.clear()
        self.files.clear()
        self.inodes.clear()
        self.has_other_names = self.is_all = False

    def note(self, change: Change, symlinks: Container[int]) -> None:
        match change:
            case Extend():
                pass  # the inode records itself
            case Empty() | Truncate():
                self.files.add(change.file)
            case Link() | Unlink() | Rename():
                self.names.add(change.target if isinstance(change, Rename) else change.path)
                self.names.add(change.path)
                self.has_other_names |= change.file in symlinks
            case MakeDirectory() | RemoveDirectory():
                self.has_other_names = True
            case _:
                self.is_all = True


class Namespace:
    """The names of one file system. Mutating methods take the number of the operation.

    Invariant: applying the journal to `durable` gives `current`. The journal is in the order of operations, and its
    first change is not synced. Each name and directory is listed in the children of its parent.
    """

    def __init__(self, page_bytes: int, *, is_sparse: bool = False) -> None:
        self.current = MetadataState()
        self.durable = MetadataState()
        self.journal: list[Change] = []
        self.committed = -1
        self.journal_changes = 0
        """Incremented at each change of the journal or the durable entries, except the `synced` flags."""
        self._page_bytes = page_bytes
        self._inodes = 0
        self._children: dict[str, set[str]] = {"/": set()}
        self._unsynced: dict[int, list[Change]] = {}
        """Unsynced changes of size and content, by Inode.identity."""
        self._in_directory: dict[str, list[Change]] = {}  # unsynced changes of names, by directory
        self._changed_at: dict[str, int] = {}
        """The last operation that changed each directory, in the order of the journal."""
        self._emptied: set[int] = set()  # new contents of emptied files, by Inode.identity
        self.touched = Touched() if is_sparse else None

    @classmethod
    def from_image(cls, image: Image, page_bytes: int, wall_start_ms: int, *, is_sparse: bool = False) -> "Namespace":
        """Return the names of an image, all durable. A file shares its content with the image until a write."""
        namespace = cls(page_bytes, is_sparse=is_sparse)
        current = namespace.current
        children = namespace._children
        for directory in image.directories:
            current.directories.add(directory)
            children[directory] = set()
            children[parent_of(directory)].add(directory.rpartition("/")[2])
        for file, (path, content) in enumerate(image.files.items()):
            children[parent_of(path)].add(path.rpartition("/")[2])
            current.names[path] = file
            mtime_ns = (content.mtime_ms - wall_start_ms) * 1_000_000
            current.files[file] = namespace._make_inode(file, mtime_ns, content)
            current.sizes[file] = len(content.held)
        namespace._inodes = len(image.files)
        for path, text in image.symlinks.items():
            inode = namespace._new_inode(0)
            Symlink(-1, path, inode.identity, inode, text).apply(current)
            namespace._add_child(path)
        namespace.durable = current.copy()
        return namespace

    def find_file(self, path: str) -> Inode:
        """Return the file at path. FileNotFoundError, IsADirectoryError: path is no file."""
        inode = self.current.inode(path)
        if inode is not None:
            return inode
        if path in self.current.directories:
            raise os_error(errno.EISDIR, path)
        raise self.missing_path_error(path)

    def missing_path_error(self, path: str) -> OSError:
        """Return the error for a missing path; ENOTDIR if a parent is a file."""
        above = parent_of(path)
        while above != "/" and above not in self.current.directories:
            if above in self.current.names:
                return os_error(errno.ENOTDIR, path)
            above = parent_of(above)
        return os_error(errno.ENOENT, path)

    def children(self, path: str) -> list[str]:
        self.check_directory(path)
        return sorted(self._children[path])

    def check_directory(self, path: str) -> None:
        if path not in self.current.directories:
            raise os_error(errno.ENOTDIR, path) if path in self.current.names else self.missing_path_error(path)

    def check_parent(self, path: str) -> None:
        """Raise OSError if the parent of path is missing, or if path is a directory."""
        if path in self.current.directories:
            raise os_error(errno.EISDIR, path)
        above = parent_of(path)
        if above not in self.current.directories:
            raise self.missing_path_error(path)

    def check_free(self, path: str) -> None:
        """Raise OSError if path is not free for a new name."""
        if path in self.current.names or path in self.current.directories:
            raise os_error(errno.EEXIST, path)
        self.check_parent(path)

    def create(self, number: int, path: str, mtime_ns: int) -> Inode:
        assert path not in self.current.names, path
        inode = self._new_inode(mtime_ns)
        inode.changed_at = number
        self._record_change(Create(number, path, inode.identity, inode))
        self._add_child(path)
        return inode

    def create_unnamed(self, mtime_ns: int) -> int:
        """Create a file without a name. Return the file number."""
        inode = self._new_inode(mtime_ns)
        # A crash cannot lose a file without a name, so this is no change. If `link` names the file later, both
        # states need its content.
        for entries in (self.current, self.durable):
            entries.files[inode.identity] = inode
        self.journal_changes += 1
        return inode.identity

    def empty(self, number: int, path: str, mtime_ns: int) -> Inode:
        """Empty a file. Maps of the file keep the old bytes."""
        inode = self._new_inode(mtime_ns)
        file = self.current.names[path]
        # `logged_changes` reads it from the current Inode.
        inode.synced_upto = self.current.files[file].synced_upto
        inode.changed_at = number
        change = Empty(number, path, file, inode)
        self._record_change(change)
        self._unsynced.setdefault(inode.identity, []).append(change)
        self._emptied.add(inode.identity)
        return inode

    def extend(self, number: int, path: str, inode: Inode, size_bytes: int, **how: bool) -> None:
        """Record a new size. The caller extends the page cache. how: `by_write` or `in_steps` of Extend."""
        before_bytes = self.current.sizes.get(inode.identity, 0)
        assert before_bytes < size_bytes, (path, before_bytes, size_bytes)
        is_allocated = inode.identity in self._emptied
        change = Extend(number, path, inode.identity, before_bytes, size_bytes, is_allocated=is_allocated, **how)
        self._record_change(change)
        inode.changed_at = number
        self._unsynced.setdefault(inode.identity, []).append(change)

    def truncate(self, number: int, path: str, file: int, size_bytes: int, mtime_ns: int) -> None:
        """Truncate a file. file: file number, because the file may have no name."""
        before = self.current.files[file]
        inode = before.cut(self._inodes, size_bytes, mtime_ns)
        inode.changed_at = number
        self._inodes += 1
        change = Truncate(number, path, file, inode, size_bytes)
        self._record_change(change)
        # A sync covers all earlier changes of the file.
        self._unsynced[inode.identity] = [*self._unsynced.pop(before.identity, ()), change]

    def unlink(self, number: int, path: str) -> None:
        file = self.current.names[path]
        self.current.files[file].changed_at = number
        self._record_change(Unlink(number, path, file))
        self._remove_child(path)

    def rename(self, number: int, path: str, target: str) -> None:
        """Rename a file. The directory of target must exist."""
        file = self.current.names[path]
        inode = self.current.files[file]
        if target in self.current.names:
            self._mark_growth_allocated(inode.identity)
        inode.changed_at = number
        self._record_change(Rename(number, path, target, file))
        self._changed_at[parent_of(path)] = number  # `_record_change` changes only the directory of the new name
        self._remove_child(path)
        self._add_child(target)

    def rename_directory(self, number: int, path: str, target: str) -> None:
        """Move a directory. target must be free or an empty directory."""
        self._children.pop(target, None)
        self._in_directory.pop(target, None)
        self._apply_renaming(RenameDirectory(number, path, target))
        self._remove_child(path)
        self._add_child(target)

    def exchange(self, number: int, path: str, target: str) -> None:
        for one in (path, target):
            inode = self.current.inode(one)
            if inode is not None:
                inode.changed_at = number
        self._apply_renaming(RenameExchange(number, path, target))

    def _apply_renaming(self, change: RenameDirectory | RenameExchange) -> None:
        where = change.after
        self._children = {where(path): names for path, names in self._children.items()}
        self._in_directory = {where(path): changes for path, changes in self._in_directory.items()}
        self._changed_at = {where(path): number for path, number in self._changed_at.items()}
        self._record_change(change)
        for one in (change.path, change.target):
            for directory in (one, parent_of(one)):
                if directory in self.current.directories:
                    self._changed_at[directory] = change.number

    def link(self, number: int, target: str, file: int) -> None:
        assert target not in self.current.names, target
        self.current.files[file].changed_at = number
        self._record_change(Link(number, target, file))
        self._add_child(target)

    def symlink(self, number: int, path: str, text: str, mtime_ns: int) -> None:
        assert path not in self.current.names, path
        inode = self._new_inode(mtime_ns)
        self._record_change(Symlink(number, path, inode.identity, inode, text))
        self._add_child(path)

    def make_directory(self, number: int, path: str) -> None:
        assert path not in self.current.directories, path
        self._record_change(MakeDirectory(number, path))
        self._changed_at[path] = number
        self._children[path] = set()
        self._add_child(path)

    def remove_directory(self, number: int, path: str) -> None:
        assert not self._children[path], (path, self._children[path])
        self._record_change(RemoveDirectory(number, path))
        self._changed_at.pop(path, None)
        del self._children[path]
        self._remove_child(path)

    def sync_file(self, inode: Inode, upto: int, start: int, end: int, *, data_only: bool = False) -> None:
        """Make the size after operation upto durable. Call this before writes of the file become durable.

        The journal commits up to the last change or write of the file. With data_only the sync commits up to the last
        write in [start, end) that needed a block.
        """
        inode.synced_upto = max(inode.synced_upto, upto)
        if self.journal:
            written_at = inode.last_allocating_operation(upto, start, end) if data_only else inode.last_write_operation
            self._mark_durable(max(inode.changed_at, written_at), upto)
        self._mark_synced(self._unsynced, inode.identity, upto)

    def sync_directory(self, path: str, upto: int) -> None:
        """Make changes of names in the directory durable, up to operation upto."""
        self._mark_durable(self._changed_at.get(path, -1), upto)
        self._mark_synced(self._in_directory, path, upto)

    def _mark_durable(self, changed_at: int, upto: int) -> None:
        # A journal commits in order. If a directory changed again after upto, its earlier position is unknown, so the
        # journal counts as committed up to upto. A crash may keep later changes.
        self.committed = max(self.committed, min(changed_at, upto))

    def _mark_synced(self, unsynced: dict[K, list[Change]], key: K, upto: int) -> None:
        changes = unsynced.pop(key, ())
        later = [change for change in changes if change.number > upto]
        if later:
            unsynced[key] = later
        for change in changes:
            change.synced = change.number <= upto
        if changes:
            self._retire_synced()

    def changes_by(self, operations: Iterable[int]) -> list[Change]:
        """Return the changes by these operations that are still in the journal."""
        journal, found = self.journal, []
        for number in operations:
            index = bisect_left(journal, number, key=_BY_NUMBER)
            if index < len(journal) and journal[index].number == number:
                found.append(journal[index])
        return found

    def is_name_durable(self, path: str) -> bool:
        """Whether syncs of the directory cover all changes of a name."""
        return all(change.path != path for change in self._in_directory.get(parent_of(path), ()))

    def undurable_names(self, directory: str) -> list[str]:
        """Return the paths in a directory that were created or removed without a later sync of the directory."""
        return sorted({change.path for change in self._in_directory.get(directory, ())})

    def acknowledge_file(self, inode: Inode, upto: int) -> bool:
        """Acknowledge the changes that sync_file would make durable. Return whether an acknowledged change is
        unsynced.
        """
        return _mark_acknowledged(self._unsynced.get(inode.identity, ()), upto)

    def acknowledge_directory(self, path: str, upto: int) -> bool:
        """Acknowledge the changes that sync_directory would make durable. Return whether an acknowledged change is
        unsynced.
        """
        return _mark_acknowledged((change for change in self.journal if change.directory == path), upto)

    def mark_bad_sectors(self, bad_sectors: Iterable[DamagedRange], sector_bytes: int) -> None:
        """Make the sectors of these ranges unreadable, in existing files."""
        for damage in bad_sectors:
            inode = self.current.inode(damage.path)
            if inode is None:
                continue
            end = min(damage.end, inode.size_bytes)
            sectors = range(damage.start // sector_bytes, -(-end // sector_bytes))
            if sectors:
                inode.make_flaws(sector_bytes).bad_sectors.update(sectors)

    def mark_holes(self, sector_bytes: int) -> None:
        """Turn every page of zeros into a hole, because an image does not record holes."""
        page_bytes = self._page_bytes
        zeros = bytes(page_bytes)
        for _, inode in self.current.contents():
            content = inode.content()
            starts = range(0, len(content), page_bytes)
            holes = {at // page_bytes for at in starts if zeros.startswith(content[at : at + page_bytes])}
            if holes:
                inode.make_flaws(sector_bytes).holes = holes

    def bad_sectors(self) -> list[DamagedRange]:
        flawed = [(path, inode.flaws, inode) for path, inode in self.current.contents() if inode.flaws is not None]
        return [one for path, flaws, inode in flawed for one in flaws.ranges(path, inode.size_bytes)]

    def logged_changes(self) -> set[int]:
        """Return the changes logged by file syncs: names of files, and new parent directories."""
        numbers: set[int] = set()
        above: set[str] = set()
        for change in self.journal:
            if not isinstance(change, Rename | Link):
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
        """Move synced changes from the start of the journal to the durable entries."""
        done = 0
        for change in self.journal:
            if not change.synced:
                break  # later changes must be applied oldest first
            change.apply(self.durable)
            done += 1
        del self.journal[:done]
        self.journal_changes += done > 0
        assert not self.journal or not self.journal[0].synced, self.journal[0].label
        if done and not self.journal:  # this check of the invariant is one comparison
            assert self.durable.names == self.current.names, (self.durable.names, self.current.names)
            assert self.durable.directories == self.current.directories

    def _record_change(self, change: Change) -> None:
        assert not self.journal or self.journal[-1].number < change.number, change.label
        directory = change.directory
        assert directory is None or directory in self.current.directories, change.path
        change.apply(self.current)
        if self.touched is not None:
            self.touched.note(change, self.current.symlinks)
        self.journal.append(change)
        self.journal_changes += 1
        if directory is not None:
            self._changed_at[directory] = change.number
            self._in_directory.setdefault(directory, []).append(change)

    def _mark_growth_allocated(self, identity: int) -> None:
        """Replace the growths of a file by allocated ones. New objects, because crash states use the old ones."""
        grown = self._unsynced.get(identity, [])
        others: dict[int, Change] = {one.number: one.as_allocated() for one in grown if isinstance(one, Extend)}
        if others:
            self.journal_changes += 1
            self._unsynced[identity] = [others.get(one.number, one) for one in grown]
            for number, allocated in others.items():
                self.journal[bisect_left(self.journal, number, key=_BY_NUMBER)] = allocated

    def _new_inode(self, mtime_ns: int) -> Inode:
        inode = self._make_inode(self._inodes, mtime_ns)
        self._inodes += 1
        return inode

    def _make_inode(self, identity: int, mtime_ns: int, loaded: FileImage | None = None) -> Inode:
        if self.touched is None:
            return Inode(identity, self._page_bytes, mtime_ns, loaded)
        return SparseInode(identity, self._page_bytes, mtime_ns, loaded, self.touched.inodes)

    def _add_child(self, path: str) -> None:
        self._children[parent_of(path)].add(path.rpartition("/")[2])

    def _remove_child(self, path: str) -> None:
        self._children[parent_of(path)].remove(path.rpartition("/")[2])


def _mark_acknowledged(changes: Iterable[Change], upto: int) -> bool:
    """Acknowledge changes up to an operation. Return whether an acknowledged change is unsynced."""
    found = False
    for change in changes:
        if change.number <= upto and not change.synced:
            change.acknowledged = found = True
    return found
