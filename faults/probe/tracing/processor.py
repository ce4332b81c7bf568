"""One processor for a program and its recorder, for as long as the program is one thread.

The two never run at once: at each stop one waits for the other. On one processor the kernel goes from one to the other
directly. On two, each stop has to wake a processor that has gone idle, which takes four times as long on a virtual
machine. The program does not notice: before it asks which processors it has, and before a second thread of it runs, it
has all of them again.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_PROCESSOR = 36
"""Which word behind the name, in /proc/self/stat, is the processor that the thread is on: proc(5)."""


class SharedProcessor:
    """The processor that we are on, for us and what we start."""

    def __init__(self) -> None:
        self._all = os.sched_getaffinity(0)
        self._is_shared = False

    def share(self) -> None:
        """Stay on this processor, with all that is started from now on. Nothing happens where that is forbidden."""
        words = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        with suppress(OSError):
            os.sched_setaffinity(0, {int(words[_PROCESSOR])})
            self._is_shared = True

    def release(self, threads: Iterable[int]) -> None:
        """Have all processors again, with these threads of the program, if they are shared still."""
        if self._is_shared:
            self._is_shared = False
            for thread in (0, *threads):
                with suppress(ProcessLookupError):  # killed meanwhile
                    os.sched_setaffinity(thread, self._all)
