"""Stores through maps that are done for a thread: by us, to the same page of the file, with nothing to open or to step.

A thread that has faulted at a plain store needs one stop instead of four, and two changes of its memory's protection
less. We map the page of the file, too. What we store there is what the thread would have: every map of a file shows the
same page. It is done by one copy, which the C library makes by one instruction for the sizes that programs rely on
being whole. The page stays protected meanwhile, so nobody else stores to it unseen.

    not done here    what it may be                                                 instead it is stepped over
    read and change  x86's add, xchg, cmpxchg, push; rep, which opens the page
    too far          beyond the page, or behind the end of the file
    not ours         a file that we may not open for writing, other processors
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
    """Does plain stores, through maps of our own."""

    def __init__(self, machine: Architecture, registers: Registers) -> None:
        self._is_known = machine.name == "x86_64"
        self._machine = machine
        self._registers = registers
        self._kept: OrderedDict[tuple[int, int], mmap.mmap] = OrderedDict()
        """Pages of files by file and place: the last ones used."""

    def close(self) -> None:
        """Give back all maps of ours."""
        for page in self._kept.values():
            page.close()

    def done(
        self, thread: int, before: RegisterSet, instruction: bytes, address: int, file: KnownFile, at: int
    ) -> tuple[int, bytes, bytes] | None:
        """Do the store that a thread has faulted at, and move it on; return where, and what was there and is now.

        address: where it has faulted; at: that page's place in the file. None: not done, and the thread as it was.
        """
        found = plain_store(instruction) if self._is_known else None
        if found is None or found.address(lambda index: register(before, index)) != address:
            return None  # the second part of a store across pages faults elsewhere than it begins
        start = address % PAGE_BYTES
        end = start + found.size
        page = self._page(file, at) if at + end <= file.size_bytes and end <= PAGE_BYTES else None
        new = self._value(thread, before, found)
        if page is None or new is None or end > len(page):
            return None
        program_counter = self._machine.program_counter
        self._registers.set(thread, before, {program_counter: register(before, program_counter) + found.length})
        old = page[start:end]
        page[start:end] = new
        return at + start, old, new

    def _value(self, thread: int, before: RegisterSet, found: PlainStore) -> bytes | None:
        if found.constant:
            return found.constant
        if found.register is not None:
            return before.general[found.register * _WORD.size + found.start :][: found.size]
        assert found.vector is not None
        vector = self._registers.vector(thread, found.vector)
        return None if vector is None else vector[found.start : found.start + found.size]

    def _page(self, file: KnownFile, at: int) -> mmap.mmap | None:
        """Return a page of a file, as far as the file goes, None if it is not ours to change."""
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
        except (OSError, ValueError):  # it has no maps, or has become shorter
            return None
        finally:
            os.close(descriptor)
        if kept is not None:
            kept.close()  # the file was shorter
        elif len(self._kept) >= _KEPT_MAX:
            self._kept.popitem(last=False)[1].close()
        self._kept[key] = page
        return page
