"""Implementation of `probe`: records a program, tries its crashes, and writes the result.

The module imports little before the program has run, because a user waits for the start of the program.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from ....faults.crashes.at_rest import AT_REST, DAMAGES
from ....faults.crashes.profiles import PROFILES
from ....faults.kinds import FaultKind
from ....faults.probe import DISKS
from ....faults.probe.checks.check import Check
from ....faults.probe.checks.command import CHECK_KINDS
from ....faults.probe.programs import CALLS, PYTHON, RECORDERS, STORES, RecorderChoice
from ....faults.probe.tracing.control import (
    CALL_FAULTS,
    ERRORS,
    CallFault,
    CrashRule,
    Rule,
    RuleError,
    depth_of,
    parse_rule,
)
from ....sim.interruption import EndedEarlyError, Interruption, interruptible
from ..options import (
    EXIT_BROKEN,
    EXIT_HARNESS,
    EXIT_HELD,
    IN_PROCESS,
    command_line,
    disks_named,
    is_option_given,
    refuse_options,
)
from .baseline import read_baseline, require_reason
from .command import ProbeOptions
from .recording import ProbePlan, Recorded, RefusedError, check_given, record_program, separate_disks_given

_REPLAY_OPTIONS = {"replay", *CHECK_KINDS, "seconds", "timeline", "json_file", "program"}
"""Parameters that a replay uses or rejects with a specific error message."""
_NO_CHECK = "expected a check, which defines the promises of the program"
_NEED_CHECK = ("faults", "inject", "seeds", "recovery_crashes", "machine", "disk_of")
_CHECK_OPTIONS = (
    *("limit", "points", "jobs", "seconds", "stop_at_first", "fault_runs"),
    *("policy", "baseline", "write_baseline", "junit", "master"),
)
"""Parameters that are invalid without a check."""


def probe_program(options: ProbeOptions) -> NoReturn:
    """Probe a program or replay a failure, write the result, and exit."""
    if options.replay is not None:
        if options.program:
            raise typer.BadParameter("expected --replay or a program, found both")
        refuse_options(options.context, options.context.params.keys() - _REPLAY_OPTIONS, "not allowed with --replay")
        from .output import replay_probe

        with _ended_early():
            replay_probe(
                options.replay,
                checks=options.checks,
                seconds=options.seconds,
                timeline=options.timeline,
                json_file=options.json_file,
            )
    if options.restart is not None:
        from .live import probe_live

        with _ended_early(options.time) as interruption:
            probe_live(options, _program_of(options), lambda: _exit_code(interruption))
    if not options.checks:
        _report_durability(options)
    plan = plan_of(options)
    with _ended_early(options.time) as interruption:
        recorded = _record_or_exit(options, plan.program, plan.recorder)
        # imported after the run of the program, because the imports are slow
        from .output import write_probe_results_and_exit
        from .probing import probe_recorded

        results = probe_recorded(plan, recorded, command_line(options.context, after_dashes="program"))
        ended = _exit_code(interruption)
        exit_code = EXIT_BROKEN if results.new_kinds else ended if results.gaps else EXIT_HELD
        write_probe_results_and_exit(results, exit_code, options)


def _report_durability(options: ProbeOptions) -> NoReturn:
    program, disks = _program_of(options), _disks_of(options)
    refuse_options(options.context, _NEED_CHECK, _NO_CHECK)
    refuse_options(options.context, _CHECK_OPTIONS, "not allowed without a check")
    recorder = _recorder_choice(options, is_rerun=False)
    with _ended_early(options.time):
        recorded = _record_or_exit(options, program, recorder)
        # imported after the run of the program, because the import is slow
        from .durability import write_durability_and_exit

        write_durability_and_exit(recorded, disks, options)


def _record_or_exit(options: ProbeOptions, program: list[str], recorder: RecorderChoice) -> Recorded:
    """Record the program. If the recorder missed calls, write the reasons and exit."""
    try:
        return record_program(options, program, recorder)
    except RefusedError as error:
        from .output import write_refusal_and_exit

        write_refusal_and_exit(error, options.json_file)


@contextmanager
def _ended_early(time: str | None = None) -> Iterator[Interruption]:
    """Handle stop signals and a time limit during the block. If they interrupt the block before a result, exit."""
    seconds = None
    if time is not None:
        from ....scenarios.campaigns.amounts import parse_seconds

        seconds = parse_seconds(time)
    with interruptible(seconds, f"--time {time}") as interruption:
        try:
            yield interruption
        except EndedEarlyError as ended:
            from ..console import print_error  # rich is slow to import and rarely needed here

            print_error(f"ended by {ended} before there was any result")
            raise typer.Exit(_exit_code(interruption)) from ended


def _exit_code(interruption: Interruption) -> int:
    return interruption.exit_code if interruption.was_by_signal else EXIT_HARNESS


def plan_of(options: ProbeOptions, function: Check | None = None) -> ProbePlan:
    """Return the plan of a probe. function: a check that no option can name.

    Raises BadParameter for a missing program or an invalid check.
    """
    program = _program_of(options)
    kinds = _fault_kinds(options.faults or [])
    rules = _fault_rules(options.inject or [])
    call_faults = [rule for rule in rules if isinstance(rule, CallFault)]
    crash_rules = [rule for rule in rules if isinstance(rule, CrashRule)]
    is_rerun = bool(kinds or call_faults or options.seeds)
    if function is None and not options.checks:
        raise typer.BadParameter(_NO_CHECK, param_hint="--check")
    judge = function or check_given(options.checks)
    if options.refusals and not judge.takes_refusals:
        raise typer.BadParameter(
            f"expected check(directory, acknowledged, refused) in {judge.name}, found no parameter refused",
            param_hint="--refusals",
        )
    _require_policy(options)
    recorder = _recorder_choice(options, is_rerun=is_rerun)
    disks = disks_named(options.disk or DISKS, (*PROFILES, *DAMAGES))
    if options.reason is not None:
        if options.write_baseline is None:
            raise typer.BadParameter("needed for --reason", param_hint="--write-baseline")
        require_reason(options.reason)
    baseline = {} if options.baseline is None else read_baseline(options.baseline)
    if recorder.separate_disks and not AT_REST.isdisjoint(disks):
        raise typer.BadParameter(
            f"expected only kinds of crash with --machine and --disk-of, found {', '.join(disks)}", param_hint="--disk"
        )
    if options.master == IN_PROCESS and (options.ship or options.conf):
        raise typer.BadParameter("needed for --ship and --conf", param_hint="--master")
    if options.master != IN_PROCESS and function is not None:
        raise typer.BadParameter(
            "expected a check in a file, which executors can load, found a function of the test", param_hint="--master"
        )
    plan = ProbePlan(options, program, recorder, judge, tuple(disks), kinds, baseline, call_faults, crash_rules)
    if (rules or is_rerun or options.recovery_crashes) and not plan.crash_disks:
        raise typer.BadParameter(
            "expected a kind of crash for --faults, --inject, --seeds and --recovery-crashes, "
            f"found {', '.join(disks)}",
            param_hint="--disk",
        )
    return plan


def _program_of(options: ProbeOptions) -> list[str]:
    if options.timeline is not None:
        raise typer.BadParameter("needs --replay; --out writes timelines of all failures", param_hint="--timeline")
    program = options.program
    if not program or (program[0] == "-m" and len(program) < 2):
        example = "tornlog probe --check ./check.sh -- ./server"
        raise typer.BadParameter(f"expected a program after --, as in: {example}")
    return program


def _disks_of(options: ProbeOptions) -> tuple[str, ...]:
    return tuple(disks_named(options.disk or DISKS, tuple(PROFILES)))


def _fault_kinds(names: list[str]) -> list[FaultKind]:
    known = {kind.value: kind for kind in CALL_FAULTS}
    kinds: dict[FaultKind, None] = {}
    for name in names:
        plain = name.replace("-", " ")
        if plain != "errors" and plain not in known:
            choice = ", ".join(["errors", *known])
            raise typer.BadParameter(f"expected one of {choice}, found {name}", param_hint="--faults")
        kinds |= dict.fromkeys(ERRORS if plain == "errors" else [known[plain]])
    return list(kinds)


def _fault_rules(texts: list[str]) -> list[Rule]:
    try:
        return list({str(rule): rule for rule in map(parse_rule, texts)}.values())
    except RuleError as error:
        raise typer.BadParameter(str(error), param_hint="--inject") from error


def _require_policy(options: ProbeOptions) -> None:
    if is_option_given(options.context, "policy") and not options.seeds:
        raise typer.BadParameter("needs --seeds", param_hint="--policy")
    try:
        depth_of(options.policy, seed=0)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--policy") from error


def _recorder_choice(options: ProbeOptions, *, is_rerun: bool) -> RecorderChoice:
    for name, found, known in (("--record", options.record, ("", *RECORDERS)), ("--stores", options.stores, STORES)):
        if found not in known:
            raise typer.BadParameter(
                f"expected one of {', '.join(filter(None, known))}, found {found}", param_hint=name
            )
    if is_rerun and options.record == PYTHON:
        raise typer.BadParameter(
            "expected calls with --faults, --inject or --seeds, found python", param_hint="--record"
        )
    kind = CALLS if is_rerun else options.record
    separate_disks = separate_disks_given(options.machine or (), options.disk_of or ())
    return RecorderChoice(
        kind, options.stores, options.program_seconds, options.stacks, options.refusals, separate_disks
    )
