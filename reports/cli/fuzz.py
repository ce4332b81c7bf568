"""Options of `fuzz`, which fuzzes formats and recovery."""

from dataclasses import dataclass
from pathlib import Path

import typer

from .options import JsonFile, argument, complete_mutant, option

ENGINES = ("tornlog", "atheris")


@dataclass(frozen=True)
class FuzzOptions:
    """Corrupt files, frames and directories, and check the readers."""

    context: typer.Context
    formats: list[str] | None = argument(
        None,
        metavar="[FORMAT]...",
        help="Some of commitlog, consumequeue, consumequeue-ext, index, checkpoint, json, remoting, directory."
        " Default: all.",
    )
    time: str | None = option(None, help="Time per format, such as 30s. Default: 10s, unless --inputs is given.")
    inputs: int | None = option(None, min=1, help="Maximum of inputs per format.")
    seed: int | None = option(
        None, min=0, help="The same seed makes the same inputs. Default: drawn with a time budget, else 0."
    )
    engine: str = option(ENGINES[0], help=f"One of {', '.join(ENGINES)}.")
    mutant: str | None = option(
        None,
        help="Apply a bug: frame-length-trusted, record-crc-unchecked, index-chain-unbounded,"
        " json-depth-unbounded, or one of `list`.",
        autocompletion=complete_mutant,
    )
    replay: Path | None = option(
        None, exists=True, dir_okay=False, help="Check the input in FILE, a finding or a file of a corpus."
    )
    jobs: int = option(1, min=1, help="Processes, one format each.")
    out: Path | None = option(None, file_okay=False, help="Write findings to DIR/failures, inputs to DIR/corpus.")
    json_file: JsonFile = None
