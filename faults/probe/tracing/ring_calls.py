"""Ring calls: records io_uring_setup, io_uring_enter and io_uring_register.

A program queues requests in memory shared with the kernel, and submits them by io_uring_enter. The recorder executes
these requests one by one (submissions.py), and then lets the thread wait for completions.

With SQPOLL, a kernel thread reads the queue without a call, so the recorder would see the requests too late. The
recorder refuses SQPOLL with EPERM, like old kernels for users without privileges, and unknown flags with EINVAL.
"""

import errno
import os
import re
import struct
from collections.abc import Callable, Sequence
from functools import partial

from . import ptrace
from .call_faults import CallFaults
from .files import KnownFiles
from .maps import MapCalls
from .notes import ProgramNotes
from .ptrace import EnteredCall
from .ring_operations import ENTER, LAST_KNOWN, RingOperations
from .rings import (
    FEATURE_SKIP,
    KNOWN_SETUP_FLAGS,
    REGISTERED_ONLY,
    SETUP_BYTES,
    SKIP_SUCCESS,
    SQPOLL,
    Queues,
    Ring,
    RingPlaces,
    RingRequest,
    features_of,
    given_places,
    mapped_places,
)
from .submissions import Submission, forget_completed
from .threads import AddressSpace, CallInjector, Finish, TracedThread

_GET_EVENTS, _REGISTERED_RING = 1, 16  # flags of io_uring_enter
_RING_IS_REGISTERED = 1 << 31  # in the operation of io_uring_register
_FILES, _NO_FILES, _FILES_UPDATE, _PROBE, _FILES_2, _FILES_UPDATE_2 = 2, 3, 6, 8, 13, 14
_RING_DESCRIPTORS, _NO_RING_DESCRIPTORS, _RESIZE = 20, 21, 33
_SPARSE = 1
_OVERFLOWN = re.compile(r"^\s*user_data=(\d+), res=(-?\d+), flags=", re.MULTILINE)


