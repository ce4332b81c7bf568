"""Records: store the decisions of a run under names that survive changes of the code.

A record has random choices, task switches, and the operation at which each machine crashes. Label and occurrence
identify a decision, so an additional choice in one component does not renumber others. A record stores only deviations
from the default: a choice without an entry returns 0, by convention the harmless outcome. So a replay always completes,
and then lists the recorded decisions that did not occur. Equal digests prove equal executions.

A program is a function of a setup and a `Simulation`. It runs a user's scenario or a plan for the store.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

from ...sim.choices import Choices, Decision
from ...sim.determinism import run_guarded
from ...sim.errors import ReplayDivergedError
from ...sim.policies import Policy
from ...sim.policies.replay import LabellingPolicy, ReplayPolicy
from ...sim.process import collect_garbage_at_end
from ...sim.schedule import TaskSwitch
from ...sim.shrink import RunDecisions
from ...sim.trace import Trace
from .simulation import STEP_LIMIT, Crash, Simulation

_SEED_STREAMS = ("plan", "schedule")
"""Streams without recorded decisions: the record has the setup and the schedule."""


class Judged(Protocol):
    """The result of a program, with its verdict."""

    @property
    def digest(self) -> str: ...

    @property
    def signature(self) -> str:
        """Identity of the failure, or "". Runs with equal signatures fail in the same way."""


_NOUN = {Decision: "decision", TaskSwitch: "switch", Crash: "crash"}

Setup = TypeVar("Setup", bound=Hashable)
Result = TypeVar("Result", bound=Judged)
Program = Callable[[Setup, Simulation], Result]


@dataclass(frozen=True, slots=True)
class Record(RunDecisions, Generic[Setup]):
    """All decisions of a run, and the setup of its program."""

    crashes: tuple[Crash, ...]
    setup: Setup


@dataclass(frozen=True, slots=True)
class RecordReplay(Generic[Setup, Result]):
    """A replay, and the recorded decisions that did not occur because the code has changed."""

    record: Record[Setup]
    result: Result
    simulation: Simulation
    gone: tuple[Decision | TaskSwitch | Crash, ...]
    changed: tuple[tuple[Decision, int], ...]
    """Recorded decisions that now have another number of options, with that number. Their values may have another
    meaning now.
    """

    @property
    def unmet_lines(self) -> list[str]:
        return [f"{_NOUN[type(one)]} {one}" for one in self.gone]

    @property
    def changed_lines(self) -> list[str]:
        return [f"decision {decision}, now of {options}" for decision, options in self.changed]

    def is_same(self, run: Judged) -> bool:
        """Whether the replay followed the whole record to the digest and signature of `run`."""
        return not self.gone and _digest_and_signature(self.result) == _digest_and_signature(run)


def execute(program: Program[Setup, Result], setup: Setup, simulation: Simulation) -> Result:
    """Run a program. LeakError: a task used a resource outside its world."""
    with collect_garbage_at_end():
        return run_guarded(partial(program, setup, simulation))


def replay(
    program: Program[Setup, Result],
    record: Record[Setup],
    trace: Trace | None = None,
    *,
    policy: Policy | None = None,
    step_limit: int = STEP_LIMIT,
) -> RecordReplay[Setup, Result]:
    """Replay a record. Skip recorded decisions that do not occur; unrecorded decisions have their defaults.

    policy: replaces the schedule, also in the new record.
    """
    choices, schedule = Choices.for_replay(record.decisions), ReplayPolicy(record.schedule)
    simulation = Simulation(choices, policy or schedule, crashes=record.crashes, trace=trace, step_limit=step_limit)
    result = execute(program, record.setup, simulation)
    made = Record(tuple(choices.decisions()), tuple(schedule.followed), simulation.crashes, record.setup)
    missed = (crash for crash in record.crashes if crash not in simulation.crashes)
    gone = (*choices.unused_decisions(), *(() if policy else schedule.unused_switches), *missed)
    return RecordReplay(made, result, simulation, gone, tuple(choices.changed_draws()))


def record_of(
    program: Program[Setup, Result], setup: Setup, first: Simulation, found: Result, trace: Trace | None = None
) -> RecordReplay[Setup, Result]:
    """Return the record of a finished run. A second run finds the labels of the task switches.

    ReplayDivergedError: the run cannot be repeated.
    """
    decisions = tuple(one for one in first.choices.decisions() if one.stream not in _SEED_STREAMS)
    choices, schedule = Choices.for_replay(decisions), LabellingPolicy(first.kernel.schedule)
    again = Simulation(choices, schedule, crashes=first.crashes, trace=trace)
    result = execute(program, setup, again)
    before, after = _digest_and_signature(found), _digest_and_signature(result)
    assert schedule.remaining_switches >= 0, schedule.remaining_switches
    if before != after or schedule.remaining_switches or choices.unused_decisions():
        raise ReplayDivergedError("run", 0, before, after)
    record = Record(decisions, tuple(schedule.labelled), first.crashes, setup)
    return RecordReplay(record, result, again, (), ())


def verify_record(
    program: Program[Setup, Result], record: Record[Setup], trace: Trace | None = None
) -> RecordReplay[Setup, Result]:
    """Replay a record twice, and return the second replay.

    ReplayDivergedError: a decision does not occur, the run does not fail, or the replays differ.
    """
    first = replay(program, record)
    second = replay(program, record, trace)
    if first.gone or not first.result.signature:
        found = str(first.gone[0]) if first.gone else "no failure"
        raise ReplayDivergedError("record", 0, "the whole record and a failure", found)
    if not second.is_same(first.result):
        raise ReplayDivergedError("run", 0, first.result.digest, second.result.digest)
    return second


def _digest_and_signature(run: Judged) -> tuple[str, str]:
    return run.digest, run.signature
