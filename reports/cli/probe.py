"""The command that probes Python programs: every crash of one run, and every state that each may leave.

JSON, version 1: `{"format": "tornlog-probe/1", "program": [arguments], "check", "disks": [{"disk", "crashes",
"exhausted", "cut", "states", "broken"}], "limit", "steps", "operations", "points", "acknowledged", "states", "images",
"judged", "breaches": [{"signature", "outcome", "violations", "example", "disks": {disk: states}, "states", "points",
"smallest": {"disk", "step", "operations", "inside", "acknowledged", "losses": [{"what", "by"}], "story"}, "file",
"directory"}], "never_injected": [faults], "refused": [reasons], "allowed": [reasons], "seconds", "states_per_second"}`.

breaches: one for each message; smallest, file and directory are of its example: the smallest of all messages whose
smallest case is of the same disk and the same last operation. states: that were built; images: different ones; judged:
different pairs of one and what had been acknowledged. A program that the recorder did not see wholly is refused: then
there is no more than program, steps and reasons.

JSON of `--replay`: `{"format": "tornlog-probe-replay/1", "program", "check", "disk", "same", "outcome", "violations",
"signature", "digest"}`; same: the check says the same kind of thing as it did.

Exit codes: 0 nothing that was acknowledged is lost, 1 something is, 2 usage, 3 the recorder could not see it all.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ...faults.crashes.profiles import PROFILES
from ...faults.disk.image import Image
from ...faults.probe.checks.check import CheckError
from ...faults.probe.checks.checkers import Checkers, check_of
from ...faults.probe.failure import ProbeFailure, probed_json, refused_json, replayed_json, write_cases
from ...faults.probe.probe import DISKS, LIMIT, Example, ProbeReport
from ...faults.probe.probe import probe as probe_record
from ...faults.probe.record import ProgramRecord, RecordError
from ...faults.probe.recording.run import EMPTY, ProgramError, record_program, start_of
from ...faults.probe.replay import Replayer
from ...faults.probe.shrink import CrashCaseView, NotReproducedError, Scene, shrink
from ...faults.probe.story import described, step_text, story, where
from ...faults.simulation.artefact import ArtefactError
from ...scenarios.campaigns.failures.print_failure import prose
from .common import ERR, OUT, disks_named, findings_console, plain_table, print_error, progress_shown
from .options import EXIT_BROKEN, EXIT_HARNESS, EXIT_HELD, JsonFile, write_json

_SECONDS, _PROGRAM_SECONDS = 10.0, 300.0
_VIOLATIONS_SHOWN_MAX, _LOSSES_SHOWN_MAX, _ACKNOWLEDGED_SHOWN_MAX = 3, 8, 3


def probe(
    program: Annotated[
        list[str] | None, typer.Argument(help="Behind --: a script, or -m and a module; then its arguments.")
    ] = None,
    check: Annotated[
        Path | None, typer.Option(help="A Python file with check(directory, acknowledged).", dir_okay=False)
    ] = None,
    disk: Annotated[
        list[str] | None,
        typer.Option(help=f"One of {', '.join(PROFILES)}; several times. Unless given: {', '.join(DISKS)}."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="States of one crash; all if there are no more.")] = LIMIT,
    jobs: Annotated[int, typer.Option(min=0, help="Processes that check; 0: this one.")] = 1,
    seconds: Annotated[float, typer.Option(min=0.01, help="A check that takes longer is a breach.")] = _SECONDS,
    program_seconds: Annotated[float, typer.Option(min=0.1, help="How long the program may run.")] = _PROGRAM_SECONDS,
    start: Annotated[
        Path | None,
        typer.Option(exists=True, file_okay=False, help="A directory whose copy the program begins with."),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(help="An audit event that is harmless here, as subprocess.Popen; several times."),
    ] = None,
    replay: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Show a kept failure.json again.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="Leave failures, and what crashes left, in DIR/failures."),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Record a Python program, pull the plug at each of its file operations, and check what may be left."""
    if replay is not None:
        if program:
            raise typer.BadParameter("expected --replay or a program, found both")
        _replay(replay, check, seconds, json_file)
    if not program or (program[0] == "-m" and len(program) < 2):
        raise typer.BadParameter("expected a program behind --, as in: tornlog probe --check check.py -- script.py")
    if check is None:
        raise typer.BadParameter("expected a check: what is a promise only you know", param_hint="--check")
    disks = disks_named(disk or DISKS, tuple(PROFILES))
    with _checkers(check, jobs, seconds) as checkers:
        record, begin, allowed = _record(program, start, program_seconds, allow or [], json_file)
        _accept_whole(record, begin, checkers)
        found = _probe(record, begin, checkers, tuple(disks), limit)
        examples = found.examples(record)
        shown = {one.signature: shrink(record, begin, one.smallest, checkers) for one in examples}
        said = checkers.said()
    places = write_cases(record, begin, check, shown, out)
    write_json(json_file, probed_json(record, check, limit, found, shown, places, allowed))
    if json_file != "-":
        _print_probed(OUT, found, record)
    console = findings_console(json_file)
    for one in examples:
        _print_breach(console, record, one, shown[one.signature], places.get(one.signature))
    _print_output(ERR, said)
    raise typer.Exit(EXIT_BROKEN if found.breaches else EXIT_HELD)


