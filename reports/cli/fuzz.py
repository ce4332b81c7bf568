"""Options of `fuzz`, which fuzzes formats and recovery.

JSON, version 1: `{"format": "tornlog-fuzz/1", "engine", "seed", "mutant", "formats": [{"name", "inputs", "accepted",
"refused", "broken", "outcomes", "corpus", "seconds", "cpu_seconds", "inputs_per_second", "findings": [finding]}],
"not_run": [formats], "interrupted": true or false}` with finding `{"signature", "expected", "found", "number",
"input_bytes", "file"}`; file is empty without --out. JSON of --replay: `{"format": "tornlog-fuzz-replay/1", "name",
"mutant", "same", "outcome", "signature", "expected", "found"}`. outcome is set if the input breaks no promise, else
signature, expected and found. same: whether the result equals the recorded one; null for an input without a record.
outcomes: number of distinct refused fields and accepted code paths; corpus: number of inputs kept for mutation; number:
number of the input, from 1; input_bytes: size of the smallest known input that breaks the promise.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from .options import JsonFile, complete_mutant

ENGINES = ("tornlog", "atheris")


@dataclass(frozen=True)
class FuzzOptions:
    """Corrupt files, frames and directories; only errors may follow."""

    context: typer.Context
    formats: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FORMAT]...",
            help="Some of commitlog, consumequeue, consumequeue-ext, index, checkpoint, json, remoting, directory."
            " Default: all.",
        ),
    ] = None
    time: Annotated[
        str | None, typer.Option(help="Time per format, such as 30s. Default: 10s, unless --inputs is given.")
    ] = None
    inputs: Annotated[int | None, typer.Option(min=1, help="Maximum of inputs per format.")] = None
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="The same seed makes the same inputs. Default: drawn with a time budget, else 0."),
    ] = None
    engine: Annotated[str, typer.Option(help=f"One of {', '.join(ENGINES)}.")] = ENGINES[0]
    mutant: Annotated[
        str | None,
        typer.Option(
            help="Apply a bug: frame-length-trusted, record-crc-unchecked, index-chain-unbounded,"
            " json-depth-unbounded, or one of `list`.",
            autocompletion=complete_mutant,
        ),
    ] = None
    replay: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Check the input in FILE, a finding or a file of a corpus."),
    ] = None
    jobs: Annotated[int, typer.Option(min=1, help="Processes, one format each.")] = 1
    out: Annotated[
        Path | None, typer.Option(file_okay=False, help="Write findings to DIR/failures, inputs to DIR/corpus.")
    ] = None
    json_file: JsonFile = None
