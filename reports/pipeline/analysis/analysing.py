"""Implementation of the command `analyze`: Spark session, table files, page and output."""

from collections import Counter
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from rich.table import Table

from ....faults.simulation.prose import prose
from ....scenarios.campaigns.pairs import Pair, pairs_met
from ....store.errors import brings
from ...cli.console import ERR, OUT, plain_table, print_paths
from ...cli.options import (
    EXIT_HARNESS,
    EXIT_HELD,
    IN_PROCESS,
    ResultFiles,
    absolute,
    command_line,
    results_written,
    write_json,
)
from ...cli.pages import write_page
from ...html.sweep_report import SweepResults
from ...quantities import rate
from ...results.coverage import pairs_lines
from ..spark.options import session_for
from .command import AnalyzeOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from .analysis import Sweep

_BROKEN_SHOWN_MAX = 20
Sums = dict[tuple[str, ...], Counter[str]]
"""Seeds by outcome, for each group of rows."""
_ASKED_FOR = ("scenarios", "first", "last", "disk", "policy", "mutant")


def analyze_sweeps(asked: AnalyzeOptions) -> NoReturn:
    """Analyse the sweeps of a command line, and write and print the tables."""
    out, json_file = asked.out, asked.json_file
    if asked.master == IN_PROCESS:
        raise typer.BadParameter("analyses are done by Spark; local[1] is one thread", param_hint="--master")
    try:
        from .analysis import NoSweepError, analysed, rows_of, sweep_at, write_tables
        from .trends import trends
    except ImportError as error:
        raise typer.BadParameter(f"{error}, which {brings('spark')} has") from error
    try:
        sweeps = [sweep_at(place) for place in dict.fromkeys(map(absolute, asked.places))]
    except NoSweepError as error:
        raise typer.BadParameter(str(error), param_hint="DIR") from error
    began = perf_counter()
    with session_for(asked.master, asked.ship, asked.conf) as spark:
        tables = {**analysed(rows_of(spark, sweeps)), "trends": trends(spark, sweeps)}
    took = perf_counter() - began
    files, written = list[Path](), ResultFiles()
    report = None
    damaged = sum(len(sweep.files.damaged) for sweep in sweeps)
    if out is not None:
        from ...html.sweep_report import sweep_page  # loads the templates only for a page

        with written.attempt(), results_written("--out"):
            files = write_tables(tables, out)
            report = write_page(sweep_page(_results(tables, command_line(asked.context), took, damaged)), out)
    if json_file is not None:
        document = _document(sweeps, tables, files)
        with written.attempt():
            write_json(json_file, document if report is None else {**document, "report": str(report)})
    if json_file != "-":
        _print_result(tables, files if report is None else [*files, report])
    _print_doubts(sweeps)
    written.exit(EXIT_HARNESS if damaged else EXIT_HELD)


def _document(sweeps: list["Sweep"], tables: dict[str, "pa.Table"], files: list[Path]) -> dict[str, Any]:
    from .analysis import never

    return {
        "format": "tornlog-analysis/1",
        "sweeps": [
            {
                "place": sweep.place,
                **{name: getattr(sweep.begun.request, name) for name in _ASKED_FOR},
                "seeds": sweep.begun.request.seeds,
                "code": sweep.begun.code,
                "began": sweep.begun.began,
                "damaged": [
                    {"file": f"rows/{name}", "reason": reason} for name, reason in sorted(sweep.files.damaged.items())
                ],
            }
            for sweep in sweeps
        ],
        "rows": _rows(tables),
        "never": {f"{what}s": never(tables["coverage"], what) for what in ("fault", "mark")},
        "tables": {name: table.to_pylist() for name, table in tables.items()},
        "files": [str(path) for path in files],
    }


def _print_doubts(sweeps: list["Sweep"]) -> None:
    for sweep in sweeps:
        for name, reason in sorted(sweep.files.damaged.items()):
            _doubt(f"{sweep.place}/rows/{name}: {reason}")
        if sweep.files.damaged:
            _doubt(f"{sweep.place}: these rows are not counted; repeat the call of `tornlog sweep` to restore them")
    codes = sorted({sweep.begun.code for sweep in sweeps})
    if len(codes) > 1:
        _doubt(f"different code ran these sweeps, so the same seeds may be different runs: {', '.join(codes)}")


def _doubt(text: str) -> None:
    ERR.print(text, soft_wrap=True, markup=False, highlight=False)


def _results(tables: dict[str, "pa.Table"], command: str, seconds: float, damaged: int) -> SweepResults:
    rows = {name: table.to_pylist() for name, table in tables.items()}
    times: dict[str, dict[str, int]] = {"fault": {}, "end": {}, "mark": {}}
    for row in rows["coverage"]:
        times[row["what"]][row["name"]] = row["times"]
    return SweepResults(
        "analyze",
        command,
        seconds,
        rows["pass_rates"],
        rows["put_latency"],
        rows["detections"],
        injected=times["fault"] | times["end"],
        marks=times["mark"],
        pairs=_pair_seeds(rows["pairs"]),
        damaged=damaged,
    )


def _pair_seeds(rows: list[dict[str, Any]]) -> dict[Pair, int]:
    return {(row["first"], row["second"]): row["seeds"] for row in rows}


def _rows(tables: dict[str, "pa.Table"]) -> int:
    return sum(tables["pass_rates"]["seeds"].to_pylist())


