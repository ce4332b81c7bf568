"""The page of `tornlog sweep` and `tornlog analyze`: what the rows of many seeds come to."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...scenarios.campaigns.coverage import faults_of
from ...scenarios.campaigns.pairs import pairs_met
from ...scenarios.claims.catalogue import SCENARIOS
from ..quantities import PER_MILLE, duration, rate
from .coverage import coverage_groups, promises_table
from .failures import FailureText, failure_text
from .render import Facts, PageVerdict, counted, figure, latency_picture, render
from .results import Row, SweepResults

_OUTCOMES = ("seeds", "held", "violated", "other")
_WORST_SHOWN = 20
_WITHOUT = "-"
"""In place of a name: of a disk that a seed did not live to draw."""


class Rate(NamedTuple):
    """What some seeds came to."""

    name: str
    about: str
    seeds: int
    violated: int
    other: int
    share: str
    """In percent, with its bounds."""


class PassRates(NamedTuple):
    """What seeds of the store as it is came to, or of mutants."""

    whose: str
    scenarios: list[Rate]
    policies: list[str]
    disks: list[tuple[str, list[Rate | None]]]
    """A row for each disk, with a cell for each policy."""
    worst: list[Rate]
    """Combinations of scenario, disk and policy in which something broke."""
    worst_of: int


def sweep_page(results: SweepResults) -> str:
    """Return the page, as HTML."""
    scenarios = [SCENARIOS[row["scenario"]] for row in results.pass_rates if row["scenario"] in SCENARIOS]
    clean = [row for row in results.pass_rates if row["mutant"] is None]
    mutated = [row for row in results.pass_rates if row["mutant"] is not None]
    rates = [_rates(whose, rows) for whose, rows in (("the store", clean), ("mutants", mutated)) if rows]
    promises = None
    if results.broken is not None:
        promises = promises_table(results.judged, results.tried, results.broken)
    stories = [_failure_text(results, signature) for signature in results.failures]
    latencies = [_latency(row) for row in results.put_latency]
    sections = [
        ("rates", "Pass rates", rates),
        ("detections", "Detections", results.detections),
        ("promises", "Promises by disk", promises),
        ("latency", "Put latency", latencies),
        ("coverage", "Coverage", True),
        ("failures", "Failures", stories),
    ]
    return render(
        "sweep.html",
        results.command_name,
        _verdict(results),
        results.command,
        _facts(results),
        sections,
        mutant=_mutant(results.pass_rates),
        rates=rates,
        detections=results.detections,
        promises=promises,
        picture=latency_picture(results.put_latency) if latencies else None,
        latencies=latencies,
        coverage=coverage_groups(results.injected, results.marks, scenarios),
        pairs=pairs_met(results.pairs),
        failures=stories,
    )


def _mutant(rows: Sequence[Row]) -> str | None:
    """Return the one mutant that all seeds were run with, None if there is no such."""
    mutants = {row["mutant"] for row in rows}
    return mutants.pop() if len(mutants) == 1 else None


def _totals(rows: Iterable[Row]) -> Counter[str]:
    return sum((Counter({name: row[name] for name in _OUTCOMES}) for row in rows), Counter())


def _verdict(results: SweepResults) -> PageVerdict:
    """Judge the store as it is, if there are seeds of it: that mutants break promises is what they are for."""
    clean = [row for row in results.pass_rates if row["mutant"] is None]
    totals = _totals(clean or results.pass_rates)
    more = [f"{counted(results.left, 'seed')} left: the same call again goes on"] if results.left else []
    if results.damaged:
        more.append(f"{counted(results.damaged, 'file')} of rows damaged, and not counted")
    if clean and len(clean) < len(results.pass_rates):
        mutated = _totals(row for row in results.pass_rates if row["mutant"] is not None)
        seeds = counted(mutated["seeds"], "seed")
        more.append(f"beside these, {figure(mutated['violated'])} of {seeds} of mutants broke a promise")
    if totals["other"]:
        more.insert(0, f"{counted(totals['other'], 'seed')} without a verdict")
    seeds = counted(totals["seeds"], "seed")
    if totals["violated"]:
        return PageVerdict("broken", f"{figure(totals['violated'])} of {seeds} broke a promise", tuple(more))
    if totals["other"]:
        return PageVerdict("broken", f"No promise broken in {seeds}, and not all have a verdict", tuple(more))
    if not totals["seeds"]:
        return PageVerdict("unsure", "No seed has been run", tuple(more))
    text = f"Every promise held in {seeds}"
    if results.damaged:
        return PageVerdict("unsure", f"{text}, and others could not be read", tuple(more))
    return PageVerdict("held", text, tuple(more))


def _facts(results: SweepResults) -> Facts:
    clean = [row for row in results.pass_rates if row["mutant"] is None]
    totals = _totals(clean or results.pass_rates)
    names = {"seeds": "seeds", "held": "held", "violated": "broke a promise", "other": "no verdict"}
    return [
        *((text, figure(totals[name])) for name, text in names.items()),
        ("scenarios", figure(len({row["scenario"] for row in results.pass_rates}))),
        ("faults injected", figure(faults_of(results.injected).total())),
        ("seconds of the last call", f"{results.seconds:,.1f}"),
    ]


def _rates(whose: str, rows: Sequence[Row]) -> PassRates:
    scenarios = sorted({row["scenario"] for row in rows})
    disks = sorted({row["disk"] or _WITHOUT for row in rows})
    policies = sorted({row["policy"] or _WITHOUT for row in rows})
    of_cells: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    by_run: defaultdict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        cell = (row["disk"] or _WITHOUT, row["policy"] or _WITHOUT)
        of_cells[cell].append(row)
        if row["held"] < row["seeds"]:
            by_run[row["scenario"], *cell].append(row)
    by_cell = {cell: _rate("", "", some) for cell, some in of_cells.items()}
    worst = sorted(by_run, key=lambda run: (_share(by_run[run]), run))
    return PassRates(
        whose,
        [_rate(name, _claim(name), [row for row in rows if row["scenario"] == name]) for name in scenarios],
        policies,
        [(disk, [by_cell.get((disk, policy)) for policy in policies]) for disk in disks],
        [_rate(run[0], f"{run[1]}, {run[2]}", by_run[run]) for run in worst[:_WORST_SHOWN]],
        len(worst),
    )


def _claim(scenario: str) -> str:
    known = SCENARIOS.get(scenario)
    return "" if known is None else known.claim


def _share(rows: Iterable[Row]) -> float:
    totals = _totals(rows)
    return totals["held"] / totals["seeds"]


def _rate(name: str, about: str, rows: Iterable[Row]) -> Rate:
    totals = _totals(rows)
    share = rate(totals["held"], totals["seeds"])
    return Rate(name, about, totals["seeds"], totals["violated"], totals["other"], share)


def _latency(row: Row) -> tuple[str, str, int, int, list[str]]:
    """Return flush mode, disk, producers, puts, and the percentiles as people say them."""
    times = [duration(row[name]) for name in (*PER_MILLE, "max_us")]
    return ("sync" if row["sync_flush"] else "async", row["disk"], row["producers"], row["puts"], times)


def _failure_text(results: SweepResults, signature: str) -> FailureText:
    left = results.failures[signature]
    failure = left.failure
    times = counted(results.signatures[signature], "time")
    about = f"{failure.scenario}, seed {failure.seed}, {times} in all"
    return failure_text(left, f"{failure.violations[0].invariant} {failure.violations[0].field}", about)
