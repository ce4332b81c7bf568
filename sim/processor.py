"""A processor that tasks share: computing takes time, and only one of them computes at a time.

Simulated code takes no virtual time by itself. Whoever wants to know how long things take says what they cost, here.
"""

from .kernel import Kernel
from .task import Waiting

_COMPUTING = Waiting("processor")


class Processor:
    """One processor, first come, first served. Invariant: it is taken until `_free_at_ns`, if that is to come."""

    __slots__ = ("_free_at_ns", "_kernel", "busy_ns")

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._free_at_ns = 0
        self.busy_ns = 0
        """How long it has been taken, in all."""

    def work(self, cost_ns: int) -> None:
        """Let the current task compute for so long, after those who came before it."""
        if cost_ns <= 0:
            return
        kernel = self._kernel
        self._free_at_ns = max(kernel.now_ns, self._free_at_ns) + cost_ns
        self.busy_ns += cost_ns
        kernel.park(_COMPUTING, self._free_at_ns)
