"""The command that runs known bugs.

JSON: a list of `{"id", "found", "scenario", "invariant", "expected": whether the mutant names that invariant, "seeds",
"core_seconds", "reached": seeds in which its code ran or null for a constant, "bit": seeds in which it reported that it
did otherwise or null if it does not report, "differing": null or `{"seeds", "of"}`, "missed_because", "finds":
[{"scenario", "seed", "invariant", "seeds", "core_seconds"}], "shrunk", "clean_violation", "error"}`. seeds and
core_seconds are until the first find. shrunk is null without --shrink, else `{"messages", "preemptions", "switches",
"sectors", "faults", "lives", "tries", "seconds"}`. Of one that an interruption left out: `{"id", "not_run":
true}`.
"""

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from ...scenarios.campaigns.amounts import seconds_in
from ...scenarios.campaigns.interruption import interruptible
from ...scenarios.campaigns.mutation_run import Limits, MutantResult, MutationSettings, run_mutants
from ...scenarios.campaigns.runner import Reach
from ...scenarios.mutants.files import MutantFileError
from ...scenarios.mutants.known import mutants_in, names_meant, survivors_in
from ..html.results import MutationResults
from .ci_documents import mutants_document, write_junit
from .common import (
    OUT,
    command_line,
    findings_console,
    print_paths,
    progress_shown,
    require_mutant,
    results_written,
    scenarios_named,
    write_failures,
)
from .options import (
    EXIT_BROKEN,
    EXIT_HARNESS,
    EXIT_HELD,
    EXIT_INTERRUPTED,
    Jobs,
    JsonFile,
    JunitFile,
    complete_mutant,
    complete_scenario,
    write_json,
)
from .present import mutants_table, print_core_seconds, print_finds, print_survivors
from .reporting import leave_mutation_report, mutant_name_of

_CORE_SECONDS = 60.0
"""For how long each is run, where nobody says for how long or how many seeds."""
_SHRINK_SECONDS = 15.0


def mutants(
    context: typer.Context,
    ids: Annotated[
        list[str] | None,
        typer.Argument(help="Mutants; all of the set without any.", autocompletion=complete_mutant),
    ] = None,
    brought: Annotated[
        list[str] | None,
        typer.Option("--mutant", metavar="FILE.py", help="The mutants of a file, or FILE.py:ID; repeatable."),
    ] = None,
    module: Annotated[
        str | None,
        typer.Option(
            "--set",
            metavar="MODULE",
            help="The MUTANTS of a module that can be imported, not the catalogue's.",
        ),
    ] = None,
    scenarios: Annotated[
        list[str] | None,
        typer.Option(
            "--scenario",
            metavar="NAME",
            help="In this scenario only; repeatable.",
            autocompletion=complete_scenario,
        ),
    ] = None,
    narrowed: Annotated[
        bool, typer.Option("--narrowed", help="In ranges narrowed to each mutant: to work on it, not for the figure.")
    ] = False,
    all_scenarios: Annotated[
        bool, typer.Option("--all-scenarios", help="Go on until each scenario has found it, or a limit is met.")
    ] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds per mutant and scenario at most.")] = None,
    time: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Core-seconds per mutant at most, as in 10m. 60s without --seeds."),
    ] = None,
    jobs: Jobs = 1,
    shrink: Annotated[bool, typer.Option(help="Make what finds each small, for 15 s at most.")] = False,
    out: Annotated[
        Path | None, typer.Option(file_okay=False, help="Leave report.html, failures and timelines in DIR.")
    ] = None,
    junit: JunitFile = None,
    json_file: JsonFile = None,
) -> None:
    """Put bugs into the store, one at a time, and see which scenario finds each, and in how many core-seconds.

    The catalogue's are known from real stores. MODULE:ID is a mutant of a module of your own, FILE.py:ID of a file.
    """
    if narrowed and (scenarios or all_scenarios):
        option = "--scenario" if scenarios else "--all-scenarios"
        raise typer.BadParameter("expected none with --narrowed, which has a scenario of its own", param_hint=option)
    wanted = _mutants_wanted([*(ids or ()), *(brought or ())], module)
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
        report = None
        with results_written("--out"):
            paths = write_failures((one.failure for one in found if one.failure is not None), out, mutant_name_of)
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
        print_core_seconds(OUT, found)
        if all_scenarios:
            print_finds(OUT, found)
        print_survivors(OUT, found, survivors)
    for one in found:
        for text in (one.clean_violation and f"without it, too: {one.clean_violation}", one.error):
            if text:
                findings_console(json_file).print(f"{one.id}: {text}", style="red", markup=False, soft_wrap=True)
    if report is not None and json_file != "-":
        print_paths([report])
    raise typer.Exit(_exit_code(found, survivors, reach))


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


def _exit_code(found: list[MutantResult], survivors: dict[str, str], reach: Reach) -> int:
    if reach.interrupted:
        return EXIT_INTERRUPTED
    if any(one.error for one in found):
        return EXIT_HARNESS
    as_expected = all(not one.clean_violation and (one.found or one.id in survivors) for one in found)
    return EXIT_HELD if as_expected else EXIT_BROKEN
