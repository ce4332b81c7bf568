"""Replays: a record followed as far as the code allows, and what of it is gone."""

import re
from collections import Counter
from dataclasses import dataclass, field

from ....sim.choices import Choices, Decision
from ....sim.errors import ReplayDivergedError
from ....sim.policies.replay import Labelling, Replay
from ....sim.process import garbage_kept
from ....sim.schedule import Switch
from ....sim.trace import Trace
from ...claims.crash_points import CrashPoints
from ...claims.plan import Plan
from ...oracle.ledger import Ledger
from ...runs.outcome import RunOutcome
from ...runs.run_of import run_of
from .failing_run import FailingRun, RunRecord, Size
from .story import story_of

_DAMAGED_PAGES = ("page lost", "page at a middle moment", "torn page")
_PAGE = re.compile(r"page .*#\d+")
"""How labels of decisions about a page at a power cut begin."""
_NO_FAULTS = ("crash", "page kept")


@dataclass(frozen=True, slots=True)
class RunReplay:
    """What a record led to, and what of it the run never came to: empty as long as record and code fit."""

    record: RunRecord
    """What did happen of the record that was replayed."""
    outcome: RunOutcome
    unmet_decisions: list[Decision] = field(default_factory=list)
    unmet_switches: list[Switch] = field(default_factory=list)
    changed_decisions: list[tuple[Decision, int]] = field(default_factory=list)

    @property
    def gone(self) -> list[str]:
        """Return a line for each decision that no longer exists."""
        decisions = [f"decision {decision}" for decision in self.unmet_decisions]
        return decisions + [f"switch {switch}" for switch in self.unmet_switches]

    @property
    def changed(self) -> list[str]:
        """Return a line for each decision that is made out of more or fewer options now, and may mean another thing."""
        return [f"decision {decision}, now of {options}" for decision, options in self.changed_decisions]

    def is_same(self, breach: FailingRun) -> bool:
        """Return whether this is the breach's run, nothing less and nothing else."""
        outcome = self.outcome
        return not self.gone and outcome.digest == breach.digest and outcome.violations == breach.violations

    @property
    def size(self) -> Size:
        """Return how much there is to read in it."""
        outcome, schedule = self.outcome, self.record.schedule
        faults = Counter(
            {kind: times for kind, times in outcome.fired.items() if not kind.startswith(_NO_FAULTS)}
        )
        for kind in _DAMAGED_PAGES:
            del faults[kind]
        damaged = {
            (decision.stream, decision.nth, page[0])
            for decision in self.record.decisions
            if (page := _PAGE.match(decision.label))
        }
        return Size(
            messages=outcome.messages,
            preemptions=sum(switch.is_preemption for switch in schedule),
            switches=len(schedule),
            sectors=len(damaged),
            faults=faults.total(),
            lives=len(self.record.plan.lives),
        )


def replay(
    record: RunRecord,
    trace: Trace | None = None,
    *,
    step_limit: int | None = None,
    ledger: Ledger | None = None,
) -> RunReplay:
    """Run a record again as far as the code follows it: where it does not, nothing special happens."""
    choices, schedule = Choices.replaying(record.decisions), Replay(record.schedule)
    with garbage_kept():
        outcome = run_of(
            record.plan, choices, schedule, trace, step_limit=step_limit, ledger=ledger
        ).execute()
    made = RunRecord(tuple(choices.decisions()), tuple(schedule.followed), record.plan)
    return RunReplay(made, outcome, choices.unmet(), schedule.unmet, choices.changed())


def breach_of_seed(plan: Plan, decisions: list[Decision], outcome: RunOutcome) -> FailingRun:
    """Return the record of a seed's run in names that outlive other code, from a replay of the run's own record.

    Raises ReplayDivergedError if the run cannot be repeated.
    """
    mine = [decision for decision in decisions if decision.stream not in ("plan", "schedule")]
    trace, names, ledger = Trace(), CrashPoints(naming=True), Ledger()
    choices, schedule = Choices.replaying(mine), Labelling(outcome.schedule)
    again = run_of(plan, choices, schedule, trace, crash_points=names, ledger=ledger).execute()
    if again.digest != outcome.digest or schedule.left or choices.unmet():
        raise ReplayDivergedError("run", 0, outcome.digest, again.digest)
    record = RunRecord(tuple(mine), tuple(schedule.labelled), names.named(plan))
    size = RunReplay(record, outcome).size
    story = story_of(trace, outcome.violations, ledger)
    return FailingRun(record, outcome.digest, outcome.violations, story, size, outcome.steps)


def breach_of(record: RunRecord) -> FailingRun:
    """Return what a record leads to, twice alike and whole. Raises ReplayDivergedError if it does not."""
    first, trace, ledger = replay(record), Trace(), Ledger()
    second = replay(record, trace, ledger=ledger)
    outcome = second.outcome
    if first.gone or not outcome.violations or first.outcome != outcome:
        raise ReplayDivergedError("run", 0, first.outcome.digest, outcome.digest)
    story = story_of(trace, outcome.violations, ledger)
    return FailingRun(record, outcome.digest, outcome.violations, story, second.size, outcome.steps)
