"""The command `probe`: tries every crash of one run of a program, and every state after it.

JSON, version 1: `{"format": "tornlog-probe/1", "program": [arguments], "check", "disks": [{"disk", "crashes",
"exhausted", "cut", "states", "broken"}], "limit", "finished", "steps", "operations", "points", "acknowledged",
"refusals", "states", "images", "judged", "breaches": [{"signature", "outcome", "violations", "disks": {disk: states},
"states", "points", "smallest": {"disk", "step", "operations", "inside", "acknowledged", "refusals", "losses": [{"what",
"by"}], "story"}, "file", "directory"}], "damage": [{"disk", "file", "states", "noticed", "unnoticed", "harmless"}],
"never_injected": [faults], "refused": [reasons], "allowed": [reasons], "notes": [sentences], "seconds",
"states_per_second"}`. acknowledged, refusals: numbers of promises and of refused operations (--refusals). damage: how
the program reacts to damage at rest, for disks such as bit-flip.

With `--recovery-crashes` there is also `"recoveries": {"recorded", "writing", "points", "states", "judged", "refused":
{reason: times}, "breaches": [as above, and "recovers_from": [lines]]}`; writing: recoveries that changed a file.
breaches: one per kind of message, the most severe first. smallest: only for the first 10 breaches that are not known,
else null. states: number of states built; images: distinct disk images; judged: distinct pairs of an image and its
acknowledged lines. notes: reasons why a verdict without a breach proves little. If the recorder missed operations, the
program is refused, and JSON has only program, steps and reasons. finished: whether all crashes (of the sample, with
--points) were tried. With --points or --time, "points_of" is the number of crash points, of which "points" were tried.
If a check timed out, "reduced_limit" is {"checks", "timed_out"}: the number of later checks with a reduced time limit,
and of those that exceeded it. If the probe ended early, "ended" is the signal, the limit or --stop-at-first.

With --faults, --inject or --seeds there is `"reruns": {"runs", "failed", "refusals", "injected": {fault: times},
"never_injected": [faults], "cut": [faults], "coverage": {fault: {"calls", "reached_calls", "files", "missed_files"}},
"rules": {rule: {"calls", "files"}}, "seeds", "orders", "choices", "hurried", "points", "states", "judged", "refused":
{reason: times}, "untried": [faults and seeds], "discarded": [faults and seeds], "breaches": [as above, and "kind",
"rerun"]}`. failed: runs in which the program exited with an error; cut: faults with more calls than --fault-runs;
coverage: calls to which a fault applies, and their files; orders: distinct thread orders; choices: choices between
several threads; hurried: choices made while another thread ran; refused, discarded: runs that could not be recorded;
untried: faults, rules and seeds omitted because the probe ended early or calls could not be listed.

With --baseline there is `"baseline": {"known": {signature: reason}, "gone": {signature: reason}}`, and known breaches
have "known": reason. known: baseline findings that occurred; gone: those that the tried states no longer show.

If the corpus (--corpus) had cases of this program, there is `"corpus": {"tried": [cases], "failed", "dropped",
"gone"}`. tried: cases tried first; failed: those that failed again; dropped: those that passed three times in a row;
gone: those that do not exist in this run.

Further fields: with --machine or --disk-of, "separate_disks": {directory: kind of crash or null} and "combinations":
{"tried", "possible"} of states of these disks; with --out, "report": path; with --inject "cut at ...", "crash_rules":
{rule: matches}; with rules that the program requested, "asked_rules": [[rule, injections]]. The modules `leaving`
(--replay), `durability` (without a check) and `live` (--restart) describe their JSON. Exit codes: 0 no promise is
broken except known ones, 1 a promise is broken, 2 usage error, 3 the recorder missed operations, runs or recoveries
were discarded, no requested fault was injected, a rule was never reached, or --time was too short; 130 after Ctrl-C,
143 after SIGTERM.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from ....faults.crashes.at_rest import DAMAGES
from ....faults.crashes.profiles import PROFILES
from ....faults.probe import CHECK_SECONDS, DISKS, FAULT_RUNS, LIMIT, PROGRAM_SECONDS
from ....faults.probe.checks.command import CHECK_KINDS, CheckKind
from ....faults.probe.live.schedule import EVENTS_MAX
from ....faults.probe.programs import RECORDERS, STORES
from ....faults.probe.tracing.control import CALL_FAULTS, POLICIES
from ..options import (
    CORPUS,
    IN_PROCESS,
    Conf,
    CorpusDir,
    JsonFile,
    JunitFile,
    Master,
    NoCorpus,
    ShipCheck,
    SummaryFile,
    TimelineFile,
)

Options = TypeVar("Options")


def _with_check_options(options: type[Options]) -> type[Options]:
    """Add one option per kind of check, after the parameter for the program."""
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
    """Crash any program at each of its file operations, and check it.

    The program is recorded once. The check sees the files and the acknowledged lines of every state that a crash may
    leave. Without a check, list the effects that were not durable at an acknowledged line, each with the missing sync.
    """

    context: typer.Context
    program: Annotated[
        list[str] | None,
        typer.Argument(help="After --: any program, a Python script, or -m and a module; then its arguments."),
    ] = None
    disk: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Kind of crash: {', '.join(PROFILES)}. Kind of damage at rest: {', '.join(DAMAGES)}. Repeatable. "
            f"Default: {', '.join(DISKS)}."
        ),
    ] = None
    limit: Annotated[int, typer.Option(min=1, help="Maximum of states per crash.")] = LIMIT
    points: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum of crash points of each run, spread evenly over its record. Default: all."),
    ] = None
    jobs: Annotated[int, typer.Option(min=0, help="Processes for checks; 0: check in this process.")] = 1
    seconds: Annotated[float, typer.Option(min=0.01, help="Time limit of a check; a longer check is a breach.")] = (
        CHECK_SECONDS
    )
    program_seconds: Annotated[float, typer.Option(min=0.1, help="Time limit of the program.")] = PROGRAM_SECONDS
    time: Annotated[
        str | None, typer.Option(help="Time limit of the probe, such as 10m; findings until then are reported.")
    ] = None
    stop_at_first: Annotated[
        bool, typer.Option("--stop-at-first", help="End after the first broken promise, with its smallest case.")
    ] = False
    master: Master = IN_PROCESS
    ship: ShipCheck = None
    conf: Conf = None
    start: Annotated[
        Path | None, typer.Option(exists=True, file_okay=False, help="The program starts in a copy of this directory.")
    ] = None
    record: Annotated[
        str,
        typer.Option(
            metavar="|".join(RECORDERS),
            help="Record system calls or Python's own calls. Default: python for Python scripts and modules.",
        ),
    ] = ""
    stores: Annotated[
        str,
        typer.Option(
            metavar="|".join(STORES), help="Record each write to mapped files, or only the changes until the next call."
        ),
    ] = STORES[0]
    stacks: Annotated[
        bool, typer.Option("--stacks", help="Find the source line of each system call with addr2line.")
    ] = False
    recovery_crashes: Annotated[
        int, typer.Option(min=0, max=1, help="1: also crash the recovery of unbroken states.")
    ] = 0
    faults: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="Run again with a fault at each call in turn: errors, for all errors that a call can return, "
            f"or {', '.join(CALL_FAULTS)}; repeatable.",
        ),
    ] = None
    fault_runs: Annotated[int, typer.Option(min=1, help="Maximum of calls per fault, spread over files and calls.")] = (
        FAULT_RUNS
    )
    inject: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RULE",
            help='Aimed fault, such as "failed-sync wal*.log #3", "torn-write *.db 2/5" or "disk-full after 1MiB"; or '
            '"cut at rename MANIFEST*": only crashes at this call; repeatable.',
        ),
    ] = None
    seeds: Annotated[
        int, typer.Option(min=0, help="Run again in this many seeded thread orders. With --restart: live runs.")
    ] = 0
    policy: Annotated[
        str,
        typer.Option(
            metavar="|".join(POLICIES),
            help="How seeds choose threads; pct: by priorities that change at a few points.",
        ),
    ] = POLICIES[0]
    disk_of: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIR=KIND",
            help="A directory below the program's is on a disk of its own, with this kind of crash, such as log=ext4; "
            "repeatable. The disks lose data independently.",
        ),
    ] = None
    machine: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=DIR",
            help="A directory below the program's is the disk of a machine, and a power cut is of all machines; "
            "repeatable. With --restart, they run live.",
        ),
    ] = None
    restart: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="Starts the machine {machine}, at first and after a power cut. The program is then their client, and "
            "each seed is a run with cuts and pauses of machines.",
        ),
    ] = None
    first_seed: Annotated[int, typer.Option(min=0, help="First seed of live runs.")] = 0
    events: Annotated[int, typer.Option(min=1, help="Maximum of cuts and pauses in a live run.")] = EVENTS_MAX
    refusals: Annotated[
        bool,
        typer.Option(
            "--refusals",
            help="A promise that starts with `refused ` names an operation that returned an error; the check gets "
            "these operations apart from the promises. For --faults.",
        ),
    ] = False
    allow: Annotated[
        list[str] | None,
        typer.Option(help="A harmless event that may stay unrecorded, such as subprocess.Popen; repeatable."),
    ] = None
    replay: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Check a stored failure.json again.")
    ] = None
    baseline: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Accept the findings in FILE: a line each, a signature as printed, two spaces, # and a reason.",
        ),
    ] = None
    write_baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            dir_okay=False,
            help="Write the findings of this run as a baseline, which is refused until each has a reason.",
        ),
    ] = None
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The reason of new findings in --write-baseline. Default: TODO.")
    ] = None
    corpus: CorpusDir = Path(CORPUS)
    no_corpus: NoCorpus = False
    out: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="Write report.html, failures, crash images and timelines to DIR."),
    ] = None
    timeline: TimelineFile = None
    junit: JunitFile = None
    summary: SummaryFile = None
    json_file: JsonFile = None

    @property
    def checks(self) -> dict[str, str]:
        """Return kind -> value of the check options that are set."""
        given = {kind: getattr(self, kind) for kind in CHECK_KINDS}
        return {kind: str(name) for kind, name in given.items() if name is not None}
