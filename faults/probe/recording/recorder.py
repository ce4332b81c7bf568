"""Program recorder: records file changes of a program, with source lines.

Device and inode number identify a file. The file system may reuse the inode number of a file without names. The number
then identifies the new file as soon as this file has a name.
"""

import os
import sys
from collections import Counter
from fcntl import F_GETFL, fcntl
from stat import S_ISREG
from threading import RLock, current_thread, get_ident, local
from types import CodeType, FrameType

from .. import record as steps
from ..record import ProgramRecord, ProgramTask, SourceLine, Step, UnseenAction, has_promised, only_promises

_UNKNOWN = "a file whose creation was not recorded"
_DEPTH_MAX = 32
_HERE = os.path.dirname(os.path.dirname(__file__)) + os.sep


_Noted = tuple[str, str, str, int, int, int, bytes, int, int]
"""The fields of a `Step`, in the same order."""


class Stacks:
    """The stacks of all steps. places: stacks by number, innermost line first; stack 0 is empty.

    bottom: code object of the recorder's function that runs the program.
    """

    def __init__(self, bottom: CodeType) -> None:
        self._bottom = bottom
        self.places: list[tuple[SourceLine, ...]] = [()]
        self._numbers: dict[tuple[SourceLine, ...], int] = {(): 0}
        self._known: dict[tuple[object, ...], int] = {}
        self._codes: dict[int, CodeType] = {}
        """Code objects by id. The reference prevents a reuse of the id."""

    def current_number(self) -> int:
        """Return the number of the current stack, without frames of the recorder."""
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
            number = self._known[known] = self._stack_number(sys._getframe(3))
        return number

    def _stack_number(self, frame: FrameType | None) -> int:
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
    """Records one process. A thread holds `lock` from a change below root, a real path, until its record.

    bottom: as for `Stacks`.
    """

    def __init__(self, root: str, bottom: CodeType) -> None:
        self.lock = RLock()
        self.busy = 0
        """Id of the thread inside a recorded call; 0: none."""
        self.generation = 0
        """Incremented when a descriptor of a file object may refer to another file."""
        self.writes_synchronously = False
        """Whether any file was opened with O_SYNC or O_DSYNC."""
        self._root = _realpath(root)
        self._steps: list[_Noted] = []
        self._tasks: list[ProgramTask] = []
        self._present = local()  # task number of each thread with a step
        self._printed: set[int] = set()
        self.begun = ""
        """Printed text after the last line break."""
        self._stacks = Stacks(bottom)
        self._unseen: dict[tuple[str, str, int], UnseenAction] = {}
        self._files: dict[tuple[int, int], int] = {}
        self._names: dict[str, int] = {}
        self._links: Counter[int] = Counter()
        self._directories: set[str] = set()
        self._count = 0
        self._data_bytes = 0
        self._is_full = False
        self._find_existing_files()

    def _find_existing_files(self) -> None:
        found = []
        for directory, names, files in os.walk(self._root):
            self._directories.update(self._path_below_root(os.path.join(directory, name)) for name in names)
            paths = [os.path.join(directory, name) for name in files]
            found += [path for path in paths if not os.path.islink(path)]
        for path in sorted(found):
            status = os.stat(path)
            self._add_file(self._path_below_root(path), (status.st_dev, status.st_ino))

    # -- paths and files ----------------------------------------------------------------------------

    def disk_path(self, path: object, directory: int | None = None) -> str | None:
        """Return a path on the program's disk, or None if it is elsewhere. directory: a descriptor, or None."""
        text = os.fsdecode(path)  # type: ignore[arg-type]  # for other types the caller gets a TypeError
        if directory is not None:
            text = os.path.join(_readlink(f"/proc/self/fd/{directory}"), text)
        text = _abspath(text)
        if not text.startswith(self._root):
            above, name = os.path.split(text)
            text = os.path.join(_realpath(above), name)
        if not text.startswith(f"{self._root}{os.sep}"):
            return None
        return self._path_below_root(text)

    def _path_below_root(self, path: str) -> str:
        return path[len(self._root) :]

    def is_directory(self, path: str) -> bool:
        return path in self._directories

    def file_of(self, descriptor: int) -> int | None:
        """Return the number of a descriptor's file, or None if the file is not on the disk."""
        status = _fstat(descriptor)
        key = (status.st_dev, status.st_ino)
        file = self._files.get(key)
        if file is not None and status.st_nlink and not self._links[file]:
            del self._files[key]
            return None
        return file

    # -- steps ---------------------------------------------------------------------------------------

    def record_open(self, descriptor: int, path: str, flags: int) -> None:
        """Record the creation or truncation by an open call, if any."""
        status = _fstat(descriptor)
        if not S_ISREG(status.st_mode):
            return
        if flags & (os.O_SYNC | os.O_DSYNC):
            self.writes_synchronously = True
        key = (status.st_dev, status.st_ino)
        known = self._names.get(path)
        if known is not None and self._files.get(key) == known:
            if flags & os.O_TRUNC:
                self.add(steps.TRUNCATE, file=known)
            return
        if not flags & os.O_CREAT:
            self.report_unseen("open", f"{path}: {_UNKNOWN}")
        self.add(steps.CREATE, path, file=self._add_file(path, key))

    def _add_file(self, path: str, key: tuple[int, int]) -> int:
        file = self._count
        self._count += 1
        self._files[key] = file
        self._names[path] = file
        self._links[file] += 1
        return file

    def record_rename(self, path: str, target: str) -> None:
        file, replaced = self._names.get(path), self._names.get(target)
        if file is None:
            self.report_unseen("os.rename", f"{path}: {_UNKNOWN}")
        elif file != replaced:  # if equal, both names are links to one file, and rename has no effect
            del self._names[path]
            if replaced is not None:
                self._links[replaced] -= 1
                assert self._links[replaced] >= 0, target
            self._names[target] = file
            self.add(steps.RENAME, path, target)

    def record_directory_rename(self, path: str, target: str) -> None:
        if path == target:  # a rename to the same path has no effect
            return

        def moved(name: str) -> str:
            return f"{target}{name[len(path) :]}" if f"{name}/".startswith(f"{path}/") else name

        self._names = {moved(name): file for name, file in self._names.items()}
        self._directories = {moved(name) for name in self._directories}
        self.add(steps.RENAME, path, target)

    def record_link(self, path: str, target: str) -> None:
        file = self._names.get(path)
        if file is None:
            self.report_unseen("os.link", f"{path}: {_UNKNOWN}")
            return
        self._names[target] = file
        self._links[file] += 1
        self.add(steps.LINK, path, target)

    def record_unlink(self, path: str) -> None:
        file = self._names.pop(path, None)
        if file is None:
            self.report_unseen("os.remove", f"{path}: {_UNKNOWN}")
            return
        self._links[file] -= 1
        assert self._links[file] >= 0, path
        self.add(steps.UNLINK, path)

    def record_new_directory(self, path: str) -> None:
        self._directories.add(path)
        self.add(steps.MAKE_DIRECTORY, path)

    def record_directory_removal(self, path: str) -> None:
        self._directories.discard(path)
        self.add(steps.REMOVE_DIRECTORY, path)

    def record_write(self, descriptor: int, file: int, at: int, data: bytes) -> None:
        """Record written bytes, plus a sync if the file was opened with O_SYNC or O_DSYNC."""
        self._data_bytes += len(data)
        if at + len(data) > steps.FILE_BYTES_MAX or self._data_bytes > steps.RECORD_BYTES_MAX:
            self._stop_at_limit(f"more than {steps.FILE_BYTES_MAX} bytes in a file, or {steps.RECORD_BYTES_MAX} in all")
        if data and not self._is_full:
            self._append_step(
                (steps.WRITE, "", "", file, at, 0, data, self._stacks.current_number(), self._task_number())
            )
        how = fcntl(descriptor, F_GETFL) & os.O_SYNC if self.writes_synchronously else 0
        if how & os.O_DSYNC:
            self.add(steps.SYNC, target="" if how == os.O_SYNC else steps.DATA, file=file)

    def acknowledged(self, text: str, *, printed: bool = False) -> None:
        """Record a promise or a printed line."""
        with self.lock:
            self.add(steps.ACKNOWLEDGE, text, printed=printed)

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
        """Add a step other than a write. Above a limit, drop the step and report the limit."""
        if at + size > steps.FILE_BYTES_MAX:
            self._stop_at_limit(f"more than {steps.FILE_BYTES_MAX} bytes in a file")
        if not self._is_full:
            self._append_step(
                (kind, path, target, file, at, size, b"", self._stacks.current_number(), self._task_number()), printed
            )

    def _task_number(self) -> int:
        number: int | None = getattr(self._present, "task", None)
        if number is None:
            number = self._present.task = len(self._tasks)
            self._tasks.append(ProgramTask(0, number, current_thread().name))
        return number

    def _append_step(self, step: _Noted, printed: bool = False) -> None:
        if len(self._steps) >= steps.STEPS_MAX:
            self._stop_at_limit(f"more than {steps.STEPS_MAX} steps")
            return
        if printed:
            self._printed.add(len(self._steps))
        self._steps.append(step)

    def _stop_at_limit(self, why: str) -> None:
        self.report_unseen("limit", why)
        self._is_full = True

    def report_unseen(self, event: str, detail: str) -> None:
        """Report an unsupported action, once for each source line."""
        with self.lock:
            key = (event, detail, self._stacks.current_number())
            if len(self._unseen) < steps.UNSEEN_MAX:
                self._unseen.setdefault(key, UnseenAction(*key))

    @property
    def is_ours(self) -> bool:
        """Return whether the current thread is inside a recorded call."""
        return self.busy == get_ident()

    def record(self, program: list[str], code: int) -> ProgramRecord:
        noted = [Step(*step) for step in self._steps]
        kept = only_promises(noted, self._printed)
        unseen = tuple(self._unseen.values())
        tasks = tuple(self._tasks) or (ProgramTask(0, 0, ""),)
        unended = "" if has_promised(noted, self._printed) else self.begun
        return ProgramRecord(tuple(program), tuple(kept), tuple(self._stacks.places), unseen, code, tasks, unended)


_fstat, _abspath, _realpath, _readlink = os.fstat, os.path.abspath, os.path.realpath, os.readlink
