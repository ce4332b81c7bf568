"""The threads of a recorded program, the memory they share, and calls that a stopped one is made to make."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from . import ptrace
from .files import KnownFile
from .machines import Architecture
from .registers import Registers, RegisterSet, register

Finish = Callable[[int], None]
"""Notes what a call has done, given what it has come to."""
PAGE_BYTES = 4096
_SHARES_MEMORY = 0x100  # CLONE_VM
_ERRORS = range(2**64 - 4095, 2**64)


@dataclass(slots=True, eq=False)
class SharedMap:
    """A part of a file in memory, [start, end), that is seen by all who have it. protection: what its program wants."""

    start: int
    end: int
    file: KnownFile
    at: int
    protection: int

    def part(self, start: int, end: int) -> "SharedMap":
        """Return what of it lies in [start, end)."""
        start, end = max(start, self.start), min(end, self.end)
        return SharedMap(start, end, self.file, self.at + start - self.start, self.protection)


@dataclass(slots=True, eq=False)
class OpenPage:
    """A page of a file that can be stored to unseen. old: what it held when it was last looked at."""

    file: KnownFile
    at: int
    old: bytes
    task: int
    call: str
    users: set[int] = field(default_factory=set)
    """Threads in calls by which the kernel stores to it."""


@dataclass(slots=True, eq=False)
class AddressSpace:
    """The memory of one process, or of several between vfork and exec."""

    maps: list[SharedMap] = field(default_factory=list)
    call_at: int = 0
    """Where an instruction is that makes a system call; 0: not known yet."""
    has_map_filter: bool = False
    """Whether its threads stop at calls that concern maps."""
    watched: list[tuple[int, int]] = field(default_factory=list)
    """Ranges, [start, end): its threads stop at calls with an argument in one of them."""
    open_pages: dict[int, OpenPage] = field(default_factory=dict)
    """Pages that can be stored to unseen, each by its address."""
    run: tuple[int, int] = (0, 0)
    """The page that was stored to last, and how often without anything between."""

    def copied(self) -> "AddressSpace":
        """Return the memory of a process that has been forked."""
        parts = [one.part(one.start, one.end) for one in self.maps]
        return AddressSpace(parts, self.call_at, self.has_map_filter, list(self.watched), dict(self.open_pages))

    def maps_in(self, address: int, size_bytes: int) -> list[SharedMap]:
        """Return the shared maps that share memory with a range."""
        end = address + size_bytes
        return [one for one in self.maps if one.start < end and address < one.end]

    def forget(self, address: int, size_bytes: int) -> None:
        """Take a range out of all maps: there is nothing any more, or something else."""
        end = address + size_bytes
        for one in self.maps_in(address, size_bytes):
            self.maps.remove(one)
            if one.start < address:
                self.maps.append(one.part(one.start, address))
            if end < one.end:
                self.maps.append(one.part(end, one.end))
        for page in [page for page in self.open_pages if address <= page < end]:
            del self.open_pages[page]


@dataclass(slots=True, eq=False)
class TracedThread:
    """A thread of the program. process: the number of its process, in the order of appearance, as its own is."""

    id: int
    group: int
    process: int
    number: int
    memory: AddressSpace
    task: int = -1
    """Its number in the record, -1: it has done nothing yet."""
    call: str = ""
    stack: int = 0
    """The number of the stack that it has in the call that is under way."""
    finish: Finish | None = None
    """What to do when the call that is under way has ended."""


class CallInjector:
    """Has stopped threads make calls and single steps, with their signals held back."""

    def __init__(self, machine: Architecture) -> None:
        self.machine = machine
        self.registers = Registers(machine)

    def call(self, thread: TracedThread, name: str, *arguments: int) -> int:
        """Have a stopped thread make a call; return what it comes to. It is then as it was.

        Raises OSError if the call fails, ThreadGone if the thread is killed meanwhile.
        """
        mask = ptrace.block_signals(thread.id)
        before = self.registers.get(thread.id)
        found = self.call_from(thread, before, name, *arguments)
        self.registers.set(thread.id, before)
        ptrace.set_mask(thread.id, mask)
        return found

    def call_from(self, thread: TracedThread, before: RegisterSet, name: str, *arguments: int) -> int:
        """Do so with signals blocked already, and leave the registers to the caller, who knows them."""
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
        """Have a thread that is in front of a call not make it when it goes on."""
        if self.machine.takes_number_apart:
            self.registers.set_number(thread.id, -1)
        else:
            self.set_register(thread, self.machine.number, -1)

    def set_register(self, thread: TracedThread, index: int, value: int) -> None:
        """Set one register of a stopped thread. value: a signed or unsigned word."""
        self.registers.set(thread.id, self.registers.get(thread.id), {index: value % 2**64})

    def skip_call(self, thread: TracedThread) -> None:
        """Have a thread that is in front of a call stop behind it, without making it."""
        self.cancel_call(thread)
        ptrace.go_on(thread.id, ptrace.TO_EXIT)
        ptrace.wait_for(thread.id)

    def step(self, thread: int) -> int:
        """Have a stopped thread do one instruction, or one call; return the signal it stops with, SIGTRAP if done."""
        while True:
            if ptrace.CORE is not None:
                status = ptrace.CORE.step(thread)
                status = ptrace.stopped(thread, status) if status else ptrace.wait_for(thread)
            else:
                ptrace.go_on(thread, ptrace.STEP)
                status = ptrace.wait_for(thread)
            if not status >> 16:  # it is not an event, which comes first
                return os.WSTOPSIG(status)


def is_thread_of(thread: int, group: int) -> bool:
    """Return whether a thread is one of a process, and not the first one of another."""
    return os.path.exists(f"/proc/{group}/task/{thread}")


def shares_memory(thread: int) -> bool:
    """Return whether the thread that is being cloned, into a process of its own, shares its parent's memory."""
    call = Path(f"/proc/{thread}/syscall").read_text().split()
    flags = int(call[1], 16)
    if call[0] == "435":  # clone3 takes the address of its flags
        flags = int.from_bytes(ptrace.read_memory(thread, flags, 8), "little")
    return bool(flags & _SHARES_MEMORY)
