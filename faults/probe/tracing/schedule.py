"""Seeded orders: decide which thread of a program continues with its recorded step.

Each thread that reaches a recorded call, or a store through a map, is held there. When every other thread sleeps, has
ended or is held as well, one of the held threads continues: the one whose step has the highest priority. Priorities are
drawn from the seed, the thread and the number of its step, so they do not depend on arrival order. With an even seed a
step keeps its priority, so a thread may wait for long. With an odd seed priorities are drawn again for each turn, so
all held threads are equally likely.

The seed determines which recorded step comes next whenever several threads are held. Between these steps threads run
freely and in parallel. Lock races, sleeps, timeouts, signals, external input and the order of thread creation can
therefore differ with the same seed. A thread that computes for long while others are held is not waited for; such
choices are counted as hurried. The record of a run has the actual order, and is replayed exactly.

Source: Yuan et al., "Partial Order Aware Concurrency Sampling", CAV 2018, for both: POS without its resets, and the
random walk.
"""

import random
import time
from collections import Counter
from collections.abc import Collection

from .threads import TracedThread

TICK_SECONDS = 0.001
"""Interval of the check whether all other threads sleep."""
_PATIENCE_SECONDS = 0.25
_AT_REST = ("S", "Z", "X")  # states of threads that will not reach a step by themselves: asleep, or ended


class SeededOrder:
    """Picks the next thread. choices: number of picks among several; hurried: picks while another thread was
    running.
    """

    def __init__(self, seed: int) -> None:
        self.choices = 0
        self.hurried = 0
        self._seed = seed
        self._steps: Counter[int] = Counter()
        """Number of steps of each thread, by its number in the order of appearance."""
        self._turns = 0
        self._asked_first = 0.0  # since when a thread waits for a pick, on the monotonic clock; 0: no thread waits

    def arrived(self, thread: TracedThread) -> None:
        """Count a step of a thread that is now held."""
        self._steps[thread.number] += 1

    def pick(self, held: Collection[TracedThread], threads: Collection[TracedThread]) -> TracedThread | None:
        """Return the held thread that continues, or None while another thread may still arrive."""
        assert held, "a pick needs a held thread"
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
    """Return whether all threads rest, and none has woken another one during the check."""
    before = [_switches(thread) for thread in threads]
    return None not in before and before == [_switches(thread) for thread in threads]


def _switches(thread: TracedThread) -> tuple[bytes, ...] | None:
    """Return the context switch counts of a resting thread, None if it is running."""
    try:
        with open(f"/proc/{thread.id}/status", "rb") as status:
            lines = status.read().splitlines()
    except OSError:
        return ()
    facts = dict(line.split(b":", 1) for line in lines)
    if facts[b"State"].strip()[:1].decode() not in _AT_REST:
        return None
    return facts[b"voluntary_ctxt_switches"], facts[b"nonvoluntary_ctxt_switches"]
