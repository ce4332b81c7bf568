"""Runs and the outcomes that they reached, from several processes."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from .counting import Outcome


class CountedRun(NamedTuple):
    """A run and the outcomes that it reached."""

    scenario: str
    seed: int
    cpu_seconds: float
    reached: frozenset[int]
    """Indexes of `CountedRuns.outcomes`."""


class CountedRuns(NamedTuple):
    """Runs of one process. Processes import modules in different orders, so they number outcomes differently."""

    outcomes: Sequence[Outcome]
    runs: Sequence[CountedRun]


def merged(parts: Iterable[CountedRuns]) -> CountedRuns:
    """Number the outcomes of several processes alike."""
    numbers, runs = dict[Outcome, int](), list[CountedRun]()
    for outcomes, part in parts:
        known = [numbers.setdefault(outcome, len(numbers)) for outcome in outcomes]
        runs += (run._replace(reached=frozenset(known[number] for number in run.reached)) for run in part)
    return CountedRuns(list(numbers), runs)


def write_measured_runs(counted: CountedRuns, path: Path) -> None:
    from tornlog.scenarios.campaigns.seed_choice import CodePlace, MeasuredRun, MeasuredRuns

    # not above, because an import of the package must follow `count_conditions`
    places = [CodePlace(condition.module, condition.function) for condition, _ in counted.outcomes]
    runs = [
        MeasuredRun(run.scenario, run.seed, run.cpu_seconds, f"{sum(1 << number for number in run.reached):x}")
        for run in counted.runs
    ]
    MeasuredRuns(places, runs).save(path)
