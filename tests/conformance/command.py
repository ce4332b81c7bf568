"""Command that compares our store with the real one on the same directories.

JSON, version 1: `{"format": "tornlog-compare/1", "against", "seeds": [first, end], "directories": [{"writer": "ours" or
"real", "kind", "agreed", "explained", "unexplained"}], "disks": [{"kind", "disk", "directories"}], "records",
"answers", "deviations": [{"name", "ours", "real"}], "failures": [{"writer", "seed", "kind", "disk", "scenario",
"outcome", "differences": [{"place", "ours", "real", "deviation"}]}], "seconds"}`.

answers: puts that the real store answered OK before it ended, each looked up here. deviations: number of directories
per writer. deviation: the line of docs/deviations.md that explains a difference, or null.

JSON of `--replay`: `{"format": "tornlog-compare-replay/1", ...}` with the fields of one of the failures.

Exit codes: 0 every difference is explained, 1 one is not, 2 usage, or Maven or a JDK is missing, 3 the harness.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from tornlog.faults.simulation.prose import print_line
from tornlog.reports.cli.console import ERR, OUT, plain_table, print_error, show_progress
from tornlog.reports.cli.options import (
    EXIT_BROKEN,
    EXIT_HARNESS,
    EXIT_HELD,
    EXIT_USAGE,
    JsonFile,
    ResultFiles,
    options_text,
    require_known_name,
    write_json,
)
from tornlog.scenarios.campaigns.amounts import parse_seeds
from tornlog.scenarios.mutants.versions import VERSIONS as BUGS

from .campaign import CaseFileError, ConformanceReport, kept_case, run_campaign
from .cases import WRITTEN_HERE, WRITTEN_THERE, CaseResult
from .cases import compare as compare_case
from .deviations import DEVIATIONS
from .maven import VERSIONS, JavaMissing, JavaProgram, real_store_program
from .real_store import RealStore, RealStoreFailed

_NEWEST = "rocketmq-4.9.8"
_BOTH = "both"
_FAILURES_SHOWN_MAX = 5
_OUTCOMES = ("agreed", "explained", "unexplained")
_DIFFERENCES_SHOWN_MAX = 5
_WRITERS = {True: "written here", False: "written by the real store"}


def compare(
    against: Annotated[str, typer.Option(help=f"One of {', '.join(VERSIONS)}.")] = _NEWEST,
    seeds: Annotated[str, typer.Option(help="N or A:B; each seed is a directory of each writer.")] = "36",
    written_by: Annotated[
        str, typer.Option(help=f"Only directories of one writer: {WRITTEN_HERE} or {WRITTEN_THERE}.")
    ] = _BOTH,
    as_version: Annotated[
        str | None, typer.Option("--as", help="Ours write with the bugs of a real version: see `list`.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that simulate.")] = 1,
    out: Annotated[
        Path | None, typer.Option(file_okay=False, help="Leave what nothing explains in DIR/failures.")
    ] = None,
    work: Annotated[
        Path | None, typer.Option(file_okay=False, help="Where jars and driver are kept, not in the user's cache.")
    ] = None,
    replay: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Open a kept failure.json's store again.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Open directories of our store in the real RocketMQ store, and the reverse, and compare."""
    require_known_name(VERSIONS, against, "--against")
    require_known_name((WRITTEN_HERE, WRITTEN_THERE, _BOTH), written_by, "--written-by")
    if as_version is not None:
        require_known_name(BUGS, as_version, "--as")
    chosen = parse_seeds(seeds, None)
    assert chosen is not None
    try:
        files = real_store_program(against, work)
    except JavaMissing as missing:
        print_error(missing)
        raise typer.Exit(EXIT_USAGE) from missing
    try:
        if replay is not None:
            _replay(replay, files, json_file)
        began = perf_counter()
        writers = (WRITTEN_HERE, WRITTEN_THERE) if written_by == _BOTH else (written_by,)
        campaign = _run(files, chosen, writers, as_version, jobs, out)
    except RealStoreFailed as failed:
        print_error(failed)
        raise typer.Exit(EXIT_HARNESS) from failed
    seconds = perf_counter() - began
    written = ResultFiles()
    with written.writing():
        write_json(json_file, _campaign_json(campaign, against, chosen, seconds))
    if json_file != "-":
        _print_campaign(OUT, campaign, against, seconds)
    for failure in campaign.failures[:_FAILURES_SHOWN_MAX]:
        _print_failure(json_file, failure, _repeat_command(failure, against, as_version, out))
    written.exit(EXIT_BROKEN if campaign.failures else EXIT_HELD)


def _run(
    files: JavaProgram, seeds: range, writers: Sequence[str], version: str | None, jobs: int, out: Path | None
) -> ConformanceReport:
    with show_progress("comparing", len(seeds) * len(writers), ticks=False) as update:
        unexplained = 0

        def on_case(compared: CaseResult) -> None:
            nonlocal unexplained
            unexplained += compared.outcome == "unexplained"
            update(advance=1, facts=f"{unexplained:,} not explained", refresh=True)

        return run_campaign(files, seeds, writers, version=version, jobs=jobs, out=out, on_case=on_case)


