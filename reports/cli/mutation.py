"""Mutants as the command runs them, and everything that it leaves for a reader."""

from pathlib import Path
from time import perf_counter

import typer

from ...faults.simulation.prose import prose
from ...scenarios.campaigns.amounts import seconds_in
from ...scenarios.campaigns.interruption import Interruption, interruptible
from ...scenarios.campaigns.mutation_run import Limits, MutantResult, MutationSettings, run_mutants
from ...scenarios.campaigns.runner import Reach
from ...scenarios.mutants.files import MutantFileError
from ...scenarios.mutants.known import mutants_in, names_meant, survivors_in
from ..html.results import MutationResults
from .ci_documents import mutants_document
from .ci_formats import write_junit
from .console import OUT, findings_console, print_paths, progress_shown
from .failure_files import write_failures
from .named import require_mutant, scenarios_named
from .options import (
    EXIT_BROKEN,
    EXIT_HARNESS,
    EXIT_HELD,
    ResultFiles,
    command_line,
    results_written,
    write_json,
)
from .present import mutants_table, mutants_verdict, print_core_seconds, print_finds, print_survivors
from .reporting import leave_mutation_report, mutant_name_of

_CORE_SECONDS = 60.0
"""For how long each is run, where nobody says for how long or how many seeds."""
_SHRINK_SECONDS = 15.0


def mutate(
    context: typer.Context,
    *,
    ids: list[str] | None,
    brought: list[str] | None,
    module: str | None,
    scenarios: list[str] | None,
    narrowed: bool,
    all_scenarios: bool,
    seeds: int | None,
    time: str | None,
    jobs: int,
    shrink: bool,
    verbose: bool,
    out: Path | None,
    junit: Path | None,
    json_file: str | None,
) -> None:
    """Run the mutants that the command line names, leave what came of it, and exit."""
    if narrowed and (scenarios or all_scenarios):
        option = "--scenario" if scenarios else "--all-scenarios"
        raise typer.BadParameter("expected none with --narrowed, which has a scenario of its own", param_hint=option)
    named = [*(ids or ()), *(brought or ())]
    wanted = _mutants_wanted(named, module)
    survivors = survivors_in(module)
    core_seconds = _CORE_SECONDS if seeds is None else None
    settings = MutationSettings(
        Limits(seeds, core_seconds if time is None else seconds_in(time)),
        None if narrowed else tuple(scenarios_named(scenarios, None, None)),
        all_scenarios,
        _SHRINK_SECONDS if shrink else None,
    )
    found: list[MutantResult] = []
    began = perf_counter()
    with interruptible() as interruption:
        with progress_shown(total=len(wanted)) as update:
            for one in run_mutants(wanted, settings, jobs=jobs, interruption=interruption):
                found.append(one)
                update(description=one.id, advance=1)
        took = perf_counter() - began
        run_to_an_end = {one.id for one in found}
        not_run = tuple(name for name in wanted if name not in run_to_an_end)
        reach = Reach.of(len(wanted), not_run, interruption)
        report, files = None, ResultFiles()
        with files.attempt(), results_written("--out"):
            paths = write_failures((one.failure for one in found if one.failure is not None), out, mutant_name_of)
            if out is not None:
                results = MutationResults(command_line(context), found, took, survivors, reach=reach)
                report = leave_mutation_report(results, paths, out)
        left_out = [{"id": name, "not_run": True} for name in not_run]
        with files.attempt():
            write_json(json_file, [*(one.to_json() for one in found), *left_out])
        if junit is not None:
            with files.attempt(), results_written("--junit"):
                write_junit(junit, mutants_document(found, survivors, reach))
    if json_file != "-":
        verdict = mutants_verdict(found, reach)
        OUT.print(verdict)
        # Without names all mutants run, and most are found, so a row for each would hide the others.
        shown = found if verbose or named else [one for one in found if not one.found or one.clean_violation]
        if shown:
            OUT.print(mutants_table(shown))
        if len(shown) < len(found):
            OUT.print(f"{len(found) - len(shown):,} found mutants have no row here: --verbose shows them")
        if reach.not_run:
            prose(OUT, 0, f"not run: {', '.join(reach.not_run)}")
        print_core_seconds(OUT, found)
        if all_scenarios:
            print_finds(OUT, found)
        print_survivors(OUT, found, survivors)
    for one in found:
        for text in (one.clean_violation and f"without it, too: {one.clean_violation}", one.error):
            if text:
                findings_console(json_file).print(f"{one.id}: {text}", style="red", markup=False, soft_wrap=True)
    if json_file != "-":
        print_paths([] if report is None else [report])
        OUT.print(verdict)
    files.exit(_exit_code(found, survivors, interruption))


def _mutants_wanted(names: list[str], module: str | None) -> list[str]:
    """Return the names of the mutants to be run, each once. BadParameter: there is no such, or no such set."""
    try:
        named = [name for one in names for name in names_meant(one)]
        known = [] if named else mutants_in(module)
    except MutantFileError as error:
        raise typer.BadParameter(str(error), param_hint="--mutant") from error
    except LookupError as error:
        raise typer.BadParameter(str(error), param_hint="--set") from error
    for name in named:
        require_mutant(name, None)
    return list(dict.fromkeys(named or known))


def _exit_code(found: list[MutantResult], survivors: dict[str, str], interruption: Interruption) -> int:
    if interruption.is_wanted:
        return interruption.exit_code
    if any(one.error for one in found):
        return EXIT_HARNESS
    as_expected = all(not one.clean_violation and (one.found or one.id in survivors) for one in found)
    return EXIT_HELD if as_expected else EXIT_BROKEN
