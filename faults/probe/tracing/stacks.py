"""Stacks of stopped threads: finds the callers, innermost function first.

A stack ends at code without call frame information, such as code compiled by a JVM. `source_lines` converts addresses
to source lines after the program has ended.
"""

import struct
from bisect import bisect_right
from typing import NamedTuple

from . import ptrace
from .call_frames import CallFrames, FrameRule
from .elf import ElfFile
from .go_lines import GoLines, go_lines
from .machines import Architecture
from .registers import Registers, register
from .threads import AddressSpace, TracedThread

DEPTH_MAX = 24
_CHUNK_BYTES = 1024


class StackFrame(NamedTuple):
    """A frame: the linked address of the current instruction or of a call in a module."""

    module: str
    address: int


class _MappedRange(NamedTuple):
    start: int
    end: int
    offset: int
    path: str


class _CodeMaps:
    """The mapped code of one process. An unknown address causes a new read of /proc/PID/maps."""

    def __init__(self) -> None:
        self._maps: list[_MappedRange] = []
        self._starts: list[int] = []
        self.places: dict[int, tuple[StackFrame, FrameRule | None]] = {}
        """Cache of frames and rules by address."""

    def find(self, thread: int, address: int) -> _MappedRange | None:
        """Return the mapping of a code address, or None if no file is mapped there."""
        return self._find_known(address) or (self._find_known(address) if self._read_maps(thread) else None)

    def _find_known(self, address: int) -> _MappedRange | None:
        index = bisect_right(self._starts, address) - 1
        return self._maps[index] if index >= 0 and address < self._maps[index].end else None

    def _read_maps(self, thread: int) -> bool:
        try:
            with open(f"/proc/{thread}/maps") as file:
                lines = file.read().splitlines()
        except OSError:
            return False  # the thread has ended
        fields = (line.split(maxsplit=5) for line in lines)
        found = [one for one in fields if len(one) == 6 and "x" in one[1] and one[5].startswith("/")]
        self._maps = [_parse_map(one[0], one[2], one[5]) for one in found]
        self._starts = [one.start for one in self._maps]
        self.places.clear()
        return True


def _parse_map(addresses: str, offset: str, path: str) -> _MappedRange:
    start, end = addresses.split("-")
    return _MappedRange(int(start, 16), int(end, 16), int(offset, 16), path)


class StackWalker:
    """Finds the stacks of a program's threads. Each distinct stack has a number; 0: unknown."""

    def __init__(self, machine: Architecture) -> None:
        self._machine = machine
        self._registers = Registers(machine)
        self._codes: dict[AddressSpace, _CodeMaps] = {}
        self._modules: dict[str, tuple[ElfFile, CallFrames, GoLines | None] | None] = {}
        self._numbers: dict[tuple[StackFrame, ...], int] = {(): 0}

    @property
    def stacks(self) -> list[tuple[StackFrame, ...]]:
        """Return all distinct stacks by number."""
        return list(self._numbers)

    def number(self, thread: TracedThread) -> int:
        """Return the number of a stopped thread's stack."""
        try:
            frames = tuple(self._walk_frames(thread))
        except OSError:  # the stack pointer is invalid
            frames = ()
        return self._numbers.setdefault(frames, len(self._numbers))

    def _walk_frames(self, thread: TracedThread) -> list[StackFrame]:
        machine = self._machine
        found = self._registers.get(thread.id)
        known = {number: register(found, index) for number, index in machine.kept.items()}
        address, stack_pointer = register(found, machine.program_counter), machine.stack_pointer_in_dwarf
        stack = _StackMemory(thread.id, known[stack_pointer])
        code = self._codes.setdefault(thread.memory, _CodeMaps())
        frames: list[StackFrame] = []
        while len(frames) < DEPTH_MAX:
            # A return address is after its call and may be outside the function, so the byte before it is looked up.
            place = code.places.get(address - bool(frames)) or self._frame_at(code, thread.id, address - bool(frames))
            if place is None:
                break
            frame, rule = place
            frames.append(frame)
            if rule is None or rule.register not in known:
                break
            at = known[rule.register] + rule.offset
            if len(frames) > 1:
                known.pop(rule.return_address, None)  # overwritten by a later call in the function
            try:
                for number, offset in rule.saved:
                    known[number] = stack.word(at + offset)
            except OSError:
                break
            if rule.return_address not in known:
                break
            address, known[stack_pointer] = known[rule.return_address] % (1 << machine.address_bits), at
        return frames

    def _frame_at(self, code: _CodeMaps, thread: int, address: int) -> tuple[StackFrame, FrameRule | None] | None:
        """Return the frame at an address and its caller rule, or None if no file is mapped there."""
        mapped = code.find(thread, address)
        module = None if mapped is None else self._load_module(mapped.path)
        if mapped is None or module is None:
            return None
        file, functions, go = module
        linked = file.address(address - mapped.start + mapped.offset)
        if linked is None:
            return None
        rule = functions.rule(linked)
        if rule is None and go is not None:
            rule = go.rule(linked, self._machine)
        place = code.places[address] = StackFrame(mapped.path, linked), rule
        return place

    def _load_module(self, path: str) -> tuple[ElfFile, CallFrames, GoLines | None] | None:
        """Return the tables of a module file, or None if it cannot be read."""
        if path not in self._modules:
            try:
                with open(path, "rb") as file:
                    module = ElfFile(file.read())
                self._modules[path] = module, CallFrames(module), go_lines(module)
            except (OSError, ValueError, struct.error, IndexError):
                self._modules[path] = None
        return self._modules[path]


class _StackMemory:
    """The stack of a stopped thread, read in blocks."""

    def __init__(self, thread: int, start: int) -> None:
        self._thread = thread
        self._start, self._bytes = start, ptrace.read_memory(thread, start, _CHUNK_BYTES)

    def word(self, at: int) -> int:
        """Return the word at an address. An unreadable address raises OSError."""
        offset = at - self._start
        if not 0 <= offset <= len(self._bytes) - 8:
            self._bytes = ptrace.read_memory(self._thread, at, _CHUNK_BYTES)
            self._start, offset = at, 0
            if len(self._bytes) < 8:
                raise OSError(f"{at:#x} is at the end of memory")
        return int.from_bytes(self._bytes[offset : offset + 8], "little")