def _checkers(check: Path, jobs: int, seconds: float) -> Checkers:
    try:
        return Checkers(check_of(check), jobs, seconds)
    except CheckError as error:
        raise typer.BadParameter(str(error), param_hint="--check") from error


def _record(
    program: list[str], start: Path | None, seconds: float, allow: list[str], json_file: str | None
) -> tuple[ProgramRecord, Image, list[str]]:
    """Run the program; return its record, what it began with, and what it did unseen that is allowed.

    Exits if it did more unseen, or did not end.
    """
    try:
        begin = EMPTY if start is None else start_of(start)
        record, unlike = record_program(program, begin, seconds)
    except ProgramError as error:
        raise typer.BadParameter(str(error)) from error
    allowed = [one for one in record.unseen if one.event in allow]
    refused = [one for one in record.unseen if one.event not in allow]
    reasons = [f"{one.event}: {one.detail}  {where(record.stacks[one.stack])}".rstrip() for one in refused]
    reasons += [f"the directory is not what was recorded: {difference}" for difference in unlike]
    if reasons:
        write_json(json_file, refused_json(record, reasons))
        _print_refusal(ERR, reasons)
        raise typer.Exit(EXIT_HARNESS)
    return record, begin, [f"{one.event}: {one.detail}" for one in allowed]


def _accept_whole(record: ProgramRecord, begin: Image, checkers: Checkers) -> None:
    """Have the check look at what the program has left without any crash: it has to accept that."""
    replayer = Replayer(record, begin)
    for _ in replayer.points():
        pass
    (verdict,) = checkers.verdicts([(replayer.intact(), record.acknowledged)])
    if verdict.is_broken:
        lines = "; ".join(verdict.lines[:3])
        raise typer.BadParameter(
            f"does not accept what the program leaves without any crash: {lines}", param_hint="--check"
        )


def _probe(record: ProgramRecord, begin: Image, checkers: Checkers, disks: tuple[str, ...], limit: int) -> ProbeReport:
    with progress_shown("pulling the plug", ticks=False) as update:

        def on_progress(found: ProbeReport, done: int, steps: int) -> None:
            kinds = f"{len(found.breaches):,} kinds of breach"
            facts = f"{found.states:,} states, {found.judged:,} checked, {kinds}"
            update(completed=done, total=steps, facts=facts, refresh=True)

        return probe_record(record, begin, checkers, disks=disks, limit=limit, on_progress=on_progress)


def _replay(file: Path, check: Path | None, seconds: float, json_file: str | None) -> NoReturn:
    """Make a kept state again, and have a check look at it: the one of then, or another."""
    try:
        failure = ProbeFailure.from_json(file.read_text())
        chosen = Path(failure.check) if check is None else check
        shown = Scene(failure.record, failure.start, failure.case).shown(failure.case)
    except (OSError, UnicodeDecodeError, ArtefactError, RecordError) as error:
        raise typer.BadParameter(f"{file}: {error}", param_hint="--replay") from error
    except NotReproducedError as error:
        print_error(f"not reproduced: {error}")
        raise typer.Exit(EXIT_HARNESS) from error
    with _checkers(chosen, 1, seconds) as checkers:
        (verdict,) = checkers.verdicts([(shown.image, failure.record.acknowledged)])
    write_json(json_file, replayed_json(failure, chosen, verdict))
    if verdict.is_broken:
        now = CrashCaseView(replace(failure.case, verdict=verdict), shown.image, shown.losses)
        _print_breach(findings_console(json_file), failure.record, None, now, file.parent)
        raise typer.Exit(EXIT_BROKEN)
    if json_file != "-":
        OUT.print("the check has nothing against this state any more", soft_wrap=True)
    raise typer.Exit(EXIT_HELD)


def _print_probed(console: Console, found: ProbeReport, record: ProgramRecord) -> None:
    broken = sum(count.broken for count in found.counts.values())
    verdict = f"{broken:,} states broken" if broken else "every promise held"
    acknowledged = len(record.acknowledged)
    console.print(
        f"{found.operations:,} operations, {acknowledged:,} promises, {found.points:,} crash points: {verdict}",
        soft_wrap=True,
    )
    console.print(_disks_table(found))
    console.print(
        f"{found.states:,} states, {len(found.images):,} different ones, "
        f"{found.judged:,} checked with what was promised by then, in {found.seconds:.1f} s",
        soft_wrap=True,
    )
    never = found.never_injected
    if never:
        prose(console, 0, f"never happened on these disks: {', '.join(never)}")
    if found.breaches:
        console.print(_breaches_table(found.examples(record)))


