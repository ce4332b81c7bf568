"""Live probe (`probe --restart`): runs machines with power cuts and pauses."""

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, NoReturn

import typer

from ....faults.crashes.profiles import PROFILES
from ....faults.probe import DISKS
from ....faults.probe.failure import directory_names
from ....faults.probe.live.campaign import NO_SEED, LiveFinding, LiveReport, event_json, run_live, write_finding
from ....faults.probe.live.schedule import CUT, CompletedEvent, LivePlan
from ....faults.probe.programs import STORES, runnable_command
from ....faults.probe.recording.run import EMPTY, ProgramError, start_image_of
from ....faults.probe.tracing.run import require_recordable
from ....faults.simulation.failure_text import FailureText, LineKind, TextLine, plain_text
from ...quantities import count_text
from ...results.model import (
    Case,
    FailureGroup,
    Failures,
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
)
from ...results.output import write_result_and_exit
from ..console import show_progress
from ..options import (
    EXIT_BROKEN,
    EXIT_HARNESS,
    EXIT_HELD,
    command_line,
    disks_named,
    is_option_given,
    refuse_options,
    results_written,
)
from .command import ProbeOptions
from .recording import check_given, machines_named

FORMAT = "tornlog-live/1"
SEEDS = 20
"""Default number of live runs."""
_OTHER_OPTIONS = (
    *("limit", "points", "jobs", "record", "stacks", "recovery_crashes", "faults", "fault_runs", "inject", "allow"),
    *("policy", "baseline", "write_baseline", "reason", "master", "ship", "conf", "corpus", "no_corpus", "timeline"),
    "disk_of",
)
_VIOLATIONS_MAX, _SEEDS_MAX = 3, 10
_SHOWN = On.TERMINAL | On.PAGE


@dataclass(frozen=True, slots=True)
class _LiveShown:
    """The data of the result. places: signature -> directory of the finding."""

    plan: LivePlan
    report: LiveReport
    restart: str
    disks: list[str]
    command: str
    places: dict[str, Path]
    seconds: float

    @property
    def has_broken_without_events(self) -> bool:
        return any(found.seed == NO_SEED for found in self.report.findings.values())

    @property
    def gaps(self) -> list[str]:
        """Return reasons for missing verdicts."""
        report = self.report
        found = [f"seed {seed} has no verdict: {run.verdict.lines[0]}" for seed, run in report.discarded.items()]
        found += [f"seed {seed} had no cut, so it proves nothing" for seed in report.without_cut]
        if report.untried and not self.has_broken_without_events:
            found.append(f"{count_text(report.untried, 'seed')} not tried")
        return found

    def again(self, finding: LiveFinding) -> str:
        head, _, program = self.command.partition(" -- ")
        words = _without(shlex.split(head), ("--seeds", "--first-seed"))
        seed = [] if finding.seed == NO_SEED else ["--first-seed", str(finding.seed), "--seeds", "1"]
        return f"{shlex.join([*words, *seed])} -- {program}"


def _without(words: list[str], options: tuple[str, ...]) -> Iterator[str]:
    """Yield the words of a command line except some options and their values."""
    is_value = False
    for word in words:
        if not is_value and word not in options:
            yield word
        is_value = not is_value and word in options


def probe_live(options: ProbeOptions, program: list[str], exit_if_ended: Callable[[], int]) -> NoReturn:
    """Run the machines once per seed, write the result, and exit."""
    began = perf_counter()
    plan = _plan(options, program)
    disks = disks_named(options.disk or DISKS, tuple(PROFILES))
    count = options.seeds if is_option_given(options.context, "seeds") else SEEDS
    seeds = range(options.first_seed, options.first_seed + count)
    with show_progress("running live", count, ticks=False) as update:

        def on_progress(report: LiveReport, seed: int) -> None:
            facts = f"seed {seed}: {count_text(report.cuts, 'cut')}, {count_text(len(report.findings), 'finding')}"
            update(completed=seed - options.first_seed, facts=facts, refresh=True)

        try:
            report = run_live(
                plan, seeds, disks, options.events, stops_at_first=options.stop_at_first, on_progress=on_progress
            )
        except ProgramError as error:
            raise typer.BadParameter(f"the run without events has no verdict: {error}") from error
    shown = _LiveShown(
        plan,
        report,
        str(options.restart),
        disks,
        command_line(options.context, after_dashes="program"),
        {},
        perf_counter() - began,
    )
    if options.out is not None:
        with results_written("--out"):
            _write(shown, options.out)
    exit_code = EXIT_BROKEN if report.findings else EXIT_HELD
    if not report.findings and shown.gaps:
        exit_code = exit_if_ended() if report.untried else EXIT_HARNESS
    write_result_and_exit(
        _result(shown, exit_code),
        json_file=options.json_file,
        page=options.out,
        junit=options.junit,
        summary=options.summary,
    )


