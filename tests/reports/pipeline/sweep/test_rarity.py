"""What seeds of a cell are thought to bring."""

import itertools
from typing import Any

import pytest

from tornlog.reports.pipeline.sweep.request import COLUMNS, DrawRegion, RarityCounts
from tornlog.reports.pipeline.sweep.rows import SCHEMA

XFS, BTRFS, OTHER = (
    DrawRegion("a", "xfs", "pct"),
    DrawRegion("a", "btrfs", "pct"),
    DrawRegion("b", "xfs", "pos"),
)
CELLS = (XFS, BTRFS, OTHER)


def row(cell: DrawRegion, *marks: str, signature: str | None = None) -> dict[str, Any]:
    return {**cell._asdict(), "signature": signature, "marks": [(mark, 3) for mark in marks]}


def scores(*rows: dict[str, Any]) -> list[float]:
    seen = RarityCounts()
    seen.add(rows)
    return seen.scores(CELLS)


def test_what_is_looked_at_are_columns_of_a_sweep() -> None:
    assert set(COLUMNS) <= set(SCHEMA.names)


def test_all_cells_are_alike_as_long_as_nothing_was_met() -> None:
    assert scores() == [1.0, 1.0, 1.0]
    assert scores(row(XFS), row(OTHER)) == [1.0, 1.0, 1.0]


def test_a_rare_mark_is_worth_more_than_many_hits_of_a_common_one() -> None:
    common = [row(XFS, "common") for _ in range(50)]
    plain = [row(OTHER) for _ in range(49)]
    on_xfs, on_btrfs, elsewhere = scores(*common, *plain, row(OTHER, "rare"))

    assert elsewhere > on_xfs > 0
    assert on_btrfs == pytest.approx(on_xfs), "nobody has tried it, so it is expected to be like its scenario"


def test_the_cell_of_a_hit_counts_more_than_the_rest_of_its_scenario() -> None:
    on_xfs, on_btrfs, elsewhere = scores(row(XFS, "rare"), row(BTRFS), row(OTHER))

    assert on_xfs > on_btrfs > 0
    assert elsewhere == 0


def test_a_failure_draws_seeds_and_less_so_the_better_it_is_known() -> None:
    def draws(times: int) -> float:
        failures = [row(XFS, signature="a-dur-record") for _ in range(times)]
        held = [row(XFS) for _ in range(20 - times)]
        return scores(*failures, *held, row(OTHER, "rare"))[0]

    assert draws(1) > draws(3) > draws(20) > draws(0) == 0


def test_a_mark_that_was_passed_no_times_and_a_seed_without_a_plan_count_for_nothing() -> None:
    nothing = {**row(XFS), "marks": [("rare", 0)]}
    lost = dict.fromkeys(COLUMNS)

    assert scores(nothing, lost) == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_scores_do_not_depend_on_the_order_of_rows(order: tuple[int, ...]) -> None:
    rows = [row(XFS, "x", "y", "z"), row(BTRFS, "y"), row(BTRFS, "z", signature="s")]

    assert scores(*(rows[place] for place in order)) == scores(*rows)
