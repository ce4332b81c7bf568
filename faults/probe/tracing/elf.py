"""ELF files, 64-bit little-endian: finds addresses, sections and symbols.

    0x00  16   identification: 7f 45 4c 46, 2 for 64 bits, 1 for little-endian
    0x20  8    offset of the table of segments, which are loaded into memory
    0x28  8    offset of the table of sections, which compilers write
    0x38  2    number of segments; at 0x3c of sections; at 0x3e the index of the section with the section names

Source: System V ABI, chapters 4 and 5; Linux, include/uapi/linux/elf.h.
"""

import struct
import zlib

_IDENTIFICATION = b"\x7fELF\x02\x01"
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_LOADED, _COMPRESSED = 1, 1 << 11
_FUNCTIONS = (2, 10)
_COMPRESSION_HEADER_BYTES = 24


def unsigned_leb128(data: bytes, at: int) -> tuple[int, int]:
    """Return the LEB128 number at an offset, and the offset after the number."""
    found, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        found |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return found, at


class ElfFile:
    """A 64-bit little-endian ELF file. Other formats raise ValueError or struct.error."""

    def __init__(self, content: bytes) -> None:
        if content[:6] != _IDENTIFICATION:
            raise ValueError("not a 64-bit ELF file")
        self._content = content
        segments_at, sections_at = struct.unpack_from("<QQ", content, 0x20)
        segments, _, sections, names = struct.unpack_from("<HHHH", content, 0x38)
        found = (_SEGMENT.unpack_from(content, segments_at + number * _SEGMENT.size) for number in range(segments))
        self._segments = [(at, size, address) for kind, _, at, address, _, size, _, _ in found if kind == _LOADED]
        headers = [_SECTION.unpack_from(content, sections_at + number * _SECTION.size) for number in range(sections)]
        self._sections: dict[bytes, tuple[int, int, int, int]] = {}
        for name, _, flags, address, at, size, *_ in headers:
            self._sections[self._read_text(headers[names][4] + name)] = flags, address, at, size

    def address(self, offset: int) -> int | None:
        """Return the linked address of a file offset, or None if no segment contains the offset."""
        for start, size, address in self._segments:
            if start <= offset < start + size:
                return int(address + offset - start)
        return None

    def read(self, address: int, size_bytes: int) -> bytes:
        """Return bytes at a linked address. An address outside the file's segments raises ValueError."""
        for start, size, first in self._segments:
            if first <= address and address + size_bytes <= first + size:
                at = start + address - first
                return self._content[at : at + size_bytes]
        raise ValueError(f"address {address:#x} is outside the segments")

    def section(self, name: bytes) -> tuple[int, bytes] | None:
        """Return the address and the content of a section, or None if it is missing."""
        if name not in self._sections:
            return None
        flags, address, at, size = self._sections[name]
        content = self._content[at : at + size]
        return address, zlib.decompress(content[_COMPRESSION_HEADER_BYTES:]) if flags & _COMPRESSED else content

    def functions(self) -> list[tuple[int, int]]:
        """Return the sorted address ranges of the functions that have symbols."""
        found = set[tuple[int, int]]()
        for table in (b".symtab", b".dynsym"):
            if (symbols := self.section(table)) is not None:
                for _, kind, _, _, address, size in _SYMBOL.iter_unpack(symbols[1]):
                    if kind & 0xF in _FUNCTIONS and size:
                        found.add((address, address + size))
        return sorted(found)

    def symbol(self, name: bytes) -> int | None:
        symbols, names = self.section(b".symtab"), self._sections.get(b".strtab")
        if symbols is None or names is None:
            return None
        for name_at, _, _, _, address, _ in _SYMBOL.iter_unpack(symbols[1]):
            if self._content.startswith(name + b"\0", names[2] + name_at):
                return int(address)
        return None

    def _read_text(self, at: int) -> bytes:
        return self._content[at : self._content.index(0, at)]
