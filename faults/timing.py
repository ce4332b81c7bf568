"""How long a sync takes, and how often it fails."""

from collections import Counter
from dataclasses import dataclass

from ..sim.choices import Stream


@dataclass(frozen=True, slots=True)
class SyncTiming:
    """A sync takes base_ns_min to base_ns_max; with slow_chance up to slow_ns_max, as when a drive collects garbage."""

    base_ns_min: int = 100_000
    base_ns_max: int = 2_000_000
    slow_chance: float = 0.0
    slow_ns_max: int = 3_000_000_000

    def __post_init__(self) -> None:
        assert 0 <= self.base_ns_min <= self.base_ns_max <= self.slow_ns_max, self

    def draw(self, stream: Stream, label: str, fired: Counter[str]) -> int:
        """Return one sync's latency in ns and count the slow ones. What cannot vary is not drawn."""
        if self.slow_chance and stream.chance(self.slow_chance, f"slow {label}"):
            fired["slow sync"] += 1
            return stream.between(self.base_ns_max, self.slow_ns_max, f"slow {label} ns")
        if self.base_ns_min == self.base_ns_max:
            return self.base_ns_min
        return stream.between(self.base_ns_min, self.base_ns_max, f"{label} ns")


@dataclass(frozen=True, slots=True)
class SyncFaults:
    """A file's sync fails with failure_chance: EIO once, its pages marked clean, their data never written."""

    failure_chance: float = 0.0

    def draw(self, stream: Stream, label: str, fired: Counter[str]) -> bool:
        """Return whether this sync fails, and count it if so."""
        if not self.failure_chance or not stream.chance(self.failure_chance, f"failed {label}"):
            return False
        fired["failed sync"] += 1
        return True
