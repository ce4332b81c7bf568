"""Plain calls: records the writes and syncs that the C core executes for stopped threads.

A call that a thread executes itself stops it twice, before and after. At a stop before write(2), pwrite(2), fsync(2) or
fdatasync(2) the core copies the thread's descriptor (pidfd_getfd(2)), executes the call on the copy, sets the result
and lets the thread skip its own call. The copy shares position, flags and write-back errors with the descriptor. The
core handles such stops one after another, and this module records them before the tracer handles another stop.

The core leaves a call to the thread and the tracer if it could behave differently in the recorder: after an error of a
write, with a limit of the file size (setrlimit(2)), with O_DIRECT, for pwrite(2) with O_APPEND, and for another user.
The core does not write to the program's outputs, because the recorder only discards their content.
"""

import os
from collections.abc import Mapping

from ..record import DATA, SYNC, SYNC_DIRECTORY
from . import ptrace
from .calls import ContentCalls
from .core import PlainCall
from .files import KnownFiles, path_below
from .machines import Architecture
from .maps import MapCalls
from .notes import ProgramNotes
from .threads import TracedThread

_PIDFD_THREAD = os.O_EXCL
_CALLS = ("write", "pwrite64", "fsync", "fdatasync")


class PlainCalls:
    """Executes and records the plain calls of threads that have made a step before.

    The first step of a thread is left to the tracer, which reads the thread's name at that time.
    """

    def __init__(
        self, machine: Architecture, files: KnownFiles, notes: ProgramNotes, maps: MapCalls, contents: ContentCalls
    ) -> None:
        self._files = files
        self._notes = notes
        self._maps = maps
        self._contents = contents
        self._names = {machine.calls[name]: name for name in _CALLS}
        self._descriptors: dict[int, int] = {}  # by thread: a pidfd of it
        self._refused: set[int] = set()  # threads without a pidfd, or of another user

    def close(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)

    def wait(self, threads: Mapping[int, TracedThread]) -> tuple[int, int]:
        """Execute plain calls until another stop. Return its thread and status as `ptrace.wait` does."""
        if ptrace.CORE is None or ptrace.has_stops_put_back() or self._must_compare(threads):
            return ptrace.wait()
        events: list[PlainCall] = []
        try:
            known = self._descriptors, self._files.files, self._files.outputs
            first, *others = ptrace.CORE.wait_after_plain_calls(*known, events) or [(0, 0)]
        finally:
            for event in events:
                self._record(threads[event[0]], event)
        for stop in reversed(others):
            ptrace.put_back(*stop)
        return first

    def execute(self, thread: TracedThread, threads: Mapping[int, TracedThread]) -> bool:
        """If the call at which a thread has stopped is plain, execute it. Return whether it is."""
        if ptrace.CORE is None or self._must_compare(threads):
            return False
        known, events = (self._descriptors, self._files.files, self._files.outputs), list[PlainCall]()
        is_executed = ptrace.CORE.execute_plain_call(thread.id, *known, events)
        for event in events:
            self._record(thread, event)
        return is_executed

    def _must_compare(self, threads: Mapping[int, TracedThread]) -> bool:
        """Return whether a call must first record the stores to an open page or file."""
        return self._maps.compares_contents or any(thread.memory.open_pages for thread in threads.values())

    def _record(self, thread: TracedThread, call: PlainCall) -> None:
        _, number, target, at, flags, data = call
        if isinstance(target, bytes):
            target = path_below(self._files.root, os.fsdecode(target))
            if target is None:
                return  # a directory elsewhere
        thread.memory.run = (0, 0)
        name = self._names[number]
        self._notes.set_context(thread.task, name)
        if data is None and isinstance(target, str):
            self._notes.add(SYNC_DIRECTORY, target)
        elif data is None:
            self._notes.add(SYNC, target=DATA if name == "fdatasync" else "", file=target.number)
        elif isinstance(target, str):
            self._contents.record_output(target, data)
        else:
            self._notes.record_written(target.number, at, data)
            self._contents.record_sync_of_write(target, at, len(data), flags)

    def add_thread(self, thread: TracedThread) -> None:
        """Let the core execute the plain calls of a thread from now on, if the thread has made a step."""
        if thread.id in self._descriptors or thread.id in self._refused or not self._notes.has_stepped(thread.task):
            return
        try:
            found = _open_pidfd(thread) if _has_our_user(thread) else None
        except (AttributeError, OSError):  # before Linux 6.9 only a process's first thread has a pidfd
            found = None
        if found is None:
            self._refused.add(thread.id)
        else:
            self._descriptors[thread.id] = found

    def forget_thread(self, thread: int) -> None:
        """Close the pidfd of a thread that has ended or executed another program."""
        self._refused.discard(thread)
        if (descriptor := self._descriptors.pop(thread, None)) is not None:
            os.close(descriptor)


def _has_our_user(thread: TracedThread) -> bool:
    """Return whether the recorder has the same rights, such as to the disk space that is reserved for root."""
    with open(f"/proc/{thread.id}/status") as status:
        users = next(line for line in status if line.startswith("Uid:")).split()[1:]
    return set(users) == {str(os.geteuid())}


def _open_pidfd(thread: TracedThread) -> int:
    """Return a pidfd of a thread. Raises OSError if the kernel has none, AttributeError if Python lacks the call."""
    try:
        return os.pidfd_open(thread.id, _PIDFD_THREAD)
    except OSError:
        return os.pidfd_open(thread.id)
