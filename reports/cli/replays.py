"""Options of `replay` and `shrink`, the commands for a stored failure."""

from dataclasses import dataclass
from pathlib import Path

from .options import JsonFile, TimelineFile, TraceFile, argument, option

_SHRINK_SECONDS = 15.0


@dataclass(frozen=True)
class ReplayOptions:
    """Run a stored failure again.

    The run follows the recorded decisions that the code still makes.
    """

    file: Path = argument(..., help="A failure written by `run --out` or `probe --out`.")
    original: bool = option(False, "--original", help="Replay the run as it was before shrinking.")
    timeline: TimelineFile = None
    trace: TraceFile = None
    json_file: JsonFile = None


@dataclass(frozen=True)
class ShrinkOptions:
    """Shrink a stored failure to fewer messages, switches and faults.

    The smaller run is added to FILE, which keeps the original.
    """

    file: Path = argument(..., help="A failure written by `run --out`.")
    time: str = option(f"{_SHRINK_SECONDS:g}s", help="Time limit, such as 15s.")
    tries: int | None = option(None, min=1, help="Maximum number of runs. Default: 4000.")
    same_promise: bool = option(
        False, "--same-promise", help="Accept a smaller run that breaks the same promise in another way."
    )
    small: Path | None = option(None, "--out", "-o", metavar="FILE", dir_okay=False, help="Write to this file instead.")
    json_file: JsonFile = None
