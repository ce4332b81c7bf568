"""Program recorder: each change that a program makes to its files, in order, with the line that it comes from.

A file is known by device and inode number, which every descriptor of it has, wherever it came from. A number whose
file has no name any more may be used again by the file system: it is then somebody else's as soon as it has a name.
"""

import os
import sys
from collections import Counter
from fcntl import F_GETFL, fcntl
from stat import S_ISREG
from threading import RLock, current_thread, get_ident, local
from types import CodeType, FrameType

from ..record import (
    ACKNOWLEDGE,
    CREATE,
    DATA,
    FILE_BYTES_MAX,
    LINK,
    MAKE_DIRECTORY,
    RECORD_BYTES_MAX,
    REMOVE_DIRECTORY,
    RENAME,
    SYNC,
    TRUNCATE,
    UNLINK,
    WRITE,
    ProgramRecord,
    ProgramTask,
    SourceLine,
    Step,
    Unseen,
    has_promised,
    only_promises,
)

STEPS_MAX = 1_000_000
_UNSEEN_MAX = 100
_UNKNOWN = "a file that was not seen to be made"
_DEPTH_MAX = 32
_HERE = os.path.dirname(os.path.dirname(__file__)) + os.sep


_Noted = tuple[str, str, str, int, int, int, bytes, int, int]
"""A step as long as it is only kept: the first fields of `Step`, in their order."""


class Stacks:
    """All stacks so far. places: each by its number, innermost line first; the first one is of nowhere.

    bottom: the code below which a program's stack is not its own.
    """

    def __init__(self, bottom: CodeType) -> None:
        self._bottom = bottom
        self.places: list[tuple[SourceLine, ...]] = [()]
        self._numbers: dict[tuple[SourceLine, ...], int] = {(): 0}
        self._known: dict[tuple[object, ...], int] = {}
        self._codes: dict[int, CodeType] = {}
        """The code objects in the keys: they are kept, so that what they go by is never another one's."""

    def present(self) -> int:
        """Return the number of the stack that the caller's caller was called from."""
        key, bottom = list[object](), self._bottom
        frame: FrameType | None = sys._getframe(3)
        while frame is not None:
            code = frame.f_code
            if code is bottom:
                break
            key += (id(code), frame.f_lasti)
            frame = frame.f_back
        known = tuple(key)
        number = self._known.get(known)
        if number is None:
            number = self._known[known] = self._find(sys._getframe(3))
        return number

    def _find(self, frame: FrameType | None) -> int:
        places: list[SourceLine] = []
        while frame is not None and frame.f_code is not self._bottom:
            code = frame.f_code
            self._codes[id(code)] = code
            if len(places) < _DEPTH_MAX and not code.co_filename.startswith(_HERE):
                places.append(SourceLine(code.co_filename, frame.f_lineno or 0, code.co_name))
            frame = frame.f_back
        stack = tuple(places)
        number = self._numbers.setdefault(stack, len(self.places))
        if number == len(self.places):
            self.places.append(stack)
        return number


