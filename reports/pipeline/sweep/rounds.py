"""In which rounds a sweep gives out its blocks, and where the seeds of a guided one go.

A sweep that is not guided has one round. A guided one has as many seeds in all, and gives them out in several: the
first and half of each later one evenly over the scenarios, the other half to cells, as much to each as it scores by
what earlier rounds met there. So at worst a guided sweep is half a blind one.

What a round consists of depends on the request and on the rows of the rounds before it, and on nothing else: a sweep
that goes on after it was killed comes to the same rounds. Each scenario's seeds are used in order, whether blindly or
in a cell, and no seed twice: those of one that scores high go on beyond the last seed that was asked for, those of
others end before it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from .cells import DrawRegion, cells_of
from .rarity import RarityCounts
from .request import Block, SweepRequest
from .rows import Row

_STEERED_SEEDS_MIN = 10
"""Of one cell in one round, if it gets any: a block has to be worth its file."""
_STEERED_CELLS = 400
"""Into about how many portions the steered seeds of a round go, if there are many."""
_STEP = 0.6180339887498949
"""Between the rounds' starting points of the walk along the cells: the golden ratio leaves no cell out for long."""


class _Share(NamedTuple):
    """Seeds of a round that belong together."""

    scenario: str
    seeds: int
    disk: str | None
    policy: str | None


def rounds_of(
    request: SweepRequest, rows_in: Callable[[list[Block]], Iterable[Row]]
) -> Iterator[list[Block]]:
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
            shares += _steered(
                cells, seen.scores(cells), seeds - blind, request.block_seeds, number * _STEP % 1
            )
        blocks = list(_blocks(request, shares, used))
        yield blocks
        if number + 1 < request.rounds:
            seen.add(rows_in(blocks))


def _part(total: int, number: int, parts: int) -> int:
    """Return how many of total fall to one of so many parts."""
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
