"""The command that has the real store open our directories, and ours the real one's.

JSON, version 1: `{"format": "tornlog-compare/1", "against", "seeds": [first, end], "directories": [{"writer": "ours" or
"real", "kind", "agreed", "explained", "unexplained"}], "disks": [{"kind", "disk", "directories"}], "records",
"answers", "deviations": [{"name", "ours", "real"}], "failures": [{"writer", "seed", "kind", "disk", "scenario",
"outcome", "differences": [{"place", "ours", "real", "deviation"}]}], "seconds"}`.

answers: puts that the real store had answered OK before it ended, each looked for here. deviations: in how many
directories of each writer. deviation: the line of docs/deviations.md that explains a difference; null
if none does.

JSON of `--replay`: `{"format": "tornlog-compare-replay/1", ...}` with the fields of one of the failures.

Exit codes: 0 every difference is explained, 1 one is not, 2 usage, or there is no Maven or no JDK, 3 the harness.
"""

from pathlib import Path
from typing import Annotated

import typer

from ...scenarios.conformance.maven import VERSIONS
from .options import JsonFile, complete_version, require_one_of

_NEWEST = "rocketmq-4.9.8"


def compare(
    against: Annotated[str, typer.Option(help=f"One of {', '.join(VERSIONS)}.")] = _NEWEST,
    seeds: Annotated[str, typer.Option(help="N or A:B; each seed is a directory of each writer.")] = "36",
    written_by: Annotated[str, typer.Option(help="Only directories of one writer: ours or real.")] = "both",
    as_version: Annotated[
        str | None,
        typer.Option(
            "--as", help="Ours write with the bugs of a real version: see `list`.", autocompletion=complete_version
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that simulate.")] = 1,
    out: Annotated[
        Path | None, typer.Option(file_okay=False, help="Leave what nothing explains in DIR/failures.")
    ] = None,
    work: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="Where jars and driver are kept, not in the user's cache."),
    ] = None,
    replay: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Open a kept failure.json's store again.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Have the real RocketMQ store open what stores of ours left, and ours what the real one left."""
    require_one_of(VERSIONS, against, "--against")
    from .comparing import compare_stores

    compare_stores(
        against=against,
        seeds=seeds,
        written_by=written_by,
        as_version=as_version,
        jobs=jobs,
        out=out,
        work=work,
        replay=replay,
        json_file=json_file,
    )
