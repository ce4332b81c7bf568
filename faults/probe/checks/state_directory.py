"""State directory: shows a check one crash state after the other.

If a state has many files, the next state rewrites only files that differ or that the check has changed. inotify reports
the check's changes. inotify does not report stores through a memory map, but it reports the close of a file that was
open for writing, and a map keeps its file open. So a file that a process still has open or mapped requires a new
directory. A directory or a hard link that may hide changes, or a lost report, also requires one. The check's changes
through a hard link that it makes elsewhere, or removes again, are not noticed. Each state gives the directory a new
name, because checks may cache paths.

Sources: inotify(7); Linux, fs/file_table.c, __fput(), and include/linux/fsnotify.h, fsnotify_link().
"""

import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path

from inotify_simple import Event, INotify, flags

from ...disk.difference import FilePatch, ImageDifference
from ...disk.export import write_file
from ...disk.image import FileImage

_DIRECTORIES_MAX = 256  # the kernel limits the number of watches per user
FILES_MIN = 48
"""With fewer files, a new directory costs less than the search for files that a check has changed or left open."""
_EVENTS = (
    *(flags.OPEN, flags.MODIFY, flags.ATTRIB, flags.CLOSE_WRITE, flags.CREATE, flags.DELETE),
    *(flags.MOVED_FROM, flags.MOVED_TO, flags.ONLYDIR),
)
_MASK = sum(_EVENTS)
_CHANGES = flags.MODIFY | flags.ATTRIB | flags.CLOSE_WRITE | flags.CREATE | flags.DELETE
_CHANGES |= flags.MOVED_FROM | flags.MOVED_TO


