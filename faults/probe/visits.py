"""Visits: selects the crash points of a record that a probe visits, and their order.

    pass        crash points
    first       the first one, the last one, and the first of each kind of step
    second      of the promises, and of the first steps of each kind for each file: the middle, then the quarters;
                of each kind of step: the middle
    each next   between those visited: of promises and first steps four times as many, of each kind twice as many

So a probe that ends early has covered all parts of the record and all kinds of steps to the same extent. Promises come
first because a lost promise is visible only after it was made. A pass is one replay, which is cheap: 30,000 crash
points take half a second.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from .record import ACKNOWLEDGE, ProgramRecord
from .replay import Point
from .story import file_names

STOP_AT_FIRST = "--stop-at-first"
"""The reason for the end of a probe that has found its first breach."""
_LEVELS_OF_PROMISES = 2


@dataclass(frozen=True, slots=True)
class VisitPlan:
    """The extent of a probe. The default is every crash point of a record in order."""

    points_max: int | None = None
    """Maximum of crash points of one record; None: all."""
    is_even: bool = False
    """Whether points are visited in passes over the whole record."""
    stops_at_first: bool = False
    """Whether the first breach ends the probe."""
    known: frozenset[str] = frozenset()
    """Signatures of breaches that do not end the probe."""

    def __post_init__(self) -> None:
        assert self.is_even or self.points_max is None, "a sample is even"

    def passes(self, record: ProgramRecord, points: Sequence[Point]) -> Iterator[list[Point]]:
        """Yield the points to visit, each pass in the order of the record. points: those of the record, in order."""
        left = len(points) if self.points_max is None else min(self.points_max, len(points))
        for numbers in _even_passes(record, points):
            chosen = _spread_sample(numbers, left)
            left -= len(chosen)
            yield [points[number] for number in chosen]
            if not left:
                return
        assert not left, "the passes contain every point"


EVERY_POINT = VisitPlan()
EVEN = VisitPlan(is_even=True)
"""Every crash point, in passes over the whole record."""


def _even_passes(record: ProgramRecord, points: Sequence[Point]) -> Iterator[list[int]]:
    """Yield the numbers of all points in passes."""
    if not points:  # a fault at the last call of a rerun leaves none
        return
    names = file_names(record)
    of_kind: dict[str, list[int]] = {}
    first_of_file: dict[tuple[str, str], int] = {}
    for number, point in enumerate(points):
        if point.step >= 0:
            step = record.steps[point.step]
            of_kind.setdefault(step.kind, []).append(number)
            if step.kind != ACKNOWLEDGE:
                first_of_file.setdefault((step.kind, step.path or names.get(step.file, "")), number)
    chosen = {0, len(points) - 1, *(numbers[0] for numbers in of_kind.values())}
    promises = of_kind.pop(ACKNOWLEDGE, [])
    fast = [_bisection_passes(promises), _bisection_passes(list(first_of_file.values()))]
    slow = [_bisection_passes(numbers) for numbers in of_kind.values()]
    visited: set[int] = set()
    while chosen:
        new = sorted(chosen - visited)
        visited.update(new)
        if new:
            yield new
        chosen = set(chain.from_iterable(next(levels, ()) for levels in fast * _LEVELS_OF_PROMISES + slow))


def _bisection_passes(numbers: Sequence[int]) -> Iterator[list[int]]:
    """Yield the middle of a list, then the middles of its halves, and so on, until each item was yielded once."""
    parts = [(0, len(numbers))] if numbers else []
    while parts:
        middles = [(first + end) // 2 for first, end in parts]
        yield [numbers[middle] for middle in middles]
        halves = (((first, middle), (middle + 1, end)) for (first, end), middle in zip(parts, middles, strict=True))
        parts = [(first, end) for first, end in chain.from_iterable(halves) if first < end]


def _spread_sample(numbers: Sequence[int], count: int) -> list[int]:
    """Return at most `count` of the numbers, at equal distances."""
    if len(numbers) <= count:
        return list(numbers)
    return [numbers[(2 * nth + 1) * len(numbers) // (2 * count)] for nth in range(count)]
