"""Processor architectures: numbers of system calls, and indexes of registers.

Register indexes count the 64-bit words of `struct user_regs_struct` or `struct user_pt_regs`, as PTRACE_GETREGSET
returns them.

    x86-64    number in orig_rax (15), result in rax (10), arguments in rdi rsi rdx r10 r8 r9, a call is 2 bytes: 0f 05
    aarch64   number in x8, result in x0, arguments in x0 to x5, a call is 4 bytes: d4000001; at its stops x7 is a flag

Sources: arch/x86/include/asm/user_64.h, arch/arm64/include/uapi/asm/ptrace.h, include/uapi/asm-generic/unistd.h,
arch/arm64/kernel/ptrace.c (report_syscall), arch/arm64/kernel/signal.c (do_signal), Documentation/arm64/sve.rst.
"""

import platform
import struct
from collections.abc import Mapping
from typing import NamedTuple

NT_PRSTATUS, NT_X86_XSTATE, NT_ARM_SYSTEM_CALL, NT_ARM_SVE = 1, 0x202, 0x404, 0x405
_ARM_EXCLUSIVE_MASK, _ARM_EXCLUSIVE = 0x3F00_0000, 0x0800_0000
_ARM_JUMPED = 0xC00
_ARM_IS_ORDERED = 1 << 23
"""Instruction bit that distinguishes load-acquire, store-release and compare-and-swap from exclusives."""


_RESTART_RESULTS = {2**64 - error for error in (512, 513, 514, 516)}
"""Internal errors of the kernel: ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK."""


class Architecture(NamedTuple):
    """The properties of a processor that a tracer needs."""

    name: str
    audit: int
    """Number of the processor in seccomp filters."""
    calls: Mapping[str, int]
    register_count: int
    program_counter: int
    """Register indexes, also in the next fields."""
    number: int
    result: int
    arguments: tuple[int, ...]
    call_bytes: int
    has_separate_number: bool
    """Whether the call number is in a separate register set, NT_ARM_SYSTEM_CALL."""
    kept: Mapping[int, int]
    """Callee-saved registers: DWARF number to kernel index."""
    stack_pointer_in_dwarf: int
    return_address_in_dwarf: int
    """DWARF number of the return address: a register, or a pseudo-register if it is on the stack."""
    address_bits: int = 64
    """Number of address bits in a return address. The upper bits can be a signature."""
    has_vectors_apart: bool = False
    """Whether a call may clear the vector registers in the separate register set NT_ARM_SVE."""
    state: int | None = None
    """Index of the processor state register, if the state restricts jump targets."""
    mark: int | None = None
    """Index of the register that the kernel overwrites with a flag at a stop after a call."""

    def set_call(self, number: int) -> dict[int, int]:
        """Return the register values for a call, by index."""
        if self.has_separate_number:
            return {self.number: number}
        # Call number -1 prevents the restart of an interrupted call.
        return {self.result: number, self.number: 2**64 - 1}

    def set_result(self, result: int) -> dict[int, int]:
        """Return the register values after a skipped call with this result, by index."""
        number = {} if self.has_separate_number else {self.number: 2**64 - 1}
        return {self.result: result % 2**64} | number

    def without_jump(self, state: int) -> int:
        """Return the state without the jump flag, because guarded code forbids jumps to a call instruction."""
        return state & ~_ARM_JUMPED

    def is_undecided(self, result: int) -> bool:
        """Return whether an injected call would prevent the kernel from restarting a call with this result.

        The kernel replaces such a result when it handles the signal that interrupted the call. On x86-64 a restart
        depends only on registers, which the recorder restores. On aarch64 a restart also depends on the kernel's data
        about the last call.
        """
        return self.has_separate_number and result in _RESTART_RESULTS

    def is_store_exclusive(self, instruction: bytes) -> bool:
        """Return whether an instruction is a store-exclusive, which fails if the thread stops after the load."""
        if self.name != "aarch64":
            return False
        (word,) = struct.unpack("<I", instruction[:4])
        return word & _ARM_EXCLUSIVE_MASK == _ARM_EXCLUSIVE and not word & _ARM_IS_ORDERED

    def is_repeated(self, instruction: bytes) -> bool:
        """Return whether an instruction is a repeated store (x86's `rep`). A single step runs one iteration."""
        return self.name == "x86_64" and instruction[:1] in (b"\xf2", b"\xf3") and _is_string(instruction)


