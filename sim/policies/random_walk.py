"""Random walk and round robin, and a policy drawn from a seed."""

from collections.abc import Sequence
from functools import lru_cache
from math import log

from ..choices import Stream
from ..machine import SimTask
from . import Policy
from .pct import PCTPolicy
from .pos import POSPolicy

_QUANTILES = 4096  # size of the table, which is faster than a logarithm per quantum
_TASK_NUMBERS_MAX = 1 << 60  # greater than the number of tasks in any run
_MEAN_QUANTA = (1, 3, 10, 40)
_DEPTHS = (2, 3, 4)
_HORIZON_DIGITS = (1.5, 4.0)  # log10 of 30 and 10,000 points: a wide range, because the length of the run is unknown


class RandomWalk:
    """Chooses uniformly after each quantum. Quanta have a geometric distribution with the mean mean_quantum."""

    name = "random-walk"
    interrupts_on_wake = False

    def __init__(self, stream: Stream, mean_quantum: int) -> None:
        if mean_quantum < 1:
            raise ValueError(f"mean_quantum: expected at least 1, found {mean_quantum}")
        self._draw = stream.raw_random
        self._quanta = _quantum_length_quantiles(mean_quantum)

    def choose_task(self, runnable: Sequence[SimTask], current: SimTask | None, label: str, step: int) -> int:
        return int(self._draw() * len(runnable))

    def quantum(self, chosen: SimTask, step: int) -> int:
        """Draw the remaining points of a quantum, on average mean_quantum - 1."""
        return self._quanta[int(self._draw() * _QUANTILES)]


@lru_cache(maxsize=64)
def _quantum_length_quantiles(mean: int) -> tuple[int, ...]:
    """Return quantiles of a geometric distribution, at the middle of equal parts, by inverse transform.

    Their mean is mean - 1, because the last point of a quantum calls the policy and does not count.
    """
    if mean == 1:
        return (0,) * _QUANTILES  # otherwise log(0) would fail below
    assert mean > 1, mean
    scale = 1.0 / log(1.0 - 1.0 / mean)
    return tuple(int(log(1.0 - (part + 0.5) / _QUANTILES) * scale) for part in range(_QUANTILES))


class RoundRobin:
    """Each task runs for `quantum` points, in the order of creation, without randomness.

    This is the simplest schedule with preemption. A failure under it occurs with every seed.
    """

    name = "round-robin"
    interrupts_on_wake = False

    def __init__(self, quantum: int) -> None:
        if quantum < 1:
            raise ValueError(f"quantum: expected at least 1, found {quantum}")
        self._free_points = quantum - 1

    def choose_task(self, runnable: Sequence[SimTask], current: SimTask | None, label: str, step: int) -> int:
        after = 0 if current is None else current.number + 1
        # Task numbers lower than the current task's come last, because the modulus exceeds every number.
        return min(range(len(runnable)), key=lambda index: (runnable[index].number - after) % _TASK_NUMBERS_MAX)

    def quantum(self, chosen: SimTask, step: int) -> int:
        return self._free_points


def draw_policy(stream: Stream) -> Policy:
    """Draw a policy and its parameters, because no single policy finds every order of events."""
    kind = int(stream.raw_random() * 4)  # with raw_random, because the record contains the schedule instead
    if kind == 0:
        return POSPolicy(stream)
    if kind == 1:
        low, high = _HORIZON_DIGITS
        horizon_steps = round(10 ** (low + (high - low) * stream.raw_random()))
        return PCTPolicy(stream, _DEPTHS[int(stream.raw_random() * len(_DEPTHS))], horizon_steps)
    return RandomWalk(stream, _MEAN_QUANTA[int(stream.raw_random() * len(_MEAN_QUANTA))])
