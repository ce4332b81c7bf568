"""Seccomp filters stop at the right calls on each processor, in a model of BPF."""

import errno
import struct

import pytest

from tornlog.faults.probe.tracing.machines import AARCH64, X86_64, Architecture
from tornlog.faults.probe.tracing.seccomp import OURS, AnyBit, filter_of, filter_of_range

STOP, GO = 0x7FF0_0000, 0x7FFF_0000
MACHINES = pytest.mark.parametrize("machine", [X86_64, AARCH64], ids=lambda machine: machine.name)


def filter_action(code: bytes, machine: Architecture, call: int, *arguments: int, audit: int = 0) -> int:
    """Return a filter's action for a call. Supports the part of BPF that filters use."""
    data = struct.pack("<IIQ6Q", call, audit or machine.audit, 0, *arguments, *[0] * (6 - len(arguments)))
    instructions = list(struct.iter_unpack("<HBBI", code))
    at, held = 0, 0
    while True:
        operation, yes, no, value = instructions[at]
        at += 1
        match operation:
            case 0x20:
                (held,) = struct.unpack_from("<I", data, value)
            case 0x06:
                return value
            case 0x15 | 0x25 | 0x35 | 0x45:
                is_so = {0x15: held == value, 0x25: held > value, 0x35: held >= value, 0x45: held & value}[operation]
                at += yes if is_so else no
            case _:
                raise AssertionError(hex(operation))


@MACHINES
def test_a_seccomp_filter_stops_only_at_its_calls(machine: Architecture) -> None:
    code = filter_of(machine, {"write": None, "openat": AnyBit(2, 0o100), "mprotect": AnyBit(2, 2), "no such": None})
    calls = machine.calls

    assert filter_action(code, machine, calls["write"], 1, 2, 3) == STOP
    assert filter_action(code, machine, calls["read"], 1, 2, 3) == GO
    assert filter_action(code, machine, calls["openat"], 0, 0, 0o101) == STOP
    assert filter_action(code, machine, calls["openat"], 0, 0, 0o001) == GO
    assert filter_action(code, machine, calls["mprotect"], 0, 0, 3) == STOP
    assert filter_action(code, machine, calls["mprotect"], 0, 0, 3, OURS) == GO


@MACHINES
def test_unsupported_system_calls_fail_with_enosys(machine: Architecture) -> None:
    code = filter_of(machine, {})
    calls = machine.calls

    assert filter_action(code, machine, calls["ioctl"], 3, 0x40049409) == 0x50000 | errno.EOPNOTSUPP
    assert filter_action(code, machine, calls["ioctl"], 3, 0x5401) == GO
    assert filter_action(code, machine, 4, audit=0x40000003) == 0x50000 | errno.ENOSYS


def test_system_calls_with_32_bit_pointers_fail_with_enosys() -> None:
    assert filter_action(filter_of(X86_64, {}), X86_64, 0x40000001) == 0x50000 | errno.ENOSYS


@MACHINES
@pytest.mark.parametrize("start", [0x7F12_3456_7000, 0x7F12_FFFF_F000])  # the second range crosses 4 GiB
def test_a_seccomp_range_filter_stops_calls_with_an_argument_in_the_range(machine: Architecture, start: int) -> None:
    end = start + 0x5000
    code = filter_of_range(machine, start, end)

    for position in range(6):
        for address, expected in ((start - 1, GO), (start, STOP), (start + 0x1000, STOP), (end - 1, STOP), (end, GO)):
            arguments = [1] * position + [address]
            assert filter_action(code, machine, 9999, *arguments) == expected
    assert filter_action(code, machine, machine.calls["mprotect"], start, 4096, 1, OURS) == GO
    assert filter_action(code, machine, machine.calls["mprotect"], start, 4096, 1) == STOP


@pytest.mark.parametrize(
    ("word", "is_exclusive"),
    [
        (0xC8007C41, True),  # stxr w0, x1, [x2]
        (0x8800FC41, True),  # stlxr w0, w1, [x2]
        (0xC89FFC41, False),  # stlr x1, [x2]
        (0xC8A07C41, False),  # cas x0, x1, [x2]
        (0xF9000041, False),  # str x1, [x2]
    ],
)
def test_a_store_exclusive_instruction_is_recognised(word: int, is_exclusive: bool) -> None:
    assert AARCH64.is_store_exclusive(struct.pack("<I", word)) is is_exclusive
    assert not X86_64.is_store_exclusive(struct.pack("<I", word))


@pytest.mark.parametrize(
    ("instruction", "is_repeated"),
    [
        ("f3a4", True),  # rep movsb
        ("f348ab", True),  # rep stosq
        ("f30f7f07", False),  # movdqu [rdi], xmm0
        ("f20f1107", False),  # movsd [rdi], xmm0
        ("a4", False),
        ("488907", False),  # mov [rdi], rax
    ],
)
def test_a_rep_prefixed_instruction_is_recognised(instruction: str, is_repeated: bool) -> None:
    assert X86_64.is_repeated(bytes.fromhex(instruction)) is is_repeated
    assert not AARCH64.is_repeated(bytes.fromhex(instruction).ljust(4, b"\0"))
