"""The result of `tornlog probe`: lists breaches, crashes by disk, steps, and untested parts."""

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
from ....faults.probe.recovery import Recoveries
from ....faults.probe.report import ViolationGroup
from ....faults.probe.reruns import Reruns
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
from .breach_text import ProbeBreach
from .results import ProbeResults, kinds_of_breach, points_text

_BARS_SHOWN_MAX = 20
_ROWS_MAX, _REASONS_SHOWN_MAX, _DISCARDED_SHOWN_MAX = 20, 3, 5
_SAID_LINES_MAX = 20
_SHOWN = On.TERMINAL | On.PAGE
Timelines = Mapping[tuple[str, str], str]
"""Paths of timeline pages relative to the report, by kind and signature of a finding."""


def probe_result(results: ProbeResults, places: Places, timelines: Timelines, exit_code: int) -> Result:
    """Return the result of a probe. places: the directory of each failure."""
    record, found = results.record, results.found
    facts = [
        ("steps recorded", f"{len(record.steps):,}"),
        ("promises", f"{len(record.acknowledged):,}"),
        *([("refused operations", f"{results.refusals:,}")] if results.takes_refusals else []),
        ("processes", f"{len({task.process for task in record.tasks}):,}"),
        ("threads", f"{len(record.tasks):,}"),
        ("crash points", f"{found.points:,}"),
        ("states", f"{found.states:,}"),
        ("distinct states", f"{len(found.images):,}"),
        ("checked", f"{found.judged:,}"),
        ("seconds", f"{results.seconds:,.1f}"),
    ]
    points = points_text(found.points, found.points_of)
    amounts = f"{found.operations:,} operations, {len(record.acknowledged):,} promises, {points}"
    tried = list(_tried(results))
    broken = sum(count.broken for count in found.counts.values())
    return Result(
        "probe",
        f"{amounts}: {f'{broken:,} states broken' if broken and results.new_kinds else results.verdict}",
        _verdict(results),
        exit_code,
        _document(results, places),
        results.command,
        facts,
        list(_blocks(results, places, timelines, tried)),
        [_case(one, results, places) for one in tried],
        results.seconds,  # the total: a state that several test cases share is checked once
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
    if results.ended:
        document["ended"] = results.ended
    return document


def _mark_known(document: dict[str, Any], results: ProbeResults) -> None:
    """Add the reasons of known breaches."""
    parts = [document, *(document[name] for name in ("recoveries", "reruns") if name in document)]
    for breach in chain.from_iterable(part["breaches"] for part in parts):
        if breach["signature"] in results.baseline:
            breach["known"] = results.baseline[breach["signature"]]
    names = {"known": dict.fromkeys(results.known(results.signatures)), "gone": results.gone}
    document["baseline"] = {
        what: {signature: results.baseline[signature] for signature in signatures} for what, signatures in names.items()
    }


def _baseline_lines(results: ProbeResults) -> Iterator[str]:
    for signature in dict.fromkeys(results.known(results.signatures)):
        yield f"known: {signature}: {results.baseline[signature]}"
    is_partial = bool(results.gaps) or results.is_sample
    for signature in results.gone:
        what = "not found in what was tried" if is_partial else "gone"
        yield f"{what}: {signature}: {results.baseline[signature]}"


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


class _Tried(NamedTuple):
    name: str
    points: int
    states: int
    breaches: list[ProbeBreach]
    gaps: list[str]
    """Requested checks without a verdict."""
    known: list[str]
    """Signatures of known breaches."""


def _tried(results: ProbeResults) -> Iterator[_Tried]:
    breaches, recoveries, reruns = results.breaches(), results.recoveries, results.reruns
    of_program = [one for one in breaches if not one.finding.kind]
    for disk, count in results.found.counts.items():
        broken = [one for one in of_program if disk in one.disks]
        known = [one for one in results.known(results.found.breaches) if disk in results.found.breaches[one].disks]
        yield _Tried(disk, count.crashes, count.states, broken, results.crash_gaps, known)
    if recoveries is not None:
        broken = [one for one in breaches if one.finding.kind == RECOVERY]
        known = results.known(recoveries.breaches)
        yield _Tried("crashes in recovery", recoveries.points, recoveries.states, broken, results.recovery_gaps, known)
    if reruns is not None:
        broken = [one for one in breaches if one.finding.kind not in ("", RECOVERY)]
        known = list(dict.fromkeys(results.known(results.rerun_signatures)))
        ways = (("faults at calls", reruns.enabled), ("other orders of threads", reruns.seeds))
        name = " and ".join(name for name, is_tried in ways if is_tried)
        yield _Tried(name, reruns.points, reruns.states, broken, results.rerun_gaps, known)


def _case(tried: _Tried, results: ProbeResults, places: Places) -> Case:
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
    said = f"program: {shlex.join(results.record.program)}, check: {results.check.name}"
    return Case(tried.name, 0.0, {"crash points": tried.points, "states": tried.states}, outcomes, said)


# -- blocks ----------------------------------------------------------------------------------------


def _blocks(results: ProbeResults, places: Places, timelines: Timelines, tried: list[_Tried]) -> Iterator[ResultBlock]:
    record, found = results.record, results.found
    breaches = results.breaches()
    notes = [f"note: {note}" for note in results.notes]
    yield Lines("", On.TERMINAL, lines=notes)
    yield _broken_table(results)
    yield _page_failures(results, places, timelines)
    yield _disks_table(results)
    if found.damage:
        yield _damage_table(results)
    counts = f"{found.states:,} states, {len(found.images):,} distinct, "
    lines = [f"{counts}{found.judged:,} checked against the promises made before the crash, in {found.seconds:.1f} s"]
    if found.never_injected:
        lines.append(f"never occurred on these disks: {', '.join(found.never_injected)}")
    if results.reduced:
        lines.append(
            f"a check timed out, so {count_text(results.reduced, 'later check')} had a reduced time limit: "
            f"{results.assumed:,} exceeded it and count as time-outs, confirmed once per disk with the whole limit"
        )
    if results.recoveries is not None:
        lines += _recovery_lines(results.recoveries, results)
    if results.reruns is not None:
        lines += _rerun_lines(results.reruns, results)
    yield Lines("", _SHOWN, lines=lines)
    yield Lines("", _SHOWN | On.SUMMARY, lines=list(_baseline_lines(results)))
    rows = [Row((one.name, one.points, one.states, len(one.breaches)), bool(one.breaches)) for one in tried]
    figures = ("crash points", "states", "kinds of breach")
    yield ResultTable("Tried", On.SUMMARY, texts=("tried",), figures=figures, rows=rows)
    more = results.new_kinds - len(breaches)
    note = f"and {kinds_of_breach(more)} more, which --json lists" if more else ""
    brief = [one.text(places.get(one.key)) for one in breaches]
    yield Failures("Failures", On.ALARM | On.SUMMARY, "", note, [FailureGroup(brief)])
    lines = results.said.splitlines()
    said = lines[-_SAID_LINES_MAX:]
    if len(lines) > len(said):
        said.insert(0, f"… {len(lines) - len(said):,} earlier lines")
    yield Lines("not finished", On.ALARM | On.SUMMARY, lines=results.gaps, style="yellow")
    note = "The probe shows nothing about these."
    yield Lines("Not tried", On.PAGE, "not-tried", note, list(_not_tried(results)))
    note = "File operations of the program and its children; bars are logarithmic."
    yield Bars("Recorded steps", On.PAGE, "recorded", note, _recorded(record))
    if found.never_injected:
        yield Lines("Never", On.SUMMARY, lines=[", ".join(found.never_injected)])
    yield Lines("Output of the check for all states", On.STDERR | On.PAGE, "said", lines=said)


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
    return ResultTable("What broke", _SHOWN, "broke", "", ("what", "by", "disks"), columns, rows)


def _disks_table(results: ProbeResults) -> ResultTable:
    rows = []
    for disk, count in results.found.counts.items():
        figures = (count.crashes, count.exhausted, count.cut, count.states)
        broken = TableCell(count.broken, is_bad=count.broken > 0)
        summary = DAMAGES[disk].summary if disk in AT_REST else PROFILES[disk].summary
        rows.append(Row((TableCell(disk, summary), *figures, broken), count.broken > 0))
    note = (
        f"The program crashed at each crash point, with each kind of crash, and {results.check.name} checked each"
        " distinct state that may be left against the promises made before the crash."
    )
    columns = ("crashes", "fully\nexplored", "cut by\n--limit", "states", "broken")
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


def _recovery_lines(recoveries: Recoveries, results: ProbeResults) -> Iterator[str]:
    is_sample, points = recoveries.points < recoveries.points_of, points_text(recoveries.points, recoveries.points_of)
    verdict = results.verdict_on(list(recoveries.breaches), results.recovery_gaps, is_sample=is_sample)
    yield (
        f"crashes in recovery: {recoveries.recorded:,} recoveries, {recoveries.writing:,} of them write, "
        f"{points}, {recoveries.states:,} states, {recoveries.judged:,} checked: {verdict}"
    )
    for reason, times in recoveries.refused.most_common(_REASONS_SHOWN_MAX):
        yield f"  {count_text(times, 'recovery', 'recoveries')} could not be recorded: {reason}"
    if recoveries.refused and results.hint:
        yield f"  {results.hint}"


def _rerun_lines(reruns: Reruns, results: ProbeResults) -> Iterator[str]:
    is_sample, points = reruns.points < reruns.points_of, points_text(reruns.points, reruns.points_of)
    verdict = results.verdict_on(results.rerun_signatures, results.rerun_gaps, is_sample=is_sample)
    refused = f", {count_text(reruns.refusals, 'operation')} refused" if results.takes_refusals else ""
    yield (
        f"run again: {reruns.runs:,} runs, {reruns.failed:,} ended with an error{refused}, "
        f"{points}, {reruns.states:,} states, {reruns.judged:,} checked: {verdict}"
    )
    if reruns.injected:
        yield f"  faults at calls: {', '.join(f'{kind} {times:,}' for kind, times in reruns.injected.items())}"
    if reruns.never_injected:
        yield f"  never injected, as no call fits: {', '.join(reruns.never_injected)}"
    if reruns.cut:
        yield f"  injected only at the first calls, limited by --fault-runs: {', '.join(reruns.cut)}"
    if reruns.seeds:
        hurry = f", {reruns.hurried:,} of them while another thread still ran" if reruns.hurried else ""
        yield f"  {reruns.seeds:,} seeds, {reruns.orders:,} other orders, with {reruns.choices:,} choices{hurry}"
    for reason, controls in list(reruns.discarded.items())[:_REASONS_SHOWN_MAX]:
        names = ", ".join(map(str, controls[:_DISCARDED_SHOWN_MAX]))
        more = ", …" if len(controls) > _DISCARDED_SHOWN_MAX else ""
        yield f"  {count_text(len(controls), 'run')} could not be recorded ({names}{more}): {reason}"


# -- blocks that only the page has --------------------------------------------------------------------------------


def _recorded(record: ProgramRecord) -> list[Group]:
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
    """Return the highest counts as bars."""
    left_out = len(counts) - _BARS_SHOWN_MAX
    more = f", without {count_text(left_out, 'other')}" if left_out > 0 else ""
    return bar_group(title + more, dict(counts.most_common(_BARS_SHOWN_MAX)))


def _thread_name(record: ProgramRecord, step: Step) -> str:
    return task_name(record, step).removeprefix("by ") or record.tasks[step.by].name or "the program"


def _not_tried(results: ProbeResults) -> Iterator[str]:
    yield from (f"{gap[0].upper()}{gap[1:]}." for gap in results.gaps)
    found, recoveries, reruns = results.found, results.recoveries, results.reruns
    if found.is_sample:
        yield f"{found.points_of - found.points:,} of {found.points_of:,} crash points, by --points."
    if not results.record.acknowledged:
        yield "The program acknowledged no data, so lost data could not be detected."
    for disk, count in found.counts.items():
        if disk in AT_REST:
            yield f"On {disk} only the first, the middle and the last synced page of each file were damaged."
        if count.cut:
            yield f"On {disk} --limit {results.limit} left states of {count_text(count.cut, 'crash point')} untried."
        elif count.exhausted < count.crashes and disk not in AT_REST:
            yield (
                f"On {disk} all states of {count.exhausted:,} of {count_text(count.crashes, 'crash point')} were "
                "tried; for the others, all states with a single loss, and some more."
            )
    if found.never_injected:
        yield f"Faults that could occur but did not: {', '.join(found.never_injected)}."
    others = [name for name in PROFILES if name not in found.counts and name != "nothing-lost"]
    if others:
        yield f"Other kinds of crash (--disk): {', '.join(others)}."
    damages = [name for name in DAMAGES if name not in found.counts]
    if damages:
        yield f"Damage at rest (--disk): {', '.join(damages)}."
    if recoveries is None:
        yield "Crashes during recovery by the check (--recovery-crashes 1)."
    else:
        for why, times in recoveries.refused.items():
            yield f"{count_text(times, 'recovery', 'recoveries')} could not be recorded: {why}"
    if reruns is None or not reruns.enabled:
        yield "Failing calls (--faults errors)."
    if reruns is None or not reruns.seeds:
        yield "Other orders of the program's threads and processes (--seeds 20)."
    if reruns is not None:
        if reruns.never_injected:
            yield f"Faults that fit no call: {', '.join(reruns.never_injected)}."
        if reruns.cut:
            yield f"Faults at calls after the first ones (--fault-runs): {', '.join(reruns.cut)}."
        for why, controls in reruns.discarded.items():
            yield f"{count_text(len(controls), 'run')} could not be recorded ({', '.join(map(str, controls))}): {why}"
    yield from (f"Not recorded, by --allow: {one}" for one in results.allowed)
