"""Search: every schedule within a bound, each exactly once, by running the program again and again.

The default schedule lets each task run until it blocks; the next is then the one that has been runnable for longest. A
`Bounded` policy follows that but for some given deviations, and notes where else it could have deviated. A deviation is
named by where it happens, and prints as

    118:1       at point 118, the first of those who could go instead of the running task
    204~1:2     at the first forced switch behind point 204, the second of those behind the default one

Nothing is stored but the decisions of the run before: the next schedule shares all of them up to the last one that
leaves an option untried, and follows the default from there on. Cheap schedules come first, so that a failure is found
with as few deviations as it takes.

    kind         what a schedule costs
    preemptions  1 for each switch away from a task that could go on; where one blocks or ends, anybody may be next
    delays       at each decision, how many tasks are passed over that would have had their turn before who runs

Where tasks block often, free choices at forced switches multiply beyond any bound on preemptions: there, count delays.

Sources: Musuvathi, Qadeer, Iterative Context Bounding for Systematic Testing of Multithreaded Programs, PLDI 2007;
Emmi, Qadeer, Rakamaric, Delay-Bounded Scheduling, POPL 2011, with a queue that a delayed task keeps its place in.
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
    """At this decision, somebody else than the default."""

    step: int
    """Scheduling points passed so far, with the one that is decided at."""
    forced: int
    """0: the running task could go on; 1, 2, …: the number of a forced switch since that point."""
    option: int
    """1, 2, …: who runs instead, the others counted in the order of becoming runnable."""

    def __str__(self) -> str:
        place = f"{self.step}~{self.forced}" if self.forced else f"{self.step}"
        return f"{place}:{self.option}"


def parse_deviations(text: str) -> tuple[ScheduleDeviation, ...]:
    """Return the deviations that a text lists between spaces; ValueError naming the entry that is none."""
    deviations = []
    for entry in text.split():
        found = _ENTRY.fullmatch(entry)
        if found is None:
            raise ValueError(f"expected STEP:OPTION or STEP~SWITCH:OPTION, found {entry[:40]}")
        deviations.append(ScheduleDeviation(int(found[1]), int(found[2] or 0), int(found[3])))
    return tuple(deviations)


class SwitchPoint(NamedTuple):
    """One decision between several tasks, and the points behind it that could have been decisions among as many."""

    step: int
    forced: int
    options: int
    """How many tasks could run, the default among them."""
    option: int
    """Who was chosen: 0 for the default, else as in a deviation."""
    silent_to: int
    """The last point the chosen task passed in its quantum: at each from step + 1 on it could have been another."""


class Bounded:
    """The default schedule but for some deviations. Invariant: the first `_taken` have happened, each in its place."""

    name = "bounded"
    # So that nobody becomes runnable within a quantum: who could run stays the same from one decision to the next, a
    # quantum is noted as one decision, and points at which the run does not deviate do not slow it down.
    interrupts_on_wake = True

    def __init__(self, deviations: Sequence[ScheduleDeviation] = ()) -> None:
        self._deviations = deviations
        self._taken = 0
        self._decisions: list[SwitchPoint] = []
        self._open: SwitchPoint | None = None  # the latest, while its quantum runs
        self._is_contested = False
        self._granted: SimTask | None = None
        self._granted_parks = 0
        self._forced_at = (0, 0)  # a step, and how many forced decisions there have been at it

    @property
    def untaken(self) -> Sequence[ScheduleDeviation]:
        """Return the deviations that have not happened; none after a whole run of the code they were made for."""
        return self._deviations[self._taken :]

    def decisions(self) -> list[SwitchPoint]:
        """Return every decision of a run that is over."""
        if self._granted is not None:
            self._close(self._granted, self._granted.machine.kernel.steps)
        return self._decisions

    def choose(self, runnable: Sequence[SimTask], current: SimTask | None, label: str, step: int) -> int:
        """Return the default, or who a deviation says; ReplayDivergedError if there is nobody of that number."""
        if self._granted is not None:
            self._close(self._granted, step)
        forced = 0
        if label.startswith(FORCED):
            at, count = self._forced_at
            forced = count + 1 if at == step else 1
            self._forced_at = (step, forced)
        option = self._option(step, forced, len(runnable))
        self._open = SwitchPoint(step, forced, len(runnable), option, step)
        self._is_contested = True
        default = default_choice(runnable, current, label)
        if option == 0:
            return default
        return option - 1 if option <= default else option

    def quantum(self, chosen: SimTask, step: int) -> int:
        """Grant everything up to the next deviation."""
        if not self._is_contested and self._granted is not None:
            self._close(self._granted, step)
        self._is_contested = False
        self._granted, self._granted_parks = chosen, chosen.park_number
        if self._taken < len(self._deviations):
            deviation = self._deviations[self._taken]
            if not deviation.forced:  # a forced switch comes by itself
                return max(0, deviation.step - step - 1)
        return ENDLESS

    def _option(self, step: int, forced: int, options: int) -> int:
        """Return who is to run here, and check that no deviation has been passed by."""
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

    def _close(self, granted: SimTask, step: int) -> None:
        """Note how far the quantum of the latest decision went, now that step points have been passed."""
        if self._open is None:
            return
        stands_there = not granted.ended and granted.park_number == self._granted_parks
        # Standing at a point, it is asked about it, or was lost to a kill there.
        passed = step - 1 if stands_there else step
        self._decisions.append(self._open._replace(silent_to=max(passed, self._open.step)))
        self._open = None


@dataclass(frozen=True, slots=True)
class ScheduleRun(Generic[T]):
    """One schedule, and what its run gave."""

    schedule: str
    """Its deviations from the default, which `parse_deviations` reads; empty for the default itself."""
    cost: int
    """Preemptions or delays in it."""
    result: T


class ScheduleSearch(Generic[T]):
    """Iterate over it once; its counts are final when it ends."""

    def __init__(self, run: Callable[[Policy], T], bound: int, kind: str, limit: int | None, after: str | None) -> None:
        if kind not in KINDS:
            raise ValueError(f"kind: expected one of {', '.join(KINDS)}, found {kind}")
        if bound < 0 or (limit is not None and limit < 1):
            raise ValueError(f"bound, limit: expected at least 0 and 1, found {bound} and {limit}")
        self.bound = bound
        self.kind = kind
        self.by_cost: list[int] = []
        """Schedules explored, of cost 0, 1, 2, …"""
        self.is_complete = False
        """Whether every schedule within the bound has been explored, here or up to `after`."""
        self.runs = 0
        """Runs made: those of cheaper schedules are made again to find the dearer ones behind them."""
        self._run = run
        self._limit = limit
        self._after = None if after is None else parse_deviations(after)

    @property
    def explored(self) -> int:
        """Return how many schedules have been explored."""
        return sum(self.by_cost)

    def __str__(self) -> str:
        """Say what has been explored, and whether that is all there is."""
        count = f"{self.explored:,}".replace(",", " ")
        extent = f"schedules with ≤ {self.bound} {self.kind}"
        if not self.is_complete:
            return f"first {count} of more {extent}"
        return f"all {count} {extent}" if self._after is None else f"last {count} {extent}"

    def __iter__(self) -> Iterator[ScheduleRun[T]]:
        """Yield every schedule within the bound, or as many as the limit lets. What a run raises ends the search."""
        first, level = self._first()
        self.by_cost = [0] * level
        for cost in range(level, self.bound + 1):
            self.by_cost.append(0)
            deviations = first if cost == level else ()
            while deviations is not None:
                result, decisions = self._execute(deviations)
                if self._total(decisions) == cost:
                    if self.explored == self._limit:  # there is indeed one more
                        return
                    self.by_cost[cost] += 1
                    yield ScheduleRun(" ".join(map(str, deviations)), cost, result)
                deviations = self._next(decisions, cost)
            if not self.by_cost[cost] and (self._after is None or cost > level):
                break  # nothing costs as much, so nothing costs more
        self.is_complete = True

    def _first(self) -> tuple[tuple[ScheduleDeviation, ...] | None, int]:
        """Return where to begin, and the cost of the schedules that are looked for first."""
        if self._after is None:
            return (), 0
        _, decisions = self._execute(self._after)
        level = self._total(decisions)
        if level > self.bound:
            raise ValueError(f"after: expected ≤ {self.bound} {self.kind}, found {level}")
        return self._next(decisions, level), level

    def _execute(self, deviations: tuple[ScheduleDeviation, ...]) -> tuple[T, list[SwitchPoint]]:
        policy = Bounded(deviations)
        result = self._run(policy)
        self.runs += 1
        if policy.untaken:
            index = len(deviations) - len(policy.untaken)
            raise ReplayDivergedError("deviations", index, str(policy.untaken[0]), "the end of the run")
        return result, policy.decisions()

    def _next(self, decisions: list[SwitchPoint], bound: int) -> tuple[ScheduleDeviation, ...] | None:
        """Return what to try after a run that decided so: another option at the last decision that affords one.

        The points of a quantum come after the decision that began it, the last of them first.
        """
        total = self._total(decisions)
        for index in range(len(decisions) - 1, -1, -1):
            decision = decisions[index]
            if decision.silent_to > decision.step and total + self._cost(0, 1) <= bound:
                return (*_deviations(decisions[: index + 1]), ScheduleDeviation(decision.silent_to, 0, 1))
            step, forced, options, option, _ = decision
            total -= self._cost(forced, option)
            if option + 1 < options and total + self._cost(forced, option + 1) <= bound:
                return (*_deviations(decisions[:index]), ScheduleDeviation(step, forced, option + 1))
        return None

    def _total(self, decisions: list[SwitchPoint]) -> int:
        return sum(self._cost(decision.forced, decision.option) for decision in decisions)

    def _cost(self, forced: int, option: int) -> int:
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
    """Return a search that runs a program under every schedule within a bound, and yields what each run gave.

    run makes a new kernel with the policy it is given, and must do the same whenever the schedule is the same. kind:
    what the bound counts, see above. limit: of schedules yielded. after: a schedule that an earlier search of the same
    kind yielded; this one goes on behind it.

    Raises ValueError for arguments that make no sense; iterating, ReplayDivergedError if the program changes from run
    to run, or is not the one that `after` is from, and whatever run raises.
    """
    return ScheduleSearch(run, bound, kind, limit, after)


def _deviations(decisions: list[SwitchPoint]) -> tuple[ScheduleDeviation, ...]:
    kept = [decision for decision in decisions if decision.option]
    return tuple(ScheduleDeviation(one.step, one.forced, one.option) for one in kept)
