"""Implementation of `replay` and `shrink`: replays, draws or shrinks a stored failure."""

import shlex
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from time import perf_counter
from typing import NoReturn

import typer

from ...scenarios.campaigns.amounts import parse_seconds
from ...scenarios.campaigns.failures.failure import FailingRun, Failure, RunSize
from ...scenarios.campaigns.failures.failure_text import failure_text
from ...scenarios.campaigns.failures.replay import RunReplay, is_same_run, replay
from ...scenarios.campaigns.failures.shrink import TRIES_MAX, shrink_failure, shrunk_json
from ...scenarios.campaigns.kept_files import keep_file
from ...scenarios.mutants.known import applied_mutant
from ...sim.errors import ReplayDivergedError
from ...sim.interruption import interruptible
from ...sim.process import STALL_SECONDS
from ..results.model import FailureGroup, Failures, Lines, On, Result, ResultTable, Row, Tone, Verdict
from ..results.output import write_result_and_exit
from ..timeline.recording.record import Subject
from ..timeline.recording.recorder import replay_recorded
from .console import print_error, show_progress
from .options import EXIT_BROKEN, EXIT_HARNESS, EXIT_HELD, EXIT_NONDETERMINISTIC, ResultFiles, draw_run, results_written
from .probe.output import is_of_probe, replay_probe
from .replays import ReplayOptions, ShrinkOptions
from .reporting import read_failure

_LINES_SHOWN_MAX = 20


def replay_file(options: ReplayOptions) -> NoReturn:
    file, original, timeline, trace = options.file, options.original, options.timeline, options.trace
    if is_of_probe(file):
        for name, value in (("--original", original), ("--trace", trace)):
            if value:
                raise typer.BadParameter("not allowed with the failure of a program", param_hint=name)
        replay_probe(file, timeline=timeline, json_file=options.json_file)
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
                with files.writing(), results_written(option):
                    drawn += draw_run(run_recording, page, events)
        again = replay(breach.record)
    outcome = replayed.result
    document = {
        "format": "tornlog-replay/1",
        "scenario": failure.scenario,
        "seed": failure.seed,
        "same": is_same_run(replayed, breach),
        "digest": outcome.digest,
        "violations": [violation.to_json() for violation in outcome.violations],
        "gone": replayed.unmet_lines,
        "changed": replayed.changed_lines,
    }
    if drawn:
        document["drawn"] = [str(path) for path in drawn]
    exit_code = EXIT_BROKEN if outcome.violations else EXIT_HELD
    verdict = _replay_verdict(replayed, breach)
    result = Result(
        "replay",
        f"replayed: digest {outcome.digest}, {verdict}",
        Verdict(Tone.BROKEN if outcome.violations else Tone.HELD, verdict),
        EXIT_NONDETERMINISTIC if outcome.digest != again.result.digest else exit_code,
        document,
        blocks=[
            Failures("Failure", On.TERMINAL, groups=[FailureGroup([failure_text(failure, original=original)])]),
            _lines_block("gone", replayed.unmet_lines),
            _lines_block("changed", replayed.changed_lines),
        ],
    )
    write_result_and_exit(result, json_file=options.json_file, drawn=drawn, files=files)


def shrink_file(options: ShrinkOptions) -> NoReturn:
    failure = read_failure(options.file)
    seconds = parse_seconds(options.time)
    began = perf_counter()
    with interruptible() as interruption, show_progress("shrinking") as update:
        try:
            found = shrink_failure(
                failure,
                tries_max=TRIES_MAX if options.tries is None else options.tries,
                stop=lambda: interruption.is_requested or perf_counter() - began > seconds,
                same="invariant" if options.same_promise else "signature",
                stall_seconds=STALL_SECONDS,
                on_try=lambda record, accepted: update(advance=1),
            )
        except ReplayDivergedError as error:
            print_error(f"not reproduced: {error}")
            raise typer.Exit(EXIT_HARNESS) from error
    took, small, files = perf_counter() - began, options.small or options.file, ResultFiles()
    with files.writing(), results_written("--out"):
        keep_file(small, found.failure.to_json())
    interrupted = interruption.is_requested
    headline = f"{'interrupted: ' if interrupted else ''}{found.tries:,} runs, {took:.1f} s"
    record = found.failure.smallest.record
    again = shlex.join(["tornlog", "replay", str(small)])
    result = Result(
        "shrink",
        headline,
        Verdict(Tone.BROKEN, headline),
        interruption.exit_code if interrupted else EXIT_BROKEN,
        {"format": "tornlog-shrink/1", **shrunk_json(found, took), "interrupted": interrupted},
        blocks=[
            _sizes_table(found.failure),
            _lines_block("schedule", [str(switch) for switch in record.schedule]),
            _lines_block("draws", [str(decision) for decision in record.decisions]),
            Failures("Failure", On.TERMINAL, groups=[FailureGroup([failure_text(found.failure, again)])]),
        ],
    )
    write_result_and_exit(result, json_file=options.json_file, files=files)


def _replay_verdict(replayed: RunReplay, breach: FailingRun) -> str:
    violations = replayed.result.violations
    if is_same_run(replayed, breach):
        return "the same violation"
    if not violations:
        return "this time every promise held"
    if violations[0].signature == breach.violations[0].signature:
        return "the same violation in a different run"
    return f"another violation: {violations[0]}"


def _sizes_table(failure: Failure) -> ResultTable:
    breaches = (failure.original, failure.smallest)
    rows = [Row((field.name, *(getattr(breach.size, field.name) for breach in breaches))) for field in fields(RunSize)]
    return ResultTable("Size", On.TERMINAL, texts=("",), figures=("before", "after"), rows=rows)


def _lines_block(title: str, lines: Sequence[str]) -> Lines:
    shown = list(lines[:_LINES_SHOWN_MAX])
    if len(lines) > len(shown):
        shown.append(f"and {len(lines) - len(shown):,} more")
    return Lines(title, On.TERMINAL, lines=shown)
