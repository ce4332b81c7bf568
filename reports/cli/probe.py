"""The command that probes programs: every crash of one run, and every state that each may leave.

JSON, version 1: `{"format": "tornlog-probe/1", "program": [arguments], "check", "disks": [{"disk", "crashes",
"exhausted", "cut", "states", "broken"}], "limit", "steps", "operations", "points", "acknowledged", "states", "images",
"judged", "breaches": [{"signature", "outcome", "violations", "example", "disks": {disk: states}, "states", "points",
"smallest": {"disk", "step", "operations", "inside", "acknowledged", "losses": [{"what", "by"}], "story"}, "file",
"directory"}], "never_injected": [faults], "refused": [reasons], "allowed": [reasons], "seconds", "states_per_second"}`.
With `--recovery-crashes` also `"recoveries": {"recorded", "writing", "points", "states", "judged", "refused": {reason:
times}, "breaches": [as above, and "recovers_from": [lines]]}`; writing: those recoveries that changed anything.

breaches: one for each message; smallest, file and directory are of its example: the smallest of all messages whose
smallest case is of the same disk and the same last operation. states: that were built; images: different ones; judged:
different pairs of one and what had been acknowledged. A program that the recorder did not see wholly is refused: then
there is no more than program, steps and reasons.

With --faults or --seeds there is `"reruns": {"runs", "failed", "injected": {fault: times}, "never_injected": [faults],
"cut": [faults], "seeds", "orders", "choices", "hurried", "points", "states", "judged", "refused": {reason: times},
"breaches": [as above, and "kind", "rerun"]}`. failed: runs that the program ended with an error; cut: faults that may
have more calls to strike than --fault-runs; orders: different ones; choices: how often one of several threads was
picked; hurried: how often while another one ran.

JSON of `--replay`: `{"format": "tornlog-probe-replay/1", "program", "check", "disk", "same", "outcome", "violations",
"signature", "digest"}`; same: the check says the same kind of thing as it did.

Exit codes: 0 nothing that was acknowledged is lost, 1 something is, 2 usage, 3 the recorder could not see it all.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from ...faults.crashes.profiles import PROFILES
from ...faults.disk.image import Image
from ...faults.kinds import FaultKind
from ...faults.probe.checks.check import Check, CheckError
from ...faults.probe.checks.checkers import Checkers, check_of
from ...faults.probe.checks.command import CheckServer
from ...faults.probe.failure import (
    ProbeFailure,
    ProbeFinding,
    probed_json,
    recoveries_json,
    refused_json,
    replayed_json,
    reruns_json,
    write_cases,
)
from ...faults.probe.probe import DISKS, LIMIT, OnHeld, ProbeReport, Verdicts
from ...faults.probe.probe import probe as probe_record
from ...faults.probe.programs import CALLS, PYTHON, RECORDERS, STORES, RecorderChoice
from ...faults.probe.record import ProgramRecord, RecordError
from ...faults.probe.recording.run import EMPTY, ProgramError, start_of
from ...faults.probe.recovery import Recoveries, RecoveryBreach
from ...faults.probe.replay import Replayer
from ...faults.probe.reruns import ERRORS, RUNS_MAX, RerunBreach, Reruns, rerun_text
from ...faults.probe.shrink import CrashCaseView, NotReproducedError, Scene, shrink
from ...faults.probe.story import where
from ...faults.probe.tracing.call_faults import CALL_FAULTS
from ...faults.probe.tracing.control import RunControl
from ...faults.simulation.artefact import ArtefactError
from .common import ERR, OUT, disks_named, findings_console, print_error, progress_shown
from .options import EXIT_BROKEN, EXIT_HARNESS, EXIT_HELD, JsonFile, write_json
from .print_probe import (
    kinds_of_breach,
    moment,
    print_breach,
    print_output,
    print_probed,
    print_recoveries,
    print_refusal,
    print_reruns,
)

_SECONDS, _PROGRAM_SECONDS = 10.0, 300.0


def probe(
    program: Annotated[
        list[str] | None,
        typer.Argument(help="Behind --: any program, a Python script, or -m and a module; then its arguments."),
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(
            help="A Python file with check(directory, acknowledged), or an executable that ends with 0 if all is well.",
            dir_okay=False,
        ),
    ] = None,
    check_server: Annotated[
        str | None,
        typer.Option(metavar="COMMAND", help="A check that stays up: a JSON line in, a JSON line out for each state."),
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
    record: Annotated[
        str,
        typer.Option(
            metavar="|".join(RECORDERS),
            help="At which calls to record: the system's, or Python's; by default these of scripts and modules of it.",
        ),
    ] = "",
    stores: Annotated[
        str,
        typer.Option(metavar="|".join(STORES), help="Stores through maps: one by one, or what they come to by a call."),
    ] = STORES[0],
    recovery_crashes: Annotated[
        int, typer.Option(min=0, max=1, help="1: pull the plug inside the recovery of what holds, too.")
    ] = 0,
    faults: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="Run again with a fault at each call in turn: errors, for all that a call reports, "
            f"or {', '.join(CALL_FAULTS)}; several times.",
        ),
    ] = None,
    fault_runs: Annotated[int, typer.Option(min=1, help="At how many calls, at most, each fault.")] = RUNS_MAX,
    seeds: Annotated[int, typer.Option(min=0, help="Run again in so many seeded orders of the threads' steps.")] = 0,
    allow: Annotated[
        list[str] | None,
        typer.Option(help="An event that is harmless here, as subprocess.Popen; several times."),
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
    """Record a program, pull the plug at each of its file operations, and check what may be left."""
    if replay is not None:
        if program:
            raise typer.BadParameter("expected --replay or a program, found both")
        _replay(replay, check, check_server, seconds, json_file)
    if not program or (program[0] == "-m" and len(program) < 2):
        raise typer.BadParameter("expected a program behind --, as in: tornlog probe --check ./check.sh -- ./server")
    if check is None and check_server is None:
        raise typer.BadParameter("expected a check: what is a promise only you know", param_hint="--check")
    kinds = _kinds(faults or [])
    recorder = _recorder(record, stores, program_seconds, is_rerun=bool(kinds or seeds))
    disks = disks_named(disk or DISKS, tuple(PROFILES))
    judge = _check(check, check_server)
    if recovery_crashes and judge.is_server:
        raise typer.BadParameter(
            "expected --check: the recovery of a server is not recorded", param_hint="--recovery-crashes"
        )
    with Checkers(judge, jobs, seconds) as checkers:
        recorded, begin, allowed = _record(recorder, program, start, allow or [], json_file)
        _accept_whole(recorded, begin, checkers)
        recoveries = Recoveries(checkers, partial(recorder.record_check, judge), disks, limit)
        verdicts: Verdicts = {}
        on_held = recoveries.explore if recovery_crashes else None
        found = _probe(recorded, begin, checkers, tuple(disks), limit, on_held, verdicts)
        rerun = partial(recorder.rerun, program, begin)
        reruns = Reruns(checkers, rerun, begin, recorded, found, verdicts, limit)
        _run_again(reruns, kinds, fault_runs, seeds)
        examples = found.examples(recorded)
        shown = {one.signature: shrink(recorded, begin, one.smallest, checkers) for one in examples}
        recovered = [
            _recovery_finding(recorded, begin, signature, breach, checkers)
            for signature, breach in sorted(recoveries.breaches.items())
        ]
        differing = [
            _rerun_finding(begin, kind, signature, breach, checkers)
            for (kind, signature), breach in sorted(reruns.breaches.items())
        ]
        said = checkers.said()
    findings = [ProbeFinding(one.signature, recorded, begin, shown[one.signature]) for one in examples]
    places, recovery_places = write_cases(findings, judge, out), write_cases(recovered, judge, out)
    rerun_places = write_cases(differing, judge, out)
    document = probed_json(recorded, judge, limit, found, shown, places, allowed)
    if recovery_crashes:
        document["recoveries"] = recoveries_json(recoveries, recovered, recovery_places)
    if kinds or seeds:
        document["reruns"] = reruns_json(reruns, differing, rerun_places)
    write_json(json_file, document)
    if json_file != "-":
        print_probed(OUT, found, recorded)
        if recovery_crashes:
            print_recoveries(OUT, recoveries)
        if kinds or seeds:
            print_reruns(OUT, reruns)
    console = findings_console(json_file)
    for finding, example in zip(findings, examples, strict=True):
        print_breach(console, finding, example, places.get(("", finding.signature)))
    for finding in recovered:
        print_breach(console, finding, None, recovery_places.get(("", finding.signature)))
    for finding in differing:
        print_breach(console, finding, None, rerun_places.get((finding.kind, finding.signature)))
    print_output(ERR, said)
    raise typer.Exit(EXIT_BROKEN if findings or recovered or differing else EXIT_HELD)


def _kinds(names: list[str]) -> list[FaultKind]:
    """Return the faults of some names, in which `-` may stand for a space, each once."""
    known = {kind.value: kind for kind in CALL_FAULTS}
    kinds: dict[FaultKind, None] = {}
    for name in names:
        plain = name.replace("-", " ")
        if plain != "errors" and plain not in known:
            choice = ", ".join(["errors", *known])
            raise typer.BadParameter(f"expected one of {choice}, found {name}", param_hint="--faults")
        kinds |= dict.fromkeys(ERRORS if plain == "errors" else [known[plain]])
    return list(kinds)


def _recorder(kind: str, stores: str, seconds: float, *, is_rerun: bool) -> RecorderChoice:
    for name, found, known in (("--record", kind, ("", *RECORDERS)), ("--stores", stores, STORES)):
        if found not in known:
            raise typer.BadParameter(
                f"expected one of {', '.join(filter(None, known))}, found {found}", param_hint=name
            )
    if is_rerun and kind == PYTHON:
        raise typer.BadParameter("expected calls with --faults or --seeds, found python", param_hint="--record")
    return RecorderChoice(CALLS if is_rerun else kind, stores, seconds)


def _check(check: Path | None, server: str | None) -> Check:
    if check is not None and server is not None:
        raise typer.BadParameter("expected --check or --check-server, found both")
    try:
        if server is not None:
            return CheckServer(server)
        assert check is not None, "one of both is given"
        return check_of(check)
    except CheckError as error:
        raise typer.BadParameter(str(error), param_hint="--check" if server is None else "--check-server") from error


def _record(
    recorder: RecorderChoice, program: list[str], start: Path | None, allow: list[str], json_file: str | None
) -> tuple[ProgramRecord, Image, list[str]]:
    """Run the program; return its record, what it began with, and what it did unseen that is allowed.

    Exits if it did more unseen, or did not end.
    """
    try:
        begin = EMPTY if start is None else start_of(start)
        record, unlike = recorder.record(program, begin)
    except ProgramError as error:
        raise typer.BadParameter(str(error)) from error
    allowed = [one for one in record.unseen if one.event in allow]
    refused = [one for one in record.unseen if one.event not in allow]
    reasons = [f"{one.event}: {one.detail}  {where(record.stacks[one.stack])}".rstrip() for one in refused]
    reasons += [f"the directory is not what was recorded: {difference}" for difference in unlike]
    if reasons:
        write_json(json_file, refused_json(record, reasons))
        print_refusal(ERR, reasons)
        raise typer.Exit(EXIT_HARNESS)
    return record, begin, [f"{one.event}: {one.detail}" for one in allowed]


def _recovery_finding(
    record: ProgramRecord, begin: Image, signature: str, breach: RecoveryBreach, checkers: Checkers
) -> ProbeFinding:
    """Return a breach of a crash in recovery with the losses that it takes, and the crash before in lines."""
    recovery, first = breach.recovery, breach.recovery.first_crash
    shown = shrink(recovery.record, recovery.start, breach.group.smallest, checkers)
    losses = Scene(record, begin, first).shown(first).losses
    lines = [f"crash {moment(record, first)}, on {first.disk}", *(f"lost: {loss.what}" for loss in losses)]
    return ProbeFinding(signature, recovery.record, recovery.start, shown, tuple(lines))


def _run_again(reruns: Reruns, kinds: list[FaultKind], runs_max: int, seeds: int) -> None:
    """Run with faults and in other orders, as far as these are asked for."""
    if not kinds and not seeds:
        return
    with progress_shown("running again", ticks=False) as update:

        def on_progress(reruns: Reruns, control: RunControl) -> None:
            facts = f"{control}: {reruns.judged:,} checked, {kinds_of_breach(len(reruns.breaches))}"
            update(completed=reruns.runs, total=None, facts=facts, refresh=True)

        reruns.on_progress = on_progress
        reruns.strike(kinds, runs_max)
        reruns.reorder(seeds)


def _rerun_finding(begin: Image, kind: str, signature: str, breach: RerunBreach, checkers: Checkers) -> ProbeFinding:
    """Return a breach of a run with a fault, or in another order, with the losses that it takes."""
    shown = shrink(breach.record, begin, breach.group.smallest, checkers)
    how = rerun_text(breach.control, breach.record)
    return ProbeFinding(signature, breach.record, begin, shown, rerun=how, kind=kind)


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


def _probe(
    record: ProgramRecord,
    begin: Image,
    checkers: Checkers,
    disks: tuple[str, ...],
    limit: int,
    on_held: OnHeld | None,
    verdicts: Verdicts,
) -> ProbeReport:
    with progress_shown("pulling the plug", ticks=False) as update:

        def on_progress(found: ProbeReport, done: int, steps: int) -> None:
            kinds = kinds_of_breach(len(found.breaches))
            facts = f"{found.states:,} states, {found.judged:,} checked, {kinds}"
            update(completed=done, total=steps, facts=facts, refresh=True)

        return probe_record(
            record,
            begin,
            checkers,
            disks=disks,
            limit=limit,
            on_progress=on_progress,
            on_held=on_held,
            verdicts=verdicts,
        )


def _replay(file: Path, check: Path | None, server: str | None, seconds: float, json_file: str | None) -> NoReturn:
    """Make a kept state again, and have a check look at it: the one of then, or another."""
    try:
        failure = ProbeFailure.from_json(file.read_text())
        shown = Scene(failure.record, failure.start, failure.case).shown(failure.case)
    except (OSError, UnicodeDecodeError, ArtefactError, RecordError) as error:
        raise typer.BadParameter(f"{file}: {error}", param_hint="--replay") from error
    except NotReproducedError as error:
        print_error(f"not reproduced: {error}")
        raise typer.Exit(EXIT_HARNESS) from error
    if check is None and server is None:
        check, server = (None, failure.check) if failure.is_server else (Path(failure.check), None)
    chosen = _check(check, server)
    with Checkers(chosen, 1, seconds) as checkers:
        (verdict,) = checkers.verdicts([(shown.image, failure.record.acknowledged)])
    write_json(json_file, replayed_json(failure, chosen, verdict))
    if verdict.is_broken:
        now = CrashCaseView(replace(failure.case, verdict=verdict), shown.image, shown.losses)
        finding = ProbeFinding(verdict.signature, failure.record, failure.start, now, failure.recovery, failure.rerun)
        print_breach(findings_console(json_file), finding, None, file.parent)
        raise typer.Exit(EXIT_BROKEN)
    if json_file != "-":
        OUT.print("the check has nothing against this state any more", soft_wrap=True)
    raise typer.Exit(EXIT_HELD)
