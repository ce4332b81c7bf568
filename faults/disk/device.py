"""The device under a disk, as it keeps those waiting who need it: one slow operation, or a stall of everything.

A stall begins with the operation that meets it, and all that arrive before it is over wait for its end. What the page
cache answers, stores and views through a map, needs no device.

Sources: Hao et al., "The Tail at Store", FAST 2016, for latencies that are now and then tens of times the usual; Gunawi
et al., "Fail-Slow at Scale", FAST 2018, for devices and firmware that stop for seconds and go on.
"""

from collections import Counter

from ...sim.choices import Stream
from ...sim.kernel import Kernel
from ...sim.tails import draw_tail
from ...sim.task import Waiting
from ..plan import FaultPlan

_SLOW_NS_MIN = 1_000_000
_STALL_NS_MIN = 100_000_000


class Device:
    """One device. Invariant: it stands still until `_stalled_until_ns`, if that is to come."""

    __slots__ = ("_fired", "_kernel", "_stalled_until_ns", "_stream")

    def __init__(self, kernel: Kernel, stream: Stream, fired: Counter[str]) -> None:
        self._kernel = kernel
        self._stream = stream
        self._fired = fired
        self._stalled_until_ns = 0

    def stalled_ns(self, faults: FaultPlan, label: str) -> int:
        """Return how long who arrives now has to wait before the device does anything."""
        now_ns = self._kernel.now_ns
        if now_ns >= self._stalled_until_ns and self._strikes(faults.stall_chance, "stalled device", label):
            most_ns = max(_STALL_NS_MIN, faults.stall_ms_max * 1_000_000)
            self._stalled_until_ns = now_ns + draw_tail(
                self._stream, _STALL_NS_MIN, most_ns, f"stall {label}"
            )
        return max(0, self._stalled_until_ns - now_ns)

    def wait(self, faults: FaultPlan, kind: str, path: str) -> None:
        """Let the current task wait as long as the device makes it wait for one operation."""
        label = f"{kind} {path}"
        delay_ns = self.stalled_ns(faults, label)
        if self._strikes(faults.slow_io_chance, "slow IO", label):
            most_ns = max(_SLOW_NS_MIN, faults.slow_io_ms_max * 1_000_000)
            delay_ns += draw_tail(self._stream, _SLOW_NS_MIN, most_ns, f"slow {label}")
        if delay_ns:
            self._kernel.park(Waiting(label), self._kernel.now_ns + delay_ns)

    def _strikes(self, chance: float, fault: str, label: str) -> bool:
        if chance <= 0.0 or not self._stream.chance(chance, f"{fault} {label}"):
            return False
        self._fired[fault] += 1
        return True
