"""Implementation of `probe` after the recording: tries crashes, recoveries and reruns."""

from functools import partial
from time import perf_counter

from ....faults.disk.image import Image
from ....faults.probe.checks.checkers import Checkers
from ....faults.probe.failure import RECOVERY, ProbeFinding
from ....faults.probe.probe import OnHeld, ProbeReport, Verdicts, probe_end
from ....faults.probe.probe import probe as probe_record
from ....faults.probe.programs import CALLS
from ....faults.probe.record import ProgramRecord
from ....faults.probe.recovery import Recoveries, RecoveryBreach
from ....faults.probe.reruns import RerunBreach, Reruns, rerun_text
from ....faults.probe.shrink import Scene, shrink
from ....faults.probe.story import moment
from ....faults.probe.tracing.control import RunControl
from ....sim.interruption import current_interruption
from ..console import show_progress
from .recording import CALLS_HINT, ProbePlan, Recorded
from .results import ProbeResults, kinds_of_breach

STORIES_MAX = 10
"""Maximum of stories of crashes, of recoveries and of reruns. Shrinking a breach takes up to 200 checks."""


def probe_recorded(asked: ProbePlan, recorded: Recorded, command: str) -> ProbeResults:
    """Probe a recorded program. The results are partial if the probe ends early."""
    (record, start, allowed, began), options = recorded, asked.options
    with Checkers(asked.check, options.jobs, options.seconds) as checkers:
        recoveries = reruns = None
        found = probe_end(record, start, checkers)
        if not found.breaches:
            verdicts: Verdicts = {}
            record_check = partial(asked.recorder.record_check, asked.check)
            if options.recovery_crashes:
                recoveries = Recoveries(checkers, record_check, asked.crash_disks, options.limit)
            on_held = None if recoveries is None else recoveries.explore
            found = _explore(asked, record, start, checkers, on_held, verdicts)
            if asked.kinds or options.seeds:
                rerun = partial(asked.recorder.rerun, asked.program, start)
                reruns = Reruns(checkers, rerun, start, record, found, verdicts, options.limit)
                _run_again(reruns, asked)
        return ProbeResults(
            record,
            start,
            asked.check,
            options.limit,
            found,
            [
                ProbeFinding(signature, record, start, shrink(record, start, group.smallest, checkers))
                for signature, group in found.in_order[:STORIES_MAX]
            ],
            recoveries,
            []
            if recoveries is None
            else [
                _recovery_finding(record, start, signature, breach, checkers)
                for signature, breach in recoveries.in_order[:STORIES_MAX]
            ],
            reruns,
            []
            if reruns is None
            else [
                _rerun_finding(start, kind, signature, breach, checkers)
                for (kind, signature), breach in reruns.in_order[:STORIES_MAX]
            ],
            allowed,
            checkers.said(),
            command,
            perf_counter() - began,
            CALLS_HINT if asked.check.runs_here and asked.recorder.kind != CALLS else "",
            options.refusals,
            current_interruption().reason,
        )


def _explore(
    asked: ProbePlan,
    record: ProgramRecord,
    start: Image,
    checkers: Checkers,
    on_held: OnHeld | None,
    verdicts: Verdicts,
) -> ProbeReport:
    with show_progress("pulling the plug", ticks=False) as update:

        def on_progress(found: ProbeReport, done: int, steps: int) -> None:
            kinds = kinds_of_breach(len(found.breaches))
            facts = f"{found.states:,} states, {found.judged:,} checked, {kinds}"
            update(completed=done, total=steps, facts=facts, refresh=True)

        return probe_record(
            record,
            start,
            checkers,
            disks=asked.disks,
            limit=asked.options.limit,
            on_progress=on_progress,
            on_held=on_held,
            verdicts=verdicts,
        )


def _run_again(reruns: Reruns, asked: ProbePlan) -> None:
    with show_progress("running again", ticks=False) as update:

        def on_progress(reruns: Reruns, control: RunControl) -> None:
            facts = f"{control}: {reruns.judged:,} checked, {kinds_of_breach(len(reruns.breaches))}"
            update(completed=reruns.runs, total=None, facts=facts, refresh=True)

        reruns.on_progress = on_progress
        reruns.run(asked.kinds, asked.options.fault_runs, asked.options.seeds)


def _recovery_finding(
    record: ProgramRecord, start: Image, signature: str, breach: RecoveryBreach, checkers: Checkers
) -> ProbeFinding:
    """Return a breach after a crash in recovery, with its losses and with the lines of the first crash."""
    recovery, first = breach.recovery, breach.recovery.first_crash
    shown = shrink(recovery.record, recovery.start, breach.group.smallest, checkers)
    losses = Scene(record, start, first).shown(first).losses
    lines = [f"crash {moment(record, first.point)}, on {first.disk}", *(f"lost: {loss.what}" for loss in losses)]
    return ProbeFinding(signature, recovery.record, recovery.start, shown, tuple(lines), kind=RECOVERY)


def _rerun_finding(start: Image, kind: str, signature: str, breach: RerunBreach, checkers: Checkers) -> ProbeFinding:
    shown = shrink(breach.record, start, breach.group.smallest, checkers)
    how = rerun_text(breach.control, breach.record)
    return ProbeFinding(signature, breach.record, start, shown, rerun=how, kind=kind)
