from collections import Counter

from tornlog.faults.timing import SyncFaults, SyncTiming
from tornlog.sim.choices import Choices


def test_what_cannot_vary_is_not_drawn() -> None:
    choices = Choices("1")
    stream = choices.stream("disk")
    fired: Counter[str] = Counter()

    assert SyncTiming(7, 7).draw(stream, "msync /a", fired) == 7
    assert SyncFaults(0.0).draw(stream, "msync /a", fired) is False
    assert choices.recorded() == {"disk": []}
    assert not fired


def test_latencies_lie_within_their_bounds_and_are_drawn_with_a_label() -> None:
    choices = Choices("1")
    stream = choices.stream("disk")
    fired: Counter[str] = Counter()
    usual = [SyncTiming(10, 20).draw(stream, "msync /a", fired) for _ in range(200)]

    assert set(usual) == set(range(10, 21))
    assert {draw[0] for draw in choices.recorded()["disk"]} == {"msync /a ns"}
    assert not fired

    slow = [SyncTiming(10, 20, 1.0, 1000).draw(stream, "msync /a", fired) for _ in range(200)]
    assert min(slow) >= 20
    assert 900 < max(slow) <= 1000
    assert fired == {"slow sync": 200}
