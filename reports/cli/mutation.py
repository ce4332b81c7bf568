"""Implementation of `mutants`: runs mutants, and writes the results."""

from pathlib import Path
from time import perf_counter
from typing import NoReturn

import typer

from ...scenarios.campaigns.amounts import parse_seconds
from ...scenarios.campaigns.failures.failure import Failure
from ...scenarios.campaigns.mutation_run import MutantResult, MutationLimits, MutationSettings, run_mutants
from ...scenarios.campaigns.runner import CampaignReach
from ...scenarios.campaigns.seed_choice import measured_runs
from ...scenarios.mutants.files import MutantFileError
from ...scenarios.mutants.known import mutant_names, mutants_in, survivors_in
from ...sim.interruption import interruptible
from ..results.output import write_result_and_exit
from .console import show_progress
from .mutants import MutantsOptions
from .mutation_result import MutationResults, mutation_result
from .named import require_mutant, scenarios_named
from .options import ResultFiles, command_line, results_written
from .reporting import FailureLinks, mutant_name_of, replay_command, write_failures, write_timelines

_CORE_SECONDS = 60.0
"""Default limit per mutant, if the user gives neither a time nor seeds."""
_SHRINK_SECONDS = 15.0


def run_mutants_command(options: MutantsOptions) -> NoReturn:
    if options.narrowed and (options.scenarios or options.all_scenarios):
        option = "--scenario" if options.scenarios else "--all-scenarios"
        raise typer.BadParameter("not allowed with --narrowed, which has its own scenario", param_hint=option)
    named = [*(options.ids or ()), *(options.brought or ())]
    wanted = _wanted_mutant_names(named, options.module)
    survivors = survivors_in(options.module)
    core_seconds = _CORE_SECONDS if options.seeds is None else None
    settings = MutationSettings(
        MutationLimits(options.seeds, core_seconds if options.time is None else parse_seconds(options.time)),
        None if options.narrowed else tuple(scenarios_named(options.scenarios, None, None)),
        options.all_scenarios,
        _SHRINK_SECONDS if options.shrink else None,
        _measured_runs(options),
    )
    found: list[MutantResult] = []
    began = perf_counter()
    with interruptible() as interruption:
        with show_progress(total=len(wanted)) as update:
            for one in run_mutants(wanted, settings, jobs=options.jobs, interruption=interruption):
                found.append(one)
                update(description=one.id, advance=1)
        took = perf_counter() - began
        run_to_an_end = {one.id for one in found}
        reach = CampaignReach.of_campaign(
            len(wanted), tuple(name for name in wanted if name not in run_to_an_end), interruption
        )
        files, left, page = ResultFiles(), dict[str, FailureLinks](), None
        if options.out is not None:
            failures = [one.failure for one in found if one.failure is not None]
            with files.writing(), results_written("--out"):
                paths = write_failures(failures, options.out, mutant_name_of)

                def again(failure: Failure) -> str:
                    return replay_command(paths[mutant_name_of(failure)])

                left = write_timelines(failures, paths, options.out, again, mutant_name_of, draws=not reach.interrupted)
                page = options.out
        results = MutationResults(
            command_line(options.context),
            found,
            took,
            survivors,
            left,
            reach,
            is_named=bool(named),
            all_scenarios=options.all_scenarios,
        )
        write_result_and_exit(
            mutation_result(results, interruption.exit_code if interruption.is_requested else None),
            json_file=options.json_file,
            page=page,
            junit=options.junit,
            verbose=options.verbose,
            files=files,
        )


def _measured_runs(options: MutantsOptions) -> Path | None:
    """Return the file of measured runs, which was read. Raises BadParameter."""
    if options.measured is None:
        return None
    if options.narrowed or options.seeds is not None:
        other = "--narrowed" if options.narrowed else "--seeds"
        raise typer.BadParameter(f"not allowed with {other}, which determines the seeds", param_hint="--measured")
    try:
        measured_runs(options.measured)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error), param_hint="--measured") from error
    return options.measured


def _wanted_mutant_names(names: list[str], module: str | None) -> list[str]:
    """Return the mutants to run, each once. Raises BadParameter for an unknown mutant or set."""
    try:
        named = [name for one in names for name in mutant_names(one)]
        known = [] if named else mutants_in(module)
    except MutantFileError as error:
        raise typer.BadParameter(str(error), param_hint="--mutant") from error
    except LookupError as error:
        raise typer.BadParameter(str(error), param_hint="--set") from error
    for name in named:
        require_mutant(name, None)
    return list(dict.fromkeys(named or known))
