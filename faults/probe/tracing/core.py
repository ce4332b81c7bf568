"""The recorder's core in C: what it does, and whether there is one. Without it ptrace.py does the same by ctypes.

Its functions make a request or a few about a stopped thread, or compare. Where the kernel refuses they raise OSError:
ChildProcessError if there is nothing left to wait for. Of a thread that is no more they raise what `gone` says.
"""

import os
from collections.abc import Callable, Mapping
from typing import Protocol, cast

PURE_PYTHON = "TORNLOG_PURE_PYTHON"
"""The environment variable that, unless it is empty, keeps the core from being used."""


class TracingCore(Protocol):
    """What the core in C does."""

    gone: Callable[[int], Exception]
    """What to raise of a thread that is no more."""

    def wait(self, thread: int, /) -> tuple[int, int]:
        """Return the next thread that has stopped or ended, and its wait status; (0, 0) if a signal came to us."""

    def go_on(self, thread: int, how: int, signal_number: int, /) -> None:
        """Have a stopped thread go on."""

    def entered(self, thread: int, /) -> tuple[int, tuple[int, ...], int, int]:
        """Return number and arguments of the call in front of a thread, the address behind it, and the stack's."""

    def result(self, thread: int, /) -> int:
        """Return what the call has come to that a thread is stopped behind."""

    def memory_fault(self, thread: int, /) -> tuple[int, int]:
        """Return the address and the code that SIGSEGV came with."""

    def block_signals(self, thread: int, more: int, /) -> int:
        """Add signals to those that a thread blocks; return the mask it had."""

    def set_mask(self, thread: int, mask: int, /) -> None:
        """Set which signals a thread blocks."""

    def registers(self, thread: int, kind: int, /) -> bytes:
        """Return a set of registers, of at most 128 words: the first of more."""

    def set_registers(self, thread: int, kind: int, registers: bytes, changed: Mapping[int, int], /) -> None:
        """Set a set of registers, some to other words: by index. Raises IndexError, ValueError for what is none."""

    def step(self, thread: int, /) -> int:
        """Have a thread do one instruction; return the wait status it then has, 0 if a signal came to us first."""

    def read_memory(self, thread: int, address: int, size_bytes: int, /) -> bytes:
        """Return bytes of a thread's memory, fewer where it has no more."""

    def descriptor_facts(self, descriptor: int, /) -> tuple[int, int, int, int]:
        """Return position, flags, mount and inode of what a descriptor on fdinfo tells of; -1 where it does not."""

    def difference(self, old: bytes, new: bytes, /) -> tuple[int, int] | None:
        """Return from where to where two contents of one size differ. Raises ValueError if they have several."""


def load_core() -> TracingCore | None:
    """Return the core, None if it is not there or not wanted: everything works without, and more slowly.

    One that was built from other code, as before a checkout's last update, is not there.
    """
    if os.environ.get(PURE_PYTHON):
        return None
    try:
        from .native import INTERFACE, _stops
    except ImportError:
        return None
    return cast("TracingCore", _stops) if _stops.INTERFACE == INTERFACE else None
