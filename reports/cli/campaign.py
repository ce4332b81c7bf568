"""The campaign of `tornlog run`: seeds of scenarios, round after round, and everything that it leaves for a reader."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import typer

from ...scenarios.campaigns.amounts import seconds_in, seeds_in
from ...scenarios.campaigns.blame import ViolationKind, broken_promises, explained
from ...scenarios.campaigns.coverage import never_hit, never_injected
from ...scenarios.campaigns.failures.failure import Failure
from ...scenarios.campaigns.failures.print_failure import print_failure
from ...scenarios.campaigns.first_seed import draw_first_seed
from ...scenarios.campaigns.interruption import Interruption, interruptible
from ...scenarios.campaigns.pairs import pairs_met
from ...scenarios.campaigns.runner import Batch, Reach, Tally, batches_of, run_batches
from ...scenarios.campaigns.seeds import run_seed
from ...scenarios.claims.scenario import Scenario
from ...scenarios.mutants.versions import VERSIONS, Version
from ...sim.policies.replay import Replay
from ...sim.schedule import parse_schedule
from ..html.results import RunResults
from ..timeline.recording.recorder import record_seed
from .ci_documents import append_summary, runs_document
from .ci_formats import write_junit
from .console import OUT, findings_console, print_error, print_note, print_paths, progress_shown
from .failure_files import write_failures
from .kept_failures import tallies_of_kept
from .named import require_mutant, scenarios_named
from .options import (
    EXIT_BROKEN,
    EXIT_HARNESS,
    EXIT_HELD,
    EXIT_NONDETERMINISTIC,
    ResultFiles,
    command_line,
    options_text,
    require_writable,
    results_written,
    unknown,
    was_given,
    write_json,
)
from .pages import draw_run
from .present import print_runs, print_version, runs_verdict, version_json
from .reporting import leave_run_report, replay_command

_SECONDS = 30.0
"""For how long, where nobody says for how long or how many seeds."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a command line says."""

    names: tuple[str, ...]
    jobs: int
    seeds: str | None
    seed: int | None
    time: str | None
    first_seed: int | None
    policy: str | None
    attribute_points: bool
    disk: str | None
    mutant: str | None
    as_version: str | None
    check_determinism: bool
    schedule: Path | None
    require_coverage: bool
    verbose: bool
    out: Path | None
    timeline: Path | None
    trace: Path | None
    junit: Path | None
    summary: Path | None
    json_file: str | None


def campaign(context: typer.Context, asked: RunOptions) -> None:
    """Run what a command line asks for, leave and show what it came to, and exit."""
    scenarios = scenarios_named(list(asked.names), asked.disk, asked.policy, attribute_points=asked.attribute_points)
    version, mutant = _bugs(asked)
    if version is not None:
        scenarios = [replace(one, ranges=version.narrow(one.ranges)) for one in scenarios]
    wanted, seconds = seeds_in(asked.seeds, asked.seed), None
    if asked.time is not None or wanted is None:
        seconds = _SECONDS if asked.time is None else seconds_in(asked.time)
    _check(asked, scenarios)
    out = asked.out
    if not any(was_given(context, name) for name in context.params if name != "verbose"):
        out = Path("out")
    require_writable("out", out, "--out")
    line, first = command_line(context), asked.first_seed
    drawn = draw_first_seed() if wanted is None and first is None else None
    if drawn is not None:
        first, line = drawn.seed, f"{line} --first-seed {drawn.seed}"
        print_note(f"first seed {first}, drawn {drawn.origin}; the same seeds again: {line}")
    began = perf_counter()
    with interruptible() as interruption:
        if asked.schedule is not None:
            assert asked.seed is not None, "checked"
            tallies = [_run_schedule(scenarios[0], asked.seed, mutant, asked.schedule)]
        else:
            kept = tallies_of_kept(out, scenarios, mutant, interruption) if drawn is not None else {}
            tallies = _run_all(
                scenarios,
                batches_of(
                    scenarios, wanted, mutant=mutant, check_determinism=asked.check_determinism, first=first or 0
                ),
                kept,
                total=None if wanted is None else len(wanted) * len(scenarios),
                seconds=seconds,
                jobs=asked.jobs,
                interruption=interruption,
            )
        took = perf_counter() - began
        reached = {tally.scenario.name for tally in tallies}
        not_run = tuple(one.name for one in scenarios if one.name not in reached)
        broken = broken_promises(tallies)
        if version is not None and not interruption.is_wanted:
            broken = _explain(broken, version, asked.jobs, interruption)
        never: dict[str, list[str]] = {}
        if asked.require_coverage:
            never = {
                "faults": never_injected(tallies),
                "marks": never_hit(tallies),
                "scenarios": list(not_run),
            }
        reach = Reach.of(len(scenarios), not_run, interruption)
        results = RunResults(line, tallies, took, broken, mutant, version, never, reach=reach)
        left, files = _Left(asked, results, out, first), ResultFiles()
        with files.attempt():
            left.write_failures()
            left.report()
        with files.attempt():
            left.draw(scenarios[0])
        with files.attempt():
            left.write_documents()
        left.show()
    files.exit(_exit_code(results, interruption))


