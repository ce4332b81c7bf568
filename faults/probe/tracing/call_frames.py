"""Call frame information: finds the caller of a function at each instruction.

Compilers write this information to `.eh_frame`, also for C code, with or without frame pointers. Go programs have
`.debug_frame` instead. Both sections are little-endian sequences of entries:

    4   length    of the rest of the entry; 0 ends the section
    4   id        .eh_frame: 0 for a common entry, else the distance from this field back to the function's common entry
                  .debug_frame: 0xFFFFFFFF for a common entry, else the offset of the function's common entry
        common    version, augmentation, factors of code and data, register of the return address, instructions
        function  first address, bytes, instructions: where each register is saved, by address

Sources: System V ABI, AMD64 supplement; DWARF for the Arm 64-bit Architecture; Linux Standard Base, "Exception Frames";
DWARF 5, 6.4 and 7.24.
"""

import struct
from bisect import bisect_right
from typing import NamedTuple

from .elf import ElfFile, unsigned_leb128

_PC_RELATIVE = 0x10
_POINTERS = {0x00: "<Q", 0x02: "<H", 0x03: "<I", 0x04: "<Q", 0x0A: "<h", 0x0B: "<i", 0x0C: "<q"}
_COMMON_IN_DEBUG_FRAME = 0xFFFF_FFFF
_HEADER = struct.Struct("<II")


class FrameRule(NamedTuple):
    """Rule to find the caller's frame. The frame address is the value of a register plus an offset."""

    register: int
    offset: int
    saved: tuple[tuple[int, int], ...]
    """Saved registers, each with its offset from the frame address."""
    return_address: int
    """Number of the register with the return address. The innermost function may not have saved it."""


class _CommonEntry(NamedTuple):
    code_factor: int
    data_factor: int
    return_address: int
    encoding: int
    has_augmentation: bool
    program: bytes


class _FunctionEntry(NamedTuple):
    start: int
    end: int
    common: _CommonEntry
    program: bytes


class CallFrames:
    """The functions of a file. An unreadable section raises ValueError or struct.error."""

    def __init__(self, file: ElfFile) -> None:
        self._functions: list[_FunctionEntry] = []
        for name in (b".eh_frame", b".debug_frame"):
            if (found := file.section(name)) is not None:
                address, section = found
                self._functions += _FrameSection(section, address, is_debug=name == b".debug_frame").functions()
        self._functions.sort(key=lambda one: one.start)
        self._starts = [one.start for one in self._functions]
        self._rules: dict[int, FrameRule | None] = {}

    def rule(self, address: int) -> FrameRule | None:
        """Return the frame rule at a linked address, or None if it is unknown."""
        if address not in self._rules:
            try:
                self._rules[address] = self._find_rule(address)
            except (ValueError, struct.error, IndexError):  # unknown instruction or truncated entry
                self._rules[address] = None
        return self._rules[address]

    def _find_rule(self, address: int) -> FrameRule | None:
        index = bisect_right(self._starts, address) - 1
        if index < 0 or address >= self._functions[index].end:
            return None
        one = self._functions[index]
        state = _FrameState(one.common, one.start, address)
        state.run(one.common.program)
        state.initial = dict(state.saved)
        if not state.is_behind:
            state.run(one.program)
        if state.frame is None or state.is_outermost:
            return None
        return FrameRule(*state.frame, tuple(state.saved.items()), one.common.return_address)


class _Reader:
    """Reads consecutive values from bytes."""

    def __init__(self, data: bytes, at: int = 0, address: int = 0) -> None:
        self.data, self.at = data, at
        self._address = address  # address of the first byte

    def take(self, layout: str) -> int:
        found: int = struct.unpack_from(layout, self.data, self.at)[0]
        self.at += struct.calcsize(layout)
        return found

    def unsigned(self) -> int:
        """Read an unsigned LEB128 number."""
        found, self.at = unsigned_leb128(self.data, self.at)
        return found

    def signed(self) -> int:
        """Read a signed LEB128 number."""
        start = self.at
        found = self.unsigned()
        bits = 7 * (self.at - start)
        return found - (1 << bits) if found >> bits - 1 else found

    def pointer(self, encoding: int) -> int:
        """Read an address. An encoding that functions do not use raises ValueError."""
        here = self._address + self.at
        layout = _POINTERS.get(encoding & 0x0F)
        if layout is None or encoding & 0x70 not in (0, _PC_RELATIVE):
            raise ValueError(f"address encoded as {encoding:#x}")
        found = self.take(layout)
        return found + here if encoding & _PC_RELATIVE else found

    def text(self) -> bytes:
        end = self.data.index(0, self.at)
        found, self.at = self.data[self.at : end], end + 1
        return found