def _print_result(tables: dict[str, "pa.Table"], files: list[Path]) -> None:
    """Print sums of the tables that have rows; the files have every cell."""
    from .analysis import never

    OUT.print(f"{_rows(tables):,} rows\n")
    rates = tables["pass_rates"].to_pylist()
    for whose, some in (
        ("the unmodified store", [row for row in rates if row["mutant"] is None]),
        ("mutants", [row for row in rates if row["mutant"] is not None]),
    ):
        if some:
            OUT.print(_scenarios_table(f"pass rates of {whose}", _sums(some, ("scenario",))))
            cells = _sums(some, ("scenario", "disk", "policy"))
            broken = {cell: counts for cell, counts in cells.items() if counts["held"] < counts["seeds"]}
            if broken:
                OUT.print(_broken_table(broken))
    if tables["mutants"].num_rows:
        OUT.print(_mutants_table(tables["mutants"].to_pylist()))
    OUT.print(_coverage_table(tables["coverage"].to_pylist()))
    for what in ("fault", "mark"):
        missing = never(tables["coverage"], what)
        if missing:
            prose(OUT, 0, f"{what}s that never occurred: {', '.join(missing)}")
    for line in pairs_lines(pairs_met(_pair_seeds(tables["pairs"].to_pylist()))):
        prose(OUT, 0, line)
    if tables["put_latency"].num_rows:
        OUT.print(_latency_table(tables["put_latency"].to_pylist()))
    by_code = tables["trends"].to_pylist()
    if len({row["code"] for row in by_code}) > 1:
        OUT.print(_trends_table(by_code))
    print_paths(files)


def _trends_table(trends: list[dict[str, Any]]) -> Table:
    table = plain_table(
        "versions of the code, oldest first; broke and mended are compared with the version before",
        ("code", "mutant"),
        ("seeds", "broken", "again", "broke", "mended", "ms a\nseed"),
    )
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in trends:
        groups.setdefault((row["code"], row["mutant"] or "-"), []).append(row)
    for cell, rows in groups.items():
        figures = (sum(row[name] for row in rows) for name in ("seeds", "violated", "again", "broke", "mended"))
        seconds = sum(row["seconds_a_seed"] * row["seeds"] for row in rows)
        mean_ms = 1000 * seconds / sum(row["seeds"] for row in rows)
        table.add_row(*cell, *(f"{figure:,}" for figure in figures), f"{mean_ms:,.1f}")
    return table


def _sums(rates: list[dict[str, Any]], by: tuple[str, ...]) -> Sums:
    sums: Sums = {}
    for row in rates:
        counts = {name: row[name] for name in ("seeds", "held", "violated", "other")}
        sums.setdefault(tuple(row[name] or "-" for name in by), Counter()).update(counts)
    return sums


def _scenarios_table(title: str, sums: Sums) -> Table:
    table = plain_table(title, ("scenario",), ("seeds", "broken", "other", "rate in %, at 95 %"))
    for (scenario,), counts in sorted(sums.items()):
        figures = (f"{counts[name]:,}" for name in ("seeds", "violated", "other"))
        table.add_row(scenario, *figures, rate(counts["held"], counts["seeds"]))
    return table


def _broken_table(broken: Sums) -> Table:
    worst = sorted(broken, key=lambda cell: (broken[cell]["held"] / broken[cell]["seeds"], cell))
    shown = worst[:_BROKEN_SHOWN_MAX]
    title = f"broken combinations, {len(shown)} of {len(worst)}, worst first"
    table = plain_table(title, ("scenario", "disk", "policy"), ("rate in %, at 95 %",))
    for cell in shown:
        table.add_row(*cell, rate(broken[cell]["held"], broken[cell]["seeds"]))
    return table


def _mutants_table(mutants: list[dict[str, Any]]) -> Table:
    found = sum(row["found"] for row in mutants)
    title = f"{found} of {len(mutants)} mutants found; median over scenarios"
    table = plain_table(title, ("mutant", "by"), ("seeds", "seconds", "found\nin", "median\nseeds"))
    for row in mutants:
        table.add_row(
            row["mutant"],
            row["invariant"] or "-",
            f"{row['seeds']:,}",
            f"{row['seconds']:.1f}",
            f"{row['found_in']} of {row['scenarios']}",
            "-" if row["median_seeds"] is None else f"{row['median_seeds']:,.0f}",
        )
    return table


def _coverage_table(coverage: list[dict[str, Any]]) -> Table:
    table = plain_table("injected faults and marks reached", ("what", "name"), ("times", "seeds"))
    for row in coverage:
        if row["seeds"] and row["what"] != "end":
            table.add_row(row["what"], row["name"], f"{row['times']:,}", f"{row['seeds']:,}")
    return table


def _latency_table(latencies: list[dict[str, Any]]) -> Table:
    percentiles = ("p50_us", "p90_us", "p99_us", "p99_9_us", "max_us")
    table = plain_table(
        "latency of acknowledged puts, in ms of virtual time",
        ("flush", "disk", "producers"),
        ("puts", *(name.removesuffix("_us").replace("_", ".") for name in percentiles)),
    )
    for row in latencies:
        table.add_row(
            "sync" if row["sync_flush"] else "async",
            row["disk"],
            str(row["producers"]),
            f"{row['puts']:,}",
            *(f"{row[name] / 1000:,.1f}" for name in percentiles),
        )
    return table
