"""The page of `tornlog run`: whether all held, and if not, what broke where, and how to see it again."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...scenarios.campaigns.coverage import faults_of
from ...scenarios.campaigns.pairs import pairs_met
from ...scenarios.campaigns.runner import Tally, reach_words, verdict_of
from ...scenarios.claims.catalogue import SCENARIOS
from .coverage import coverage_groups, promises_table
from .failures import kinds_of
from .render import Facts, PageVerdict, counted, figure, render
from .results import RunResults

_KINDS_OPENED = 3
_NAMES_SHOWN = 4


class ScenarioRow(NamedTuple):
    """What one scenario came to."""

    name: str
    claim: str
    seeds: int
    crash_points: int
    injected: int
    violations: int
    lost: str
    """Seeds without a verdict, in words."""


def run_page(results: RunResults) -> str:
    """Return the page, as HTML."""
    tallies, version = results.tallies, results.version
    kinds = kinds_of(results.broken, results.failures)

    def total(name: str) -> Counter[Any]:
        return sum((getattr(tally, name) for tally in tallies), Counter())

    errors = [text for tally in tallies for text in (*tally.nondeterministic[:1], *tally.errors[:1])]
    sections = [
        ("broke", "What broke", kinds),
        ("scenarios", "Scenarios", True),
        ("promises", "Promises by disk", True),
        ("coverage", "Coverage", True),
        ("failures", "Failures", kinds),
        ("errors", "No verdict", errors),
        ("version", "The version", version),
    ]
    return render(
        "run.html",
        "run",
        _verdict(results),
        results.command,
        _facts(tallies, results.seconds),
        sections,
        mutant=results.mutant,
        version=version,
        on=0 if version is None else sum(fact.is_on for fact in version.facts),
        rows=[_row(tally) for tally in tallies],
        not_run=[(name, SCENARIOS[name].claim) for name in results.reach.not_run],
        promises=promises_table(total("judged"), total("tried"), total("broken")),
        coverage=coverage_groups(total("injected"), total("marks"), (tally.scenario for tally in tallies)),
        pairs=pairs_met(total("pairs")),
        kinds=kinds,
        opened=_KINDS_OPENED,
        errors=errors,
    )


def _verdict(results: RunResults) -> PageVerdict:
    tallies = results.tallies
    seeds = sum(tally.seeds for tally in tallies)
    violated = sum(tally.violations for tally in tallies)
    lost = sum(len(tally.errors) + len(tally.nondeterministic) for tally in tallies)
    never = (f"{what} that never did: {', '.join(names)}" for what, names in results.never.items() if names)
    reach = results.reach
    more = (*reach_words(reach, "scenario"), *never)
    if violated:
        text = f"{_broken(results)} in {figure(violated)} of {counted(seeds, 'seed')}"
        return PageVerdict("broken", text, more)
    if lost:
        text = f"{counted(lost, 'seed')} without a verdict"
        return PageVerdict("broken", text, (verdict_of(tallies), *more))
    if any(results.never.values()):
        return PageVerdict("broken", "No promise broken, but not all came about that had to", more)
    if not seeds:
        return PageVerdict("unsure", "Nothing was run", more)
    if more:
        text = verdict_of(tallies, reach)
        return PageVerdict("unsure", text[0].upper() + text[1:])
    return PageVerdict("held", "Every promise held")


def _broken(results: RunResults) -> str:
    names = list(dict.fromkeys(row.promise for row in results.broken))
    text = ", ".join(names) if len(names) <= _NAMES_SHOWN else counted(len(names), "promise")
    return f"{text} broken" if results.version is None else f"{results.version.id} breaks {text}"


def _facts(tallies: Sequence[Tally], seconds: float) -> Facts:
    seeds = sum(tally.seeds for tally in tallies)
    return [
        ("scenarios", figure(len(tallies))),
        ("seeds", figure(seeds)),
        ("crash points", figure(sum(tally.crash_points for tally in tallies))),
        ("faults injected", figure(sum(faults_of(tally.injected).total() for tally in tallies))),
        ("messages", figure(sum(tally.messages for tally in tallies))),
        ("steps", figure(sum(tally.steps for tally in tallies))),
        ("seconds", f"{seconds:,.1f}"),
        ("seeds a second", f"{seeds / seconds:,.0f}" if seconds else "-"),
    ]


def _row(tally: Tally) -> ScenarioRow:
    lost = ((tally.nondeterministic, "not deterministic"), (tally.errors, "lost to the harness"))
    scenario, injected = tally.scenario, faults_of(tally.injected).total()
    words = ", ".join(f"{len(seeds):,} {what}" for seeds, what in lost if seeds)
    counts = (tally.seeds, tally.crash_points, injected, tally.violations)
    return ScenarioRow(scenario.name, scenario.claim, *counts, words)
