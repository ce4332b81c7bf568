"""Exploring as the command does it: every crash of one run, or its schedules, and what is printed and left of them."""

from dataclasses import asdict, fields
from pathlib import Path
from time import perf_counter
from typing import Any, NoReturn

import typer
from rich.table import Table

from ...faults.simulation.explore import LIMIT, ExplorationCounts
from ...scenarios.campaigns.explore import WHOLE_LIMIT, Exploration, ExploreSettings, explore_seed
from ...scenarios.campaigns.failures.failure import Failure
from ...scenarios.campaigns.failures.print_failure import print_failure
from ...scenarios.campaigns.interruption import Interruption, interruptible
from ...scenarios.campaigns.search import SearchResult, search_schedules
from ...scenarios.claims.plan import Plan
from ...scenarios.claims.scenario import Scenario
from ...sim.errors import ReplayDivergedError
from .console import OUT, findings_console, plain_table, print_error, progress_shown
from .failure_files import write_failures
from .named import require_mutant, scenarios_named
from .options import (
    EXIT_BROKEN,
    EXIT_HARNESS,
    EXIT_HELD,
    ResultFiles,
    results_written,
    write_json,
)


def explore_run(
    *,
    name: str,
    seed: int,
    limit: int | None,
    disk: str | None,
    messages: int | None,
    nest: int,
    heal: bool,
    mutant: str | None,
    jobs: int,
    schedules: bool,
    delays: int | None,
    preemptions: int | None,
    attribute_points: bool,
    after: str | None,
    stop_at_first: bool,
    out: Path | None,
    json_file: str | None,
) -> None:
    """Explore the crashes of one run, or its schedules, as the command line asks, and exit."""
    (scenario,) = scenarios_named([name], disk, None, attribute_points=attribute_points)
    require_mutant(mutant)
    with interruptible() as interruption:
        try:
            if schedules:
                kind, bound = ("delays", 1 if delays is None else delays)
                if preemptions is not None:
                    kind, bound = "preemptions", preemptions
                _search(scenario, seed, kind, bound, limit, after, mutant, stop_at_first, out, json_file, interruption)
            if limit is None:
                limit = LIMIT if scenario.ranges.is_alone else WHOLE_LIMIT
            settings = ExploreSettings(limit=limit, nest=nest, heal=heal, messages_each=messages)
            explored = _explore(scenario, seed, settings, mutant, jobs, interruption)
        except ReplayDivergedError as error:
            print_error(f"not reproduced: {error}")
            raise typer.Exit(EXIT_HARNESS) from error
        files = ResultFiles()
        paths = _write(explored.failures, out, files)
        with files.attempt():
            write_json(json_file, _json(explored, paths))
        if json_file != "-":
            _print_result(explored)
        _print_failures(explored.failures, paths, json_file, "the same again, with --out DIR", interruption, files)


def _write(failures: list[Failure], out: Path | None, files: ResultFiles) -> dict[str, Path]:
    with files.attempt(), results_written("--out"):
        return write_failures(failures, out)
    return {}


def _print_failures(
    failures: list[Failure],
    paths: dict[str, Path],
    json_file: str | None,
    again: str,
    interruption: Interruption,
    files: ResultFiles,
) -> NoReturn:
    """Print what broke, and exit. again: how to see what was not left in a file again."""
    for failure in failures:
        path = paths.get(failure.signature)
        command = again if path is None else f"tornlog replay {path}"
        print_failure(findings_console(json_file), failure, command)
    if interruption.is_wanted:
        files.exit(interruption.exit_code)
    files.exit(EXIT_BROKEN if failures else EXIT_HELD)


def _search(
    scenario: Scenario,
    seed: int,
    kind: str,
    bound: int,
    limit: int | None,
    after: str | None,
    mutant: str | None,
    stop_at_first: bool,
    out: Path | None,
    json_file: str | None,
    interruption: Interruption,
) -> NoReturn:
    """Run one seed under every schedule with few delays or preemptions, say what that came to, and exit."""
    began = perf_counter()
    with progress_shown() as update:

        def on_progress(result: SearchResult) -> None:
            update(description=f"{result.schedules:,} schedules, {result.violated:,} broken")

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
                interruption=interruption,
            )
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--after") from error
    failures = [] if found.failure is None else [found.failure]
    files = ResultFiles()
    paths = _write(failures, out, files)
    document = {
        "format": "tornlog-schedules/1",
        "kind": kind,
        "bound": bound,
        **{field.name: getattr(found, field.name) for field in fields(found) if field.name != "failure"},
        "failures": [str(path) for path in paths.values()],
        "seconds": round(perf_counter() - began, 3),
        "interrupted": interruption.is_wanted,
    }
    with files.attempt():
        write_json(json_file, document)
    if json_file != "-":
        verdict = "interrupted, no promise broken" if interruption.is_wanted else "every promise held"
        if found.violated:
            first = f"the first after {found.first_violated:,} ({found.first_schedule})"
            verdict = f"{found.violated:,} broken, {first}"
        OUT.print(f"{found.summary}: {verdict}", soft_wrap=True)
        if not found.is_complete and found.last_schedule is not None:
            OUT.print(f"  go on with --after '{found.last_schedule}'", markup=False, soft_wrap=True)
    _print_failures(failures, paths, json_file, "", interruption, files)


