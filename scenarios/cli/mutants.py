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

from ...store.commands import write_json
from ..hunt import Hunted, hunt_all
from ..interruption import interruptible
from ..mutants import MUTANTS
from ..mutants.known import SETS, find_mutant, mutants_in
from ..mutants.systematic.survivors import SURVIVORS
from ..present import hunts_table, tell_survivors
from ..runner import Reach
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
from .drawing import pages
from .junit import hunts_document, write_junit
from .reporting import leave_hunt_report
from .results import HuntResults

_SHRINK_SECONDS = 15.0


def mutants(
    context: typer.Context,
    ids: Annotated[list[str] | None, typer.Argument(help="Mutants; all of the set without any.")] = None,
    which: Annotated[str, typer.Option("--set", help=f"One of {', '.join(SETS)}.")] = SETS[0],
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

    The catalogue's are known from real stores; the systematic ones are made of its code, by a few rules.
    """
    for name in ids or ():
        if find_mutant(name) is None:
            raise unknown("mutant", name, MUTANTS)
    if which not in SETS:
        raise typer.BadParameter(f"expected one of {', '.join(SETS)}, found {which}", param_hint="--set")
    wanted = list(dict.fromkeys(ids or mutants_in(which)))
    drawing = None if out is None else pages()
    hunts: list[Hunted] = []
    began = perf_counter()
    with interruptible() as interruption:
        with progress_bar(TextColumn("{task.description}"), BarColumn()) as progress:
            bar = progress.add_task("", total=len(wanted))
            for hunted in hunt_all(
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
            if out is not None and drawing is not None:
                results = HuntResults(command_line(context), hunts, took, SURVIVORS, reach=reach)
                report = leave_hunt_report(results, drawing, paths, out)
        if json_file is not None:
            left_out = [{"id": name, "not_run": True} for name in not_run]
            write_json(json_file, [*(hunted.to_json() for hunted in hunts), *left_out])
        if junit is not None:
            with results_written("--junit"):
                write_junit(junit, hunts_document(hunts, reach))
    if json_file != "-":
        OUT.print(hunts_table(hunts, reach))
        tell_survivors(OUT, hunts)
    for hunted in hunts:
        if hunted.clean_violation:
            text = f"{hunted.id}: without it, too: {hunted.clean_violation}"
            findings_console(json_file).print(text, style="red", markup=False, soft_wrap=True)
    if report is not None and json_file != "-":
        OUT.print(str(report), soft_wrap=True, markup=False)
    if reach.interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)
    as_expected = all(
        not hunted.clean_violation and (hunted.found or hunted.id in SURVIVORS) for hunted in hunts
    )
    raise typer.Exit(EXIT_HELD if as_expected else EXIT_BROKEN)
