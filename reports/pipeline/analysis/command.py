"""The command that analyses: what the rows of one or several sweeps say when they are put together.

JSON, version 1: `{"format": "tornlog-analysis/1", "sweeps": [{"place", "scenarios": [names], "first", "last", "disk",
"policy", "mutant", "seeds", "code", "began", "damaged": [{"file", "reason"}]}], "rows", "never": {"faults": [names],
"marks": [names]}, "tables": {"pass_rates", "mutants", "detections", "coverage", "pairs", "put_latency", "trends"},
"files": [paths]}`; with --out also "report": path. Of a sweep it is what was asked for, by which code and when, and the
files whose rows cannot be read; rows is what was there, of all sweeps together, every run once. Each table is a list of
objects, whose members are the columns that `analysis.py` and `trends.py` beside this file describe; so are the files
that --out leaves, one Parquet file a table.

Exit codes: 0 all rows that are there were counted, 2 usage, 3 some could not be read, and are named.
"""

from pathlib import Path
from typing import Annotated

import typer

from ...cli.options import Conf, JsonFile, Ship


def analyze(
    context: typer.Context,
    places: Annotated[list[str], typer.Argument(metavar="DIR...", help="Directories or URIs that `sweep` wrote.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            file_okay=False,
            help="Leave report.html, and each table as a Parquet file, in DIR.",
        ),
    ] = None,
    master: Annotated[str, typer.Option(help="Spark's master, as in local[2] or spark://host:7077.")] = "local[*]",
    ship: Ship = None,
    conf: Conf = None,
    json_file: JsonFile = None,
) -> None:
    """Say what sweeps came to: pass rates, times to detection of mutants, coverage, latencies, trends over code."""
    from .analysing import analyze_sweeps

    analyze_sweeps(context, places=places, out=out, master=master, ship=ship, conf=conf, json_file=json_file)