def _plan(options: ProbeOptions, program: list[str]) -> LivePlan:
    """Return the plan of the live runs. Raises BadParameter for unsuitable options."""
    refuse_options(options.context, _OTHER_OPTIONS, "not allowed with --restart")
    machines = machines_named(options.machine or ())
    if not machines:
        raise typer.BadParameter("expected at least one --machine NAME=DIR with --restart", param_hint="--restart")
    if not options.checks:
        raise typer.BadParameter("expected a check, which defines the promises of the program", param_hint="--check")
    if options.stores not in STORES:
        raise typer.BadParameter(f"expected one of {', '.join(STORES)}, found {options.stores}", param_hint="--stores")
    check = check_given(options.checks)
    try:
        require_recordable()
        words = shlex.split(str(options.restart))
        if not words:
            raise typer.BadParameter("expected a command, found nothing", param_hint="--restart")
        return LivePlan(
            runnable_command(program),
            machines,
            runnable_command(words),
            EMPTY if options.start is None else start_image_of(options.start),
            check,
            options.seconds,
            options.program_seconds,
            options.stores,
            options.refusals,
        )
    except ProgramError as error:
        raise typer.BadParameter(str(error)) from error
    except ValueError as error:
        raise typer.BadParameter(f"{options.restart}: {error}", param_hint="--restart") from error


def _write(shown: _LiveShown, out: Path) -> None:
    findings = shown.report.findings
    for (signature, finding), name in zip(findings.items(), directory_names(findings), strict=True):
        place = shown.places[signature] = out / "failures" / name
        write_finding(place, shown.plan, finding, shown.again(finding))
    for seed, run in shown.report.discarded.items():
        finding = LiveFinding(seed, run, [seed])
        write_finding(out / "discarded" / f"seed-{seed}", shown.plan, finding, shown.again(finding))


# -- result --------------------------------------------------------------------------------------------------------


def _result(shown: _LiveShown, exit_code: int) -> Result:
    report = shown.report
    facts = [
        ("machines", ", ".join(shown.plan.machines)),
        ("promises without events", f"{report.promises:,}"),
        ("live runs", f"{report.runs:,}"),
        ("power cuts", f"{report.cuts:,}"),
        ("pauses", f"{report.pauses:,}"),
    ]
    amounts = f"{count_text(report.runs, 'live run')}, {count_text(report.cuts, 'power cut')}"
    if report.pauses:
        amounts += f", {count_text(report.pauses, 'pause')}"
    return Result(
        "probe",
        f"{amounts}: {_finding(shown)}",
        _verdict(shown),
        exit_code,
        _document(shown),
        shown.command,
        facts,
        list(_blocks(shown)),
        [_case(shown)],
        shown.seconds,
    )


def _finding(shown: _LiveShown) -> str:
    report = shown.report
    if shown.has_broken_without_events:
        return "broken without a cut"
    if report.findings:
        broken = {seed for finding in report.findings.values() for seed in finding.seeds}
        return f"{count_text(len(broken), 'run')} broken"
    if shown.gaps:
        return f"no promise was broken, but {count_text(len(shown.gaps), 'gap')}"
    return "every promise held"


def _verdict(shown: _LiveShown) -> Verdict:
    findings = shown.report.findings
    if findings:
        text = next(iter(findings)) if len(findings) == 1 else f"Broken in {len(findings)} ways"
        return Verdict(Tone.BROKEN, text, (_finding(shown), *shown.gaps))
    text = _finding(shown)
    return Verdict(Tone.UNSURE if shown.gaps else Tone.HELD, text[0].upper() + text[1:], tuple(shown.gaps))


def _blocks(shown: _LiveShown) -> Iterator[ResultBlock]:
    report = shown.report
    if not report.promises:
        yield Lines("", _SHOWN, lines=["note: the run without events made no promise: no line was printed"])
    yield _broken_table(shown)
    rows = [
        Row((TableCell(name, place), report.steps[name].total, report.machines_cut[name]))
        for name, place in shown.plan.machines.items()
    ]
    note = "Steps are those of the run without events."
    yield ResultTable("Machines", _SHOWN, "machines", note, ("machine",), ("steps", "power\ncuts"), rows)
    yield Lines("", _SHOWN, lines=list(_count_lines(report)))
    texts = [_text(shown, signature, finding) for signature, finding in report.findings.items()]
    yield Failures("Failures", On.ALARM | On.SUMMARY | On.PAGE, "failures", groups=[FailureGroup(texts)])
    yield Lines("not finished", On.ALARM | On.SUMMARY | On.PAGE, lines=shown.gaps, style="yellow")


def _broken_table(shown: _LiveShown) -> ResultTable:
    rows = []
    for signature, finding in shown.report.findings.items():
        few = ", ".join("none" if seed == NO_SEED else str(seed) for seed in finding.seeds[:_SEEDS_MAX])
        more = ", …" if len(finding.seeds) > _SEEDS_MAX else ""
        rows.append(Row((signature, few + more, TableCell(len(finding.seeds), is_bad=True)), is_bad=True))
    return ResultTable("What broke", _SHOWN, "broke", "", ("message", "seeds"), ("runs",), rows)


