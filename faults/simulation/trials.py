"""Trials: seeds of a scenario run until one fails, which then is a record that replays."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from traceback import extract_tb
from typing import Any

from ...sim.choices import Choices, Decision
from ...sim.determinism import guarded
from ...sim.errors import ReplayDivergedError, TaskFailedError
from ...sim.guard import guard
from ...sim.policies import Policy
from ...sim.policies.random_walk import draw_policy
from ...sim.policies.replay import Labelling, Replay
from ...sim.schedule import Switch
from ...sim.trace import Trace
from .coverage import Coverage, NeverFired
from .finding import Finding, TrialRecord, story_of
from .simulation import STEP_LIMIT, Crash, PromiseBroken, Scenario, Simulation

_ROOT = __file__.rsplit("/", 3)[0]
_OURS = tuple(f"{_ROOT}/{package}/" for package in ("sim", "faults", "store", "scenarios"))
"""Where no line is a user's own."""


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """What one run came to."""

    failure: Exception | None
    """What ended it, None if nothing did; of a task, what the task raised."""
    digest: str
    steps: int
    """Scheduling points."""
    fired: dict[str, int]
    """How often each fault really happened, by the names in `kinds`."""
    enabled: tuple[str, ...]
    """The faults that could have happened: what plans switch on, and what crashes may take of what was done."""
    draws: tuple[Decision, ...]
    """Every draw, those that gave 0 included."""
    operations: dict[str, dict[tuple[str, str], int]]
    """Of each life that was to end in a crash: how many operations of a kind on a path there were."""
    schedule: list[list[Any]]
    crashes: tuple[Crash, ...]

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Return the draws that were not 0."""
        return tuple(draw for draw in self.draws if draw.value)

    @property
    def signature(self) -> str:
        """Return what makes two failures the same: the promise, or else the kind of error; empty: none."""
        failure = self.failure
        if isinstance(failure, PromiseBroken):
            return failure.promise
        return "" if failure is None else type(failure).__name__

    @property
    def error(self) -> str:
        """Return what ended the run, in full; empty: nothing did."""
        failure = self.failure
        if isinstance(failure, PromiseBroken):
            return str(failure)
        return "" if failure is None else f"{type(failure).__name__}: {failure}"

    @property
    def raised(self) -> str:
        """Return the innermost line of the user's own that what ended the run came through; empty: there is none."""
        if self.failure is None:
            return ""
        frames = extract_tb(self.failure.__traceback__)
        own = [frame for frame in frames if not frame.filename.startswith(_OURS)]
        return f"{own[-1].filename}:{own[-1].lineno} in {own[-1].name}" if own else ""


@dataclass(frozen=True, slots=True)
class TrialReplay:
    """What a record led to."""

    record: TrialRecord
    """What did happen of the record that was replayed."""
    outcome: TrialOutcome
    gone: tuple[Decision | Switch | Crash, ...]
    """What the run never came to; empty as long as record and code fit."""

    def is_same(self, finding: Finding) -> bool:
        """Return whether this is the finding's run, nothing less and nothing else."""
        outcome = self.outcome
        return not self.gone and (outcome.digest, outcome.signature) == (finding.digest, finding.signature)


def run_seed(scenario: Scenario, seed: int) -> TrialOutcome:
    """Run one seed under the guard, with a policy of its own. Raises LeakError if a task reached past its world."""
    choices = Choices(str(seed))
    return _execute(scenario, Simulation(choices, draw_policy(choices.stream("schedule"))))


def find(
    scenario: Scenario,
    seeds: Iterable[int],
    on_run: Callable[[int, TrialOutcome], None] = lambda seed, outcome: None,
) -> Finding | None:
    """Run seeds until one fails, and return its finding; None if none does. on_run is told of each run.

    Warns, by NeverFired, if none does and some fault that could have happened never did. Raises LeakError as run_seed
    does, ReplayDivergedError if the run that failed cannot be repeated.
    """
    coverage = Coverage()

    def noted(seed: int, outcome: TrialOutcome) -> None:
        coverage.add(seed, outcome)
        on_run(seed, outcome)

    finding = first_failure(scenario, seeds, noted)
    never = coverage.never_fired
    if finding is None and never:
        text = f"nothing found in {coverage.seeds:,} seeds, in which there never was: {', '.join(never)}"
        warnings.warn(NeverFired(text), stacklevel=2)
    return finding


