"""The commands that run scenarios: run, list, replay, shrink, mutants, determinism, bench.

JSON of `run`, version 1: `{"format": "tornlog-run/1", "scenarios": [{"name", "claim", "seeds", "crash_points",
"fired", "violations", "errors", "nondeterministic", "digest", "messages", "steps", "seconds"}], "failures": [paths],
"seconds"}`, with --as also "version": `{"id", "bugs": [{"id", "verdict": "has", "has not" or "not certain", "on",
"reason", "left_out"}], "deviations": {id: text}, "broken": [{"promise", "kind", "times", "scenarios": {name: times},
"scenario", "seed", "causes": [{"id", "tries", "mended", "enough"}], "clean", "again": command}]}`; of `mutants`:
`[{"id", "found", "invariant", "seeds", "seconds", "shrunk", "clean_violation"}]`, shrunk null without --shrink, else
`{"messages", "preemptions", "switches", "sectors", "faults", "lives", "tries", "seconds"}`; of `replay`:
`{"format": "tornlog-replay/1", "scenario", "seed", "same", "digest", "violations", "gone": [lines], "changed":
[lines]}`; of `shrink`: `{"format": "tornlog-shrink/1", "before", "after", "digest", "tries",
"seconds"}`; of `determinism`: `{"format": "tornlog-determinism/1", "witnesses": [names], "runs", "digests": {scenario:
digest}, "differences": [lines], "errors": [texts], "seconds"}`.
"""

import shlex
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
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
from ..sim.policies.replay import Replay
from ..sim.schedule import parse_schedule
from ..store.commands import write_json
from .alarm import CPU_SECONDS_MAX
from .bench import Settings, run_bench, select
from .bench.table import tell_bench
from .blame import BrokenPromise, broken_promises, explained
from .catalogue import SCENARIOS
from .determinism.comparison import Comparison, Witness, WitnessError, compare
from .determinism.interpreters import InterpreterError, furnished, installed
from .failure import Failure, FailureFileError
from .hunt import hunt_all
from .invariants import INVARIANTS
from .mutants import MUTANTS
from .mutants.known import SETS, applied_mutant, find_mutant, mutants_in
from .mutants.systematic.survivors import SURVIVORS
from .mutants.versions import VERSIONS, Version
from .present import (
    disk_text,
    hunts_table,
    names_table,
    runs_table,
    tell_failure,
    tell_fired,
    tell_survivors,
)
from .present_replay import tell_replay, tell_shrunk
from .present_version import tell_version, version_json
from .replay import replay
from .runner import Batch, Tally, batches_of, run_batches
from .scenario import POLICIES, Scenario
from .seeds import run_seed
from .shrink import TRIES_MAX, shrink_failure, shrunk_json

EXIT_HELD, EXIT_BROKEN, EXIT_USAGE, EXIT_HARNESS, EXIT_NONDETERMINISTIC = 0, 1, 2, 3, 4

_out = Console(highlight=False)
_err = Console(stderr=True, highlight=False)

JsonFile = Annotated[
    str | None, typer.Option("--json", help="Write the result as JSON to FILE, - for stdout.")
]


