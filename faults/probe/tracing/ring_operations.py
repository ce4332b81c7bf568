"""Ring operations: finds the equivalent system call of an io_uring request.

The recorder examines a request like this call, before and after it runs. For a registered file, the descriptor argument
is the number from `KnownFiles.register`.

    operation                             system call                      operation       system call
    WRITE, WRITE_FIXED                    write, pwrite64, pwritev2        RENAMEAT        renameat2
    WRITEV, WRITEV_FIXED                  pwritev2                         UNLINKAT        unlinkat
    FSYNC                                 fsync, fdatasync                 MKDIRAT         mkdirat
    FALLOCATE                             fallocate                        SYMLINKAT       symlinkat
    FTRUNCATE                             ftruncate                        LINKAT          linkat
    OPENAT, OPENAT2                       openat, openat2                  SPLICE          splice
    CLOSE, FILES_UPDATE                   change registered files          MADVISE         madvise

Other known operations change no file, or no content. SYNC_FILE_RANGE makes no data durable.

Source: include/uapi/linux/io_uring.h and io_uring/ of Linux 6.18; io_uring_enter(2).
"""

import errno
import os
import struct
from collections.abc import Callable
from stat import S_ISBLK, S_ISDIR, S_ISREG
from typing import NamedTuple

from ..record import DATA
from . import ptrace
from .calls import ContentCalls
from .files import DescriptorState, KnownFiles, path_below
from .maps import MapCalls
from .names import NameCalls, ResolvedPath
from .notes import ProgramNotes
from .rings import FIXED_FILE, Ring, RingRequest
from .threads import Finish, TracedThread

ENTER = "io_uring_enter"
READV, WRITEV, FSYNC, READ_FIXED, WRITE_FIXED, LINK_TIMEOUT, FALLOCATE = 1, 2, 3, 4, 5, 15, 17
OPENAT, CLOSE, FILES_UPDATE, READ, WRITE, MADVISE, OPENAT2, SPLICE = 18, 19, 20, 22, 23, 25, 28, 30
RENAMEAT, UNLINKAT, MKDIRAT, SYMLINKAT, LINKAT, MESSAGE, COMMAND = 35, 36, 37, 38, 39, 40, 46
FTRUNCATE, READV_FIXED, WRITEV_FIXED, LAST_KNOWN = 55, 60, 61, 62
_NAMES = {RENAMEAT, UNLINKAT, MKDIRAT, SYMLINKAT, LINKAT}
_READS, _WRITES = {READV, READ_FIXED, READ, READV_FIXED}, {WRITEV, WRITE_FIXED, WRITE, WRITEV_FIXED}
_VECTORS = {READV, WRITEV, READV_FIXED, WRITEV_FIXED}
_CONTENTS = {FSYNC, FALLOCATE, SPLICE, FTRUNCATE}
_ON_FILES = _READS | _WRITES | _CONTENTS
_HARMLESS = {0, 8, 19, 20, 21, 24, 25, 31, 32, 41, 42, 43, 44, 54}
"""Operations that never wait for another program: NOP, SYNC_FILE_RANGE, CLOSE, FILES_UPDATE, STATX, FADVISE, MADVISE,
PROVIDE_BUFFERS, REMOVE_BUFFERS, extended attributes, and FIXED_FD_INSTALL.
"""
_FILLS_SLOT = {13, 45, 62}  # ACCEPT, SOCKET, PIPE
_ENDS_CHAIN = {*_READS, *_WRITES, OPENAT, OPENAT2, CLOSE, SPLICE}
"""Operations with an error that cancels the rest of a chain of linked requests. Contrary to the manual, a failed sync
or rename cancels no request in Linux 6.18. A request with an invalid file always cancels the rest.
"""
_POSITION = 2**64 - 1
_DATA_ONLY = 1
_ANY_SLOT = 2**32 - 1
_SEND_DESCRIPTOR = 1
_VECTORS_MAX = 1024
_SKIPPED = 2**32 - 2  # IORING_REGISTER_FILES_SKIP


class EquivalentCall(NamedTuple):
    """The system call of a request, with the function that records the call."""

    name: str
    arguments: tuple[int, ...]
    finish: Finish


