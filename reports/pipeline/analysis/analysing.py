"""Implementation of `analyze`: runs the analysis, and writes tables, page and output."""

from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from ....store.errors import install_command
from ...cli.console import ERR
from ...cli.options import (
    EXIT_HARNESS,
    EXIT_HELD,
    IN_PROCESS,
    ResultFiles,
    absolute_place,
    command_line,
    results_written,
)
from ...html.sweep_report import SweepResults, sweep_result
from ...quantities import count_text
from ...results.output import write_result_and_exit
from ..spark.options import session_for
from .command import AnalyzeOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from .analysis import Sweep

_ASKED_FOR = ("scenarios", "first", "last", "disk", "policy", "mutant")


def analyze_sweeps(options: AnalyzeOptions) -> NoReturn:
    if options.master == IN_PROCESS:
        raise typer.BadParameter("needs Spark; local[1] uses one thread", param_hint="--master")
    try:
        from .analysis import NoSweepError, analyse_rows, find_sweep, rows_of, trends_table, write_tables
    except ImportError as error:
        raise typer.BadParameter(f"{error}: install with {install_command('spark')}") from error
    try:
        sweeps = [find_sweep(place) for place in dict.fromkeys(map(absolute_place, options.places))]
    except NoSweepError as error:
        raise typer.BadParameter(str(error), param_hint="DIR") from error
    began = perf_counter()
    with session_for(options.master, options.ship, options.conf) as spark:
        tables = {**analyse_rows(rows_of(spark, sweeps)), "trends": trends_table(spark, sweeps)}
    took = perf_counter() - began
    files, written = list[Path](), ResultFiles()
    damaged = sum(len(sweep.files.damaged) for sweep in sweeps)
    if options.out is not None:
        with written.writing(), results_written("--out"):
            files = write_tables(tables, options.out)
    _print_doubts(sweeps)
    result = sweep_result(
        _sweep_results(tables, command_line(options.context), took, damaged),
        count_text(_row_count(tables), "row"),
        EXIT_HARNESS if damaged else EXIT_HELD,
        _document(sweeps, tables, files),
    )
    text = result.verdict.text
    result = replace(result, headline=f"{result.headline}: {text[0].lower()}{text[1:]}")
    write_result_and_exit(
        result, json_file=options.json_file, page=options.out, drawn=files, verbose=True, files=written
    )


def _document(sweeps: list["Sweep"], tables: dict[str, "pa.Table"], files: list[Path]) -> dict[str, Any]:
    from .analysis import names_that_never_occurred

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
        "rows": _row_count(tables),
        "never": {f"{what}s": names_that_never_occurred(tables["coverage"], what) for what in ("fault", "mark")},
        "tables": {name: table.to_pylist() for name, table in tables.items()},
        "files": [str(path) for path in files],
    }


def _print_doubts(sweeps: list["Sweep"]) -> None:
    for sweep in sweeps:
        for name, reason in sorted(sweep.files.damaged.items()):
            _print_doubt(f"{sweep.place}/rows/{name}: {reason}")
        if sweep.files.damaged:
            _print_doubt(
                f"{sweep.place}: these rows are not counted; repeat the call of `tornlog sweep` to restore them"
            )
    codes = sorted({sweep.begun.code for sweep in sweeps})
    if len(codes) > 1:
        _print_doubt(f"different code ran these sweeps, so the same seeds may be different runs: {', '.join(codes)}")


def _print_doubt(text: str) -> None:
    ERR.print(text, soft_wrap=True, markup=False, highlight=False)


def _sweep_results(tables: dict[str, "pa.Table"], command: str, seconds: float, damaged: int) -> SweepResults:
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
        pairs={(row["first"], row["second"]): row["seeds"] for row in rows["pairs"]},
        damaged=damaged,
        mutants=rows["mutants"],
        trends=rows["trends"],
    )


def _row_count(tables: dict[str, "pa.Table"]) -> int:
    return sum(tables["pass_rates"]["seeds"].to_pylist())
