"""Traced threads: their memory mappings, and injected system calls."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from . import ptrace
from .files import KnownFile
from .machines import Architecture
from .registers import Registers, RegisterSet, register

Finish = Callable[[int], None]
"""Records a finished call. The argument is the call's result."""
PAGE_BYTES = 4096
_SHARES_MEMORY = 0x100  # CLONE_VM
_ERRORS = range(2**64 - 4095, 2**64)


@dataclass(slots=True, eq=False)
class SharedMap:
    """A shared mapping of a part of a file at [start, end). protection: the program's own setting."""

    start: int
    end: int
    file: KnownFile
    at: int
    protection: int

    def part(self, start: int, end: int) -> "SharedMap":
        """Return the part of the mapping in [start, end)."""
        start, end = max(start, self.start), min(end, self.end)
        assert start <= end, (start, end)
        return SharedMap(start, end, self.file, self.at + start - self.start, self.protection)


@dataclass(slots=True, eq=False)
class OpenPage:
    """A mapped page on which stores cause no stop. old: its content at the last comparison."""

    file: KnownFile
    at: int
    old: bytes
    task: int
    call: str
    users: set[int] = field(default_factory=set)
    """Threads with a running system call that writes to the page."""


@dataclass(slots=True, eq=False)
class AddressSpace:
    """The memory of one process, or of two processes between vfork and exec."""

    maps: list[SharedMap] = field(default_factory=list)
    call_at: int = 0
    """Address of a system call instruction; 0: unknown."""
    has_map_filter: bool = False
    """Whether the threads stop at memory mapping calls."""
    watched: list[tuple[int, int]] = field(default_factory=list)
    """Address ranges [start, end). The threads stop at system calls with an argument in one of these ranges."""
    open_pages: dict[int, OpenPage] = field(default_factory=dict)
    """Pages on which stores cause no stop, by address."""
    run: tuple[int, int] = (0, 0)
    """The page of the last store, and the number of consecutive stores to this page."""

    def copied(self) -> "AddressSpace":
        """Return a copy for a forked child."""
        parts = [one.part(one.start, one.end) for one in self.maps]
        return AddressSpace(parts, self.call_at, self.has_map_filter, list(self.watched), dict(self.open_pages))

    def maps_in(self, address: int, size_bytes: int) -> list[SharedMap]:
        """Return the mappings that overlap a range."""
        end = address + size_bytes
        return [one for one in self.maps if one.start < end and address < one.end]

    def forget(self, address: int, size_bytes: int) -> None:
        """Remove an unmapped or replaced range from all mappings."""
        end = address + size_bytes
        for one in self.maps_in(address, size_bytes):
            self.maps.remove(one)
            if one.start < address:
                self.maps.append(one.part(one.start, address))
            if end < one.end:
                self.maps.append(one.part(end, one.end))
        assert not self.maps_in(address, size_bytes), hex(address)
        for page in [page for page in self.open_pages if address <= page < end]:
            del self.open_pages[page]


@dataclass(slots=True, eq=False)
class TracedThread:
    """A thread of the program. Processes and threads are numbered in the order of appearance."""

    id: int
    group: int
    process: int
    number: int
    memory: AddressSpace
    task: int = -1
    """Number of the thread's task in the record; -1 before the first step."""
    call: str = ""
    stack: int = 0
    finish: Finish | None = None
    """Records the end of the current call."""
    instructions_left: int = 0
    """Number of instructions until the thread is held; 0: the thread runs until its next step."""


class CallInjector:
    """Makes stopped threads execute system calls and single instructions while signals are blocked."""

    def __init__(self, machine: Architecture) -> None:
        self.machine = machine
        self.registers = Registers(machine)

    def call(self, thread: TracedThread, name: str, *arguments: int) -> int:
        """Make a stopped thread execute a call, then restore its state. Return the result.

        Raises OSError if the call fails, ThreadGone if the thread was killed.
        """
        mask = ptrace.block_signals(thread.id)
        before = self.registers.get(thread.id)
        found = self.call_from(thread, before, name, *arguments)
        self.registers.set(thread.id, before)
        ptrace.set_mask(thread.id, mask)
        return found

    def call_from(self, thread: TracedThread, before: RegisterSet, name: str, *arguments: int) -> int:
        """Like `call`, but the caller blocks signals and restores the registers."""
        machine = self.machine
        changed = dict(zip(machine.arguments, arguments, strict=False)) | machine.set_call(machine.calls[name])
        changed[machine.program_counter] = thread.memory.call_at
        if machine.state is not None:
            changed[machine.state] = machine.without_jump(register(before, machine.state))
        self.registers.set(thread.id, before, changed)
        self.step(thread.id)
        found = register(self.registers.get(thread.id), machine.result)
        if found in _ERRORS:
            number = 2**64 - found
            raise OSError(number, os.strerror(number), f"{name} in the program")
        return found

    def cancel_call(self, thread: TracedThread) -> None:
        if self.machine.has_separate_number:
            self.registers.set_number(thread.id, -1)
        else:
            self.set_register(thread, self.machine.number, -1)

    def set_register(self, thread: TracedThread, index: int, value: int) -> None:
        """Set one register of a stopped thread to a signed or unsigned word."""
        self.registers.set(thread.id, self.registers.get(thread.id), {index: value % 2**64})

    def skip_call(self, thread: TracedThread) -> None:
        """Move a stopped thread to the end of its call without executing the call."""
        self.cancel_call(thread)
        ptrace.go_on(thread.id, ptrace.TO_EXIT)
        ptrace.wait_for(thread.id)

    def step(self, thread: int) -> int:
        """Single-step a stopped thread. Return the signal at its next stop: SIGTRAP after a success."""
        while True:
            if ptrace.CORE is not None:
                status = ptrace.CORE.step(thread)
                status = ptrace.stopped(thread, status) if status else ptrace.wait_for(thread)
            else:
                ptrace.go_on(thread, ptrace.STEP)
                status = ptrace.wait_for(thread)
            if not status >> 16:  # the stop after the instruction has no event number
                return os.WSTOPSIG(status)


def is_thread_of(thread: int, group: int) -> bool:
    """Return whether a thread belongs to a process."""
    return os.path.exists(f"/proc/{group}/task/{thread}")


def shares_memory(thread: int) -> bool:
    """Return whether a cloned process shares its parent's memory."""
    call = Path(f"/proc/{thread}/syscall").read_text().split()
    flags = int(call[1], 16)
    if call[0] == "435":  # the argument of clone3 is a pointer to the flags
        flags = int.from_bytes(ptrace.read_memory(thread, flags, 8), "little")
    return bool(flags & _SHARES_MEMORY)
