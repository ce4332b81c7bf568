from collections import Counter
from dataclasses import replace

from tests.fixtures import QUIET_PLAN
from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.workload.sizes import draw_body_bytes
from tornlog.sim.choices import Choices
from tornlog.store.formats.message import BLANK_BYTES

OTHER_BYTES = 150


def drawn_body_sizes(plan: Plan, log_end: int | None, count: int = 2_000) -> Counter[int]:
    stream = Choices("sizes").stream("producer")
    return Counter(draw_body_bytes(stream, plan, log_end, OTHER_BYTES) for _ in range(count))


def plan_with_sizes(plan: Plan, most: int, limit: int = 0) -> Plan:
    messages = replace(plan.messages, body_bytes_max=most, limit_bytes=limit)
    return replace(plan, commit_log_bytes=2048, messages=messages)


def test_body_sizes_cover_both_limits_and_the_range_between() -> None:
    drawn = drawn_body_sizes(plan_with_sizes(QUIET_PLAN, 300), None)

    assert min(drawn[0], drawn[300]) > 100
    assert len(drawn) > 250


def test_records_fill_a_segment_up_to_the_shortest_blank_record_give_or_take_a_byte() -> None:
    drawn = drawn_body_sizes(plan_with_sizes(QUIET_PLAN, 300), 10 * 2048 + 1700)

    filling = 2048 - 1700 - BLANK_BYTES - OTHER_BYTES
    assert min(drawn[filling + by] for by in (-1, 0, 1)) > 60


def test_bodies_reach_the_size_limit_give_or_take_a_byte() -> None:
    drawn = drawn_body_sizes(plan_with_sizes(QUIET_PLAN, 300, limit=200), None)

    assert min(drawn[limit] for limit in (199, 200, 201)) > 60


def test_sizes_out_of_bounds_are_not_drawn() -> None:
    drawn = drawn_body_sizes(plan_with_sizes(QUIET_PLAN, 20, limit=200), 10)

    assert set(drawn) == set(range(21))


def test_the_simplest_drawn_body_is_empty() -> None:
    stream = Choices.for_replay([]).stream("producer")

    assert draw_body_bytes(stream, plan_with_sizes(QUIET_PLAN, 300), 1700, OTHER_BYTES) == 0


def test_the_end_of_the_log_does_not_shift_later_draws() -> None:
    plan, streams = plan_with_sizes(QUIET_PLAN, 300), [Choices("sizes").stream("producer") for _ in range(3)]

    for stream, log_end in zip(streams, (None, 1700, 900), strict=True):
        for _ in range(20):
            draw_body_bytes(stream, plan, log_end, OTHER_BYTES)

    assert len({stream.raw_random() for stream in streams}) == 1
