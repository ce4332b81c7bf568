"""Lines and frames of Go programs, by the table that each has of its functions; with it its runtime prints stacks.

It is in every Go program, also in one that has no debugging information; and addr2line knows no DWARF of Go's newer
versions. `.gopclntab`, little-endian, as since Go 1.20:

    4   0xFFFFFFF1
    4   two zeros, bytes of the smallest instruction, bytes of a pointer: 8
    8   functions
    8   files
    8   where the code starts; 0 since Go 1.26: that is where `.text` does
    8   each: from here to names, to units, to files, to tables by instruction, to functions
        functions: for each its first address, from the start of the code on, and where it is described, from there on

A table by instruction is a run of pairs, each a value's change, zigzag, and for how many instructions it holds.

Source: Go, src/internal/abi/symtab.go, src/runtime/symtab.go and src/cmd/link/internal/ld/pcln.go.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator

from ..record import SourceLine
from .call_frames import FrameRule
from .elf import ElfFile
from .machines import Architecture

_MAGIC = 0xFFFF_FFF1
_HEADER = struct.Struct("<IHBBQQQQQQQQ")
_FUNCTION = struct.Struct("<IiiIIIIII")
_FUNCTION_BYTES = 44
"""With what follows of fixed length; then come offsets of tables by instruction, and of other data."""
_FLAGS_AT, _IS_OUTERMOST, _SETS_STACK_POINTER = 41, 1, 2
_INLINED = struct.Struct("<4siii")
_TREE_INDEX_TABLE, _TREE = 2, 3
"""Which of the tables says which function an instruction was inlined from, and which of the data has these."""
_NO_FILE = 0xFFFF_FFFF


def go_lines(file: ElfFile) -> "GoLines | None":
    """Return the table of a program, None if it is none of Go's, or of a version that is not known."""
    table, code = file.section(b".gopclntab"), file.section(b".text")
    if table is None or code is None:
        return None
    start = file.symbol(b"runtime.text")
    if start is None and file.section(b".init") is None:  # else C's linker has put code of its own in front
        start = code[0]
    try:
        return GoLines(file, table[1], start)
    except (ValueError, struct.error):
        return None


class GoLines:
    """The table of one program. Raises ValueError, or struct.error, if it is none of a known version.

    text: where the code starts, as it was linked; None if only the table can know.
    """

    def __init__(self, file: ElfFile, table: bytes, text: int | None) -> None:
        magic, _, self._quantum, pointer_bytes, count, _, start, *offsets = _HEADER.unpack_from(table)
        if magic != _MAGIC or pointer_bytes != 8:
            raise ValueError(f"table of Go's functions of another version: {magic:#x}")
        if not start and text is None:
            raise ValueError("it is not known where the code of Go starts")
        self._file = file
        self._table = table
        self._text: int = start or text or 0
        self._names, self._units, self._files, self._values, self._functions = offsets
        entries = struct.unpack_from(f"<{2 * count}I", table, self._functions)
        self._starts, self._described = entries[::2], entries[1::2]
        self._trees = file.symbol(b"go:func.*")
        """Where it is described what was inlined; None in a program without symbols."""

    def places(self, address: int) -> tuple[SourceLine, ...]:
        """Return what an address belongs to, functions that were inlined first.

        In a program without symbols, what was inlined has the name of the function that it is in.
        """
        at = address - self._text
        index = bisect_right(self._starts, at) - 1
        if index < 0:
            return ()
        described = self._functions + self._described[index]
        start, name, _, _, _, files, lines, tables, unit = _FUNCTION.unpack_from(self._table, described)
        found = list[SourceLine]()
        while True:
            file, line = self._value(files, start, at), self._value(lines, start, at)
            if file is None or line is None:
                return tuple(found)
            inlined = self._inlined(described, tables, start, at)
            (file_at,) = struct.unpack_from("<I", self._table, self._units + 4 * (unit + file))
            if file_at != _NO_FILE:
                function = self._text_at(self._names + (name if inlined is None else inlined[0]))
                found.append(SourceLine(self._text_at(self._files + file_at), line, function))
            if inlined is None:
                return tuple(found)
            at = start + inlined[1]

    def rule(self, address: int, machine: Architecture) -> FrameRule | None:
        """Return how to leave the function at an address, None if it is not known, or nothing called that function.

        Go's functions know at each instruction how much of the stack they have taken. A call leaves the return address
        above that on x86-64; on aarch64 it is in a register, and the function saves it at the lower end, first of all.
        """
        at = address - self._text
        index = bisect_right(self._starts, at) - 1
        if index < 0:
            return None
        described = self._functions + self._described[index]
        start, _, _, _, taken, *_ = _FUNCTION.unpack_from(self._table, described)
        if self._table[described + _FLAGS_AT] & (_IS_OUTERMOST | _SETS_STACK_POINTER):
            return None
        size_bytes = self._value(taken, start, at)
        if size_bytes is None:
            return None
        stack_pointer, return_address = machine.stack_pointer_in_dwarf, machine.return_address_in_dwarf
        if return_address not in machine.kept:
            return FrameRule(stack_pointer, size_bytes + 8, ((return_address, -8),), return_address)
        saved = ((return_address, -size_bytes),) if size_bytes else ()
        return FrameRule(stack_pointer, size_bytes, saved, return_address)

    def _inlined(self, described: int, tables: int, start: int, at: int) -> tuple[int, int] | None:
        """Return the function inlined at an address: its name, and where it was called, from the outer one's start."""
        if self._trees is None or tables <= _TREE_INDEX_TABLE:
            return None
        first = described + _FUNCTION_BYTES
        (table,) = struct.unpack_from("<I", self._table, first + 4 * _TREE_INDEX_TABLE)
        number = self._value(table, start, at) if table else None
        if number is None or number < 0:
            return None
        (tree,) = struct.unpack_from("<I", self._table, first + 4 * (tables + _TREE))
        call = self._file.read(self._trees + tree + number * _INLINED.size, _INLINED.size)
        _, name, called_at, _ = _INLINED.unpack(call)
        return name, called_at

    def _value(self, table: int, start: int, wanted: int) -> int | None:
        """Return what a table by instruction has for an address; None if it does not come that far."""
        numbers = self._numbers(self._values + table)
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

    def _numbers(self, at: int) -> Iterator[int]:
        """Yield numbers in the base 128."""
        while at < len(self._table):
            found, shift = 0, 0
            while True:
                byte = self._table[at]
                at += 1
                found |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
            yield found

    def _text_at(self, at: int) -> str:
        return self._table[at : self._table.index(0, at)].decode(errors="replace")
