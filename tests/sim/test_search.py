from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pytest

from tests.sim.rigs import make
from tornlog.sim.errors import DeadlockError, MachineDied, ReplayDivergedError
from tornlog.sim.kernel import Kernel
from tornlog.sim.machine import SimTask
from tornlog.sim.policies import Policy
from tornlog.sim.schedule import FORCED
from tornlog.sim.search import KINDS, BoundedPolicy, ScheduleSearch, explore_schedules, parse_deviations

Trace = tuple[str, ...]

PROGRAMS = {
    "one task": ("pp",),
    "two tasks of one point": ("p", "p"),
    "two tasks": ("ppp", "ppp"),
    "uneven": ("p", "pppp"),
    "three tasks": ("pp", "pp", "pp"),
    "four tasks": ("p", "p", "p", "p"),
    "a lock": ("LpUp", "pLpU"),
    "a lock that three contend for": ("LpU", "LU", "pLU"),
    "waiting for a notice": ("pW", "pN", "p"),
    "sleep": ("Sp", "pS", "pp"),
    "nothing but sleep": ("S", "S", "S"),
}
"""One string per task. p: pass a point; L, U: lock, unlock; N, W: notify, wait; S: sleep 1 ms."""


def run_program(program: Sequence[str], policy: Policy) -> Trace:
    """Run a program, and a task that joins the others in order; return the order of operations."""
    kernel, machine = make(policy)
    tasks = machine.tasks
    cell, lock, signal = tasks.cell("c"), tasks.lock("l"), tasks.signal("s")
    does: dict[str, Callable[[], object]] = {
        "p": cell.get,
        "L": lock.__enter__,
        "U": lock.__exit__,
        "N": signal.notify,
        "W": lambda: signal.wait(None),
        "S": lambda: tasks.sleep(1),
    }
    trace: list[str] = []

    def body(name: str, operations: str) -> None:
        for operation in operations:
            does[operation]()
            trace.append(name + operation)

    joined = [
        kernel.spawn(machine, name, partial(body, name, operations))
        for name, operations in zip("abcd", program, strict=False)
    ]

    def main() -> None:
        for task in joined:
            task.join(None)
            trace.append("joined")

    kernel.run(machine, main, time_limit_ns=10**9)
    return tuple(trace)


@dataclass(frozen=True)
class State:
    """A state of a program, for a model without a kernel."""

    ready: tuple[int, ...]
    positions: tuple[int, ...]
    standing: frozenset[int] = frozenset()
    """Tasks that are at a point. Other tasks are new, or are about to check the condition of their wait again."""
    waiting: tuple[tuple[int, str], ...] = ()
    """Task and reason, in the order of parking."""
    locked: bool = False
    noticed: bool = False
    trace: Trace = ()
    cost: int = 0

    def on_parked(self, task: int, on: str) -> "State":
        ready = tuple(other for other in self.ready if other != task)
        return replace(self, ready=ready, waiting=(*self.waiting, (task, on)), standing=self.standing - {task})

    def woken(self, on: str, *, every: bool = False) -> "State":
        found = [entry for entry in self.waiting if entry[1] == on]
        found = found if every else found[:1]
        waiting = tuple(entry for entry in self.waiting if entry not in found)
        return replace(self, ready=(*self.ready, *(task for task, _ in found)), waiting=waiting)