def _disks_table(found: ProbeReport) -> Table:
    table = plain_table("", ("disk",), ("crashes", "all states\ntried of", "cut by\n--limit", "states", "broken"))
    for disk, count in found.counts.items():
        figures = (count.crashes, count.exhausted, count.cut, count.states, count.broken)
        table.add_row(disk, *(f"{figure:,}" for figure in figures), style="red" if count.broken else "")
    return table


def _breaches_table(examples: Iterable[Example]) -> Table:
    table = plain_table("", ("what", "disks"), ("states", "crash\npoints", "least\nlosses"))
    for example in examples:
        table.add_row(
            escape(example.signature) + _others(example),
            "\n".join(example.disks),
            f"{example.states:,}",
            f"{len(example.points):,}",
            f"{example.smallest.losses:,}",
        )
    return table


def _others(example: Example) -> str:
    others = len(example.breaches) - 1
    return f" (and {others:,} other message{'' if others == 1 else 's'})" if others else ""


def _print_breach(
    console: Console, record: ProgramRecord, example: Example | None, shown: CrashCaseView, place: Path | None
) -> None:
    """Print one case: what is broken, on which disk and when, what is lost, how it came to that."""
    case = shown.case
    console.print(f"\n[red]broken[/red]: {escape(case.verdict.signature)}", soft_wrap=True)
    for line in case.verdict.lines[:_VIOLATIONS_SHOWN_MAX]:
        prose(console, 2, line)
    more = len(case.verdict.lines) - _VIOLATIONS_SHOWN_MAX
    if more > 0 and case.verdict.outcome == "broken":
        prose(console, 2, f"and {more} more like it")
    if example is not None and len(example.breaches) > 1:
        prose(console, 2, f"stands for other messages, too: {'; '.join([*example.breaches][1:3])}")
    others = [disk for disk in example.disks if disk != case.disk] if example is not None else []
    prose(console, 2, f"on {case.disk}{'; also on ' if others else ''}{', '.join(others)}")
    prose(console, 2, f"crash {_moment(record, shown)}")
    _print_losses(console, record, shown)
    promised = record.acknowledged[: case.point.acknowledged]
    if promised:
        few = ", ".join(repr(one) for one in promised[-_ACKNOWLEDGED_SHOWN_MAX:])
        prose(console, 2, f"acknowledged: {'…, ' if len(promised) > _ACKNOWLEDGED_SHOWN_MAX else ''}{few}")
    prose(console, 2, "before it:")
    for line in story(record, case.point.step):
        prose(console, 2, line, style="dim")
    again = "the same again, with --out DIR"
    if place is not None:
        again = f"tornlog probe --replay {place}/failure.json"
        console.print(f"  what is left: [bold]{escape(str(place / 'files'))}[/bold]", soft_wrap=True)
    console.print(f"  again: [bold]{escape(again)}[/bold]", soft_wrap=True)


def _moment(record: ProgramRecord, shown: CrashCaseView) -> str:
    point = shown.case.point
    if point.step < 0:
        return "before the first step"
    step = record.steps[point.step]
    inside = "inside" if point.is_inside else "after"
    return f"{inside} step {point.step + 1}: {described(record, step)} at {where(record.stacks[step.stack])}"


def _print_losses(console: Console, record: ProgramRecord, shown: CrashCaseView) -> None:
    if not shown.losses:
        prose(console, 2, "nothing is lost: all that had been done is there, and no more")
        return
    prose(console, 2, "what is lost:")
    for loss in shown.losses[:_LOSSES_SHOWN_MAX]:
        prose(console, 4, loss.what)
        prose(console, 6, f"by {step_text(record, loss.step).strip()}", style="dim")
    more = len(shown.losses) - _LOSSES_SHOWN_MAX
    if more > 0:
        prose(console, 4, f"and {more} more")


def _print_refusal(console: Console, reasons: Iterable[str]) -> None:
    console.print("[red]refused[/red]: the program did what the recorder does not see", soft_wrap=True)
    for reason in reasons:
        prose(console, 2, reason)


def _print_output(console: Console, said: str, lines_max: int = 20) -> None:
    lines = said.splitlines()
    if not lines:
        return
    console.print("\nwhat the check wrote, of all states together:", soft_wrap=True)
    if len(lines) > lines_max:
        prose(console, 2, f"… {len(lines) - lines_max:,} lines before")
    for line in lines[-lines_max:]:
        prose(console, 2, line, style="dim")
