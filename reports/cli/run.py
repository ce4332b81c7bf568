"""Options of `tornlog run`, separate from the slow imports of `campaign`."""

from dataclasses import dataclass
from pathlib import Path

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
    argument,
    complete_disk,
    complete_mutant,
    complete_policy,
    complete_scenario,
    complete_version,
    option,
)


@dataclass(frozen=True)
class RunOptions:
    """Run crash scenarios of the store, and check every promise."""

    context: typer.Context
    names: list[str] | None = argument(
        None, metavar="[SCENARIO]...", help="Scenarios. Default: all.", autocompletion=complete_scenario
    )
    jobs: int = option(1, min=1, help="Processes.")
    seeds: str | None = option(None, metavar="N|A:B", help="Number of seeds of each scenario, or seeds A to B - 1.")
    seed: int | None = option(None, help="One seed only.")
    time: str | None = option(None, help="Time budget, such as 30s or 5m. Default: 30s, unless --seeds is given.")
    first_seed: int | None = option(
        None,
        min=0,
        help="First seed of a run with --time. Default: derived from commit and date in CI, else random.",
    )
    policy: str | None = option(
        None, help="Use only this scheduling policy; see `list`.", autocompletion=complete_policy
    )
    attribute_points: AttributePoints = False
    disk: str | None = option(None, help="Use only this disk; see `list`.", autocompletion=complete_disk)
    mutant: str | None = option(
        None,
        help="Put a known bug into the store (see `list`), or your own bug in FILE.py.",
        autocompletion=complete_mutant,
    )
    as_: str | None = option(
        None,
        "--as",
        metavar="VERSION",
        help="Put the known bugs of a RocketMQ version into the store, such as rocketmq-4.9.8.",
        autocompletion=complete_version,
    )
    check_determinism: bool = option(
        False, "--check-determinism", help="Run every seed twice, replay its record, and compare the digests."
    )
    processes: int | None = option(
        None,
        min=1,
        help="With --check-determinism: repeat in N processes, in another order, with other hash seeds.",
    )
    python: list[str] | None = option(
        None, metavar="PATH", help="Also repeat with this Python; all: every installed Python; repeatable."
    )
    schedule: Path | None = option(
        None,
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="Task switches for --seed, one per line: TASK @ LABEL #N -> TASK.",
    )
    require_coverage: bool = option(
        False,
        "--require-coverage",
        help="Fail if a kind of fault was never injected, a mark never reached, or a scenario never run.",
    )
    verbose: bool = option(False, "--verbose", help="Show a row for every scenario, fault and mark.")
    against: Path | None = option(
        None, metavar="FILE", exists=True, dir_okay=False, help="Compare with the --json output of another commit."
    )
    corpus: CorpusDir = Path(CORPUS)
    no_corpus: NoCorpus = False
    out: Path | None = option(
        None,
        metavar="DIR",
        file_okay=False,
        help="Write report.html, failures and timelines to DIR. `run` without options writes to out.",
    )
    timeline: TimelineFile = None
    trace: TraceFile = None
    junit: JunitFile = None
    summary: SummaryFile = None
    json_file: JsonFile = None
