"""Probing: tries crashes, recoveries and reruns of a recorded program."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import NamedTuple, TypeVar

import typer

from ....faults.disk.image import Image
from ....faults.probe.checks.checkers import Checkers
from ....faults.probe.crash_points import points_of_rules, steps_of
from ....faults.probe.failure import RECOVERY, ProbeFinding
from ....faults.probe.probe import Prober, probe_final_state
from ....faults.probe.programs import CALLS
from ....faults.probe.record import ProgramRecord
from ....faults.probe.recovery import Recoveries, RecoveryBreach
from ....faults.probe.report import ProbeReport
from ....faults.probe.reruns import RerunBreach, Reruns, rerun_text
from ....faults.probe.shrink import CrashCaseReplay, shrink
from ....faults.probe.story import moment_text
from ....faults.probe.tracing.control import RunControl
from ....faults.probe.visits import STOP_AT_FIRST, VisitPlan
from ....sim.interruption import current_interruption
from ..console import show_progress
from ..options import IN_PROCESS
from .kept import ProbeCorpus
from .recording import CALLS_HINT, ProbePlan, Recorded
from .results import ProbeResults, kinds_of_breach

STORIES_MAX = 10
"""Maximum number of crashes, of recoveries and of reruns that are shrunk and described. Shrinking takes up to 200
checks.
"""


class _ProbeParts(NamedTuple):
    found: ProbeReport
    recoveries: Recoveries | None = None
    reruns: Reruns | None = None

    def has_stopped(self, plan: VisitPlan) -> bool:
        found = {*self.found.breaches, *(self.recoveries.breaches if self.recoveries is not None else ())}
        if self.reruns is not None:
            found.update(signature for _, signature in self.reruns.breaches)
        return plan.stops_at_first and not self.found.is_of_end and not plan.known.issuperset(found)


def probe_recorded(asked: ProbePlan, recorded: Recorded, command: str) -> ProbeResults:
    """Probe a recorded program. The results are partial if the probe ends early."""
    (record, start, allowed, began), options = recorded, asked.options
    with _checkers(asked) as checkers:
        is_even = options.points is not None or options.time is not None
        plan = VisitPlan(options.points, is_even, options.stop_at_first, frozenset(asked.baseline))
        corpus = ProbeCorpus(options, asked.program, record, start)
        tried = _try_all(asked, record, start, checkers, plan, corpus)
        found, recoveries, reruns = tried
        recovered = [] if recoveries is None else _breaches_to_tell(recoveries.in_order, plan)
        differing = [] if reruns is None else [one for one in reruns.in_order if one[0][1] not in plan.known]
        return ProbeResults(
            record,
            start,
            asked.check,
            options.limit,
            found,
            [
                ProbeFinding(signature, record, start, shrink(record, start, group.smallest, checkers))
                for signature, group in _breaches_to_tell(found.in_order, plan)
            ],
            recoveries,
            [_recovery_finding(record, start, *one, checkers) for one in recovered],
            reruns,
            [_rerun_finding(start, *key, breach, checkers) for key, breach in differing[:STORIES_MAX]],
            allowed,
            checkers.said(),
            command,
            perf_counter() - began,
            CALLS_HINT if asked.check.runs_here and asked.recorder.kind != CALLS else "",
            options.refusals,
            [(str(rule), len(steps_of(rule, record))) for rule in asked.crash_rules],
            current_interruption().reason or (STOP_AT_FIRST if tried.has_stopped(plan) else ""),
            checkers.reduced,
            checkers.assumed,
            asked.baseline,
            corpus.record_run(found, reruns, plan.known),
        )


@contextmanager
def _checkers(asked: ProbePlan) -> Iterator[Checkers]:
    options = asked.options
    if options.master == IN_PROCESS:
        with Checkers(asked.check, options.jobs, options.seconds) as checkers:
            yield checkers
        return
    try:
        from ...pipeline.probing.spread import checkers_on
    except ImportError as error:
        from ....store.errors import install_command  # imported here, because a local probe does not import the store

        raise typer.BadParameter(f"{error}; {install_command('spark')} installs it", param_hint="--master") from error
    ship, conf = options.ship or (), options.conf or ()
    with checkers_on(options.master, ship, conf, asked.check, options.jobs, options.seconds) as spread:
        yield spread


_Breach = TypeVar("_Breach")


def _breaches_to_tell(breaches: Sequence[tuple[str, _Breach]], plan: VisitPlan) -> list[tuple[str, _Breach]]:
    """Return the breaches to shrink and describe: the first ones that are not known."""
    return [one for one in breaches if one[0] not in plan.known][:STORIES_MAX]


def _try_all(
    asked: ProbePlan, record: ProgramRecord, start: Image, checkers: Checkers, plan: VisitPlan, corpus: ProbeCorpus
) -> _ProbeParts:
    options = asked.options
    found = probe_final_state(record, start, checkers)
    if not plan.known.issuperset(found.breaches):
        return _ProbeParts(found)
    prober = Prober(record, start, checkers, disks=asked.disks, limit=options.limit, plan=plan, first=corpus.points)
    recoveries = None
    if asked.crash_rules:
        prober.only = points_of_rules(asked.crash_rules, record, start)
    if options.recovery_crashes:
        record_check = partial(asked.recorder.record_check, asked.check)
        recoveries = Recoveries(checkers, record_check, asked.crash_disks, options.limit, plan)
        prober.on_held = recoveries.explore
    found = _explore_crashes(prober)
    tried = _ProbeParts(found, recoveries)
    if not asked.is_rerun:
        return tried
    rerun = partial(asked.recorder.rerun, asked.program, start)
    reruns = Reruns(checkers, rerun, start, record, found, prober.verdicts, options.limit, plan, options.policy)
    reruns.seeds_first = corpus.seeds
    if tried.has_stopped(plan):
        reruns.skip_reruns(asked.kinds, options.seeds, asked.call_faults)
    else:
        _run_with_faults(reruns, asked)
    return tried._replace(reruns=reruns)


def _explore_crashes(prober: Prober) -> ProbeReport:
    with show_progress("pulling the plug", ticks=False) as update:

        def on_progress(found: ProbeReport, done: int, total: int) -> None:
            kinds = kinds_of_breach(len(found.breaches))
            facts = f"{found.states:,} states, {found.judged:,} checked, {kinds}"
            update(completed=done, total=total, facts=facts, refresh=True)

        return prober.probe(on_progress)


def _run_with_faults(reruns: Reruns, asked: ProbePlan) -> None:
    with show_progress("running again", ticks=False) as update:

        def on_progress(reruns: Reruns, control: RunControl) -> None:
            facts = f"{control}: {reruns.judged:,} checked, {kinds_of_breach(len(reruns.breaches))}"
            update(completed=reruns.runs, total=None, facts=facts, refresh=True)

        reruns.on_progress = on_progress
        reruns.run(asked.kinds, asked.options.fault_runs, asked.options.seeds, asked.call_faults)


def _recovery_finding(
    record: ProgramRecord, start: Image, signature: str, breach: RecoveryBreach, checkers: Checkers
) -> ProbeFinding:
    recovery, first = breach.recovery, breach.recovery.first_crash
    shown = shrink(recovery.record, recovery.start, breach.group.smallest, checkers)
    losses = CrashCaseReplay(record, start, first).shown(first).losses
    lines = [f"crash {moment_text(record, first.point)}, on {first.disk}", *(f"lost: {loss.what}" for loss in losses)]
    return ProbeFinding(signature, recovery.record, recovery.start, shown, tuple(lines), kind=RECOVERY)


def _rerun_finding(start: Image, kind: str, signature: str, breach: RerunBreach, checkers: Checkers) -> ProbeFinding:
    shown = shrink(breach.record, start, breach.group.smallest, checkers)
    how = rerun_text(breach.control, breach.record)
    return ProbeFinding(signature, breach.record, start, shown, rerun=how, kind=kind)
