"""The commands that run scenarios: run, list, replay, mutants, bench.

JSON of `run`, version 1: `{"format": "tornlog-run/1", "scenarios": [{"name", "claim", "seeds", "crash_points",
"fired", "violations", "errors", "nondeterministic", "digest", "messages", "steps", "seconds"}], "failures": [paths],
"seconds"}`; of `mutants`: `[{"id", "found", "invariant", "seeds", "seconds", "shrunk", "clean_violation"}]`, shrunk
being null until failures are shrunk.
"""

import shlex
from collections import Counter
from collections.abc import Iterable
from contextlib import nullcontext
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ..faults.kinds import FAULTS
from ..faults.profiles import PROFILES
from ..sim.errors import ReplayDivergedError
from ..store.commands import write_json
from .bench import Settings, run_bench, select
from .bench.table import tell_bench
from .catalogue import SCENARIOS
from .failure import Failure, FailureFileError, replay
from .hunt import hunt
from .invariants import INVARIANTS
from .mutants import MUTANTS
from .present import (
    disk_text,
    hunts_table,
    names_table,
    runs_table,
    tell_failure,
    tell_fired,
)
from .runner import Batch, Tally, batches_of, run_batches
from .scenario import POLICIES, Scenario

EXIT_HELD, EXIT_BROKEN, EXIT_USAGE, EXIT_HARNESS, EXIT_NONDETERMINISTIC = 0, 1, 2, 3, 4

_out = Console(highlight=False)
_err = Console(stderr=True, highlight=False)

JsonFile = Annotated[
    str | None, typer.Option("--json", help="Write the result as JSON to FILE, - for stdout.")
]


def register(app: typer.Typer) -> None:
    """Add this module's commands to the program."""
    for command in (run, list_, replay_, mutants, bench):
        app.command(name=command.__name__.rstrip("_"))(command)


# -- run -----------------------------------------------------------------------------------------------


