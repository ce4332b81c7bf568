"""The page of `tornlog mutants`: which were found, by what and how soon, and which were not."""

from statistics import median
from typing import Any, NamedTuple

from ...scenarios.campaigns.mutation_run import SIZES_SHOWN, MutantResult, core_seconds_texts
from ...scenarios.campaigns.runner import Reach, reach_words
from ...scenarios.mutants.known import mutant_named
from .failures import FailureText, failure_text
from .render import Facts, PageVerdict, counted, detection_picture, figure, render, some_of
from .results import MutationResults

_NAMES_SHOWN = 4
_POINTS_MIN = 3
"""Finds, for a curve to be worth looking at."""


class MutantRow(NamedTuple):
    """One mutant."""

    id: str
    summary: str
    invariant: str
    """That found it; empty if nothing did."""
    is_expected: bool
    """Whether the mutant names that one."""
    scenario: str
    """In which it was found."""
    others: tuple[str, ...]
    """Which other scenarios found it, too."""
    seeds: int
    core_seconds: str
    reached: str
    """Seeds in which its code ran."""
    bit: str
    """Seeds in which it did otherwise than the store."""
    size: str
    clean: str
    """What the store without it broke."""
    alarming: bool
    """Whether it is not as it should be."""
    why: str
    """What there is to say if it is not plainly found."""
    failure: FailureText | None


def mutation_page(results: MutationResults) -> str:
    """Return the page, as HTML."""
    rows = [_row(result, results) for result in results.mutant_results]
    found = [result.seeds for result in results.mutant_results if result.found]
    picture = detection_picture(found, len(rows)) if len(found) >= _POINTS_MIN else None
    missing = [row for row in rows if row.why]
    stories = [row.failure for row in rows if row.failure is not None]
    sections = [
        ("missing", "What is missing", missing),
        ("mutants", "Mutants", True),
        ("detection", "How many seeds it takes", picture),
        ("failures", "What found them", stories),
    ]
    return render(
        "mutation.html",
        "mutants",
        _verdict(rows, results.reach),
        results.command,
        _facts(results, found),
        sections,
        rows=rows,
        missing=missing,
        sized=any(row.size for row in rows),
        picture=picture,
        failures=stories,
    )


def _row(result: MutantResult, results: MutationResults) -> MutantRow:
    survives = results.survivors.get(result.id, "")
    why = ""
    if result.error:
        why = f"the harness failed: {result.error.splitlines()[-1]}"
    elif result.clean_violation:
        why = f"without it, too: {result.clean_violation}"
    elif not result.found:
        why = survives or f"not found: {result.missed_because}"
    elif survives:
        why = f"found, although it is said of it: {survives}"
    return MutantRow(
        result.id,
        mutant_named(result.id).summary,
        result.invariant,
        result.is_expected,
        result.scenario,
        tuple(find.scenario for find in result.finds[1:]),
        result.seeds,
        f"{result.core_seconds:,.1f}",
        _count(result.reached),
        _count(result.bit),
        _size(result.shrunk),
        result.clean_violation,
        bool(result.error or result.clean_violation) or not (result.found or survives),
        why,
        _failure_text(result, results),
    )


def _count(seeds: int | None) -> str:
    return "-" if seeds is None else figure(seeds)


def _failure_text(result: MutantResult, results: MutationResults) -> FailureText | None:
    if result.failure is None:
        return None
    failure = result.failure
    about = f"{result.invariant}, {result.scenario}, seed {failure.seed}"
    return failure_text(results.failures[failure.name_of_mutant], result.id, about)


def _size(shrunk: dict[str, Any] | None) -> str:
    return "" if shrunk is None else " ".join(str(shrunk[name]) for name in SIZES_SHOWN)


def _verdict(rows: list[MutantRow], reach: Reach) -> PageVerdict:
    found = sum(bool(row.invariant) for row in rows)
    noisy = [row.id for row in rows if row.clean]
    missed = [row.id for row in rows if row.alarming and not row.clean]
    known = len(rows) - found - len(missed)
    more = []
    if noisy:
        more.append(f"The store without the bug broke, too: {some_of(noisy, _NAMES_SHOWN)}")
    if missed:
        more.append(f"Not found: {some_of(missed, _NAMES_SHOWN)}")
    if known:
        more.append(f"{counted(known, 'mutant')} not found of which it is known why")
    more += reach_words(reach, "mutant")
    if noisy or missed:
        return PageVerdict("broken", f"{found} of {counted(len(rows), 'mutant')} found", tuple(more))
    text = f"{found} of {counted(len(rows), 'mutant')} found, and the clean store is silent"
    return PageVerdict("unsure" if reach.not_run else "held", text, tuple(more))


def _facts(results: MutationResults, found: list[int]) -> Facts:
    core_seconds = core_seconds_texts(results.mutant_results)
    return [
        ("mutants", figure(len(results.mutant_results))),
        ("found", figure(len(found))),
        *((f"core-seconds until found, {name}", text if found else "-") for name, text in core_seconds.items()),
        ("seeds until found, median", f"{median(found):,.0f}" if found else "-"),
        ("seeds run", figure(sum(result.seeds for result in results.mutant_results))),
        ("seconds", f"{results.seconds:,.1f}"),
    ]