class Model:
    """The same programs by recursion over every option, as an oracle."""

    def __init__(self, program: Sequence[str], kind: str) -> None:
        self._codes = [*program, "J" * len(program)]  # the last task joins all others
        self._names = [*"abcd"[: len(program)], "main"]
        self._counts_delays = kind == "delays"

    def schedules(self, bound: int) -> Iterator[tuple[Trace, int]]:
        tasks = tuple(range(len(self._codes)))
        yield from self._decide(State(tasks, (-1,) * len(tasks)), None, bound)

    def _decide(self, state: State, running: int | None, bound: int) -> Iterator[tuple[Trace, int]]:
        """Continue with every possible next task; the running task can continue."""
        if not state.ready:
            state = state.woken("S", every=True)
        # stable, so the other tasks keep the order in which they became ready
        order = sorted(state.ready, key=lambda task: task != running)
        for option, task in enumerate(order):
            cost = option if self._counts_delays else int(running is not None and option > 0)
            if state.cost + cost <= bound:
                yield from self._go(replace(state, cost=state.cost + cost), task, bound)

    def _go(self, state: State, task: int, bound: int) -> Iterator[tuple[Trace, int]]:
        """Do the task's next operation, and continue to its next point, wait or end."""
        code, position = self._codes[task], state.positions[task]
        if position >= 0:
            operation = code[position]
            if operation == "L" and state.locked:
                yield from self._decide(state.on_parked(task, "L"), None, bound)
                return
            if operation == "W" and not state.noticed:
                yield from self._decide(state.on_parked(task, "W"), None, bound)
                return
            if operation == "J" and state.positions[position] < len(self._codes[position]):
                yield from self._decide(state.on_parked(task, f"J{position}"), None, bound)
                return
            state = self._done(state, task, operation)
        position += 1
        positions = (*state.positions[:task], position, *state.positions[task + 1 :])
        state = replace(state, positions=positions)
        if position < len(code):
            if code[position] == "S":
                yield from self._decide(state.on_parked(task, "S"), None, bound)
            else:
                yield from self._decide(state, task, bound)
        elif self._names[task] == "main":
            yield state.trace, state.cost
        else:
            ready = tuple(other for other in state.ready if other != task)
            yield from self._decide(replace(state, ready=ready).woken(f"J{task}"), None, bound)

    def _done(self, state: State, task: int, operation: str) -> State:
        told = "joined" if operation == "J" else self._names[task] + operation
        state = replace(state, trace=(*state.trace, told))
        if operation == "L":
            return replace(state, locked=True)
        if operation == "U":
            return replace(state, locked=False).woken("L")
        if operation == "N" and not state.noticed:
            return replace(state, noticed=True).woken("W")
        if operation == "W":
            return replace(state, noticed=False)
        return state


class Naive:
    """A policy that follows a list of options at every point, and records the number of options there."""

    name = "naive"
    interrupts_on_wake = False

    def __init__(self, options: Sequence[int]) -> None:
        self._options = options
        self.seen: list[tuple[int, bool]] = []

    def choose_task(self, runnable: Sequence[SimTask], current: SimTask | None, label: str, step: int) -> int:
        at = len(self.seen)
        is_free = label.startswith(FORCED)
        self.seen.append((len(runnable), is_free))
        order = sorted(range(len(runnable)), key=lambda index: not is_free and runnable[index] is not current)
        return order[self._options[at] if at < len(self._options) else 0]

    def quantum(self, chosen: SimTask, step: int) -> int:
        return 0

    @staticmethod
    def explore(run: Callable[[Policy], str], bound: int, kind: str) -> Counter[str]:
        """Count the results of every schedule within the bound, by a search with a list of untried branches."""
        results: Counter[str] = Counter()
        left: list[list[int]] = [[]]
        while left:
            options = left.pop()
            policy = Naive(options)
            results[run(policy)] += 1
            for at in range(len(options), len(policy.seen)):
                count, is_free = policy.seen[at]
                costs = [*options, *[0] * (at - len(options))]
                spent = sum(
                    option if kind == "delays" else int(option > 0 and not policy.seen[number][1])
                    for number, option in enumerate(costs)
                )
                for option in range(1, count):
                    price = option if kind == "delays" else int(not is_free)
                    if spent + price <= bound:
                        left.append([*costs, option])
        return results


def crash_and_restart(policy: Policy) -> str:
    """Let one machine kill another and then itself, and run a second life. Return the digest."""
    kernel = Kernel(policy)
    first, victim, second = (kernel.create_machine(name) for name in ("first", "victim", "second"))
    cell = first.tasks.cell("c")
    victim.tasks.spawn("heart", lambda: [victim.tasks.sleep(0) for _ in range(2)])

    def killer() -> None:
        cell.get()
        kernel.kill(victim)
        cell.get()
        kernel.kill(first)
        cell.get()

    def life_1() -> None:
        first.tasks.spawn("killer", killer).join(None)

    def life_2() -> None:
        second.tasks.spawn("a", lambda: second.tasks.sleep(1))
        second.tasks.sleep(1)

    with pytest.raises(MachineDied):
        kernel.run(first, life_1, time_limit_ns=10**9)
    kernel.run(second, life_2, time_limit_ns=10**9)
    return kernel.digest()


