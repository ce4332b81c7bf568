from statistics import mean, pstdev

import pytest

from tornlog.reports.studies.latency.traffic import Setup, arrivals, produce


class World:
    """A clock, sleeps that end late, and puts with given durations."""

    def __init__(self, puts_ns: list[int], late_ns: int = 0) -> None:
        self.ns, self._puts_ns, self._late_ns = 0, puts_ns, late_ns

    def now_ns(self) -> int:
        return self.ns

    def sleep_ns(self, ns: int) -> None:
        self.ns += ns + self._late_ns

    def put(self) -> None:
        self.ns += self._puts_ns.pop(0)


def latencies(gaps_ns: list[int], world: World) -> list[int]:
    return list(produce(gaps_ns, world.now_ns, world.sleep_ns, world.put))


def test_puts_that_arrive_during_a_stall_wait_for_its_end() -> None:
    assert latencies([10, 10, 10, 100], World([35, 1, 1, 1])) == [35, 35 + 1 - 10, 35 + 1 + 1 - 20, 1]


def test_a_closed_loop_has_no_put_arrivals_during_a_stall() -> None:
    world = World([35, 1, 1])
    asked_when_answered = []
    for _ in range(3):
        before_ns = world.ns
        world.put()
        asked_when_answered.append(world.ns - before_ns)

    assert asked_when_answered == [35, 1, 1]


def test_a_late_wake_up_of_a_producer_does_not_count_as_latency() -> None:
    world = World([5, 5, 5], late_ns=7)

    assert latencies([10, 10, 10], world) == [5, 5, 5]
    assert world.ns == 3 * (10 + 7) + 5  # each put arrives during the wait for the next one


def test_arrivals_are_a_poisson_process_split_evenly() -> None:
    gaps = arrivals(Setup("async", 4, 2_000.0, 20_002, seed=3))

    assert [len(mine) for mine in gaps] == [5_001, 5_001, 5_000, 5_000]
    for mine in gaps:
        assert mean(mine) == pytest.approx(4 / 2_000 * 1e9, rel=0.05)
        assert pstdev(mine) == pytest.approx(mean(mine), rel=0.05)  # as in an exponential distribution


def test_the_same_setup_gives_the_same_arrivals() -> None:
    setup = Setup("async", 2, 100.0, 50, seed=3)

    assert arrivals(setup) == arrivals(setup)
    assert arrivals(setup) != arrivals(Setup("async", 2, 100.0, 50, seed=4))


def test_an_unknown_flush_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="expected one of sync, async, pool, found never"):
        Setup("never", 1, 1.0, 1).config("/store")
