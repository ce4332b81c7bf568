"""The command that runs seeds.

JSON, version 1: `{"format": "tornlog-run/1", "scenarios": [{"name", "claim", "seeds", "crash_points", "fired",
"marks", "violations", "errors", "nondeterministic", "digest", "messages", "steps", "seconds", "disks": {disk: seeds
that came to a verdict}, "tried": [{"invariant", "disk", "seeds"}], "broken": [likewise]}], "failures": [paths], "seconds"}`; with --out also
"report": path; with --timeline or --trace also "drawn": `[paths]`; with --require-coverage also "never": `{"faults":
[names], "marks": [names]}`; with --as also "version": `{"id", "bugs": [{"id", "verdict": "has", "has not" or "not
certain", "on", "reason", "left_out"}], "deviations": {id: text}, "broken": [{"promise", "kind", "times", "scenarios":
{name: times}, "scenario", "seed", "causes": [{"id", "tries", "mended", "enough"}], "clean", "again": command}]}`.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn

from ...sim.policies.replay import Replay
from ...sim.schedule import parse_schedule
from ...store.commands import write_json
from ..blame import BrokenPromise, broken_promises, explained
from ..chronicle.recording import chronicle_of_seed
from ..coverage import never_fired, never_hit
from ..failures.failure import Failure
from ..mutants.known import find_mutant
from ..mutants.versions import VERSIONS, Version
from ..present import (
    runs_table,
    tell_failure,
    tell_fired,
)
from ..present_version import tell_version, version_json
from ..realities import REALITIES
from ..runner import Batch, Tally, batches_of, run_batches
from ..scenario import POLICIES, Scenario
from ..seeds import run_seed
from .common import (
    ERR,
    EXIT_BROKEN,
    EXIT_HARNESS,
    EXIT_HELD,
    EXIT_NONDETERMINISTIC,
    OUT,
    JsonFile,
    JunitFile,
    command_line,
    options_text,
    progress_bar,
    scenarios_named,
    seconds_in,
    seeds_in,
    was_given,
    write_failures,
)
from .drawing import TimelineFile, TraceFile, draw_run, pages
from .junit import runs_document, write_junit
from .reporting import leave_run_report, replay_command
from .results import RunResults
from .summary import append_summary


def run(
    context: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(help="Scenarios; all without any.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    seeds: Annotated[str | None, typer.Option(help="N, or A:B for A to B - 1, of each scenario.")] = None,
    seed: Annotated[int | None, typer.Option(help="One seed only.")] = None,
    time: Annotated[
        str | None, typer.Option(help="For how long, as in 30s or 5m. 30s without seeds.")
    ] = None,
    policy: Annotated[str | None, typer.Option(help=f"One of {', '.join(POLICIES)}.")] = None,
    disk: Annotated[str | None, typer.Option(help=f"One of {', '.join(REALITIES)}.")] = None,
    mutant: Annotated[str | None, typer.Option(help="Run with a known bug put back; see `list`.")] = None,
    as_: Annotated[
        str | None,
        typer.Option("--as", help=f"Run with the bugs of a real version: {', '.join(VERSIONS)}."),
    ] = None,
    check_determinism: Annotated[bool, typer.Option(help="Run every seed twice and compare.")] = False,
    schedule: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="Lines TASK @ LABEL #N -> TASK, for one seed's tasks."
        ),
    ] = None,
    require_coverage: Annotated[
        bool, typer.Option(help="Fail if a kind of fault never fires, or a mark is never hit.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            file_okay=False, help="Leave report.html, failures and timelines in DIR; bare `run` does, in out."
        ),
    ] = None,
    timeline: TimelineFile = None,
    trace: TraceFile = None,
    junit: JunitFile = None,
    summary: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Append a summary in Markdown to FILE.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Pull the plug on the store, seed after seed, and judge what is left."""
    scenarios = scenarios_named(names, disk, policy)
    if mutant is not None and find_mutant(mutant) is None:
        raise typer.BadParameter(f"no mutant {mutant}; `tornlog list` names them", param_hint="--mutant")
    options = options_text(**{"disk": disk, "policy": policy, "mutant": mutant, "as": as_})
    version = None if as_ is None else _version(as_, mutant)
    if version is not None:
        mutant = version.id
        scenarios = [replace(one, ranges=version.narrow(one.ranges)) for one in scenarios]
    if require_coverage and (names or disk or policy):
        raise typer.BadParameter("only all scenarios at once can fire all", param_hint="--require-coverage")
    wanted = seeds_in(seeds, seed)
    if (timeline or trace) and (seed is None or len(scenarios) != 1):
        raise typer.BadParameter(
            "one run is drawn: expected one scenario and --seed", param_hint="--timeline"
        )
    if (timeline or trace) and not scenarios[0].ranges.is_alone:
        raise typer.BadParameter(
            f"{scenarios[0].name} is about several machines; one store is drawn", param_hint="--timeline"
        )
    seconds = seconds_in(time) if time is not None else (None if wanted is not None else 30.0)
    if not any(was_given(context, name) for name in context.params):
        out = Path("out")
    drawing = None if out is None else pages()
    began = perf_counter()
    if schedule is not None:
        if seed is None or len(scenarios) != 1 or check_determinism:
            raise typer.BadParameter("expected one scenario and --seed, run once", param_hint="--schedule")
        tallies = [_run_schedule(scenarios[0], seed, mutant, schedule)]
    else:
        tallies = _run_all(
            scenarios,
            batches_of(scenarios, wanted, mutant=mutant, check_determinism=check_determinism),
            total=None if wanted is None else len(wanted) * len(scenarios),
            seconds=seconds,
            jobs=jobs,
        )
    took = perf_counter() - began
    drawn: list[Path] = []
    if seed is not None and (timeline is not None or trace is not None):
        again_policy = None if schedule is None else _policy_in(schedule)
        drawn = draw_run(
            chronicle_of_seed(scenarios[0], seed, mutant=mutant, policy=again_policy), timeline, trace
        )
    paths = _leave_failures(tallies, out)
    document: dict[str, Any] = {
        "format": "tornlog-run/1",
        "scenarios": [_tally_json(tally) for tally in tallies],
        "failures": [str(path) for path in paths.values()],
        "seconds": round(took, 3),
    }
    if drawn:
        document["drawn"] = [str(path) for path in drawn]
    never = {"faults": never_fired(tallies), "marks": never_hit(tallies)} if require_coverage else {}
    if require_coverage:
        document["never"] = never
    broken = broken_promises(tallies)
    if version is not None:
        broken = _explain(broken, version, jobs)

    def shown_again(failure: Failure) -> str:
        return _again(failure, paths, options)

    def again(row: BrokenPromise) -> str:
        return shown_again(row.first)

    if version is not None:
        document["version"] = version_json(version, broken, again)
    report = None
    if out is not None and drawing is not None:
        results = RunResults(command_line(context), tallies, took, broken, mutant, version, never)
        report = leave_run_report(results, drawing, paths, out, shown_again)
        document["report"] = str(report)
    if json_file is not None:
        write_json(json_file, document)
    if junit is not None:
        write_junit(junit, runs_document(tallies, shown_again))
    if summary is not None:
        append_summary(summary, tallies, took, shown_again)
    if json_file != "-":
        OUT.print(runs_table(tallies, took))
        tell_fired(OUT, tallies)
        for path in drawn:
            OUT.print(str(path), soft_wrap=True, markup=False)
        if version is not None:
            tell_version(OUT, version, broken, again)
    for tally in tallies:
        if version is None:
            _tell_failures(tally, shown_again)
        _tell_errors(tally)
    for what, missing in never.items():
        if missing:
            ERR.print(f"{what} that never did: {', '.join(missing)}", style="red", soft_wrap=True)
    if report is not None and json_file != "-":
        OUT.print(str(report), soft_wrap=True, markup=False)
    raise typer.Exit(_exit_code(tallies) or (EXIT_BROKEN if any(never.values()) else EXIT_HELD))


