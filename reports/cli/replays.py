"""The commands about a stored failure: replay and shrink.

JSON of `replay`: `{"format": "tornlog-replay/1", "scenario", "seed", "same", "digest", "violations", "gone": [lines],
"changed": [lines]}`, with --timeline or --trace also "drawn": `[paths]`; of `shrink`: `{"format": "tornlog-shrink/1",
"before", "after", "digest", "tries", "seconds"}`.
"""

import shlex
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from ...scenarios.campaigns.failures.print_failure import print_failure
from ...scenarios.campaigns.failures.replay import replay
from ...scenarios.campaigns.failures.shrink import TRIES_MAX, shrink_failure, shrunk_json
from ...scenarios.mutants.known import applied_mutant
from ...sim.alarm import CPU_SECONDS_MAX
from ...sim.errors import ReplayDivergedError
from ..timeline.recording.record import Subject
from ..timeline.recording.recorder import replay_recorded
from .common import (
    ERR,
    EXIT_BROKEN,
    EXIT_HARNESS,
    EXIT_HELD,
    EXIT_NONDETERMINISTIC,
    OUT,
    JsonFile,
    progress_bar,
    read_failure,
    results_written,
    seconds_in,
)
from .options import TimelineFile, TraceFile, write_json
from .present_replay import print_replay, print_shrunk
from .reporting import draw_run

_SHRINK_SECONDS = 15.0


def replay_(
    file: Annotated[Path, typer.Argument(help="A failure that `run --out` left.")],
    original: Annotated[
        bool, typer.Option(help="The run that was found, though there is a shrunk one.")
    ] = False,
    timeline: TimelineFile = None,
    trace: TraceFile = None,
    json_file: JsonFile = None,
) -> None:
    """Run a stored failure again, decision by decision, as far as the code still makes them."""
    failure = read_failure(file)
    breach = failure.original if original else failure.smallest
    if (timeline or trace) and not breach.record.plan.is_alone:
        raise typer.BadParameter("a run of several machines; one store is drawn", param_hint="--timeline")
    drawn: list[Path] = []
    with applied_mutant(failure.mutant):
        if timeline is None and trace is None:
            replayed = replay(breach.record)
        else:
            subject = Subject(failure.scenario, failure.claim, failure.seed, failure.mutant)
            replayed, run_recording = replay_recorded(subject, breach.record)
            drawn = draw_run(run_recording, timeline, trace)
        again = replay(breach.record)
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
    if drawn:
        document["drawn"] = [str(path) for path in drawn]
    if json_file is not None:
        write_json(json_file, document)
    if json_file != "-":
        print_failure(OUT, failure, original=original)
        print_replay(OUT, replayed, breach)
        for path in drawn:
            OUT.print(str(path), soft_wrap=True, markup=False)
    if outcome.digest != again.outcome.digest:
        raise typer.Exit(EXIT_NONDETERMINISTIC)
    raise typer.Exit(EXIT_BROKEN if outcome.violations else EXIT_HELD)


def shrink(
    file: Annotated[Path, typer.Argument(help="A failure that `run --out` left.")],
    time: Annotated[str, typer.Option(help="For how long at most, as in 15s.")] = f"{_SHRINK_SECONDS:g}s",
    tries: Annotated[int, typer.Option(min=1, help="Runs at most.")] = TRIES_MAX,
    any_breach: Annotated[
        bool, typer.Option(help="The same promise is enough, broken in whatever way.")
    ] = False,
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
    with progress_bar(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()) as progress:
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
            ERR.print(f"not reproduced: {error}", style="red", markup=False, soft_wrap=True)
            raise typer.Exit(EXIT_HARNESS) from error
    took = perf_counter() - began
    with results_written("--out"):
        (small or file).parent.mkdir(parents=True, exist_ok=True)
        (small or file).write_text(found.failure.to_json())
    if json_file is not None:
        write_json(json_file, {"format": "tornlog-shrink/1", **shrunk_json(found, took)})
    if json_file != "-":
        print_shrunk(OUT, found, took, f"tornlog replay {shlex.quote(str(small or file))}")
    raise typer.Exit(EXIT_BROKEN)
