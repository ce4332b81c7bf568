"""The page of `tornlog probe`: what was recorded, which crashes were tried, what broke and how, what was not tried."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from ...faults.crashes.profiles import PROFILES
from ...faults.probe.failure import RECOVERY
from ...faults.probe.probe import DiskCount
from ...faults.probe.record import ProgramRecord, Step
from ...faults.probe.shrink import loss_note
from ...faults.probe.story import crash_text, file_name, step_text, story, task_name
from .coverage import Group, bar_group
from .probe_results import ProbeBreach, ProbeLinks, ProbeResults, amount
from .render import Facts, PageVerdict, counted, figure, render

_BARS_SHOWN_MAX = 20
_LOSSES_SHOWN_MAX = 20
_SAID_LINES_MAX = 30
_OPENED = 3


class LossRow(NamedTuple):
    """Something that a crash took, and the step that had made it."""

    what: str
    by: str


class ProbeFailureText(NamedTuple):
    """One finding."""

    anchor: str
    signature: str
    by: str
    """What brought it about, in a word or two."""
    how: str
    about: str
    breach: ProbeBreach
    lines: list[str]
    recovery: tuple[str, ...]
    crash: str
    note: str
    """What there is to say of losses that is not one of them."""
    losses: list[LossRow]
    more_losses: int
    acknowledged: list[str]
    story: list[str]
    links: ProbeLinks


class DiskRow(NamedTuple):
    """One kind of crash."""

    name: str
    meaning: str
    counts: DiskCount


def probe_page(results: ProbeResults) -> str:
    """Return the page, as HTML."""
    failures = [_failure(number, one, results) for number, one in enumerate(results.breaches())]
    disks = [DiskRow(name, PROFILES[name].summary, count) for name, count in results.found.counts.items()]
    not_tried = list(_not_tried(results))
    sections = [
        ("broke", "What broke", failures),
        ("disks", "Crashes", True),
        ("recorded", "What was recorded", True),
        ("failures", "Failures", failures),
        ("not-tried", "What was not tried", not_tried),
        ("said", "What the check wrote", results.said),
    ]
    return render(
        "probe.html",
        "probe",
        _verdict(results, failures),
        results.command,
        _facts(results),
        sections,
        check=results.check.name,
        failures=failures,
        opened=_OPENED,
        more_failures=results.kinds - len(failures),
        disks=disks,
        more_crashes=list(_more_crashes(results)),
        recorded=_recorded(results),
        not_tried=not_tried,
        said=results.said.splitlines()[-_SAID_LINES_MAX:],
    )


def _verdict(results: ProbeResults, failures: list[ProbeFailureText]) -> PageVerdict:
    found = results.found
    broken = sum(count.broken for count in found.counts.values())
    if failures:
        text = failures[0].signature if results.kinds == 1 else f"Broken in {results.kinds} ways"
        more = f"{figure(broken)} of {figure(found.states)} states that crashes may leave are broken"
        return PageVerdict("broken", text, ((more,) if broken else ()) + tuple(results.gaps))
    if results.gaps:
        return PageVerdict("unsure", results.verdict[0].upper() + results.verdict[1:])
    if not results.record.acknowledged:
        return PageVerdict("held", "Every state was accepted", ("The program promised nothing: no line was printed",))
    return PageVerdict("held", "Every promise held")


def _facts(results: ProbeResults) -> Facts:
    record, found = results.record, results.found
    return [
        ("steps recorded", figure(len(record.steps))),
        ("promises", figure(len(record.acknowledged))),
        ("processes", figure(len({task.process for task in record.tasks}))),
        ("threads", figure(len(record.tasks))),
        ("crash points", figure(found.points)),
        ("states", figure(found.states)),
        ("different ones", figure(len(found.images))),
        ("checked", figure(found.judged)),
        ("seconds", f"{results.seconds:,.1f}"),
    ]


def _recorded(results: ProbeResults) -> list[Group]:
    """Return what was recorded: steps by kind, system call, thread and file."""
    record = results.record
    files = Counter(file_name(record, step.file) for step in record.steps if step.file >= 0)
    groups = [
        bar_group("steps", Counter(step.kind for step in record.steps)),
        _most("by thread", Counter(_who(record, step) for step in record.steps)),
        _most("by file", files),
    ]
    calls = Counter(step.call for step in record.steps if step.call)
    return [*groups, bar_group("by system call", calls)] if calls else groups


def _most(title: str, counts: Counter[str]) -> Group:
    """Return those that come most often as bars."""
    left_out = len(counts) - _BARS_SHOWN_MAX
    more = f", without {counted(left_out, 'other')}" if left_out > 0 else ""
    return bar_group(title + more, dict(counts.most_common(_BARS_SHOWN_MAX)))


def _who(record: ProgramRecord, step: Step) -> str:
    return task_name(record, step).removeprefix("by ") or record.tasks[step.by].name or "the program"


def _failure(number: int, breach: ProbeBreach, results: ProbeResults) -> ProbeFailureText:
    finding, case = breach.finding, breach.finding.shown.case
    record, losses = finding.record, finding.shown.losses
    if finding.kind == RECOVERY:
        how = "a crash in recovery"
    else:
        how = f"with {finding.rerun}" if finding.rerun else "a crash"
    crash = crash_text(record, case.point, case.disk)
    return ProbeFailureText(
        f"failure-{number + 1}",
        finding.signature,
        "a crash in recovery" if finding.kind == RECOVERY else finding.kind or "a crash",
        how,
        f"on {case.disk}, {crash}",
        breach,
        list(case.verdict.lines),
        finding.recovery,
        f"{crash}, on {case.disk}",
        loss_note(record, case, losses),
        [LossRow(loss.what, step_text(record, loss.step).strip()) for loss in losses[:_LOSSES_SHOWN_MAX]],
        len(losses[_LOSSES_SHOWN_MAX:]),
        record.acknowledged[: case.point.acknowledged],
        list(story(record, case.point.step)),
        results.links[finding.kind, finding.signature],
    )


def _more_crashes(results: ProbeResults) -> Iterator[str]:
    """Yield what else was tried than crashes of the program as it ran."""
    recoveries, reruns = results.recoveries, results.reruns
    if recoveries is not None:
        yield (
            f"Crashes in recovery: {figure(recoveries.recorded)} recoveries, {figure(recoveries.writing)} of them "
            f"write, {figure(recoveries.points)} crash points, {figure(recoveries.states)} states, "
            f"{figure(recoveries.judged)} checked."
        )
    if reruns is not None:
        yield (
            f"Run again: {figure(reruns.runs)} runs, {figure(reruns.failed)} ended with an error, "
            f"{figure(reruns.points)} crash points, {figure(reruns.states)} states, {figure(reruns.judged)} checked."
        )
        if reruns.injected:
            times = ", ".join(f"{kind} {figure(count)}" for kind, count in reruns.injected.items())
            yield f"Faults at calls: {times}."
        if reruns.seeds:
            yield (
                f"Orders of threads: {counted(reruns.seeds, 'seed')}, {counted(reruns.orders, 'other order')}, "
                f"by {counted(reruns.choices, 'choice')}."
            )


def _not_tried(results: ProbeResults) -> Iterator[str]:
    """Yield what silence proves nothing about."""
    yield from (f"{gap[0].upper()}{gap[1:]}." for gap in results.gaps)
    found, recoveries, reruns = results.found, results.recoveries, results.reruns
    if not results.record.acknowledged:
        yield "The program promised nothing, so nothing could be missing that it had promised."
    for disk, count in found.counts.items():
        if count.cut:
            yield f"On {disk} --limit {results.limit} left states of {counted(count.cut, 'crash point')} untried."
        elif count.exhausted < count.crashes:
            yield (
                f"On {disk} all states of {figure(count.exhausted)} of {counted(count.crashes, 'crash point')} were "
                "tried; of the others all that one loss alone leaves, and some of the rest."
            )
    if found.never_injected:
        yield f"Never happened, though the disks and the program allow it: {', '.join(found.never_injected)}."
    others = [name for name in PROFILES if name not in found.counts and name != "nothing-lost"]
    if others:
        yield f"Other kinds of crash (--disk): {', '.join(others)}."
    if recoveries is None:
        yield "Crashes while the check recovers (--recovery-crashes 1)."
    else:
        for why, times in recoveries.refused.items():
            yield f"{amount(times, 'recovery', 'recoveries')} could not be recorded: {why}"
    if reruns is None or not reruns.enabled:
        yield "Calls that fail (--faults errors)."
    if reruns is None or not reruns.seeds:
        yield "Other orders of the program's threads and processes (--seeds 20): one run is one order."
    if reruns is not None:
        if reruns.never_injected:
            yield f"Faults that no call could meet: {', '.join(reruns.never_injected)}."
        if reruns.cut:
            yield f"Faults at calls behind the first ones (--fault-runs): {', '.join(reruns.cut)}."
        for why, controls in reruns.discarded.items():
            yield f"{counted(len(controls), 'run')} could not be recorded ({', '.join(map(str, controls))}): {why}"
    yield from (f"Not recorded, by --allow: {one}" for one in results.allowed)
