"""Seeded orders: select the thread that makes the next recorded step.

A thread that reaches a recorded call, a file lock, or a store to a mapping is stopped there ("held"). When every other
thread sleeps, has ended or is held, the order chooses one held thread, in one of three ways:

    random, even seed   each step has a fixed priority, so a thread may wait long
    random, odd seed    all held threads are equally likely at each choice
    PCT                 each thread has a priority; depth - 1 change points lower one priority below all others

Random priorities depend only on seed, thread and step number, not on the order of arrival. Change points of PCT are
choices among several threads. At half of the change points the thread single-steps up to 511 instructions after its
step before it is held. So another thread can run between two memory accesses without a call between them.

The seed determines the next recorded step among held threads. Between recorded steps threads run in parallel without
control. So lock races, sleeps, timeouts, signals, external input and the order of thread creation can differ between
runs with one seed. If a thread computes for long while others are held, the order chooses without this thread and
counts the choice as hurried. The record has the actual order, so replays are exact.

Sources: Yuan et al., "Partial Order Aware Concurrency Sampling", CAV 2018: POS without its resets (even seeds), and the
random walk (odd seeds). PCT: sim/policies/pct.py.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Collection

from ....sim.choices import Stream
from ....sim.policies.pct import PCTPolicy
from .control import RANDOM
from .threads import TracedThread

TICK_SECONDS = 0.001
"""Interval between two checks whether all other threads sleep."""
_PATIENCE_CPU_SECONDS = 0.25
"""CPU time for which a thread may compute while others are held. On a busy machine that may take long."""
_PATIENCE_SECONDS = 5.0
"""The longest wait for a thread that gets no CPU time, as one in a slow system call."""
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_AT_REST = ("S", "Z", "X")  # thread states: asleep or ended
_STRETCH_CHANCE = 0.5
_STRETCH_DOUBLINGS = 9  # less than 2 ** 9 instructions, because each one costs a stop


class SeededOrder:
    """Selects the next thread. choices: the number of selections among several threads; hurried: the number of
    selections while another thread was running.
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
        self._waits_since: tuple[float, float] | None = None
        """Monotonic time at which held threads began to wait, and the CPU time of the other threads then."""

    def count_step(self, thread: TracedThread) -> None:
        """Hold a thread that has reached a step, or has executed its extra instructions."""
        self._steps[thread.number] += 1
        thread.instructions_left = 0

    def pick_thread(self, held: Collection[TracedThread], threads: Collection[TracedThread]) -> TracedThread | None:
        """Return the held thread to continue, or None while another thread may still reach a step."""
        assert held, "a pick needs a held thread"
        others = [thread for thread in threads if thread not in held]
        if not _are_all_asleep(others):
            now, used = time.monotonic(), sum(map(_cpu_seconds, others))
            since, used_before = self._waits_since = self._waits_since or (now, used)
            if now - since < _PATIENCE_SECONDS and used - used_before < _PATIENCE_CPU_SECONDS:
                return None
            self.hurried += 1
        self._waits_since = None
        self.choices += len(held) > 1
        chosen = max(held, key=self._priority) if self._pct is None else self._choose_by_pct(self._pct, held)
        self._turns += 1
        self._last = chosen
        return chosen

    def _choose_by_pct(self, pct: PCTPolicy, held: Collection[TracedThread]) -> TracedThread:
        """Choose by PCT, whose steps are the choices among several threads."""
        in_order = sorted(held, key=lambda thread: thread.number)  # choices must not depend on arrival order
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
    """Return whether all threads stayed asleep or ended during two checks."""
    before = [_context_switches(thread) for thread in threads]
    return None not in before and before == [_context_switches(thread) for thread in threads]


def _cpu_seconds(thread: TracedThread) -> float:
    try:
        with open(f"/proc/{thread.id}/stat", "rb") as stat:
            fields = stat.read().rpartition(b") ")[2].split()
    except OSError:  # the thread has ended
        return 0.0
    user_ticks, system_ticks = fields[11:13]  # fields 14 and 15 of the line: proc(5)
    return (int(user_ticks) + int(system_ticks)) / _TICKS_PER_SECOND


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
