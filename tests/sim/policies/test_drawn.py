from collections import Counter

from tornlog.sim.choices import Choices
from tornlog.sim.policies.drawn import draw_policy


def test_every_kind_of_policy_is_drawn_and_leaves_no_record() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(200):
        choices = Choices(str(seed))
        kinds[draw_policy(choices.stream("schedule")).name] += 1
        assert choices.decisions() == []

    assert set(kinds) == {"random-walk", "pct", "pos"}
    assert min(kinds.values()) > 20


def test_a_seed_draws_the_same_policy_each_time() -> None:
    for seed in range(20):
        first, second = (draw_policy(Choices(str(seed)).stream("schedule")) for _ in range(2))
        assert (first.name, vars(first).keys()) == (second.name, vars(second).keys())
