"""Shared mappings: records store instructions by write protection.

The recorder makes each new writable mapping read-only. A store then stops its thread. The recorder makes the page
writable ("opens" the page), lets the thread run one instruction, protects the page again, and records the changed bytes
as a step. In three cases a page stays open, and all its changes become one step:

    while the kernel writes to the page   until the call has ended (kernel_stores.py)
    after many stores to it in a row      until a store to another page, or a recorded call
    for x86's `rep`, ARM's exclusives     likewise: they cannot be single-stepped

Before any other step, the recorder records the changes in all open pages, so the steps stay in order.
"""

import os
import signal

from ..record import DATA, SYNC, ZERO_RANGE
from . import ptrace
from .files import KnownFile, KnownFiles
from .machines import Architecture
from .notes import ProgramNotes
from .plain_stores import PlainStores
from .registers import RegisterSet, register
from .seccomp import OURS, AnyBit, filter_of, filter_of_range
from .shadows import PAGE_BYTES, FileShadow, difference
from .threads import AddressSpace, CallInjector, Finish, OpenPage, SharedMap, TracedThread

CALLS: dict[str, AnyBit | None] = {
    "mmap": AnyBit(3, 0x11),  # MAP_SHARED, MAP_FIXED
    "munmap": None,
    "mremap": None,
    "mprotect": AnyBit(2, 2),  # PROT_WRITE
    "msync": AnyBit(2, 4),  # MS_SYNC
    "madvise": AnyBit(2, 9),  # MADV_REMOVE; the mask includes MADV_FREE
    "remap_file_pages": None,
}
"""Memory mapping calls. Only a process that maps a recorded file with MAP_SHARED stops at these calls."""
_WRITE, _SHARED, _FIXED, _REMOVE, _SYNCHRONOUS = 2, 1, 0x10, 9, 4
_RUN_MAX = 64  # after this number of consecutive stores the page stays open
_READ_WRITE, _PRIVATE_ANONYMOUS, _SET_FILTER, _ALL_THREADS = 3, 0x22, 1, 1


