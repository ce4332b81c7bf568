"""Kernel stores: records system calls that write to mapped files, such as read(2).

A system call that writes to a protected page would fail with EFAULT. So a thread stops at any call with an argument
that points to a recorded mapping. The recorder makes the pages writable, lets the thread repeat the call, and then
records the changes in the pages. Other calls may run in the meantime, because the call may wait for another thread.
"""

import struct

from . import ptrace
from .maps import CALLS, MapCalls
from .seccomp import AnyBit
from .threads import CallInjector, Finish, OpenPage, TracedThread

_BUFFERS = {"read": (1, 2), "pread64": (1, 2), "recvfrom": (1, 2), "getrandom": (0, 1), "getdents64": (1, 2)}
"""For each call, the indexes of its address and size arguments."""
_STRUCTURES = {"fstat": (1, 144), "newfstatat": (2, 144), "statx": (4, 256)}
"""For each call, the index of its address argument and the size of the structure."""
_VECTORS = {"readv": 1, "preadv": 1, "preadv2": 1}
_MESSAGES = {"recvmsg": 1, "recvmmsg": 1}
_EVENTS = {"io_getevents": 3, "io_pgetevents": 3}
_EVENT_BYTES, _MESSAGE_BYTES = 32, 64
_VECTORS_MAX = 1024  # UIO_MAXIOV: maximum number of buffers, or messages, of a call
INTO_MEMORY: dict[str, AnyBit | None] = dict.fromkeys((*_VECTORS, *_MESSAGES))
"""Calls with indirect addresses. Threads with recorded mappings stop at all these calls."""
KNOWN = (*INTO_MEMORY, *_BUFFERS, *_STRUCTURES, *_EVENTS)
"""Calls for which the size of the written memory is known."""
_RESULT_BYTES = 4096  # assumed size for other calls; enough for a path or a structure
assert not INTO_MEMORY.keys() & CALLS.keys()


class KernelStores:
    """Makes mapped pages writable before calls that write to them."""

    def __init__(self, maps: MapCalls, injector: CallInjector) -> None:
        self._maps = maps
        self._injector = injector
        self._opened: dict[int, list[OpenPage]] = {}  # by thread: the pages made writable for its repeated call

    def entered(self, thread: TracedThread, call: ptrace.EnteredCall, name: str) -> Finish | None:
        """Record a call that writes to mappings. Return None if the call writes to no mapping, or if the thread must
        repeat it."""
        pages = self._opened.pop(thread.id, None)
        if pages is not None:
            return lambda _result: self._close_written_pages(thread, pages)
        memory = thread.memory
        if not memory.maps:
            return None
        try:
            ranges = [
                (at, size) for at, size in _written_ranges(thread.id, name, call.arguments) if memory.maps_in(at, size)
            ]
        except (OSError, struct.error):
            return None  # invalid arguments: the call will fail
        if ranges:
            self._open_pages_and_repeat(thread, call, name, ranges)
        return None

    def _open_pages_and_repeat(
        self, thread: TracedThread, call: ptrace.EnteredCall, name: str, ranges: list[tuple[int, int]]
    ) -> None:
        """Make the pages writable, and make the thread repeat its call."""
        assert thread.id not in self._opened, thread.id  # a repeated call must not be repeated again
        injector, machine = self._injector, self._injector.machine
        registers = injector.registers
        self._maps.record_open_pages()
        before = registers.get(thread.id)
        injector.skip_call(thread)
        mask = ptrace.block_signals(thread.id)
        self._opened[thread.id] = [
            page for at, size in ranges for page in self._maps.open_for_call(thread, at, size, name)
        ]
        again = {machine.program_counter: call.next_address - machine.call_bytes} | machine.set_call(call.number)
        registers.set(thread.id, before, again)
        ptrace.set_mask(thread.id, mask)

    def _close_written_pages(self, thread: TracedThread, pages: list[OpenPage]) -> None:
        for page in pages:
            page.users.discard(thread.id)
        self._maps.record_open_pages()
        self._maps.close_pages(thread)

    def forget_thread(self, thread: int) -> None:
        self._opened.pop(thread, None)


def _written_ranges(thread: int, name: str, arguments: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the address ranges to which the call may write."""
    if (buffer := _BUFFERS.get(name)) is not None:
        return [(arguments[buffer[0]], arguments[buffer[1]])]
    if (structure := _STRUCTURES.get(name)) is not None:
        return [(arguments[structure[0]], structure[1])]
    if (vector := _VECTORS.get(name)) is not None:
        return _read_vector(thread, arguments[vector], arguments[vector + 1])
    if (events := _EVENTS.get(name)) is not None:
        return [(arguments[events], arguments[events - 1] * _EVENT_BYTES)]
    if name not in _MESSAGES:
        return [(argument, _RESULT_BYTES) for argument in arguments]
    start, count = arguments[_MESSAGES[name]], arguments[2] if name == "recvmmsg" else 1
    found = []
    for number in range(min(count, _VECTORS_MAX)):
        _, _, vector_at, length = struct.unpack(
            "<QQQQ", ptrace.read_memory(thread, start + number * _MESSAGE_BYTES, 32)
        )
        found += _read_vector(thread, vector_at, length)
    return found


def _read_vector(thread: int, address: int, count: int) -> list[tuple[int, int]]:
    if count > _VECTORS_MAX:
        return []  # EINVAL
    return list(struct.iter_unpack("<QQ", ptrace.read_memory(thread, address, 16 * count)))
