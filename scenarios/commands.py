"""The commands that run scenarios: run, list, replay, mutants, bench.

JSON of `run`, version 1: `{"format": "tornlog-run/1", "scenarios": [{"name", "claim", "seeds", "crash_points",
"fired", "violations", "digest", "messages", "steps", "seconds"}], "failures": [paths], "seconds"}`; of `mutants`:
`[{"id", "found", "invariant", "seeds", "seconds", "shrunk"}]`, shrunk being null until failures are shrunk.
"""

import json
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..faults.kinds import FAULTS
from ..faults.profiles import PROFILES, CrashProfile
from ..sim.errors import ReplayDivergedError
from .bench import run_bench
from .catalogue import SCENARIOS
from .failure import Failure, FailureFileError, replay
from .hunt import hunt
from .invariants import INVARIANTS
from .mutants import MUTANTS
from .plan import MOMENTS
from .runner import Tally, batches_of, run_batches
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
    out: Annotated[Path | None, typer.Option(help="Leave failures in DIR/failures.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Pull the plug on the store, seed after seed, and judge what is left."""
    scenarios = _scenarios(names, disk, policy)
    if mutant is not None and mutant not in MUTANTS:
        raise typer.BadParameter(
            f"expected one of {', '.join(MUTANTS)}, found {mutant}", param_hint="--mutant"
        )
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
        "scenarios": [_tally_json(tally) for tally in tallies.values()],
        "failures": [str(path) for path in paths],
        "seconds": round(took, 3),
    }
    _write_json(json_file, document)
    if json_file != "-":
        _out.print(_table(tallies, took))
        _out.print(_fired_table(tallies))
    for tally in tallies.values():
        _tell_failures(tally, paths)
    raise typer.Exit(_exit_code(tallies))


def _run_all(
    scenarios: list[Scenario], batches: Any, *, total: int | None, seconds: float | None, jobs: int
) -> dict[str, Tally]:
    """Run with a progress display on a terminal, silently in a pipe."""
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
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
            facts = f"{sums['seeds']} seeds, {sums['seeds'] / elapsed:.0f}/s, {broken} broken"
            progress.update(
                bar,
                completed=elapsed if total is None else sums["seeds"],
                facts=facts,
                description=tally.scenario.name,
            )

        found = run_batches(batches, jobs=jobs, seconds=seconds, on_progress=on_progress)
    return {scenario.name: found[scenario.name] for scenario in scenarios if scenario.name in found}


def _scenarios(names: list[str] | None, disk: str | None, policy: str | None) -> list[Scenario]:
    unknown = [name for name in names or () if name not in SCENARIOS]
    if unknown:
        raise typer.BadParameter(f"no scenario {', '.join(unknown)}; `tornlog list` names them")
    try:
        return [SCENARIOS[name].narrowed(disk=disk, policy=policy) for name in names or SCENARIOS]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _seeds(seeds: str | None, seed: int | None) -> range | None:
    if seed is not None:
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
    if found <= 0:
        raise typer.BadParameter(f"expected more than 0, found {text}", param_hint="--time")
    return found


def _table(tallies: dict[str, Tally], seconds: float) -> Table:
    seeds = sum(tally.seeds for tally in tallies.values())
    table = Table(title=f"{seeds} seeds in {seconds:.1f} s", title_justify="left")
    table.add_column("scenario", no_wrap=True)
    for name in ("seeds", "crash points", "what fired", "violations"):
        table.add_column(name, justify="right")
    for tally in tallies.values():
        broken = tally.violations + len(tally.errors) + len(tally.nondeterministic)
        fired = _faults(tally.fired)
        table.add_row(
            tally.scenario.name,
            str(tally.seeds),
            str(tally.crash_points),
            f"{fired.total()} of {len(fired)} kinds",
            str(broken),
            style="red" if broken else "",
        )
    return table


def _fired_table(tallies: dict[str, Tally]) -> Table:
    fired: Counter[str] = Counter()
    for tally in tallies.values():
        fired += _faults(tally.fired)
    table = Table(title="what fired", title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right")
    for kind, times in fired.most_common():
        table.add_row(kind, str(times))
    return table


def _faults(fired: Counter[str]) -> Counter[str]:
    """Return how often each kind of fault fired, with the operations that crashes hit summed up by moment."""
    summed: Counter[str] = Counter()
    for kind, times in fired.items():
        words = kind.split()
        if words[0] != "crash":
            summed[kind] += times
        elif len(words) > 2 and words[1] in MOMENTS:
            summed[f"died {words[1]} an operation"] += times
        elif len(words) > 1:
            summed[f"ended in {kind.removeprefix('crash ')}"] += times
    return summed


def _tally_json(tally: Tally) -> dict[str, Any]:
    return {
        "name": tally.scenario.name,
        "claim": tally.scenario.claim,
        "seeds": tally.seeds,
        "crash_points": tally.crash_points,
        "fired": dict(sorted(tally.fired.items())),
        "violations": tally.violations,
        "digest": tally.digest,
        "messages": tally.messages,
        "steps": tally.steps,
        "seconds": round(tally.wall_seconds, 3),
    }


def _leave_failures(tallies: dict[str, Tally], out: Path | None) -> list[Path]:
    """Write the first failure of each signature."""
    if out is None:
        return []
    paths: dict[str, Path] = {}
    directory = out / "failures"
    for tally in tallies.values():
        for failure in tally.failures:
            if failure.signature not in paths:
                directory.mkdir(parents=True, exist_ok=True)
                path = directory / f"{failure.signature}.json"
                path.write_text(failure.to_json())
                paths[failure.signature] = path
    return list(paths.values())


def _tell_failures(tally: Tally, paths: list[Path]) -> None:
    """Print the first failure of a scenario, the harness's own errors, and how to see them again."""
    for failure in tally.failures[:1]:
        _tell(failure)
        stored = [path for path in paths if path.stem == failure.signature]
        mutant = f" --mutant {failure.mutant}" if failure.mutant else ""
        again = (
            f"tornlog replay {stored[0]}"
            if stored
            else f"tornlog run {failure.scenario} --seed {failure.seed}{mutant}"
        )
        _err.print(f"  again: [bold]{again}[/bold]", soft_wrap=True)
    for error in [*tally.errors[:1], *tally.nondeterministic[:1]]:
        _err.print(error, style="red", markup=False)


def _tell(failure: Failure) -> None:
    """Print one failure: the claim, what broke, the end of the story."""
    _err.print(
        f"\n[red]broken[/red] {failure.scenario}, seed {failure.seed}: {failure.claim}", soft_wrap=True
    )
    for violation in failure.violations[:3]:
        _err.print(f"  {violation}", markup=False, soft_wrap=True)
    for line in failure.story[-10:]:
        _err.print(f"  {line}", style="dim", markup=False, soft_wrap=True)


def _exit_code(tallies: dict[str, Tally]) -> int:
    if any(tally.errors for tally in tallies.values()):
        return EXIT_HARNESS
    if any(tally.nondeterministic for tally in tallies.values()):
        return EXIT_NONDETERMINISTIC
    return EXIT_BROKEN if any(tally.violations for tally in tallies.values()) else EXIT_HELD


def _write_json(json_file: str | None, document: Any) -> None:
    if json_file is None:
        return
    text = json.dumps(document, indent=1) + "\n"
    if json_file == "-":
        sys.stdout.write(text)
    else:
        Path(json_file).write_text(text)


# -- list ----------------------------------------------------------------------------------------------


def _disk_text(profile: CrashProfile) -> str:
    cache = "the page cache survives" if profile.page_cache_survives else "unsynced pages may be lost or torn"
    return f"{cache}; of names and sizes, {profile.metadata.value}"


def list_(json_file: JsonFile = None) -> None:
    """List scenarios, invariants, faults, disks, policies and mutants."""
    groups = {
        "scenarios": {scenario.name: scenario.claim for scenario in SCENARIOS.values()},
        "invariants": INVARIANTS,
        "faults": FAULTS,
        "disks": {name: _disk_text(profile) for name, profile in PROFILES.items()},
        "policies": POLICIES,
        "mutants": {mutant.id: mutant.summary for mutant in MUTANTS.values()},
    }
    _write_json(json_file, groups)
    if json_file == "-":
        return
    for title, members in groups.items():
        table = Table(title=title, title_justify="left", show_header=False)
        table.add_column(no_wrap=True)
        table.add_column()
        for name, text in members.items():
            table.add_row(name, text)
        _out.print(table)


# -- replay --------------------------------------------------------------------------------------------


def replay_(
    file: Annotated[Path, typer.Argument(help="A failure that `run --out` left.")], json_file: JsonFile = None
) -> None:
    """Run a stored failure again, decision by decision."""
    try:
        failure = Failure.from_json(file.read_text())
    except (OSError, UnicodeDecodeError, FailureFileError) as error:
        raise typer.BadParameter(f"{file}: {error}") from error
    if failure.mutant is not None and failure.mutant not in MUTANTS:
        raise typer.BadParameter(f"{file}: mutant {failure.mutant}: there is none of that name")
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
    _write_json(json_file, document)
    if json_file != "-":
        _tell(failure)
        verdict = "the same digest and the same violation" if same else "something else happened this time"
        _out.print(f"replayed: digest {outcome.digest}, {verdict}", soft_wrap=True)
    if not same:
        raise typer.Exit(EXIT_NONDETERMINISTIC)
    raise typer.Exit(EXIT_BROKEN if outcome.violations else EXIT_HELD)


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
    table = Table(title="mutants", title_justify="left")
    for name in ("mutant", "found", "by", "seeds", "seconds"):
        table.add_column(name, justify="right" if name in ("seeds", "seconds") else "left")
    rows = []
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        console=_err,
        transient=True,
        disable=not _err.is_terminal,
    ) as progress:
        bar = progress.add_task("", total=len(ids or MUTANTS))
        for name in ids or MUTANTS:
            progress.update(bar, description=name)
            hunted = hunt(MUTANTS[name], seeds)
            progress.advance(bar)
            rows.append(hunted.to_json())
            found = "[green]found[/green]" if hunted.found else "[red]not found[/red]"
            if hunted.clean_violation:
                found = "[red]the clean store broke too[/red]"
            table.add_row(name, found, hunted.invariant, str(hunted.seeds), f"{hunted.seconds:.1f}")
    _write_json(json_file, rows)
    if json_file != "-":
        _out.print(table)
    raise typer.Exit(
        EXIT_HELD if all(row["found"] and not row["clean_violation"] for row in rows) else EXIT_BROKEN
    )


# -- bench ---------------------------------------------------------------------------------------------


def bench(
    rounds: Annotated[int, typer.Option(min=1, help="Measurements of each figure; the median counts.")] = 5,
    json_file: JsonFile = None,
) -> None:
    """Measure what the harness and the store do in a second."""
    with Progress(
        TextColumn("{task.description}"), console=_err, transient=True, disable=not _err.is_terminal
    ) as progress:
        bar = progress.add_task("")
        figures = run_bench(rounds, on_begin=lambda name: progress.update(bar, description=name))
    document = {"format": "tornlog-bench/1", "figures": [figure.to_json() for figure in figures]}
    _write_json(json_file, document)
    if json_file == "-":
        return
    table = Table(title=f"medians of {rounds}", title_justify="left")
    for name in ("what", "median", "least", "most", "unit", "floor"):
        table.add_column(name, justify="left" if name in ("what", "unit") else "right")
    for figure in figures:
        style = "" if figure.median >= figure.floor else "red"
        table.add_row(
            figure.name,
            f"{figure.median:,.0f}",
            f"{min(figure.samples):,.0f}",
            f"{max(figure.samples):,.0f}",
            figure.unit,
            f"{figure.floor:,.0f}",
            style=style,
        )
    _out.print(table)
