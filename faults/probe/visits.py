"""Visits: selects and orders crash points, and calls for faults, so that few of them cover much.

    pass        crash points
    first       the first one, the last one, and the first of each kind of step
    second      the middle point of each kind of step; of the promises, and of the first steps of each kind and file,
                the middle and the quarters
    each next   points between those of earlier passes: of promises and first steps four times as many, of each
                kind of step twice as many

So a probe that ends early has covered all parts of the record and all kinds of steps evenly. Promises come first,
because only a crash after a promise can break it. A pass is one replay, which is cheap: 30,000 crash points take half a
second.

Calls for faults are ordered so that few runs reach many files and code locations:

files in turn, by first appearance
code locations of one file: each once (the system call, and its stack if stacks are recorded)
other calls of one file: the middle one of the run, then the middle of each half, of each quarter, ...
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest

from .record import ACKNOWLEDGE, ProgramRecord
from .replay import Point
from .story import file_names, named
from .tracing.control import MatchedCall

STOP_AT_FIRST = "--stop-at-first"
"""Reason of an end after the first breach."""
_LEVELS_OF_PROMISES = 2


@dataclass(frozen=True, slots=True)
class VisitPlan:
    """The crash points of a probe. Default: every point of a record, in order."""

    points_max: int | None = None
    """Maximum of crash points per record; None: all."""
    is_even: bool = False
    """Whether points are visited in passes over the whole record."""
    stops_at_first: bool = False
    """Whether the first breach ends the probe."""
    known: frozenset[str] = frozenset()
    """Signatures of breaches that do not end a probe with `stops_at_first`."""

    def __post_init__(self) -> None:
        assert self.is_even or self.points_max is None, "a sample is even"

    def passes(self, record: ProgramRecord, points: Sequence[Point]) -> Iterator[list[Point]]:
        """Yield the points of each pass, in the order of the record. points: all points of the record, in this
        order.
        """
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
    if not points:  # a rerun with a fault at its last call has no points
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
    """Yield the middle of a list, then the middle of each half, and so on, each item once."""
    parts = [(0, len(numbers))] if numbers else []
    while parts:
        middles = [(first + end) // 2 for first, end in parts]
        yield [numbers[middle] for middle in middles]
        halves = (((first, middle), (middle + 1, end)) for (first, end), middle in zip(parts, middles, strict=True))
        parts = [(first, end) for first, end in chain.from_iterable(halves) if first < end]


def _spread_sample(numbers: Sequence[int], count: int) -> list[int]:
    """Return at most `count` of the numbers, evenly spaced."""
    if len(numbers) <= count:
        return list(numbers)
    return [numbers[(2 * nth + 1) * len(numbers) // (2 * count)] for nth in range(count)]


@dataclass(slots=True)
class FaultCoverage:
    """The calls to which one kind of fault applies, and the calls at which it was injected."""

    calls: Sequence[MatchedCall]
    reached: list[MatchedCall] = field(default_factory=list)

    @property
    def order(self) -> list[int]:
        """Return the indexes of all calls, in the order of injection."""
        of_file: dict[str, list[int]] = {}
        for number, call in enumerate(self.calls):
            of_file.setdefault(call.path, []).append(number)
        rounds = zip_longest(*(self._order_in_file(numbers) for numbers in of_file.values()))
        found = [number for number in chain.from_iterable(rounds) if number is not None]
        assert len(found) == len(self.calls), (len(found), len(self.calls))
        return found

    def _order_in_file(self, numbers: Sequence[int]) -> list[int]:
        firsts: dict[tuple[str, int], int] = {}
        for number in numbers:
            firsts.setdefault((self.calls[number].call, self.calls[number].stack), number)
        places = set(firsts.values())
        return [
            *firsts.values(),
            *chain.from_iterable(_bisection_passes([number for number in numbers if number not in places])),
        ]

    @property
    def is_partial(self) -> bool:
        """Return whether calls were omitted, by the limit or because a run has no record."""
        return len(self.reached) < len(self.calls)

    @property
    def files(self) -> list[str]:
        """Return the files that faults can reach, by first appearance."""
        return _file_names(self.calls)

    @property
    def missed_files(self) -> list[str]:
        """Return the files that no fault has reached."""
        reached = set(_file_names(self.reached))
        return [name for name in self.files if name not in reached]


def _file_names(calls: Sequence[MatchedCall]) -> list[str]:
    return list(dict.fromkeys(named(call.path) if call.path else "a file without a name" for call in calls))
