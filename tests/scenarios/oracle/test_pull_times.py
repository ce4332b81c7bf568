"""The limit of a pull counts from the arrival of its message and from the end of delays."""

import pytest

from tests.fixtures import QUIET_PLAN
from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.oracle.pull_times import PullTimes, late_ms_max

MS = 1_000_000
QUEUE, HOST = ("T0", 0), "10.0.0.30"


@pytest.fixture
def plan() -> Plan:
    return QUIET_PLAN.replace(faults={"slow_sync_chance": 0.1}, broker={"serves": True})


def late_pulls(times: PullTimes, position: int, sent_ms: int, now_ms: int) -> int:
    at = {"sent_ns": sent_ms * MS, "now_ns": now_ms * MS}
    return len(list(times.check_pull_time(QUEUE, position, HOST, wants=lambda has: has != b"other", **at)))


def test_a_pull_is_late_only_if_a_message_was_available_after_the_request(plan: Plan) -> None:
    limit_ms, times = late_ms_max(plan, 0), PullTimes(plan)
    times.record_answered_put(QUEUE, 3, b"", 1_000 * MS)

    assert late_pulls(times, 3, 0, 1_000 + limit_ms) == 0
    assert late_pulls(times, 3, 0, 1_001 + limit_ms) == 1
    assert late_pulls(times, 3, 2_000, 2_000 + limit_ms) == 0, "the limit counts from the request"
    assert late_pulls(times, 4, 0, 1_001 + limit_ms) == 0, "the pull is for a later message"
    times.begin_life()
    assert late_pulls(times, 3, 0, 1_001 + limit_ms) == 0, "the next life may lack the message"


def test_a_pull_is_not_late_because_of_a_message_that_it_does_not_want(plan: Plan) -> None:
    limit_ms, times = late_ms_max(plan, 0), PullTimes(plan)
    times.record_answered_put(QUEUE, 3, b"other", 1_000 * MS)

    assert late_pulls(times, 3, 0, 1_001 + limit_ms) == 0


def test_delays_by_pauses_and_faults_do_not_make_a_pull_late(plan: Plan) -> None:
    limit_ms, times = late_ms_max(plan, 0), PullTimes(plan, {HOST: 5_000 * MS}.__getitem__)
    times.record_answered_put(QUEUE, 0, b"", 0)

    assert late_pulls(times, 0, 0, 5_000 + limit_ms) == 0
    assert late_pulls(times, 0, 0, 5_001 + limit_ms) == 1


def test_a_pull_sent_while_the_broker_starts_counts_from_the_end_of_the_start(plan: Plan) -> None:
    limit_ms, times = late_ms_max(plan, 0), PullTimes(plan)
    times.begin_life()
    times.note_serving(5_000 * MS)
    at = {"began_ns": 0, "sent_ns": 0}

    for late_ms, violations in ((limit_ms, 0), (limit_ms + 1, 1)):
        answered = (5_100 + late_ms) * MS
        assert len(list(times.check_hold_time(QUEUE, HOST, 100, now_ns=answered, **at))) == violations


def test_on_a_disk_that_may_fail_or_be_full_no_pull_is_late(plan: Plan) -> None:
    for other in (plan.replace(faults={"failed_read_chance": 0.1}), plan.replace(capacity_bytes=10_000)):
        times = PullTimes(other)
        times.record_answered_put(QUEUE, 0, b"", 0)
        assert late_pulls(times, 0, 0, 1_000_000) == 0


def test_a_long_pull_answer_over_small_socket_buffers_may_take_longer(plan: Plan) -> None:
    short = plan.replace(broker={"buffer_bytes": 300})
    assert late_ms_max(short, 3_000) > late_ms_max(short, 0) >= late_ms_max(plan, 0)


@pytest.mark.parametrize(
    ("now_ms", "is_wrong"), [(1_099, True), (1_100, False), (1_100 + 20, False), (1_100 + 20_000, True)]
)
def test_a_pull_without_a_message_is_held_for_the_time_that_it_asked_for(
    plan: Plan, now_ms: int, *, is_wrong: bool
) -> None:
    times = PullTimes(plan)
    asked = {"began_ns": 1_000 * MS, "sent_ns": 1_001 * MS, "now_ns": now_ms * MS}
    assert bool(list(times.check_hold_time(QUEUE, HOST, 100, **asked))) is is_wrong
    times.note_stopping()
    assert not list(times.check_hold_time(QUEUE, HOST, 100, **asked)), "a broker that stops holds no pull"


def test_a_pull_whose_offset_is_moved_does_not_wait(plan: Plan) -> None:
    limit_ms = late_ms_max(plan, 0)

    def late_moves(plan: Plan, now_ms: int) -> int:
        times = PullTimes(plan, {HOST: 5_000 * MS}.__getitem__)
        return len(list(times.check_move_time(QUEUE, HOST, sent_ns=0, now_ns=now_ms * MS)))

    assert late_moves(plan, 5_000 + limit_ms) == 0
    assert late_moves(plan, 5_001 + limit_ms) == 1
    assert late_moves(plan.replace(broker={"operators": 1}), 9_000 + limit_ms) == 0, "the queue may have been deleted"


def test_late_timers_delay_each_delivery_of_the_network(plan: Plan) -> None:
    late = plan.replace(disturbances={"timer_slack_us": 10_000}, broker={"serves": True, "buffer_bytes": 300})
    punctual = late.replace(disturbances={"timer_slack_us": 0})
    for body_bytes in (0, 10_000):
        more_ms = late_ms_max(late, body_bytes) - late_ms_max(punctual, body_bytes)
        assert 70 <= more_ms < 5_000, "at most the interval of the check that wakes missed pulls"
    assert late_ms_max(late, 10_000) - late_ms_max(late, 0) > late_ms_max(punctual, 10_000) - late_ms_max(punctual, 0)
