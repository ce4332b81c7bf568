"""The command that fuzzes formats and recovery.

JSON, version 1: `{"format": "tornlog-fuzz/1", "engine", "seed", "mutant", "formats": [{"name", "inputs", "accepted",
"refused", "broken", "outcomes", "corpus", "seconds", "cpu_seconds", "inputs_per_second", "findings": [finding]}],
"not_run": [formats], "interrupted": true or false}` with finding `{"signature", "expected", "found", "number",
"input_bytes", "file"}`; file is empty without --out. Of --replay: `{"format": "tornlog-fuzz-replay/1", "name",
"mutant", "same", "outcome", "signature", "expected", "found"}`: outcome is what came of an input that breaks nothing,
the three behind it what is broken by one that does; same, null for an input without a record, is whether that is what
the record says.

outcomes: different ones, a refused field or a way taken; corpus: inputs kept to be broken further; number: of the
input, from 1; input_bytes: of the smallest input found that breaks the promise.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from .options import JsonFile, complete_mutant

ENGINES = ("tornlog", "atheris")


@dataclass(frozen=True)
class FuzzOptions:
    """Break files, frames and whole store directories, and see that nothing worse than an error comes of it."""

    context: typer.Context
    formats: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FORMAT]...",
            help="Of commitlog, consumequeue, consumequeue-ext, index, checkpoint, json, remoting, directory;"
            " all without any.",
        ),
    ] = None
    time: Annotated[str | None, typer.Option(help="For how long each, as in 30s; 10s without an end.")] = None
    inputs: Annotated[int | None, typer.Option(min=1, help="How many inputs of each at most.")] = None
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="The same seed makes the same inputs. Drawn with a time budget, 0 without."),
    ] = None
    engine: Annotated[str, typer.Option(help=f"One of {', '.join(ENGINES)}.")] = ENGINES[0]
    mutant: Annotated[
        str | None,
        typer.Option(
            help="With a bug put in: frame-length-trusted, record-crc-unchecked, index-chain-unbounded,"
            " json-depth-unbounded, or one that `list` names.",
            autocompletion=complete_mutant,
        ),
    ] = None
    replay: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Judge the input in FILE: a finding, or of a corpus."),
    ] = None
    jobs: Annotated[int, typer.Option(min=1, help="Processes; a format each.")] = 1
    out: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="Leave findings in DIR/failures, inputs in DIR/corpus."),
    ] = None
    json_file: JsonFile = None
