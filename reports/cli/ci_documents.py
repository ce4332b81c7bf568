"""Results of a campaign for CI services: JUnit XML for whatever shows results of tests, and a summary in Markdown.

JUnit XML, as `ci_formats` has it:

    testsuites
      testsuite       one for each scenario, or mutant
        properties    seeds, crash points, digest, and how often each fault was injected as `injected: NAME`;
                      of a mutant scenario, invariant, seeds, reached, bit, expected, core-seconds
        testcase      of the same name
          failure     a promise was broken: which, the story, the command that shows it again
          error       the harness failed, or a seed is no run
          skipped     a mutant that is known to live; what was not run, for want of time or as it was interrupted
          system-out  the claim

The summary (GITHUB_STEP_SUMMARY): a table of scenarios, what broke, what was injected.
"""

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement

from ...scenarios.campaigns.coverage import faults_of, never_injected
from ...scenarios.campaigns.failures.failure import Failure
from ...scenarios.campaigns.failures.print_failure import failure_text
from ...scenarios.campaigns.mutation_run import MutantResult
from ...scenarios.campaigns.runner import ALL, Reach, Tally, verdict_of
from .ci_formats import add_outcome, case_element, document_element, fenced, printable_text, suite_element

_ERROR_LINES = 20


def runs_document(tallies: Iterable[Tally], again: Callable[[Failure], str], reach: Reach = ALL) -> Element:
    """Return a test case for each scenario. again: the command that shows a failure again."""
    return document_element("tornlog run", [*(_run_suite(tally, again) for tally in tallies), *_not_run_suites(reach)])


def mutants_document(
    mutant_results: Iterable[MutantResult], survivors: Mapping[str, str], reach: Reach = ALL
) -> Element:
    """Return a test case for each mutant: it fails if the mutant was not found, or something else was.

    survivors: why mutants may live, by name; such a test case is skipped.
    """
    suites = [_mutant_suite(result, survivors) for result in mutant_results]
    return document_element("tornlog mutants", [*suites, *_not_run_suites(reach)])


def _not_run_suites(reach: Reach) -> Iterator[Element]:
    message = "not run: interrupted" if reach.interrupted else "not run: the time was up"
    for name in reach.not_run:
        case = case_element(name, 0.0)
        add_outcome(case, "skipped", "not run", message, "")
        yield suite_element(case, {})


def _run_suite(tally: Tally, again: Callable[[Failure], str]) -> Element:
    properties: dict[str, Any] = {
        "seeds": tally.seeds,
        "crash points": tally.crash_points,
        "digest": tally.digest,
        **{f"injected: {kind}": times for kind, times in sorted(tally.injected.items())},
    }
    case = case_element(tally.scenario.name, tally.wall_seconds)
    if tally.failures:
        first = {failure.signature: failure for failure in reversed(tally.failures)}
        violation = tally.failures[0].violations[0]
        texts = [failure_text(failure, again(failure)) for failure in reversed(first.values())]
        message = f"{tally.violations} of {tally.seeds} seeds: {violation}"
        add_outcome(case, "failure", violation.invariant, message, "\n\n".join(texts))
    if tally.nondeterministic:
        add_outcome(case, "error", "nondeterminism", tally.nondeterministic[0], "\n\n".join(tally.nondeterministic))
    if tally.errors:
        add_outcome(case, "error", "harness", tally.errors[0].splitlines()[-1], "\n\n".join(tally.errors))
    SubElement(case, "system-out").text = printable_text(f"claim: {tally.scenario.claim}")
    return suite_element(case, properties)


def _mutant_suite(result: MutantResult, survivors: Mapping[str, str]) -> Element:
    case = case_element(result.id, result.core_seconds)
    if result.error:
        add_outcome(case, "error", "harness", result.error.splitlines()[-1], result.error)
    elif violation := result.clean_violation:
        add_outcome(case, "failure", "clean", f"without it, too: {violation}", violation)
    elif not result.found and result.id in survivors:
        add_outcome(case, "skipped", "survivor", survivors[result.id], "")
    elif not result.found:
        message = f"not found in {result.seeds} seeds: {result.missed_because}"
        add_outcome(
            case, "failure", "survivor", message, f"{message}; again: {shlex.join(['tornlog', 'mutants', result.id])}"
        )
    counted = ("scenario", "invariant", "seeds", "reached", "bit")
    properties = {name: "" if (value := getattr(result, name)) is None else value for name in counted}
    return suite_element(
        case, {**properties, "expected": result.is_expected, "core-seconds": f"{result.core_seconds:.3f}"}
    )


def append_summary(
    file: Path, tallies: Sequence[Tally], seconds: float, again: Callable[[Failure], str], reach: Reach = ALL
) -> None:
    """Append the summary to a file, which may have others in it. again: the command that shows a failure again."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as page:
        page.writelines(f"{line}\n" for line in _summary_lines(tallies, seconds, again, reach))


def _summary_lines(
    tallies: Sequence[Tally], seconds: float, again: Callable[[Failure], str], reach: Reach
) -> Iterator[str]:
    seeds = sum(tally.seeds for tally in tallies)
    yield f"### tornlog: {seeds:,} seeds in {seconds:.1f} s, {verdict_of(tallies, reach)}"
    yield ""
    yield "| scenario | seeds | crash points | faults injected | broken |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for tally in tallies:
        broken = tally.violations + len(tally.errors) + len(tally.nondeterministic)
        injected = faults_of(tally.injected).total()
        name = f"**{tally.scenario.name}**" if broken else tally.scenario.name
        yield f"| {name} | {tally.seeds:,} | {tally.crash_points:,} | {injected:,} | {broken:,} |"
    yield from (f"| {name} | not run | | | |" for name in reach.not_run)
    yield ""
    for tally in tallies:
        yield from _summary_broken(tally, again)
    yield from _summary_injected(tallies)


def _summary_broken(tally: Tally, again: Callable[[Failure], str]) -> Iterator[str]:
    for failure in tally.failures[:1]:
        yield f"#### {tally.scenario.name}: {failure.violations[0].invariant} is broken"
        yield from fenced(again(failure))
        yield "<details><summary>What happened</summary>"
        yield ""
        yield from fenced(failure_text(failure))
        yield "</details>"
        yield ""
    for error in (*tally.nondeterministic[:1], *tally.errors[:1]):
        yield f"#### {tally.scenario.name}: no verdict"
        yield from fenced("\n".join(error.splitlines()[-_ERROR_LINES:]))


def _summary_injected(tallies: Sequence[Tally]) -> Iterator[str]:
    """Yield which faults came about how often, and which never did: of those nothing is known."""
    injected: Counter[str] = sum((faults_of(tally.injected) for tally in tallies), Counter())
    kinds = [f"| {kind} | {times:,} |" for kind, times in injected.most_common()]
    never = never_injected(tallies)
    yield f"<details><summary>{injected.total():,} faults of {len(kinds)} kinds injected</summary>"
    yield ""
    if kinds:
        yield from ("| fault | times |", "| --- | ---: |", *kinds, "")
    if never:
        yield f"Never: {', '.join(never)}."
        yield ""
    yield "</details>"
    yield ""