def _version(name: str, mutant: str | None) -> Version:
    if name not in VERSIONS:
        raise typer.BadParameter(f"no version {name}; `tornlog list` names them", param_hint="--as")
    if mutant is not None:
        raise typer.BadParameter("expected --as or --mutant, found both", param_hint="--as")
    return VERSIONS[name]


def _explain(rows: list[BrokenPromise], version: Version, jobs: int) -> list[BrokenPromise]:
    """Look for the causes of what broke, with a progress display on a terminal."""
    with progress_bar(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()) as progress:
        bar = progress.add_task("looking for causes", total=len(rows))
        found = []
        for row in explained(rows, version.id, jobs=jobs):
            found.append(row)
            progress.advance(bar)
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
        ERR.print(f"never happened: {switch}", style="red", markup=False, soft_wrap=True)
    return tally


def _run_all(
    scenarios: list[Scenario],
    batches: Iterable[Batch],
    *,
    total: int | None,
    seconds: float | None,
    jobs: int,
) -> list[Tally]:
    """Run with a progress display on a terminal, silently in a pipe."""
    with progress_bar(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[facts]}"),
        TimeElapsedColumn(),
    ) as progress:
        bar = progress.add_task("pulling the plug", total=seconds if total is None else total, facts="")
        began = perf_counter()
        sums: Counter[str] = Counter()

        def on_progress(tally: Tally, more: int) -> None:
            sums["seeds"] += more
            sums[tally.scenario.name] = tally.violations
            broken = sum(value for name, value in sums.items() if name != "seeds")
            elapsed = perf_counter() - began
            facts = f"{sums['seeds']:,} seeds, {sums['seeds'] / elapsed:.0f}/s, {broken} broken"
            progress.update(bar, completed=elapsed if total is None else sums["seeds"], facts=facts)

        found = run_batches(batches, jobs=jobs, seconds=seconds, on_progress=on_progress)
    return [found[scenario.name] for scenario in scenarios if scenario.name in found]