def _bugs(asked: RunOptions) -> tuple[Version | None, str | None]:
    """Return the version whose bugs are to be put in, and the mutant, which a version is too."""
    name, mutant = asked.as_version, asked.mutant
    require_mutant(mutant)
    if name is None:
        return None, mutant
    if name not in VERSIONS:
        raise unknown("version", name, VERSIONS, "--as")
    if mutant is not None:
        raise typer.BadParameter("expected --as or --mutant, found both", param_hint="--as")
    return VERSIONS[name], VERSIONS[name].id


def _check(asked: RunOptions, scenarios: list[Scenario]) -> None:
    """Raise BadParameter for options that do not go together."""
    if asked.require_coverage and (asked.names or asked.disk or asked.policy):
        raise typer.BadParameter("only all scenarios at once can inject all", param_hint="--require-coverage")
    if asked.first_seed is not None and (asked.seeds is not None or asked.seed is not None):
        raise typer.BadParameter("goes with a time budget; --seeds A:B begins at A", param_hint="--first-seed")
    is_drawn = asked.timeline is not None or asked.trace is not None
    is_one = asked.seed is not None and len(scenarios) == 1
    if is_drawn and not is_one:
        raise typer.BadParameter("one run is drawn: expected one scenario and --seed", param_hint="--timeline")
    if asked.schedule is not None and (not is_one or asked.check_determinism):
        raise typer.BadParameter("expected one scenario and --seed, run once", param_hint="--schedule")


def _explain(rows: list[ViolationKind], version: Version, jobs: int, interruption: Interruption) -> list[ViolationKind]:
    found = []
    with progress_shown("looking for causes", len(rows)) as update:
        for row in explained(rows, version.id, jobs=jobs, interruption=interruption):
            found.append(row)
            update(advance=1)
    return found


def _policy_in(file: Path) -> Replay:
    try:
        return Replay(parse_schedule(file.read_text()))
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{file}: {error}", param_hint="--schedule") from error


def _run_schedule(scenario: Scenario, seed: int, mutant: str | None, file: Path) -> Tally:
    """Run one seed under the schedule in a file, and print what of that never happened."""
    policy = _policy_in(file)
    tally = Tally(scenario)
    tally.add(run_seed(scenario, seed, mutant=mutant, policy=policy))
    for switch in policy.unmet:
        print_error(f"never happened: {switch}")
    return tally


def _run_all(
    scenarios: list[Scenario],
    batches: Iterable[Batch],
    kept: dict[str, Tally],
    *,
    total: int | None,
    seconds: float | None,
    jobs: int,
    interruption: Interruption,
) -> list[Tally]:
    began, seeds, violations = perf_counter(), 0, Counter[str]()
    with progress_shown("pulling the plug", seconds if total is None else total) as update:

        def on_progress(tally: Tally, more: int) -> None:
            nonlocal seeds
            seeds += more
            violations[tally.scenario.name] = tally.violations
            elapsed = perf_counter() - began
            facts = f"{seeds:,} seeds, {seeds / elapsed:.0f}/s, {violations.total()} broken"
            update(completed=elapsed if total is None else seeds, facts=facts)

        found = run_batches(
            batches,
            jobs=jobs,
            seconds=seconds,
            on_progress=on_progress,
            interruption=interruption,
            tallies=kept,
        )
    return [found[scenario.name] for scenario in scenarios if scenario.name in found]


