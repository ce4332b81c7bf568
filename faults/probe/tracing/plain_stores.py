"""Plain stores: executes simple store instructions on behalf of a thread.

The recorder maps the same page of the file and writes the thread's value there. All mappings of the file share this
page. So the thread stops once instead of four times. The page stays protected, so no store of another thread is missed.
For sizes that programs expect to be atomic, the C library copies with a single instruction.

    single-stepped   examples
    read and change  x86's add, xchg, cmpxchg, push; rep, which opens the page
    too far          beyond the page, or beyond the end of the file
    not possible     a file that the recorder may not open for writing, other processors
"""

import mmap
import os
from collections import OrderedDict
from struct import Struct

from .files import KnownFile
from .machines import Architecture
from .registers import Registers, RegisterSet, register
from .store_instructions import PlainStore, plain_store
from .threads import PAGE_BYTES

_KEPT_MAX = 64
_AGAIN = os.O_RDWR | os.O_CLOEXEC
_WORD = Struct("<Q")


class PlainStores:
    """Executes plain stores through the recorder's own mappings."""

    def __init__(self, machine: Architecture, registers: Registers) -> None:
        self._is_known = machine.name == "x86_64"
        self._machine = machine
        self._registers = registers
        self._kept: OrderedDict[tuple[int, int], mmap.mmap] = OrderedDict()
        """The recently used pages, by file number and offset."""

    def close(self) -> None:
        for page in self._kept.values():
            page.close()

    def execute_store(
        self, thread: int, before: RegisterSet, instruction: bytes, address: int, file: KnownFile, at: int
    ) -> tuple[int, bytes, bytes] | None:
        """Execute the store at which a thread has faulted, and advance the thread. Return offset, old and new bytes.

        address: the address of the fault; at: the offset of its page in the file. Return None if this is impossible.
        """
        found = plain_store(instruction) if self._is_known else None
        if found is None or found.address(lambda index: register(before, index)) != address:
            return None  # a store across two pages may fault at its second part
        start = address % PAGE_BYTES
        end = start + found.size
        page = self._map_page(file, at) if at + end <= file.size_bytes and end <= PAGE_BYTES else None
        new = self._stored_value(thread, before, found)
        if page is None or new is None or end > len(page):
            return None
        program_counter = self._machine.program_counter
        self._registers.set(thread, before, {program_counter: register(before, program_counter) + found.length})
        assert len(new) == end - start, (start, end, len(new))
        old = page[start:end]
        page[start:end] = new
        return at + start, old, new

    def _stored_value(self, thread: int, before: RegisterSet, found: PlainStore) -> bytes | None:
        if found.constant:
            return found.constant
        if found.register is not None:
            return before.general[found.register * _WORD.size + found.start :][: found.size]
        assert found.vector is not None
        vector = self._registers.vector(thread, found.vector)
        return None if vector is None else vector[found.start : found.start + found.size]

    def _map_page(self, file: KnownFile, at: int) -> mmap.mmap | None:
        """Return a page of a file, up to the end of the file, or None if the recorder cannot write to the page."""
        key = (file.number, at)
        kept = self._kept.get(key)
        if kept is not None and len(kept) == PAGE_BYTES:
            return kept
        try:
            descriptor = os.open(f"/proc/self/fd/{file.descriptor}", _AGAIN)
        except OSError:
            return None
        try:
            page = mmap.mmap(descriptor, min(PAGE_BYTES, file.size_bytes - at), offset=at)
        except (OSError, ValueError):  # the file cannot be mapped, or has become shorter
            return None
        finally:
            os.close(descriptor)
        if kept is not None:
            kept.close()  # the page was mapped when the file was shorter
        elif len(self._kept) >= _KEPT_MAX:
            self._kept.popitem(last=False)[1].close()
        self._kept[key] = page
        return page
