"""The request of a sweep, the blocks of seeds that it is cut into, and the rounds in which these are given out.

A sweep that is not guided has one round. A guided one has as many seeds in all, and gives them out in several: the
first and half of each later one evenly over the scenarios, the other half to cells, as much to each as it scores by
what earlier rounds met there. So at worst a guided sweep is half a blind one.

What a round consists of depends on the request and on the rows of the rounds before it, and on nothing else: a sweep
that goes on after it was killed comes to the same rounds. Each scenario's seeds are used in order, whether blindly or
in a cell, and no seed twice: those of one that scores high go on beyond the last seed that was asked for, those of
others end before it.

A cell is a scenario on one of its disks under one of its policies. It scores by the rare marks that its seeds have hit
so far, and the failures they have met. A mark that n seeds have hit is worth 1/n² a hit, and so is a kind of failure.
With less than a square, the many common marks, which are hit everywhere, would level out the few rare ones. So a
failure draws seeds to where it was, and less so the better it is known. Faults do not count: they are what the harness
does, and many of them happen on one disk only, on which little is promised. Marks are where that got the store. Only
whole numbers, sums and divisions are used, which all machines do alike, and in a fixed order.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from .... import __version__
from ....scenarios.campaigns.runner import Batch
from ....scenarios.claims.catalogue import SCENARIOS
from ..spark.engine import code_here
from .rows import Row

BLOCK_SEEDS = 500
"""Seeds of one block: some seconds of work, so that handing it out costs less than 2 %."""
FORMAT = "tornlog-sweep/1"
_STEERED_SEEDS_MIN = 10
"""Of one cell in one round, if it gets any: a block has to be worth its file."""
_STEERED_CELLS = 400
"""Into about how many portions the steered seeds of a round go, if there are many."""
_STEP = 0.6180339887498949
"""Between the rounds' starting points of the walk along the cells: the golden ratio leaves no cell out for long."""
COLUMNS = ["scenario", "disk", "policy", "signature", "marks"]
"""What is looked at of a row."""
_TRUST_SEEDS = 20
"""How many seeds a cell needs to count as much as all of its scenario: what a handful gives is noise."""


class SweepFileError(Exception):
    """The description of a sweep that this version cannot go on with."""


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """Seeds [first, last) of each of some scenarios, on one disk or under one policy only, or with one bug put in."""

    scenarios: tuple[str, ...]
    first: int
    last: int
    disk: str | None = None
    policy: str | None = None
    mutant: str | None = None
    block_seeds: int = BLOCK_SEEDS
    rounds: int | None = None
    """Of a guided sweep, which gives out as many seeds, but not the same ones; None for a plain one."""

    @property
    def seeds(self) -> int:
        """Return how many seeds there are in all."""
        return len(self.scenarios) * (self.last - self.first)

    def blocks(self) -> Iterator["Block"]:
        """Yield all blocks of a sweep without rounds, scenarios taking turns."""
        for first in range(self.first, self.last, self.block_seeds):
            count = min(self.block_seeds, self.last - first)
            for name in self.scenarios:
                yield Block(name, first, count, self.disk, self.policy, self.mutant)


