"""Seeded orders: which thread of a program goes on first with its next recorded step.

All threads that come to a recorded call, or to a store through a map, are held there. When every other one sleeps, is
gone, or is held as well, one of them goes on: the one whose step has the highest priority. A priority is drawn from the
seed, by the thread and by how many steps it has come to before, so it does not depend on who comes first. With an even
seed a step keeps its priority, so a thread may be passed over for long; with an odd one it is drawn anew for each turn,
so all who are held are equally likely.

What follows from the seed, and what does not. Which recorded step comes next follows from it, whenever more than one is
held. What threads do in between is their own: they run freely, several at once, so a race for a lock, a sleep, a
time-out, a signal, what comes from outside and the order of births can come out otherwise with the same seed. A thread
that computes on for long while others are held is not waited for; such choices are counted, as hurried. The record of
a run has the order that there was, and is replayed exactly.

Source: Yuan et al., "Partial Order Aware Concurrency Sampling", CAV 2018, for both: POS without its resets, and the
random walk.
"""

import random
import time
from collections import Counter
from collections.abc import Collection

from .threads import TracedThread

TICK_SECONDS = 0.001
"""How often to look whether all others sleep."""
_PATIENCE_SECONDS = 0.25
_AT_REST = ("S", "Z", "X")
"""States in which a thread comes to nothing by itself: asleep, or gone."""


class SeededOrder:
    """Picks whose turn it is. choices: how often there were several; hurried: how often another one still ran."""

    def __init__(self, seed: int) -> None:
        self.choices = 0
        self.hurried = 0
        self._seed = seed
        self._steps: Counter[int] = Counter()
        """How many steps each thread has come to, by its number in the order of appearance."""
        self._turns = 0
        self._asked_first = 0.0
        """Since when there is somebody to pick, by the monotonic clock; 0: nobody."""

    def arrived(self, thread: TracedThread) -> None:
        """Know that a thread has come to a step, and is held."""
        self._steps[thread.number] += 1

    def pick(self, held: Collection[TracedThread], threads: Collection[TracedThread]) -> TracedThread | None:
        """Return who of those who are held goes on; None while another thread may come to be held, too."""
        now = time.monotonic()
        self._asked_first = self._asked_first or now
        if not _all_rest([thread for thread in threads if thread not in held]):
            if now - self._asked_first < _PATIENCE_SECONDS:
                return None
            self.hurried += 1
        self._asked_first = 0.0
        self.choices += len(held) > 1
        chosen = max(held, key=self._priority)
        self._turns += 1
        return chosen

    def _priority(self, thread: TracedThread) -> float:
        turn = self._turns if self._seed % 2 else 0
        return random.Random(f"{self._seed}/{thread.number}/{self._steps[thread.number]}/{turn}").random()


def _all_rest(threads: Collection[TracedThread]) -> bool:
    """Return whether all threads rest, and none has woken another one before it came to rest."""
    before = [_switches(thread) for thread in threads]
    return None not in before and before == [_switches(thread) for thread in threads]


def _switches(thread: TracedThread) -> tuple[bytes, ...] | None:
    """Return how often a thread that rests has come to rest; None if it does not."""
    try:
        with open(f"/proc/{thread.id}/status", "rb") as status:
            lines = status.read().splitlines()
    except OSError:
        return ()
    facts = dict(line.split(b":", 1) for line in lines)
    if facts[b"State"].strip()[:1].decode() not in _AT_REST:
        return None
    return facts[b"voluntary_ctxt_switches"], facts[b"nonvoluntary_ctxt_switches"]
