"""The command that explores: every crash of one run, and every state that each may leave; or its schedules.

JSON, version 1: `{"format": "tornlog-explore/1", "scenario", "seed", "disk", "mutant", "limit", "heal", "exhaustive",
"moments", "crashes", "crashes_exhausted", "crashes_cut", "states", "images", "judgements", "judged", "violations",
"depths": [{"situations", "operations"}], "kinds": [{"depth", "kind", "moments", "crashes", "exhausted", "cut",
"states", "judged", "violations"}], "failures": [{"signature", "file"}], "seconds", "states_per_second"}`.

states: that were built; images: different ones; judgements: different pairs of an image and what had been promised;
judged: how many were recovered and judged, which is more than that only with several processes.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from ...faults.simulation.explore import LIMIT, ExplorationCounts
from ...scenarios.campaigns.explore import WHOLE_LIMIT, Exploration, ExploreSettings, explore_seed
from ...scenarios.campaigns.failures.print_failure import print_failure
from ...scenarios.claims.catalogue import SCENARIOS
from ...scenarios.claims.disk_models import DISK_MODELS
from ...scenarios.claims.plan import Plan
from ...scenarios.claims.scenario import Scenario
from ...scenarios.mutants import MUTANTS
from ...scenarios.mutants.known import find_mutant
from ...sim.errors import ReplayDivergedError
from .common import (
    OUT,
    findings_console,
    plain_table,
    print_error,
    progress_bar,
    results_written,
    write_failures,
)
from .options import EXIT_BROKEN, EXIT_HARNESS, EXIT_HELD, JsonFile, unknown, was_given, write_json
from .schedules import explore_schedules


def explore(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A scenario.")],
    seed: Annotated[int, typer.Option(help="The seed whose first life is explored.")] = 0,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=f"States of one crash, {LIMIT} unless given ({WHOLE_LIMIT} of several machines).",
        ),
    ] = None,
    disk: Annotated[str | None, typer.Option(help=f"One of {', '.join(DISK_MODELS)}.")] = None,
    messages: Annotated[
        int | None, typer.Option(min=1, help="Of each producer, instead of what the seed draws.")
    ] = None,
    nest: Annotated[
        int, typer.Option(min=0, max=8, help="Crashes inside recovery, this deep, of some states.")
    ] = 0,
    heal: Annotated[bool, typer.Option(help="Use each recovered store as the end of a run does.")] = False,
    mutant: Annotated[str | None, typer.Option(help="With a known bug put back; see `list`.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    schedules: Annotated[
        bool, typer.Option("--schedules", help="Every schedule of the run in place of every crash.")
    ] = False,
    delays: Annotated[
        int | None, typer.Option(min=0, help="Schedules with up to N delays; 1 if neither.")
    ] = None,
    preemptions: Annotated[
        int | None, typer.Option(min=0, help="Schedules with up to N preemptions.")
    ] = None,
    after: Annotated[str | None, typer.Option(help="Go on behind the schedule of that name.")] = None,
    stop_at_first: Annotated[
        bool, typer.Option("--stop-at-first", help="End with the first schedule that breaks a promise.")
    ] = False,
    out: Annotated[Path | None, typer.Option(file_okay=False, help="Leave failures in DIR/failures.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Pull the plug at every operation of one run, and judge every state that may be left.

    With --schedules: run it under every schedule with few delays or preemptions instead, and count them.
    """
    if schedules:
        return explore_schedules(
            context, name, seed, delays, preemptions, limit, after, mutant, stop_at_first, out, json_file
        )
    for option in ("delays", "preemptions", "after", "stop_at_first"):
        if was_given(context, option):
            raise typer.BadParameter("goes with --schedules", param_hint=f"--{option.replace('_', '-')}")
    scenario = _scenario(name, disk)
    if mutant is not None and find_mutant(mutant) is None:
        raise unknown("mutant", mutant, MUTANTS, "--mutant")
    if limit is None:
        limit = LIMIT if scenario.ranges.is_alone else WHOLE_LIMIT
    settings = ExploreSettings(
        limit=limit,
        nest=nest,
        heal=heal,
        messages_each=messages,
    )
    try:
        explored = _explore(scenario, seed, settings, mutant, jobs)
    except ReplayDivergedError as error:
        print_error(f"not reproduced: {error}")
        raise typer.Exit(EXIT_HARNESS) from error
    with results_written("--out"):
        paths = write_failures(explored.failures, out)
    write_json(json_file, _json(explored, paths))
    if json_file != "-":
        _print_result(explored)
    for failure in explored.failures:
        path = paths.get(failure.signature)
        again = "the same again, with --out DIR" if path is None else f"tornlog replay {path}"
        print_failure(findings_console(json_file), failure, again)
    raise typer.Exit(EXIT_BROKEN if explored.failures else EXIT_HELD)