class RingOperations:
    """Examines io_uring requests."""

    def __init__(
        self, files: KnownFiles, notes: ProgramNotes, contents: ContentCalls, names: NameCalls, maps: MapCalls
    ) -> None:
        self._files = files
        self._notes = notes
        self._contents = contents
        self._names = names
        self._maps = maps

    def refusal_reason(self, thread: TracedThread, ring: Ring, request: RingRequest) -> str:
        """Return the reason why a request must not run, or ""."""
        if request.opcode > LAST_KNOWN:
            return f"operation {request.opcode} of io_uring"
        if request.opcode == COMMAND and self._is_of_disk(thread, self._descriptor(ring, request)):
            return "a command to a file system by io_uring"
        if request.opcode == MESSAGE and request.address == _SEND_DESCRIPTOR:
            return "the transfer of a registered file between rings of io_uring"
        return ""

    def equivalent_call(self, thread: TracedThread, ring: Ring, request: RingRequest) -> EquivalentCall | None:
        """Return the equivalent call of a request before it runs, or None if the request is not recorded."""
        code, fd = request.opcode, self._descriptor(ring, request)
        if code in _READS:
            self._note_read_into_map(thread, request)
        elif code in _WRITES:
            return self._write_call(thread, request, fd)
        elif code in (OPENAT, OPENAT2):
            return self._open_call(thread, ring, request)
        elif code in _FILLS_SLOT and request.slot:
            self.set_slot(thread, ring, request.slot - 1, -1)
        elif code in (CLOSE, FILES_UPDATE):
            return self._slot_call(thread, ring, request)
        elif code in _NAMES:
            return self._name_call(thread, request)
        elif code in _CONTENTS or code == MADVISE:
            return self._content_call(thread, request, fd)
        return None

    def is_prompt(self, thread: TracedThread, ring: Ring, request: RingRequest) -> bool:
        """Return whether a request completes without waiting for another thread or program."""
        code = request.opcode
        if code in _ON_FILES:
            return self._is_of_disk(thread, self._descriptor(ring, request), or_elsewhere=True)
        return code in _HARMLESS or code in _NAMES or code in (OPENAT, OPENAT2, LINK_TIMEOUT)

    def ends_chain(self, thread: TracedThread, ring: Ring, request: RingRequest, result: int) -> bool:
        """Return whether the result of a request cancels the rest of its chain."""
        if result < 0:
            is_without_file = result == -errno.EBADF and not self._has_file(thread, ring, request)
            return is_without_file or request.opcode in _ENDS_CHAIN
        if request.opcode in _VECTORS:
            return result != sum(size for _, size in _read_buffers(thread, request))
        return request.opcode in (_READS | _WRITES | {SPLICE}) and result != request.length

    # -- descriptors ---------------------------------------------------------------------------------

    @staticmethod
    def _descriptor(ring: Ring, request: RingRequest) -> int:
        """Return the descriptor of a request, or the number of its registered file."""
        if request.flags & FIXED_FILE:
            return ring.files.get(request.descriptor, -1)
        return request.descriptor

    def _has_file(self, thread: TracedThread, ring: Ring, request: RingRequest) -> bool:
        fd = self._descriptor(ring, request)
        return fd in self._files.registered or os.path.exists(f"/proc/{thread.id}/fd/{fd & 0xFFFF_FFFF}")

    def set_slot(self, thread: TracedThread, ring: Ring, slot: int, fd: int) -> None:
        """Register the file of a descriptor in a slot of a ring. -1: empty the slot."""
        fd &= 0xFFFF_FFFF
        if fd == _SKIPPED:
            return
        number = ring.files.pop(slot, None)
        if number is not None:
            self._files.unregister(number)
        if fd == 0xFFFF_FFFF:
            return
        state = self._files.descriptor_state(thread.id, fd)
        directory = self._contents.directory_path(thread.id, fd) or ""
        ring.files[slot] = self._files.register(
            state, directory, is_prompt=self._is_of_disk(thread, fd, or_elsewhere=True)
        )

    def _is_of_disk(self, thread: TracedThread, fd: int, *, or_elsewhere: bool = False) -> bool:
        """Return whether a descriptor refers to a recorded file or a directory, or to any file on a disk."""
        registered = self._files.registered.get(fd)
        if registered is not None:
            found = registered.is_prompt if or_elsewhere else registered.state.file or registered.directory
            return bool(found)
        state = self._files.descriptor_state(thread.id, fd)
        if state.file is not None or state.output:
            return True
        name = f"/proc/{thread.id}/fd/{fd & 0xFFFF_FFFF}"
        try:
            mode = os.stat(name).st_mode
            is_inside = path_below(self._files.root, os.readlink(name)) is not None
        except OSError:
            return or_elsewhere  # invalid descriptor: the request fails at once
        return (or_elsewhere or is_inside) and (S_ISREG(mode) or S_ISDIR(mode) or S_ISBLK(mode))

    # -- contents ------------------------------------------------------------------------------------

    def _write_call(self, thread: TracedThread, request: RingRequest, fd: int) -> EquivalentCall | None:
        is_vector, at = request.opcode in _VECTORS, request.other
        state = self._files.descriptor_state(thread.id, fd)
        if state.file is None and not state.output:
            return None
        if at == _POSITION and fd in self._files.registered:
            self._notes.report_unseen(ENTER, "a write at the position of a registered file")
        arguments: tuple[int, ...] = (fd, request.address, request.length)
        if is_vector or request.how:
            arguments = (*arguments, _POSITION if state.output else at, 0, request.how)
            return _as_equivalent("pwritev2", arguments, self._contents.on_pwritev2(thread, *arguments))
        if state.output or at == _POSITION:
            return _as_equivalent("write", arguments, self._contents.on_write(thread, *arguments))
        arguments = (*arguments, at)
        return _as_equivalent("pwrite64", arguments, self._contents.on_pwrite64(thread, *arguments))

    def _content_call(self, thread: TracedThread, request: RingRequest, fd: int) -> EquivalentCall | None:
        contents, at, length = self._contents, request.other, request.length
        arguments: tuple[int, ...]
        if request.opcode == FSYNC:
            return self._sync_call(thread, request, fd)
        if request.opcode == FALLOCATE:
            arguments = (fd, length, at, request.address)
            return _as_equivalent("fallocate", arguments, contents.on_fallocate(thread, *arguments))
        if request.opcode == FTRUNCATE:
            return _as_equivalent("ftruncate", (fd, at), contents.on_ftruncate(thread, fd, at))
        if request.opcode == SPLICE:
            arguments = (request.slot, 0, fd, 0, length, request.how)
            return _as_equivalent("splice", arguments, contents.on_pwrite64(thread, fd, 0, length, at))
        arguments = (request.address, at or length, request.how)
        return _as_equivalent("madvise", arguments, self._maps.on_madvise(thread, *arguments))

    def _sync_call(self, thread: TracedThread, request: RingRequest, fd: int) -> EquivalentCall | None:
        target = DATA if request.how & _DATA_ONLY else ""
        at, end = request.other, request.other + request.length
        size = request.length + 1 if end else 0  # in Linux the end is the last byte; 0: the whole file
        finish = self._contents.finish_sync(thread, fd, target, at, size)
        return _as_equivalent("fdatasync" if target else "fsync", (fd,), finish)

    def _note_read_into_map(self, thread: TracedThread, request: RingRequest) -> None:
        if not thread.memory.maps:
            return
        buffers = _read_buffers(thread, request) if request.opcode in _VECTORS else [(request.address, request.length)]
        if any(thread.memory.maps_in(at, size) for at, size in buffers):
            self._notes.report_unseen(ENTER, "a read of io_uring into a map")

    # -- names ---------------------------------------------------------------------------------------

    def _name_call(self, thread: TracedThread, request: RingRequest) -> EquivalentCall | None:
        names, fd, first, second = self._names, request.descriptor, request.address, request.other
        calls: dict[int, tuple[str, Callable[..., Finish | None], tuple[int, ...]]] = {
            RENAMEAT: ("renameat2", names.on_renameat2, (fd, first, request.length, second, request.how)),
            UNLINKAT: ("unlinkat", names.on_unlinkat, (fd, first, request.how)),
            MKDIRAT: ("mkdirat", names.on_mkdirat, (fd, first, request.length)),
            SYMLINKAT: ("symlinkat", names.on_symlinkat, (first, fd, second)),
            LINKAT: ("linkat", names.on_linkat, (fd, first, request.length, second, request.how)),
        }
        name, handler, arguments = calls[request.opcode]
        return _as_equivalent(name, arguments, handler(thread, *arguments))

    def _open_call(self, thread: TracedThread, ring: Ring, request: RingRequest) -> EquivalentCall | None:
        if request.opcode == OPENAT:
            name, arguments, flags = "openat", (request.descriptor, request.address, request.how), request.how
        else:
            name, arguments = "openat2", (request.descriptor, request.address, request.other)
            try:
                flags = int.from_bytes(ptrace.read_memory(thread.id, request.other, 8), "little")
            except OSError:
                return None  # the request fails
        if not request.slot:
            return _as_equivalent(name, arguments, self._names.finish_open(thread, flags))
        place = self._names.place(thread, request.descriptor, request.address)

        def finish(result: int) -> None:
            if result >= 0:
                slot = result if request.slot == _ANY_SLOT else request.slot - 1
                self._record_direct_open(ring, slot, flags, place)

        return EquivalentCall(name, arguments, finish)

    def _record_direct_open(self, ring: Ring, slot: int, flags: int, place: ResolvedPath | None) -> None:
        """Record an open that returns a slot instead of a descriptor."""
        former = ring.files.pop(slot, None)
        if former is not None:
            self._files.unregister(former)
        path = None if place is None else path_below(self._files.root, os.path.realpath(place.real))
        if place is None or path is None:
            return
        status = os.stat(place.real)
        if S_ISDIR(status.st_mode):
            if self._names.is_unnamed(flags):
                self._notes.report_unseen(ENTER, "a file without a name, which has no descriptor")
            else:
                state = DescriptorState(None, "", 0, flags)
                ring.files[slot] = self._files.register(state, path, is_prompt=True)
            return
        self._names.record_open(place.real, path, status, flags)
        state = DescriptorState(self._files.of(status), "", 0, flags)
        ring.files[slot] = self._files.register(state, "", is_prompt=S_ISREG(status.st_mode))

    # -- registered files ----------------------------------------------------------------------------

    def _slot_call(self, thread: TracedThread, ring: Ring, request: RingRequest) -> EquivalentCall | None:
        if request.opcode == FILES_UPDATE:
            first = request.other % 2**32
            return EquivalentCall("", (), self.finish_slot_update(thread, ring, first, request.address, request.length))
        if not request.slot:
            return None
        slot = request.slot - 1
        return EquivalentCall("", (), lambda result: self.set_slot(thread, ring, slot, -1) if result == 0 else None)

    def finish_slot_update(self, thread: TracedThread, ring: Ring, first: int, list_at: int, count: int) -> Finish:
        """Register the descriptors of a list in slots. If the kernel chooses the slots, the list contains them
        later."""
        descriptors = _read_descriptors(thread, list_at, count)

        def finish(changed: int) -> None:
            is_any = first == _ANY_SLOT
            slots = _read_descriptors(thread, list_at, count) if is_any else range(first, first + count)
            for slot, fd in zip(slots, descriptors[: max(changed, 0)], strict=False):
                self.set_slot(thread, ring, slot, fd)

        return finish


def _read_buffers(thread: TracedThread, request: RingRequest) -> list[tuple[int, int]]:
    """Return the addresses and sizes of a vector's buffers, or [] if the request will fail."""
    try:
        raw = ptrace.read_memory(thread.id, request.address, 16 * min(request.length, _VECTORS_MAX))
        return list(struct.iter_unpack("<QQ", raw))
    except (OSError, struct.error):
        return []


def _read_descriptors(thread: TracedThread, list_at: int, count: int) -> tuple[int, ...]:
    """Return a list of descriptors in a thread's memory, or () if the call will fail."""
    try:
        return struct.unpack(f"<{count}i", ptrace.read_memory(thread.id, list_at, 4 * count))
    except (OSError, struct.error):
        return ()


def _as_equivalent(name: str, arguments: tuple[int, ...], finish: Finish | None) -> EquivalentCall | None:
    return None if finish is None else EquivalentCall(name, arguments, finish)
