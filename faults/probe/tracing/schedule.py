"""Seeded orders: decide which thread of a program makes the next recorded step.

Each thread that reaches a recorded call, a lock of a file, or a store through a map is stopped there ("held"). When
every other thread sleeps, has ended or is held, one held thread is chosen. There are three kinds of choice:

    random, even seed   each step has a priority, which it keeps, so a thread may wait long
    random, odd seed    all held threads are equally likely at each choice
    PCT                 each thread has a priority, which is lowered below all others at depth - 1 change points

Random priorities are computed from the seed, the thread and the number of its step, so they do not depend on the order
of arrival. A change point of PCT is one of the choices among several threads. In half of the change points the thread
executes up to 511 instructions after its step, one by one, before it is held. So another thread can run between two
accesses to memory that have no call between them.

The seed determines the next recorded step whenever several threads are held. Between these steps threads run in
parallel without control. So lock races, sleeps, timeouts, signals, external input and the order of thread creation can
differ between runs with one seed. If a thread computes for long while others are held, the choice is made without it
and counted as hurried. The record has the actual order, and replays are exact.

Sources: Yuan et al., "Partial Order Aware Concurrency Sampling", CAV 2018: POS without its resets (even seeds), and the
random walk (odd seeds). PCT: sim/policies/pct.py.
"""

import random
import time
from collections import Counter
from collections.abc import Collection

from ....sim.choices import Stream
from ....sim.policies.pct import PCTPolicy
from .control import RANDOM
from .threads import TracedThread

TICK_SECONDS = 0.001
"""How often to check whether all other threads sleep."""
_PATIENCE_SECONDS = 0.25
_AT_REST = ("S", "Z", "X")  # states of threads that will not reach a step on their own: asleep or ended
_STRETCH_CHANCE = 0.5
_STRETCH_DOUBLINGS = 9  # a stretch has less than 2 ** 9 instructions, because each of them is a stop


class SeededOrder:
    """Selects the next thread. choices: number of selections among several threads; hurried: of these, while another
    was running.
    """

    def __init__(self, seed: int, depth: int = RANDOM, horizon_steps: int = 1) -> None:
        self.choices = 0
        self.hurried = 0
        self._seed = seed
        stream = Stream("order", random.Random(f"{seed}/pct"))
        self._draw = stream.raw_random
        self._pct = None if depth == RANDOM else PCTPolicy(stream, depth, horizon_steps)
        self._last: TracedThread | None = None
        self._steps: Counter[int] = Counter()
        """Number of steps of each thread. Threads are numbered in the order of appearance."""
        self._turns = 0
        self._asked_first = 0.0  # monotonic time since which a held thread waits for a selection; 0: no thread waits

    def count_step(self, thread: TracedThread) -> None:
        """Count a step of a thread, or the end of a stretch of instructions. The thread is now held."""
        self._steps[thread.number] += 1
        thread.instructions_left = 0

    def pick_thread(self, held: Collection[TracedThread], threads: Collection[TracedThread]) -> TracedThread | None:
        """Return the held thread that continues, or None while another thread may still reach a step."""
        assert held, "a pick needs a held thread"
        now = time.monotonic()
        self._asked_first = self._asked_first or now
        if not _are_all_asleep([thread for thread in threads if thread not in held]):
            if now - self._asked_first < _PATIENCE_SECONDS:
                return None
            self.hurried += 1
        self._asked_first = 0.0
        self.choices += len(held) > 1
        chosen = max(held, key=self._priority) if self._pct is None else self._choose_by_pct(self._pct, held)
        self._turns += 1
        self._last = chosen
        return chosen

    def _choose_by_pct(self, pct: PCTPolicy, held: Collection[TracedThread]) -> TracedThread:
        """Choose by PCT. Its steps are the choices among several threads."""
        in_order = sorted(held, key=lambda thread: thread.number)  # the draws must not depend on the order of arrival
        if len(in_order) == 1:
            return in_order[0]
        chosen = in_order[pct.choose_task(in_order, self._last, "", self.choices)]
        is_before_change = pct.quantum(chosen, self.choices) == 0
        if is_before_change and self._draw() < _STRETCH_CHANCE:
            chosen.instructions_left = int(2 ** (self._draw() * _STRETCH_DOUBLINGS))
        return chosen

    def _priority(self, thread: TracedThread) -> float:
        turn = self._turns if self._seed % 2 else 0
        return random.Random(f"{self._seed}/{thread.number}/{self._steps[thread.number]}/{turn}").random()


def _are_all_asleep(threads: Collection[TracedThread]) -> bool:
    """Return whether all threads were asleep or ended during the whole check."""
    before = [_context_switches(thread) for thread in threads]
    return None not in before and before == [_context_switches(thread) for thread in threads]


def _context_switches(thread: TracedThread) -> tuple[bytes, ...] | None:
    """Return the context switch counts of a thread that is asleep or has ended, or None if it is running."""
    try:
        with open(f"/proc/{thread.id}/status", "rb") as status:
            lines = status.read().splitlines()
    except OSError:
        return ()
    facts = dict(line.split(b":", 1) for line in lines)
    if facts[b"State"].strip()[:1].decode() not in _AT_REST:
        return None
    return facts[b"voluntary_ctxt_switches"], facts[b"nonvoluntary_ctxt_switches"]