def _count_lines(report: LiveReport) -> Iterator[str]:
    if report.cuts:
        late = f", {report.late:,} after the end of the program" if report.late else ""
        yield f"{count_text(report.cuts, 'power cut')}{late}; {report.losing:,} left an image that lost data"
        if not report.losing:
            yield "note: no image lost data, so only restarts were tested"


def _text(shown: _LiveShown, signature: str, finding: LiveFinding) -> FailureText:
    outcome = finding.outcome
    lines = [TextLine(LineKind.TEXT, line) for line in outcome.verdict.lines[:_VIOLATIONS_MAX]]
    more = len(outcome.verdict.lines) - _VIOLATIONS_MAX
    if more > 0:
        lines.append(TextLine(LineKind.TEXT, f"and {more:,} more like it"))
    if finding.seed == NO_SEED:
        lines.append(TextLine(LineKind.TEXT, "in the run without cuts and pauses"))
    else:
        lines.append(TextLine(LineKind.TEXT, f"with seed {finding.seed}"))
    for number, one in enumerate(outcome.completed_events, 1):
        lines += _event_lines(number, one)
    lines.append(TextLine(LineKind.TEXT, f"promises at the end: {len(outcome.answers.acknowledged):,}"))
    note = "the machines run freely between steps, so this repeats the events, and not each step"
    lines.append(TextLine(LineKind.TEXT, note))
    place = shown.places.get(signature)
    heading = "broken without a cut" if finding.seed == NO_SEED else "broken"
    return FailureText(signature, lines, shown.again(finding), heading=heading, files=str(place or ""))


def _event_lines(number: int, one: CompletedEvent) -> Iterator[TextLine]:
    event = one.event
    verb = f"power cut, on {event.disk}" if event.kind == CUT else f"pause of {event.ms / 1000:g} s"
    who = ", ".join(f"{name} after its step {steps:,}" for name, steps in one.steps.items())
    late = ", after the end of the program" if one.was_late else ""
    yield TextLine(LineKind.LABEL, f"event {number}, after {count_text(one.promises, 'promise')}{late}: {verb}")
    if event.kind != CUT:
        yield TextLine(LineKind.DETAIL, who)
        return
    for name, steps in one.steps.items():
        found = one.images[name]
        lost = f"{count_text(found.loss_count, 'loss', 'losses')}" if found.loss_count else "no data lost"
        first = f", first {found.losses[0]}" if found.losses else ""
        yield TextLine(LineKind.DETAIL, f"{name} after its step {steps:,}: {lost}{first}")


def _case(shown: _LiveShown) -> Case:
    report, outcomes = shown.report, []
    if report.findings:
        texts = [plain_text(_text(shown, signature, finding)) for signature, finding in report.findings.items()]
        outcomes.append(Outcome("failure", "broken", "; ".join(report.findings), "\n\n".join(texts)))
    elif shown.gaps:
        outcomes.append(Outcome("error", "not finished", "; ".join(shown.gaps), "\n".join(shown.gaps)))
    subject = f"program: {shlex.join(shown.plan.program)}, check: {shown.plan.check.name}"
    return Case("live runs", 0.0, {"runs": report.runs, "power cuts": report.cuts}, outcomes, subject)


def _document(shown: _LiveShown) -> dict[str, Any]:
    report, plan = shown.report, shown.plan
    return {
        "format": FORMAT,
        "program": list(plan.program),
        "restart": shown.restart,
        "machines": dict(plan.machines),
        "check": plan.check.name,
        "disks": shown.disks,
        "promises": report.promises,
        "steps": {name: made._asdict() for name, made in report.steps.items()},
        "runs": report.runs,
        "cuts": report.cuts,
        "machines_cut": dict(sorted(report.machines_cut.items())),
        "cuts_with_losses": report.losing,
        "late_cuts": report.late,
        "pauses": report.pauses,
        "without_cut": report.without_cut,
        "discarded": {str(seed): run.verdict.lines[0] for seed, run in report.discarded.items()},
        "untried": report.untried,
        "breaches": [_breach(shown, signature, finding) for signature, finding in report.findings.items()],
        "seconds": round(shown.seconds, 3),
    }


def _breach(shown: _LiveShown, signature: str, finding: LiveFinding) -> dict[str, Any]:
    outcome, place = finding.outcome, shown.places.get(signature)
    return {
        "signature": signature,
        "outcome": outcome.verdict.outcome,
        "violations": list(outcome.verdict.lines),
        "seeds": [seed for seed in finding.seeds if seed != NO_SEED],
        "seed": None if finding.seed == NO_SEED else finding.seed,
        "events": [event_json(one) for one in outcome.completed_events],
        "acknowledged": len(outcome.answers.acknowledged),
        "again": shown.again(finding),
        "directory": None if place is None else str(place),
    }
