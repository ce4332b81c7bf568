"""Random choices of a run that Hypothesis makes, shrinks and stores.

The value 0 is the harmless outcome of a choice, and Hypothesis shrinks towards 0. So in a shrunk failure only the
choices that cause the failure differ from 0.
"""

from collections.abc import Callable
from functools import lru_cache
from math import ceil
from typing import Self

from hypothesis import strategies as st

from ....sim.choices import Choices, ReplayedStream, Stream
from ....sim.policies.replay import DeviatingPolicy

_CHANCES = 1024
_POINTS_MAX, _OTHERS_MAX, _DEVIATIONS_MAX = 60, 3, 8
_BOLDEST, _SEEDS = 4, 1 << 16

DrawBelow = Callable[[int], int]
"""Returns a random number x, 0 <= x < options."""
Surprise = tuple[int, int]
"""How many of four values are unusual on average, and a seed for positions and values of the unusual ones."""
NONE: Surprise = (0, 0)


class DrawnStream(ReplayedStream):
    """A stream of choices with values from a function."""

    __slots__ = ("_draw",)

    def __init__(self, name: str, draw: DrawBelow) -> None:
        super().__init__(name, ())
        self._draw = draw

    def chance(self, probability: float, label: str) -> bool:
        """Return True with about the given probability. Probabilities 0 and 1 need no random value."""
        if not 0.0 < probability < 1.0:
            return probability >= 1.0
        least = min(_CHANCES - 1, ceil(_CHANCES * (1.0 - probability)))
        value = self._draw(_CHANCES) >= least
        self._draws.append((self._subject + label, 2, int(value)))
        return value

    def _share_record_with(self, other: Self) -> None:
        super()._share_record_with(other)
        other._draw = self._draw

    def _take_recorded_value(self, label: str, options: int) -> int:
        value = self._draw(options)
        self._draws.append((self._subject + label, options, value))
        return value


class DrawnChoices(Choices):
    """The streams of one run, with values from one function. `decisions()` returns the unusual values for a replay."""

    def __init__(self, draw: DrawBelow) -> None:
        super().__init__("")
        self._draw = draw

    def __repr__(self) -> str:
        return "choices()"

    def stream(self, name: str) -> Stream:
        if name not in self._streams:
            self._streams[name] = DrawnStream(name, self._draw)
        return self._streams[name]


@st.composite
def choices(draw: st.DrawFn) -> Choices:
    """Return choices that Hypothesis makes while the test runs, for code with a `sim.choices.Choices` parameter."""
    return DrawnChoices(lambda options: draw(_below(options)))


class UnusualDraws:
    """Returns 0, or unusual values that the step's surprise determines.

    Hypothesis stores two numbers for all values of a step. Hypothesis can drop only a few values at once from a test
    case, so it could not drop a step with dozens of values.
    """

    def __init__(self) -> None:
        self.set_surprise(NONE)

    def set_surprise(self, surprise: Surprise) -> None:
        self._boldness, seed = surprise
        self._random = Choices(str(seed)).stream("surprises").raw_random

    def __call__(self, options: int) -> int:
        if self._random() * _BOLDEST >= self._boldness:
            return 0
        return int(self._random() * options)


def surprises() -> st.SearchStrategy[Surprise]:
    """Return surprises: unusual values for one step of a run. The simplest surprise has no unusual value."""
    return st.tuples(st.integers(0, _BOLDEST), st.integers(0, _SEEDS - 1))


def schedules() -> st.SearchStrategy[DeviatingPolicy]:
    """Return schedules: each task runs until it blocks, with up to eight deviations."""
    deviation = st.tuples(st.integers(0, _POINTS_MAX), st.integers(0, _OTHERS_MAX))
    return st.lists(deviation, max_size=_DEVIATIONS_MAX).map(DeviatingPolicy)


@lru_cache(maxsize=256)
def _below(options: int) -> st.SearchStrategy[int]:
    return st.integers(0, options - 1)