class StateDirectory:
    """A directory that has the files of one state at a time. parent: an existing directory.

    Invariant: between `show` and `find_check_changes` the directory has exactly the content of the state. `_changed`
    has the paths that the check may have changed after `show`.
    """

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self._files: dict[str, FileImage] = {}
        self._symlinks: dict[str, str] = {}
        self._directories: tuple[str, ...] = ()
        self._root: Path | None = None
        self._number = 0
        self._inotify: INotify | None = None
        self._watched: dict[int, str] = {}
        """Paths of the watched directories in the state, by watch descriptor."""
        self._changed: set[str] = set()

    def show(self, difference: ImageDifference) -> Path:
        """Apply a difference to the state, and return its directory."""
        if difference.directories is not None:
            self.discard()  # the files of the last state are still known
        outdated = {path for path in difference.files if path in self._files}
        outdated.update(path for path in difference.symlinks if path in self._symlinks)
        outdated.update(difference.removed)
        files = {
            path: file.applied_to(self._files[path]) if isinstance(file, FilePatch) else file
            for path, file in difference.files.items()
        }
        for path in difference.removed:
            self._files.pop(path, None)
            self._symlinks.pop(path, None)
        self._files.update(files)
        self._symlinks.update(difference.symlinks)
        if difference.directories is not None:
            self._directories = difference.directories
        if difference.directories is not None or self._root is None:
            return self._create_root()
        try:
            return self._change_in_place(files, difference.symlinks, outdated)
        except OSError:  # rmtree could not remove all files of the check
            self.discard()
            return self._create_root()

    def find_check_changes(self, processes: Iterable[int]) -> None:
        """Find the changes of a check. processes: processes that may still have files open.

        Call this after the check's other processes have ended.
        """
        root, inotify = self._root, self._inotify
        if root is None:
            return
        if inotify is None:
            self.discard()
            return
        events = inotify.read(timeout=0)
        changes = [event for event in events if event.mask & _CHANGES]
        self._changed.update(f"{self._watched[event.wd]}/{event.name}" for event in changes)
        if (
            any(event.mask & (flags.Q_OVERFLOW | flags.IGNORED) for event in events)
            or any(event.mask & flags.ISDIR and self._hides_changes(event) for event in changes)
            or any(_is_hard_link(f"{root}{path}") for path in self._changed)
            or (events and any(_process_uses(process, root) for process in processes))
        ):
            self.discard()

    def _hides_changes(self, event: Event) -> bool:
        """Return whether a directory of the state has changed, or a new directory may have had links to its files."""
        path = f"{self._watched[event.wd]}/{event.name}"
        if not event.name or path in self._directories:
            return True
        links = (
            _is_hard_link(f"{place}/{name}") for place, _, names in os.walk(f"{self._root}{path}") for name in names
        )
        return not os.path.isdir(f"{self._root}{path}") or any(links)

    def discard(self) -> None:
        """Remove the directory. The next state gets a new one."""
        if self._root is not None and not self._is_removed(str(self._root)):
            shutil.rmtree(self._root, ignore_errors=True)
        if self._inotify is not None:
            self._inotify.close()
        self._root = self._inotify = None
        self._watched.clear()
        self._changed.clear()

    def _is_removed(self, root: str) -> bool:
        """Remove the files and directories of the state. Return whether the directory had no other files.

        This is faster than a directory scan, and most checks leave no other files. They may have removed some.
        """
        try:
            for path in chain(self._files, self._symlinks):
                with suppress(FileNotFoundError):
                    os.unlink(root + path)
            for directory in reversed(self._directories):
                os.rmdir(root + directory)
            os.rmdir(root)
        except OSError:
            return False
        return True

    def _create_root(self) -> Path:
        self._root = root = self._next_root()
        os.mkdir(root, 0o700)
        for directory in self._directories:
            _make_directory(f"{root}{directory}")
        self._write_files(self._files, self._symlinks)
        if len(self._files) >= FILES_MIN and len(self._directories) < _DIRECTORIES_MAX:
            self._watch_directories()
        return root

    def _change_in_place(self, files: dict[str, FileImage], symlinks: dict[str, str], outdated: set[str]) -> Path:
        assert self._root is not None, "a state is shown"
        assert self._inotify is not None, "kept only if watched"
        before, root = self._root, self._next_root()
        os.rename(before, root)
        self._root, changed = root, self._changed
        for path in outdated | changed:
            _remove_path(f"{root}{path}")
        files = files.copy()
        files.update((path, self._files[path]) for path in changed if path in self._files)
        symlinks = symlinks.copy()
        symlinks.update((path, self._symlinks[path]) for path in changed if path in self._symlinks)
        self._write_files(files, symlinks)
        changed.clear()
        self._inotify.read(timeout=0)  # discard the reports of our own changes
        return root

    def _write_files(self, files: dict[str, FileImage], symlinks: dict[str, str]) -> None:
        root = str(self._root)
        for path, file in files.items():
            write_file(root + path, file)
        for path, text in symlinks.items():  # links last, so that no write follows a link
            os.symlink(text, root + path)

    def _watch_directories(self) -> None:
        """Watch all directories, if the system allows it."""
        inotify = None
        try:
            self._inotify = inotify = INotify()
            for directory in ("", *self._directories):
                self._watched[inotify.add_watch(f"{self._root}{directory}", _MASK)] = directory
        except OSError:  # the user's limit of watches is reached, so each state gets a new directory
            if inotify is not None:
                inotify.close()
            self._inotify = None

    def _next_root(self) -> Path:
        self._number += 1
        return self._parent / f"state-{os.getpid()}-{self._number}"


def _make_directory(path: str) -> None:
    try:
        os.mkdir(path)
    except FileNotFoundError:
        os.makedirs(path)


def _remove_path(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except (IsADirectoryError, PermissionError):  # the check has made this directory
        shutil.rmtree(path)


def _is_hard_link(path: str) -> bool:
    with suppress(FileNotFoundError):
        status = os.lstat(path)
        return status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode)
    return False


def _process_uses(process: int, root: Path) -> bool:
    """Return whether a process has its working directory, an open file or a map in root. False for an ended process."""
    files = f"/proc/{process}"
    try:
        for link in ("cwd", *(f"fd/{name}" for name in os.listdir(f"{files}/fd"))):
            with suppress(FileNotFoundError):  # the process has closed the file meanwhile
                if f"{os.readlink(f'{files}/{link}')}/".startswith(f"{root}/"):
                    return True
        with open(f"{files}/maps", "rb") as maps:
            return f"{root}/".encode() in maps.read()
    except (FileNotFoundError, ProcessLookupError):
        return False
    except PermissionError:  # the open files of another user's process are unknown
        return True
