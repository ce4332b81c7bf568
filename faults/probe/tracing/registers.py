"""The registers of stopped threads: read and set all together, as the kernel has them.

On aarch64 two things are in the way of a thread that is to be as it was, behind calls that it is made to make:

    SVE   a call takes away all of these registers but what is NEON's. A store by SVE that is stepped over would find
          its predicate empty, and store nothing. So they are kept with the others where a thread has something there.
    x7    at a stop behind a call the kernel shows a mark of its own there, and ignores what is set; the program's is
          seen again after the next instruction. So it is never set: no call that we make changes it.
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
"""struct user_sve_header: the size of all, and flags: whether there is more than NEON's registers."""
_HAS_VECTORS = 1
_VECTOR_BYTES_MAX = 1 << 14
"""More than 32 vectors of 256 bytes take, with 17 predicates."""


_XSTATE_BYTES = 832
_LOW_HALVES, _HIGH_HALVES, _HALF_BYTES = 160, 576, 16
"""Where in x86's extended state vector registers are: xmm0 to xmm15, and what ymm0 to ymm15 have above these."""


class RegisterSet(NamedTuple):
    """All registers of a thread. vectors: what a call would take away, nothing if that is nothing."""

    general: bytes
    vectors: bytes


def register(registers: RegisterSet, index: int) -> int:
    """Return one of the general registers that were read together."""
    found: int = _word.unpack_from(registers.general, index * _word.size)[0]
    return found


class Registers:
    """Reads and sets the registers of stopped threads."""

    def __init__(self, machine: Architecture) -> None:
        self._machine = machine
        self._general = _Buffer(machine.register_count * _word.size)
        self._has_vectors = machine.has_vectors_apart
        self._vector_head = _Buffer(_vector_head.size)
        self._vectors = _Buffer(_VECTOR_BYTES_MAX)
        self._number = _Buffer(4)
        self._extended = _Buffer(_XSTATE_BYTES)

    def get(self, thread: int) -> RegisterSet:
        """Return all registers."""
        if ptrace.CORE is not None:
            return RegisterSet(ptrace.CORE.registers(thread, NT_PRSTATUS), self._get_vectors(thread))
        return RegisterSet(self._general.filled(thread, NT_PRSTATUS), self._get_vectors(thread))

    def _get_vectors(self, thread: int) -> bytes:
        if not self._has_vectors:
            return b""
        try:
            head = self._vector_head.filled(thread, NT_ARM_SVE)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            self._has_vectors = False  # of this processor
            return b""
        size_bytes, flags = _vector_head.unpack(head)
        return self._vectors.filled(thread, NT_ARM_SVE)[:size_bytes] if flags & _HAS_VECTORS else b""

    def vector(self, thread: int, number: int) -> bytes | None:
        """Return one of x86's vector registers, 32 bytes; None if the processor has none that are so long."""
        try:
            state = self._extended.filled(thread, NT_X86_XSTATE)
        except OSError:
            return None
        starts = (half + number * _HALF_BYTES for half in (_LOW_HALVES, _HIGH_HALVES))
        return b"".join(state[start : start + _HALF_BYTES] for start in starts)

    def set(self, thread: int, registers: RegisterSet, changed: Mapping[int, int] = _NOTHING) -> None:
        """Set all registers, some of them to other words: by index, without a sign."""
        if ptrace.CORE is not None and self._machine.mark is None and not registers.vectors:
            ptrace.CORE.set_registers(thread, NT_PRSTATUS, registers.general, changed)
            return
        general = bytearray(registers.general)
        for index, word in changed.items():
            _word.pack_into(general, index * _word.size, word)
        if (mark := self._machine.mark) is not None:
            part = slice(mark * _word.size, (mark + 1) * _word.size)
            general[part] = self._general.filled(thread, NT_PRSTATUS)[part]
        self._general.hand_over(thread, NT_PRSTATUS, general)
        if registers.vectors:
            self._vectors.hand_over(thread, NT_ARM_SVE, registers.vectors)

    def set_number(self, thread: int, number: int) -> None:
        """Set the number of a call under way, on a machine that takes it apart."""
        self._number.hand_over(thread, NT_ARM_SYSTEM_CALL, number.to_bytes(4, "little", signed=True))


class _Buffer:
    """What a set of registers goes through, made once."""

    def __init__(self, size_bytes: int) -> None:
        self._bytes = ctypes.create_string_buffer(size_bytes)
        self._vector = (ctypes.c_ulong * 2)(ctypes.addressof(self._bytes), size_bytes)
        self._vector_at = ctypes.addressof(self._vector)
        self._size_bytes = size_bytes

    def filled(self, thread: int, kind: int) -> bytes:
        """Return a set of a thread's registers, as far as it fits."""
        self._vector[1] = self._size_bytes
        ptrace.request(_GET_REGISTERS, thread, kind, self._vector_at)
        return self._bytes.raw

    def hand_over(self, thread: int, kind: int, content: bytes | bytearray) -> None:
        """Set a set of a thread's registers."""
        self._vector[1] = len(content)
        ctypes.memmove(self._bytes, bytes(content), len(content))
        ptrace.request(_SET_REGISTERS, thread, kind, self._vector_at)