@dataclass(frozen=True, slots=True)
class Begun:
    """What a sweep was asked for when it was begun, and the code that began it, as `code_here` names it."""

    request: SweepRequest
    code: str = field(default_factory=code_here)

    def to_json(self) -> str:
        """Return the description that is kept beside the rows."""
        options = asdict(self.request)
        if self.request.rounds is None:
            del options["rounds"]
        return json.dumps({"format": FORMAT, "tornlog": __version__, "code": self.code, **options}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Begun":
        """Read a description. SweepFileError if it is none, or if its rows are another version's."""
        try:
            found: dict[str, Any] = json.loads(text)
            if found.pop("format") != FORMAT:
                raise SweepFileError(f"format: expected {FORMAT}")
            version, code = found.pop("tornlog"), found.pop("code", "code that nobody noted")
            request = SweepRequest(**{**found, "scenarios": tuple(found["scenarios"])})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SweepFileError(f"not the description of a sweep: {error}") from error
        if version != __version__:
            raise SweepFileError(f"tornlog: the sweep was begun by {version}, this is {__version__}")
        return cls(request, code)

    def require_same(self, request: SweepRequest) -> None:
        """Raise SweepFileError unless a request is this one, and the code here that which began it.

        Rows of the same seeds are equal only where the code is, and a version does not prove that.
        """
        if self.request != request:
            raise SweepFileError("it holds a sweep of other seeds or with other options")
        here = code_here()
        if self.code != here:
            raise SweepFileError(
                f"the sweep was begun by {self.code}, this is {here}: the same seeds may be other runs now, and their"
                " rows would be mixed. Begin a new one elsewhere"
            )


@dataclass(frozen=True, slots=True)
class Block:
    """Some seeds of one scenario: one task, and one file of rows, whose name is the block's."""

    scenario: str
    first: int
    count: int
    disk: str | None = None
    policy: str | None = None
    mutant: str | None = None

    @property
    def file_name(self) -> str:
        """Return the name of its file of rows."""
        return f"{self.scenario}-{self.first:010d}-{self.count}.parquet"

    def batch(self) -> Batch:
        """Return what the runner takes."""
        scenario = SCENARIOS[self.scenario].narrowed(disk=self.disk, policy=self.policy)
        return Batch(scenario, self.first, self.count, self.mutant)


class DrawRegion(NamedTuple):
    """A region of what seeds draw."""

    scenario: str
    disk: str
    policy: str


def cells_of(request: SweepRequest) -> list[DrawRegion]:
    """Return every cell that the seeds of a request may fall into, those of a scenario side by side."""
    cells = []
    for name in request.scenarios:
        ranges = SCENARIOS[name].narrowed(disk=request.disk, policy=request.policy).ranges
        cells += [
            DrawRegion(name, disk, policy)
            for disk in dict.fromkeys(ranges["disk"])
            for policy in dict.fromkeys(ranges["policy"])
        ]
    return cells


class RarityCounts:
    """What the seeds of earlier rounds have met, by cell."""

    def __init__(self) -> None:
        self._seeds: Counter[DrawRegion] = Counter()
        self._met: defaultdict[DrawRegion, Counter[str]] = defaultdict(Counter)

    def add(self, rows: Iterable[Row]) -> None:
        """Take note of rows; those whose process did not survive say nothing."""
        for row in rows:
            if row["disk"] is not None:
                cell = DrawRegion(row["scenario"], row["disk"], row["policy"])
                self._seeds[cell] += 1
                self._met[cell].update(_met(row))

    def scores(self, cells: Sequence[DrawRegion]) -> list[float]:
        """Return what a seed of each cell may bring; the same for all as long as nothing has been met."""
        met: Counter[str] = Counter()
        for counts in self._met.values():
            met.update(counts)
        worth = {name: 1 / count**2 for name, count in met.items()}
        gains: dict[DrawRegion, float] = {}
        gains_of_scenario: defaultdict[str, float] = defaultdict(float)
        seeds_of_scenario: Counter[str] = Counter()
        for cell in sorted(self._seeds):
            gains[cell] = sum(count * worth[name] for name, count in sorted(self._met[cell].items()))
            gains_of_scenario[cell.scenario] += gains[cell]
            seeds_of_scenario[cell.scenario] += self._seeds[cell]

        def score(cell: DrawRegion) -> float:
            expected = gains_of_scenario[cell.scenario] / max(1, seeds_of_scenario[cell.scenario])
            gained = gains.get(cell, 0.0) + _TRUST_SEEDS * expected
            return gained / (self._seeds[cell] + _TRUST_SEEDS)

        found = [score(cell) for cell in cells]
        return found if any(found) else [1.0] * len(cells)


class _Share(NamedTuple):
    """Seeds of a round that belong together."""

    scenario: str
    seeds: int
    disk: str | None
    policy: str | None


def rounds_of(request: SweepRequest, rows_in: Callable[[list[Block]], Iterable[Row]]) -> Iterator[list[Block]]:
    """Yield the blocks of each round. rows_in returns the rows of blocks that were yielded, once they are done."""
    if request.rounds is None:
        yield list(request.blocks())
        return
    cells, seen, used = cells_of(request), RarityCounts(), Counter[str]()
    for number in range(request.rounds):
        seeds = _part(request.seeds, number, request.rounds)
        blind = seeds if number == 0 else seeds - seeds // 2
        shares = _blind(request, blind)
        if blind < seeds:
            shares += _steered(cells, seen.scores(cells), seeds - blind, request.block_seeds, number * _STEP % 1)
        blocks = list(_blocks(request, shares, used))
        yield blocks
        if number + 1 < request.rounds:
            seen.add(rows_in(blocks))


def _part(total: int, number: int, parts: int) -> int:
    return total * (number + 1) // parts - total * number // parts


def _blind(request: SweepRequest, seeds: int) -> list[_Share]:
    names = request.scenarios
    return [
        _Share(name, _part(seeds, number, len(names)), request.disk, request.policy)
        for number, name in enumerate(names)
    ]


def _steered(
    cells: Sequence[DrawRegion], scores: Sequence[float], seeds: int, seeds_max: int, start: float
) -> list[_Share]:
    """Return seeds for cells, as many for each as it scores of all: portions at even distances along all scores."""
    portion = min(max(_STEERED_SEEDS_MIN, seeds // _STEERED_CELLS), seeds_max)
    portions = -(-seeds // portion)
    distance = sum(scores) / portions
    shares = []
    passed, given = 0.0, 0
    for cell, score in zip(cells, scores, strict=True):
        passed += score
        reached = portions if cell == cells[-1] else min(portions, int(passed / distance + start))
        if reached > given:
            size = min(reached * portion, seeds) - given * portion
            shares.append(_Share(cell.scenario, size, cell.disk, cell.policy))
            given = reached
    return shares


def _blocks(request: SweepRequest, shares: Iterable[_Share], used: Counter[str]) -> Iterator[Block]:
    """Cut shares into blocks; used: how many seeds of each scenario are given out, kept up to date."""
    for share in shares:
        for start in range(0, share.seeds, request.block_seeds):
            count = min(request.block_seeds, share.seeds - start)
            first = request.first + used[share.scenario]
            used[share.scenario] += count
            yield Block(share.scenario, first, count, share.disk, share.policy, request.mutant)


def _met(row: Row) -> set[str]:
    names = {f"mark {name}" for name, times in row["marks"] if times}
    return names if row["signature"] is None else {*names, f"failure {row['signature']}"}
