"""Seccomp filter of a recorded program: stops only at calls that change files.

A filter is a BPF program with 8 bytes per instruction. It reads `struct seccomp_data` and returns the action for a
call.

    offset  bytes  field
    0       4      number
    4       4      architecture
    8       8      instruction pointer
    16      6 * 8  arguments; filters test their lower 32 bits

Sources: linux/seccomp.h, linux/filter.h; seccomp(2).
"""

import errno
import struct
from collections.abc import Mapping
from typing import NamedTuple

from .machines import Architecture

_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _MORE, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x25, 0x06
_TRACE, _ALLOW, _ERRNO = 0x7FF0_0000, 0x7FFF_0000, 0x0005_0000
_X32 = 0x4000_0000  # the first number of x32 calls: x86-64 with 32-bit pointers
_LOW = 0xFFFF_FFFF
_FICLONE, _FICLONERANGE = 0x4004_9409, 0x4020_940D
OURS = 0x746F_726E
"""Fourth argument, ignored by the kernel, that identifies the recorder's own mprotect calls."""
_INSTRUCTION = struct.Struct("<HBBI")
_Code = tuple[int, int, int, int]


class AnyBit(NamedTuple):
    """A condition: stop at a call only if this argument has one of these bits."""

    argument: int
    bits: int


def filter_of(machine: Architecture, stops: Mapping[str, AnyBit | None]) -> bytes:
    """Return a filter that stops at the given calls. Calls that the machine lacks are ignored.

    Calls that cannot be recorded fail, so that programs use other calls: 32-bit calls (ENOSYS), and sharing of blocks
    between files (EOPNOTSUPP).
    """
    code: list[_Code] = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, machine.audit), _code_to_fail(errno.ENOSYS), (_LOAD, 0, 0, 0)]
    if machine.name == "x86_64":
        code += [(_AT_LEAST, 0, 1, _X32), _code_to_fail(errno.ENOSYS)]
    is_clone = [(_LOAD, 0, 0, 24), (_EQUAL, 1, 0, _FICLONE), (_EQUAL, 0, 1, _FICLONERANGE)]
    code += _code_for_call(
        machine.calls["ioctl"], [*is_clone, _code_to_fail(errno.EOPNOTSUPP), (_RETURN, 0, 0, _ALLOW)]
    )
    for name, condition in stops.items():
        number = machine.calls.get(name)
        if number is not None:
            code += _code_for_call(number, _code_to_stop(name, condition))
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(_INSTRUCTION.pack(*one) for one in code)


def filter_of_range(machine: Architecture, start: int, end: int) -> bytes:
    """Return a filter that stops at each call with an argument in [start, end), except the recorder's own mprotect."""
    code: list[_Code] = [(_LOAD, 0, 0, 0), (_EQUAL, 0, 3, machine.calls["mprotect"])]
    code += [(_LOAD, 0, 0, 16 + 8 * 3), (_EQUAL, 0, 1, OURS), (_RETURN, 0, 0, _ALLOW)]
    while start < end:
        part_end = min(end, (start >> 32) + 1 << 32)  # addresses with equal upper 32 bits
        for argument in range(6):
            low = 16 + 8 * argument
            code += [(_LOAD, 0, 0, low + 4), (_EQUAL, 0, 4, start >> 32), (_LOAD, 0, 0, low)]
            code += [(_AT_LEAST, 0, 2, start & _LOW), (_MORE, 1, 0, part_end - 1 & _LOW), (_RETURN, 0, 0, _TRACE)]
        start = part_end
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(_INSTRUCTION.pack(*one) for one in code)


def _code_for_call(number: int, then: list[_Code]) -> list[_Code]:
    return [(_EQUAL, 0, len(then), number), *then]


def _code_to_fail(error: int) -> _Code:
    return (_RETURN, 0, 0, _ERRNO | error)


def _code_to_stop(name: str, condition: AnyBit | None) -> list[_Code]:
    stop, allow = (_RETURN, 0, 0, _TRACE), (_RETURN, 0, 0, _ALLOW)
    if condition is None:
        return [stop]
    code: list[_Code] = []
    if name == "mprotect":
        code += [(_LOAD, 0, 0, 16 + 8 * 3), (_EQUAL, 0, 1, OURS), allow]
    return [*code, (_LOAD, 0, 0, 16 + 8 * condition.argument), (_ANY_BIT, 0, 1, condition.bits), stop, allow]
