"""How long a sync takes."""

from dataclasses import dataclass
from typing import Protocol

from ...sim.tails import draw_tail
from .fault_injector import FaultInjector
from .page_cache import Inode

_TAIL = 8


class Timing(Protocol):
    """What a disk asks how long its syncs take."""

    def sync_ns(self, injector: FaultInjector, label: str, inode: Inode | None, start: int, end: int) -> int:
        """Return the latency, in ns, of a sync of a file's bytes [start, end) that begins now; None: a directory's."""


@dataclass(frozen=True, slots=True)
class SyncTiming:
    """A sync takes base_ns_min to base_ns_max; a slow one, as when a drive collects garbage, much longer.

    Slow ones have a heavy tail: they begin at an eighth of what the fault says they take at most.
    """

    base_ns_min: int = 100_000
    base_ns_max: int = 2_000_000

    def __post_init__(self) -> None:
        assert 0 <= self.base_ns_min <= self.base_ns_max, self

    def sync_ns(self, injector: FaultInjector, label: str, inode: Inode | None, start: int, end: int) -> int:
        """Return one sync's latency in ns, whatever it covers."""
        return self.draw(injector, label)

    def draw(self, injector: FaultInjector, label: str) -> int:
        """Return one sync's latency in ns, the rest of a stall included. What cannot vary is not drawn."""
        stream, faults = injector.stream, injector.faults
        stalled_ns = injector.device.stalled_ns(faults, label) if faults.stall_chance > 0.0 else 0
        if injector.inject_if(faults.slow_sync_chance, "slow sync", label):
            most_ns = max(faults.slow_sync_ms_max * 1_000_000, self.base_ns_max, 1)
            least_ns = max(most_ns // _TAIL, self.base_ns_max, 1)
            return stalled_ns + draw_tail(stream, least_ns, most_ns, f"slow {label} ns")
        if self.base_ns_min == self.base_ns_max:
            return stalled_ns + self.base_ns_min
        return stalled_ns + stream.between(self.base_ns_min, self.base_ns_max, f"{label} ns")
