"""The command that runs seeds, as the command line has it; what it does: `campaign`, which is imported when it does it.

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
    was_given,
)


def run(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SCENARIO]...", help="Scenarios; all without any.", autocompletion=complete_scenario),
    ] = None,
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Processes.")] = 1,
    seeds: Annotated[str | None, typer.Option(metavar="N|A:B", help="N, or A to B - 1, of each scenario.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="One seed only.")] = None,
    time: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="For how long, as in 30s or 5m. 30s without seeds. Names what it left out."),
    ] = None,
    first_seed: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="The first seed of a time budget; unless given, drawn by commit and date in CI, else at random.",
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="One scheduling policy only.", autocompletion=complete_policy),
    ] = None,
    attribute_points: AttributePoints = False,
    disk: Annotated[
        str | None, typer.Option(metavar="NAME", help="One disk only.", autocompletion=complete_disk)
    ] = None,
    mutant: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Run with a known bug put back: see `list`; or FILE.py, a bug of yours.",
            autocompletion=complete_mutant,
        ),
    ] = None,
    as_: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="VERSION",
            help="Run with the bugs of a real version, as in rocketmq-4.9.8.",
            autocompletion=complete_version,
        ),
    ] = None,
    check_determinism: Annotated[
        bool, typer.Option("--check-determinism", help="Run every seed twice, and from its record, and compare.")
    ] = False,
    processes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="With --check-determinism: run them again in N processes, in another order, with other hashes.",
        ),
    ] = None,
    python: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="And with this Python, too; all: every one found; repeatable."),
    ] = None,
    schedule: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Lines TASK @ LABEL #N -> TASK, for one seed's tasks.",
        ),
    ] = None,
    require_coverage: Annotated[
        bool,
        typer.Option(
            "--require-coverage",
            help="Fail if a kind of fault is never injected, a mark is never hit, or a scenario is not run.",
        ),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show a row for every scenario, fault and mark.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            file_okay=False,
            help="Leave report.html, failures and timelines in DIR; bare `run` does, in out.",
        ),
    ] = None,
    timeline: TimelineFile = None,
    trace: TraceFile = None,
    junit: JunitFile = None,
    summary: SummaryFile = None,
    json_file: JsonFile = None,
) -> None:
    """Pull the plug on the store, seed after seed, and judge what is left."""
    if processes is not None or python:
        if not check_determinism:
            raise typer.BadParameter("goes with --check-determinism", param_hint="--processes")
        fitting = ("names", "seeds", "check_determinism", "processes", "python", "json_file")
        for name in context.params:
            if name not in fitting and was_given(context, name):
                option = f"--{name.rstrip('_').replace('_', '-')}"
                raise typer.BadParameter("expected none with --processes", param_hint=option)
        from .determinism import check_processes

        check_processes(names or [], seeds, processes or 1, tuple(python or ()), json_file)
    from .campaign import RunOptions, campaign

    asked = RunOptions(
        tuple(names or ()),
        jobs,
        seeds,
        seed,
        time,
        first_seed,
        policy,
        attribute_points,
        disk,
        mutant,
        as_,
        check_determinism,
        schedule,
        require_coverage,
        verbose,
        out,
        timeline,
        trace,
        junit,
        summary,
        json_file,
    )
    campaign(context, asked)
