"""The command that probes programs: every crash of one run, and every state that each may leave.

JSON, version 1: `{"format": "tornlog-probe/1", "program": [arguments], "check", "disks": [{"disk", "crashes",
"exhausted", "cut", "states", "broken"}], "limit", "finished", "steps", "operations", "points", "acknowledged",
"states", "images", "judged", "breaches": [{"signature", "outcome", "violations", "disks": {disk: states}, "states",
"points", "smallest": {"disk", "step", "operations", "inside", "acknowledged", "losses": [{"what", "by"}], "story"},
"file", "directory"}], "never_injected": [faults], "refused": [reasons], "allowed": [reasons], "notes": [sentences],
"seconds", "states_per_second"}`.
With `--recovery-crashes` also `"recoveries": {"recorded", "writing", "points", "states", "judged", "refused": {reason:
times}, "breaches": [as above, and "recovers_from": [lines]]}`; writing: those recoveries that changed anything.

breaches: one for each kind of message, the most severe first. smallest: null for kinds after the first 10, which are
not shrunk. states: that were built; images: different ones; judged: different pairs of one and what had been
acknowledged. notes: reasons why a verdict without a breach says little. A program that the recorder did not see
wholly is refused: then there is no more than program, steps and reasons. finished: whether all crashes of the program
were tried; a probe that has ended early has "ended", too: the signal or the limit.

With --faults or --seeds there is `"reruns": {"runs", "failed", "injected": {fault: times}, "never_injected": [faults],
"cut": [faults], "seeds", "orders", "choices", "hurried", "points", "states", "judged", "refused": {reason: times},
"untried": [faults and seeds], "discarded": [faults and seeds], "breaches": [as above, and "kind", "rerun"]}`. failed:
runs that the program ended with an error; cut: faults that may have more calls to strike than --fault-runs; orders:
different ones; choices: how often one of several threads was picked; hurried: how often while another one ran; refused,
discarded: runs that could not be recorded, so they prove nothing; untried: by a probe that has ended early.

With --out "report": path. JSON of `--replay` is at the head of `replay`.

Exit codes: 0 every promise held, 1 a promise is broken, 2 usage, 3 the recorder could not see it all, runs or
recoveries were discarded, or --time was too short; 130 Ctrl-C has ended it, 143 SIGTERM has.
"""

from pathlib import Path
from typing import Annotated

import typer

from ....faults.crashes.profiles import PROFILES
from ....faults.kinds import FaultKind
from ....faults.probe import CHECK_SECONDS, DISKS, FAULT_RUNS, LIMIT, PROGRAM_SECONDS
from ....faults.probe.programs import CALLS, PYTHON, RECORDERS, STORES, RecorderChoice
from ....faults.probe.tracing.control import CALL_FAULTS, ERRORS
from ..options import (
    EXIT_BROKEN,
    EXIT_HARNESS,
    EXIT_HELD,
    JsonFile,
    JunitFile,
    SummaryFile,
    TimelineFile,
    command_line,
    disks_named,
    was_given,
)
from .recording import ProbeOptions, RefusedError, check_given, record_program
from .termination import ended_early, exit_code

_OF_REPLAY = ("replay", "check", "check_server", "seconds", "timeline", "json_file", "program")
"""Parameters that a replay heeds, or refuses by a sentence of its own."""


def probe(
    context: typer.Context,
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
    seconds: Annotated[float, typer.Option(min=0.01, help="A check that takes longer is a breach.")] = CHECK_SECONDS,
    program_seconds: Annotated[float, typer.Option(min=0.1, help="How long the program may run.")] = PROGRAM_SECONDS,
    time: Annotated[
        str | None, typer.Option(help="For how long at most, as in 10m; what was found by then is reported.")
    ] = None,
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
    stacks: Annotated[
        bool, typer.Option("--stacks", help="Find the source line of each of the system's calls, by addr2line.")
    ] = False,
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
    fault_runs: Annotated[int, typer.Option(min=1, help="At how many calls, at most, each fault.")] = FAULT_RUNS,
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
        typer.Option(file_okay=False, help="Leave report.html, failures, what crashes left, and timelines in DIR."),
    ] = None,
    timeline: TimelineFile = None,
    junit: JunitFile = None,
    summary: SummaryFile = None,
    json_file: JsonFile = None,
) -> None:
    """Record a program, pull the plug at each of its file operations, and check what may be left."""
    if replay is not None:
        if program:
            raise typer.BadParameter("expected --replay or a program, found both")
        _require_of_use(context)
        from .replay import replay_probe

        with ended_early():
            replay_probe(
                replay, check=check, server=check_server, seconds=seconds, timeline=timeline, json_file=json_file
            )
    if timeline is not None:
        raise typer.BadParameter("goes with --replay; --out leaves those of all failures", param_hint="--timeline")
    if not program or (program[0] == "-m" and len(program) < 2):
        raise typer.BadParameter("expected a program behind --, as in: tornlog probe --check ./check.sh -- ./server")
    if check is None and check_server is None:
        raise typer.BadParameter("expected a check: what is a promise only you know", param_hint="--check")
    kinds = _kinds(faults or [])
    judge = check_given(check, check_server)
    asked = ProbeOptions(
        program,
        _recorder(record, stores, program_seconds, is_rerun=bool(kinds or seeds), takes_stacks=stacks),
        judge,
        start,
        allow or [],
        tuple(disks_named(disk or DISKS, tuple(PROFILES))),
        limit,
        jobs,
        seconds,
        bool(recovery_crashes),
        kinds,
        fault_runs,
        seeds,
    )
    with ended_early(_seconds_in(time), f"--time {time}"):
        try:
            recorded = record_program(asked)
        except RefusedError as error:
            from .results import leave_refusal

            leave_refusal(error, json_file).exit(EXIT_HARNESS)
        from .probing import probe_recorded  # disks, consoles, documents: the program has run before they are needed
        from .results import leave_results

        results = probe_recorded(asked, recorded, command_line(context, behind="program"))
        written = leave_results(results, out, junit, summary, json_file)
    written.exit(EXIT_BROKEN if results.kinds else exit_code(results.ended) if results.gaps else EXIT_HELD)


def _require_of_use(context: typer.Context) -> None:
    """Raise BadParameter if there are options beside --replay that it does nothing with."""
    given = [one for one in context.command.params if one.name not in _OF_REPLAY and was_given(context, one.name or "")]
    if given:
        raise typer.BadParameter("of no use with --replay", param_hint=[one.opts[0] for one in given])


def _seconds_in(time: str | None) -> float | None:
    if time is None:
        return None
    from ....scenarios.campaigns.amounts import seconds_in

    return seconds_in(time)


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


def _recorder(kind: str, stores: str, seconds: float, *, is_rerun: bool, takes_stacks: bool) -> RecorderChoice:
    for name, found, known in (("--record", kind, ("", *RECORDERS)), ("--stores", stores, STORES)):
        if found not in known:
            raise typer.BadParameter(
                f"expected one of {', '.join(filter(None, known))}, found {found}", param_hint=name
            )
    if is_rerun and kind == PYTHON:
        raise typer.BadParameter("expected calls with --faults or --seeds, found python", param_hint="--record")
    return RecorderChoice(CALLS if is_rerun else kind, stores, seconds, takes_stacks)
