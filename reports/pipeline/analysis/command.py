"""The command `analyze`: aggregates the rows of one or several sweeps.

JSON, version 1: `{"format": "tornlog-analysis/1", "sweeps": [{"place", "scenarios": [names], "first", "last", "disk",
"policy", "mutant", "seeds", "code", "began", "damaged": [{"file", "reason"}]}], "rows", "never": {"faults": [names],
"marks": [names]}, "tables": {"pass_rates", "mutants", "detections", "coverage", "pairs", "put_latency", "trends"},
"files": [paths]}`; with --out also "report": path. `damaged` lists unreadable row files. rows is the number of distinct
runs. A table is a list of objects with the columns described in `analysis` and `trends`. --out writes the same tables,
one Parquet file each.

Exit codes: 0 all rows were counted, 2 usage error, 3 some row files were unreadable; the output names them.
"""

from dataclasses import dataclass
from pathlib import Path

import typer

from ...cli.options import Conf, JsonFile, Ship, argument, option


@dataclass(frozen=True)
class AnalyzeOptions:
    """Analyze sweeps: pass rates, detections, coverage and latencies.

    Detections are the times until a mutant was found. Trends compare versions of the code.
    """

    context: typer.Context
    places: list[str] = argument(..., metavar="DIR...", help="Directories or URIs that `sweep` wrote.")
    out: Path | None = option(
        None, "--out", "-o", file_okay=False, help="Write report.html, and each table as a Parquet file, to DIR."
    )
    master: str = option("local[*]", help="Spark master, such as local[2] or spark://host:7077.")
    ship: Ship = None
    conf: Conf = None
    json_file: JsonFile = None
