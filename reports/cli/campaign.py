"""Implementation of `run`: runs rounds of seeds, and builds the result."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import NoReturn

import typer

from ...faults.simulation.artefact import ArtefactError
from ...scenarios.campaigns.amounts import parse_seconds, parse_seeds
from ...scenarios.campaigns.causes import ViolationKind, broken_promises, violation_kinds_with_causes
from ...scenarios.campaigns.coverage import marks_never_hit, never_injected
from ...scenarios.campaigns.failures.failure import Failure
from ...scenarios.campaigns.failures.replay import replay, verified_run
from ...scenarios.campaigns.first_seed import draw_first_seed
from ...scenarios.campaigns.runner import Batch, CampaignReach, Tally, batches_of, run_batches
from ...scenarios.campaigns.seeds import run_seed
from ...scenarios.claims.scenario import Scenario
from ...scenarios.mutants.known import applied_mutant
from ...scenarios.mutants.version import Version
from ...sim.interruption import Interruption, interruptible
from ...sim.policies.replay import ReplayPolicy
from ...sim.process import STALL_SECONDS, CpuLimitReached, stall_limit
from ...sim.schedule import parse_schedule
from ..results.output import write_result_and_exit
from ..timeline.recording.recorder import record_seed
from .comparison import EarlierCampaign
from .console import print_error, print_note, show_progress
from .determinism import check_processes
from .kept_seeds import SeedCorpus
from .named import require_mutant, scenarios_named
from .options import (
    ResultFiles,
    command_line,
    draw_run,
    is_option_given,
    options_text,
    require_writable,
    results_written,
    unknown_name_error,
)
from .reporting import FailureLinks, replay_command, write_failures, write_timelines
from .run import RunOptions
from .run_result import RunResults, failures_by_kind_in_turn, run_result

_SECONDS = 30.0
"""Default time budget, if the user gives neither a time nor seeds."""


def run_campaign(options: RunOptions) -> NoReturn:
    if options.processes is not None or options.python:
        _require_fit_for_processes(options)
        check_processes(options)
    scenarios = scenarios_named(options.names, options.disk, options.policy, attribute_points=options.attribute_points)
    version, mutant = _version_and_mutant(options)
    if version is not None:
        scenarios = [replace(one, ranges=version.narrow(one.ranges)) for one in scenarios]
    wanted, seconds = parse_seeds(options.seeds, options.seed), None
    if options.time is not None or wanted is None:
        seconds = _SECONDS if options.time is None else parse_seconds(options.time)
    _check_determinism(options, scenarios)
    against = None if options.against is None else EarlierCampaign.read(options.against)
    out = options.out
    if not any(is_option_given(options.context, name) for name in options.context.params if name != "verbose"):
        out = Path("out")
    require_writable("out", out, "--out")
    line, first = command_line(options.context), options.first_seed
    drawn = draw_first_seed() if wanted is None and first is None else None
    if drawn is not None:
        first, line = drawn.seed, f"{line} --first-seed {drawn.seed}"
        print_note(f"first seed {first}, drawn {drawn.origin}; reproduce: {line}")
    began = perf_counter()
    with interruptible() as interruption:
        corpus = SeedCorpus(options, scenarios)
        if options.schedule is not None:
            assert options.seed is not None, "checked"
            tallies = [_run_schedule(scenarios[0], options.seed, mutant, options.schedule)]
        else:
            kept = _tallies_of_kept(out, scenarios, mutant, interruption) if drawn is not None else {}
            batches = batches_of(
                scenarios, wanted, mutant=mutant, check_determinism=options.check_determinism, first=first or 0
            )
            total = None if wanted is None else len(wanted) * len(scenarios)
            corpus.try_first(interruption)
            tallies = _run_all(
                scenarios,
                batches,
                kept,
                corpus,
                total=total,
                seconds=seconds,
                jobs=options.jobs,
                interruption=interruption,
            )
        took = perf_counter() - began
        reached = {tally.scenario.name for tally in tallies}
        not_run = tuple(one.name for one in scenarios if one.name not in reached)
        broken = broken_promises(tallies)
        if version is not None and not interruption.is_requested:
            broken = _explain(broken, version, options.jobs, interruption)
        never: dict[str, list[str]] = {}
        if options.require_coverage:
            never = {"faults": never_injected(tallies), "marks": marks_never_hit(tallies), "scenarios": list(not_run)}
        reach = CampaignReach.of_campaign(len(scenarios), not_run, interruption)
        outcome = corpus.record_run({tally.scenario.name: tally for tally in tallies})
        results = RunResults(
            line,
            tallies,
            took,
            broken,
            mutant,
            version,
            never,
            reach=reach,
            first_seed=first,
            against=against,
            corpus=outcome,
        )
        results, page, files = _write_failure_files(results, options, scenarios[0], out)
        interrupted = interruption.exit_code if interruption.is_requested else None
        write_result_and_exit(
            run_result(results, interrupted),
            json_file=options.json_file,
            page=page,
            junit=options.junit,
            summary=options.summary,
            drawn=results.drawn,
            verbose=options.verbose,
            files=files,
        )


def _require_fit_for_processes(options: RunOptions) -> None:
    if not options.check_determinism:
        raise typer.BadParameter("needs --check-determinism", param_hint="--processes")
    fitting = ("names", "seeds", "check_determinism", "processes", "python", "json_file")
    for name in options.context.params:
        if name not in fitting and is_option_given(options.context, name):
            option = f"--{name.rstrip('_').replace('_', '-')}"
            raise typer.BadParameter("not allowed with --processes", param_hint=option)


def _write_failure_files(
    results: RunResults, options: RunOptions, scenario: Scenario, out: Path | None
) -> tuple[RunResults, Path | None, ResultFiles]:
    """Write failures and timelines. Return the results with paths, the directory of the page, and write errors."""
    files, paths, drawn = ResultFiles(), dict[str, Path](), list[Path]()
    left: dict[str, FailureLinks] = {}
    place: Path | None = None

    def again(failure: Failure) -> str:
        path = paths.get(failure.signature)
        return _rerun_command(options, failure) if path is None else replay_command(path)

    failures = failures_by_kind_in_turn(results.broken)
    with files.writing(), results_written("--out"):
        paths = write_failures((failure for tally in results.tallies for failure in tally.failures), out)
        # After an interrupt no timelines are drawn, because the user waits; `tornlog replay` can draw them later.
        left = write_timelines(failures, paths, out, again, draws=not results.reach.interrupted)
        place = out
    left = left or write_timelines(failures, paths, None, again)
    if (options.timeline is not None or options.trace is not None) and not results.reach.interrupted:
        assert options.seed is not None, "checked"
        policy = None if options.schedule is None else _policy_in_file(options.schedule)
        with files.writing(), results_written("--timeline"):
            run_recording = record_seed(scenario, options.seed, mutant=results.mutant, policy=policy)
            drawn = draw_run(run_recording, options.timeline, options.trace)
    return replace(results, failures=left, paths=list(paths.values()), drawn=drawn), place, files


def _rerun_command(options: RunOptions, failure: Failure) -> str:
    named = {"disk": options.disk, "policy": options.policy, "mutant": options.mutant, "as": options.as_}
    points = " --attribute-points" if options.attribute_points else ""
    return f"tornlog run {failure.scenario} --seed {failure.seed}{options_text(**named)}{points}"


def _version_and_mutant(options: RunOptions) -> tuple[Version | None, str | None]:
    """A version has a mutant of the same name."""
    name, mutant = options.as_, options.mutant
    require_mutant(mutant)
    if name is None:
        return None, mutant
    from ...scenarios.mutants.versions import VERSIONS  # here, because it collects all mutants

    if name not in VERSIONS:
        raise unknown_name_error("version", name, VERSIONS, "--as")
    if mutant is not None:
        raise typer.BadParameter("expected --as or --mutant, found both", param_hint="--as")
    return VERSIONS[name], VERSIONS[name].id


def _check_determinism(options: RunOptions, scenarios: list[Scenario]) -> None:
    if options.require_coverage and (options.names or options.disk or options.policy):
        raise typer.BadParameter("only all scenarios together can inject every fault", param_hint="--require-coverage")
    if options.first_seed is not None and (options.seeds is not None or options.seed is not None):
        raise typer.BadParameter("needs a time budget; --seeds A:B starts at seed A", param_hint="--first-seed")
    is_drawn = options.timeline is not None or options.trace is not None
    is_one = options.seed is not None and len(scenarios) == 1
    if is_drawn and not is_one:
        raise typer.BadParameter("only one run can be drawn: expected one scenario and --seed", param_hint="--timeline")
    if options.schedule is not None and (not is_one or options.check_determinism):
        raise typer.BadParameter("expected one scenario and --seed, run once", param_hint="--schedule")


def _explain(rows: list[ViolationKind], version: Version, jobs: int, interruption: Interruption) -> list[ViolationKind]:
    found = []
    with show_progress("looking for causes", len(rows)) as update:
        for row in violation_kinds_with_causes(rows, version.id, jobs=jobs, interruption=interruption):
            found.append(row)
            update(advance=1)
    return found


def _policy_in_file(file: Path) -> ReplayPolicy:
    try:
        return ReplayPolicy(parse_schedule(file.read_text()))
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{file}: {error}", param_hint="--schedule") from error


def _run_schedule(scenario: Scenario, seed: int, mutant: str | None, file: Path) -> Tally:
    policy = _policy_in_file(file)
    tally = Tally(scenario)
    tally.add(run_seed(scenario, seed, mutant=mutant, policy=policy))
    for switch in policy.unused_switches:
        print_error(f"never happened: {switch}")
    return tally


def _run_all(
    scenarios: list[Scenario],
    batches: Iterable[Batch],
    kept: dict[str, Tally],
    corpus: SeedCorpus,
    *,
    total: int | None,
    seconds: float | None,
    jobs: int,
    interruption: Interruption,
) -> list[Tally]:
    began, seeds, violations = perf_counter(), 0, Counter[str]()
    with show_progress("running seeds", seconds if total is None else total) as update:

        def on_progress(tally: Tally, more: int) -> None:
            nonlocal seeds
            seeds += more
            violations[tally.scenario.name] = tally.violations
            elapsed = perf_counter() - began
            facts = f"{seeds:,} seeds, {seeds / elapsed:.0f}/s, {violations.total()} broken"
            update(completed=elapsed if total is None else seeds, facts=facts)

        found = run_batches(
            batches, jobs=jobs, seconds=seconds, on_progress=on_progress, interruption=interruption, tallies=kept
        )
    corpus.add_to(found)
    return [found[scenario.name] for scenario in scenarios if scenario.name in found]


# -- kept failures ---------------------------------------------------------------------------------


def _tallies_of_kept(
    out: Path | None, scenarios: Sequence[Scenario], mutant: str | None, interruption: Interruption
) -> dict[str, Tally]:
    """Print a note about each stored failure. Return tallies of the failures that still occur."""
    tallies: dict[str, Tally] = {}
    named = {scenario.name: scenario for scenario in scenarios}
    for path, failure in _kept_failures(out):
        if failure.scenario not in named or failure.mutant != mutant or interruption.is_requested:
            continue
        again = interruption.result_unless_requested(partial(_replay_kept, failure))
        if isinstance(again, Failure):
            tally = tallies.setdefault(failure.scenario, Tally(named[failure.scenario]))
            tally.add_kept_failure(again)
            print_note(f"{path}: still breaks")
        elif again is not None:
            print_note(f"{path}: {again}")
    return tallies


def _kept_failures(out: Path | None) -> Iterator[tuple[Path, Failure]]:
    for path in sorted((out / "failures").glob("*.json")) if out is not None else ():
        try:
            yield path, Failure.from_json(path.read_text())
        except (OSError, UnicodeDecodeError, ArtefactError) as error:
            print_note(f"{path}: not tried again: {error}")


def _replay_kept(failure: Failure) -> Failure | str:
    """Replay a stored failure. Return the failure with the current code, or the reason why it no longer occurs."""
    try:
        with applied_mutant(failure.mutant), stall_limit(STALL_SECONDS):
            replayed = replay(failure.smallest.record)
            if not replayed.result.violations:
                return "no longer breaks"
            run = verified_run(replayed.record)
    except CpuLimitReached:
        return f"not tried again: no step in {STALL_SECONDS:g} s of CPU time"
    return Failure(failure.scenario, failure.claim, failure.seed, failure.mutant, run)
