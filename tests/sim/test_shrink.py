from dataclasses import replace

from tests.sim.rigs import make
from tornlog.sim.choices import Choices, Decision
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.sim.policies.replay import LabellingPolicy, ReplayPolicy
from tornlog.sim.schedule import TaskSwitch
from tornlog.sim.shrink import RunDecisions, ShrinkSearch, shrink


def draw(number: int, value: int = 1, options: int = 1000) -> Decision:
    return Decision(f"stream-{number % 3}", f"draw {number}", 1, options, value)


def switch(number: int, label: str = "store") -> TaskSwitch:
    return TaskSwitch("m/a", label, number, "m/b")


def search_for(
    start: RunDecisions, *needed: Decision | TaskSwitch, tries_max: int = 10_000
) -> ShrinkSearch[RunDecisions]:
    """Return a search for the smallest candidate with all needed parts. A needed draw has at least the given value."""

    def still_fails(candidate: RunDecisions) -> RunDecisions | None:
        values = {decision[:3]: decision.value for decision in candidate.decisions}
        for part in needed:
            if isinstance(part, TaskSwitch):
                if part not in candidate.schedule:
                    return None
            elif values.get(part[:3], 0) < part.value:
                return None
        return candidate

    return ShrinkSearch(start, still_fails, tries_max=tries_max)


def test_a_failure_that_needs_two_faults_shrinks_to_these_faults() -> None:
    start = RunDecisions(tuple(draw(number) for number in range(100)), tuple(switch(n) for n in range(1, 60)))
    search = search_for(start, draw(17), draw(83))
    assert shrink(search) == RunDecisions((draw(17), draw(83)), ())
    assert search.tries < 120


def test_a_failure_that_needs_some_switches_and_a_fault_shrinks_to_these() -> None:
    forced = switch(3, "~lock put")
    schedule = (*(switch(number) for number in range(1, 80)), forced, switch(9, "~lock put"))
    search = search_for(RunDecisions((draw(1), draw(2)), schedule), switch(5), switch(50), forced, draw(2))
    found = shrink(search)
    assert found.decisions == (draw(2),)
    assert set(found.schedule) == {switch(5), switch(50), forced}


def test_a_failure_without_needed_parts_shrinks_to_an_empty_candidate() -> None:
    start = RunDecisions(tuple(draw(number) for number in range(500)), tuple(switch(n) for n in range(1, 500)))
    search = search_for(start)
    assert shrink(search) == RunDecisions((), ())
    assert search.tries == 2


def test_a_failure_that_needs_every_part_does_not_shrink() -> None:
    start = RunDecisions(tuple(draw(number) for number in range(10)), tuple(switch(n) for n in range(1, 10)))
    assert shrink(search_for(start, *start.decisions, *start.schedule)) == start


def test_a_needed_draw_value_is_lowered_by_bisection() -> None:
    start = RunDecisions((draw(1, value=900), draw(2, value=3)), ())
    exact = shrink(search_for(start, draw(2, value=2)))
    near = shrink(search_for(start, draw(1, value=100)))
    assert exact.decisions == (draw(2, value=2),)
    assert near.decisions[0].value in range(100, 130)


def test_lowering_a_number_finds_the_smallest_that_fails() -> None:
    def with_bound(candidate: RunDecisions, value: int) -> RunDecisions:
        return replace(candidate, decisions=(draw(1, value=value),))

    search = search_for(RunDecisions((draw(1, value=700),), ()), draw(1, value=123))
    search.lower_value(700, 5, with_bound)
    assert search.best.decisions[0].value == 123
    tries = search.tries
    search.lower_value(5, 5, with_bound)
    assert search.tries == tries


def test_a_coarse_shrink_drops_only_large_parts_in_few_tries() -> None:
    start = RunDecisions(tuple(draw(number) for number in range(160)), ())
    coarse, fine = search_for(start, draw(17), draw(83)), search_for(start, draw(17), draw(83))
    coarse.is_coarse = True
    for search in (coarse, fine):
        search.drop_parts(lambda one: one.decisions, lambda one, kept: replace(one, decisions=tuple(kept)))
    assert len(fine.best.decisions) == 2
    assert 2 < len(coarse.best.decisions) <= 40
    assert coarse.tries < fine.tries / 2


