"""The command `sweep`: runs many seeds, on Spark or in this process, into a table."""

from dataclasses import dataclass

import typer

from ...cli.options import Conf, JsonFile, Master, Mutant, Ship, option


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """Run many seeds into a table; an interrupted sweep is resumed."""

    context: typer.Context
    seeds: str = option(..., help="Seeds of each scenario: a number N, or a range A:B.")
    out: str = option(
        ..., "--out", "-o", help="Directory or URI for the table and its report. An existing sweep there is resumed."
    )
    scenario: list[str] | None = option(None, help="A scenario; repeatable. Default: all.")
    disk: str | None = option(None, "--disk", "--profile", help="One disk only; see `list`.")
    policy: str | None = option(None, help="One policy only; see `list`.")
    mutant: Mutant = None
    master: Master = "local[*]"
    ship: Ship = None
    conf: Conf = None
    stop_after: int | None = option(None, min=1, help="Stop after this many failures.")
    shrink: str = option("15s", help="Time limit for shrinking each kind of failure.")
    compact: bool = option(False, "--compact", help="Finally merge the row files into a few files, sorted by seed.")
    json_file: JsonFile = None
