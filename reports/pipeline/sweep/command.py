"""The command `sweep`: runs many seeds, on Spark or in this process, into a table."""

from dataclasses import dataclass

import typer

from ...cli.options import Conf, JsonFile, Master, Mutant, Ship, option


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """Run many seeds, and write the results to a table."""

    context: typer.Context
    seeds: str = option(..., metavar="N|A:B", help="Number of seeds of each scenario, or seeds A to B - 1.")
    out: str = option(
        ...,
        "--out",
        "-o",
        metavar="DIR",
        help="Directory or URI for the table and its report. An existing sweep there is resumed.",
    )
    scenario: list[str] | None = option(None, help="A scenario; repeatable. Default: all.")
    disk: str | None = option(None, "--disk", "--profile", help="Use only this disk; see `list`.")
    policy: str | None = option(None, help="Use only this scheduling policy; see `list`.")
    mutant: Mutant = None
    master: Master = "local[*]"
    ship: Ship = None
    conf: Conf = None
    stop_after: int | None = option(None, min=1, help="Stop after this many failures.")
    shrink: str = option("15s", metavar="TIME", help="Time limit for shrinking each kind of failure.")
    compact: bool = option(False, "--compact", help="At the end, merge the row files into a few files, sorted by seed.")
    json_file: JsonFile = None