class _FrameSection:
    def __init__(self, section: bytes, address: int, *, is_debug: bool) -> None:
        self._section, self._address, self._is_debug = section, address, is_debug
        self._common: dict[int, _CommonEntry] = {}

    def functions(self) -> list[_FunctionEntry]:
        found, at, section = list[_FunctionEntry](), 0, self._section
        while at + _HEADER.size <= len(section):
            length, identity = _HEADER.unpack_from(section, at)
            if length == 0 or length == 0xFFFF_FFFF:
                break
            end = at + 4 + length
            if identity != (_COMMON_IN_DEBUG_FRAME if self._is_debug else 0):
                found.append(self._function(at + 8, end, identity if self._is_debug else at + 4 - identity))
            at = end
        return found

    def _function(self, at: int, end: int, common_at: int) -> _FunctionEntry:
        common = self._common.get(common_at)
        if common is None:
            common = self._common[common_at] = self._read_common(common_at)
        reader = _Reader(self._section, at, self._address)
        start = reader.pointer(common.encoding)
        size_bytes = reader.pointer(common.encoding & 0x0F)
        if common.has_augmentation:
            skipped = reader.unsigned()
            reader.at += skipped
        return _FunctionEntry(start, start + size_bytes, common, self._section[reader.at : end])

    def _read_common(self, at: int) -> _CommonEntry:
        (length,) = struct.unpack_from("<I", self._section, at)
        reader = _Reader(self._section, at + 8, self._address)
        version, augmentation = reader.take("<B"), reader.text()
        if version >= 4:
            reader.at += 2  # sizes of an address and of a segment selector
        code_factor, data_factor = reader.unsigned(), reader.signed()
        return_address = reader.take("<B") if version == 1 else reader.unsigned()
        encoding = 0
        if augmentation[:1] == b"z":
            size_bytes = reader.unsigned()
            augmentation_end = reader.at + size_bytes
            for letter in augmentation[1:].decode():
                if letter == "R":
                    encoding = reader.take("<B")
                elif letter == "L":
                    reader.take("<B")
                elif letter == "P":
                    reader.pointer(reader.take("<B") & 0x0F)
            reader.at = augmentation_end
        elif augmentation:
            raise ValueError(f"augmentation {augmentation!r}")
        program = self._section[reader.at : at + 4 + length]
        return _CommonEntry(code_factor, data_factor, return_address, encoding, augmentation[:1] == b"z", program)


class _FrameState:
    """The register locations at one address. frame: None if a DWARF expression defines the frame."""

    def __init__(self, common: _CommonEntry, start: int, address: int) -> None:
        self.frame: tuple[int, int] | None = None
        self.saved: dict[int, int] = {}
        self.initial: dict[int, int] = {}
        self.is_behind = False
        """Whether the executed instructions have passed the requested address."""
        self.is_outermost = False
        """Whether the function has no caller."""
        self._common = common
        self._here, self._address = start, address
        self._kept: list[tuple[tuple[int, int] | None, dict[int, int]]] = []

    def run(self, program: bytes) -> None:
        """Execute instructions. An unknown instruction raises ValueError."""
        reader = _Reader(program)
        while reader.at < len(program) and not self.is_behind:
            code = reader.take("<B")
            if code >> 6 == 1:
                self._advance_address(code & 0x3F)
            elif code >> 6 == 2:
                self.saved[code & 0x3F] = reader.unsigned() * self._common.data_factor
            elif code >> 6 == 3:
                self._restore_register(code & 0x3F)
            else:
                self._execute_extended(code, reader)

    def _advance_address(self, by: int) -> None:
        self._here += by * self._common.code_factor
        self.is_behind = self._here > self._address

    def _restore_register(self, register: int) -> None:
        if register in self.initial:
            self.saved[register] = self.initial[register]
        else:
            self.saved.pop(register, None)

    def _execute_extended(self, code: int, reader: _Reader) -> None:
        factor = self._common.data_factor
        match code:
            case 0x00:
                pass
            case 0x02 | 0x03 | 0x04:  # advances the address; the operand has 1, 2 or 4 bytes
                self._advance_address(reader.take({0x02: "<B", 0x03: "<H", 0x04: "<I"}[code]))
            case 0x05:
                register = reader.unsigned()
                self.saved[register] = reader.unsigned() * factor
            case 0x06:
                self._restore_register(reader.unsigned())
            case 0x07:  # the register is undefined
                register = reader.unsigned()
                self.saved.pop(register, None)
                self.is_outermost |= register == self._common.return_address
            case 0x08:  # the function has not changed the register
                self.saved.pop(reader.unsigned(), None)
            case 0x09:  # the value is in another register
                self.saved.pop(reader.unsigned(), None)
                reader.unsigned()
            case 0x0A:
                self._kept.append((self.frame, dict(self.saved)))
            case 0x0B:
                self.frame, self.saved = self._kept.pop()
            case 0x0C:
                self.frame = (reader.unsigned(), reader.unsigned())
            case 0x0D:
                self.frame = (reader.unsigned(), self.frame[1]) if self.frame else None
            case 0x0E:
                offset = reader.unsigned()
                self.frame = (self.frame[0], offset) if self.frame else None
            case 0x0F:
                self.frame = None
                self._skip_block(reader)
            case 0x10 | 0x16:  # a DWARF expression defines the value
                self.saved.pop(reader.unsigned(), None)
                self._skip_block(reader)
            case 0x11:
                register = reader.unsigned()
                self.saved[register] = reader.signed() * factor
            case 0x12:
                self.frame = (reader.unsigned(), reader.signed() * factor)
            case 0x13:
                offset = reader.signed() * factor
                self.frame = (self.frame[0], offset) if self.frame else None
            case 0x2D:  # DW_CFA_AARCH64_negate_ra_state: the signing of return addresses changes
                pass
            case 0x2E:  # size of the arguments: not needed
                reader.unsigned()
            case _:
                raise ValueError(f"call frame instruction {code:#x}")

    def _skip_block(self, reader: _Reader) -> None:
        size_bytes = reader.unsigned()
        reader.at += size_bytes
