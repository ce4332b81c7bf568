"""The command `analyze`: aggregates the rows of one or several sweeps."""

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
