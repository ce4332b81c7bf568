"""Waits of tasks: records each long wait with its reason, and names the causes of a slow put.

A put often waits for a lock, a signal or the interpreter, which another task holds while it waits for the kernel. So
the causes of such a wait are the holder's own waits for the kernel at the same time.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

from ....sim.kernel import Kernel
from ....sim.machine import SimLock, WaitReason
from .host import InterpreterLock

WAIT_NS_MIN = 50_000
"""Shorter waits are not recorded."""
_DEPTH = 4
"""Holders that wait for other holders."""
CAUSES = {
    "device": "the device",
    "stable page": "write-back of the same page (stable pages)",
    "page read": "a page that memory pressure had evicted",
    "journal commit": "a journal commit",
    "journal locked": "a journal transaction that is closing",
    "journal buffer": "the journal, which writes the same inode block",
    "dirty limit": "the dirty limit",
    "memory reclaim": "reclaim of memory",
    "pause": "a pause of all threads",
}
"""Waits for the kernel, and their meaning in a sentence."""
COMPUTING = "computing"
_ANSWERED_BY = {"signal group commit done": "group-commit", "signal allocated": "allocate"}
"""The service that ends a wait for a signal."""


class Wait(NamedTuple):
    """One wait of a task, in ns."""

    reason: str
    begun_ns: int
    ended_ns: int
    holder: str | None
    """The task that held the lock, or that gives the signal."""


class RecordingKernel(Kernel):
    """A kernel that records the waits of tasks. Recording does not change the run."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.waits: defaultdict[str, list[Wait]] = defaultdict(list)
        """Waits by task, in order."""
        self.machine_name: str | None = None
        """Waits of this machine's tasks are recorded."""

    def park(self, why: WaitReason, due_ns: int | None) -> bool:
        begun_ns = self.now_ns
        # Described before the wait, because the lock may have another holder afterwards.
        text = why.describe() if isinstance(why, SimLock | InterpreterLock) else ""
        woken = super().park(why, due_ns)
        if self.now_ns - begun_ns >= WAIT_NS_MIN:
            current = self.current
            if current.machine.name == self.machine_name:
                holder = text.partition(" held by ")[2] or None
                self.waits[current.name].append(Wait(why.label, begun_ns, self.now_ns, holder))
        return woken

    def rename_waits(self, reason: str, call: Callable[[], None]) -> None:
        """Run a call, and give the current task's waits in it another reason."""
        mine = self.waits[self.current.name]
        first = len(mine)
        call()
        mine[first:] = [wait._replace(reason=reason) for wait in mine[first:]]

    def causes_of(self, task: str, begun_ns: int, ended_ns: int) -> dict[str, int]:
        """Return the ns of a task's time by cause, longest first. The rest is computing, or waits for it."""
        found: defaultdict[str, int] = defaultdict(int)
        self._add_causes(found, task, begun_ns, ended_ns, _DEPTH)
        found[COMPUTING] = ended_ns - begun_ns - sum(found.values())
        assert found[COMPUTING] >= 0, (task, found)
        return {cause: ns for cause, ns in sorted(found.items(), key=lambda item: (-item[1], item[0])) if ns}

    def _add_causes(self, found: "defaultdict[str, int]", task: str, begun_ns: int, ended_ns: int, depth: int) -> None:
        waits = self.waits[task]
        for number in range(bisect_right(waits, begun_ns, key=lambda wait: wait.ended_ns), len(waits)):
            wait = waits[number]
            start, end = max(wait.begun_ns, begun_ns), min(wait.ended_ns, ended_ns)
            if end <= start:
                break
            service = _ANSWERED_BY.get(wait.reason)
            holder = wait.holder if service is None else f"{self.machine_name}/{service}"
            if wait.reason in CAUSES:
                found[wait.reason] += end - start
            elif holder is not None and depth:
                self._add_causes(found, holder, start, end, depth - 1)
