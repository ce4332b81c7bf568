"""Shared processor: runs a single-threaded program and its recorder on one CPU.

The two never run at once: at each stop one waits for the other. On one CPU the kernel switches directly between them.
On two, each stop has to wake an idle CPU, which takes four times as long on a virtual machine. The program cannot see
this: it gets all CPUs back before it asks for its affinity and before it starts a second thread.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_PROCESSOR = 36  # index of the CPU in /proc/self/stat, counted after the name: proc(5)


class SharedProcessor:
    """The CPU that the recorder runs on, shared with its children."""

    def __init__(self) -> None:
        self._all = os.sched_getaffinity(0)
        self._is_shared = False

    def share(self) -> None:
        """Pin this process and its later children to the current CPU. No-op if that is forbidden."""
        words = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        with suppress(OSError):
            os.sched_setaffinity(0, {int(words[_PROCESSOR])})
            self._is_shared = True

    def release(self, threads: Iterable[int]) -> None:
        """Restore the affinity of the recorder and of these threads of the program, if pinned."""
        if self._is_shared:
            self._is_shared = False
            for thread in (0, *threads):
                with suppress(ProcessLookupError):  # killed in the meantime
                    os.sched_setaffinity(thread, self._all)
