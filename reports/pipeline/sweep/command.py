"""The command that sweeps: seeds by the hundred thousand, on Spark or here, into a table that outlives it.

JSON, version 1: `{"format": "tornlog-sweep-result/1", "out", "seeds", "rows", "complete", "interrupted", "outcomes",
"signatures", "failures": [paths], "files": that hold the rows, null without --compact, "report": path, null beyond this
machine, "seconds", "work_seconds"}`; outcomes, signatures and seconds are of this call, the rest is of the table.
"""

from typing import Annotated

import typer

from ...cli.options import Conf, JsonFile, Master, Mutant, Ship


def sweep(
    context: typer.Context,
    seeds: Annotated[str, typer.Option(help="N or A:B, of each scenario.")],
    out: Annotated[
        str,
        typer.Option(
            "--out",
            "-o",
            help="Directory or URI of the table, and its report; a sweep that is there goes on.",
        ),
    ],
    scenario: Annotated[list[str] | None, typer.Option(help="A scenario; repeatable. All of them without any.")] = None,
    disk: Annotated[str | None, typer.Option("--disk", "--profile", help="One disk only; see `list`.")] = None,
    policy: Annotated[str | None, typer.Option(help="One policy only; see `list`.")] = None,
    mutant: Mutant = None,
    master: Master = "local[*]",
    ship: Ship = None,
    conf: Conf = None,
    stop_after: Annotated[int | None, typer.Option(min=1, help="Begin no more after so many failures.")] = None,
    shrink: Annotated[str, typer.Option(help="For how long each kind of failure is made smaller.")] = "15s",
    compact: Annotated[
        bool, typer.Option("--compact", help="Then merge the files of rows into few, sorted by seed.")
    ] = False,
    json_file: JsonFile = None,
) -> None:
    """Run many seeds, one row each, and go on where an earlier call was interrupted."""
    from .sweeping import sweep_seeds

    sweep_seeds(
        context,
        seeds=seeds,
        out=out,
        scenario=scenario,
        disk=disk,
        policy=policy,
        mutant=mutant,
        master=master,
        ship=ship,
        conf=conf,
        stop_after=stop_after,
        shrink=shrink,
        compact=compact,
        json_file=json_file,
    )