def _repeat_command(compared: CaseResult, against: str, version: str | None, out: Path | None) -> str:
    """Return the command that repeats a case. A case with a kill is not repeatable and must be kept."""
    case = compared.case
    command = f"python -m tests.conformance --against {against}"
    if out is not None:
        return f"{command} --replay {out}/failures/{case.name}/failure.json"
    again = f"{command} --seeds {case.seed}:{case.seed + 1} --written-by {case.writer}{options_text(**{'as': version})}"
    return again if case.writer == WRITTEN_HERE else f"{again} --out DIR, which may come out otherwise"


def _replay(file: Path, files: JavaProgram, json_file: str | None) -> NoReturn:
    with TemporaryDirectory(prefix="tornlog-compare-") as home:
        try:
            with kept_case(file) as case, RealStore(files, Path(home), stores=1) as real:
                compared = compare_case(case, real)
        except CaseFileError as error:
            raise typer.BadParameter(str(error), param_hint="--replay") from error
    written = ResultFiles()
    with written.writing():
        write_json(json_file, {"format": "tornlog-compare-replay/1", **_failure_json(compared)})
    if json_file != "-":
        OUT.print(f"{case.name}: {compared.outcome}", soft_wrap=True)
    if compared.unexplained:
        _print_failure(json_file, compared, f"python -m tests.conformance --replay {file}")
        written.exit(EXIT_BROKEN)
    written.exit(EXIT_HELD)


def _print_campaign(console: Console, campaign: ConformanceReport, against: str, seconds: float) -> None:
    failed = len(campaign.failures)
    verdict = f"{failed:,} not explained" if failed else "all agreed or explained"
    what = f"{campaign.cases:,} directories, {campaign.records:,} records"
    title = f"{what}, against {against}, in {seconds:.1f} s: {verdict}"
    table = plain_table(title, ("directory", "ended in"), _OUTCOMES)
    for (writer, kind), outcomes in sorted(campaign.outcomes.items()):
        figures = (f"{outcomes[name]:,}" for name in _OUTCOMES)
        style = "red" if outcomes["unexplained"] else ""
        table.add_row(_WRITERS[writer == WRITTEN_HERE], kind, *figures, style=style)
    console.print(table)
    if campaign.answers:
        answers = f"{campaign.answers:,} puts that the real store had answered OK were looked for here"
        print_line(console, 0, answers)
    if campaign.deviations:
        table = plain_table(
            "what explains differences: what the real store does instead, in directories of",
            ("deviation", "what"),
            ("ours", "its own"),
        )
        for name, (ours, real) in _deviations(campaign).items():
            table.add_row(name, DEVIATIONS[name].there, f"{ours:,}", f"{real:,}")
        console.print(table)


def _deviations(campaign: ConformanceReport) -> dict[str, tuple[int, int]]:
    """Return the number of directories per writer with each deviation, the most frequent first."""
    found = campaign.deviations
    seen = {name: (found[WRITTEN_HERE, name], found[WRITTEN_THERE, name]) for name in DEVIATIONS}
    frequent = sorted(seen.items(), key=lambda one: -sum(one[1]))
    return {name: counts for name, counts in frequent if any(counts)}


def _print_failure(json_file: str | None, compared: CaseResult, again: str) -> None:
    console = ERR if json_file == "-" else OUT
    case = compared.case
    facts = ", ".join(text for text in (case.scenario, case.kind, case.disk) if text)
    console.print(f"\n[red]{case.name}[/red] {escape(facts)}", soft_wrap=True)
    for one in compared.unexplained[:_DIFFERENCES_SHOWN_MAX]:
        print_line(console, 2, f"{one.place}: ours {one.ours}, real {one.real}")
    more = len(compared.unexplained) - _DIFFERENCES_SHOWN_MAX
    if more > 0:
        print_line(console, 2, f"and {more:,} more")
    console.print(f"  reproduce: [bold]{escape(again)}[/bold]", soft_wrap=True)


def _campaign_json(campaign: ConformanceReport, against: str, seeds: range, seconds: float) -> Mapping[str, Any]:
    return {
        "format": "tornlog-compare/1",
        "against": against,
        "seeds": [seeds.start, seeds.stop],
        "directories": [
            {"writer": writer, "kind": kind, **{name: outcomes[name] for name in _OUTCOMES}}
            for (writer, kind), outcomes in sorted(campaign.outcomes.items())
        ],
        "disks": [
            {"kind": kind, "disk": disk, "directories": count}
            for (kind, disk), count in sorted(campaign.disks.items())
            if disk
        ],
        "records": campaign.records,
        "answers": campaign.answers,
        "deviations": [
            {"name": name, "ours": ours, "real": real} for name, (ours, real) in _deviations(campaign).items()
        ],
        "failures": [_failure_json(one) for one in campaign.failures],
        "seconds": round(seconds, 3),
    }


def _failure_json(compared: CaseResult) -> Mapping[str, Any]:
    case = compared.case
    return {
        **{name: getattr(case, name) for name in ("writer", "seed", "kind", "disk", "scenario")},
        "outcome": compared.outcome,
        "differences": [one.to_json() for one in compared.differences],
    }
