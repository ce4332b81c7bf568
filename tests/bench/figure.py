"""Figures: rates of several rounds, and their floor."""

import resource
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from tornlog.reports.studies.closed_loop import Latency


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure."""

    name: str
    unit: str
    floor: float | None
    """Lower limit of the median; None if not set."""
    samples: tuple[float, ...]
    latencies: tuple[Latency, ...] = ()
    """The latencies of each round; empty without timed calls."""
    loads: tuple[float, ...] = ()
    """The machine's load average over one minute at the end of each round."""
    ceiling: float | None = None
    """Upper limit of the median, for figures where less is better."""
    per_second: tuple[Mapping[str, float], ...] = ()
    """Other rates per second, by name, for each round."""
    cpu_us: tuple[float, ...] = ()
    """One per round: processor time of all processes per unit of a rate, in µs, including the preparation."""

    @property
    def median(self) -> float:
        return median(self.samples)

    @property
    def is_missed(self) -> bool:
        """Return whether the median is below the floor or above the ceiling."""
        if self.ceiling is not None and self.median > self.ceiling:
            return True
        return self.floor is not None and self.median < self.floor

    def median_per_second(self, name: str) -> float:
        """Return the median of the other rate of that name."""
        return median(one[name] for one in self.per_second)

    @property
    def latency(self) -> Latency | None:
        """Return the medians of the rounds' p50 and p99, and the longest call of all; None without timed calls."""
        if not self.latencies:
            return None
        p50s, p99s, longest = zip(*self.latencies, strict=True)
        return Latency(median(p50s), median(p99s), max(longest))

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "name": self.name,
            "unit": self.unit,
            "floor": self.floor,
            "median": self.median,
            "samples": list(self.samples),
        }
        if self.ceiling is not None:
            fields["ceiling"] = self.ceiling
        if self.cpu_us:
            fields["cpu_us"] = median(self.cpu_us)
        if self.per_second:
            fields["per_second"] = {name: self.median_per_second(name) for name in self.per_second[0]}
        latency = self.latency
        if latency is not None:
            fields["latency_us"] = {"p50": latency.p50_us, "p99": latency.p99_us, "max": latency.max_us}
        if self.loads:
            fields["load_average"] = list(self.loads)
        return fields


def cpu_seconds_spent() -> float:
    """Return the processor time of this process and of its ended children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
