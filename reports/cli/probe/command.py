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
{rule: matches}; with rules that the program requested, "asked_rules": [[rule, injections]]. The modules `output`
(--replay), `durability` (without a check) and `live` (--restart) describe their JSON. Exit codes: 0 no promise is
broken except known ones, 1 a promise is broken, 2 usage error, 3 the recorder missed operations, runs or recoveries
were discarded, no requested fault was injected, a rule was never reached, or --time was too short; 130 after Ctrl-C,
143 after SIGTERM.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import typer

from ....faults.crashes.at_rest import DAMAGES
from ....faults.crashes.profiles import PROFILES
from ....faults.probe import CHECK_SECONDS, DISKS, FAULT_RUNS, LIMIT, PROGRAM_SECONDS
from ....faults.probe.checks.command import CHECK_KINDS
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
    argument,
    option,
)

Options = TypeVar("Options")


def _with_check_options(options: type[Options]) -> type[Options]:
    """Add one option per kind of check, after the parameter for the program."""
    annotations: dict[str, object] = {}
    for name, annotation in options.__annotations__.items():
        annotations[name] = annotation
        if name == "program":
            annotations |= {kind: str | None if row.metavar else Path | None for kind, row in CHECK_KINDS.items()}
    options.__annotations__ = annotations
    for kind, row in CHECK_KINDS.items():
        settings = {"metavar": row.metavar} if row.metavar else {"dir_okay": False}
        setattr(options, kind, option(None, help=row.help_text, **settings))
    return options


@dataclass(frozen=True)
@_with_check_options
class ProbeOptions:
    """Simulate a crash at each file operation of any program.

    tornlog runs the program once and records it. Each line that the program prints is a promise. The check gets the
    files and the promises of every state that a crash may leave. Without a check, tornlog lists the changes that were
    not durable at a promise, each with the missing sync.
    """

    context: typer.Context
    program: list[str] | None = argument(
        None, help="After --: any program, a Python script, or -m and a module; then its arguments."
    )
    disk: list[str] | None = option(
        None,
        help=f"Kind of crash: {', '.join(PROFILES)}. Kind of damage at rest: {', '.join(DAMAGES)}. Repeatable. "
        f"Default: {', '.join(DISKS)}.",
    )
    limit: int = option(LIMIT, min=1, help="Maximum number of states per crash.")
    points: int | None = option(
        None, min=1, help="Maximum number of crash points of each run, spread evenly over it. Default: all."
    )
    jobs: int = option(1, min=0, help="Processes for checks; 0: check in this process.")
    seconds: float = option(
        CHECK_SECONDS, min=0.01, help="Time limit of a check. A slower check counts as a broken promise."
    )
    program_seconds: float = option(PROGRAM_SECONDS, min=0.1, help="Time limit of the program.")
    time: str | None = option(None, help="Time limit of the probe, such as 10m. The findings until then are reported.")
    stop_at_first: bool = option(
        False, "--stop-at-first", help="Stop at the first broken promise, and shrink its case."
    )
    master: Master = IN_PROCESS
    ship: ShipCheck = None
    conf: Conf = None
    start: Path | None = option(
        None, exists=True, file_okay=False, help="Start the program in a copy of this directory."
    )
    record: str = option(
        "",
        metavar="|".join(RECORDERS),
        help="Record system calls or Python's own calls. Default: python for Python scripts and modules.",
    )
    stores: str = option(
        STORES[0],
        metavar="|".join(STORES),
        help="Record each write to mapped files, or only the changes until the next call.",
    )
    stacks: bool = option(False, "--stacks", help="Find the source line of each system call with addr2line.")
    recovery_crashes: int = option(
        0, min=0, max=1, help="1: also crash the recovery of states that keep every promise."
    )
    faults: list[str] | None = option(
        None,
        metavar="KIND",
        help="Run again with a fault at each call in turn: errors, for all errors that a call can return, "
        f"or {', '.join(kind.replace(' ', '-') for kind in CALL_FAULTS)}; repeatable.",
    )
    fault_runs: int = option(
        FAULT_RUNS, min=1, help="Maximum number of runs per kind of fault, spread over files and calls."
    )
    inject: list[str] | None = option(
        None,
        metavar="RULE",
        help='Aimed fault, such as "failed-sync wal*.log #3", "torn-write *.db 2/5" or "disk-full after 1MiB"; or '
        '"cut at rename MANIFEST*": only crashes at this call; repeatable.',
    )
    seeds: int = option(
        0, min=0, help="Run again in N other orders of threads, each from a seed. With --restart: N live runs."
    )
    policy: str = option(
        POLICIES[0],
        metavar="|".join(POLICIES),
        help="How a seed chooses the next thread; pct: by priorities that change at a few points.",
    )
    disk_of: list[str] | None = option(
        None,
        metavar="DIR=KIND",
        help="A directory below the program's is a separate disk with this kind of crash, such as log=ext4; "
        "repeatable. The disks lose data independently.",
    )
    machine: list[str] | None = option(
        None,
        metavar="NAME=DIR",
        help="A directory below the program's is the disk of a machine; repeatable. A power cut hits all machines; "
        "with --restart, some of them.",
    )
    restart: str | None = option(
        None,
        metavar="COMMAND",
        help="Command that starts the machine {machine}, also after a power cut. The program is then a client of the "
        "machines, and each seed is a run with power cuts and pauses.",
    )
    first_seed: int = option(0, min=0, help="First seed of live runs.")
    events: int = option(EVENTS_MAX, min=1, help="Maximum number of power cuts and pauses in a live run.")
    refusals: bool = option(
        False,
        "--refusals",
        help="Treat a promise that starts with `refused ` as an operation that returned an error; the check gets "
        "these operations separately. For --faults.",
    )
    allow: list[str] | None = option(
        None,
        metavar="EVENT",
        help="Python audit event that is harmless and need not be recorded, such as subprocess.Popen; repeatable.",
    )
    replay: Path | None = option(None, exists=True, dir_okay=False, help="Check a stored failure.json again.")
    baseline: Path | None = option(
        None,
        exists=True,
        dir_okay=False,
        help="Accept the findings in FILE. Each line has a signature as printed, two spaces, # and a reason.",
    )
    write_baseline: Path | None = option(
        None,
        metavar="FILE",
        dir_okay=False,
        help="Write the findings of this run as a baseline. Replace each TODO by a reason before use.",
    )
    reason: str | None = option(
        None, metavar="TEXT", help="Reason for new findings in --write-baseline. Default: TODO."
    )
    corpus: CorpusDir = Path(CORPUS)
    no_corpus: NoCorpus = False
    out: Path | None = option(
        None, file_okay=False, help="Write report.html, failures, crash images and timelines to DIR."
    )
    timeline: TimelineFile = None
    junit: JunitFile = None
    summary: SummaryFile = None
    json_file: JsonFile = None

    @property
    def checks(self) -> dict[str, str]:
        """Return kind -> value of the check options that are set."""
        given = {kind: getattr(self, kind) for kind in CHECK_KINDS}
        return {kind: str(name) for kind, name in given.items() if name is not None}
