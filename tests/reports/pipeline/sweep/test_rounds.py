"""Which seeds a guided sweep runs, round by round."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from tornlog.reports.pipeline.sweep.request import Block, DrawRegion, SweepRequest, cells_of, rounds_of
from tornlog.scenarios.claims.catalogue import SCENARIOS

TWO = ("clean-stop-loses-nothing", "torn-records-are-dropped")


def guided(scenarios: tuple[str, ...] = TWO, first: int = 0, last: int = 100, **options: Any) -> SweepRequest:
    return SweepRequest(scenarios, first, last, rounds=options.pop("rounds", 5), **options)


def rare_on(disk: str) -> Any:
    """Return what stands for rows of blocks: those of the second scenario on one disk have a mark."""

    def rows_in(blocks: list[Block]) -> Iterable[dict[str, Any]]:
        for block in blocks:
            for seed in range(block.count):
                met = block.scenario == TWO[1] and (block.disk or ("xfs", disk)[seed % 2]) == disk
                yield {
                    "scenario": block.scenario,
                    "disk": block.disk or ("xfs", disk)[seed % 2],
                    "policy": block.policy or "pct",
                    "signature": None,
                    "marks": [("rare", 1)] if met else [],
                }

    return rows_in


def all_rounds(request: SweepRequest, disk: str = "btrfs") -> list[list[Block]]:
    return list(rounds_of(request, rare_on(disk)))


def test_a_sweep_without_rounds_is_one_round_of_all_its_blocks() -> None:
    request = SweepRequest(TWO, 3, 700)

    assert all_rounds(request) == [list(request.blocks())]


@pytest.mark.parametrize(
    "request_",
    [
        guided(),
        guided(first=1000, last=1007, rounds=3),
        guided(last=1, rounds=7),
        guided(last=3000, rounds=2, block_seeds=250),
        guided(tuple(SCENARIOS), last=61),
        guided(disk="xfs", policy="pos", mutant="ack-before-flush"),
    ],
)
def test_all_seeds_are_given_out_in_order_and_none_twice(request_: SweepRequest) -> None:
    rounds = all_rounds(request_)
    blocks = [block for round_ in rounds for block in round_]

    assert len(rounds) == request_.rounds
    assert sum(block.count for block in blocks) == request_.seeds
    assert len({block.file_name for block in blocks}) == len(blocks)
    assert {block.mutant for block in blocks} == {request_.mutant}
    assert all(0 < block.count <= request_.block_seeds for block in blocks)
    following = Counter(dict.fromkeys(request_.scenarios, request_.first))
    for block in blocks:
        assert block.first == following[block.scenario]
        following[block.scenario] += block.count


def test_the_first_round_and_half_of_each_later_one_are_even_and_the_rest_goes_where_it_was_rare() -> None:
    rounds = all_rounds(guided(last=2000, block_seeds=1000))
    assert Counter({block.scenario: block.count for block in rounds[0]}) == dict.fromkeys(TWO, 400)
    on_disks: Counter[str | None] = Counter()
    for blocks in rounds[1:]:
        blind = [block for block in blocks if block.disk is None]
        steered = [block for block in blocks if block.disk is not None]

        assert [(block.scenario, block.count) for block in blind] == [(name, 200) for name in TWO]
        assert sum(block.count for block in steered) == 400
        assert {block.scenario for block in steered} == {TWO[1]}
        for block in steered:
            on_disks[block.disk] += block.count
    assert on_disks.most_common(1)[0][0] == "btrfs"
    assert on_disks["btrfs"] > 400 > on_disks["xfs"], "of 1600 on four disks"


def test_a_round_depends_on_the_rows_before_it_and_on_nothing_else() -> None:
    request = guided(last=500)

    assert all_rounds(request) == all_rounds(request)
    assert all_rounds(request)[0] == all_rounds(request, "strict-posix")[0]
    assert all_rounds(request)[1] != all_rounds(request, "strict-posix")[1]


def test_cells_are_what_a_scenario_may_draw() -> None:
    cells = cells_of(SweepRequest(TWO, 0, 1))
    ranges = SCENARIOS[TWO[1]].ranges

    assert len(cells) == len(set(cells))
    of_second = {cell for cell in cells if cell.scenario == TWO[1]}
    assert of_second == {DrawRegion(TWO[1], disk, policy) for disk in ranges["disk"] for policy in ranges["policy"]}
    narrowed = cells_of(SweepRequest(TWO, 0, 1, "xfs", "pos"))
    assert narrowed == [DrawRegion(name, "xfs", "pos") for name in TWO]
