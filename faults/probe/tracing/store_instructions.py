"""Plain stores of x86-64: decodes instructions that only copy a value to memory.

The registers determine the address and the value of a plain store, so the recorder can execute it. For instructions
that read memory, push, repeat or use a segment, `plain_store` returns None, and the processor executes them.

    88 89      mov   r8 | r16 r32 r64      0f 11  movups movupd movss movsd      66 0f d6  movq
    c6 c7 /0   mov   constant              0f 29  movaps movapd                  66 0f 7e  movd movq
    0f c3      movnti                      0f 2b  movntps movntpd                66 0f e7  movntdq
                                           0f 13, 0f 17  movlps, movhps          66 f3 0f 7f  movdqa, movdqu

Vector stores may have VEX prefixes and 32 bytes. Source: Intel 64 Software Developer's Manual, volume 2: chapter 2
(instruction format) and the pages of MOV, MOVNTI, MOVUPS and so on.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

_GENERAL = (10, 11, 12, 5, 19, 4, 13, 14, 9, 8, 7, 6, 3, 2, 1, 0)
"""Indexes of rax rcx rdx rbx rsp rbp rsi rdi r8 to r15 in struct user_regs_struct (see machines.py)."""
_PROGRAM_COUNTER = 16
_IGNORED = (0x2E, 0x36, 0x3E, 0x26)  # segment prefixes without effect in 64-bit mode
_NONE, _66, _F3, _F2 = 0, 1, 2, 3  # by VEX number: prefixes that are part of a vector opcode
_WHOLE = {0x11: (_NONE, _66), 0x29: (_NONE, _66), 0x2B: (_NONE, _66), 0x7F: (_66, _F3), 0xE7: (_66,)}
"""Opcodes and prefixes of instructions that store whole vector registers."""
_PARTS = {(0x11, _F3): (0, 4), (0x11, _F2): (0, 8), (0xD6, _66): (0, 8)} | {
    (code, prefix): (start, 8) for code, start in ((0x13, 0), (0x17, 8)) for prefix in (_NONE, _66)
}
"""Instructions that store a part of a vector register, with the part's offset and size."""
_MEMORY_MODES = 3
_WORD_MASK = 2**64 - 1


class PlainStore(NamedTuple):
    """A plain store. General registers are given by kernel index, vector registers by number."""

    length: int
    size: int
    """Size of the stored value in bytes."""
    base: int | None
    indexed: int | None
    scale: int
    displacement: int
    """Address = base + indexed * scale + displacement."""
    constant: bytes = b""
    """The stored value, or empty if the value is in a register."""
    register: int | None = None
    vector: int | None = None
    start: int = 0
    """The value's offset in the register, in bytes."""

    def address(self, word: Callable[[int], int]) -> int:
        """Return the target address. word: a function that returns the value of a general register."""
        found = self.displacement
        if self.base is not None:
            found += word(self.base)
        if self.indexed is not None:
            found += word(self.indexed) * self.scale
        return found & _WORD_MASK


@lru_cache(maxsize=4096)
def plain_store(instruction: bytes) -> PlainStore | None:
    """Decode the plain store at the start of the given bytes, or return None."""
    try:
        return _Decoder(instruction).store()
    except IndexError:
        return None  # truncated instruction


