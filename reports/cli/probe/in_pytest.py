"""Pytest fixture `probe`: runs a probe, and returns its failures as texts."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any
from warnings import catch_warnings, filterwarnings

import typer
from typer.main import get_command

from ....faults.probe.checks.check import FunctionCheck
from ....faults.probe.documents import Places
from ....scenarios.campaigns.amounts import parse_seconds
from ....scenarios.testing.probed import NamedCheck, ProbeAnswer, ProbedFailure, ProbeError
from ....sim.interruption import EndedEarlyError, interruptible
from ...html.render import render_page
from ..options import EXIT_BROKEN, EXIT_HARNESS, EXIT_HELD, command_line, function_with_options, write_page
from .command import ProbeOptions
from .output import write_failures
from .probing import probe_recorded
from .recording import ProbePlan, RefusedError, record_program
from .result import Timelines, probe_result
from .results import ProbeResults
from .work import plan_of

_OF_THE_COMMAND = (
    *("context", "program", "check", "replay"),
    *("out", "timeline", "junit", "summary", "json_file"),
    *("corpus", "no_corpus"),
)
"""Options of the command that are no keywords of the fixture, because pytest has its own options for them.

The corpus is excluded, because pytest has --failed-first, and parallel tests would write the same file.
"""


def probe_in_test(
    program: Sequence[str], check: NamedCheck | Path | None, wanted: Mapping[str, Any], out: Path | None
) -> ProbeAnswer:
    """Probe a program with a check and options of the command. Raises ProbeError without a verdict."""
    try:
        options = _parse_options(program, check, wanted)
        plan = plan_of(options, FunctionCheck(*check) if isinstance(check, NamedCheck) else None)
        if isinstance(check, NamedCheck):
            _require_no_check_in_file(options)
        with catch_warnings():
            # Workers of pytest-xdist have a thread. The forked processes do not use locks of this thread.
            filterwarnings("ignore", r"This process \(pid=\d+\) is multi-threaded", DeprecationWarning)
            results = _probe_results(plan)
    except typer.BadParameter as error:
        raise ProbeError(error.format_message()) from error
    except RefusedError as error:
        lines = ["refused: the program made calls that the recorder does not see", *error.reasons, error.hint]
        raise ProbeError("\n  ".join(filter(None, lines))) from error
    return _make_answer(results, out)


def _parse_options(program: Sequence[str], check: NamedCheck | Path | None, wanted: Mapping[str, Any]) -> ProbeOptions:
    """Parse keywords like options of the command line, with the same limits and error messages."""
    known = [field.name for field in fields(ProbeOptions) if field.name not in _OF_THE_COMMAND]
    words = ["--no-corpus", *(["--check", str(check)] if isinstance(check, Path) else [])]
    for name, value in wanted.items():
        if name not in known:
            raise ProbeError(f"expected an option of `tornlog probe`, one of {', '.join(known)}, found {name}")
        if value is None or value is False:
            continue
        option = f"--{name.replace('_', '-')}"
        values = value if isinstance(value, list | tuple) else [value]
        words += [word for one in values for word in ([option] if one is True else [option, str(one)])]
    app = typer.Typer(add_completion=False)
    app.command("probe")(function_with_options(ProbeOptions, lambda options: options))
    command: Any = get_command(app)
    options = command.invoke(command.make_context("probe", [*words, "--", *program]))
    assert isinstance(options, ProbeOptions), options
    return options


def _require_no_check_in_file(options: ProbeOptions) -> None:
    if options.checks:
        raise ProbeError(f"expected check or {' or '.join(options.checks)}, found both")
    if options.recovery_crashes:
        raise ProbeError(
            "recovery_crashes: expected a check in a file, because the recorder starts the check in a process of its "
            "own; found a function of the test"
        )


def _probe_results(plan: ProbePlan) -> ProbeResults:
    """Record and probe the program. Ctrl-C ends the test session, as in other tests."""
    time = plan.options.time
    with interruptible(None if time is None else parse_seconds(time), f"time={time}") as interruption:
        try:
            recorded = record_program(plan.options, plan.program, plan.recorder)
            results = probe_recorded(plan, recorded, command_line(plan.options.context, after_dashes="program"))
        except EndedEarlyError as error:
            if interruption.was_by_signal:
                raise
            raise ProbeError(f"ended by {error} before there was any result") from error
        if interruption.was_by_signal:
            raise KeyboardInterrupt
    return results


def _make_answer(results: ProbeResults, out: Path | None) -> ProbeAnswer:
    exit_code = EXIT_BROKEN if results.new_kinds else EXIT_HARNESS if results.gaps else EXIT_HELD
    places: Places = {}
    timelines: Timelines = {}
    if out is not None:
        places, timelines = write_failures(results, out)
    result = probe_result(results, places, timelines, exit_code)
    if out is not None:
        write_page(render_page(result), out)
    failures = []
    for breach in results.breaches():
        place, page = places.get(breach.key), timelines.get(breach.key)
        file = None if place is None else place / "failure.json"
        failures.append(ProbedFailure(breach.text(place), file, None if out is None or page is None else out / page))
    found = results.found
    notes = found.notes(results.record)
    return ProbeAnswer(result.headline, found.points, found.states, failures, results.gaps, notes, results.check_output)
