"""The registers of stopped threads: read and set all together, as the kernel has them."""

import ctypes
import struct
from collections.abc import Mapping

from . import ptrace
from .machines import NT_ARM_SYSTEM_CALL, NT_PRSTATUS, Architecture

_GET_REGISTERS, _SET_REGISTERS = 0x4204, 0x4205
_NOTHING: Mapping[int, int] = {}
_word = struct.Struct("<Q")


def register(registers: bytes, index: int) -> int:
    """Return one of the registers that were read together."""
    found: int = _word.unpack_from(registers, index * _word.size)[0]
    return found


class Registers:
    """Reads and sets the registers of stopped threads: all together, as the kernel has them."""

    def __init__(self, machine: Architecture) -> None:
        size_bytes = machine.register_count * _word.size
        self._buffer = ctypes.create_string_buffer(size_bytes)
        self._vector = (ctypes.c_ulong * 2)(ctypes.addressof(self._buffer), size_bytes)
        self._vector_at = ctypes.addressof(self._vector)
        self._number = ctypes.c_int()
        self._number_vector = (ctypes.c_ulong * 2)(ctypes.addressof(self._number), 4)

    def get(self, thread: int) -> bytes:
        """Return all general registers."""
        ptrace.request(_GET_REGISTERS, thread, NT_PRSTATUS, self._vector_at)
        return self._buffer.raw

    def set(self, thread: int, registers: bytes, changed: Mapping[int, int] = _NOTHING) -> None:
        """Set all general registers, some of them to other words: by index, without a sign."""
        self._buffer.raw = registers
        for index, word in changed.items():
            _word.pack_into(self._buffer, index * _word.size, word)
        ptrace.request(_SET_REGISTERS, thread, NT_PRSTATUS, self._vector_at)

    def set_number(self, thread: int, number: int) -> None:
        """Set the number of a call under way, on a machine that takes it apart."""
        self._number.value = number
        ptrace.request(_SET_REGISTERS, thread, NT_ARM_SYSTEM_CALL, ctypes.addressof(self._number_vector))
