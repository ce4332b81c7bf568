"""Closed loops: run workers that call, wait for the answer, and call again.

At most one call per worker is in flight. During a stall a worker makes no further calls, so the latencies lack the
waiting times of calls that independent clients would make (coordinated omission). Closed-loop latencies are useful to
compare builds, but are not the latencies of users.
"""

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from threading import Barrier, Thread
from time import perf_counter_ns
from typing import NamedTuple


class Latency(NamedTuple):
    """Percentiles of the latencies of calls, in µs."""

    p50_us: float
    p99_us: float
    max_us: float

    @classmethod
    def from_series(cls, series_ns: Iterable[Iterable[int]]) -> "Latency":
        """Each series has the latencies of one worker."""
        ordered = sorted(chain.from_iterable(series_ns))
        last = len(ordered) - 1
        return cls(*(ordered[round(last * share)] / 1_000 for share in (0.5, 0.99, 1.0)))


class Sample(NamedTuple):
    """The result of one round."""

    rate: float
    latency: Latency | None = None
    per_second: Mapping[str, float] = {}


class ClosedLoop:
    """A run of several workers, each a thread that repeats one call."""

    def __init__(self, calls: Sequence[Callable[[], object]], seconds: float) -> None:
        self._duration_ns = int(seconds * 1e9)
        self._stopped = False
        self._together = Barrier(len(calls))
        self._series = [array("q") for _ in calls]
        self._failures: list[BaseException] = []
        self._threads = [
            Thread(target=self._run_worker, args=(call, series), daemon=True)
            for call, series in zip(calls, self._series, strict=True)
        ]

    def run(self, per_call: int = 1) -> Sample:
        """Run the workers for the configured time.

        Each call counts as `per_call` operations. Raises the first error of a call. When the method returns, all
        workers have ended.
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
        return Sample(sum(map(len, self._series)) * per_call / took_ns * 1e9, Latency.from_series(self._series))

    def _run_worker(self, call: Callable[[], object], series: "array[int]") -> None:
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
