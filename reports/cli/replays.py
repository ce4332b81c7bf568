"""The commands about a stored failure: replay and shrink.

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
    """Run a stored failure again, decision by decision, as far as the code still makes them."""

    file: Annotated[Path, typer.Argument(help="A failure that `run --out` left, or `probe --out`.")]
    original: Annotated[bool, typer.Option(help="The run that was found, though there is a shrunk one.")] = False
    timeline: TimelineFile = None
    trace: TraceFile = None
    json_file: JsonFile = None


@dataclass(frozen=True)
class ShrinkOptions:
    """Make a stored failure small: fewer messages, switches, faults. FILE gets the small run beside its own."""

    file: Annotated[Path, typer.Argument(help="A failure that `run --out` left.")]
    time: Annotated[str, typer.Option(help="For how long at most, as in 15s.")] = f"{_SHRINK_SECONDS:g}s"
    tries: Annotated[int | None, typer.Option(min=1, help="Runs at most; 4000 unless given.")] = None
    any_breach: Annotated[bool, typer.Option(help="The same promise is enough, broken in whatever way.")] = False
    small: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", dir_okay=False, help="Write to this file instead."),
    ] = None
    json_file: JsonFile = None
