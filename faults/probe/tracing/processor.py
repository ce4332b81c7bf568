"""Shared processor: pins a single-threaded program and its recorder to one CPU.

At each stop program or recorder waits for the other, so they never run at the same time. On one CPU the kernel switches
directly between them. On two CPUs each stop wakes an idle CPU, which takes four times as long in a virtual machine. The
recorder unpins both before the program reads its affinity or starts a second thread.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_PROCESSOR = 36  # index of the CPU in /proc/self/stat, after the name: proc(5)


class SharedProcessor:
    """The CPU on which the recorder and its children run."""

    def __init__(self) -> None:
        self._all = os.sched_getaffinity(0)
        self._is_shared = False

    def pin_to_current_cpu(self) -> None:
        """Pin this process and its later children to the current CPU. No-op if the kernel refuses."""
        words = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        with suppress(OSError):
            os.sched_setaffinity(0, {int(words[_PROCESSOR])})
            self._is_shared = True

    def release(self, threads: Iterable[int]) -> None:
        """Restore the affinity of the recorder and of the given threads, if pinned."""
        if self._is_shared:
            self._is_shared = False
            for thread in (0, *threads):
                with suppress(ProcessLookupError):  # the thread has been killed
                    os.sched_setaffinity(thread, self._all)
