"""Search: runs a program under every schedule within a bound, once per schedule.

In the default schedule each task runs until it blocks, and the next task is the one that became runnable first.
`BoundedPolicy` follows the default schedule with given deviations, and records other possible deviations. A deviation
is printed as its point and its choice:

    118:1       at point 118, the first of the tasks that could run instead of the running one
    204~1:2     at the first forced switch after point 204, the second of the tasks after the default one

The search stores only the decisions of the last run. The next schedule repeats them up to the last decision with an
untried option, chooses this option, then follows the default. Cheap schedules run first, so the search finds a failure
with the fewest deviations.

    kind         cost of a schedule
    preemptions  1 for each switch away from a task that could continue; a switch is free if the task blocks or ends
    delays       at each decision, the number of tasks before the chosen one in the order of the default schedule

Choices at forced switches cost no preemption. If tasks block often, this permits too many schedules, so use delays.

Sources: Musuvathi, Qadeer, Iterative Context Bounding for Systematic Testing of Multithreaded Programs, PLDI 2007;
Emmi, Qadeer, Rakamaric, Delay-Bounded Scheduling, POPL 2011, with a queue in which a delayed task keeps its place.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from .errors import ReplayDivergedError
from .machine import SimTask
from .policies import ENDLESS, Policy
from .policies.replay import default_choice
from .schedule import FORCED

T = TypeVar("T")
KINDS = ("preemptions", "delays")
_ENTRY = re.compile(r"(\d+)(?:~([1-9]\d*))?:([1-9]\d*)")


class ScheduleDeviation(NamedTuple):
    """One choice other than the default."""

    step: int
    """Number of scheduling points passed, including the point of the deviation."""
    forced: int
    """0 if the running task could continue, n at the nth forced switch since the point."""
    option: int
    """Number from 1 of the chosen task among the other runnable tasks, in the order in which they became runnable."""

    def __str__(self) -> str:
        place = f"{self.step}~{self.forced}" if self.forced else f"{self.step}"
        return f"{place}:{self.option}"


def parse_deviations(text: str) -> tuple[ScheduleDeviation, ...]:
    deviations = []
    for entry in text.split():
        found = _ENTRY.fullmatch(entry)
        if found is None:
            raise ValueError(f"expected STEP:OPTION or STEP~SWITCH:OPTION, found {entry[:40]}")
        deviations.append(ScheduleDeviation(int(found[1]), int(found[2] or 0), int(found[3])))
    return tuple(deviations)


class SwitchPoint(NamedTuple):
    """One decision between several tasks, and its quantum."""

    step: int
    forced: int
    options: int
    option: int
    """The choice: 0 for the default, else as in `ScheduleDeviation`."""
    silent_to: int
    """Last point of the quantum. Each point after `step` up to this point allowed a preemption."""


class BoundedPolicy:
    """The default schedule with deviations.

    Invariant: the first `_taken` deviations have happened, each at its point.
    """

    name = "bounded"
    # A quantum ends when a task becomes runnable, so within a quantum the options stay the same. A quantum is recorded
    # as one decision, and points without a deviation cost no time.
    interrupts_on_wake = True

    def __init__(self, deviations: Sequence[ScheduleDeviation] = ()) -> None:
        self._deviations = deviations
        self._taken = 0
        self._decisions: list[SwitchPoint] = []
        self._last_decision: SwitchPoint | None = None  # the last decision while its quantum lasts
        self._is_contested = False
        self._granted: SimTask | None = None
        self._granted_parks = 0
        self._forced_at = (0, 0)  # (step, number of forced decisions at this step so far)

    @property
    def unused_deviations(self) -> Sequence[ScheduleDeviation]:
        """Return the deviations that have not happened: none after a complete run of unchanged code."""
        return self._deviations[self._taken :]

    def decisions(self) -> list[SwitchPoint]:
        if self._granted is not None:
            self._end_quantum(self._granted, self._granted.machine.kernel.steps)
        return self._decisions

    def choose_task(self, runnable: Sequence[SimTask], current: SimTask | None, label: str, step: int) -> int:
        """Choose the task of a deviation or the default. Raises ReplayDivergedError if too few tasks are runnable."""
        if self._granted is not None:
            self._end_quantum(self._granted, step)
        forced = 0
        if label.startswith(FORCED):
            at, count = self._forced_at
            forced = count + 1 if at == step else 1
            self._forced_at = (step, forced)
        option = self._option_of_step(step, forced, len(runnable))
        self._last_decision = SwitchPoint(step, forced, len(runnable), option, step)
        self._is_contested = True
        default = default_choice(runnable, current, label)
        if option == 0:
            return default
        return option - 1 if option <= default else option

    def quantum(self, chosen: SimTask, step: int) -> int:
        if not self._is_contested and self._granted is not None:
            self._end_quantum(self._granted, step)
        self._is_contested = False
        self._granted, self._granted_parks = chosen, chosen.park_number
        if self._taken < len(self._deviations):
            deviation = self._deviations[self._taken]
            if not deviation.forced:  # the kernel calls `choose_task` at every forced switch
                return max(0, deviation.step - step - 1)
        return ENDLESS

    def _option_of_step(self, step: int, forced: int, options: int) -> int:
        if self._taken == len(self._deviations):
            return 0
        deviation = self._deviations[self._taken]
        if (step, forced) < deviation[:2]:
            return 0
        if (step, forced) > deviation[:2] or deviation.option >= options:
            found = f"{options} options at {step}~{forced}"
            raise ReplayDivergedError("deviations", self._taken, str(deviation), found)
        self._taken += 1
        return deviation.option

    def _end_quantum(self, granted: SimTask, step: int) -> None:
        """Record the last point of the quantum. step: number of points passed so far."""
        if self._last_decision is None:
            return
        is_at_point = not granted.ended and granted.park_number == self._granted_parks
        # True if the task is at a point that is being decided, or was killed at this point.
        passed = step - 1 if is_at_point else step
        self._decisions.append(self._last_decision._replace(silent_to=max(passed, self._last_decision.step)))
        self._last_decision = None


@dataclass(frozen=True, slots=True)
class ScheduleRun(Generic[T]):
    """One schedule and the result of its run."""

    schedule: str
    """Deviations, for `parse_deviations`; empty for the default schedule."""
    cost: int
    result: T


class ScheduleSearch(Generic[T]):
    """One pass over all schedules. The counts are final at the end of the pass."""

    def __init__(self, run: Callable[[Policy], T], bound: int, kind: str, limit: int | None, after: str | None) -> None:
        if kind not in KINDS:
            raise ValueError(f"kind: expected one of {', '.join(KINDS)}, found {kind}")
        if bound < 0 or (limit is not None and limit < 1):
            raise ValueError(f"bound, limit: expected at least 0 and 1, found {bound} and {limit}")
        self.bound = bound
        self.kind = kind
        self.by_cost: list[int] = []
        """Number of explored schedules, by cost."""
        self.is_complete = False
        """Whether every schedule within the bound was explored, by this search or the search up to `after`."""
        self.runs = 0
        """Number of runs, including repeated runs of cheaper schedules on the way to more expensive ones."""
        self._run = run
        self._limit = limit
        self._after = None if after is None else parse_deviations(after)

    @property
    def explored(self) -> int:
        return sum(self.by_cost)

    def __str__(self) -> str:
        count = f"{self.explored:,}".replace(",", " ")
        extent = f"schedules with ≤ {self.bound} {self.kind}"
        if not self.is_complete:
            return f"first {count} of more {extent}"
        return f"all {count} {extent}" if self._after is None else f"last {count} {extent}"

    def __iter__(self) -> Iterator[ScheduleRun[T]]:
        """Yield the schedules up to the limit. An exception in a run ends the search."""
        first, level = self._first_schedule()
        self.by_cost = [0] * level
        for cost in range(level, self.bound + 1):
            self.by_cost.append(0)
            deviations = first if cost == level else ()
            while deviations is not None:
                result, decisions = self._run_schedule(deviations)
                if self._total_cost(decisions) == cost:
                    if self.explored == self._limit:  # one more schedule exists, so the search is not complete
                        return
                    self.by_cost[cost] += 1
                    yield ScheduleRun(" ".join(map(str, deviations)), cost, result)
                deviations = self._next_schedule(decisions, cost)
            if not self.by_cost[cost] and (self._after is None or cost > level):
                break  # no schedule has this cost, so no schedule has a higher cost
        self.is_complete = True

    def _first_schedule(self) -> tuple[tuple[ScheduleDeviation, ...] | None, int]:
        if self._after is None:
            return (), 0
        _, decisions = self._run_schedule(self._after)
        level = self._total_cost(decisions)
        if level > self.bound:
            raise ValueError(f"after: expected ≤ {self.bound} {self.kind}, found {level}")
        return self._next_schedule(decisions, level), level

    def _run_schedule(self, deviations: tuple[ScheduleDeviation, ...]) -> tuple[T, list[SwitchPoint]]:
        policy = BoundedPolicy(deviations)
        result = self._run(policy)
        self.runs += 1
        if policy.unused_deviations:
            index = len(deviations) - len(policy.unused_deviations)
            raise ReplayDivergedError("deviations", index, str(policy.unused_deviations[0]), "the end of the run")
        return result, policy.decisions()

    def _next_schedule(self, decisions: list[SwitchPoint], bound: int) -> tuple[ScheduleDeviation, ...] | None:
        """Return the next schedule, with another option at the last decision that has such an option within the bound.

        Tries the points of a quantum from the last to the first, then the decision at its start.
        """
        total = self._total_cost(decisions)
        for index in range(len(decisions) - 1, -1, -1):
            decision = decisions[index]
            if decision.silent_to > decision.step and total + self._deviation_cost(0, 1) <= bound:
                return (*_deviations(decisions[: index + 1]), ScheduleDeviation(decision.silent_to, 0, 1))
            step, forced, options, option, _ = decision
            total -= self._deviation_cost(forced, option)
            if option + 1 < options and total + self._deviation_cost(forced, option + 1) <= bound:
                return (*_deviations(decisions[:index]), ScheduleDeviation(step, forced, option + 1))
        return None

    def _total_cost(self, decisions: list[SwitchPoint]) -> int:
        return sum(self._deviation_cost(decision.forced, decision.option) for decision in decisions)

    def _deviation_cost(self, forced: int, option: int) -> int:
        if self.kind == "delays":
            return option
        return 1 if option and not forced else 0


def explore_schedules(
    run: Callable[[Policy], T],
    bound: int,
    kind: str = "preemptions",
    limit: int | None = None,
    after: str | None = None,
) -> ScheduleSearch[T]:
    """Return a search that runs a program under every schedule within a bound and yields the results.

    run makes a new kernel with the given policy, and must depend only on the schedule. kind: the unit of bound, see the
    module. limit: maximum number of schedules. after: continue after this schedule of an earlier search of the same
    kind.

    Raises ValueError for invalid arguments. The iteration raises exceptions of run, and ReplayDivergedError if the
    program changed between runs or since the search that returned `after`.
    """
    return ScheduleSearch(run, bound, kind, limit, after)


def _deviations(decisions: list[SwitchPoint]) -> tuple[ScheduleDeviation, ...]:
    kept = [decision for decision in decisions if decision.option]
    return tuple(ScheduleDeviation(one.step, one.forced, one.option) for one in kept)