def first_failure(
    scenario: Scenario, seeds: Iterable[int], on_run: Callable[[int, TrialOutcome], None]
) -> Finding | None:
    """Do as find does, and warn of nothing."""
    with guard():  # inside of it, the guards of the runs cost next to nothing
        for seed in seeds:
            outcome = run_seed(scenario, seed)
            on_run(seed, outcome)
            if outcome.failure is not None:
                trace = Trace()
                return _finding(seed, record_of(scenario, outcome, trace), outcome, trace)
    return None


def replay(
    scenario: Scenario, record: TrialRecord, trace: Trace | None = None, *, step_limit: int = STEP_LIMIT
) -> TrialReplay:
    """Run a record again as far as the code follows it: where it does not, nothing special happens."""
    choices, schedule = Choices.replaying(record.decisions), Replay(record.schedule)
    run = Simulation(choices, schedule, crashes=record.crashes, trace=trace, step_limit=step_limit)
    outcome = _execute(scenario, run)
    made = TrialRecord(outcome.decisions, tuple(schedule.followed), outcome.crashes)
    missed = (crash for crash in record.crashes if crash not in outcome.crashes)
    return TrialReplay(made, outcome, (*choices.unmet(), *schedule.unmet, *missed))


def finding_of(scenario: Scenario, seed: int, record: TrialRecord) -> Finding:
    """Return what a record leads to, whole. Raises ReplayDivergedError if the code does not follow it to a failure."""
    trace = Trace()
    replayed = replay(scenario, record, trace)
    outcome = replayed.outcome
    if replayed.gone or outcome.failure is None:
        found = str(replayed.gone[0]) if replayed.gone else "no failure"
        raise ReplayDivergedError("record", 0, "all of it, and a failure", found)
    return _finding(seed, record, outcome, trace)


def replay_otherwise(
    scenario: Scenario, record: TrialRecord, policy: Policy, *, step_limit: int = STEP_LIMIT
) -> TrialOutcome:
    """Run a record again but for its schedule, of which a policy decides."""
    choices = Choices.replaying(record.decisions)
    return _execute(scenario, Simulation(choices, policy, crashes=record.crashes, step_limit=step_limit))


def record_of(scenario: Scenario, found: TrialOutcome, trace: Trace | None = None) -> TrialRecord:
    """Return a run in names that outlive other code. Raises ReplayDivergedError if it cannot be repeated."""
    choices, schedule = Choices.replaying(found.decisions), Labelling(found.schedule)
    again = _execute(scenario, Simulation(choices, schedule, crashes=found.crashes, trace=trace))
    before = (found.digest, found.signature)  # the error's text may tell of addresses
    after = (again.digest, again.signature)
    if before != after or schedule.left or choices.unmet():
        raise ReplayDivergedError("run", 0, before, after)
    return TrialRecord(found.decisions, tuple(schedule.labelled), found.crashes)


def _finding(seed: int, record: TrialRecord, outcome: TrialOutcome, trace: Trace) -> Finding:
    story = story_of(trace)
    return Finding(
        seed, record, outcome.signature, outcome.error, outcome.digest, outcome.steps, story, outcome.raised
    )


def _execute(scenario: Scenario, run: Simulation) -> TrialOutcome:
    return guarded(partial(_run, scenario, run))


def _run(scenario: Scenario, run: Simulation) -> TrialOutcome:
    failure: Exception | None = None
    with run.kernel as kernel:
        try:
            scenario(run)
        except TaskFailedError as error:
            failure = error.__cause__ if isinstance(error.__cause__, Exception) else error
        except Exception as error:
            failure = error
        digest = kernel.digest()
    return TrialOutcome(
        failure,
        digest,
        kernel.steps,
        dict(run.fired),
        run.enabled,
        tuple(run.choices.draws()),
        run.operations,
        kernel.schedule,
        tuple(run.crashes),
    )