class _Decoder:
    """Decodes one instruction, byte by byte."""

    def __init__(self, instruction: bytes) -> None:
        self._bytes = instruction
        self._at = 0
        self._reg = self._rex = 0  # register field of ModRM; bits W R X B of a REX prefix
        self._base: int | None = None
        self._index: int | None = None
        self._scale = 1
        self._displacement = 0

    def _next_byte(self) -> int:
        self._at += 1
        return self._bytes[self._at - 1]

    def _read_signed(self, size: int) -> int:
        if self._at + size > len(self._bytes):
            raise IndexError(self._at)
        self._at += size
        return int.from_bytes(self._bytes[self._at - size : self._at], "little", signed=True)

    def store(self) -> PlainStore | None:
        is_short, repeat = False, _NONE
        while (code := self._next_byte()) in (0x66, 0xF2, 0xF3, *_IGNORED):
            is_short |= code == 0x66
            repeat = {0xF3: _F3, 0xF2: _F2}.get(code, repeat)
        if code in (0xC4, 0xC5):
            return None if is_short or repeat else self._decode_vex(code)
        has_rex = code & 0xF0 == 0x40
        if has_rex:
            self._rex, code = code & 15, self._next_byte()
        if code == 0x0F:
            return self._decode_two_byte(repeat or (_66 if is_short else _NONE), is_short and bool(repeat))
        if repeat or code not in (0x88, 0x89, 0xC6, 0xC7):
            return None  # F3 is XRELEASE, which ends an elided lock
        size = 1 if code in (0x88, 0xC6) else 8 if self._rex & 8 else 2 if is_short else 4
        if not self._read_memory_operand():
            return None
        if code in (0x88, 0x89):
            if size == 1 and not has_rex and self._reg >= 4:
                return self._make_store(size, register=_GENERAL[self._reg - 4], start=1)  # ah ch dh bh
            return self._make_store(size, register=_GENERAL[self._reg])
        if self._reg & 7:
            return None
        value = self._read_signed(min(size, 4))
        return self._make_store(size, constant=value.to_bytes(size, "little", signed=True))

    def _decode_vex(self, code: int) -> PlainStore | None:
        first = self._next_byte()
        if code == 0xC5:
            self._rex, last = (~first >> 5) & 4, first
        else:
            if first & 0x1F != 1:  # only the 0f opcode map has plain stores
                return None
            last = self._next_byte()
            self._rex = (~first >> 5) & 7 | (last >> 4) & 8
        if last & 0x78 != 0x78:  # the instruction has a third register operand
            return None
        return self._decode_vector(self._next_byte(), last & 3, 32 if last & 4 else 16)

    def _decode_two_byte(self, prefix: int, has_both: bool) -> PlainStore | None:
        code = self._next_byte()
        if has_both:
            return None
        if code == 0xC3 and prefix == _NONE:
            return (
                self._make_store(8 if self._rex & 8 else 4, register=_GENERAL[self._reg])
                if self._read_memory_operand()
                else None
            )
        return self._decode_vector(code, prefix, 16)

    def _decode_vector(self, code: int, prefix: int, size: int) -> PlainStore | None:
        start = 0
        if prefix not in _WHOLE.get(code, ()):
            if size == 32:
                return None
            if (code, prefix) == (0x7E, _66):
                size = 8 if self._rex & 8 else 4
            elif (part := _PARTS.get((code, prefix))) is not None:
                start, size = part
            else:
                return None
        return self._make_store(size, vector=self._reg, start=start) if self._read_memory_operand() else None

    def _read_memory_operand(self) -> bool:
        """Read ModRM and the operand's address. Return whether the operand is in memory."""
        modrm = self._next_byte()
        mode, low = modrm >> 6, modrm & 7
        self._reg = modrm >> 3 & 7 | (self._rex & 4) << 1
        if mode == _MEMORY_MODES:
            return False
        base: int | None = low
        if low == 4:
            sib = self._next_byte()
            base = sib & 7
            index = sib >> 3 & 7 | (self._rex & 2) << 2
            self._scale = 1 << (sib >> 6)
            self._index = None if index == 4 else _GENERAL[index]  # rsp as an index means no index
            if base == 5 and mode == 0:
                base = None
        if base == 5 and mode == 0:
            self._base = _PROGRAM_COUNTER
        elif base is not None:
            self._base = _GENERAL[base | (self._rex & 1) << 3]
        if mode == 1:
            self._displacement = self._read_signed(1)
        elif mode == 2 or base is None or self._base == _PROGRAM_COUNTER:
            self._displacement = self._read_signed(4)
        return True

    def _make_store(
        self, size: int, constant: bytes = b"", register: int | None = None, vector: int | None = None, start: int = 0
    ) -> PlainStore:
        origin = self._at if self._base == _PROGRAM_COUNTER else 0  # relative to the next instruction
        place = (self._base, self._index, self._scale, self._displacement + origin)
        return PlainStore(self._at, size, *place, constant, register, vector, start)
