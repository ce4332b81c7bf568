"""Asynchronous writes (Linux AIO): reads submitted requests and their completions.

    request (struct iocb)                          ring (struct aio_ring); the context is its address
    offset  bytes  field                           offset  bytes  field
    0       8      data                            4       4      slots
    16      2      opcode                          8       4      head: the next event that the program reads
    20      4      descriptor                      12      4      tail: the next event that the kernel writes
    24      8      buffer                          32      32 *   events: data, address of the request, result, -
    32      8      size_bytes
    40      8      at

Source: include/uapi/linux/aio_abi.h and fs/aio.c of Linux.
"""

import struct
import time
from collections.abc import Iterator
from typing import NamedTuple

from . import ptrace

READ, WRITE, FSYNC, FDATASYNC, WRITE_VECTOR = 0, 1, 2, 3, 8
SECONDS_MAX = 2.0
"""Maximum time to wait for a request to complete."""
_POLL_SECONDS = 0.0002
_request = struct.Struct("<16xH2xIQQq16x")
_BUFFER_AT, _SIZE_AT = 24, 32
_ring = struct.Struct("<4xIII")
_event = struct.Struct("<8xQq8x")
_RING_HEAD_BYTES, _RESULT_AT = 32, 16


class Request(NamedTuple):
    """A submitted request. address: the address of its `struct iocb` in the program's memory."""

    address: int
    opcode: int
    descriptor: int
    buffer: int
    size_bytes: int
    at: int

    def set_buffer(self, thread: int, buffer: int) -> None:
        ptrace.write_memory(thread, self.address + _BUFFER_AT, buffer.to_bytes(8, "little"))

    def set_size(self, thread: int, size_bytes: int) -> None:
        ptrace.write_memory(thread, self.address + _SIZE_AT, size_bytes.to_bytes(8, "little"))


class EventRing:
    """The completion ring of an AIO context, read from a thread's memory. Invalid arguments raise OSError or
    struct.error.
    """

    def __init__(self, thread: int, context: int) -> None:
        self._thread = thread
        self._context = context
        self._slots, _, self._next = self._read_ring_state()

    def requests(self, count: int, list_at: int) -> list[Request]:
        """Return the requests that a call submits, up to the number of slots in the ring."""
        count = min(count, self._slots)
        addresses = struct.unpack(f"<{count}Q", ptrace.read_memory(self._thread, list_at, 8 * count))
        raw = ((address, ptrace.read_memory(self._thread, address, _request.size)) for address in addresses)
        return [Request(address, *_request.unpack(content)) for address, content in raw]

    def _read_ring_state(self) -> tuple[int, int, int]:
        """Return the ring's number of slots, its head and its tail."""
        slots, head, tail = _ring.unpack(ptrace.read_memory(self._thread, self._context, _ring.size))
        return slots, head, tail

    def _event_at(self, slot: int) -> int:
        return self._context + _RING_HEAD_BYTES + slot * _event.size

    def completed(self, due: set[int]) -> dict[int, int]:
        """Wait for the requests at these addresses. Return the results of those that complete within SECONDS_MAX."""
        results: dict[int, int] = {}
        deadline = time.monotonic() + SECONDS_MAX
        while due - results.keys() and time.monotonic() < deadline:
            _, _, tail = self._read_ring_state()
            for slot in _ring_slots(self._next, tail, self._slots):
                address, result = _event.unpack(ptrace.read_memory(self._thread, self._event_at(slot), _event.size))
                if address in due:
                    results[address] = result
            self._next = tail
            time.sleep(0 if not due - results.keys() else _POLL_SECONDS)
        return results

    def set_result(self, address: int, result: int) -> bool:
        """Change the result of a completed request. Return False if the program may have read it already."""
        _, head, tail = self._read_ring_state()
        for slot in _ring_slots(head, tail, self._slots):
            found, _ = _event.unpack(ptrace.read_memory(self._thread, self._event_at(slot), _event.size))
            if found == address:
                data = result.to_bytes(8, "little", signed=True)
                ptrace.write_memory(self._thread, self._event_at(slot) + _RESULT_AT, data)
                return slot in _ring_slots(self._read_ring_state()[1], tail, self._slots)
        return False


def _ring_slots(start: int, end: int, slots: int) -> Iterator[int]:
    while start != end:
        yield start
        start = (start + 1) % slots
