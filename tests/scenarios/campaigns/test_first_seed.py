"""The first seed of a time budget: fixed by commit and date in CI, at random elsewhere."""

import pytest

from tornlog.scenarios.campaigns.first_seed import SEEDS, draw_first_seed


@pytest.mark.parametrize("variable", ["GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT"])
def test_a_repeated_ci_job_has_the_same_first_seed(variable: str) -> None:
    first = draw_first_seed({variable: "abc"}, "2026-11-28")
    assert first == draw_first_seed({variable: "abc"}, "2026-11-28")
    assert 0 <= first.seed < SEEDS
    assert "abc and 2026-11-28" in first.origin


@pytest.mark.parametrize(("commit", "day"), [("abd", "2026-11-28"), ("abc", "2026-11-29")])
def test_the_first_seed_depends_on_commit_and_day(commit: str, day: str) -> None:
    first = draw_first_seed({"GITHUB_SHA": "abc"}, "2026-11-28")
    assert draw_first_seed({"GITHUB_SHA": commit}, day).seed != first.seed


def test_outside_of_ci_first_seeds_are_random() -> None:
    assert len({draw_first_seed({}).seed for _ in range(8)}) > 1
