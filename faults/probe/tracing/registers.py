"""Registers of stopped threads: reads and sets whole register sets.

On aarch64, two details matter for restoring a thread after an injected call:

    SVE   a call clears all SVE registers except the NEON part. A single-stepped SVE store would then have an empty
          predicate and store no data. So SVE registers are saved too if a thread uses them.
    x7    at a stop after a call x7 contains a flag of the kernel, and the kernel ignores writes. The program's value
          returns after the next instruction. So the recorder never sets x7, and no injected call changes it.
"""

import ctypes
import errno
import struct
from collections.abc import Mapping
from typing import NamedTuple

from . import ptrace
from .machines import NT_ARM_SVE, NT_ARM_SYSTEM_CALL, NT_PRSTATUS, NT_X86_XSTATE, Architecture

_GET_REGISTERS, _SET_REGISTERS = 0x4204, 0x4205
_NOTHING: Mapping[int, int] = {}
_word = struct.Struct("<Q")
_vector_head = struct.Struct("<I8xH2x")
"""struct user_sve_header: total size, and flags: whether all SVE registers follow, or only NEON registers."""
_HAS_VECTORS = 1
_VECTOR_BYTES_MAX = 1 << 14  # enough for 32 vectors of 256 bytes plus 17 predicates


_XSTATE_BYTES = 832
_LOW_HALVES, _HIGH_HALVES, _HALF_BYTES = 160, 576, 16
"""Offsets in x86's extended state of xmm0 to xmm15 and of the upper halves of ymm0 to ymm15; size of each half."""


class RegisterSet(NamedTuple):
    """All registers of a thread. vectors: registers that an injected call clears; may be empty."""

    general: bytes
    vectors: bytes


def register(registers: RegisterSet, index: int) -> int:
    found: int = _word.unpack_from(registers.general, index * _word.size)[0]
    return found


class Registers:
    """Access to the registers of stopped threads."""

    def __init__(self, machine: Architecture) -> None:
        self._machine = machine
        self._general = _RegisterBuffer(machine.register_count * _word.size)
        self._has_vectors = machine.has_vectors_apart
        self._vector_head = _RegisterBuffer(_vector_head.size)
        self._vectors = _RegisterBuffer(_VECTOR_BYTES_MAX)
        self._number = _RegisterBuffer(4)
        self._extended = _RegisterBuffer(_XSTATE_BYTES)

    def get(self, thread: int) -> RegisterSet:
        if ptrace.CORE is not None:
            return RegisterSet(ptrace.CORE.registers(thread, NT_PRSTATUS), self._get_vectors(thread))
        return RegisterSet(self._general.read_registers(thread, NT_PRSTATUS), self._get_vectors(thread))

    def _get_vectors(self, thread: int) -> bytes:
        if not self._has_vectors:
            return b""
        try:
            head = self._vector_head.read_registers(thread, NT_ARM_SVE)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            self._has_vectors = False  # this processor has no SVE
            return b""
        size_bytes, flags = _vector_head.unpack(head)
        return self._vectors.read_registers(thread, NT_ARM_SVE)[:size_bytes] if flags & _HAS_VECTORS else b""

    def vector(self, thread: int, number: int) -> bytes | None:
        """Return a 32-byte vector register of x86, or None if the processor lacks it."""
        try:
            state = self._extended.read_registers(thread, NT_X86_XSTATE)
        except OSError:
            return None
        starts = (half + number * _HALF_BYTES for half in (_LOW_HALVES, _HIGH_HALVES))
        return b"".join(state[start : start + _HALF_BYTES] for start in starts)

    def set(self, thread: int, registers: RegisterSet, changed: Mapping[int, int] = _NOTHING) -> None:
        """Set all registers. changed: unsigned words to replace, by index."""
        if ptrace.CORE is not None and self._machine.mark is None and not registers.vectors:
            ptrace.CORE.set_registers(thread, NT_PRSTATUS, registers.general, changed)
            return
        general = bytearray(registers.general)
        for index, word in changed.items():
            _word.pack_into(general, index * _word.size, word)
        if (mark := self._machine.mark) is not None:
            part = slice(mark * _word.size, (mark + 1) * _word.size)
            general[part] = self._general.read_registers(thread, NT_PRSTATUS)[part]
        self._general.write_registers(thread, NT_PRSTATUS, general)
        if registers.vectors:
            self._vectors.write_registers(thread, NT_ARM_SVE, registers.vectors)

    def set_number(self, thread: int, number: int) -> None:
        """Set the number of the current call, if a separate register set contains it."""
        self._number.write_registers(thread, NT_ARM_SYSTEM_CALL, number.to_bytes(4, "little", signed=True))


class _RegisterBuffer:
    """A buffer for one register set."""

    def __init__(self, size_bytes: int) -> None:
        self._bytes = ctypes.create_string_buffer(size_bytes)
        self._vector = (ctypes.c_ulong * 2)(ctypes.addressof(self._bytes), size_bytes)
        self._vector_at = ctypes.addressof(self._vector)
        self._size_bytes = size_bytes

    def read_registers(self, thread: int, kind: int) -> bytes:
        self._vector[1] = self._size_bytes
        ptrace.request(_GET_REGISTERS, thread, kind, self._vector_at)
        return self._bytes.raw

    def write_registers(self, thread: int, kind: int, content: bytes | bytearray) -> None:
        assert len(content) <= self._size_bytes, (len(content), self._size_bytes)  # memmove does not check bounds
        self._vector[1] = len(content)
        ctypes.memmove(self._bytes, bytes(content), len(content))
        ptrace.request(_SET_REGISTERS, thread, kind, self._vector_at)