class RingCalls:
    """Records io_uring requests. faults: injects faults, or None."""

    def __init__(
        self, files: KnownFiles, notes: ProgramNotes, maps: MapCalls, injector: CallInjector, operations: RingOperations
    ) -> None:
        self._files = files
        self._notes = notes
        self._maps = maps
        self._injector = injector
        self._operations = operations
        self.faults: CallFaults | None = None
        self._rings: dict[int, Ring] = {}  # by inode
        self._registered: dict[tuple[int, int], Ring] = {}
        """Rings that a thread addresses by an index instead of a descriptor."""
        self._places: dict[tuple[AddressSpace, Ring], RingPlaces] = {}
        self._to_wait: dict[int, tuple[int, int]] = {}
        """For each thread that repeats a call, its stack pointer and the number of submitted requests."""

    def forget_thread(self, thread: int) -> None:
        self._to_wait.pop(thread, None)
        for key in [key for key in self._registered if key[0] == thread]:
            del self._registered[key]

    # -- rings ---------------------------------------------------------------------------------------

    def on_io_uring_setup(self, thread: TracedThread, _entries: int, params_at: int, *_: int) -> Finish:
        try:
            (flags,) = struct.unpack("<I", ptrace.read_memory(thread.id, params_at + 8, 4))
        except (OSError, struct.error):
            return lambda _result: None  # the call fails
        if flags & SQPOLL:
            return self._finish_refusal(thread, "io_uring with IORING_SETUP_SQPOLL", errno.EPERM)
        if flags & ~KNOWN_SETUP_FLAGS:
            return self._finish_refusal(
                thread, f"io_uring with the flags {flags & ~KNOWN_SETUP_FLAGS:#x}", errno.EINVAL
            )
        return lambda result: self._add_ring(thread, result, params_at) if result >= 0 else None

    def _finish_refusal(self, thread: TracedThread, what: str, error: int) -> Finish:
        self._injector.cancel_call(thread)
        self._notes.refused[what] = errno.errorcode[error]
        return lambda _result: self._injector.set_register(thread, self._injector.machine.result, -error)

    def _add_ring(self, thread: TracedThread, result: int, params_at: int) -> None:
        raw = ptrace.read_memory(thread.id, params_at, SETUP_BYTES)
        if not features_of(raw) & FEATURE_SKIP:  # before Linux 5.17
            self._injector.call(thread, "close", result)
            self._notes.refused["io_uring before Linux 5.17"] = "ENOSYS"
            self._injector.set_register(thread, self._injector.machine.result, -errno.ENOSYS)
            return
        (flags,) = struct.unpack_from("<I", raw, 8)
        if flags & REGISTERED_ONLY:
            ring = Ring.from_parameters(raw, -1)
            self._registered[thread.id, result] = ring
        else:
            inode = os.stat(f"/proc/{thread.id}/fd/{result}").st_ino
            ring = self._rings[inode] = Ring.from_parameters(raw, inode)
        if (places := given_places(raw)) is not None:
            self._places[thread.memory, ring] = places

    def _find_ring(self, thread: TracedThread, fd: int, *, is_registered: bool) -> Ring | None:
        """Return the ring of a call. Return None if the call will fail."""
        fd &= 0xFFFF_FFFF
        if is_registered:
            return self._registered.get((thread.id, fd))
        try:
            return self._rings.get(os.stat(f"/proc/{thread.id}/fd/{fd}").st_ino)
        except OSError:
            return None

    def _find_queues(self, thread: TracedThread, ring: Ring) -> Queues | None:
        """Return the queues of a ring in a thread's memory, or None if they are not mapped."""
        places = self._places.get((thread.memory, ring)) or mapped_places(thread.id, ring.inode)
        if places is None:
            return None
        self._places[thread.memory, ring] = places
        return Queues(thread.id, ring, places)

    # -- submissions ---------------------------------------------------------------------------------

    def execute_submission(self, thread: TracedThread, call: EnteredCall, prepare: Callable[[], None]) -> Finish | None:
        """Execute the requests of io_uring_enter(2). Return None if the call continues unchanged or the thread repeats
        it.

        prepare: called before the first recorded step.
        """
        stack, submitted = self._to_wait.get(thread.id, (-1, 0))
        if stack == call.stack:  # else a signal handler could submit requests first
            del self._to_wait[thread.id]
            return self._finish_wait(thread, call, submitted)
        fd, count, _, flags, *_ = call.arguments
        ring = self._find_ring(thread, fd, is_registered=bool(flags & _REGISTERED_RING))
        if ring is None:
            return None
        queues = self._find_queues(thread, ring)
        if queues is None:
            self._notes.report_unseen(ENTER, "the queues of a ring are not mapped")
            return None
        try:
            requests = queues.requests(count & 0xFFFF_FFFF)
            forget_completed(ring, queues)
        except (OSError, struct.error):
            self._notes.report_unseen(ENTER, "the queues of a ring cannot be read")
            return None
        look = self._operations
        if any(look.refusal_reason(thread, ring, one) or look.equivalent_call(thread, ring, one) for one in requests):
            prepare()
            self._execute_requests(thread, call, ring, queues, requests)
        else:
            ring.in_flight.update(one.user_data for one in requests if not one.flags & SKIP_SUCCESS)
        return None

    def _execute_requests(
        self, thread: TracedThread, call: EnteredCall, ring: Ring, queues: Queues, requests: Sequence[RingRequest]
    ) -> None:
        """Execute the requests in place of a call. Then the thread continues after the call, or repeats the call to
        wait."""
        injector, machine = self._injector, self._injector.machine
        fd, count, _, flags, *_ = call.arguments
        before = injector.registers.get(thread.id)
        injector.skip_call(thread)
        mask = ptrace.block_signals(thread.id)
        made = partial(injector.call_from, thread, before)
        submission = Submission(
            thread,
            ring,
            queues,
            self._operations,
            self._notes,
            self._maps.record_open_pages,
            self.faults,
            lambda submitted, how: made(ENTER, fd, submitted, 0, how | flags & _REGISTERED_RING, 0, 0),
            lambda descriptor, position: made("lseek", descriptor, position, os.SEEK_SET),
            partial(_read_overflow, thread.id, fd, is_known=not flags & _REGISTERED_RING),
        )
        submission.execute_all(requests)
        if submission.submitted == count & 0xFFFF_FFFF and flags & _GET_EVENTS:
            self._to_wait[thread.id] = call.stack, submission.submitted
            after = {machine.program_counter: call.next_address - machine.call_bytes} | machine.set_call(call.number)
        else:
            after = machine.set_result(submission.submitted or -submission.error)
        injector.registers.set(thread.id, before, after)
        ptrace.set_mask(thread.id, mask)
        self._maps.close_pages(thread)

    def _finish_wait(self, thread: TracedThread, call: EnteredCall, submitted: int) -> Finish:
        """Let a thread wait for the requested completions. Return the number of submitted requests."""
        injector, machine = self._injector, self._injector.machine
        injector.set_register(thread, machine.arguments[1], 0)

        def finish(_result: int) -> None:
            # programs may rely on unchanged argument registers
            changed = {machine.arguments[1]: call.arguments[1], machine.result: submitted}
            injector.registers.set(thread.id, injector.registers.get(thread.id), changed)

        return finish

    # -- registrations -------------------------------------------------------------------------------

    def on_io_uring_register(
        self, thread: TracedThread, fd: int, operation: int, at: int, count: int, *_: int
    ) -> Finish | None:
        """Record the registration of files and rings."""
        operation &= 0xFFFF_FFFF
        ring = self._find_ring(thread, fd, is_registered=bool(operation & _RING_IS_REGISTERED))
        operation &= ~_RING_IS_REGISTERED
        count &= 0xFFFF_FFFF
        if operation in (_RING_DESCRIPTORS, _NO_RING_DESCRIPTORS):
            return self._finish_ring_registration(thread, at, count, is_added=operation == _RING_DESCRIPTORS)
        if ring is None:
            return None
        if operation == _RESIZE:
            return self._finish_refusal(thread, "io_uring with rings that are resized", errno.EINVAL)
        if operation == _PROBE:
            return lambda result: self._hide_unknown_operations(thread, at) if result == 0 else None
        return self._finish_file_registration(thread, ring, operation, at, count)

    def _finish_file_registration(
        self, thread: TracedThread, ring: Ring, operation: int, at: int, count: int
    ) -> Finish | None:
        updated = partial(self._operations.finish_slot_update, thread, ring)
        if operation == _NO_FILES:

            def emptied(result: int) -> None:
                for slot in list(ring.files) if result == 0 else ():
                    self._operations.set_slot(thread, ring, slot, -1)

            return emptied
        try:
            if operation == _FILES:
                added = updated(0, at, count)
                return lambda result: added(count if result == 0 else 0)
            if operation == _FILES_UPDATE:
                first, list_at = struct.unpack("<I4xQ", ptrace.read_memory(thread.id, at, 16))
                return updated(first, list_at, count)
            if operation == _FILES_2:
                number, flags, list_at = struct.unpack("<II8xQ", ptrace.read_memory(thread.id, at, 24))
                set_up = updated(0, list_at, 0 if flags & _SPARSE else number)
                return lambda result: set_up(number if result == 0 else 0)
            if operation == _FILES_UPDATE_2:
                first, list_at, number = struct.unpack("<I4xQ8xI", ptrace.read_memory(thread.id, at, 28))
                return updated(first, list_at, number)
        except (OSError, struct.error):
            pass  # the call fails
        return None

    def _finish_ring_registration(self, thread: TracedThread, at: int, count: int, *, is_added: bool) -> Finish:
        """Record the registration of rings by index. The kernel writes the indexes to the list."""

        def finish(done: int) -> None:
            for place in range(at, at + 16 * max(done, 0), 16):
                index, fd = struct.unpack("<I4xQ", ptrace.read_memory(thread.id, place, 16))
                ring = self._find_ring(thread, fd, is_registered=False) if is_added else None
                if ring is not None:
                    self._registered[thread.id, index] = ring
                else:
                    self._registered.pop((thread.id, index), None)

        return finish

    def _hide_unknown_operations(self, thread: TracedThread, at: int) -> None:
        """Remove refused operations from a list of supported operations."""
        last, count = struct.unpack("<BB", ptrace.read_memory(thread.id, at, 2))
        for code in range(LAST_KNOWN + 1, count):
            place = at + 16 + 8 * code
            ptrace.write_memory(thread.id, place, struct.pack("<BxHI", code, 0, 0))
        ptrace.write_memory(thread.id, at, bytes([min(last, LAST_KNOWN)]))


def _read_overflow(thread: int, fd: int, *, is_known: bool) -> list[tuple[int, int]]:
    """Return user data and result of completions that do not fit into a ring."""
    if not is_known:
        return []
    try:
        with open(f"/proc/{thread}/fdinfo/{fd & 0xFFFF_FFFF}") as info:
            text = info.read()
    except OSError:
        raise ptrace.ThreadGone(thread) from None
    return [(int(place), int(result)) for place, result in _OVERFLOWN.findall(text)]