class ProgramRecorder:
    """Takes notes of one process. Who changes anything in root, a real path, holds `lock` until it is noted.

    bottom: the code that runs the program.
    """

    def __init__(self, root: str, bottom: CodeType) -> None:
        self.lock = RLock()
        self.busy = 0
        """The thread whose present call of the system is being recorded; 0: none."""
        self.generation = 0
        """Grows when a descriptor may have come to mean another file, while an object still holds it."""
        self.writes_synchronously = False
        """Whether any file has been opened so that its writes are syncs, too."""
        self._root = _realpath(root)
        self._steps: list[_Noted] = []
        self._tasks: list[ProgramTask] = []
        self._present = local()
        """Of each thread that did something, the number of its task."""
        self._printed: set[int] = set()
        self.begun = ""
        """What was printed of a line that is not at its end yet."""
        self._stacks = Stacks(bottom)
        self._unseen: dict[tuple[str, str, int], Unseen] = {}
        self._files: dict[tuple[int, int], int] = {}
        self._names: dict[str, int] = {}
        self._links: Counter[int] = Counter()
        self._directories: set[str] = set()
        self._count = 0
        self._data_bytes = 0
        self._is_full = False
        self._find_what_is_there()

    def _find_what_is_there(self) -> None:
        found = []
        for directory, names, files in os.walk(self._root):
            self._directories.update(self._inside(os.path.join(directory, name)) for name in names)
            paths = [os.path.join(directory, name) for name in files]
            found += [path for path in paths if not os.path.islink(path)]
        for path in sorted(found):
            status = os.stat(path)
            self._add_file(self._inside(path), (status.st_dev, status.st_ino))

    # -- where things are ----------------------------------------------------------------------------

    def disk_path(self, path: object, directory: int | None = None) -> str | None:
        """Return where a path is on the program's disk, None if it is not on it. directory: a descriptor, or none."""
        text = os.fsdecode(path)  # type: ignore[arg-type]  # what is no path is the caller's TypeError
        if directory is not None:
            text = os.path.join(_readlink(f"/proc/self/fd/{directory}"), text)
        text = _abspath(text)
        if not text.startswith(self._root):
            above, name = os.path.split(text)
            text = os.path.join(_realpath(above), name)
        if not text.startswith(f"{self._root}{os.sep}"):
            return None
        return self._inside(text)

    def _inside(self, path: str) -> str:
        return path[len(self._root) :]

    def is_directory(self, path: str) -> bool:
        """Return whether a place on the disk is a directory that the program has made, or was given."""
        return path in self._directories

    def file_of(self, descriptor: int) -> int | None:
        """Return the number of the file that a descriptor is open on, None if it is none of those on the disk."""
        status = _fstat(descriptor)
        key = (status.st_dev, status.st_ino)
        file = self._files.get(key)
        if file is not None and status.st_nlink and not self._links[file]:
            del self._files[key]
            return None
        return file

    # -- what happens --------------------------------------------------------------------------------

    def opened(self, descriptor: int, path: str, flags: int) -> None:
        """Note what opening a file has done: made it, emptied it, or nothing."""
        status = _fstat(descriptor)
        if not S_ISREG(status.st_mode):
            return
        if flags & (os.O_SYNC | os.O_DSYNC):
            self.writes_synchronously = True
        key = (status.st_dev, status.st_ino)
        known = self._names.get(path)
        if known is not None and self._files.get(key) == known:
            if flags & os.O_TRUNC:
                self.add(TRUNCATE, file=known)
            return
        if not flags & os.O_CREAT:
            self.unseen("open", f"{path}: {_UNKNOWN}")
        self.add(CREATE, path, file=self._add_file(path, key))

    def _add_file(self, path: str, key: tuple[int, int]) -> int:
        file = self._count
        self._count += 1
        self._files[key] = file
        self._names[path] = file
        self._links[file] += 1
        return file

    def renamed(self, path: str, target: str) -> None:
        """Note a rename of a file."""
        file, replaced = self._names.get(path), self._names.get(target)
        if file is None:
            self.unseen("os.rename", f"{path}: {_UNKNOWN}")
        elif file != replaced:  # else the two are one file, and nothing happens
            del self._names[path]
            if replaced is not None:
                self._links[replaced] -= 1
            self._names[target] = file
            self.add(RENAME, path, target)

    def renamed_directory(self, path: str, target: str) -> None:
        """Note a rename of a directory, with all that is in it."""
        if path == target:  # nothing happens
            return

        def moved(name: str) -> str:
            return f"{target}{name[len(path) :]}" if f"{name}/".startswith(f"{path}/") else name

        self._names = {moved(name): file for name, file in self._names.items()}
        self._directories = {moved(name) for name in self._directories}
        self.add(RENAME, path, target)

    def linked(self, path: str, target: str) -> None:
        """Note one more name of a file."""
        file = self._names.get(path)
        if file is None:
            self.unseen("os.link", f"{path}: {_UNKNOWN}")
            return
        self._names[target] = file
        self._links[file] += 1
        self.add(LINK, path, target)

    def unlinked(self, path: str) -> None:
        """Note a name that is gone."""
        file = self._names.pop(path, None)
        if file is None:
            self.unseen("os.remove", f"{path}: {_UNKNOWN}")
            return
        self._links[file] -= 1
        self.add(UNLINK, path)

    def made_directory(self, path: str) -> None:
        """Note a new directory."""
        self._directories.add(path)
        self.add(MAKE_DIRECTORY, path)

    def removed_directory(self, path: str) -> None:
        """Note a directory that is gone."""
        self._directories.discard(path)
        self.add(REMOVE_DIRECTORY, path)

    def wrote(self, descriptor: int, file: int, at: int, data: bytes) -> None:
        """Note bytes that the kernel has taken, and the sync that this is if the file was opened so."""
        self._data_bytes += len(data)
        if at + len(data) > FILE_BYTES_MAX or self._data_bytes > RECORD_BYTES_MAX:
            self._stop(f"more than {FILE_BYTES_MAX} bytes in a file, or {RECORD_BYTES_MAX} in all")
        if data and not self._is_full:
            self._add((WRITE, "", "", file, at, 0, data, self._stacks.present(), self._task()))
        how = fcntl(descriptor, F_GETFL) & os.O_SYNC if self.writes_synchronously else 0
        if how & os.O_DSYNC:
            self.add(SYNC, target="" if how == os.O_SYNC else DATA, file=file)

    def acknowledged(self, text: str, *, printed: bool = False) -> None:
        """Note a promise, or a line that was printed."""
        with self.lock:
            self.add(ACKNOWLEDGE, text, printed=printed)

    def add(
        self,
        kind: str,
        path: str = "",
        target: str = "",
        file: int = -1,
        at: int = 0,
        size: int = 0,
        printed: bool = False,
    ) -> None:
        """Note a step that is no write. What is past the limits is not noted, but that there is some is."""
        if at + size > FILE_BYTES_MAX:
            self._stop(f"more than {FILE_BYTES_MAX} bytes in a file")
        if not self._is_full:
            self._add((kind, path, target, file, at, size, b"", self._stacks.present(), self._task()), printed)

    def _task(self) -> int:
        number: int | None = getattr(self._present, "task", None)
        if number is None:
            number = self._present.task = len(self._tasks)
            self._tasks.append(ProgramTask(0, number, current_thread().name))
        return number

    def _add(self, step: _Noted, printed: bool = False) -> None:
        if len(self._steps) >= STEPS_MAX:
            self._stop(f"more than {STEPS_MAX} steps")
            return
        if printed:
            self._printed.add(len(self._steps))
        self._steps.append(step)

    def _stop(self, why: str) -> None:
        self.unseen("limit", why)
        self._is_full = True

    def unseen(self, event: str, detail: str) -> None:
        """Note something that is not recorded, once for each place it comes from."""
        with self.lock:
            key = (event, detail, self._stacks.present())
            if len(self._unseen) < _UNSEEN_MAX:
                self._unseen.setdefault(key, Unseen(*key))

    @property
    def is_ours(self) -> bool:
        """Return whether the present thread is in a call that is being recorded."""
        return self.busy == get_ident()

    def record(self, program: list[str], code: int) -> ProgramRecord:
        """Return all that was noted."""
        noted = [Step(*step) for step in self._steps]
        steps = only_promises(noted, self._printed)
        unseen = tuple(self._unseen.values())
        tasks = tuple(self._tasks) or (ProgramTask(0, 0, ""),)
        unended = "" if has_promised(noted, self._printed) else self.begun
        return ProgramRecord(tuple(program), tuple(steps), tuple(self._stacks.places), unseen, code, tasks, unended)


_fstat, _abspath, _realpath, _readlink = os.fstat, os.path.abspath, os.path.realpath, os.readlink
