"""Search: every schedule within a bound, each exactly once, by running the program again and again.

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

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from .errors import ReplayDivergedError
from .policies import Policy
from .policies.bounded import Bounded, ScheduleDeviation, SwitchPoint, parse_deviations

T = TypeVar("T")
KINDS = ("preemptions", "delays")


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

    def __init__(
        self, run: Callable[[Policy], T], bound: int, kind: str, limit: int | None, after: str | None
    ) -> None:
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
    return tuple(
        ScheduleDeviation(decision.step, decision.forced, decision.option)
        for decision in decisions
        if decision.option
    )
