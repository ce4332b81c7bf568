"""Results of a campaign for CI services: JUnit XML for whatever shows results of tests, and a summary in Markdown.

JUnit XML, as Jenkins, GitLab and GitHub's actions read it:

    testsuites
      testsuite       one for each scenario, or mutant
        properties    seeds, crash points, digest, and how often each fault was injected as `injected: NAME`;
                      of a mutant scenario, invariant, seeds, reached, bit, expected, core-seconds
        testcase      of the same name
          failure     a promise was broken: which, the story, the command that shows it again
          error       the harness failed, or a seed is no run
          skipped     a mutant that is known to live; what was not run, for want of time or as it was interrupted
          system-out  the claim

What is said of a failure is all in its text: GitLab shows nothing else. Properties belong to the suite, where every
reader takes them, and there are no attributes beyond those of the schema of Jenkins' xUnit plugin (junit-10.xsd).

The summary (GITHUB_STEP_SUMMARY): a table of scenarios, what broke, what was injected.
"""

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from ...faults.kinds import FAULTS
from ...scenarios.campaigns.coverage import faults_of
from ...scenarios.campaigns.failures.failure import Failure
from ...scenarios.campaigns.failures.print_failure import failure_text
from ...scenarios.campaigns.mutation_run import MutantResult
from ...scenarios.campaigns.runner import ALL, Reach, Tally, verdict_of

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, however they are written."""
_COUNTED = {"failure": "failures", "error": "errors", "skipped": "skipped"}
_FENCE = "~~~~"
_ERROR_LINES = 20


def runs_document(tallies: Iterable[Tally], again: Callable[[Failure], str], reach: Reach = ALL) -> Element:
    """Return a test case for each scenario. again: the command that shows a failure again."""
    return _document("tornlog run", [_run_suite(tally, again) for tally in tallies], reach)


def mutants_document(
    mutant_results: Iterable[MutantResult], survivors: Mapping[str, str], reach: Reach = ALL
) -> Element:
    """Return a test case for each mutant: it fails if the mutant was not found, or something else was.

    survivors: why mutants may live, by name; such a test case is skipped.
    """
    suites = [_mutant_suite(result, survivors) for result in mutant_results]
    return _document("tornlog mutants", suites, reach)


def write_junit(file: Path, document: Element) -> None:
    """Write a document, and the directories it is to be in."""
    file.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.indent(document)
    ElementTree.ElementTree(document).write(file, encoding="utf-8", xml_declaration=True)


def _document(name: str, suites: Iterable[Element], reach: Reach) -> Element:
    root = Element("testsuites", name=name)
    root.extend(suites)
    message = "not run: interrupted" if reach.interrupted else "not run: the time was up"
    for not_run in reach.not_run:
        case = _case(not_run, 0.0)
        _add(case, "skipped", "not run", message, "")
        root.append(_suite(case, {}))
    for sum_of in ("tests", "failures", "errors"):
        root.set(sum_of, str(sum(int(suite.get(sum_of, "0")) for suite in root)))
    root.set("time", f"{sum(float(suite.get('time', '0')) for suite in root):.3f}")
    return root


def _run_suite(tally: Tally, again: Callable[[Failure], str]) -> Element:
    properties: dict[str, Any] = {
        "seeds": tally.seeds,
        "crash points": tally.crash_points,
        "digest": tally.digest,
        **{f"injected: {kind}": times for kind, times in sorted(tally.injected.items())},
    }
    case = _case(tally.scenario.name, tally.wall_seconds)
    if tally.failures:
        first = {failure.signature: failure for failure in reversed(tally.failures)}
        violation = tally.failures[0].violations[0]
        texts = [failure_text(failure, again(failure)) for failure in reversed(first.values())]
        message = f"{tally.violations} of {tally.seeds} seeds: {violation}"
        _add(case, "failure", violation.invariant, message, "\n\n".join(texts))
    if tally.nondeterministic:
        _add(case, "error", "nondeterminism", tally.nondeterministic[0], "\n\n".join(tally.nondeterministic))
    if tally.errors:
        _add(case, "error", "harness", tally.errors[0].splitlines()[-1], "\n\n".join(tally.errors))
    SubElement(case, "system-out").text = _sound(f"claim: {tally.scenario.claim}")
    return _suite(case, properties)


def _mutant_suite(result: MutantResult, survivors: Mapping[str, str]) -> Element:
    case = _case(result.id, result.core_seconds)
    if result.error:
        _add(case, "error", "harness", result.error.splitlines()[-1], result.error)
    elif violation := result.clean_violation:
        _add(case, "failure", "clean", f"without it, too: {violation}", violation)
    elif not result.found and result.id in survivors:
        _add(case, "skipped", "survivor", survivors[result.id], "")
    elif not result.found:
        message = f"not found in {result.seeds} seeds: {result.missed_because}"
        _add(case, "failure", "survivor", message, f"{message}; again: {shlex.join(['tornlog', 'mutants', result.id])}")
    counted = ("scenario", "invariant", "seeds", "reached", "bit")
    properties = {name: "" if (value := getattr(result, name)) is None else value for name in counted}
    return _suite(case, {**properties, "expected": result.is_expected, "core-seconds": f"{result.core_seconds:.3f}"})


def _case(name: str, seconds: float) -> Element:
    return Element("testcase", name=name, classname="tornlog", time=f"{seconds:.3f}")


def _add(case: Element, tag: str, kind: str, message: str, text: str) -> None:
    SubElement(case, tag, type=_sound(kind), message=_sound(message)).text = _sound(text)


def _suite(case: Element, properties: Mapping[str, object]) -> Element:
    suite = Element("testsuite", name=case.get("name", ""), tests="1", time=case.get("time", ""))
    for tag, attribute in _COUNTED.items():
        suite.set(attribute, str(min(1, len(case.findall(tag)))))
    listed = SubElement(suite, "properties")
    for name, value in properties.items():
        SubElement(listed, "property", name=_sound(name), value=_sound(str(value)))
    suite.append(case)
    return suite


def _sound(text: str) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)


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
        yield from _fenced(again(failure))
        yield "<details><summary>What happened</summary>"
        yield ""
        yield from _fenced(failure_text(failure))
        yield "</details>"
        yield ""
    for error in (*tally.nondeterministic[:1], *tally.errors[:1]):
        yield f"#### {tally.scenario.name}: no verdict"
        yield from _fenced("\n".join(error.splitlines()[-_ERROR_LINES:]))


def _fenced(text: str) -> Iterator[str]:
    yield from ("", _FENCE, text, _FENCE, "")


def _summary_injected(tallies: Sequence[Tally]) -> Iterator[str]:
    """Yield which faults came about how often, and which never did: of those nothing is known."""
    injected: Counter[str] = sum((faults_of(tally.injected) for tally in tallies), Counter())
    kinds = [f"| {kind} | {times:,} |" for kind, times in injected.most_common()]
    never = [kind for kind in FAULTS if not injected[kind]]
    yield f"<details><summary>{injected.total():,} faults of {len(kinds)} kinds injected</summary>"
    yield ""
    if kinds:
        yield from ("| fault | times |", "| --- | ---: |", *kinds, "")
    if never:
        yield f"Never: {', '.join(never)}."
        yield ""
    yield "</details>"
    yield ""
