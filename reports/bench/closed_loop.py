"""Workers that call, wait for the answer, and call again, for a while.

That is closed-loop load: as many calls are under way as there are workers, never more, and a call that takes long keeps
its worker from making the ones that would have met the same delay. So the throughput is what so many callers can get,
and the latencies are those of calls that were made: they leave out the queue that independent arrivals would have
formed behind a stall (coordinated omission). They compare one build with another; they are no promise to a user.
"""

from array import array
from collections.abc import Callable, Sequence
from threading import Barrier, Thread
from time import perf_counter_ns

from .figure import Latency, Sample


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
        calls = sum(map(len, self._series))
        return Sample(calls * per_call / took_ns * 1e9, Latency.of(self._series))

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
