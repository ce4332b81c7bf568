"""Name calls: record the creation and removal of files, directories and links.

The kernel resolves the directory of a path through /proc/TID/cwd and /proc/TID/fd, including symbolic links and
relative paths.
"""

import os
from collections.abc import Callable, Mapping
from stat import S_ISDIR, S_ISLNK, S_ISREG
from typing import NamedTuple

from .. import record as steps
from . import ptrace
from .calls import ContentCalls
from .files import KnownFiles, path_below
from .maps import MapCalls
from .notes import ProgramNotes
from .threads import Finish, TracedThread

_HERE = 2**32 - 100  # AT_FDCWD as an unsigned 32-bit number
_REMOVE_DIRECTORY, _FOLLOW, _EMPTY_PATH = 0x200, 0x400, 0x1000
_NO_REPLACE, _EXCHANGE, _WHITEOUT = 1, 2, 4
_UNNAMED = 0o20000000  # __O_TMPFILE without O_DIRECTORY

OLDER_CALLS: Mapping[str, tuple[str, Callable[..., tuple[int, ...]]]] = {
    "open": ("openat", lambda path, flags, *_: (_HERE, path, flags)),
    "creat": ("openat", lambda path, *_: (_HERE, path, os.O_CREAT | os.O_TRUNC)),
    "mknod": ("mknodat", lambda path, mode, *_: (_HERE, path, mode)),
    "rename": ("renameat2", lambda old, new, *_: (_HERE, old, _HERE, new, 0)),
    "renameat": ("renameat2", lambda at, old, new_at, new, *_: (at, old, new_at, new, 0)),
    "link": ("linkat", lambda old, new, *_: (_HERE, old, _HERE, new, 0)),
    "unlink": ("unlinkat", lambda path, *_: (_HERE, path, 0)),
    "mkdir": ("mkdirat", lambda path, *_: (_HERE, path)),
    "rmdir": ("unlinkat", lambda path, *_: (_HERE, path, _REMOVE_DIRECTORY)),
    "symlink": ("symlinkat", lambda text, path, *_: (text, _HERE, path)),
}
"""For each older call, the newer equivalent call, and a function that converts the arguments."""


class ResolvedPath(NamedTuple):
    """A name in a directory. real: a path that the recorder can open; path: the path on the program's disk, or None."""

    real: str
    path: str | None