def test_no_shrink_candidate_is_tested_twice() -> None:
    tried = []

    def still_fails(candidate: RunDecisions) -> RunDecisions | None:
        assert candidate not in tried
        tried.append(candidate)
        return candidate if len(candidate.decisions) >= 7 else None

    start = RunDecisions(tuple(draw(number) for number in range(30)), tuple(switch(n) for n in range(1, 9)))
    search = ShrinkSearch(start, still_fails, tries_max=1000)
    found = shrink(search)
    assert (len(found.decisions), found.schedule) == (7, ())
    assert search.tries == len(tried)


def test_shrinking_ends_at_the_try_limit_or_when_stop_returns_true() -> None:
    start = RunDecisions(tuple(draw(number) for number in range(100)), ())
    for limit in (0, 1, 10):
        search = search_for(start, draw(17), draw(83), tries_max=limit)
        shrink(search)
        assert search.tries == limit
        assert search.is_over
    times = iter(range(100))
    stopped = ShrinkSearch(start, lambda candidate: candidate, tries_max=1000, stop=lambda: next(times) >= 1)
    assert not stopped.attempt(replace(start, decisions=start.decisions[:50])) or stopped.tries == 1
    assert stopped.is_over


def test_shrinking_is_deterministic_in_its_tries() -> None:
    ways: list[list[tuple[RunDecisions, bool]]] = []
    for _ in range(2):
        way: list[tuple[RunDecisions, bool]] = []
        start = RunDecisions(tuple(draw(number) for number in range(40)), tuple(switch(n) for n in range(1, 20)))
        inner = search_for(start, draw(17), switch(3))
        search = ShrinkSearch(
            start,
            inner._still_fails,
            tries_max=60,
            on_try=lambda candidate, accepted, way=way: way.append((candidate, accepted)),  # type: ignore[misc]
        )
        shrink(search)
        ways.append(way)
    assert ways[0] == ways[1]
    assert {accepted for _, accepted in ways[0]} == {True, False}


def test_shrinking_continues_from_the_record_of_the_last_failing_run() -> None:
    """In this test draw 1 exists only together with draw 0."""

    def still_fails(candidate: RunDecisions) -> RunDecisions | None:
        kept = candidate.decisions if draw(0) in candidate.decisions else candidate.decisions[:0]
        return replace(candidate, decisions=kept) if switch(1) in candidate.schedule else None

    search = ShrinkSearch(RunDecisions((draw(0), draw(1)), (switch(1),)), still_fails, tries_max=100)
    assert search.attempt(RunDecisions((draw(1),), (switch(1),)))
    assert search.best == RunDecisions((), (switch(1),))


def lost_update(choices: Choices, policy: RandomWalk | LabellingPolicy | ReplayPolicy) -> tuple[Kernel, bool]:
    """Let two tasks add to a cell without a lock. Return whether an addition was lost and an addition was slow."""
    kernel, machine = make(policy)
    tasks, cell, slow = machine.tasks, machine.tasks.cell("sum"), machine.tasks.cell("slow")

    def add(name: str) -> None:
        stream = choices.stream(name)
        for _ in range(10):
            stream.randbelow(100, "work")
            if stream.chance(0.2, "is slow"):
                slow.set(1)
            value = cell.get()
            cell.set(value + 1)

    def main() -> bool:
        for task in [tasks.spawn(name, lambda name=name: add(name)) for name in "ab"]:  # type: ignore[misc]
            task.join(None)
        return cell.get() < 20 and slow.get() == 1

    return kernel, kernel.run(machine, main, time_limit_ns=0)


def test_a_lost_update_shrinks_to_its_preemptions_and_one_fault() -> None:
    choices = Choices("3")
    recorded, fails = lost_update(choices, RandomWalk(choices.stream("schedule"), 3))
    assert fails
    labelling = LabellingPolicy(recorded.schedule)
    lost_update(Choices.for_replay(choices.decisions()), labelling)

    def still_fails(candidate: RunDecisions) -> RunDecisions | None:
        again, policy = Choices.for_replay(candidate.decisions), ReplayPolicy(candidate.schedule)
        _, fails = lost_update(again, policy)
        return RunDecisions(tuple(again.decisions()), tuple(policy.followed)) if fails else None

    start = RunDecisions(tuple(choices.decisions()), tuple(labelling.labelled))
    found = shrink(ShrinkSearch(start, still_fails, tries_max=2000))

    assert len(start.decisions) > 20
    assert len(start.schedule) > 3
    assert [decision.label for decision in found.decisions] == ["is slow"]
    assert [one.label for one in found.schedule if one.is_preemption] == ["cell sum.set"]
    assert len(found.schedule) <= 2
