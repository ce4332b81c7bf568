"""Results of a probe for CI services: JUnit XML, as `ci_formats` has it, and a summary in Markdown.

Test suites, with one test case each: every kind of crash that was tried, by its name; crashes in recovery, faults at
calls and other orders of threads, which are one, where they were asked for.
"""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement

from ....faults.probe.documents import Places
from ...html.probe_results import ProbeBreach, ProbeResults, kinds_of_breach
from ..ci_formats import add_outcome, case_element, document_element, fenced, printable_text, suite_element
from .printing import breach_text


class _Tried(NamedTuple):
    """A way in which the program was tried, and what broke by it."""

    name: str
    points: int
    states: int
    breaches: list[ProbeBreach]
    gaps: list[str]
    """Those that were asked for and have no verdict."""


def probe_document(results: ProbeResults, places: Places) -> Element:
    """Return a test case for each kind of crash, and for whatever else was tried."""
    document = document_element("tornlog probe", [_suite(one, results, places) for one in _tried(results)])
    seconds = f"{results.seconds:.3f}"  # of all: a state is checked once, whichever crash leaves it
    document.set("time", seconds)
    return document


def _suite(tried: _Tried, results: ProbeResults, places: Places) -> Element:
    case = case_element(tried.name, 0.0)
    if tried.breaches:
        texts = [breach_text(one, _place(one, places)) for one in tried.breaches]
        message = "; ".join(dict.fromkeys(one.finding.signature for one in tried.breaches))
        add_outcome(case, "failure", "broken", message, "\n\n".join(texts))
    elif tried.gaps:
        add_outcome(case, "error", "not finished", "; ".join(tried.gaps), "\n".join(results.gaps))
    program = shlex.join(results.record.program)
    SubElement(case, "system-out").text = printable_text(f"program: {program}, check: {results.check.name}")
    return suite_element(case, {"crash points": tried.points, "states": tried.states})


def append_probe_summary(file: Path, results: ProbeResults, places: Places) -> None:
    """Append the summary to a file, which may have others in it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as page:
        page.writelines(f"{line}\n" for line in _summary_lines(results, places))


def _summary_lines(results: ProbeResults, places: Places) -> Iterator[str]:
    breaches = results.breaches()
    yield f"### tornlog probe: {results.found.points:,} crash points in {results.seconds:.1f} s, {results.verdict}"
    yield from fenced(shlex.join(results.record.program))
    yield "| tried | crash points | states | kinds of breach |"
    yield "| --- | ---: | ---: | ---: |"
    for tried in _tried(results):
        name = f"**{tried.name}**" if tried.breaches else tried.name
        yield f"| {name} | {tried.points:,} | {tried.states:,} | {len(tried.breaches):,} |"
    yield ""
    for breach in breaches:
        yield f"#### {breach.finding.signature}"
        yield "<details><summary>What happened</summary>"
        yield from fenced(breach_text(breach, _place(breach, places)))
        yield "</details>"
        yield ""
    if breaches and results.gaps:
        yield f"Not finished: {'; '.join(results.gaps)}."
        yield ""
    if results.kinds > len(breaches):
        yield f"And {kinds_of_breach(results.kinds - len(breaches))} more."
        yield ""
    if results.found.never_injected:
        yield f"Never: {', '.join(results.found.never_injected)}."
        yield ""


def _place(breach: ProbeBreach, places: Places) -> Path | None:
    return places.get((breach.finding.kind, breach.finding.signature))


def _tried(results: ProbeResults) -> Iterator[_Tried]:
    """Yield how the program was tried."""
    breaches = results.breaches()
    of_program = breaches[: len(results.findings)]
    of_recoveries = breaches[len(of_program) : len(of_program) + len(results.recovered)]
    of_reruns = breaches[len(of_program) + len(of_recoveries) :]
    for disk, count in results.found.counts.items():
        yield _Tried(
            disk, count.crashes, count.states, [one for one in of_program if disk in one.disks], results.crash_gaps
        )
    recoveries, reruns = results.recoveries, results.reruns
    if recoveries is not None:
        yield _Tried("crashes in recovery", recoveries.points, recoveries.states, of_recoveries, results.recovery_gaps)
    if reruns is not None:
        names = [
            *(["faults at calls"] if reruns.enabled else []),
            *(["other orders of threads"] if reruns.seeds else []),
        ]
        yield _Tried(" and ".join(names), reruns.points, reruns.states, of_reruns, results.rerun_gaps)