def _scenario(name: str, disk: str | None) -> Scenario:
    if name not in SCENARIOS:
        raise unknown("scenario", name, SCENARIOS)
    try:
        return SCENARIOS[name].narrowed(disk=disk)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--disk") from error


def _explore(
    scenario: Scenario, seed: int, settings: ExploreSettings, mutant: str | None, jobs: int
) -> Exploration:
    """Explore with a progress display on a terminal, silently in a pipe."""
    with progress_bar(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[facts]}"), TimeElapsedColumn()
    ) as progress:
        bar = progress.add_task("pulling the plug", total=None, facts="")

        def on_progress(found: ExplorationCounts[Plan], done: int, total: int) -> None:
            sums = found.total
            facts = f"{sums.states:,} states, {sums.judged:,} judged, {sums.violations:,} broken"
            progress.update(bar, completed=done, total=total, facts=facts)

        return explore_seed(scenario, seed, settings, mutant=mutant, jobs=jobs, on_progress=on_progress)


def _json(explored: Exploration, paths: dict[str, Path]) -> dict[str, Any]:
    found, total = explored.found, explored.found.total
    return {
        "format": "tornlog-explore/1",
        "scenario": explored.scenario.name,
        "seed": explored.seed,
        "disk": explored.plan.disk,
        "mutant": explored.mutant,
        "limit": explored.settings.limit,
        "heal": explored.settings.heal,
        "exhaustive": total.exhausted == total.crashes,
        "moments": total.moments,
        "crashes": total.crashes,
        "crashes_exhausted": total.exhausted,
        "crashes_cut": total.cut,
        "states": total.states,
        "images": len(found.images),
        "judgements": len(found.judged),
        "judged": total.judged,
        "violations": total.violations,
        "depths": [asdict(depth) for depth in explored.depths],
        "kinds": [
            {"depth": depth, "kind": kind, **asdict(count)}
            for (depth, kind), count in sorted(found.counts.items())
        ],
        "failures": [
            {"signature": failure.signature, "file": str(paths.get(failure.signature, ""))}
            for failure in explored.failures
        ],
        "seconds": round(explored.seconds, 3),
        "states_per_second": round(explored.states_per_second, 1),
    }


def _print_result(explored: Exploration) -> None:
    total, found = explored.found.total, explored.found
    OUT.print(_table(explored))
    every = (
        "every state was tried"
        if total.exhausted == total.crashes
        else (
            f"of {total.exhausted:,} of {total.crashes:,} crashes every state was tried"
            + (f", of {total.cut:,} not all that should have been (--limit)" if total.cut else "")
        )
    )
    OUT.print(f"disk {explored.plan.disk}: {every}", soft_wrap=True)
    OUT.print(
        f"{total.states:,} states, {len(found.images):,} different images, "
        f"{total.judged:,} recovered and judged, {explored.states_per_second:,.0f} a second",
        soft_wrap=True,
    )
    for depth, one in enumerate(explored.depths[1:], 1):
        OUT.print(
            f"{depth} deep in recovery: {one.situations} states, {one.operations} operations to die at",
            soft_wrap=True,
        )


def _table(explored: Exploration) -> Table:
    total = explored.found.total
    broken = len(explored.failures) > 0
    verdict = f"{max(total.violations, 1):,} broken" if broken else "every promise held"
    table = plain_table(
        f"{explored.scenario.name} --seed {explored.seed}: {total.moments:,} crash points in "
        f"{explored.seconds:.1f} s: {verdict}",
        ("crash at",),
        ("points", "states", "judged", "violations"),
    )
    for (depth, kind), count in sorted(explored.found.counts.items()):
        where = f"{kind}, {depth} deep" if depth else kind
        table.add_row(
            where,
            f"{count.moments:,}",
            f"{count.states:,}",
            f"{count.judged:,}",
            f"{count.violations:,}",
            style="red" if count.violations else "",
        )
    return table