@dataclass
class _Left:
    """What a campaign leaves: files, and lines on the terminal."""

    _asked: RunOptions
    _results: RunResults
    _out: Path | None
    _first_seed: int | None
    _paths: dict[str, Path] = field(default_factory=dict)
    _drawn: list[Path] = field(default_factory=list)
    _report: Path | None = None

    def write_failures(self) -> None:
        failures = (failure for tally in self._results.tallies for failure in tally.failures)
        with results_written("--out"):
            self._paths = write_failures(failures, self._out)

    def draw(self, scenario: Scenario) -> None:
        """Draw the one run, if that is wanted, and was not interrupted."""
        asked = self._asked
        wants = asked.timeline is not None or asked.trace is not None
        if asked.seed is None or not wants or self._results.reach.interrupted:
            return
        policy = None if asked.schedule is None else _policy_in(asked.schedule)
        with results_written("--timeline"):
            run_recording = record_seed(scenario, asked.seed, mutant=self._results.mutant, policy=policy)
            self._drawn = draw_run(run_recording, asked.timeline, asked.trace)

    def report(self) -> None:
        if self._out is not None:
            with results_written("--out"):
                self._report = leave_run_report(self._results, self._paths, self._out, self._again)

    def write_documents(self) -> None:
        asked, results = self._asked, self._results
        write_json(asked.json_file, self._document())
        if asked.junit is not None:
            with results_written("--junit"):
                write_junit(asked.junit, runs_document(results.tallies, self._again, results.reach))
        if asked.summary is not None:
            with results_written("--summary"):
                append_summary(asked.summary, results.tallies, results.seconds, self._again, results.reach)

    def show(self) -> None:
        """Print the verdict, the failures and the verdict; with JSON on standard output, the failures elsewhere."""
        results, is_shown = self._results, self._asked.json_file != "-"
        verdict = runs_verdict(results.tallies, results.seconds, results.reach)
        if is_shown:
            OUT.print(verdict, soft_wrap=True)
            print_runs(OUT, results.tallies, results.reach, verbose=self._asked.verbose)
            if results.version is not None:
                print_version(OUT, results.version, list(results.broken), self._again)
        console = findings_console(self._asked.json_file)
        for tally in results.tallies:
            if results.version is None:
                for failure in tally.failures[:1]:
                    print_failure(console, failure, self._again(failure))
            for error in [*tally.errors[:1], *tally.nondeterministic[:1]]:
                print_error(error)
        for what, missing in results.never.items():
            if missing:
                console.print(f"{what} that never did: {', '.join(missing)}", style="red", soft_wrap=True)
        if is_shown:
            print_paths(self._drawn if self._report is None else [*self._drawn, self._report])
            OUT.print(verdict, soft_wrap=True)

    def _again(self, failure: Failure) -> str:
        path = self._paths.get(failure.signature)
        if path is not None:
            return replay_command(path)
        asked = self._asked
        named = {"disk": asked.disk, "policy": asked.policy, "mutant": asked.mutant, "as": asked.as_version}
        points = " --attribute-points" if asked.attribute_points else ""
        return f"tornlog run {failure.scenario} --seed {failure.seed}{options_text(**named)}{points}"

    def _document(self) -> dict[str, Any]:
        results = self._results
        document: dict[str, Any] = {
            "format": "tornlog-run/1",
            "scenarios": [_tally_json(tally) for tally in results.tallies],
            "not_run": list(results.reach.not_run),
            "interrupted": results.reach.interrupted,
            "first_seed": self._first_seed,
            "failures": [str(path) for path in self._paths.values()],
            "pairs": _pairs_json(results.tallies),
            "seconds": round(results.seconds, 3),
        }
        if self._drawn:
            document["drawn"] = [str(path) for path in self._drawn]
        if self._asked.require_coverage:
            document["never"] = results.never
        if results.version is not None:
            document["version"] = version_json(results.version, list(results.broken), self._again)
        if self._report is not None:
            document["report"] = str(self._report)
        return document


def _tally_json(tally: Tally) -> dict[str, Any]:
    counts = ("seeds", "crash_points", "violations", "digest", "messages", "steps")
    return {
        "name": tally.scenario.name,
        "claim": tally.scenario.claim,
        **{name: getattr(tally, name) for name in counts},
        "injected": dict(sorted(tally.injected.items())),
        "marks": dict(sorted(tally.marks.items())),
        "errors": len(tally.errors),
        "nondeterministic": len(tally.nondeterministic),
        "seconds": round(tally.wall_seconds, 3),
        "disks": dict(sorted(tally.judged.items())),
        "tried": _by_invariant(tally.tried),
        "broken": _by_invariant(tally.broken),
    }


def _pairs_json(tallies: Iterable[Tally]) -> dict[str, Any]:
    found = pairs_met(sum((tally.pairs for tally in tallies), Counter()))
    return {"met": found.met, "can": found.can, "never": [list(pair) for pair in found.never]}


def _by_invariant(seeds: Counter[tuple[str, str]]) -> list[dict[str, Any]]:
    return [
        {"invariant": invariant, "disk": disk, "seeds": times} for (invariant, disk), times in sorted(seeds.items())
    ]


def _exit_code(results: RunResults, interruption: Interruption) -> int:
    tallies = results.tallies
    if interruption.is_wanted:
        return interruption.exit_code
    if any(tally.errors for tally in tallies):
        return EXIT_HARNESS
    if any(tally.nondeterministic for tally in tallies):
        return EXIT_NONDETERMINISTIC
    is_broken = any(tally.violations for tally in tallies) or any(results.never.values())
    return EXIT_BROKEN if is_broken else EXIT_HELD
