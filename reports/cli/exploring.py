"""Implementation of `explore`: tries crashes or schedules, and builds the result."""

from dataclasses import asdict, fields
from pathlib import Path
from time import perf_counter
from typing import NoReturn

import typer

from ...faults.simulation.explore import LIMIT, ExplorationCounts
from ...scenarios.campaigns.explore import WHOLE_LIMIT, Exploration, ExploreSettings, explore_seed
from ...scenarios.campaigns.failures.failure import Failure
from ...scenarios.campaigns.failures.failure_text import failure_text
from ...scenarios.campaigns.search import SearchResult, search_schedules
from ...scenarios.claims.plan import Plan
from ...scenarios.claims.scenario import Scenario
from ...sim.errors import ReplayDivergedError
from ...sim.interruption import Interruption, interruptible
from ..results.model import FailureGroup, Failures, Lines, On, Result, ResultBlock, ResultTable, Row, Tone, Verdict
from ..results.output import write_result_and_exit
from .console import print_error, show_progress
from .explore import ExploreOptions
from .named import require_mutant, scenarios_named
from .options import EXIT_BROKEN, EXIT_HARNESS, EXIT_HELD, ResultFiles, is_option_given, results_written
from .reporting import replay_command, write_failures


def explore_run(options: ExploreOptions) -> NoReturn:
    _check_options(options)
    (scenario,) = scenarios_named([options.name], options.disk, None, attribute_points=options.attribute_points)
    require_mutant(options.mutant)
    with interruptible() as interruption:
        files = ResultFiles()
        try:
            work = _schedules_result if options.schedules else _crashes_result
            result = work(options, scenario, interruption, files)
        except ReplayDivergedError as error:
            print_error(f"not reproduced: {error}")
            raise typer.Exit(EXIT_HARNESS) from error
        write_result_and_exit(result, json_file=options.json_file, files=files)


def _check_options(options: ExploreOptions) -> None:
    refused, reason = ["delays", "preemptions", "attribute_points", "after", "stop_at_first"], "needs --schedules"
    if options.schedules:
        refused = ["disk", "messages", "nest", "heal", "jobs"]
        reason = "applies only to crashes: not allowed with --schedules"
    for option in refused:
        if is_option_given(options.context, option):
            raise typer.BadParameter(reason, param_hint=f"--{option.replace('_', '-')}")
    if options.delays is not None and options.preemptions is not None:
        raise typer.BadParameter("expected --delays or --preemptions, found both", param_hint="--delays")


def _write_failures(failures: list[Failure], out: Path | None, files: ResultFiles) -> dict[str, Path]:
    with files.writing(), results_written("--out"):
        return write_failures(failures, out)
    return {}


def _failures_block_of_run(failures: list[Failure], paths: dict[str, Path], again: str) -> Failures:
    """again: the replay command of a failure without a file."""
    commands = {name: replay_command(path) for name, path in paths.items()}
    texts = [failure_text(failure, commands.get(failure.signature, again)) for failure in failures]
    return Failures("Failures", On.ALARM, groups=[FailureGroup(texts)])


def _tone_and_exit_code(failures: list[Failure], interruption: Interruption) -> tuple[Tone, int]:
    tone, exit_code = (Tone.BROKEN, EXIT_BROKEN) if failures else (Tone.HELD, EXIT_HELD)
    return tone, interruption.exit_code if interruption.is_requested else exit_code


# -- schedules -------------------------------------------------------------------------------------


