"""The command that compares processes.

JSON: `{"format": "tornlog-determinism/1", "witnesses": [names], "runs", "digests": {scenario: digest}, "differences":
[lines], "errors": [texts], "seconds"}`.
"""

from typing import Annotated

import typer
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

from ...scenarios.campaigns.determinism import Comparison, Witness, WitnessError, compare
from ...scenarios.campaigns.interpreters import InterpreterError, furnished, installed
from .common import (
    ERR,
    EXIT_HARNESS,
    EXIT_HELD,
    EXIT_NONDETERMINISTIC,
    OUT,
    JsonFile,
    findings_console,
    progress_bar,
    scenarios_named,
    seeds_in,
)
from .options import write_json

_DIFFERENCES_TOLD_MAX = 10


def determinism(
    names: Annotated[list[str] | None, typer.Argument(help="Scenarios; all without any.")] = None,
    seeds: Annotated[str, typer.Option(help="N, or A:B for A to B - 1, of each scenario.")] = "20",
    jobs: Annotated[int, typer.Option(min=1, help="Processes beside this one.")] = 1,
    python: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="Compare with this Python, too; all: every one found; repeatable."),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Run seeds here, and again in another order in processes with other hashes; every digest must be the same."""
    scenarios, wanted = scenarios_named(names, None, None), seeds_in(seeds, None)
    assert wanted is not None, seeds
    pythons = [path for one in python or () for path in (installed() if one == "all" else [one])]
    with progress_bar(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()) as progress:
        bar = progress.add_task("running everything again", total=len(scenarios) * len(wanted))
        try:
            with furnished(pythons) as others:
                witnesses = [Witness("another process"), *others]
                found = compare(
                    [scenario.name for scenario in scenarios],
                    wanted,
                    witnesses,
                    jobs=jobs,
                    on_progress=lambda runs: progress.advance(bar, runs),
                )
        except (InterpreterError, WitnessError) as error:
            ERR.print(str(error), style="red", markup=False, soft_wrap=True)
            raise typer.Exit(EXIT_HARNESS) from error
    _tell_comparison(found, [one.name for one in witnesses], json_file)
    if found.errors:
        raise typer.Exit(EXIT_HARNESS)
    raise typer.Exit(EXIT_NONDETERMINISTIC if found.differences else EXIT_HELD)


def _tell_comparison(found: Comparison, witnesses: list[str], json_file: str | None) -> None:
    document = {
        "format": "tornlog-determinism/1",
        "witnesses": witnesses,
        "runs": found.runs,
        "digests": found.digests,
        "differences": [str(difference) for difference in found.differences],
        "errors": found.errors,
        "seconds": round(found.seconds, 3),
    }
    if json_file is not None:
        write_json(json_file, document)
    if json_file != "-":
        differ = f"{len(found.differences)} differ" if found.differences else "the same digests"
        again = f"{found.runs:,} runs, again with {', '.join(witnesses)}: {differ}, {found.seconds:.0f} s"
        OUT.print(again, soft_wrap=True)
    for line in [*found.errors[:1], *map(str, found.differences[:_DIFFERENCES_TOLD_MAX])]:
        findings_console(json_file).print(line, style="red", markup=False, soft_wrap=True)
