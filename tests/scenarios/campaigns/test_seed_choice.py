"""Seed choice: the order of measured runs for a changed function, and the file of measured runs."""

from gzip import compress
from pathlib import Path

import pytest

from tornlog.scenarios.campaigns.seed_choice import CodePlace, MeasuredRun, MeasuredRuns, measured_runs

CHANGED, BESIDE = CodePlace("p.m", "C.changed"), CodePlace("p.m", "C.beside")
NEAR, FAR = CodePlace("p.other", "near"), CodePlace("q.far", "far")
PLACES = [CHANGED, CHANGED, CHANGED, BESIDE, NEAR, FAR]


def run(seed: int, *outcomes: int, cost: float = 1.0) -> MeasuredRun:
    return MeasuredRun("s", seed, cost, f"{sum(1 << number for number in outcomes):x}")


def chosen(runs: list[MeasuredRun], *changed: CodePlace) -> list[int]:
    return [one.seed for one in MeasuredRuns(PLACES, runs).runs_for(changed or (CHANGED,))]


def test_the_next_run_has_the_most_new_outcomes_of_the_changed_function() -> None:
    runs = [run(0, 0, 3, 4, 5), run(1, 0, 1), run(2, 2), run(3, 3, 4, 5)]
    # Run 1 has two outcomes of the function. After it, run 2 has one more, and run 0 only one beside and one near.
    assert chosen(runs) == [1, 2, 0], "run 3 does not execute the function"


def test_outcomes_count_per_cpu_second() -> None:
    assert chosen([run(0, 0, 1, cost=10.0), run(1, 0), run(2, 1)])[-1] == 0


def test_known_outcomes_count_again_until_more_runs_have_reached_them() -> None:
    runs = [*(run(seed, 0) for seed in range(3)), run(3, 0, 1, 2)]
    assert chosen(runs)[0] == 3
    assert sorted(chosen(runs)) == [0, 1, 2, 3]
    assert len(chosen([run(seed, 0) for seed in range(100)])) == 64


def test_a_class_or_module_contains_its_functions() -> None:
    runs = [run(0, 3), run(1, 5)]
    assert chosen(runs, CodePlace("p.m", "C")) == chosen(runs, CodePlace("p.m", "")) == [0]
    assert chosen(runs, CodePlace("p.m", "C.besi")) == [0], "no function has this name; run 0 executes the module"


def test_for_code_that_no_run_executes_all_runs_are_chosen() -> None:
    assert chosen([run(0, 4), run(1, 4, 5)], CodePlace("z", "f")) == [1, 0]


def test_scenarios_have_counts_of_their_runs_that_execute_the_function() -> None:
    runs = [run(0, 0), run(1, 5), MeasuredRun("t", 0, 1.0, "20")]
    executing, every = MeasuredRuns(PLACES, runs).counts_for([CHANGED])
    assert (dict(executing), dict(every)) == ({"s": 1}, {"s": 2, "t": 1})


def test_a_file_returns_the_runs_that_were_saved(tmp_path: Path) -> None:
    saved = MeasuredRuns(PLACES, [run(7, 0, 5, cost=0.25)])
    saved.save(tmp_path / "runs")
    assert measured_runs(tmp_path / "runs") == saved


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"text", id="text"),
        pytest.param(compress(b"{}"), id="another object"),  # no name made of the bytes: they contain the time
        pytest.param(compress(b"[1"), id="no JSON"),
        pytest.param(compress(b"x" * 99)[:-9], id="cut"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "runs").write_bytes(content)
    with pytest.raises(ValueError, match="expected a file of `make conditions`"):
        measured_runs(tmp_path / "runs")
