from collections import Counter
from dataclasses import replace

from tests.fixtures import QUIET_PLAN
from tornlog.scenarios.claims.machine import DELAYS_MS
from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.workload.options import SHARED_KEYS
from tornlog.scenarios.workload.skew import EVEN, Skew, draw_skew
from tornlog.sim.choices import Choices

NAMES = [f"m0.0.{number}" for number in range(9)]


def plan_with_several_queues(plan: Plan) -> Plan:
    return replace(plan, topics=2, queues_per_topic=2, producers=3, index=replace(plan.index, keys_chance=0.5))


def drawn_skews(plan: Plan) -> list[Skew]:
    return [draw_skew(Choices(str(seed)).stream("skew"), plan) for seed in range(400)]


def drawn_places(skew: Skew, plan: Plan) -> Counter[tuple[int, int]]:
    stream = Choices("places").stream("producer")
    return Counter(skew.draw_place(stream, plan) for _ in range(400))


def test_every_skew_and_the_even_distribution_are_drawn() -> None:
    drawn = drawn_skews(plan_with_several_queues(QUIET_PLAN))

    assert 80 < sum(skew == EVEN for skew in drawn) < 250
    assert len({skew.hot for skew in drawn}) == len({skew.silent for skew in drawn}) == 5
    assert {skew.lazy for skew in drawn} == {-1, 0, 1, 2}
    assert {skew.same_key % len(SHARED_KEYS) for skew in drawn if skew.same_key >= 0} == set(range(len(SHARED_KEYS)))
    assert not any(skew.hot and skew.silent for skew in drawn)


def test_no_skew_is_drawn_if_there_is_only_one_of_each() -> None:
    stream = Choices("alone").stream("skew")

    assert draw_skew(stream, replace(QUIET_PLAN, topics=1, queues_per_topic=1, producers=1)) == EVEN
    assert stream.draw_count == 0


def test_the_simplest_drawn_skew_is_even() -> None:
    assert draw_skew(Choices.for_replay([]).stream("skew"), plan_with_several_queues(QUIET_PLAN)) == EVEN


def test_with_an_even_skew_all_queues_are_equally_likely() -> None:
    found = drawn_places(EVEN, plan_with_several_queues(QUIET_PLAN))

    assert len(found) == 4
    assert min(found.values()) > 70


def test_most_messages_go_to_the_hot_queue_and_some_to_the_others() -> None:
    found = drawn_places(Skew(hot=(1, 0)), plan_with_several_queues(QUIET_PLAN))

    assert found[1, 0] > 300
    assert len(found) == 4


def test_no_message_goes_to_the_silent_queue() -> None:
    for silent in ((0, 0), (0, 1), (1, 0), (1, 1)):
        found = drawn_places(Skew(silent=silent), plan_with_several_queues(QUIET_PLAN))
        assert set(found) == {(0, 0), (0, 1), (1, 0), (1, 1)} - {silent}


def test_a_lazy_producer_puts_only_a_few_messages() -> None:
    assert list(Skew(lazy=1).names_to_put(1, NAMES)) == [NAMES[0], NAMES[4], NAMES[8]]
    assert Skew(lazy=1).names_to_put(0, NAMES) == EVEN.names_to_put(1, NAMES) == NAMES


def test_all_messages_with_a_shared_key_have_the_same_key() -> None:
    stream = Choices("keys").stream("producer")

    assert {Skew(same_key=7).key(stream, SHARED_KEYS) for _ in range(50)} == {SHARED_KEYS[7 % len(SHARED_KEYS)]}
    assert {EVEN.key(stream, SHARED_KEYS) for _ in range(200)} == set(SHARED_KEYS)


def test_all_delayed_messages_have_the_same_level() -> None:
    stream, levels = Choices("levels").stream("producer"), list(DELAYS_MS)

    assert {Skew(same_level=7).level(stream, levels) for _ in range(50)} == {levels[7 % len(levels)]}
    assert {EVEN.level(stream, levels) for _ in range(50)} == set(levels)
    assert {skew.same_level for skew in drawn_skews(QUIET_PLAN)} == {-1}
    drawn = [skew.same_level for skew in drawn_skews(QUIET_PLAN.replace(delay={"chance": 0.5}))]
    assert {level % len(levels) for level in drawn if level >= 0} == set(range(len(levels)))
    assert 200 < drawn.count(-1) < 280