def _is_string(instruction: bytes) -> bool:
    """Return whether the instruction after the prefixes is movs, stos or ins, not SSE with the same first byte."""
    for byte in instruction:
        if byte not in _X86_PREFIXES:
            return byte in _X86_STRINGS
    return False


_X86_PREFIXES = {0xF2, 0xF3, 0x66, 0x67, *range(0x40, 0x50)}
_X86_STRINGS = {0xA4, 0xA5, 0xAA, 0xAB, 0x6C, 0x6D}


def _parse_numbers(table: str) -> Mapping[str, int]:
    words = table.split()
    return {name: int(number) for name, number in zip(words[::2], words[1::2], strict=True)}


X86_64 = Architecture(
    name="x86_64",
    audit=0xC000003E,
    calls=_parse_numbers(
        """
        read 0  write 1  open 2  close 3  fstat 5  lseek 8  mmap 9  mprotect 10  munmap 11  ioctl 16  pread64 17
        pwrite64 18  readv 19  writev 20  mremap 25  msync 26  madvise 28  sendfile 40  recvfrom 45  recvmsg 47
        fcntl 72  flock 73  fsync 74  fdatasync 75  truncate 76  ftruncate 77  rename 82  mkdir 83  rmdir 84  creat 85
        link 86  unlink 87  symlink 88  mknod 133  sync 162  io_getevents 208  io_submit 209  remap_file_pages 216
        getdents64 217  openat 257  mkdirat 258  mknodat 259  newfstatat 262  unlinkat 263  renameat 264  linkat 265
        symlinkat 266  sched_setaffinity 203  sched_getaffinity 204
        splice 275  sync_file_range 277  fallocate 285  preadv 295  pwritev 296  recvmmsg 299  syncfs 306
        renameat2 316  seccomp 317  getrandom 318  copy_file_range 326  preadv2 327  pwritev2 328  statx 332
        io_pgetevents 333  io_uring_setup 425  io_uring_enter 426  io_uring_register 427  openat2 437
        """
    ),
    register_count=27,
    program_counter=16,
    number=15,
    result=10,
    arguments=(14, 13, 12, 7, 9, 8),
    call_bytes=2,
    has_separate_number=False,
    kept={3: 5, 6: 4, 7: 19, 12: 3, 13: 2, 14: 1, 15: 0},
    stack_pointer_in_dwarf=7,
    return_address_in_dwarf=16,
)
AARCH64 = Architecture(
    name="aarch64",
    audit=0xC00000B7,
    calls=_parse_numbers(
        """
        io_submit 2  io_getevents 4  fcntl 25  ioctl 29  flock 32  mknodat 33  mkdirat 34  unlinkat 35  symlinkat 36
        linkat 37  renameat 38  truncate 45  ftruncate 46  fallocate 47  openat 56  close 57  getdents64 61  lseek 62
        read 63
        write 64  readv 65  writev 66  pread64 67  pwrite64 68  preadv 69  pwritev 70  sendfile 71  splice 76
        newfstatat 79  sched_setaffinity 122  sched_getaffinity 123
        fstat 80  sync 81  fsync 82  fdatasync 83  sync_file_range 84  recvfrom 207  recvmsg 212  munmap 215  mremap 216
        mmap 222  mprotect 226  msync 227  madvise 233  remap_file_pages 234  recvmmsg 243  syncfs 267
        renameat2 276  seccomp 277  getrandom 278  copy_file_range 285  preadv2 286  pwritev2 287  statx 291
        io_pgetevents 292  io_uring_setup 425  io_uring_enter 426  io_uring_register 427  openat2 437
        """
    ),
    register_count=34,
    program_counter=32,
    number=8,
    result=0,
    arguments=(0, 1, 2, 3, 4, 5),
    call_bytes=4,
    has_separate_number=True,
    kept={number: number for number in range(19, 32)},
    stack_pointer_in_dwarf=31,
    return_address_in_dwarf=30,
    address_bits=48,
    has_vectors_apart=True,
    state=33,
    mark=7,
)
MACHINES = {machine.name: machine for machine in (X86_64, AARCH64)}


def this_machine() -> Architecture | None:
    """Return this machine's processor, or None if the processor or the operating system is not supported."""
    return MACHINES.get(platform.machine()) if platform.system() == "Linux" else None
