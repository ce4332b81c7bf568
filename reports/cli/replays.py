"""Options of `replay` and `shrink`, the commands for a stored failure.

JSON of `replay`: `{"format": "tornlog-replay/1", "scenario", "seed", "same", "digest", "violations", "gone": [lines],
"changed": [lines]}`, with --timeline or --trace also "drawn": `[paths]`; of `shrink`: `{"format": "tornlog-shrink/1",
"before", "after", "digest", "tries", "seconds", "interrupted": true or false}`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from .options import JsonFile, TimelineFile, TraceFile

_SHRINK_SECONDS = 15.0


@dataclass(frozen=True)
class ReplayOptions:
    """Run a stored failure again.

    The run follows the recorded decisions, as long as the code makes the same choices.
    """

    file: Annotated[Path, typer.Argument(help="A failure written by `run --out` or `probe --out`.")]
    original: Annotated[bool, typer.Option(help="Use the original run, even if a shrunk run exists.")] = False
    timeline: TimelineFile = None
    trace: TraceFile = None
    json_file: JsonFile = None


@dataclass(frozen=True)
class ShrinkOptions:
    """Shrink a stored failure to fewer messages, switches and faults.

    The smaller run is added to FILE beside the original.
    """

    file: Annotated[Path, typer.Argument(help="A failure written by `run --out`.")]
    time: Annotated[str, typer.Option(help="Time limit, such as 15s.")] = f"{_SHRINK_SECONDS:g}s"
    tries: Annotated[int | None, typer.Option(min=1, help="Maximum of runs. Default: 4000.")] = None
    any_breach: Annotated[bool, typer.Option(help="Accept any violation of the same promise as equal.")] = False
    small: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", dir_okay=False, help="Write to this file instead.")
    ] = None
    json_file: JsonFile = None
