"""Interface of the recorder's C core. If the core is missing, ptrace.py uses ctypes.

Its functions make a few ptrace requests for a stopped thread, or compare bytes. They raise OSError if the kernel
refuses, ChildProcessError if there are no more children, and the exception from `gone` if the thread has ended.
"""

import os
from collections.abc import Callable, Mapping
from typing import Protocol, cast

PURE_PYTHON = "TORNLOG_PURE_PYTHON"
"""If this environment variable is not empty, the core is not used."""


class TracingCore(Protocol):
    """Functions of the C core."""

    gone: Callable[[int], Exception]
    """Creates the exception for a thread that has ended."""

    def wait(self, thread: int, /) -> tuple[int, int]:
        """Wait for a stopped or ended thread. Return it and its wait status; (0, 0) after a signal to the recorder."""

    def go_on(self, thread: int, how: int, signal_number: int, /) -> None:
        """Continue a stopped thread."""

    def entered(self, thread: int, /) -> tuple[int, tuple[int, ...], int, int]:
        """Return the call that a thread is about to make: number, arguments, address after the instruction, stack
        pointer.
        """

    def result(self, thread: int, /) -> int:
        """Return the result of the call that a thread has just made."""

    def memory_fault(self, thread: int, /) -> tuple[int, int]:
        """Return the address and the code of a thread's SIGSEGV."""

    def block_signals(self, thread: int, more: int, /) -> int:
        """Add signals to a thread's mask of blocked signals. Return the previous mask."""

    def set_mask(self, thread: int, mask: int, /) -> None:
        """Set the signal mask of a thread."""

    def registers(self, thread: int, kind: int, /) -> bytes:
        """Return a register set. Sets longer than 128 words are truncated."""

    def set_registers(self, thread: int, kind: int, registers: bytes, changed: Mapping[int, int], /) -> None:
        """Set a register set. changed: words to replace, by index. Raises IndexError or ValueError for invalid ones."""

    def step(self, thread: int, /) -> int:
        """Execute one instruction of a thread. Return the new wait status, or 0 after a signal to the recorder."""

    def read_memory(self, thread: int, address: int, size_bytes: int, /) -> bytes:
        """Return bytes of a thread's memory, or fewer at the end of its map."""

    def descriptor_facts(self, descriptor: int, /) -> tuple[int, int, int, int]:
        """Return position, flags, mount and inode from an open fdinfo file; -1 for missing values."""

    def difference(self, old: bytes, new: bytes, /) -> tuple[int, int] | None:
        """Return the range in which two contents of equal size differ. ValueError: there are several such ranges."""


def load_core() -> TracingCore | None:
    """Return the core, or None if it is missing or disabled. Without it the recorder is slower.

    A core with another INTERFACE, for example from an older build, counts as missing.
    """
    if os.environ.get(PURE_PYTHON):
        return None
    try:
        from .native import INTERFACE, _stops
    except ImportError:
        return None
    return cast("TracingCore", _stops) if _stops.INTERFACE == INTERFACE else None
