"""Results as JUnit XML, for whatever shows the results of tests: Jenkins, GitLab, GitHub's actions for that.

    testsuites
      testsuite       one for each scenario, or mutant
        properties    seeds, crash points, digest, and how often each fault fired as `fired: NAME`
        testcase      of the same name
          failure     a promise was broken: which, the story, the command that shows it again
          error       the harness failed, or a seed is no run
          skipped     a mutant that is known to live; what was not run, for want of time or as it was interrupted
          system-out  the claim

What is said of a failure is all in its text: GitLab shows nothing else. Properties belong to the suite, where every
reader takes them, and there are no attributes beyond those of the schema of Jenkins' xUnit plugin (junit-10.xsd).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from ...scenarios.campaigns.failures.failure import Failure
from ...scenarios.campaigns.failures.print_failure import failure_text
from ...scenarios.campaigns.mutation_run import MutantResult
from ...scenarios.campaigns.runner import ALL, Reach, Tally

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, however they are written."""
_COUNTED = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def runs_document(tallies: Iterable[Tally], again: Callable[[Failure], str], reach: Reach = ALL) -> Element:
    """Return a test case for each scenario. again: the command that shows a failure again."""
    suites = [_run_suite(tally, again) for tally in tallies]
    return _document("tornlog run", [*suites, *_not_run(reach)])


def mutants_document(
    mutant_results: Iterable[MutantResult], survivors: Mapping[str, str], reach: Reach = ALL
) -> Element:
    """Return a test case for each mutant: it fails if the mutant was not found, or something else was.

    survivors: why mutants may live, by name; such a test case is skipped.
    """
    suites = [_mutant_suite(mutant_result, survivors) for mutant_result in mutant_results]
    return _document("tornlog mutants", [*suites, *_not_run(reach)])


def _not_run(reach: Reach) -> Iterator[Element]:
    message = "not run: interrupted" if reach.interrupted else "not run: the time was up"
    for name in reach.not_run:
        case = _case(name, 0.0)
        _add(case, "skipped", "not run", message, "")
        yield _suite(case, {})


def write_junit(file: Path, document: Element) -> None:
    """Write a document, and the directories it is to be in."""
    file.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.indent(document)
    ElementTree.ElementTree(document).write(file, encoding="utf-8", xml_declaration=True)


def _document(name: str, suites: Iterable[Element]) -> Element:
    root = Element("testsuites", name=name)
    root.extend(suites)
    for sum_of in ("tests", "failures", "errors"):
        root.set(sum_of, str(sum(int(suite.get(sum_of, "0")) for suite in root)))
    root.set("time", f"{sum(float(suite.get('time', '0')) for suite in root):.3f}")
    return root


def _run_suite(tally: Tally, again: Callable[[Failure], str]) -> Element:
    properties: dict[str, Any] = {
        "seeds": tally.seeds,
        "crash points": tally.crash_points,
        "digest": tally.digest,
        **{f"fired: {kind}": times for kind, times in sorted(tally.fired.items())},
    }
    case = _case(tally.scenario.name, tally.wall_seconds)
    if tally.failures:
        first = {failure.signature: failure for failure in reversed(tally.failures)}
        violation = tally.failures[0].violations[0]
        told = [failure_text(failure, again(failure)) for failure in reversed(first.values())]
        message = f"{tally.violations} of {tally.seeds} seeds: {violation}"
        _add(case, "failure", violation.invariant, message, "\n\n".join(told))
    if tally.nondeterministic:
        _add(case, "error", "nondeterminism", tally.nondeterministic[0], "\n\n".join(tally.nondeterministic))
    if tally.errors:
        _add(case, "error", "harness", tally.errors[0].splitlines()[-1], "\n\n".join(tally.errors))
    SubElement(case, "system-out").text = _sound(f"claim: {tally.scenario.claim}")
    return _suite(case, properties)


def _mutant_suite(mutant_result: MutantResult, survivors: Mapping[str, str]) -> Element:
    case = _case(mutant_result.id, mutant_result.seconds)
    if mutant_result.clean_violation:
        _add(
            case,
            "failure",
            "clean",
            f"without it, too: {mutant_result.clean_violation}",
            mutant_result.clean_violation,
        )
    elif not mutant_result.found and mutant_result.id in survivors:
        _add(case, "skipped", "survivor", survivors[mutant_result.id], "")
    elif not mutant_result.found:
        message = f"not found in {mutant_result.seeds} seeds"
        _add(case, "failure", "survivor", message, f"{message}; again: tornlog mutants {mutant_result.id}")
    return _suite(case, {"seeds": mutant_result.seeds, "invariant": mutant_result.invariant})


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