def _tally_json(tally: Tally) -> dict[str, Any]:
    return {
        "name": tally.scenario.name,
        "claim": tally.scenario.claim,
        "seeds": tally.seeds,
        "crash_points": tally.crash_points,
        "fired": dict(sorted(tally.fired.items())),
        "marks": dict(sorted(tally.marks.items())),
        "violations": tally.violations,
        "errors": len(tally.errors),
        "nondeterministic": len(tally.nondeterministic),
        "digest": tally.digest,
        "messages": tally.messages,
        "steps": tally.steps,
        "seconds": round(tally.wall_seconds, 3),
        "disks": dict(sorted(tally.judged.items())),
        "tried": _by_invariant(tally.tried),
        "broken": _by_invariant(tally.broken),
    }


def _by_invariant(seeds: Counter[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return how many seeds did something, by invariant and disk."""
    return [
        {"invariant": invariant, "disk": disk, "seeds": times}
        for (invariant, disk), times in sorted(seeds.items())
    ]


def _leave_failures(tallies: list[Tally], out: Path | None) -> dict[str, Path]:
    """Write the first failure of each signature; return where, by signature."""
    return write_failures((failure for tally in tallies for failure in tally.failures), out)


def _tell_failures(tally: Tally, again: Callable[[Failure], str]) -> None:
    """Print the first failure of a scenario, and how to see it again."""
    for failure in tally.failures[:1]:
        tell_failure(ERR, failure, again(failure))


def _again(failure: Failure, paths: dict[str, Path], options: str) -> str:
    """Return the command that shows a failure again."""
    path = paths.get(failure.signature)
    if path is not None:
        return replay_command(path)
    return f"tornlog run {failure.scenario} --seed {failure.seed}{options}"


def _tell_errors(tally: Tally) -> None:
    """Print the harness's own errors."""
    for error in [*tally.errors[:1], *tally.nondeterministic[:1]]:
        ERR.print(error, style="red", markup=False, soft_wrap=True)


def _exit_code(tallies: list[Tally]) -> int:
    if any(tally.errors for tally in tallies):
        return EXIT_HARNESS
    if any(tally.nondeterministic for tally in tallies):
        return EXIT_NONDETERMINISTIC
    return EXIT_BROKEN if any(tally.violations for tally in tallies) else EXIT_HELD