class NameCalls:
    """Records calls that change names. Each `on_NAME` gets the thread and the call's arguments."""

    def __init__(self, files: KnownFiles, notes: ProgramNotes, maps: MapCalls, contents: ContentCalls) -> None:
        self._files = files
        self._notes = notes
        self._maps = maps
        self._contents = contents

    # -- paths ---------------------------------------------------------------------------------------

    def place(self, thread: TracedThread, directory: int, address: int) -> ResolvedPath | None:
        """Resolve the path at an address in a thread's memory, or return None for an invalid path."""
        try:
            start = _reachable_path(thread, directory, os.fsdecode(ptrace.read_text(thread.id, address)))
        except OSError:
            return None
        above, name = os.path.split(start.rstrip("/"))
        if name in ("", ".", ".."):
            return None
        real = _real_directory(above)
        if real is None:
            return None
        real = os.path.join(real, name)
        return ResolvedPath(real, path_below(self._files.root, real))

    # -- files ---------------------------------------------------------------------------------------

    def on_openat(self, thread: TracedThread, _at: int, _path: int, flags: int, *_: int) -> Finish | None:
        return self.finish_open(thread, flags)

    def on_openat2(self, thread: TracedThread, _at: int, _path: int, how: int, *_: int) -> Finish | None:
        return self.finish_open(thread, int.from_bytes(ptrace.read_memory(thread.id, how, 8), "little"))

    def finish_open(self, thread: TracedThread, flags: int) -> Finish | None:
        """Record a call that opens a file and returns its descriptor."""
        if not flags & (os.O_CREAT | os.O_TRUNC | _UNNAMED):
            return None

        def finish(descriptor: int) -> None:
            if descriptor < 0:
                return
            name = f"/proc/{thread.id}/fd/{descriptor}"
            status, path = os.stat(name), path_below(self._files.root, os.readlink(name))
            if path is not None and S_ISREG(status.st_mode):
                self.record_open(name, path, status, flags)

        return finish

    @staticmethod
    def is_unnamed(flags: int) -> bool:
        return bool(flags & _UNNAMED)

    def record_open(self, name: str, path: str, status: os.stat_result, flags: int) -> None:
        """Record the creation or truncation of a file by an open call. name: a path that the recorder can open."""
        known = self._files.of(status)
        if known is None:
            self._record_new_file(name, "" if self.is_unnamed(flags) else path)
        elif flags & os.O_TRUNC:
            self._notes.add(steps.TRUNCATE, file=known.number)
            self._maps.mark_known(known)

    def _record_new_file(self, name: str, path: str) -> None:
        """Record a new file. name: a path that the recorder can open."""
        try:
            file = self._files.add_new_file(name)
        except PermissionError:
            self._notes.report_unseen("open", f"{path}: a file that its owner may not read")
        else:
            self._notes.add(steps.CREATE, path, file=file.number)

    def on_mknodat(self, thread: TracedThread, at: int, path: int, mode: int, *_: int) -> Finish | None:
        """Record the creation of a regular file."""
        place = self.place(thread, at, path)
        if place is None or place.path is None or not (S_ISREG(mode) or mode & 0o170000 == 0):
            return None
        real, inner = place.real, place.path
        return lambda result: self._record_new_file(real, inner) if result == 0 else None

    def on_truncate(self, thread: TracedThread, path: int, size: int, *_: int) -> Finish | None:
        try:
            start = _reachable_path(thread, _HERE, os.fsdecode(ptrace.read_text(thread.id, path)))
            return self._contents.truncated(os.stat(start), size)
        except OSError:
            return None  # the call will fail

    # -- calls with two names ------------------------------------------------------------------------

    def on_renameat2(
        self, thread: TracedThread, at: int, old: int, new_at: int, new: int, flags: int, *_: int
    ) -> Finish | None:
        one, other = self.place(thread, at, old), self.place(thread, new_at, new)
        if one is None or other is None or (one.path is None and other.path is None):
            return None
        if not flags & _EXCHANGE and _is_same_file(one.real, other.real):
            return None  # both names belong to one file: "rename() does nothing", says rename(2)
        if _is_special(one.real) and (_is_special(other.real) or not os.path.lexists(other.real)):
            return None  # sockets and FIFOs are not recorded
        path, target = one.path, other.path

        def finish(result: int) -> None:
            if result:
                return
            if path is None or target is None:
                self._notes.report_unseen("rename", f"{path or 'elsewhere'} -> {target or 'elsewhere'}")
            elif flags & _WHITEOUT:
                self._notes.report_unseen("rename", f"{path} -> {target}: with a whiteout")
            else:
                self._notes.add(steps.EXCHANGE if flags & _EXCHANGE else steps.RENAME, path, target)

        return finish

    def on_linkat(
        self, thread: TracedThread, at: int, old: int, new_at: int, new: int, flags: int, *_: int
    ) -> Finish | None:
        """Record a new link to a file, which may have no name yet."""
        place = self.place(thread, new_at, new)
        if place is None:
            return None
        try:
            real, status = self._link_source(thread, at, old, flags)
        except OSError:
            return None  # the call will fail
        path, target, file = path_below(self._files.root, real), place.path, self._files.of(status)
        if path is None and target is None:
            return None

        def finish(result: int) -> None:
            if result:
                return
            if file is None or path is None or target is None:
                what = "a symbolic link" if S_ISLNK(status.st_mode) else "from or to elsewhere"
                self._notes.report_unseen("link", f"{path or 'elsewhere'} -> {target or 'elsewhere'}: {what}")
            elif status.st_nlink:
                self._notes.add(steps.LINK, path, target)
            else:
                self._notes.add(steps.LINK, "", target, file=file.number)

        return finish

    def _link_source(self, thread: TracedThread, at: int, old: int, flags: int) -> tuple[str, os.stat_result]:
        """Return real path and status of the file that gets a new link."""
        text = os.fsdecode(ptrace.read_text(thread.id, old))
        if text or not flags & _EMPTY_PATH:
            start = _reachable_path(thread, at, text)
        else:
            start = f"/proc/{thread.id}/fd/{at & 0xFFFF_FFFF}"
        if flags & _FOLLOW or not text:
            descriptor = os.open(start, os.O_PATH | os.O_CLOEXEC)
            try:
                return os.readlink(f"/proc/self/fd/{descriptor}"), os.fstat(descriptor)
            finally:
                os.close(descriptor)
        above, name = os.path.split(start)
        return os.path.join(_real_directory(above) or above, name), os.lstat(start)

    # -- calls with one name -------------------------------------------------------------------------

    def on_unlinkat(self, thread: TracedThread, at: int, path: int, flags: int, *_: int) -> Finish | None:
        return self._named_call(steps.REMOVE_DIRECTORY if flags & _REMOVE_DIRECTORY else steps.UNLINK, thread, at, path)

    def on_mkdirat(self, thread: TracedThread, at: int, path: int, *_: int) -> Finish | None:
        return self._named_call(steps.MAKE_DIRECTORY, thread, at, path)

    def _named_call(self, kind: str, thread: TracedThread, at: int, path: int) -> Finish | None:
        place = self.place(thread, at, path)
        if place is None or place.path is None:
            return None
        inner = place.path
        if kind == steps.UNLINK and _is_special(place.real):
            return None  # sockets and FIFOs are not recorded
        return lambda result: self._notes.add(kind, inner) if result == 0 else None

    def on_symlinkat(self, thread: TracedThread, text: int, at: int, path: int, *_: int) -> Finish | None:
        place = self.place(thread, at, path)
        if place is None or place.path is None:
            return None
        inner, target = place.path, os.fsdecode(ptrace.read_text(thread.id, text))
        return lambda result: self._notes.add(steps.SYMLINK, inner, target) if result == 0 else None


def _reachable_path(thread: TracedThread, directory: int, text: str) -> str:
    """Convert a path of the thread to a path that the recorder can open."""
    if text.startswith("/"):
        for own, ours in (("/proc/self/", f"/proc/{thread.group}/"), ("/dev/fd/", f"/proc/{thread.group}/fd/")):
            if text.startswith(own):
                return ours + text[len(own) :]
        return text
    directory &= 0xFFFF_FFFF
    base = "cwd" if directory == _HERE else f"fd/{directory}"
    return f"/proc/{thread.id}/{base}/{text}" if text else f"/proc/{thread.id}/{base}"


def _real_directory(directory: str) -> str | None:
    try:
        descriptor = os.open(directory or "/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _is_same_file(one: str, other: str) -> bool:
    try:
        return os.path.samestat(os.lstat(one), os.lstat(other))
    except OSError:
        return False


def _is_special(path: str) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return not (S_ISREG(mode) or S_ISLNK(mode) or S_ISDIR(mode))