class MapCalls:
    """Records memory mapping calls, and stores to mappings. is_stepped: whether each store is a step."""

    def __init__(
        self,
        machine: Architecture,
        files: KnownFiles,
        notes: ProgramNotes,
        injector: CallInjector,
        is_stepped: bool,
        into_memory: dict[str, AnyBit | None],
    ) -> None:
        self._machine = machine
        self._files = files
        self._notes = notes
        self._injector = injector
        self._is_stepped = is_stepped
        self._filter = filter_of(machine, CALLS | into_memory if is_stepped else CALLS)
        self._open: dict[tuple[int, int], OpenPage] = {}
        self._shadows: dict[int, FileShadow] = {}
        self._plain = PlainStores(machine, injector.registers)

    def close(self) -> None:
        self._plain.close()

    # -- calls ---------------------------------------------------------------------------------------

    def on_mmap(
        self, thread: TracedThread, wanted: int, size: int, protection: int, flags: int, fd: int, at: int
    ) -> Finish | None:
        """Record a mapping of a recorded file, or the replacement of such a mapping."""
        file = None
        if flags & _SHARED and fd & 0xFFFF_FFFF != 0xFFFF_FFFF:
            state = self._files.descriptor_state(thread.id, fd)
            # a mapping of a read-only descriptor cannot be writable
            file = state.file if state.flags & os.O_ACCMODE == os.O_RDWR else None
        if file is None and not (flags & _FIXED and thread.memory.maps_in(wanted, size)):
            return None  # replaces no recorded mapping

        def finish(address: int) -> None:
            if -PAGE_BYTES < address < 0:
                return
            length = _whole_pages(size)
            thread.memory.forget(address, length)
            if file is not None:
                self._watch_map(thread, SharedMap(address, address + length, file, at, protection))

        return finish

    def _watch_map(self, thread: TracedThread, found: SharedMap) -> None:
        memory = thread.memory
        memory.maps.append(found)
        if not memory.has_map_filter:
            memory.has_map_filter = True
            self._install_filter(thread, self._filter)
        if self._is_stepped and found.protection & _WRITE:
            if not any(start <= found.start and found.end <= end for start, end in memory.watched):
                memory.watched.append((found.start, found.end))
                self._install_filter(thread, filter_of_range(self._machine, found.start, found.end))
            allowed = found.protection & ~_WRITE
            self._injector.call(thread, "mprotect", found.start, found.end - found.start, allowed, OURS)
        elif not self._is_stepped and found.file.number not in self._shadows:
            self._shadows[found.file.number] = FileShadow(found.file)

    def _install_filter(self, thread: TracedThread, code: bytes) -> None:
        """Add a seccomp filter to all threads of a process."""
        call = self._injector.call
        try:
            page = call(thread, "mmap", 0, PAGE_BYTES, _READ_WRITE, _PRIVATE_ANONYMOUS, 2**64 - 1, 0)
            head = len(code) // 8, page + 16
            ptrace.write_memory(thread.id, page, b"".join(one.to_bytes(8, "little") for one in head) + code)
            refused = call(thread, "seccomp", _SET_FILTER, _ALL_THREADS, page)
            call(thread, "munmap", page, PAGE_BYTES)
        except OSError as error:
            self._notes.report_unseen("seccomp", f"{error.strerror}: calls that change maps are not recorded")
        else:
            if refused:
                self._notes.report_unseen("seccomp", f"thread {refused} has a filter of its own")

    def on_mprotect(self, thread: TracedThread, address: int, size: int, protection: int, *_: int) -> Finish | None:
        """Record that a mapping becomes writable."""
        memory = thread.memory
        if not memory.maps_in(address, size):
            return None

        def finish(result: int) -> None:
            if result:
                return
            parts = [one.part(address, address + _whole_pages(size)) for one in memory.maps_in(address, size)]
            memory.forget(address, _whole_pages(size))
            for part in parts:
                part.protection = protection
                self._watch_map(thread, part)

        return finish

    def on_munmap(self, thread: TracedThread, address: int, size: int, *_: int) -> Finish | None:
        memory = thread.memory
        if not memory.maps_in(address, size):
            return None
        return lambda result: memory.forget(address, _whole_pages(size)) if result == 0 else None

    def on_mremap(self, thread: TracedThread, address: int, old_size: int, size: int, *_: int) -> Finish | None:
        memory = thread.memory
        found = memory.maps_in(address, 1)
        if not found:
            return None
        moved = found[0]

        def finish(start: int) -> None:
            if -PAGE_BYTES < start < 0:
                return
            at = moved.at + address - moved.start
            memory.forget(address, _whole_pages(old_size))
            memory.forget(start, _whole_pages(size))
            self._watch_map(thread, SharedMap(start, start + _whole_pages(size), moved.file, at, moved.protection))

        return finish

    def on_msync(self, thread: TracedThread, address: int, size: int, flags: int, *_: int) -> Finish | None:
        """Record the sync of a range. MS_ASYNC has no effect."""
        found = thread.memory.maps_in(address, size) if flags & _SYNCHRONOUS else []
        if not found:
            return None

        def finish(result: int) -> None:
            for one in found if result == 0 else ():
                part = one.part(address, address + _whole_pages(size))
                length = part.end - part.start
                if part.at == 0 and length >= part.file.size_bytes:
                    length = 0
                self._notes.add(SYNC, target=DATA, file=part.file.number, at=part.at, size=length)

        return finish

    def on_madvise(self, thread: TracedThread, address: int, size: int, advice: int, *_: int) -> Finish | None:
        """Record MADV_REMOVE, which punches a hole into the file."""
        found = thread.memory.maps_in(address, size) if advice == _REMOVE else []
        if not found:
            return None

        def finish(result: int) -> None:
            for one in found if result == 0 else ():
                part = one.part(address, address + _whole_pages(size))
                self._notes.add(ZERO_RANGE, file=part.file.number, at=part.at, size=part.end - part.start)
                self.mark_known(part.file)

        return finish

    def on_remap_file_pages(self, thread: TracedThread, address: int, size: int, *_: int) -> Finish | None:
        """Report the call as unsupported."""
        if not thread.memory.maps_in(address, size):
            return None
        return lambda result: self._notes.report_unseen("remap_file_pages", "a map that reorders the pages of its file")

    # -- stores --------------------------------------------------------------------------------------

    @property
    def compares_contents(self) -> bool:
        """Return whether each recorded call must compare files or pages with their known content."""
        return bool(self._open or self._shadows)

    def run_store(self, thread: TracedThread) -> int | None:
        """Run the store that raised SIGSEGV. Return the signal to deliver, or None if SIGSEGV has another cause."""
        memory = thread.memory
        fault = ptrace.memory_fault(thread.id)
        found = _writable(memory, fault.address) if fault.is_protected else None
        if found is None:
            return None
        page = fault.address & -PAGE_BYTES
        if page in memory.open_pages:
            return 0  # another thread has opened the page
        self.record_open_pages()
        before = self._injector.registers.get(thread.id)
        last, count = memory.run
        memory.run = (page, count + 1 if page == last else 1)
        try:
            instruction = ptrace.read_memory(thread.id, register(before, self._machine.program_counter), 16)
        except OSError:  # another thread has replaced the program by execve
            raise ptrace.ThreadGone(thread.id) from None
        is_opened = self._machine.is_repeated(instruction) or self._machine.is_store_exclusive(instruction)
        stays_open = is_opened or memory.run[1] > _RUN_MAX
        to_close = [one for one, open_page in memory.open_pages.items() if not open_page.users]
        if not (stays_open or to_close) and self._execute_for_thread(thread, before, instruction, fault.address, found):
            return 0
        mask = ptrace.block_signals(thread.id)
        for one in to_close:
            self._protect_page(thread, before, one)
        if stays_open:
            self._open_page(thread, before, page, found, "")
            self._injector.registers.set(thread.id, before)
            ptrace.set_mask(thread.id, mask)
            return 0
        outcome, after = self._step_over(thread, before, page, found)
        self._injector.registers.set(thread.id, after)
        ptrace.set_mask(thread.id, mask)
        return outcome

    def _execute_for_thread(
        self, thread: TracedThread, before: RegisterSet, instruction: bytes, address: int, found: SharedMap
    ) -> bool:
        """If possible, execute a store on behalf of the thread. Return whether it was executed."""
        at = found.at + (address & -PAGE_BYTES) - found.start
        done = self._plain.execute_store(thread.id, before, instruction, address, found.file, at)
        if done is None:
            return False
        start, old, new = done
        span = difference(old, new)
        if span is not None:
            self._notes.record_store(found.file.number, start + span[0], new[span[0] : span[1]])
            if (still_open := self._open.get((found.file.number, at))) is not None:
                still_open.old = os.pread(found.file.descriptor, PAGE_BYTES, at)
        return True

    def _step_over(
        self, thread: TracedThread, before: RegisterSet, page: int, found: SharedMap
    ) -> tuple[int, RegisterSet]:
        """Single-step one instruction. Return the signal to deliver and the registers to set."""
        call_from, registers = self._injector.call_from, self._injector.registers
        opened: list[tuple[int, SharedMap, bytes]] = []
        try:
            while True:
                at = found.at + page - found.start
                opened.append((page, found, os.pread(found.file.descriptor, PAGE_BYTES, at)))
                call_from(thread, before, "mprotect", page, PAGE_BYTES, found.protection, OURS)
                registers.set(thread.id, before)
                number = self._injector.step(thread.id)
                if number != signal.SIGSEGV:
                    break
                fault = ptrace.memory_fault(thread.id)  # the store spans two pages, or its source is unmapped
                other = _writable(thread.memory, fault.address) if fault.is_protected else None
                page = fault.address & -PAGE_BYTES
                if other is None or any(page == one[0] for one in opened):
                    break
                found = other
            after = registers.get(thread.id)
            for page, one, _ in opened:
                call_from(thread, after, "mprotect", page, PAGE_BYTES, one.protection & ~_WRITE, OURS)
        finally:  # also if the thread was killed
            for page, one, old in opened:
                self._note_store(one.file, one.at + page - one.start, old)
        return (0 if number == signal.SIGTRAP else number), after

    def _note_store(self, file: KnownFile, at: int, old: bytes) -> None:
        new = os.pread(file.descriptor, PAGE_BYTES, at)
        span = difference(old, new)
        if span is not None:
            self._notes.record_store(file.number, at + span[0], new[span[0] : span[1]])
            if (still_open := self._open.get((file.number, at))) is not None:
                still_open.old = new

    # -- open pages ----------------------------------------------------------------------------------

    def _open_page(self, thread: TracedThread, before: RegisterSet, page: int, found: SharedMap, call: str) -> OpenPage:
        """Make a page writable. The caller restores the registers."""
        assert page % PAGE_BYTES == 0, hex(page)
        assert page not in thread.memory.open_pages, hex(page)
        at = found.at + page - found.start
        key = (found.file.number, at)
        known = self._open.get(key)
        if known is None:
            old = os.pread(found.file.descriptor, PAGE_BYTES, at)
            known = self._open[key] = OpenPage(found.file, at, old, thread.task, call)
        thread.memory.open_pages[page] = known
        self._injector.call_from(thread, before, "mprotect", page, PAGE_BYTES, found.protection, OURS)
        return known

    def _protect_page(self, thread: TracedThread, before: RegisterSet, page: int) -> None:
        """Protect a page again and record the changes in it. The caller restores the registers."""
        memory = thread.memory
        one = memory.open_pages.pop(page)
        (found,) = memory.maps_in(page, 1)
        self._injector.call_from(thread, before, "mprotect", page, PAGE_BYTES, found.protection & ~_WRITE, OURS)
        self._record_page_changes(one)
        self._open.pop((one.file.number, one.at), None)

    def close_pages(self, thread: TracedThread) -> None:
        """Protect the pages opened for a thread's call, except pages in use by other calls."""
        memory = thread.memory
        memory.run = (0, 0)
        if not memory.open_pages:
            return
        pages = [page for page, one in memory.open_pages.items() if not one.users]
        if pages:
            before = self._injector.registers.get(thread.id)
            if self._machine.is_undecided(register(before, self._machine.result)):
                return  # the next step protects these pages
            mask = ptrace.block_signals(thread.id)
            for page in pages:
                self._protect_page(thread, before, page)
            self._injector.registers.set(thread.id, before)
            ptrace.set_mask(thread.id, mask)

    def open_for_call(self, thread: TracedThread, address: int, size: int, call: str) -> list[OpenPage]:
        """Make the mapped pages of a range writable for the kernel. Return these pages."""
        memory = thread.memory
        before = self._injector.registers.get(thread.id)
        pages = []
        for one in memory.maps_in(address, size):
            if one.protection & _WRITE:
                part = one.part(address & -PAGE_BYTES, _whole_pages(address + size))
                for page in range(part.start, part.end, PAGE_BYTES):
                    open_page = memory.open_pages.get(page) or self._open_page(thread, before, page, one, call)
                    open_page.users.add(thread.id)
                    pages.append(open_page)
        self._injector.registers.set(thread.id, before)
        return pages

    def record_open_pages(self) -> None:
        """Record the changes in open pages. Must be called before any other step."""
        for page in self._open.values():
            self._record_page_changes(page)
        for number, shadow in self._shadows.items():
            for at, data in shadow.changes():
                self._notes.record_store(number, at, data, by=(self._notes.task, ""))

    def _record_page_changes(self, page: OpenPage) -> None:
        new = os.pread(page.file.descriptor, PAGE_BYTES, page.at)
        if new != page.old:
            span = difference(page.old, new)
            page.old = new
            if span is not None:
                self._notes.record_store(
                    page.file.number, page.at + span[0], new[span[0] : span[1]], by=(page.task, page.call)
                )

    def mark_known(self, file: KnownFile, at: int = 0, size: int = 1 << 62) -> None:
        """Update the known content of a range whose change is already recorded."""
        for page in self._open.values():
            if page.file is file and page.at < at + size and at < page.at + PAGE_BYTES:
                page.old = os.pread(file.descriptor, PAGE_BYTES, page.at)
        if file.number in self._shadows:
            self._shadows[file.number].refresh()

    def forget_thread(self, thread: int) -> None:
        for page in self._open.values():
            page.users.discard(thread)


def _writable(memory: AddressSpace, address: int) -> SharedMap | None:
    """Return the mapping at an address if the program may write to it."""
    for one in memory.maps:
        if one.start <= address < one.end:
            return one if one.protection & _WRITE else None
    return None


def _whole_pages(size: int) -> int:
    return -(-size // PAGE_BYTES) * PAGE_BYTES