def register(app: typer.Typer) -> None:
    """Add this module's commands to the program."""
    for command in (run, list_, replay_, shrink, mutants, determinism, bench):
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
    out: Annotated[Path | None, typer.Option(file_okay=False, help="Leave failures in DIR/failures.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Pull the plug on the store, seed after seed, and judge what is left."""
    scenarios = _scenarios(names, disk, policy)
    if mutant is not None and find_mutant(mutant) is None:
        raise typer.BadParameter(f"no mutant {mutant}; `tornlog list` names them", param_hint="--mutant")
    options = _options(**{"disk": disk, "policy": policy, "mutant": mutant, "as": as_})
    version = None if as_ is None else _version(as_, mutant)
    if version is not None:
        mutant = version.id
        scenarios = [replace(one, ranges=version.narrow(one.ranges)) for one in scenarios]
    wanted = _seeds(seeds, seed)
    seconds = _seconds(time) if time is not None else (None if wanted is not None else 30.0)
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
    paths = _leave_failures(tallies, out)
    document: dict[str, Any] = {
        "format": "tornlog-run/1",
        "scenarios": [_tally_json(tally) for tally in tallies],
        "failures": [str(path) for path in paths.values()],
        "seconds": round(took, 3),
    }
    broken = [] if version is None else _explain(broken_promises(tallies), version, jobs)

    def again(row: BrokenPromise) -> str:
        return _again(row.first, paths, options)

    if version is not None:
        document["version"] = version_json(version, broken, again)
    if json_file is not None:
        write_json(json_file, document)
    if json_file != "-":
        _out.print(runs_table(tallies, took))
        tell_fired(_out, tallies)
        if version is not None:
            tell_version(_out, version, broken, again)
    for tally in tallies:
        if version is None:
            _tell_failures(tally, paths, options)
        _tell_errors(tally)
    raise typer.Exit(_exit_code(tallies))


def _version(name: str, mutant: str | None) -> Version:
    if name not in VERSIONS:
        raise typer.BadParameter(f"no version {name}; `tornlog list` names them", param_hint="--as")
    if mutant is not None:
        raise typer.BadParameter("expected --as or --mutant, found both", param_hint="--as")
    return VERSIONS[name]


def _explain(rows: list[BrokenPromise], version: Version, jobs: int) -> list[BrokenPromise]:
    """Look for the causes of what broke, with a progress display on a terminal."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=_err,
        transient=True,
        disable=not _err.is_terminal,
    ) as progress:
        bar = progress.add_task("looking for causes", total=len(rows))
        found = []
        for row in explained(rows, version.id, jobs=jobs):
            found.append(row)
            progress.advance(bar)
    return found


def _run_schedule(scenario: Scenario, seed: int, mutant: str | None, file: Path) -> Tally:
    """Run one seed under the schedule in a file, and print what of that never happened."""
    try:
        policy = Replay(parse_schedule(file.read_text()))
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{file}: {error}", param_hint="--schedule") from error
    tally = Tally(scenario)
    tally.add(run_seed(scenario, seed, mutant=mutant, policy=policy))
    for switch in policy.unmet:
        _err.print(f"never happened: {switch}", style="red", markup=False, soft_wrap=True)
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
        "marks": dict(sorted(tally.marks.items())),
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
    return _write_failures((failure for tally in tallies for failure in tally.failures), out)


def _write_failures(failures: Iterable[Failure], out: Path | None) -> dict[str, Path]:
    paths: dict[str, Path] = {}
    if out is None:
        return paths
    directory = out / "failures"
    for failure in failures:
        if failure.signature not in paths:
            directory.mkdir(parents=True, exist_ok=True)
            path = paths[failure.signature] = directory / f"{failure.signature}.json"
            path.write_text(failure.to_json())
    return paths


def _tell_failures(tally: Tally, paths: dict[str, Path], options: str) -> None:
    """Print the first failure of a scenario, and how to see it again."""
    for failure in tally.failures[:1]:
        tell_failure(_err, failure, _again(failure, paths, options))


def _again(failure: Failure, paths: dict[str, Path], options: str) -> str:
    """Return the command that shows a failure again."""
    path = paths.get(failure.signature)
    if path is not None:
        return f"tornlog replay {shlex.quote(str(path))}"
    return f"tornlog run {failure.scenario} --seed {failure.seed}{options}"


def _tell_errors(tally: Tally) -> None:
    """Print the harness's own errors."""
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
    """List scenarios, invariants, faults, disks, policies, mutants and versions."""
    groups = {
        "scenarios": {scenario.name: scenario.claim for scenario in SCENARIOS.values()},
        "invariants": INVARIANTS,
        "faults": FAULTS,
        "disks": {name: disk_text(profile) for name, profile in PROFILES.items()},
        "policies": POLICIES,
        "mutants": {mutant.id: mutant.summary for mutant in MUTANTS.values()},
        "versions": {version.id: version.summary for version in VERSIONS.values()},
    }
    if json_file is not None:
        write_json(json_file, groups)
    if json_file == "-":
        return
    for title, members in groups.items():
        _out.print(names_table(title, members))


# -- replay --------------------------------------------------------------------------------------------


def replay_(
    file: Annotated[Path, typer.Argument(help="A failure that `run --out` left.")],
    original: Annotated[
        bool, typer.Option(help="The run that was found, though there is a shrunk one.")
    ] = False,
    json_file: JsonFile = None,
) -> None:
    """Run a stored failure again, decision by decision, as far as the code still makes them."""
    failure = _read_failure(file)
    breach = failure.original if original else failure.smallest
    with applied_mutant(failure.mutant):
        replayed, again = replay(breach.record), replay(breach.record)
    outcome, same = replayed.outcome, replayed.is_same(breach)
    document = {
        "format": "tornlog-replay/1",
        "scenario": failure.scenario,
        "seed": failure.seed,
        "same": same,
        "digest": outcome.digest,
        "violations": [violation.to_json() for violation in outcome.violations],
        "gone": replayed.gone,
        "changed": replayed.changed,
    }
    if json_file is not None:
        write_json(json_file, document)
    if json_file != "-":
        tell_failure(_err, failure, original=original)
        tell_replay(_out, replayed, breach)
    if outcome.digest != again.outcome.digest:
        raise typer.Exit(EXIT_NONDETERMINISTIC)
    raise typer.Exit(EXIT_BROKEN if outcome.violations else EXIT_HELD)


def _read_failure(file: Path) -> Failure:
    try:
        failure = Failure.from_json(file.read_text())
    except (OSError, UnicodeDecodeError, FailureFileError) as error:
        raise typer.BadParameter(f"{file}: {error}") from error
    if failure.mutant is not None and find_mutant(failure.mutant) is None:
        raise typer.BadParameter(f"{file}: mutant: there is none named {failure.mutant}")
    return failure


_SHRINK_SECONDS = 15.0


# -- shrink --------------------------------------------------------------------------------------------


def shrink(
    file: Annotated[Path, typer.Argument(help="A failure that `run --out` left.")],
    time: Annotated[str, typer.Option(help="For how long at most, as in 15s.")] = f"{_SHRINK_SECONDS:g}s",
    tries: Annotated[int, typer.Option(min=1, help="Runs at most.")] = TRIES_MAX,
    any_breach: Annotated[
        bool, typer.Option(help="The same promise is enough, broken in whatever way.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", dir_okay=False, help="Write to OUT, not to FILE.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Make a stored failure small: fewer messages, switches, faults. FILE gets the small run beside its own."""
    failure = _read_failure(file)
    seconds = _seconds(time)
    began = perf_counter()
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=_err,
        transient=True,
        disable=not _err.is_terminal,
    ) as progress:
        bar = progress.add_task("shrinking")
        try:
            found = shrink_failure(
                failure,
                tries_max=tries,
                stop=lambda: perf_counter() - began > seconds,
                same="invariant" if any_breach else "signature",
                cpu_seconds_max=CPU_SECONDS_MAX,
                on_try=lambda record, accepted: progress.update(bar, advance=1),
            )
        except ReplayDivergedError as error:
            _err.print(f"not reproduced: {error}", style="red", markup=False, soft_wrap=True)
            raise typer.Exit(EXIT_HARNESS) from error
    took = perf_counter() - began
    (out or file).write_text(found.failure.to_json())
    if json_file is not None:
        write_json(json_file, {"format": "tornlog-shrink/1", **shrunk_json(found, took)})
    if json_file != "-":
        tell_shrunk(_out, found, took)
    raise typer.Exit(EXIT_BROKEN)


# -- mutants -------------------------------------------------------------------------------------------


def mutants(
    ids: Annotated[list[str] | None, typer.Argument(help="Mutants; all of the set without any.")] = None,
    which: Annotated[str, typer.Option("--set", help=f"One of {', '.join(SETS)}.")] = SETS[0],
    seeds: Annotated[int, typer.Option(min=1, help="Seeds per mutant at most.")] = 500,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    shrink: Annotated[bool, typer.Option(help="Make what finds each small, for 15 s at most.")] = False,
    out: Annotated[Path | None, typer.Option(file_okay=False, help="Leave failures in DIR/failures.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Put bugs into the store, one at a time, and see whether the harness finds them.

    The catalogue's are known from real stores; the systematic ones are made of its code, by a few rules.
    """
    unknown = [name for name in ids or () if find_mutant(name) is None]
    if unknown:
        raise typer.BadParameter(f"no mutant {', '.join(unknown)}; `tornlog list` names them")
    if which not in SETS:
        raise typer.BadParameter(f"expected one of {', '.join(SETS)}, found {which}", param_hint="--set")
    wanted = list(dict.fromkeys(ids or mutants_in(which)))
    hunts = []
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        console=_err,
        transient=True,
        disable=not _err.is_terminal,
    ) as progress:
        bar = progress.add_task("", total=len(wanted))
        for hunted in hunt_all(wanted, seeds, jobs=jobs, shrink_seconds=_SHRINK_SECONDS if shrink else None):
            hunts.append(hunted)
            progress.update(bar, description=hunted.id, advance=1)
    _write_failures((hunted.failure for hunted in hunts if hunted.failure is not None), out)
    if json_file is not None:
        write_json(json_file, [hunted.to_json() for hunted in hunts])
    if json_file != "-":
        _out.print(hunts_table(hunts))
        tell_survivors(_out, hunts)
    for hunted in hunts:
        if hunted.clean_violation:
            text = f"{hunted.id}: without it, too: {hunted.clean_violation}"
            _err.print(text, style="red", markup=False, soft_wrap=True)
    as_expected = all(
        not hunted.clean_violation and (hunted.found or hunted.id in SURVIVORS) for hunted in hunts
    )
    raise typer.Exit(EXIT_HELD if as_expected else EXIT_BROKEN)


# -- determinism ---------------------------------------------------------------------------------------


def determinism(
    names: Annotated[list[str] | None, typer.Argument(help="Scenarios; all without any.")] = None,
    seeds: Annotated[str, typer.Option(help="N, or A:B for A to B - 1, of each scenario.")] = "20",
    jobs: Annotated[int, typer.Option(min=1, help="Processes beside this one.")] = 1,
    python: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="Compare with this Python, too; all: every one found; repeatable."),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Run seeds here, and again in another order in processes with other hashes; every digest must be the same."""
    scenarios, wanted = _scenarios(names, None, None), _seeds(seeds, None)
    assert wanted is not None, seeds
    pythons = [path for one in python or () for path in (installed() if one == "all" else [one])]
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=_err,
        transient=True,
        disable=not _err.is_terminal,
    ) as progress:
        bar = progress.add_task("running everything again", total=len(scenarios) * len(wanted))
        try:
            with furnished(pythons) as others:
                witnesses = [Witness("another process"), *others]
                found = compare(
                    [scenario.name for scenario in scenarios],
                    wanted,
                    witnesses,
                    jobs=jobs,
                    on_progress=lambda runs: progress.advance(bar, runs),
                )
        except (InterpreterError, WitnessError) as error:
            _err.print(str(error), style="red", markup=False, soft_wrap=True)
            raise typer.Exit(EXIT_HARNESS) from error
    _tell_comparison(found, [one.name for one in witnesses], json_file)
    if found.errors:
        raise typer.Exit(EXIT_HARNESS)
    raise typer.Exit(EXIT_NONDETERMINISTIC if found.differences else EXIT_HELD)


_DIFFERENCES_TOLD_MAX = 10


def _tell_comparison(found: Comparison, witnesses: list[str], json_file: str | None) -> None:
    document = {
        "format": "tornlog-determinism/1",
        "witnesses": witnesses,
        "runs": found.runs,
        "digests": found.digests,
        "differences": [str(difference) for difference in found.differences],
        "errors": found.errors,
        "seconds": round(found.seconds, 3),
    }
    if json_file is not None:
        write_json(json_file, document)
    if json_file != "-":
        differ = f"{len(found.differences)} differ" if found.differences else "the same digests"
        again = f"{found.runs:,} runs, again with {', '.join(witnesses)}: {differ}, {found.seconds:.0f} s"
        _out.print(again, soft_wrap=True)
    for line in [*found.errors[:1], *map(str, found.differences[:_DIFFERENCES_TOLD_MAX])]:
        _err.print(line, style="red", markup=False, soft_wrap=True)


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
