"""The commands about a stored failure: replay and shrink.

JSON of `replay`: `{"format": "tornlog-replay/1", "scenario", "seed", "same", "digest", "violations", "gone": [lines],
"changed": [lines]}`, with --timeline or --trace also "drawn": `[paths]`; of `shrink`: `{"format": "tornlog-shrink/1",
"before", "after", "digest", "tries", "seconds"}`.
"""

import shlex
from dataclasses import fields
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ...scenarios.campaigns.amounts import seconds_in
from ...scenarios.campaigns.failures.failure import FailingRun, Failure, Size
from ...scenarios.campaigns.failures.print_failure import print_failure
from ...scenarios.campaigns.failures.replay import RunReplay, is_same_run, replay
from ...scenarios.campaigns.failures.shrink import TRIES_MAX, Shrunk, shrink_failure, shrunk_json
from ...scenarios.mutants.known import applied_mutant
from ...sim.errors import ReplayDivergedError
from ...sim.process import CPU_SECONDS_MAX
from ..timeline.recording.record import Subject
from ..timeline.recording.recorder import replay_recorded
from .common import OUT, plain_table, print_error, print_paths, progress_shown, read_failure, results_written
from .options import (
    EXIT_BROKEN,
    EXIT_HARNESS,
    EXIT_HELD,
    EXIT_NONDETERMINISTIC,
    JsonFile,
    TimelineFile,
    TraceFile,
    write_json,
)
from .reporting import draw_run

_SHRINK_SECONDS = 15.0
_SWITCHES_SHOWN_MAX = 20
_GONE_SHOWN_MAX = 20


def replay_(
    file: Annotated[Path, typer.Argument(help="A failure that `run --out` left.")],
    original: Annotated[bool, typer.Option(help="The run that was found, though there is a shrunk one.")] = False,
    timeline: TimelineFile = None,
    trace: TraceFile = None,
    json_file: JsonFile = None,
) -> None:
    """Run a stored failure again, decision by decision, as far as the code still makes them."""
    failure = read_failure(file)
    breach = failure.original if original else failure.smallest
    drawn: list[Path] = []
    with applied_mutant(failure.mutant):
        if timeline is None and trace is None:
            replayed = replay(breach.record)
        else:
            subject = Subject(failure.scenario, failure.claim, failure.seed, failure.mutant)
            replayed, run_recording = replay_recorded(subject, breach.record)
            drawn = draw_run(run_recording, timeline, trace)
        again = replay(breach.record)
    outcome, same = replayed.result, is_same_run(replayed, breach)
    document = {
        "format": "tornlog-replay/1",
        "scenario": failure.scenario,
        "seed": failure.seed,
        "same": same,
        "digest": outcome.digest,
        "violations": [violation.to_json() for violation in outcome.violations],
        "gone": replayed.gone_lines,
        "changed": replayed.changed_lines,
    }
    if drawn:
        document["drawn"] = [str(path) for path in drawn]
    write_json(json_file, document)
    if json_file != "-":
        print_failure(OUT, failure, original=original)
        _print_replay(OUT, replayed, breach)
        print_paths(drawn)
    if outcome.digest != again.result.digest:
        raise typer.Exit(EXIT_NONDETERMINISTIC)
    raise typer.Exit(EXIT_BROKEN if outcome.violations else EXIT_HELD)


def shrink(
    file: Annotated[Path, typer.Argument(help="A failure that `run --out` left.")],
    time: Annotated[str, typer.Option(help="For how long at most, as in 15s.")] = f"{_SHRINK_SECONDS:g}s",
    tries: Annotated[int, typer.Option(min=1, help="Runs at most.")] = TRIES_MAX,
    any_breach: Annotated[bool, typer.Option(help="The same promise is enough, broken in whatever way.")] = False,
    small: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", dir_okay=False, help="Write to this file instead."),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Make a stored failure small: fewer messages, switches, faults. FILE gets the small run beside its own."""
    failure = read_failure(file)
    seconds = seconds_in(time)
    began = perf_counter()
    with progress_shown("shrinking") as update:
        try:
            found = shrink_failure(
                failure,
                tries_max=tries,
                stop=lambda: perf_counter() - began > seconds,
                same="invariant" if any_breach else "signature",
                cpu_seconds_max=CPU_SECONDS_MAX,
                on_try=lambda record, accepted: update(advance=1),
            )
        except ReplayDivergedError as error:
            print_error(f"not reproduced: {error}")
            raise typer.Exit(EXIT_HARNESS) from error
    took = perf_counter() - began
    with results_written("--out"):
        (small or file).parent.mkdir(parents=True, exist_ok=True)
        (small or file).write_text(found.failure.to_json())
    write_json(json_file, {"format": "tornlog-shrink/1", **shrunk_json(found, took)})
    if json_file != "-":
        _print_shrunk(OUT, found, took, f"tornlog replay {shlex.quote(str(small or file))}")
    raise typer.Exit(EXIT_BROKEN)


def _print_replay(console: Console, replayed: RunReplay, breach: FailingRun) -> None:
    outcome = replayed.result
    if is_same_run(replayed, breach):
        verdict = "the same violation"
    elif not outcome.violations:
        verdict = "this time every promise held"
    elif outcome.violations[0].signature == breach.violations[0].signature:
        verdict = "the same breach by another way"
    else:
        verdict = f"something else broke this time: {outcome.violations[0]}"
    console.print(f"replayed: digest {outcome.digest}, {verdict}", soft_wrap=True, markup=False)
    _print_lines(console, "gone:", replayed.gone_lines, _GONE_SHOWN_MAX)
    _print_lines(console, "changed:", replayed.changed_lines, _GONE_SHOWN_MAX)


def _print_shrunk(console: Console, shrunk: Shrunk, seconds: float, again: str) -> None:
    failure = shrunk.failure
    console.print(_sizes_table(failure, f"{shrunk.tries:,} runs, {seconds:.1f} s"))
    record = failure.smallest.record
    _print_lines(console, "schedule:", [str(switch) for switch in record.schedule], _SWITCHES_SHOWN_MAX)
    _print_lines(console, "draws:", [str(decision) for decision in record.decisions], _SWITCHES_SHOWN_MAX)
    print_failure(console, failure, again)


def _sizes_table(failure: Failure, title: str) -> Table:
    table = plain_table(title, ("",), ("before", "after"))
    for field in fields(Size):
        before, after = (getattr(breach.size, field.name) for breach in (failure.original, failure.smallest))
        table.add_row(field.name, f"{before:,}", f"{after:,}")
    return table


def _print_lines(console: Console, title: str, lines: list[str], lines_max: int) -> None:
    if not lines:
        return
    console.print(title)
    for line in lines[:lines_max]:
        console.print(f"  {line}", soft_wrap=True, markup=False)
    if len(lines) > lines_max:
        console.print(f"  and {len(lines) - lines_max:,} more")
