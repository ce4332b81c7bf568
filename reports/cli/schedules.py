"""`tornlog explore --schedules`: one run under every schedule within a bound.

JSON, version 1: `{"format": "tornlog-schedules/1", "scenario", "seed", "kind", "bound", "summary", "schedules",
"schedules_by_cost": [numbers], "is_complete", "violated", "first_violated", "first_schedule", "last_schedule",
"failures": [paths], "seconds"}`.
"""

from pathlib import Path
from time import perf_counter

import typer
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from ...scenarios.campaigns.failures.print_failure import print_failure
from ...scenarios.campaigns.search import SearchResult, search_schedules
from ...scenarios.mutants import MUTANTS
from ...scenarios.mutants.known import find_mutant
from ...sim.errors import ReplayDivergedError
from .common import (
    OUT,
    findings_console,
    print_error,
    progress_bar,
    results_written,
    scenarios_named,
    write_failures,
)
from .options import EXIT_BROKEN, EXIT_HARNESS, EXIT_HELD, unknown, was_given, write_json


def explore_schedules(
    context: typer.Context,
    name: str,
    seed: int,
    delays: int | None,
    preemptions: int | None,
    limit: int | None,
    after: str | None,
    mutant: str | None,
    stop_at_first: bool,
    out: Path | None,
    json_file: str | None,
) -> None:
    """Run one seed under every schedule with few delays or preemptions, say what that came to, and exit."""
    for option in ("disk", "messages", "nest", "heal", "jobs"):
        if was_given(context, option):
            raise typer.BadParameter(
                "is about crashes, expected none with --schedules", param_hint=f"--{option}"
            )
    if delays is not None and preemptions is not None:
        raise typer.BadParameter("expected --delays or --preemptions, found both", param_hint="--delays")
    if mutant is not None and find_mutant(mutant) is None:
        raise unknown("mutant", mutant, MUTANTS, "--mutant")
    (scenario,) = scenarios_named([name], None, None)
    kind, bound = ("delays", 1 if delays is None else delays)
    if preemptions is not None:
        kind, bound = "preemptions", preemptions
    began = perf_counter()
    with progress_bar(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()) as progress:
        bar = progress.add_task("", total=None)

        def on_progress(result: SearchResult) -> None:
            progress.update(bar, description=f"{result.schedules:,} schedules, {result.violated:,} broken")

        try:
            found = search_schedules(
                scenario,
                seed,
                bound,
                kind,
                limit,
                mutant=mutant,
                after=after,
                stop_at_first=stop_at_first,
                on_progress=on_progress,
            )
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--after") from error
        except ReplayDivergedError as error:
            print_error(f"not reproduced: {error}")
            raise typer.Exit(EXIT_HARNESS) from error
    failures = [] if found.failure is None else [found.failure]
    with results_written("--out"):
        paths = write_failures(failures, out)
    write_json(json_file, _json(found, kind, bound, paths, perf_counter() - began))
    if json_file != "-":
        OUT.print(f"{found.summary}: {_verdict(found)}", soft_wrap=True)
        if not found.is_complete and found.last_schedule is not None:
            OUT.print(f"  go on with --after '{found.last_schedule}'", markup=False, soft_wrap=True)
    for failure in failures:
        path = paths.get(failure.signature)
        print_failure(
            findings_console(json_file), failure, f"tornlog replay {path}" if path is not None else ""
        )
    raise typer.Exit(EXIT_BROKEN if failures else EXIT_HELD)


def _verdict(found: SearchResult) -> str:
    if not found.violated:
        return "every promise held"
    return f"{found.violated:,} broken, the first after {found.first_violated:,} ({found.first_schedule})"


def _json(
    found: SearchResult, kind: str, bound: int, paths: dict[str, Path], seconds: float
) -> dict[str, object]:
    return {
        "format": "tornlog-schedules/1",
        "scenario": found.scenario,
        "seed": found.seed,
        "kind": kind,
        "bound": bound,
        "summary": found.summary,
        "schedules": found.schedules,
        "schedules_by_cost": found.schedules_by_cost,
        "is_complete": found.is_complete,
        "violated": found.violated,
        "first_violated": found.first_violated,
        "first_schedule": found.first_schedule,
        "last_schedule": found.last_schedule,
        "failures": [str(path) for path in paths.values()],
        "seconds": round(seconds, 3),
    }
