"""Figures: rates of several rounds, a floor beside them, how long calls took, and the closed loop that makes calls.

In a closed loop workers call, wait for the answer, and call again. As many calls are under way as there are workers,
never more, and a call that takes long keeps its worker from making the ones that would have met the same delay. So the
throughput is what so many callers can get, and the latencies are those of calls that were made: they leave out the
queue that independent arrivals would have formed behind a stall (coordinated omission). They compare one build with
another; they are no promise to a user.
"""

import resource
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median
from threading import Barrier, Thread
from time import perf_counter_ns
from typing import Any, NamedTuple


class Latency(NamedTuple):
    """How long calls took, in µs."""

    p50_us: float
    p99_us: float
    max_us: float

    @classmethod
    def of(cls, series_ns: Iterable[Iterable[int]]) -> "Latency":
        """Summarise at least one call; each series is one worker's."""
        ordered = sorted(chain.from_iterable(series_ns))
        last = len(ordered) - 1
        return cls(*(ordered[round(last * share)] / 1_000 for share in (0.5, 0.99, 1.0)))


class Sample(NamedTuple):
    """One round: a rate, and its calls if they were timed one by one."""

    rate: float
    latency: Latency | None = None
    per_second: Mapping[str, float] = {}
    """What else there was of in a second, by its name."""


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured of one thing."""

    name: str
    unit: str
    floor: float | None
    """What the median should reach; None where nothing was set."""
    samples: tuple[float, ...]
    latencies: tuple[Latency, ...] = ()
    """One a round, or none at all."""
    loads: tuple[float, ...] = ()
    """The machine's load average over one minute, as each round ended."""
    ceiling: float | None = None
    """What the median should stay below, where less is better."""
    per_second: tuple[Mapping[str, float], ...] = ()
    """One a round: what else there was of in a second."""
    cpu_us: tuple[float, ...] = ()
    """One a round: the processor time of all processes for one unit of a rate, in µs, with all that prepared it."""

    @property
    def median(self) -> float:
        """Return the median of the samples."""
        return median(self.samples)

    @property
    def is_missed(self) -> bool:
        """Return whether there is a floor and the median is under it, or a ceiling and the median is over it."""
        if self.ceiling is not None and self.median > self.ceiling:
            return True
        return self.floor is not None and self.median < self.floor

    def median_per_second(self, name: str) -> float:
        """Return the median of what there was of that name in a second."""
        return median(one[name] for one in self.per_second)

    @property
    def latency(self) -> Latency | None:
        """Return the medians of the rounds' p50 and p99, and the longest call of all; None if none was timed."""
        if not self.latencies:
            return None
        p50s, p99s, longest = zip(*self.latencies, strict=True)
        return Latency(median(p50s), median(p99s), max(longest))

    def to_json(self) -> dict[str, Any]:
        """Return the figure as JSON takes it."""
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
    """Return the processor time of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


class ClosedLoop:
    """One run of some workers, each a thread around one call."""

    def __init__(self, calls: Sequence[Callable[[], object]], seconds: float) -> None:
        self._duration_ns = int(seconds * 1e9)
        self._stopped = False
        self._together = Barrier(len(calls))
        self._series = [array("q") for _ in calls]
        self._failures: list[BaseException] = []
        self._threads = [
            Thread(target=self._work, args=(call, series), daemon=True)
            for call, series in zip(calls, self._series, strict=True)
        ]

    def run(self, per_call: int = 1) -> Sample:
        """Work until the time is up; each call counts per_call times. Raises what a call raised.

        However it ends, no worker calls anything any more.
        """
        began_ns = perf_counter_ns()
        for thread in self._threads:
            thread.start()
        try:
            for thread in self._threads:
                thread.join()
        finally:
            self._stopped = True
            for thread in self._threads:
                thread.join()
        took_ns = perf_counter_ns() - began_ns
        if self._failures:
            raise self._failures[0]
        return Sample(sum(map(len, self._series)) * per_call / took_ns * 1e9, Latency.of(self._series))

    def _work(self, call: Callable[[], object], series: "array[int]") -> None:
        now_ns, note = perf_counter_ns, series.append
        try:
            self._together.wait()
            begin_ns = now_ns()
            end_ns = begin_ns + self._duration_ns
            while True:
                call()
                done_ns = now_ns()
                note(done_ns - begin_ns)
                if done_ns >= end_ns or self._stopped:
                    return
                begin_ns = done_ns
        except BaseException as failure:
            self._failures.append(failure)
            self._stopped = True