def _schedules_result(
    options: ExploreOptions, scenario: Scenario, interruption: Interruption, files: ResultFiles
) -> Result:
    kind, bound = "delays", 1 if options.delays is None else options.delays
    if options.preemptions is not None:
        kind, bound = "preemptions", options.preemptions
    began = perf_counter()
    with show_progress() as update:

        def on_progress(result: SearchResult) -> None:
            update(description=f"{result.schedules:,} schedules, {result.violated:,} broken")

        try:
            found = search_schedules(
                scenario,
                options.seed,
                bound,
                kind,
                options.limit,
                mutant=options.mutant,
                after=options.after,
                stop_at_first=options.stop_at_first,
                on_progress=on_progress,
                interruption=interruption,
            )
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--after") from error
    failures = [] if found.failure is None else [found.failure]
    paths = _write_failures(failures, options.out, files)
    document = {
        "format": "tornlog-schedules/1",
        "kind": kind,
        "bound": bound,
        **{field.name: getattr(found, field.name) for field in fields(found) if field.name != "failure"},
        "failures": [str(path) for path in paths.values()],
        "seconds": round(perf_counter() - began, 3),
        "interrupted": interruption.is_requested,
    }
    verdict = "interrupted, no promise broken" if interruption.is_requested else "every promise held"
    if found.violated:
        first = f"the first after {found.first_violated:,} ({found.first_schedule})"
        verdict = f"{found.violated:,} broken, {first}"
    blocks: list[ResultBlock] = []
    if not found.is_complete and found.last_schedule is not None:
        blocks.append(Lines("", On.TERMINAL, lines=[f"  continue with --after '{found.last_schedule}'"], is_text=True))
    blocks.append(_failures_block_of_run(failures, paths, ""))
    tone, exit_code = _tone_and_exit_code(failures, interruption)
    return Result("explore", f"{found.summary}: {verdict}", Verdict(tone, verdict), exit_code, document, blocks=blocks)


# -- crashes ---------------------------------------------------------------------------------------


def _crashes_result(
    options: ExploreOptions, scenario: Scenario, interruption: Interruption, files: ResultFiles
) -> Result:
    limit = options.limit
    if limit is None:
        limit = LIMIT if scenario.ranges.is_alone else WHOLE_LIMIT
    settings = ExploreSettings(limit=limit, nest=options.nest, heal=options.heal, messages_each=options.messages)
    with show_progress("exploring crashes") as update:

        def on_progress(found: ExplorationCounts[Plan], done: int, total: int) -> None:
            sums = found.total
            facts = f"{sums.states:,} states, {sums.judged:,} judged, {sums.violations:,} broken"
            update(completed=done, total=total, facts=facts)

        explored = explore_seed(
            scenario,
            options.seed,
            settings,
            mutant=options.mutant,
            jobs=options.jobs,
            on_progress=on_progress,
            interruption=interruption,
        )
    paths = _write_failures(explored.failures, options.out, files)
    found, total, sums = explored.found, explored.found.total, asdict(explored.found.total)
    document = {
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
    held = "no promise broken" if explored.is_interrupted else "every promise held"
    verdict = f"{max(total.violations, 1):,} broken" if explored.failures else held
    verdict = f"interrupted, {verdict}" if explored.is_interrupted else verdict
    run = f"{explored.scenario.name} --seed {explored.seed}"
    headline = f"{run}: {total.moments:,} crash points in {explored.seconds:.1f} s: {verdict}"
    blocks = [
        _kinds_table(explored),
        Lines("", On.TERMINAL, lines=_summary_lines(explored)),
        _failures_block_of_run(explored.failures, paths, "add --out DIR, which stores the failure"),
    ]
    tone, exit_code = _tone_and_exit_code(explored.failures, interruption)
    return Result("explore", headline, Verdict(tone, verdict), exit_code, document, blocks=blocks)


def _kinds_table(explored: Exploration) -> ResultTable:
    rows = []
    for (depth, kind), count in sorted(explored.found.counts.items()):
        where = f"{kind}, depth {depth}" if depth else kind
        rows.append(Row((where, count.moments, count.states, count.judged, count.violations), count.violations > 0))
    figures = ("points", "states", "judged", "violations")
    return ResultTable("Crashes", On.TERMINAL, texts=("crash at",), figures=figures, rows=rows)


def _summary_lines(explored: Exploration) -> list[str]:
    total, found = explored.found.total, explored.found
    of_all = total.exhausted == total.crashes
    crashes = "every crash" if of_all else f"{total.exhausted:,} of {total.crashes:,} crashes"
    every = f"{'interrupted; ' if explored.is_interrupted else ''}every state of {crashes} was tried"
    if total.cut:
        every += f"; --limit left out states of {total.cut:,} crashes"
    return [
        f"disk {explored.plan.disk}: {every}",
        f"{total.states:,} states, {len(found.images):,} distinct images, "
        f"{total.judged:,} recovered and judged, {explored.states_per_second:,.0f} a second",
        *(
            f"recovery at depth {depth}: {one.situations} states, {one.operations} operations to crash at"
            for depth, one in enumerate(explored.depths[1:], 1)
        ),
    ]
