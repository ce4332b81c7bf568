"""The command `sweep`: runs many seeds, on Spark or in this process, into a table.

JSON, version 1: `{"format": "tornlog-sweep-result/1", "out", "seeds", "rows", "complete", "interrupted", "outcomes",
"signatures", "failures": [paths], "files", "report", "seconds", "work_seconds"}`. outcomes, signatures and seconds
describe this call; the other fields describe the table. files: number of row files, null without --compact. report: a
path, null if the table is on a remote file system.
"""

from dataclasses import dataclass
from typing import Annotated

import typer

from ...cli.options import Conf, JsonFile, Master, Mutant, Ship


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """Run many seeds into a table; an interrupted sweep is resumed."""

    context: typer.Context
    seeds: Annotated[str, typer.Option(help="Seeds of each scenario: a number N, or a range A:B.")]
    out: Annotated[
        str,
        typer.Option(
            "--out", "-o", help="Directory or URI for the table and its report. An existing sweep there is resumed."
        ),
    ]
    scenario: Annotated[list[str] | None, typer.Option(help="A scenario; repeatable. Default: all.")] = None
    disk: Annotated[str | None, typer.Option("--disk", "--profile", help="One disk only; see `list`.")] = None
    policy: Annotated[str | None, typer.Option(help="One policy only; see `list`.")] = None
    mutant: Mutant = None
    master: Master = "local[*]"
    ship: Ship = None
    conf: Conf = None
    stop_after: Annotated[int | None, typer.Option(min=1, help="Stop after this many failures.")] = None
    shrink: Annotated[str, typer.Option(help="Time limit for shrinking each kind of failure.")] = "15s"
    compact: Annotated[
        bool, typer.Option("--compact", help="Finally merge the row files into a few files, sorted by seed.")
    ] = False
    json_file: JsonFile = None
