"""The command that runs known bugs.

JSON: `[{"id", "found", "invariant", "seeds", "seconds", "shrunk", "clean_violation"}]`, shrunk null without --shrink,
else `{"messages", "preemptions", "switches", "sectors", "faults", "lives", "tries", "seconds"}`; of a mutant that an
interruption left out: `{"id", "not_run": true}`.
"""

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from ...scenarios.campaigns.interruption import interruptible
from ...scenarios.campaigns.mutation_run import MutantResult, run_mutants
from ...scenarios.campaigns.runner import Reach
from ...scenarios.mutants import MUTANTS
from ...scenarios.mutants.known import find_mutant, mutants_in, survivors_in
from ..html.results import MutationResults
from .ci_documents import mutants_document, write_junit
from .common import (
    OUT,
    command_line,
    findings_console,
    print_paths,
    progress_shown,
    results_written,
    write_failures,
)
from .options import EXIT_BROKEN, EXIT_HELD, EXIT_INTERRUPTED, Jobs, JsonFile, JunitFile, unknown, write_json
from .present import mutants_table, print_survivors
from .reporting import leave_mutation_report

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
    jobs: Jobs = 1,
    shrink: Annotated[bool, typer.Option(help="Make what finds each small, for 15 s at most.")] = False,
    out: Annotated[
        Path | None, typer.Option(file_okay=False, help="Leave report.html, failures and timelines in DIR.")
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
    found: list[MutantResult] = []
    began = perf_counter()
    shrink_seconds = _SHRINK_SECONDS if shrink else None
    with interruptible() as interruption:
        with progress_shown(total=len(wanted)) as update:
            for one in run_mutants(wanted, seeds, jobs=jobs, shrink_seconds=shrink_seconds, interruption=interruption):
                found.append(one)
                update(description=one.id, advance=1)
        took = perf_counter() - began
        run_to_an_end = {one.id for one in found}
        not_run = tuple(name for name in wanted if name not in run_to_an_end)
        reach = Reach.of(len(wanted), not_run, interruption)
        report = None
        with results_written("--out"):
            paths = write_failures((one.failure for one in found if one.failure is not None), out)
            if out is not None:
                results = MutationResults(command_line(context), found, took, survivors, reach=reach)
                report = leave_mutation_report(results, paths, out)
        left_out = [{"id": name, "not_run": True} for name in not_run]
        write_json(json_file, [*(one.to_json() for one in found), *left_out])
        if junit is not None:
            with results_written("--junit"):
                write_junit(junit, mutants_document(found, survivors, reach))
    if json_file != "-":
        OUT.print(mutants_table(found, reach))
        print_survivors(OUT, found, survivors)
    for one in found:
        if one.clean_violation:
            text = f"{one.id}: without it, too: {one.clean_violation}"
            findings_console(json_file).print(text, style="red", markup=False, soft_wrap=True)
    if report is not None and json_file != "-":
        print_paths([report])
    if reach.interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)
    as_expected = all(not one.clean_violation and (one.found or one.id in survivors) for one in found)
    raise typer.Exit(EXIT_HELD if as_expected else EXIT_BROKEN)