def run(
    names: Annotated[list[str] | None, typer.Argument(help="Scenarios; all without any.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    seeds: Annotated[str | None, typer.Option(help="N, or A:B for A to B - 1, of each scenario.")] = None,
    seed: Annotated[int | None, typer.Option(help="One seed only.")] = None,
    time: Annotated[
        str | None, typer.Option(help="For how long, as in 30s or 5m. 30s without seeds.")
    ] = None,
    policy: Annotated[str | None, typer.Option(help=f"One of {', '.join(POLICIES)}.")] = None,
    disk: Annotated[str | None, typer.Option(help=f"One of {', '.join(PROFILES)}.")] = None,
    mutant: Annotated[str | None, typer.Option(help="Run with a known bug put back; see `list`.")] = None,
    check_determinism: Annotated[bool, typer.Option(help="Run every seed twice and compare.")] = False,
    out: Annotated[Path | None, typer.Option(file_okay=False, help="Leave failures in DIR/failures.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Pull the plug on the store, seed after seed, and judge what is left."""
    scenarios = _scenarios(names, disk, policy)
    if mutant is not None and mutant not in MUTANTS:
        raise typer.BadParameter(f"no mutant {mutant}; `tornlog list` names them", param_hint="--mutant")
    wanted = _seeds(seeds, seed)
    seconds = _seconds(time) if time is not None else (None if wanted is not None else 30.0)
    began = perf_counter()
    tallies = _run_all(
        scenarios,
        batches_of(scenarios, wanted, mutant=mutant, check_determinism=check_determinism),
        total=None if wanted is None else len(wanted) * len(scenarios),
        seconds=seconds,
        jobs=jobs,
    )
    took = perf_counter() - began
    paths = _leave_failures(tallies, out)
    document = {
        "format": "tornlog-run/1",
        "scenarios": [_tally_json(tally) for tally in tallies],
        "failures": [str(path) for path in paths.values()],
        "seconds": round(took, 3),
    }
    if json_file is not None:
        write_json(json_file, document)
    if json_file != "-":
        _out.print(runs_table(tallies, took))
        tell_fired(_out, tallies)
    for tally in tallies:
        _tell_failures(tally, paths, _options(disk=disk, policy=policy, mutant=mutant))
    raise typer.Exit(_exit_code(tallies))


def _run_all(
    scenarios: list[Scenario],
    batches: Iterable[Batch],
    *,
    total: int | None,
    seconds: float | None,
    jobs: int,
) -> list[Tally]:
    """Run with a progress display on a terminal, silently in a pipe."""
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[facts]}"),
        TimeElapsedColumn(),
        console=_err,
        transient=True,
        disable=not _err.is_terminal,
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


def _scenarios(names: list[str] | None, disk: str | None, policy: str | None) -> list[Scenario]:
    unknown = [name for name in names or () if name not in SCENARIOS]
    if unknown:
        raise typer.BadParameter(f"no scenario {', '.join(unknown)}; `tornlog list` names them")
    try:
        return [
            SCENARIOS[name].narrowed(disk=disk, policy=policy) for name in dict.fromkeys(names or SCENARIOS)
        ]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _seeds(seeds: str | None, seed: int | None) -> range | None:
    if seed is not None:
        if seeds is not None:
            raise typer.BadParameter("expected --seed or --seeds, found both", param_hint="--seed")
        return range(seed, seed + 1)
    if seeds is None:
        return None
    first, _, last = seeds.rpartition(":")
    try:
        found = range(int(first or 0), int(last))
    except ValueError as error:
        raise typer.BadParameter(f"expected N or A:B, found {seeds}", param_hint="--seeds") from error
    if not found:
        raise typer.BadParameter(f"expected at least one seed, found {seeds}", param_hint="--seeds")
    return found


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def _seconds(text: str) -> float:
    unit = _UNITS.get(text[-1:])
    try:
        found = float(text[:-1]) * unit if unit else float(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"expected a time such as 30s or 5m, found {text}", param_hint="--time"
        ) from error
    if not (found > 0 and isfinite(found)):
        raise typer.BadParameter(f"expected more than 0 and an end, found {text}", param_hint="--time")
    return found


def _tally_json(tally: Tally) -> dict[str, Any]:
    return {
        "name": tally.scenario.name,
        "claim": tally.scenario.claim,
        "seeds": tally.seeds,
        "crash_points": tally.crash_points,
        "fired": dict(sorted(tally.fired.items())),
        "violations": tally.violations,
        "errors": len(tally.errors),
        "nondeterministic": len(tally.nondeterministic),
        "digest": tally.digest,
        "messages": tally.messages,
        "steps": tally.steps,
        "seconds": round(tally.wall_seconds, 3),
    }


def _leave_failures(tallies: list[Tally], out: Path | None) -> dict[str, Path]:
    """Write the first failure of each signature; return where, by signature."""
    paths: dict[str, Path] = {}
    if out is None:
        return paths
    directory = out / "failures"
    for failure in (failure for tally in tallies for failure in tally.failures):
        if failure.signature not in paths:
            directory.mkdir(parents=True, exist_ok=True)
            path = paths[failure.signature] = directory / f"{failure.signature}.json"
            path.write_text(failure.to_json())
    return paths


def _tell_failures(tally: Tally, paths: dict[str, Path], options: str) -> None:
    """Print the first failure of a scenario, the harness's own errors, and how to see them again."""
    for failure in tally.failures[:1]:
        path = paths.get(failure.signature)
        if path is not None:
            again = f"tornlog replay {shlex.quote(str(path))}"
        else:
            again = f"tornlog run {failure.scenario} --seed {failure.seed}{options}"
        tell_failure(_err, failure, again)
    for error in [*tally.errors[:1], *tally.nondeterministic[:1]]:
        _err.print(error, style="red", markup=False, soft_wrap=True)


def _options(**chosen: str | None) -> str:
    """Return the options that a seed needs to be the same run again."""
    return "".join(f" --{name} {value}" for name, value in chosen.items() if value is not None)


def _exit_code(tallies: list[Tally]) -> int:
    if any(tally.errors for tally in tallies):
        return EXIT_HARNESS
    if any(tally.nondeterministic for tally in tallies):
        return EXIT_NONDETERMINISTIC
    return EXIT_BROKEN if any(tally.violations for tally in tallies) else EXIT_HELD


# -- list ----------------------------------------------------------------------------------------------


def list_(json_file: JsonFile = None) -> None:
    """List scenarios, invariants, faults, disks, policies and mutants."""
    groups = {
        "scenarios": {scenario.name: scenario.claim for scenario in SCENARIOS.values()},
        "invariants": INVARIANTS,
        "faults": FAULTS,
        "disks": {name: disk_text(profile) for name, profile in PROFILES.items()},
        "policies": POLICIES,
        "mutants": {mutant.id: mutant.summary for mutant in MUTANTS.values()},
    }
    if json_file is not None:
        write_json(json_file, groups)
    if json_file == "-":
        return
    for title, members in groups.items():
        _out.print(names_table(title, members))


# -- replay --------------------------------------------------------------------------------------------


def replay_(
    file: Annotated[Path, typer.Argument(help="A failure that `run --out` left.")], json_file: JsonFile = None
) -> None:
    """Run a stored failure again, decision by decision."""
    failure = _read_failure(file)
    try:
        with MUTANTS[failure.mutant].applied() if failure.mutant is not None else nullcontext():
            outcome = replay(failure)
    except ReplayDivergedError as error:
        _err.print(f"the record no longer fits: {error}", style="red", markup=False, soft_wrap=True)
        raise typer.Exit(EXIT_HARNESS) from error
    same = outcome.digest == failure.digest and outcome.violations == failure.violations
    document = {
        "format": "tornlog-replay/1",
        "scenario": failure.scenario,
        "seed": failure.seed,
        "same": same,
        "digest": outcome.digest,
        "violations": [violation.to_json() for violation in outcome.violations],
    }
    if json_file is not None:
        write_json(json_file, document)
    if json_file != "-":
        tell_failure(_err, failure)
        verdict = "the same violation" if same else "something else happened this time"
        _out.print(f"replayed: digest {outcome.digest}, {verdict}", soft_wrap=True)
    raise typer.Exit(EXIT_BROKEN if same else EXIT_NONDETERMINISTIC)


def _read_failure(file: Path) -> Failure:
    try:
        failure = Failure.from_json(file.read_text())
    except (OSError, UnicodeDecodeError, FailureFileError) as error:
        raise typer.BadParameter(f"{file}: {error}") from error
    if failure.mutant is not None and failure.mutant not in MUTANTS:
        raise typer.BadParameter(f"{file}: mutant: there is none named {failure.mutant}")
    return failure


# -- mutants -------------------------------------------------------------------------------------------


def mutants(
    ids: Annotated[list[str] | None, typer.Argument(help="Mutants; all without any.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds per mutant at most.")] = 500,
    json_file: JsonFile = None,
) -> None:
    """Put known bugs back, one at a time, and see whether the harness finds them."""
    unknown = [name for name in ids or () if name not in MUTANTS]
    if unknown:
        raise typer.BadParameter(f"no mutant {', '.join(unknown)}; `tornlog list` names them")
    wanted = list(dict.fromkeys(ids or MUTANTS))
    hunts = []
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        console=_err,
        transient=True,
        disable=not _err.is_terminal,
    ) as progress:
        bar = progress.add_task("", total=len(wanted))
        for name in wanted:
            progress.update(bar, description=name)
            hunts.append(hunt(MUTANTS[name], seeds))
            progress.advance(bar)
    if json_file is not None:
        write_json(json_file, [hunted.to_json() for hunted in hunts])
    if json_file != "-":
        _out.print(hunts_table(hunts))
    for hunted in hunts:
        if hunted.clean_violation:
            text = f"{hunted.id}: without it, too: {hunted.clean_violation}"
            _err.print(text, style="red", markup=False, soft_wrap=True)
    all_found = all(hunted.found and not hunted.clean_violation for hunted in hunts)
    raise typer.Exit(EXIT_HELD if all_found else EXIT_BROKEN)


# -- bench ---------------------------------------------------------------------------------------------


def bench(
    rounds: Annotated[int, typer.Option(min=1, help="Measurements of each figure; the median counts.")] = 5,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Only figures with TEXT in their name; repeatable."),
    ] = None,
    quick: Annotated[
        bool, typer.Option(help="One round of everything in small: a look, not a record.")
    ] = False,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", exists=True, file_okay=False, help="Measure below DIR, not in /tmp."),
    ] = None,
    log_bytes: Annotated[int, typer.Option(min=1, help="Size of the log that recovery scans.")] = 1 << 30,
    json_file: JsonFile = None,
) -> None:
    """Measure what the harness and the store do in a second."""
    settings = Settings(None if directory is None else str(directory.resolve()), log_bytes=log_bytes)
    if quick:
        settings, rounds = settings.quick(), 1
    try:
        select(only or ())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--only") from error
    with Progress(
        TextColumn("{task.description}"), console=_err, transient=True, disable=not _err.is_terminal
    ) as progress:
        bar = progress.add_task("")
        figures = run_bench(
            rounds, lambda name: progress.update(bar, description=name), settings, tuple(only or ())
        )
    document = {"format": "tornlog-bench/1", "figures": [figure.to_json() for figure in figures]}
    if json_file is not None:
        write_json(json_file, document)
    if json_file != "-":
        tell_bench(_out, figures, rounds)
