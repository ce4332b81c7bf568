"""What is done about a stored failure: it is run again, drawn, and made small."""

import shlex
from dataclasses import fields
from pathlib import Path
from time import perf_counter

import typer
from rich.console import Console
from rich.table import Table

from ...scenarios.campaigns.amounts import seconds_in
from ...scenarios.campaigns.failures.failure import FailingRun, Failure, Size
from ...scenarios.campaigns.failures.print_failure import print_failure
from ...scenarios.campaigns.failures.replay import RunReplay, is_same_run, replay
from ...scenarios.campaigns.failures.shrink import TRIES_MAX, Shrunk, shrink_failure, shrunk_json
from ...scenarios.campaigns.interruption import interruptible
from ...scenarios.campaigns.kept_files import keep_file
from ...scenarios.mutants.known import applied_mutant
from ...sim.errors import ReplayDivergedError
from ...sim.process import CPU_SECONDS_MAX
from ..timeline.recording.record import Subject
from ..timeline.recording.recorder import replay_recorded
from .console import OUT, plain_table, print_error, print_paths, progress_shown
from .failure_files import read_failure
from .options import (
    EXIT_BROKEN,
    EXIT_HARNESS,
    EXIT_HELD,
    EXIT_NONDETERMINISTIC,
    ResultFiles,
    results_written,
    write_json,
)
from .pages import draw_run
from .probe.replay import is_of_probe, replay_probe

_SWITCHES_SHOWN_MAX = 20
_GONE_SHOWN_MAX = 20


def replay_file(
    *,
    file: Path,
    original: bool,
    timeline: Path | None,
    trace: Path | None,
    json_file: str | None,
) -> None:
    """Replay a stored failure, as the command line asks, and exit."""
    if is_of_probe(file):
        for name, value in (("--original", original), ("--trace", trace)):
            if value:
                raise typer.BadParameter("expected none with a failure of a program", param_hint=name)
        replay_probe(file, timeline=timeline, json_file=json_file)
    failure = read_failure(file)
    breach = failure.original if original else failure.smallest
    drawn: list[Path] = []
    files = ResultFiles()
    with applied_mutant(failure.mutant):
        if timeline is None and trace is None:
            replayed = replay(breach.record)
        else:
            subject = Subject(failure.scenario, failure.claim, failure.seed, failure.mutant)
            replayed, run_recording = replay_recorded(subject, breach.record)
            for option, page, events in (("--timeline", timeline, None), ("--trace", None, trace)):
                with files.attempt(), results_written(option):
                    drawn += draw_run(run_recording, page, events)
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
    with files.attempt():
        write_json(json_file, document)
    if json_file != "-":
        print_failure(OUT, failure, original=original)
        _print_replay(OUT, replayed, breach)
        print_paths(drawn)
    if outcome.digest != again.result.digest:
        files.exit(EXIT_NONDETERMINISTIC)
    files.exit(EXIT_BROKEN if outcome.violations else EXIT_HELD)


def shrink_file(
    *,
    file: Path,
    time: str,
    tries: int | None,
    any_breach: bool,
    small: Path | None,
    json_file: str | None,
) -> None:
    """Shrink a stored failure, as the command line asks, and exit."""
    failure = read_failure(file)
    seconds = seconds_in(time)
    began = perf_counter()
    with interruptible() as interruption, progress_shown("shrinking") as update:
        try:
            found = shrink_failure(
                failure,
                tries_max=TRIES_MAX if tries is None else tries,
                stop=lambda: interruption.is_wanted or perf_counter() - began > seconds,
                same="invariant" if any_breach else "signature",
                cpu_seconds_max=CPU_SECONDS_MAX,
                on_try=lambda record, accepted: update(advance=1),
            )
        except ReplayDivergedError as error:
            print_error(f"not reproduced: {error}")
            raise typer.Exit(EXIT_HARNESS) from error
    took = perf_counter() - began
    files = ResultFiles()
    with files.attempt(), results_written("--out"):
        keep_file(small or file, found.failure.to_json())
    interrupted = interruption.is_wanted
    with files.attempt():
        write_json(json_file, {"format": "tornlog-shrink/1", **shrunk_json(found, took), "interrupted": interrupted})
    if json_file != "-":
        again = f"tornlog replay {shlex.quote(str(small or file))}"
        _print_shrunk(OUT, found, took, again, interrupted=interrupted)
    files.exit(interruption.exit_code if interrupted else EXIT_BROKEN)


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


def _print_shrunk(console: Console, shrunk: Shrunk, seconds: float, again: str, *, interrupted: bool) -> None:
    failure = shrunk.failure
    title = f"{shrunk.tries:,} runs, {seconds:.1f} s"
    console.print(_sizes_table(failure, f"interrupted: {title}" if interrupted else title))
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
