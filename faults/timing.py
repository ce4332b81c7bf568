"""How long a sync takes."""

from dataclasses import dataclass

from .plug import Plug


@dataclass(frozen=True, slots=True)
class SyncTiming:
    """A sync takes base_ns_min to base_ns_max; a slow one, as when a drive collects garbage, much longer."""

    base_ns_min: int = 100_000
    base_ns_max: int = 2_000_000

    def __post_init__(self) -> None:
        assert 0 <= self.base_ns_min <= self.base_ns_max, self

    def draw(self, plug: Plug, label: str) -> int:
        """Return one sync's latency in ns. What cannot vary is not drawn."""
        stream, faults = plug.stream, plug.faults
        if plug.strikes(faults.slow_sync_chance, "slow sync", label):
            slowest_ns = max(faults.slow_sync_ms_max * 1_000_000, self.base_ns_max)
            return stream.between(self.base_ns_max, slowest_ns, f"slow {label} ns")
        if self.base_ns_min == self.base_ns_max:
            return self.base_ns_min
        return stream.between(self.base_ns_min, self.base_ns_max, f"{label} ns")
