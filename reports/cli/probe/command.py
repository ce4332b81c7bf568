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

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from ....faults.crashes.profiles import PROFILES
from ....faults.probe import CHECK_SECONDS, DISKS, FAULT_RUNS, LIMIT, PROGRAM_SECONDS
from ....faults.probe.checks.kinds import CHECK_KINDS, CheckKind
from ....faults.probe.programs import RECORDERS, STORES
from ....faults.probe.tracing.control import CALL_FAULTS
from ..options import (
    JsonFile,
    JunitFile,
    SummaryFile,
    TimelineFile,
)

Options = TypeVar("Options")


def _with_check_options(options: type[Options]) -> type[Options]:
    """Add one option for each kind of check, after the program."""
    fields: dict[str, object] = {}
    for name, annotation in options.__annotations__.items():
        fields[name] = annotation
        if name == "program":
            fields |= {option: _check_option(kind) for option, kind in CHECK_KINDS.items()}
    options.__annotations__ = fields
    for option in CHECK_KINDS:
        setattr(options, option, None)
    return options


def _check_option(kind: CheckKind) -> object:
    if kind.metavar:
        return Annotated[str | None, typer.Option(metavar=kind.metavar, help=kind.help_text)]
    return Annotated[Path | None, typer.Option(help=kind.help_text, dir_okay=False)]


@dataclass(frozen=True)
@_with_check_options
class ProbeOptions:
    """Record a program, pull the plug at each of its file operations, and check what may be left."""

    context: typer.Context
    program: Annotated[
        list[str] | None,
        typer.Argument(help="Behind --: any program, a Python script, or -m and a module; then its arguments."),
    ] = None
    disk: Annotated[
        list[str] | None,
        typer.Option(help=f"One of {', '.join(PROFILES)}; several times. Unless given: {', '.join(DISKS)}."),
    ] = None
    limit: Annotated[int, typer.Option(min=1, help="States of one crash; all if there are no more.")] = LIMIT
    jobs: Annotated[int, typer.Option(min=0, help="Processes that check; 0: this one.")] = 1
    seconds: Annotated[float, typer.Option(min=0.01, help="A check that takes longer is a breach.")] = CHECK_SECONDS
    program_seconds: Annotated[float, typer.Option(min=0.1, help="How long the program may run.")] = PROGRAM_SECONDS
    time: Annotated[
        str | None, typer.Option(help="For how long at most, as in 10m; what was found by then is reported.")
    ] = None
    start: Annotated[
        Path | None,
        typer.Option(exists=True, file_okay=False, help="A directory whose copy the program begins with."),
    ] = None
    record: Annotated[
        str,
        typer.Option(
            metavar="|".join(RECORDERS),
            help="At which calls to record: the system's, or Python's; by default these of scripts and modules of it.",
        ),
    ] = ""
    stores: Annotated[
        str,
        typer.Option(metavar="|".join(STORES), help="Stores through maps: one by one, or what they come to by a call."),
    ] = STORES[0]
    stacks: Annotated[
        bool, typer.Option("--stacks", help="Find the source line of each of the system's calls, by addr2line.")
    ] = False
    recovery_crashes: Annotated[
        int, typer.Option(min=0, max=1, help="1: pull the plug inside the recovery of what holds, too.")
    ] = 0
    faults: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="Run again with a fault at each call in turn: errors, for all that a call reports, "
            f"or {', '.join(CALL_FAULTS)}; several times.",
        ),
    ] = None
    fault_runs: Annotated[int, typer.Option(min=1, help="At how many calls, at most, each fault.")] = FAULT_RUNS
    seeds: Annotated[int, typer.Option(min=0, help="Run again in so many seeded orders of the threads' steps.")] = 0
    allow: Annotated[
        list[str] | None,
        typer.Option(help="An event that is harmless here, as subprocess.Popen; several times."),
    ] = None
    replay: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Show a kept failure.json again.")
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="Leave report.html, failures, what crashes left, and timelines in DIR."),
    ] = None
    timeline: TimelineFile = None
    junit: JunitFile = None
    summary: SummaryFile = None
    json_file: JsonFile = None

    @property
    def checks(self) -> dict[str, str]:
        """Return the names of the given checks, by kind."""
        given = {kind: getattr(self, kind) for kind in CHECK_KINDS}
        return {kind: str(name) for kind, name in given.items() if name is not None}
