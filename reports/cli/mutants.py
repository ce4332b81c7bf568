"""The command that hunts known bugs.

JSON: `[{"id", "found", "invariant", "seeds", "seconds", "shrunk", "clean_violation"}]`, shrunk null without --shrink,
else `{"messages", "preemptions", "switches", "sectors", "faults", "lives", "tries", "seconds"}`; of a mutant that an
interruption left out: `{"id", "not_run": true}`.
"""

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer
from rich.progress import BarColumn, TextColumn

from ...scenarios.campaigns.interruption import interruptible
from ...scenarios.campaigns.mutation_run import MutantResult, run_mutants
from ...scenarios.campaigns.runner import Reach
from ...scenarios.mutants import MUTANTS
from ...scenarios.mutants.known import find_mutant, mutants_in, survivors_in
from ..html.results import HuntResults
from .common import (
    EXIT_BROKEN,
    EXIT_HELD,
    EXIT_INTERRUPTED,
    OUT,
    JsonFile,
    JunitFile,
    command_line,
    findings_console,
    progress_bar,
    results_written,
    unknown,
    write_failures,
)
from .junit import hunts_document, write_junit
from .options import write_json
from .present import hunts_table, print_survivors
from .reporting import leave_hunt_report

_SHRINK_SECONDS = 15.0


def mutants(
    context: typer.Context,
    ids: Annotated[list[str] | None, typer.Argument(help="Mutants; all of the set without any.")] = None,
    module: Annotated[
        str | None,
        typer.Option(
            "--set",
            metavar="MODULE",
            help="The MUTANTS of a module that can be imported, not the catalogue's.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds per mutant at most.")] = 500,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    shrink: Annotated[bool, typer.Option(help="Make what finds each small, for 15 s at most.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="Leave report.html, failures and timelines in DIR."),
    ] = None,
    junit: JunitFile = None,
    json_file: JsonFile = None,
) -> None:
    """Put bugs into the store, one at a time, and see whether the harness finds them.

    The catalogue's are known from real stores. MODULE:ID is a mutant of a module of your own.
    """
    for name in ids or ():
        if find_mutant(name) is None:
            raise unknown("mutant", name, MUTANTS)
    try:
        wanted = list(dict.fromkeys(ids or mutants_in(module)))
        survivors = survivors_in(module)
    except LookupError as error:
        raise typer.BadParameter(str(error), param_hint="--set") from error
    hunts: list[MutantResult] = []
    began = perf_counter()
    with interruptible() as interruption:
        with progress_bar(TextColumn("{task.description}"), BarColumn()) as progress:
            bar = progress.add_task("", total=len(wanted))
            for hunted in run_mutants(
                wanted,
                seeds,
                jobs=jobs,
                shrink_seconds=_SHRINK_SECONDS if shrink else None,
                interruption=interruption,
            ):
                hunts.append(hunted)
                progress.update(bar, description=hunted.id, advance=1)
        took = perf_counter() - began
        hunted_to_an_end = {hunted.id for hunted in hunts}
        not_run = tuple(name for name in wanted if name not in hunted_to_an_end)
        reach = Reach.of(len(wanted), not_run, interruption)
        report = None
        with results_written("--out"):
            paths = write_failures((hunted.failure for hunted in hunts if hunted.failure is not None), out)
            if out is not None:
                results = HuntResults(command_line(context), hunts, took, survivors, reach=reach)
                report = leave_hunt_report(results, paths, out)
        if json_file is not None:
            left_out = [{"id": name, "not_run": True} for name in not_run]
            write_json(json_file, [*(hunted.to_json() for hunted in hunts), *left_out])
        if junit is not None:
            with results_written("--junit"):
                write_junit(junit, hunts_document(hunts, survivors, reach))
    if json_file != "-":
        OUT.print(hunts_table(hunts, reach))
        print_survivors(OUT, hunts, survivors)
    for hunted in hunts:
        if hunted.clean_violation:
            text = f"{hunted.id}: without it, too: {hunted.clean_violation}"
            findings_console(json_file).print(text, style="red", markup=False, soft_wrap=True)
    if report is not None and json_file != "-":
        OUT.print(str(report), soft_wrap=True, markup=False)
    if reach.interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)
    as_expected = all(
        not hunted.clean_violation and (hunted.found or hunted.id in survivors) for hunted in hunts
    )
    raise typer.Exit(EXIT_HELD if as_expected else EXIT_BROKEN)
