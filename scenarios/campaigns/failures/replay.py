"""Replays of plans: record, repeat and describe a failing run."""

import re
from collections import Counter

from ....faults.simulation import record as records
from ....faults.simulation.record import RecordReplay, record_of, verify_record
from ....faults.simulation.simulation import STEP_LIMIT, Simulation
from ....sim.trace import Trace
from ...claims.machine import config_of
from ...claims.plan import Plan
from ...oracle.ledger import OnRequest
from ...runs.outcome import RunOutcome
from ...runs.run_of import run_of
from .failure import FailingRun, RunRecord, RunSize
from .observer import RunObserver
from .story import story_of

RunReplay = RecordReplay[Plan, RunOutcome]

_DAMAGED_PAGES = ("page lost", "intermediate page", "torn page")
_PAGE = re.compile(r"page .*#\d+")
"""Matches the label of a choice that decides whether a page survives a power cut."""
_NO_FAULTS = ("crash", "page kept")


def run_plan(plan: Plan, simulation: Simulation) -> RunOutcome:
    """Run a plan. Every scenario uses this function."""
    return run_of(plan, simulation).execute()


def replay(
    record: RunRecord, trace: Trace | None = None, *, step_limit: int = STEP_LIMIT, on_request: OnRequest | None = None
) -> RunReplay:
    """Replay a record until the run diverges from the record. The run fills the ledger."""

    def program(plan: Plan, simulation: Simulation) -> RunOutcome:
        return run_of(plan, simulation, on_request=on_request).execute()

    return records.replay(program, record, trace, step_limit=step_limit)


def _observer_of(plan: Plan) -> RunObserver:
    if not plan.broker.serves:
        return RunObserver(is_alone=plan.is_alone)
    from .request_texts import RequestTexts  # only here, because it needs the broker extra

    return RunObserver(is_alone=plan.is_alone, requests=RequestTexts())


def failing_run_of(outcome: RunOutcome, simulation: Simulation) -> FailingRun:
    """Return the record and the description of a failing run.

    Raises ReplayDivergedError if the run cannot be repeated.
    """
    trace = _observer_of(outcome.plan)
    return _failing_run(record_of(run_plan, outcome.plan, simulation, outcome, trace), trace)


def verified_run(record: RunRecord) -> FailingRun:
    """Run a record twice. Raises ReplayDivergedError if the two runs differ."""
    trace = _observer_of(record.setup)
    return _failing_run(verify_record(run_plan, record, trace), trace)


def _failing_run(replayed: RunReplay, trace: RunObserver) -> FailingRun:
    outcome = replayed.result
    plan = outcome.plan
    parts = trace, outcome.violations, config_of(plan), outcome.ledger
    story = story_of(*parts, is_alone=plan.is_alone, exchanges=trace.exchanges, judged=trace.judged)
    size = run_size_of(replayed)
    return FailingRun(replayed.record, outcome.digest, outcome.violations, story, size, outcome.steps)


def is_same_run(replayed: RunReplay, run: FailingRun) -> bool:
    return replayed.is_same(run) and replayed.result.violations == run.violations


def run_size_of(replayed: RunReplay) -> RunSize:
    outcome, record = replayed.result, replayed.record
    faults = Counter({kind: times for kind, times in outcome.injected.items() if not kind.startswith(_NO_FAULTS)})
    for kind in _DAMAGED_PAGES:
        del faults[kind]
    damaged = {
        (decision.stream, decision.nth, page[0])
        for decision in record.decisions
        if (page := _PAGE.match(decision.label))
    }
    assert len(record.setup.lives) > 0, "a run has a life"
    return RunSize(
        messages=outcome.messages,
        preemptions=sum(switch.is_preemption for switch in record.schedule),
        switches=len(record.schedule),
        sectors=len(damaged),
        faults=faults.total(),
        lives=len(record.setup.lives),
    )
