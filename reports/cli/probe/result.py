"""The result of `probe`: lists breaches, crashes by disk, steps, and gaps."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from ....faults.crashes.at_rest import AT_REST, DAMAGES
from ....faults.crashes.profiles import PROFILES
from ....faults.probe.documents import Places, probed_json, recoveries_json, reruns_json
from ....faults.probe.failure import RECOVERY
from ....faults.probe.record import ProgramRecord, Step
from ....faults.probe.report import ViolationGroup
from ....faults.probe.story import file_names, named, task_name
from ....faults.simulation.failure_text import plain_text
from ...quantities import count_text
from ...results.model import (
    Bars,
    Case,
    FailureGroup,
    Failures,
    Group,
    Lines,
    On,
    Outcome,
    Result,
    ResultBlock,
    ResultTable,
    Row,
    TableCell,
    Tone,
    Verdict,
    bar_group,
)
from .result_lines import baseline_lines, recovery_lines, rerun_lines, rule_lines, separate_disk_lines, untried_text
from .results import ProbeBreach, ProbeResults, kinds_of_breach, points_text

_BARS_SHOWN_MAX, _ROWS_MAX, _OUTPUT_LINES_MAX = 20, 20, 20
_SHOWN = On.TERMINAL | On.PAGE
Timelines = Mapping[tuple[str, str], str]
"""Kind and signature of a finding -> path of its timeline page, relative to the report."""


def probe_result(results: ProbeResults, places: Places, timelines: Timelines, exit_code: int) -> Result:
    """Build the result of a probe. places: the directory of each failure."""
    record, found = results.record, results.found
    facts = [
        ("steps recorded", f"{len(record.steps):,}"),
        ("promises", f"{len(record.acknowledged):,}"),
        *([("refused operations", f"{results.refusals:,}")] if results.takes_refusals else []),
        ("processes", f"{len({task.process for task in record.tasks}):,}"),
        ("threads", f"{len(record.tasks):,}"),
        ("crash points", f"{found.points:,}"),
        ("states", f"{found.states:,}"),
        ("different images", f"{len(found.images):,}"),
        ("checks", f"{found.judged:,}"),
        ("seconds", f"{results.seconds:,.1f}"),
    ]
    points = points_text(found.points, found.points_of)
    amounts = (
        f"{count_text(found.operations, 'operation')}, {count_text(len(record.acknowledged), 'promise')}, {points}"
    )
    tried = list(_tried_counts(results))
    broken = sum(count.broken for count in found.counts.values())
    is_broken = broken and results.new_kinds
    return Result(
        "probe",
        f"{amounts}: {results.with_corpus(f'{broken:,} states broken') if is_broken else results.verdict}",
        _verdict(results),
        exit_code,
        _document(results, places),
        results.command,
        facts,
        list(_blocks(results, places, timelines, tried)),
        [_case_json(one, results, places) for one in tried],
        results.seconds,  # the total, because several test cases can share a checked state
    )


def _document(results: ProbeResults, places: Places) -> dict[str, Any]:
    document = probed_json(
        results.record, results.check, results.limit, results.found, results.findings, places, list(results.allowed)
    )
    if results.recoveries is not None:
        document["recoveries"] = recoveries_json(results.recoveries, results.recovered, places)
    if results.reruns is not None:
        document["reruns"] = reruns_json(results.reruns, results.differing, places)
    document["notes"] = results.notes
    if results.found.points_of:
        document["points_of"] = results.found.points_of
    if results.reduced:
        document["reduced_limit"] = {"checks": results.reduced, "timed_out": results.assumed}
    if results.baseline:
        _mark_known(document, results)
    if results.record.rules:
        document["asked_rules"] = [list(one) for one in results.record.rules]
    if results.crash_rules:
        document["crash_rules"] = dict(results.crash_rules)
    if separate := results.record.separate_disks:
        document["separate_disks"] = {named(one.path): one.profile or None for one in separate}
        document["combinations"] = {"tried": results.found.combined, "possible": results.found.combinations}
    if results.ended:
        document["ended"] = results.ended
    if results.corpus is not None:
        document["corpus"] = results.corpus.to_json()
    return document


def _mark_known(document: dict[str, Any], results: ProbeResults) -> None:
    parts = [document, *(document[name] for name in ("recoveries", "reruns") if name in document)]
    for breach in chain.from_iterable(part["breaches"] for part in parts):
        if breach["signature"] in results.baseline:
            breach["known"] = results.baseline[breach["signature"]]
    names = {"known": dict.fromkeys(results.known(results.signatures)), "gone": results.gone}
    document["baseline"] = {
        what: {signature: results.baseline[signature] for signature in signatures} for what, signatures in names.items()
    }


def _verdict(results: ProbeResults) -> Verdict:
    found, breaches = results.found, results.breaches()
    broken = sum(count.broken for count in found.counts.values())
    if breaches:
        text = breaches[0].finding.signature if results.new_kinds == 1 else f"Broken in {results.new_kinds} ways"
        causes = "crashes or damage" if found.damage else "crashes"
        more = f"{broken:,} of {found.states:,} states that {causes} may leave are broken"
        return Verdict(Tone.BROKEN, text, ((more,) if broken else ()) + tuple(results.gaps))
    if results.gaps:
        return Verdict(Tone.UNSURE, results.verdict[0].upper() + results.verdict[1:])
    if results.signatures:
        return Verdict(Tone.HELD, results.verdict[0].upper() + results.verdict[1:])
    if results.is_sample:
        tried = points_text(found.points, found.points_of)
        return Verdict(Tone.HELD, "No promise was broken in this sample", (f"It has {tried}",))
    if not results.record.acknowledged:
        return Verdict(Tone.HELD, "Every state was accepted", ("The program promised nothing: no line was printed",))
    return Verdict(Tone.HELD, "Every promise held")


# -- crashes, recoveries and reruns -----------------------------------------------------------------------------------


class _TriedCounts(NamedTuple):
    name: str
    points: int
    states: int
    breaches: list[ProbeBreach]
    gaps: list[str]
    """Requested checks without a verdict."""
    known: list[str]
    """Signatures of known breaches."""


def _tried_counts(results: ProbeResults) -> Iterator[_TriedCounts]:
    breaches, recoveries, reruns = results.breaches(), results.recoveries, results.reruns
    of_program = [one for one in breaches if not one.finding.kind]
    for disk, count in results.found.counts.items():
        broken = [one for one in of_program if disk in one.disks]
        known = [one for one in results.known(results.found.breaches) if disk in results.found.breaches[one].disks]
        yield _TriedCounts(disk, count.crashes, count.states, broken, results.crash_gaps, known)
    if recoveries is not None:
        broken = [one for one in breaches if one.finding.kind == RECOVERY]
        known = results.known(recoveries.breaches)
        yield _TriedCounts(
            "crashes in recovery", recoveries.points, recoveries.states, broken, results.recovery_gaps, known
        )
    if reruns is not None:
        broken = [one for one in breaches if one.finding.kind not in ("", RECOVERY)]
        known = list(dict.fromkeys(results.known(results.rerun_signatures)))
        ways = (("faults at calls", [*reruns.enabled, *reruns.rules]), ("other orders of threads", reruns.seeds))
        name = " and ".join(name for name, is_tried in ways if is_tried)
        yield _TriedCounts(name, reruns.points, reruns.states, broken, results.rerun_gaps, known)


def _case_json(tried: _TriedCounts, results: ProbeResults, places: Places) -> Case:
    outcomes = []
    if tried.breaches:
        texts = [plain_text(one.text(places.get(one.key))) for one in tried.breaches]
        message = "; ".join(dict.fromkeys(one.finding.signature for one in tried.breaches))
        outcomes.append(Outcome("failure", "broken", message, "\n\n".join(texts)))
    elif tried.gaps:
        outcomes.append(Outcome("error", "not finished", "; ".join(tried.gaps), "\n".join(results.gaps)))
    elif tried.known:
        reasons = [f"{signature}: {results.baseline[signature]}" for signature in tried.known]
        outcomes.append(Outcome("skipped", "known", "; ".join(reasons)))
    subject = f"program: {shlex.join(results.record.program)}, check: {results.check.name}"
    return Case(tried.name, 0.0, {"crash points": tried.points, "states": tried.states}, outcomes, subject)


# -- blocks ----------------------------------------------------------------------------------------


def _blocks(
    results: ProbeResults, places: Places, timelines: Timelines, tried: list[_TriedCounts]
) -> Iterator[ResultBlock]:
    record, found = results.record, results.found
    breaches = results.breaches()
    notes = [f"note: {note}" for note in results.notes]
    yield Lines("", On.TERMINAL, lines=notes)
    yield _broken_table(results)
    yield _page_failures(results, places, timelines)
    yield _disks_table(results)
    if found.damage:
        yield _damage_table(results)
    counts = f"{count_text(found.states, 'state')}, {count_text(len(found.images), 'different image')}"
    checks = f"{count_text(found.judged, 'check')} of an image with the promises before its crash"
    lines = [f"{counts}, {checks}, in {found.seconds:.1f} s"]
    lines += separate_disk_lines(results)
    lines += rule_lines(results)
    if found.never_injected:
        lines.append(f"never occurred on these disks: {', '.join(found.never_injected)}")
    if results.reduced:
        lines.append(
            f"a check timed out, so {count_text(results.reduced, 'later check')} had a reduced time limit: "
            f"{results.assumed:,} exceeded it and count as time-outs, confirmed once per disk with the whole limit"
        )
    if results.recoveries is not None:
        lines += recovery_lines(results.recoveries, results)
    if results.reruns is not None:
        lines += rerun_lines(results.reruns, results)
    yield Lines("", _SHOWN, lines=lines)
    yield Lines("", _SHOWN | On.SUMMARY, lines=list(baseline_lines(results)))
    yield Lines("", _SHOWN | On.SUMMARY, lines=[] if results.corpus is None else results.corpus.lines)
    rows = [Row((one.name, one.points, one.states, len(one.breaches)), bool(one.breaches)) for one in tried]
    figures = ("crash points", "states", "kinds of violation")
    yield ResultTable("Tried", On.SUMMARY, texts=("tried",), figures=figures, rows=rows)
    more = results.new_kinds - len(breaches)
    note = f"and {kinds_of_breach(more)} more, which --json lists" if more else ""
    brief = [one.text(places.get(one.key)) for one in breaches]
    yield Failures("Failures", On.ALARM | On.SUMMARY, "", note, [FailureGroup(brief)])
    lines = results.check_output.splitlines()
    shown_lines = lines[-_OUTPUT_LINES_MAX:]
    if len(lines) > len(shown_lines):
        shown_lines.insert(0, f"… {len(lines) - len(shown_lines):,} earlier lines")
    yield Lines("not finished", On.ALARM | On.SUMMARY, lines=results.gaps, style="yellow")
    note = "The probe shows nothing about these."
    yield Lines("Not tried", On.PAGE, "not-tried", note, list(untried_text(results)))
    note = "File operations of the program and its children; bars are logarithmic."
    yield Bars("Recorded steps", On.PAGE, "recorded", note, _recorded_text(record))
    if found.never_injected:
        yield Lines("Never", On.SUMMARY, lines=[", ".join(found.never_injected)])
    yield Lines("Output of the check for all states", On.STDERR | On.PAGE, "check-output", lines=shown_lines)


def _page_failures(results: ProbeResults, places: Places, timelines: Timelines) -> Failures:
    note = "The most severe case of each kind, if possible after a promise, with as few losses as possible."
    groups = []
    for number, one in enumerate(results.breaches(), 1):
        place = places.get(one.key)
        links = [("timeline", timelines.get(one.key, ""))]
        if place is not None:
            kept = f"failures/{place.name}"
            links += [("failure file", f"{kept}/failure.json"), ("crash image", f"{kept}/files")]
        text = replace(
            one.text(place, in_full=True),
            anchor=f"failure-{number}",
            links=[(words, target) for words, target in links if target],
        )
        groups.append(FailureGroup([text]))
    return Failures("Failures", On.PAGE, "failures", note, groups)


def _broken_table(results: ProbeResults) -> ResultTable:
    groups: list[tuple[str, str, ViolationGroup]] = [("", *one) for one in results.found.in_order]
    if results.recoveries is not None:
        groups += [(RECOVERY, signature, breach.group) for signature, breach in results.recoveries.in_order]
    if results.reruns is not None:
        groups += [(kind, signature, breach.group) for (kind, signature), breach in results.reruns.in_order]
    numbers = {one.key: number for number, one in enumerate(results.breaches(), 1)}
    rows = []
    for kind, signature, group in groups[:_ROWS_MAX]:
        number = numbers.get((kind, signature))
        known = f"known: {results.baseline[signature]}" if signature in results.baseline else ""
        name = TableCell(signature, known, link="" if number is None else f"failure-{number}")
        by = "a crash in recovery" if kind == RECOVERY else kind or "a crash"
        by = "damage at rest" if group.smallest.disk in AT_REST else by
        disks = dict.fromkeys([group.smallest.disk, *group.disks])
        figures = (group.states, len(group.points), group.smallest.losses)
        rows.append(Row((name, by, ",\n".join(disks), *figures), is_bad=signature not in results.baseline))
    more = len(groups) - _ROWS_MAX
    if more > 0:
        rows.append(Row((f"and {kinds_of_breach(more)} more",), is_open=True))
    columns = ("states", "crash\npoints", "losses")
    return ResultTable("What broke", _SHOWN, "broke", "", ("message", "cause", "disks"), columns, rows)


def _disks_table(results: ProbeResults) -> ResultTable:
    rows = []
    for disk, count in results.found.counts.items():
        figures = (count.crashes, count.exhausted, count.cut, count.states)
        broken = TableCell(count.broken, is_bad=count.broken > 0)
        summary = DAMAGES[disk].summary if disk in AT_REST else PROFILES[disk].summary
        rows.append(Row((TableCell(disk, summary), *figures, broken), count.broken > 0))
    note = (
        f"tornlog simulated each kind of crash at each crash point. {results.check.name} checked each different image"
        " against the promises made before the crash."
    )
    columns = ("crashes", "fully\nexplored", "over\n--limit", "states", "broken")
    return ResultTable("Crashes", _SHOWN, "disks", note, ("disk",), columns, rows)


def _damage_table(results: ProbeResults) -> ResultTable:
    rows = []
    for (disk, path), count in sorted(results.found.damage.items()):
        unnoticed = TableCell(count.unnoticed, is_bad=count.unnoticed > 0)
        rows.append(
            Row((disk, named(path), count.states, count.noticed, unnoticed, count.harmless), count.unnoticed > 0)
        )
    note = "Noticed: the program reported the damage. Unnoticed: it used wrong data. Harmless: no promise was broken."
    columns = ("states", "noticed", "unnoticed", "harmless")
    return ResultTable("Damage at rest", _SHOWN, "damage", note, ("damage", "file"), columns, rows)


# -- blocks that only the page has --------------------------------------------------------------------------------


def _recorded_text(record: ProgramRecord) -> list[Group]:
    names = file_names(record)
    files = Counter(names.get(step.file, f"file {step.file}") for step in record.steps if step.file >= 0)
    groups = [
        bar_group("steps", Counter(step.kind for step in record.steps)),
        _highest_bars("by thread", Counter(_thread_name(record, step) for step in record.steps)),
        _highest_bars("by file", files),
    ]
    calls = Counter(step.call for step in record.steps if step.call)
    return [*groups, bar_group("by system call", calls)] if calls else groups


def _highest_bars(title: str, counts: Counter[str]) -> Group:
    left_out = len(counts) - _BARS_SHOWN_MAX
    more = f", without {count_text(left_out, 'other')}" if left_out > 0 else ""
    return bar_group(title + more, dict(counts.most_common(_BARS_SHOWN_MAX)))


def _thread_name(record: ProgramRecord, step: Step) -> str:
    return task_name(record, step).removeprefix("by ") or record.tasks[step.by].name or "the program"
