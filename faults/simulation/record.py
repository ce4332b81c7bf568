"""Records: the decisions of a run, in names that survive changes of the code.

Three kinds of decision are recorded: random draws, task switches, and the operation at which each machine crashes. A
decision is identified by label and occurrence, not by a global index, so an additional draw in one component does not
renumber other decisions. Only deviations from the default are stored: a draw without an entry returns 0, by convention
the harmless outcome. So a replay always completes. It lists the recorded decisions that no longer occur. Equal digests
prove that the execution was the same.

A program is a function of a setup and a `Simulation`. It runs a user's scenario or a plan for the store.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

from ...sim.choices import Choices, Decision
from ...sim.determinism import guarded
from ...sim.errors import ReplayDivergedError
from ...sim.policies import Policy
from ...sim.policies.replay import Labelling, Replay
from ...sim.process import garbage_kept
from ...sim.schedule import Switch
from ...sim.shrink import Decided
from ...sim.trace import Trace
from .simulation import STEP_LIMIT, Crash, Simulation

_SEED_STREAMS = ("plan", "schedule")
"""The record has the results of these streams (setup and schedule), not the draws."""


class Judged(Protocol):
    """The result of a program, with the judge's verdict."""

    @property
    def digest(self) -> str:
        """Return the kernel's digest at the end of the run."""

    @property
    def signature(self) -> str:
        """Return the identity of the failure. Runs with equal signatures fail in the same way. Empty: no failure."""


_NOUN = {Decision: "decision", Switch: "switch", Crash: "crash"}

Setup = TypeVar("Setup", bound=Hashable)
Result = TypeVar("Result", bound=Judged)
Program = Callable[[Setup, Simulation], Result]


@dataclass(frozen=True, slots=True)
class Record(Decided, Generic[Setup]):
    """All decisions of a run: draws, schedule, crashes, and the setup of its program."""

    crashes: tuple[Crash, ...]
    setup: Setup


@dataclass(frozen=True, slots=True)
class RecordReplay(Generic[Setup, Result]):
    """The result of a replay, and the recorded decisions that did not occur. If the code has not changed, all occur."""

    record: Record[Setup]
    """The decisions that did occur in the replay."""
    result: Result
    simulation: Simulation
    gone: tuple[Decision | Switch | Crash, ...]
    changed: tuple[tuple[Decision, int], ...]
    """Decisions whose number of options has changed, with the new number. Their values may have another meaning now."""

    @property
    def gone_lines(self) -> list[str]:
        """Return a line for each recorded decision that did not occur."""
        return [f"{_NOUN[type(one)]} {one}" for one in self.gone]

    @property
    def changed_lines(self) -> list[str]:
        """Return a line for each decision whose number of options has changed."""
        return [f"decision {decision}, now of {options}" for decision, options in self.changed]

    def is_same(self, run: Judged) -> bool:
        """Return whether the replay followed the whole record and ended with the digest and signature of `run`."""
        return not self.gone and _facts(self.result) == _facts(run)


def execute(program: Program[Setup, Result], setup: Setup, simulation: Simulation) -> Result:
    """Run a program. LeakError: a task used a resource outside its world."""
    with garbage_kept():
        return guarded(partial(program, setup, simulation))


def replay(
    program: Program[Setup, Result],
    record: Record[Setup],
    trace: Trace | None = None,
    *,
    policy: Policy | None = None,
    step_limit: int = STEP_LIMIT,
) -> RecordReplay[Setup, Result]:
    """Replay a record. Recorded decisions that do not occur are skipped, and unrecorded ones take their defaults.

    policy: replaces the schedule of the record. The resulting record then has the new schedule.
    """
    choices, schedule = Choices.replaying(record.decisions), Replay(record.schedule)
    simulation = Simulation(choices, policy or schedule, crashes=record.crashes, trace=trace, step_limit=step_limit)
    result = execute(program, record.setup, simulation)
    made = Record(tuple(choices.decisions()), tuple(schedule.followed), simulation.crashes, record.setup)
    missed = (crash for crash in record.crashes if crash not in simulation.crashes)
    gone = (*choices.unmet(), *(() if policy else schedule.unmet), *missed)
    return RecordReplay(made, result, simulation, gone, tuple(choices.changed()))


def record_of(
    program: Program[Setup, Result], setup: Setup, first: Simulation, found: Result, trace: Trace | None = None
) -> RecordReplay[Setup, Result]:
    """Return the record of a finished run. The run is repeated once to get the labels of its task switches.

    Raises ReplayDivergedError if the run cannot be repeated.
    """
    decisions = tuple(one for one in first.choices.decisions() if one.stream not in _SEED_STREAMS)
    choices, schedule = Choices.replaying(decisions), Labelling(first.kernel.schedule)
    again = Simulation(choices, schedule, crashes=first.crashes, trace=trace)
    result = execute(program, setup, again)
    before, after = _facts(found), _facts(result)
    assert schedule.left >= 0, schedule.left
    if before != after or schedule.left or choices.unmet():
        raise ReplayDivergedError("run", 0, before, after)
    record = Record(decisions, tuple(schedule.labelled), first.crashes, setup)
    return RecordReplay(record, result, again, (), ())


def verify(
    program: Program[Setup, Result], record: Record[Setup], trace: Trace | None = None
) -> RecordReplay[Setup, Result]:
    """Replay a record twice, and return the second replay.

    Raises ReplayDivergedError if a decision does not occur, the run does not fail, or the two replays differ.
    """
    first = replay(program, record)
    second = replay(program, record, trace)
    if first.gone or not first.result.signature:
        found = str(first.gone[0]) if first.gone else "no failure"
        raise ReplayDivergedError("record", 0, "all of it, and a failure", found)
    if not second.is_same(first.result):
        raise ReplayDivergedError("run", 0, first.result.digest, second.result.digest)
    return second


def _facts(run: Judged) -> tuple[str, str]:
    return run.digest, run.signature
