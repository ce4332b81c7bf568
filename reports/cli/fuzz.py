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
        help="One or more of commitlog, consumequeue, consumequeue-ext, index, checkpoint, json, remoting, directory."
        " Default: all.",
    )
    time: str | None = option(None, help="Time per format, such as 30s. Default: 10s, unless --inputs is given.")
    inputs: int | None = option(None, min=1, help="Maximum number of inputs per format.")
    seed: int | None = option(None, min=0, help="Seed of the inputs. Default: with a time budget as for `run`, else 0.")
    engine: str = option(ENGINES[0], help=f"One of {', '.join(ENGINES)}.")
    mutant: str | None = option(
        None,
        help="Put a bug into the code: frame-length-trusted, record-crc-unchecked, index-chain-unbounded,"
        " json-depth-unbounded, or one of `list`.",
        autocompletion=complete_mutant,
    )
    replay: Path | None = option(
        None, exists=True, dir_okay=False, help="Check one input: a finding, or a file of a corpus."
    )
    jobs: int = option(1, min=1, help="Processes, one format each.")
    out: Path | None = option(None, file_okay=False, help="Write findings to DIR/failures, inputs to DIR/corpus.")
    json_file: JsonFile = None
