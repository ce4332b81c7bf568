"""Open-loop traffic: puts arrive when they arrive, however long the store takes for those before.

Arrivals are a Poisson process, split evenly between producers. A put that finds its producer at work waits, and that
wait is part of its latency, so a stall is felt by all who arrive while it lasts: percentiles do not suffer from
coordinated omission (G. Tene's term for clients that stop asking while a server stalls). A producer that sleeps until
an arrival and wakes late has not been kept waiting by the store: its put counts from when it was awake, and the
arrivals after it move by as much.
"""

from array import array
from collections.abc import Callable, Iterable
from math import log

from ....sim.choices import Choices
from .setup import Setup


def arrivals(setup: Setup) -> list["array[int]"]:
    """Return, for each producer, the ns between one arrival and the next: the same for the same setup."""
    choices = Choices(f"arrivals/{setup.seed}")
    mean_ns = setup.producers / setup.rate * 1e9
    found = []
    for producer in range(setup.producers):
        draw = choices.stream(f"producer-{producer}").raw_random
        count = setup.puts // setup.producers + (producer < setup.puts % setup.producers)
        found.append(array("q", (round(-log(1.0 - draw()) * mean_ns) for _ in range(count))))
    return found


def produce(
    gaps_ns: Iterable[int],
    now_ns: Callable[[], int],
    sleep_ns: Callable[[int], None],
    put: Callable[[], None],
) -> "array[int]":
    """Put at each arrival; return the latencies in ns."""
    latencies = array("q")
    begun_ns = now_ns()
    for gap_ns in gaps_ns:
        due_ns = begun_ns + gap_ns
        early_ns = due_ns - now_ns()
        if early_ns > 0:
            sleep_ns(early_ns)
            due_ns = now_ns()
        begun_ns = due_ns
        put()
        latencies.append(now_ns() - begun_ns)
    return latencies
