import pytest

from tornlog.faults.plan import FaultPlan, NetworkPlan
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.landmarks import plan_landmarks_ms
from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.claims.ranges import Ranges, draw_plan
from tornlog.sim.choices import Choices
from tornlog.sim.disturbances import DisturbancePlan
from tornlog.sim.magnitudes import draw_magnitude
from tornlog.store.formats.checkpoint import SAFETY_MARGIN_MS
from tornlog.store.log.allocate import WAIT_MS

DRAWS = 1_000
LONGEST_MS = {
    "clock step": DisturbancePlan().clock_step_ms_max,
    "paused task": DisturbancePlan().paused_task_ms_max,
    "paused machine": DisturbancePlan().paused_machine_ms_max,
    "slow sync": FaultPlan().slow_sync_ms_max,
    "slow IO": FaultPlan().slow_io_ms_max,
    "stalled device": FaultPlan().stall_ms_max,
    "late delivery": NetworkPlan().late_ms_max,
    "partition": NetworkPlan().partition_ms_max,
}


def plan_of(**chosen: object) -> Plan:
    ranges = Ranges(memory={"warm_files": (False,)}).replace(**chosen)  # type: ignore[arg-type]
    return draw_plan(Choices("landmarks").stream("plan"), ranges)


@pytest.mark.parametrize("fault", LONGEST_MS)
def test_two_percent_of_drawn_delays_exceed_each_reachable_landmark(fault: str) -> None:
    most_ms, landmarks = LONGEST_MS[fault], plan_landmarks_ms(plan_of(cluster={"slaves": (1,)}))
    stream = Choices(fault).stream("durations")
    drawn = [draw_magnitude(stream, 1, most_ms, fault, landmarks) for _ in range(DRAWS)]

    beyond = {one: sum(ms > one for ms in drawn) for one in landmarks if one < most_ms}
    assert beyond
    assert min(beyond.values()) >= DRAWS * 0.02, beyond


def test_a_fifth_of_clock_steps_exceed_the_checkpoint_margin() -> None:
    stream = Choices("steps").stream("disturbances")
    landmarks = plan_landmarks_ms(plan_of())
    drawn = [draw_magnitude(stream, 1, LONGEST_MS["clock step"], "step", landmarks) for _ in range(DRAWS)]

    assert sum(ms > SAFETY_MARGIN_MS for ms in drawn) > DRAWS / 5


def test_a_plan_enables_the_landmark_durations_of_its_features() -> None:
    alone = plan_landmarks_ms(plan_of(flush={"sync_timeout_ms": (321,)}))
    assert {SAFETY_MARGIN_MS, WAIT_MS, 321} <= set(alone)

    more = {
        "retention": {"deletes_segments": (True,)},
        "delay": {"chance": (0.3,)},
        "transactions": {"chance": (0.3,)},
        "cluster": {"slaves": (1,), "slave_timeout_ms": (777,)},
        "broker": {"serves": (True,), "suspend_ms": (4_321,)},
        "memory": {"warm_files": (True,)},
    }
    for feature, options in more.items():
        assert set(plan_landmarks_ms(plan_of(**{feature: options}))) - set(plan_landmarks_ms(plan_of())), feature


@pytest.mark.parametrize("name", SCENARIOS)
def test_landmarks_are_sorted_and_positive(name: str) -> None:
    landmarks = plan_landmarks_ms(draw_plan(Choices(name).stream("plan"), SCENARIOS[name].ranges))

    assert list(landmarks) == sorted(set(landmarks))
    assert landmarks[0] > 0
