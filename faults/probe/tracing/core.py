"""Interface of the recorder's C core. Without the core, ptrace.py uses ctypes.

The core's functions make a few ptrace requests for a stopped thread, or compare bytes. They raise OSError if the kernel
refuses a request, ChildProcessError if all children have ended, and the exception from `gone` if the thread has ended.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

PURE_PYTHON = "TORNLOG_PURE_PYTHON"
"""Environment variable: a non-empty value disables the C core."""


PlainCall = tuple[int, int, Any, int, int, bytes | None]
"""A call that the core has executed: thread, number, target, offset, flags of the descriptor, written data."""


class TracingCore(Protocol):
    """Functions of the C core."""

    gone: Callable[[int], Exception]
    """Creates the exception for a thread that has ended."""

    def wait(self, thread: int, /) -> tuple[int, int]:
        """Wait until a thread stops or ends. Return its id and wait status, or (0, 0) after a signal to the
        recorder."""

    def execute_plain_call(
        self,
        thread: int,
        threads: Mapping[int, int],
        files: Mapping[tuple[int, int], object],
        outputs: Mapping[tuple[int, int], str],
        events: list[PlainCall],
        /,
    ) -> bool:
        """If the call at which a thread has stopped is plain, execute it and continue the thread. Return whether it is.

        threads: the pidfd of each thread whose calls may be plain. files, outputs: the recorded targets of descriptors,
        by device and inode. events: gets the call if it has an effect. The target of a directory's sync is its path.
        Only x86-64 has plain calls.
        """

    def wait_after_plain_calls(
        self,
        threads: Mapping[int, int],
        files: Mapping[tuple[int, int], object],
        outputs: Mapping[tuple[int, int], str],
        events: list[PlainCall],
        /,
    ) -> list[tuple[int, int]]:
        """Execute the plain calls of stopped threads until other threads stop or end. Return these as `wait` does.

        The list is empty after a signal to the recorder, and after 20 ms of plain calls.
        """

    def go_on(self, thread: int, how: int, signal_number: int, /) -> None:
        """Continue a stopped thread."""

    def entered(self, thread: int, /) -> tuple[int, tuple[int, ...], int, int]:
        """Return the next call of a thread: number, arguments, address after the instruction, stack pointer."""

    def result(self, thread: int, /) -> int:
        """Return the result of a thread's last call."""

    def memory_fault(self, thread: int, /) -> tuple[int, int]:
        """Return the address and the code of a thread's SIGSEGV."""

    def block_signals(self, thread: int, more: int, /) -> int:
        """Add signals to a thread's mask of blocked signals. Return the previous mask."""

    def set_mask(self, thread: int, mask: int, /) -> None:
        """Set the signal mask of a thread."""

    def registers(self, thread: int, kind: int, /) -> bytes:
        """Return a register set, truncated to 128 words."""

    def set_registers(self, thread: int, kind: int, registers: bytes, changed: Mapping[int, int], /) -> None:
        """Set a register set. changed: words to replace, by index. Invalid words raise IndexError or ValueError."""

    def step(self, thread: int, /) -> int:
        """Execute one instruction of a thread. Return its wait status, or 0 after a signal to the recorder."""

    def read_memory(self, thread: int, address: int, size_bytes: int, /) -> bytes:
        """Return bytes of a thread's memory. The result is shorter if the mapping ends."""

    def descriptor_facts(self, descriptor: int, /) -> tuple[int, int, int, int]:
        """Return file position, flags, mount and inode from an open fdinfo file; -1 for missing values."""

    def difference(self, old: bytes, new: bytes, /) -> tuple[int, int] | None:
        """Return the range in which two contents of equal size differ. Several differing ranges raise ValueError."""


def load_core() -> TracingCore | None:
    """Return the C core, or None if it is missing or disabled. Without the core the recorder is slower.

    A core from an older build, with another INTERFACE, counts as missing.
    """
    if os.environ.get(PURE_PYTHON):
        return None
    try:
        from .native import INTERFACE, _stops
    except ImportError:
        return None
    return cast("TracingCore", _stops) if _stops.INTERFACE == INTERFACE else None
