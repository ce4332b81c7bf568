"""Volume of one disk: its names and the journal of their changes, how much it holds, and the locks on its files.

Which changes a crash may take back depends on the file system, known only when it happens. So the journal keeps both
answers: a change is `synced` once a sync meant for it is complete (strict POSIX), and everything up to operation
`committed` is durable because a journal commits in order (ext4): there, any sync commits all that came before.
"""

import errno
from collections.abc import Iterable
from typing import NamedTuple

from ...sim.machine import Machine
from ..kinds import FaultKind
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
    Truncate,
    Unlink,
    parent_of,
)
from .fault_injector import FaultInjector
from .image import DamagedRange, Image
from .page_cache import Inode

_UNLIMITED_BYTES = 1 << 40
"""What a disk without a capacity says it holds."""


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
            raise is_a_directory(path)
        raise self.nothing_at(path)

    def nothing_at(self, path: str) -> OSError:
        """Make the error for a path that is not there: the way to it may lead through a file."""
        above = parent_of(path)
        while above != "/" and above not in self.current.directories:
            if above in self.current.names:
                return not_a_directory(path)
            above = parent_of(above)
        return no_such_file(path)

    def children(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        self.check_directory(path)
        return sorted(self._children[path])

    def check_directory(self, path: str) -> None:
        """Raise the OSError that using path as a directory would meet."""
        if path not in self.current.directories:
            raise not_a_directory(path) if path in self.current.names else self.nothing_at(path)

    def check_parent(self, path: str) -> None:
        """Raise the OSError that creating path would meet because of what is above it, or at it."""
        if path in self.current.directories:
            raise is_a_directory(path)
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

    def extend(
        self,
        number: int,
        path: str,
        inode: Inode,
        size_bytes: int,
        *,
        by_write: bool = False,
        in_steps: bool = False,
    ) -> None:
        """Note a file's new size; its page cache is the caller's to grow. by_write, in_steps: as `Extend` has them."""
        before_bytes = self.current.sizes.get(inode.identity, 0)
        change = Extend(
            number, path, inode.identity, before_bytes, size_bytes, by_write=by_write, in_steps=in_steps
        )
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
        self.committed = max(self.committed, upto)
        inode.synced_upto = max(inode.synced_upto, upto)
        changes = self._unsynced.pop(inode.identity, None)
        if changes is None:
            return
        later = [change for change in changes if change.number > upto]
        if later:
            self._unsynced[inode.identity] = later
        for change in changes:
            change.synced = change.number <= upto
        self._retire_synced()

    def sync_directory(self, path: str, upto: int) -> None:
        """Make durable what operations up to number upto did to the names in one directory."""
        self.committed = max(self.committed, upto)
        changes = self._in_directory.pop(path, ())
        later = [change for change in changes if change.number > upto]
        if later:
            self._in_directory[path] = later
        for change in changes:
            if change.number <= upto:
                change.synced = True
        self._retire_synced()

    def acknowledge_file(self, inode: Inode, upto: int) -> bool:
        """Note that sync_file would have been told to have worked; return whether it would have changed anything."""
        self.acknowledged = max(self.acknowledged, upto)
        return _acknowledge(self._unsynced.get(inode.identity, ()), upto)

    def acknowledge_directory(self, path: str, upto: int) -> bool:
        """Note that sync_directory would have been told to have worked; return as acknowledge_file does."""
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
            holes = {
                at // page_bytes
                for at in range(0, len(content), page_bytes)
                if nothing.startswith(content[at : at + page_bytes])
            }
            if holes:
                inode.with_flaws(sector_bytes).holes = holes

    def bad_sectors(self) -> list[DamagedRange]:
        """Return the sectors that cannot be read of the files that have a name, by path and place."""
        return [
            damage
            for path, inode in self.current.contents()
            if inode.flaws is not None
            for damage in inode.flaws.ranges(path, inode.size_bytes)
        ]

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
                break
            change.apply(self.durable)
            done += 1
        del self.journal[:done]
        if done and not self.journal:
            assert self.durable.names == self.current.names, (self.durable.names, self.current.names)
            assert self.durable.directories == self.current.directories

    def _record(self, change: Change) -> None:
        assert not self.journal or self.journal[-1].number < change.number, change.label
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


class SimulatedDiskSpace(NamedTuple):
    """How full a disk is."""

    used_bytes: int
    usable_bytes: int


class Volume:
    """What the machines that mount one disk share: its names, its room, its locks, and the injector of its faults.

    limit_bytes: how much it holds; None: there is always room. A file takes its size, allocated ahead or not, but for
    its holes; one without a name takes nothing, mapped or not. Directories are free. Locks are as flock(2) has them: on
    the file and not its name, and gone with their process. Invariant: a file has at most one living holder of its lock.
    """

    __slots__ = ("_holders", "injector", "limit_bytes", "names", "sector_bytes")

    def __init__(
        self, names: Namespace, injector: FaultInjector, sector_bytes: int, limit_bytes: int | None
    ) -> None:
        self.names = names
        self.injector = injector
        self.sector_bytes = sector_bytes
        self.limit_bytes = limit_bytes
        self._holders: dict[int, Machine] = {}
        """Of the locks, by the files' numbers."""

    def space(self) -> SimulatedDiskSpace:
        """Return what the files take and what is left; a disk may hold more than it could take now."""
        used_bytes = self.names.current.used_bytes
        assert used_bytes >= 0, used_bytes
        limit_bytes = _UNLIMITED_BYTES if self.limit_bytes is None else self.limit_bytes
        return SimulatedDiskSpace(used_bytes, max(0, limit_bytes - used_bytes))

    def has_room(self, more_bytes: int) -> bool:
        """Return whether the files can have more_bytes more."""
        return self.limit_bytes is None or self.space().usable_bytes >= more_bytes

    def check_creation(self, path: str) -> None:
        """Raise OSError(ENOSPC) if nothing at all is left, or with the chance given for it; a new file begins empty."""
        if self.limit_bytes is not None and self.space().usable_bytes == 0:
            raise self.full(path)
        injector = self.injector
        chance = injector.faults.failed_creation_chance
        if chance > 0.0 and injector.inject_if(chance, FaultKind.FAILED_CREATION, path):
            raise _no_space(path)

    def check_growth(self, path: str, more_bytes: int) -> None:
        """Raise OSError(ENOSPC) if a file cannot have more_bytes more."""
        if not self.has_room(more_bytes):
            raise self.full(path)

    def check_allocation(self, path: str, more_bytes: int) -> None:
        """Raise OSError(ENOSPC) if there are no blocks for a longer file, or with the chance given for it."""
        injector = self.injector
        chance = injector.faults.failed_extend_chance
        if chance > 0.0 and injector.inject_if(chance, FaultKind.FAILED_EXTEND, path):
            raise _no_space(path)
        if not injector.faults.sparse:
            self.check_growth(path, more_bytes)

    def full(self, path: str) -> OSError:
        """Make the error for what there is no room for, and count it."""
        self.injector.injected[FaultKind.DISK_FULL] += 1
        return _no_space(path)

    def lock(self, path: str, machine: Machine) -> "SimFileLock":
        """Lock the file at path for a machine; BlockingIOError if a living machine, this one included, holds it."""
        file = self.names.current.names[path]
        holder = self._holders.get(file)
        if holder is not None and holder.alive:
            raise BlockingIOError(errno.EWOULDBLOCK, "Resource temporarily unavailable", path)
        assert machine.alive, machine.name
        self._holders[file] = machine
        return SimFileLock(self, file, machine)

    def release(self, file: int, machine: Machine) -> None:
        """Release a machine's lock on a file; nothing happens if it holds none."""
        self.injector.pause(machine, "unlock")
        if self._holders.get(file) is machine:
            del self._holders[file]


class SimFileLock:
    """A lock that one machine holds until it releases it or dies."""

    __slots__ = ("_file", "_machine", "_volume")

    def __init__(self, volume: Volume, file: int, machine: Machine) -> None:
        self._volume = volume
        self._file = file
        self._machine = machine

    def release(self) -> None:
        """Let the next one in; nothing happens if the lock is not the machine's any more."""
        self._volume.release(self._file, self._machine)


def _acknowledge(changes: Iterable[Change], upto: int) -> bool:
    """Mark those up to a number, and return whether there are any that are not synced."""
    found = False
    for change in changes:
        if change.number <= upto and not change.synced:
            change.acknowledged = found = True
    return found


def no_such_file(path: str) -> FileNotFoundError:
    """Make the error for a path that is not there."""
    return FileNotFoundError(errno.ENOENT, "No such file or directory", path)


def is_a_directory(path: str) -> IsADirectoryError:
    """Make the error for a directory where a file is asked for."""
    return IsADirectoryError(errno.EISDIR, "Is a directory", path)


def not_a_directory(path: str) -> NotADirectoryError:
    """Make the error for a file where a directory is asked for."""
    return NotADirectoryError(errno.ENOTDIR, "Not a directory", path)


def _no_space(path: str) -> OSError:
    """Make the error for what there are no blocks for."""
    return OSError(errno.ENOSPC, "No space left on device", path)
