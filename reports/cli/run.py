"""The options of `tornlog run`. `campaign` carries it out, and is imported only then.

JSON, version 1: `{"format": "tornlog-run/1", "scenarios": [{"name", "claim", "seeds", "crash_points", "injected",
"marks", "violations", "errors", "nondeterministic", "digest", "messages", "steps", "seconds", "disks": {disk: seeds
that came to a verdict}, "tried": [{"invariant", "disk", "seeds"}], "broken": [likewise]}], "not_run": [names of
scenarios], "interrupted": true or false, "first_seed": of a time budget, else
null, "failures": [paths], "pairs": {"met", "can", "never": [[name, name]]},
"seconds"}`; with --out also "report": path; with --timeline or --trace also "drawn": `[paths]`; with --require-coverage
also "never": `{"faults": [names], "marks": [names], "scenarios": [names]}`; with --as also "version": `{"id", "bugs":
[{"id", "verdict": "has", "has not" or "not certain", "on", "reason", "left_out"}], "deviations": {id: text}, "broken":
[{"promise", "kind", "times", "scenarios": {name: times}, "scenario", "seed", "causes": [{"id", "tries", "mended",
"enough"}], "clean", "again": command}]}`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from .options import (
    AttributePoints,
    JsonFile,
    JunitFile,
    SummaryFile,
    TimelineFile,
    TraceFile,
    complete_disk,
    complete_mutant,
    complete_policy,
    complete_scenario,
    complete_version,
)


@dataclass(frozen=True)
class RunOptions:
    """Pull the plug on the store, seed after seed, and judge what is left."""

    context: typer.Context
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SCENARIO]...", help="Scenarios; all without any.", autocompletion=complete_scenario),
    ] = None
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Processes.")] = 1
    seeds: Annotated[str | None, typer.Option(metavar="N|A:B", help="N, or A to B - 1, of each scenario.")] = None
    seed: Annotated[int | None, typer.Option(metavar="N", help="One seed only.")] = None
    time: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="For how long, as in 30s or 5m. 30s without seeds. Names what it left out."),
    ] = None
    first_seed: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="The first seed of a time budget; unless given, drawn by commit and date in CI, else at random.",
        ),
    ] = None
    policy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="One scheduling policy only.", autocompletion=complete_policy),
    ] = None
    attribute_points: AttributePoints = False
    disk: Annotated[str | None, typer.Option(metavar="NAME", help="One disk only.", autocompletion=complete_disk)] = (
        None
    )
    mutant: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Run with a known bug put back: see `list`; or FILE.py, a bug of yours.",
            autocompletion=complete_mutant,
        ),
    ] = None
    as_: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="VERSION",
            help="Run with the bugs of a real version, as in rocketmq-4.9.8.",
            autocompletion=complete_version,
        ),
    ] = None
    check_determinism: Annotated[
        bool, typer.Option("--check-determinism", help="Run every seed twice, and from its record, and compare.")
    ] = False
    processes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="With --check-determinism: run them again in N processes, in another order, with other hashes.",
        ),
    ] = None
    python: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="And with this Python, too; all: every one found; repeatable."),
    ] = None
    schedule: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Lines TASK @ LABEL #N -> TASK, for one seed's tasks.",
        ),
    ] = None
    require_coverage: Annotated[
        bool,
        typer.Option(
            "--require-coverage",
            help="Fail if a kind of fault is never injected, a mark is never hit, or a scenario is not run.",
        ),
    ] = False
    verbose: Annotated[bool, typer.Option("--verbose", help="Show a row for every scenario, fault and mark.")] = False
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            file_okay=False,
            help="Leave report.html, failures and timelines in DIR; bare `run` does, in out.",
        ),
    ] = None
    timeline: TimelineFile = None
    trace: TraceFile = None
    junit: JunitFile = None
    summary: SummaryFile = None
    json_file: JsonFile = None
