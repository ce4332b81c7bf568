"""Paths of calls: finds the path of the file that a call writes, syncs or creates."""

import os
from typing import NamedTuple

from . import asynchronous, ptrace
from .asynchronous import EventRing, Request
from .files import KnownFiles, path_below
from .names import NameCalls, ResolvedPath
from .threads import TracedThread

_HERE = 2**32 - 100  # AT_FDCWD as an unsigned 32-bit number
_DELETED = " (deleted)"
"""Suffix that /proc adds to the path of an unlinked file."""


class WriteArguments(NamedTuple):
    """For each write call, the indexes of two arguments: the descriptor, and the number of bytes or buffers."""

    descriptor: int
    amount: int


WRITES = {
    **dict.fromkeys(("write", "writev", "pwrite64", "pwritev", "pwritev2"), WriteArguments(0, 2)),
    "sendfile": WriteArguments(0, 3),
    **dict.fromkeys(("splice", "copy_file_range"), WriteArguments(2, 4)),
}
VECTORS = ("writev", "pwritev", "pwritev2")
"""Write calls whose size argument is a number of buffers."""
SYNCS = ("fsync", "fdatasync")
_DESCRIPTORS = {
    **{name: found.descriptor for name, found in WRITES.items()},
    **dict.fromkeys((*SYNCS, "ftruncate", "fallocate"), 0),
}
OPENS = ("open", "creat", "openat", "openat2")
MAKES = ("mknod", "mknodat", "mkdir", "mkdirat", "link", "linkat", "symlink", "symlinkat")
_PATHS: dict[str, tuple[int | None, int]] = {
    **dict.fromkeys(("open", "creat", "mknod", "mkdir", "truncate"), (None, 0)),
    **dict.fromkeys(("openat", "openat2", "mknodat", "mkdirat"), (0, 1)),
    **dict.fromkeys(("link", "symlink"), (None, 1)),
    "linkat": (2, 3),
    "symlinkat": (1, 2),
}
"""For each call with a path, the indexes of two arguments: the directory's descriptor, if any, and the path."""


class FileCall(NamedTuple):
    """A system call of a stopped thread, or the equivalent call of an io_uring request."""

    thread: TracedThread
    name: str
    arguments: tuple[int, ...]

    @property
    def amount(self) -> int:
        """The number of bytes or buffers of a write call."""
        return self.arguments[WRITES[self.name].amount]


class SubmittedWrite(NamedTuple):
    """An asynchronous write. before: the number of earlier requests in the same call; file: the file's number in the
    record."""

    ring: EventRing
    request: Request
    before: int
    file: int


class CallPaths:
    """Finds the file of a system call before the call runs."""

    def __init__(self, files: KnownFiles, names: NameCalls) -> None:
        self._files = files
        self._names = names

    def file_number(self, call: FileCall) -> int:
        """Return the number of the file of a call's descriptor, or -1."""
        if call.name not in _DESCRIPTORS:
            return -1
        file = self._files.descriptor_state(call.thread.id, call.arguments[_DESCRIPTORS[call.name]]).file
        return -1 if file is None else file.number

    def submitted(self, call: FileCall) -> SubmittedWrite | None:
        """Return the first file write among the requests of an io_submit call."""
        if call.name != "io_submit":
            return None
        ring = EventRing(call.thread.id, call.arguments[0])
        for before, request in enumerate(ring.requests(call.arguments[1], call.arguments[2])):
            file = self._files.descriptor_state(call.thread.id, request.descriptor).file
            if request.opcode == asynchronous.WRITE and file is not None:
                return SubmittedWrite(ring, request, before, file.number)
        return None

    def place(self, call: FileCall) -> ResolvedPath | None:
        """Return the location of a call's path argument. If the call has two paths, the second one is used."""
        at, path = _PATHS[call.name]
        return self._names.place(call.thread, _HERE if at is None else call.arguments[at], call.arguments[path])

    def path(self, call: FileCall) -> str:
        """Return the path of a call's file on the program's disk, "" for a file without a name, the root for syncfs."""
        if call.name == "syncfs":
            return "/"
        if call.name in _PATHS:
            place = self.place(call)
            return "" if place is None else place.path or ""
        if call.name == "msync":
            maps = call.thread.memory.maps_in(call.arguments[0], call.arguments[1])
            return self._link_target(call.thread, f"/proc/self/fd/{maps[0].file.descriptor}") if maps else ""
        if (submitted := self.submitted(call)) is not None:
            descriptor = submitted.request.descriptor
        else:
            descriptor = call.arguments[_DESCRIPTORS[call.name]] & 0xFFFF_FFFF
        if (registered := self._files.registered.get(descriptor)) is None:
            return self._link_target(call.thread, f"/proc/{call.thread.id}/fd/{descriptor}")
        if (file := registered.state.file) is None:
            return registered.directory
        return self._link_target(call.thread, f"/proc/self/fd/{file.descriptor}")

    def _link_target(self, thread: TracedThread, link: str) -> str:
        try:
            path = path_below(self._files.root, os.readlink(link).removesuffix(_DELETED)) or ""
        except OSError:
            raise ptrace.ThreadGone(thread.id) from None
        return "" if os.path.basename(path).startswith("#") else path  # the kernel's name for an O_TMPFILE file