def _explore(
    scenario: Scenario,
    seed: int,
    settings: ExploreSettings,
    mutant: str | None,
    jobs: int,
    interruption: Interruption,
) -> Exploration:
    with progress_shown("pulling the plug") as update:

        def on_progress(found: ExplorationCounts[Plan], done: int, total: int) -> None:
            sums = found.total
            facts = f"{sums.states:,} states, {sums.judged:,} judged, {sums.violations:,} broken"
            update(completed=done, total=total, facts=facts)

        return explore_seed(
            scenario, seed, settings, mutant=mutant, jobs=jobs, on_progress=on_progress, interruption=interruption
        )


def _json(explored: Exploration, paths: dict[str, Path]) -> dict[str, Any]:
    found, total = explored.found, explored.found.total
    sums = asdict(total)
    return {
        "format": "tornlog-explore/1",
        "scenario": explored.scenario.name,
        "seed": explored.seed,
        "disk": explored.plan.disk,
        "mutant": explored.mutant,
        "limit": explored.settings.limit,
        "heal": explored.settings.heal,
        "exhaustive": total.exhausted == total.crashes and not explored.is_interrupted,
        "crashes_exhausted": sums.pop("exhausted"),
        "crashes_cut": sums.pop("cut"),
        **sums,
        "images": len(found.images),
        "judgements": len(found.judged),
        "depths": [asdict(depth) for depth in explored.depths],
        "kinds": [
            {"depth": depth, "kind": kind, **asdict(count)} for (depth, kind), count in sorted(found.counts.items())
        ],
        "failures": [
            {"signature": failure.signature, "file": str(paths.get(failure.signature, ""))}
            for failure in explored.failures
        ],
        "interrupted": explored.is_interrupted,
        "seconds": round(explored.seconds, 3),
        "states_per_second": round(explored.states_per_second, 1),
    }


def _print_result(explored: Exploration) -> None:
    total, found = explored.found.total, explored.found
    OUT.print(_table(explored))
    every = "interrupted before every state was tried" if explored.is_interrupted else "every state was tried"
    if total.exhausted != total.crashes:
        every = f"of {total.exhausted:,} of {total.crashes:,} crashes {every}"
        if total.cut:
            every += f", of {total.cut:,} not all that should have been (--limit)"
    OUT.print(f"disk {explored.plan.disk}: {every}", soft_wrap=True)
    OUT.print(
        f"{total.states:,} states, {len(found.images):,} different images, "
        f"{total.judged:,} recovered and judged, {explored.states_per_second:,.0f} a second",
        soft_wrap=True,
    )
    for depth, one in enumerate(explored.depths[1:], 1):
        deep = f"{one.situations} states, {one.operations} operations to die at"
        OUT.print(f"{depth} deep in recovery: {deep}", soft_wrap=True)


def _table(explored: Exploration) -> Table:
    total = explored.found.total
    broken = len(explored.failures) > 0
    held = "no promise broken" if explored.is_interrupted else "every promise held"
    verdict = f"{max(total.violations, 1):,} broken" if broken else held
    verdict = f"interrupted, {verdict}" if explored.is_interrupted else verdict
    table = plain_table(
        f"{explored.scenario.name} --seed {explored.seed}: {total.moments:,} crash points in "
        f"{explored.seconds:.1f} s: {verdict}",
        ("crash at",),
        ("points", "states", "judged", "violations"),
    )
    for (depth, kind), count in sorted(explored.found.counts.items()):
        where = f"{kind}, {depth} deep" if depth else kind
        figures = (count.moments, count.states, count.judged, count.violations)
        table.add_row(where, *(f"{figure:,}" for figure in figures), style="red" if count.violations else "")
    return table
