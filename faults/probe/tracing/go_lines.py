"""Source lines and frames of Go programs: read from the runtime's function table.

Every Go program has this table, even without debugging information. addr2line does not support the DWARF of newer Go
versions. `.gopclntab`, little-endian, since Go 1.20:

    4   0xFFFFFFF1
    4   two zeros, bytes of the smallest instruction, bytes of a pointer: 8
    8   number of functions
    8   number of files
    8   start of the code; 0 since Go 1.26, whose code starts at `.text`
    8   each: offset of names, units, files, tables by instruction, functions
        functions: for each the offsets of its first instruction in the code and of its description in this table

A table by instruction is a sequence of pairs: the change of a value (zigzag encoding), and the number of instructions
with the new value.

Source: Go, src/internal/abi/symtab.go, src/runtime/symtab.go and src/cmd/link/internal/ld/pcln.go.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator

from ..record import SourceLine
from .call_frames import FrameRule
from .elf import ElfFile, unsigned_leb128
from .machines import Architecture

_MAGIC = 0xFFFF_FFF1
_HEADER = struct.Struct("<IHBBQQQQQQQQ")
_FUNCTION = struct.Struct("<IiiIIIIII")
_FUNCTION_BYTES = 44
"""Length of the fixed part of a function's description. Offsets of tables follow."""
_FLAGS_AT, _IS_OUTERMOST, _SETS_STACK_POINTER = 41, 1, 2
_INLINED = struct.Struct("<4siii")
_TREE_INDEX_TABLE, _TREE = 2, 3
"""Indexes of two tables in a function's description: inlined calls by instruction, and the data of these calls."""
_NO_FILE = 0xFFFF_FFFF


def go_lines(file: ElfFile) -> "GoLines | None":
    """Return the table of a Go program, or None for other programs and unknown Go versions."""
    table, code = file.section(b".gopclntab"), file.section(b".text")
    if table is None or code is None:
        return None
    start = file.symbol(b"runtime.text")
    if start is None and file.section(b".init") is None:  # with .init, the C linker has put code before Go's code
        start = code[0]
    try:
        return GoLines(file, table[1], start)
    except (ValueError, struct.error):
        return None


class GoLines:
    """The table of one program. Raises ValueError or struct.error for an unknown version.

    text: the linked start of the code; None: the table has the start.
    """

    def __init__(self, file: ElfFile, table: bytes, text: int | None) -> None:
        magic, _, self._quantum, pointer_bytes, count, _, start, *offsets = _HEADER.unpack_from(table)
        if magic != _MAGIC or pointer_bytes != 8:
            raise ValueError(f"Go's function table has an unknown version: {magic:#x}")
        if not start and text is None:
            raise ValueError("the start of Go's code is unknown")
        self._file = file
        self._table = table
        self._text: int = start or text or 0
        self._names, self._units, self._files, self._values, self._functions = offsets
        entries = struct.unpack_from(f"<{2 * count}I", table, self._functions)
        self._starts, self._described = entries[::2], entries[1::2]
        # address of the data about inlined calls; None if the program has no symbols
        self._trees = file.symbol(b"go:func.*")

    def places(self, address: int) -> tuple[SourceLine, ...]:
        """Return the functions and lines at an address, innermost inlined function first.

        In a program without symbols, inlined code has the name of the function that contains it.
        """
        at = address - self._text
        index = bisect_right(self._starts, at) - 1
        if index < 0:
            return ()
        described = self._functions + self._described[index]
        start, name, _, _, _, files, lines, tables, unit = _FUNCTION.unpack_from(self._table, described)
        found = list[SourceLine]()
        while True:
            file, line = self._value_at(files, start, at), self._value_at(lines, start, at)
            if file is None or line is None:
                return tuple(found)
            inlined = self._inlined_call(described, tables, start, at)
            (file_at,) = struct.unpack_from("<I", self._table, self._units + 4 * (unit + file))
            if file_at != _NO_FILE:
                function = self._text_at(self._names + (name if inlined is None else inlined[0]))
                found.append(SourceLine(self._text_at(self._files + file_at), line, function))
            if inlined is None:
                return tuple(found)
            at = start + inlined[1]

    def rule(self, address: int, machine: Architecture) -> FrameRule | None:
        """Return the frame rule at an address. Return None if the rule is unknown or the function has no caller.

        The table has the size of a function's stack frame at each instruction. On x86-64 the return address is directly
        above the frame. On aarch64 a function saves the return address at the lower end of the frame.
        """
        at = address - self._text
        index = bisect_right(self._starts, at) - 1
        if index < 0:
            return None
        described = self._functions + self._described[index]
        start, _, _, _, taken, *_ = _FUNCTION.unpack_from(self._table, described)
        if self._table[described + _FLAGS_AT] & (_IS_OUTERMOST | _SETS_STACK_POINTER):
            return None
        size_bytes = self._value_at(taken, start, at)
        if size_bytes is None:
            return None
        stack_pointer, return_address = machine.stack_pointer_in_dwarf, machine.return_address_in_dwarf
        if return_address not in machine.kept:
            return FrameRule(stack_pointer, size_bytes + 8, ((return_address, -8),), return_address)
        saved = ((return_address, -size_bytes),) if size_bytes else ()
        return FrameRule(stack_pointer, size_bytes, saved, return_address)

    def _inlined_call(self, described: int, tables: int, start: int, at: int) -> tuple[int, int] | None:
        """Return the inlined function at an address: the offset of its name, and its call in the enclosing function."""
        if self._trees is None or tables <= _TREE_INDEX_TABLE:
            return None
        first = described + _FUNCTION_BYTES
        (table,) = struct.unpack_from("<I", self._table, first + 4 * _TREE_INDEX_TABLE)
        number = self._value_at(table, start, at) if table else None
        if number is None or number < 0:
            return None
        (tree,) = struct.unpack_from("<I", self._table, first + 4 * (tables + _TREE))
        call = self._file.read(self._trees + tree + number * _INLINED.size, _INLINED.size)
        _, name, called_at, _ = _INLINED.unpack(call)
        return name, called_at

    def _value_at(self, table: int, start: int, wanted: int) -> int | None:
        """Return the value for an address in a table by instruction, or None after the end of the table."""
        numbers = self._read_numbers(self._values + table)
        value, here, is_first = -1, start, True
        for change in numbers:
            if change == 0 and not is_first:
                return None
            is_first = False
            value += -(change + 1 >> 1) if change & 1 else change >> 1
            here += next(numbers) * self._quantum
            if wanted < here:
                return value
        return None

    def _read_numbers(self, at: int) -> Iterator[int]:
        """Yield unsigned LEB128 numbers."""
        while at < len(self._table):
            found, at = unsigned_leb128(self._table, at)
            yield found

    def _text_at(self, at: int) -> str:
        return self._table[at : self._table.index(0, at)].decode(errors="replace")
