"""Call numbers and register indexes match the kernel's headers, of both processors.

Debian's linux-libc-dev-arm64-cross has the headers for aarch64 on other machines.
"""

import re
from pathlib import Path

import pytest

from tornlog.faults.probe.tracing.machines import AARCH64, NT_ARM_SYSTEM_CALL, NT_PRSTATUS, X86_64, Architecture

_ROOTS = {
    X86_64.name: (Path("/usr/include/x86_64-linux-gnu"),),
    AARCH64.name: (Path("/usr/aarch64-linux-gnu/include"), Path("/usr/include/aarch64-linux-gnu")),
}
_WHERE_ELSE = Path("/usr/include")
_INCLUDED = re.compile(r"^#\s*include <(.*)>", re.MULTILINE)
_NUMBER = re.compile(r"^#define (__NR\w+)\s+(\w+)", re.MULTILINE)
_AUDIT_64_BITS, _AUDIT_LITTLE_ENDIAN = 0x8000_0000, 0x4000_0000
MACHINES = pytest.mark.parametrize("machine", [X86_64, AARCH64], ids=lambda machine: machine.name)


def header(machine: Architecture, name: str) -> str:
    """Return the text of a header with its includes; skip the test if the headers are not installed."""
    root = next((root for root in _ROOTS[machine.name] if (root / "asm").is_dir()), None)
    if root is None:
        pytest.skip(f"the kernel's headers for {machine.name} are not installed")
    return _text(root, name, set())


def _text(root: Path, name: str, seen: set[str]) -> str:
    path = next((path for path in (root / name, _WHERE_ELSE / name) if path.is_file()), None)
    if path is None or name in seen:
        return ""
    seen.add(name)
    text = path.read_text()
    return text + "".join(_text(root, included, seen) for included in _INCLUDED.findall(text) if "32" not in included)


def numbers_in(text: str) -> dict[str, int]:
    """Return the numbers of all calls of a 64-bit machine."""
    found = dict(_NUMBER.findall(text))
    # some names refer to another name, some to no call
    words = {name: found.get(word, word) for name, word in found.items()}
    return {name: int(word) for name, word in words.items() if word.isdigit()}


@MACHINES
def test_system_call_numbers_equal_those_of_the_kernel(machine: Architecture) -> None:
    expected = numbers_in(header(machine, "asm/unistd.h"))

    assert machine.calls == {name: expected.get(f"__NR_{name}") for name in machine.calls}


def test_x86_64_registers_are_at_the_offsets_of_the_kernel() -> None:
    text = header(X86_64, "sys/user.h")
    words = re.findall(r"long int (\w+);", text[text.index("struct user_regs_struct") :].split("}")[0])

    assert X86_64.register_count == len(words)
    used = (X86_64.program_counter, X86_64.number, X86_64.result, *X86_64.arguments)
    names = ("rip", "orig_rax", "rax", "rdi", "rsi", "rdx", "r10", "r8", "r9")
    assert [words[index] for index in used] == list(names)


def test_aarch64_registers_are_at_the_offsets_of_the_kernel() -> None:
    """syscall(2): the number is in x8, arguments are in x0 to x5, the result is in x0."""
    text = header(AARCH64, "asm/ptrace.h")
    words = re.findall(r"__u64\s+(\w+)(?:\[(\d+)\])?;", text[text.index("struct user_pt_regs") :].split("}")[0])
    names = [f"x{number}" for number in range(int(words[0][1]))] + [name for name, _ in words[1:]]

    assert AARCH64.register_count == len(names)
    used = (AARCH64.program_counter, AARCH64.number, AARCH64.result, *AARCH64.arguments)
    assert [names[index] for index in used] == ["pc", "x8", "x0", "x0", "x1", "x2", "x3", "x4", "x5"]


def test_only_aarch64_has_a_separate_register_set_for_the_call_number() -> None:
    numbers = dict(re.findall(r"#define (NT_\w+)\s+(\w+)", header(AARCH64, "linux/elf.h")))

    assert int(numbers["NT_PRSTATUS"], 0) == NT_PRSTATUS
    assert int(numbers["NT_ARM_SYSTEM_CALL"], 0) == NT_ARM_SYSTEM_CALL
    assert (X86_64.has_separate_number, AARCH64.has_separate_number) == (False, True)


@pytest.mark.parametrize(("machine", "name"), [(X86_64, "EM_X86_64"), (AARCH64, "EM_AARCH64")])
def test_seccomp_and_executables_use_the_same_machine_number(machine: Architecture, name: str) -> None:
    numbers = dict(re.findall(r"#define (EM_\w+)\s+(\d+)", header(machine, "linux/elf-em.h")))

    assert machine.audit == int(numbers[name]) | _AUDIT_64_BITS | _AUDIT_LITTLE_ENDIAN
