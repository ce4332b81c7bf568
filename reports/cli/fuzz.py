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
