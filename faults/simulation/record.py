"""Records: what decides a run in names that outlive other code. They are made of a run, and followed again.

Three kinds of decision are recorded: random draws, task switches, and the operation at which each machine crashes. A
decision is identified by label and occurrence, not by a global index, so a draw more in one component renumbers nothing
else. Only deviations from the default are stored: a draw that is not mentioned returns 0, by convention the harmless
outcome. A replay therefore always completes. It lists the recorded decisions that no longer occur, and digests say
whether it was the same execution.

A program is what is run: a user's own scenario, a store's plan. It is a function of its setup and one `Simulation`.
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
"""Streams of which the outcome is in a record, not the draws: setup and schedule."""


class Judged(Protocol):
    """What is asked of the result of a program."""

    @property
    def digest(self) -> str:
        """Return that of the kernel when the run was over."""

    @property
    def signature(self) -> str:
        """Return what makes two failures the same; empty: nothing failed."""


_NOUN = {Decision: "decision", Switch: "switch", Crash: "crash"}

Setup = TypeVar("Setup", bound=Hashable)
Result = TypeVar("Result", bound=Judged)
Program = Callable[[Setup, Simulation], Result]


@dataclass(frozen=True, slots=True)
class Record(Decided, Generic[Setup]):
    """What decides a run: beside draws and schedule, how its lives end, and what its program was given."""

    crashes: tuple[Crash, ...]
    setup: Setup


@dataclass(frozen=True, slots=True)
class RecordReplay(Generic[Setup, Result]):
    """What a record led to, and what of it the run never came to: nothing as long as record and code fit."""

    record: Record[Setup]
    """What did happen of the record that was followed."""
    result: Result
    simulation: Simulation
    gone: tuple[Decision | Switch | Crash, ...]
    changed: tuple[tuple[Decision, int], ...]
    """Decisions that are made out of more or fewer options now, and of how many: they may mean another thing."""

    @property
    def gone_lines(self) -> list[str]:
        """Return a line for each recorded decision that did not occur."""
        return [f"{_NOUN[type(one)]} {one}" for one in self.gone]

    @property
    def changed_lines(self) -> list[str]:
        """Return a line for each decision that is made out of more or fewer options now."""
        return [f"decision {decision}, now of {options}" for decision, options in self.changed]

    def is_same(self, run: Judged) -> bool:
        """Return whether this is that run, nothing less and nothing else."""
        return not self.gone and _facts(self.result) == _facts(run)


def execute(program: Program[Setup, Result], setup: Setup, simulation: Simulation) -> Result:
    """Run a program. Raises LeakError if a task reached past its world."""
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
    """Run a record again as far as the code follows it: where it does not, nothing special happens.

    policy: decides in place of the record's schedule; all that ran then stands in the replay's own record.
    """
    choices, schedule = Choices.replaying(record.decisions), Replay(record.schedule)
    simulation = Simulation(choices, policy or schedule, crashes=record.crashes, trace=trace, step_limit=step_limit)
    result = execute(program, record.setup, simulation)
    made = Record(tuple(choices.decisions()), tuple(schedule.followed), simulation.crashes, record.setup)
    missed = (crash for crash in record.crashes if crash not in simulation.crashes)
    gone = (*choices.unmet(), *(() if policy else schedule.unmet), *missed)
    return RecordReplay(made, result, simulation, gone, tuple(choices.changed()))


def record_of(
    program: Program[Setup, Result],
    setup: Setup,
    first: Simulation,
    found: Result,
    trace: Trace | None = None,
) -> RecordReplay[Setup, Result]:
    """Return the record of a run that was made, found by running it once more in labels.

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
    """Return a record's replay: whole, to a failure, and twice alike. Raises ReplayDivergedError if it is not."""
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
