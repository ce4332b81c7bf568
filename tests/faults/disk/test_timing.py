from collections.abc import Callable
from typing import Any

from tornlog.faults.disk.syncs import SyncTiming
from tornlog.faults.plan import FaultPlan


def test_what_cannot_vary_is_not_drawn(make_rig: Callable[..., Any]) -> None:
    rig = make_rig()

    assert SyncTiming(7, 7).draw(rig.disk._injector, "msync /a") == 7
    assert rig.choices.stream("disk").drawn == 0
    assert not rig.fired


def test_latencies_lie_within_their_bounds_and_are_drawn_with_a_label(make_rig: Callable[..., Any]) -> None:
    rig = make_rig()
    usual = [SyncTiming(10, 20).draw(rig.disk._injector, "msync /a") for _ in range(200)]

    assert set(usual) == set(range(10, 21))
    assert {draw[0] for draw in rig.choices.recorded()["disk"]} == {"msync /a ns"}
    assert not rig.fired


def test_a_slow_sync_takes_up_to_what_the_fault_says(make_rig: Callable[..., Any]) -> None:
    rig = make_rig(faults=FaultPlan(slow_sync_chance=1.0, slow_sync_ms_max=1))
    slow = [SyncTiming(10, 20).draw(rig.disk._injector, "msync /a") for _ in range(200)]

    assert min(slow) >= 20
    assert 900_000 < max(slow) <= 1_000_000
    assert rig.fired == {"slow sync": 200}


def test_slow_syncs_have_a_heavy_tail(make_rig: Callable[..., Any]) -> None:
    rig = make_rig(faults=FaultPlan(slow_sync_chance=1.0, slow_sync_ms_max=8))
    slow = sorted(SyncTiming(10, 20).draw(rig.disk._injector, "msync /a") for _ in range(1000))

    assert slow[0] >= 1_000_000  # an eighth of what they take at most
    assert 1_600_000 < slow[500] < 2_000_000
    assert sum(latency_ns > 4_000_000 for latency_ns in slow) > 100