def run_two_tasks(policy: Policy) -> Trace:
    return run_program(PROGRAMS["two tasks"], policy)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_the_search_finds_each_schedule_of_a_recursive_search_exactly_once(program: tuple[str, ...], kind: str) -> None:
    for bound in range(3):
        search = explore_schedules(partial(run_program, program), bound, kind)
        explored = list(search)

        assert Counter((found.result, found.cost) for found in explored) == Counter(
            Model(program, kind).schedules(bound)
        )
        assert len({found.schedule for found in explored}) == len(explored)
        assert search.is_complete
        assert search.explored == len(explored) == sum(search.by_cost)
        if len(explored) > 2500:
            break


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bound", [0, 1, 2])
def test_schedules_with_kills_and_several_lives_are_all_explored(bound: int, kind: str) -> None:
    found = Counter(explored.result for explored in explore_schedules(crash_and_restart, bound, kind))
    assert found == Naive.explore(crash_and_restart, bound, kind)
    assert max(found.values()) == 1  # a digest covers every switch: no two schedules are equal


def test_cheaper_schedules_are_explored_first_and_each_has_its_cost() -> None:
    costs = [found.cost for found in explore_schedules(run_two_tasks, 2, "delays")]
    assert costs == sorted(costs)
    assert costs[0] == 0


def test_a_search_with_a_too_high_bound_ends_at_the_highest_possible_cost() -> None:
    search = explore_schedules(partial(run_program, ("p",)), 1000, "delays")
    assert len(list(search)) == sum(1 for _ in Model(("p",), "delays").schedules(1000))
    assert search.by_cost[-1] == 0
    assert len(search.by_cost) < 10


def test_a_search_reports_how_many_schedules_it_explored_and_whether_it_is_complete() -> None:
    search: ScheduleSearch[Trace] = explore_schedules(partial(run_program, PROGRAMS["three tasks"]), 2)
    list(search)
    assert str(search) == "all 3 450 schedules with ≤ 2 preemptions"
    search = explore_schedules(run_two_tasks, 2, limit=10)
    assert len(list(search)) == 10
    assert str(search) == "first 10 of more schedules with ≤ 2 preemptions"
    assert not search.is_complete


def test_a_search_limit_equal_to_the_number_of_schedules_has_no_effect() -> None:
    all_of_them = len(list(explore_schedules(run_two_tasks, 1)))
    search = explore_schedules(run_two_tasks, 1, limit=all_of_them)
    assert len(list(search)) == all_of_them
    assert search.is_complete


@pytest.mark.ci
@pytest.mark.parametrize("kind", KINDS)
def test_a_search_continued_after_any_schedule_explores_exactly_the_rest(kind: str) -> None:
    whole = list(explore_schedules(run_two_tasks, 2, kind))
    for at in range(0, len(whole), 7):
        search = explore_schedules(run_two_tasks, 2, kind, after=whole[at].schedule)
        assert list(search) == whole[at + 1 :]
        assert str(search).startswith(f"last {len(whole) - at - 1} schedules")


def test_a_schedule_can_be_repeated_from_its_name() -> None:
    for found in explore_schedules(run_two_tasks, 2):
        assert run_two_tasks(BoundedPolicy(parse_deviations(found.schedule))) == found.result


def test_an_exception_of_a_run_ends_the_search() -> None:
    with pytest.raises(DeadlockError):
        list(explore_schedules(partial(run_program, ("W",)), 1))


def test_a_program_that_differs_between_runs_raises_a_divergence_error() -> None:
    programs = iter([("ppp", "ppp"), ("", "")] * 50)
    with pytest.raises(ReplayDivergedError, match="deviations, entry 0"):
        list(explore_schedules(lambda policy: run_program(next(programs), policy), 1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bound": -1}, "bound, limit: expected at least 0 and 1, found -1 and None"),
        ({"bound": 1, "limit": 0}, "found 1 and 0"),
        ({"bound": 1, "kind": "switches"}, "kind: expected one of preemptions, delays, found switches"),
        ({"bound": 1, "after": "nonsense"}, "found nonsense"),
    ],
)
def test_a_search_with_invalid_arguments_is_refused(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        explore_schedules(run_two_tasks, **arguments)  # type: ignore[arg-type]


def test_continuing_after_a_schedule_beyond_the_bound_is_refused() -> None:
    dear = list(explore_schedules(run_two_tasks, 2))[-1].schedule
    with pytest.raises(ValueError, match="after: expected ≤ 1 preemptions, found 2"):
        list(explore_schedules(run_two_tasks, 1, after=dear))
