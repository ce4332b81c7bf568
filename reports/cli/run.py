"""Options of `tornlog run`, separate from the slow imports of `campaign`.

JSON, version 1: `{"format": "tornlog-run/1", "scenarios": [{"name", "claim", "seeds", "crash_points", "injected",
"marks", "violations", "errors", "nondeterministic", "digest", "messages", "steps", "seconds", "disks": {disk: seeds
with a verdict}, "tried": [{"invariant", "disk", "seeds"}], "broken": [likewise]}], "not_run": [names of scenarios],
"interrupted": true or false, "first_seed": first seed of a time budget, else null, "failures": [paths], "pairs":
{"met", "can", "never": [[name, name]]}, "seconds"}`; with kept seeds (--corpus) also "corpus", as of `probe`; with
--out also "report": path; with --timeline or --trace also "drawn": `[paths]`; with --require-coverage also "never":
`{"faults": [names], "marks": [names], "scenarios": [names]}`; with --as also "version": `{"id", "bugs": [{"id",
"verdict": "has", "has not" or "not certain", "on", "reason", "left_out"}], "deviations": {id: text}, "broken":
[{"promise", "kind", "times", "scenarios": {name: times}, "scenario", "seed", "causes": [{"id", "tries", "mended",
"enough"}], "clean", "again": command}]}`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from .options import (
    CORPUS,
    AttributePoints,
    CorpusDir,
    JsonFile,
    JunitFile,
    NoCorpus,
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
    """Cut the power of simulated stores, and check what survives."""

    context: typer.Context
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SCENARIO]...", help="Scenarios. Default: all.", autocompletion=complete_scenario),
    ] = None
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Processes.")] = 1
    seeds: Annotated[
        str | None, typer.Option(metavar="N|A:B", help="Number of seeds of each scenario, or seeds A to B - 1.")
    ] = None
    seed: Annotated[int | None, typer.Option(metavar="N", help="One seed only.")] = None
    time: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Time budget, such as 30s or 5m. Default: 30s, unless --seeds is given."),
    ] = None
    first_seed: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="The first seed of a time budget. Default: from commit and date in CI, else random.",
        ),
    ] = None
    policy: Annotated[
        str | None, typer.Option(metavar="NAME", help="One scheduling policy only.", autocompletion=complete_policy)
    ] = None
    attribute_points: AttributePoints = False
    disk: Annotated[str | None, typer.Option(metavar="NAME", help="One disk only.", autocompletion=complete_disk)] = (
        None
    )
    mutant: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Apply a known bug (see `list`), or your own bug in FILE.py.",
            autocompletion=complete_mutant,
        ),
    ] = None
    as_: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="VERSION",
            help="Apply the bugs of a real version, such as rocketmq-4.9.8.",
            autocompletion=complete_version,
        ),
    ] = None
    check_determinism: Annotated[
        bool,
        typer.Option("--check-determinism", help="Run every seed twice and from its record, and compare the digests."),
    ] = False
    processes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="With --check-determinism: repeat in N processes, in another order, with other hashes.",
        ),
    ] = None
    python: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="Also repeat with this Python; all: every installed Python; repeatable."),
    ] = None
    schedule: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", exists=True, dir_okay=False, help="Schedule for one seed, as lines TASK @ LABEL #N -> TASK."
        ),
    ] = None
    require_coverage: Annotated[
        bool,
        typer.Option(
            "--require-coverage",
            help="Fail if a kind of fault is never injected, a mark never reached, or a scenario not run.",
        ),
    ] = False
    verbose: Annotated[bool, typer.Option("--verbose", help="Show a row for every scenario, fault and mark.")] = False
    corpus: CorpusDir = Path(CORPUS)
    no_corpus: NoCorpus = False
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            file_okay=False,
            help="Write report.html, failures and timelines to DIR. Default of `run` without options: out.",
        ),
    ] = None
    timeline: TimelineFile = None
    trace: TraceFile = None
    junit: JunitFile = None
    summary: SummaryFile = None
    json_file: JsonFile = None
