"""Measured puts: runs open-loop puts in real threads; percentiles to p99.99, throughput and pauses over time.

Percentiles are exact, because every latency is kept in 8 bytes. An HDR histogram rounds latencies to bound its memory,
which the some 100,000 puts of a series do not need.
"""

import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Thread
from typing import Any, NamedTuple

from .....store.message_store import MessageStore
from .....store.world import World
from ....quantities import LATENCY_SHARES, percentiles_us
from ..traffic import Setup, message_of, produce

TAIL_SHARES = (*LATENCY_SHARES, 0.9999)
TAIL_COLUMNS = tuple(f"p{100 * share:g}" for share in TAIL_SHARES)
INTERVAL_NS = 100_000_000
_ROUNDING = 1e-9  # 1 - share is not exact in binary


class MeasuredPuts(NamedTuple):
    """Puts of one series, by producer."""

    latencies_ns: "array[int]"
    answered_ns: "array[int]"
    """Time of each answer since the start of the series."""

    def tail_us(self) -> list[float | None]:
        """Return the percentile for each of TAIL_SHARES; None if the slower puts are fewer than one."""
        count = len(self.latencies_ns)
        found = percentiles_us(self.latencies_ns, TAIL_SHARES)
        return [
            us if count * (1 - share) >= 1 - _ROUNDING else None for us, share in zip(found, TAIL_SHARES, strict=True)
        ]

    def intervals(self) -> list["Interval"]:
        """Return the throughput of each interval of 100 ms, from the start to the last answer."""
        found = [Interval(0, 0, 0) for _ in range(max(self.answered_ns) // INTERVAL_NS + 1)]
        ordered = sorted(zip(self.answered_ns, self.latencies_ns, strict=True))
        for (answered_ns, latency_ns), pause_ns in zip(ordered, _pauses_ns(ordered), strict=True):
            puts, slowest_ns, longest_ns = found[answered_ns // INTERVAL_NS]
            found[answered_ns // INTERVAL_NS] = Interval(
                puts + 1, max(slowest_ns, latency_ns), max(longest_ns, pause_ns)
            )
        assert sum(one.puts for one in found) == len(ordered), "each answer is in one interval"
        return found


class Interval(NamedTuple):
    """The answers of one interval. A pause that ends in an interval may have begun before it."""

    puts: int
    slowest_ns: int
    pause_ns: int
    """Longest time in which puts waited without an answer."""


def _pauses_ns(ordered: Sequence[tuple[int, int]]) -> list[int]:
    """Return the pause before each answer. ordered: times of answers with latencies, ascending."""
    pauses, waits_since_ns = [], ordered[-1][0]
    for number in range(len(ordered) - 1, -1, -1):
        answered_ns, latency_ns = ordered[number]
        waits_since_ns = min(waits_since_ns, answered_ns - latency_ns)
        pauses.append(answered_ns - max(waits_since_ns, ordered[number - 1][0] if number else 0))
    return pauses[::-1]


def measure(gaps_ns: Sequence["array[int]"], put: Callable[[], None]) -> MeasuredPuts:
    """Put at the arrivals of each producer, in threads. Raises the first error of a put."""
    series = [MeasuredPuts(array("q"), array("q")) for _ in gaps_ns]
    failures: list[BaseException] = []
    start_ns = time.perf_counter_ns()

    def work(number: int, gaps_ns: "array[int]") -> None:
        answered_ns = array("q")

        def timed_put() -> None:
            put()
            answered_ns.append(time.perf_counter_ns() - start_ns)

        try:
            latencies_ns = produce(gaps_ns, time.perf_counter_ns, lambda ns: time.sleep(ns / 1e9), timed_put)
            series[number] = MeasuredPuts(latencies_ns, answered_ns)
        except BaseException as failure:
            failures.append(failure)

    threads = [Thread(target=work, args=each, daemon=True) for each in enumerate(gaps_ns)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return joined(series)


def joined(series: Sequence[MeasuredPuts]) -> MeasuredPuts:
    """Return the puts of all series of one start."""
    return MeasuredPuts(*(sum(parts, array("q")) for parts in zip(*series, strict=True)))


@contextmanager
def running_store(world: World, setup: Setup, directory: str, **others: Any) -> Iterator[MessageStore]:
    """Yield a started store with one message, and shut it down after the block. others: fields of StoreConfig."""
    store = MessageStore(world, replace(setup.config(directory), **others))
    store.load()
    store.start()
    try:
        store.put_message(message_of(setup))  # creates the first segment
        yield store
    finally:
        store.shutdown()
