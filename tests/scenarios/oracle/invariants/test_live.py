from dataclasses import replace
from typing import cast

import pytest

from tests.one_life import with_settings
from tests.scenarios.oracle.invariants.on_stores import on_a_store
from tornlog.faults.disk.disk import Disk
from tornlog.faults.plan import FaultPlan
from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.claims.ranges import Ranges, draw_plan
from tornlog.scenarios.oracle.evidence import Evidence
from tornlog.scenarios.oracle.invariants import live
from tornlog.scenarios.oracle.put_entry import PLAIN, PutEntry
from tornlog.sim.choices import Choices
from tornlog.sim.disturbances import DisturbancePlan
from tornlog.store.broker.long_polling import HeldPull
from tornlog.store.broker.requests import RequestCode
from tornlog.store.broker.router import Channel
from tornlog.store.config import BrokerRole
from tornlog.store.filters.message_filter import TagFilter
from tornlog.store.formats.messages import AppendMessageResult, PutMessageResult, PutMessageStatus
from tornlog.store.formats.remoting.command import RemotingCommand
from tornlog.store.message_store import MessageStore


@pytest.fixture
def plan() -> Plan:
    ranges = Ranges().replace(producers=(2,), sync_ms_max=(10,))
    return draw_plan(Choices("live").stream("plan"), ranges)


def test_a_put_answered_within_a_few_syncs_is_no_violation(plan: Plan, evidence: Evidence) -> None:
    put = evidence.ledger.puts[0]
    put.answered_ns = 260 * 1_000_000

    assert list(live.check_answer_time(live.answer_ms_max(plan), put)) == []


def test_a_put_that_waited_longer_than_a_few_syncs_is_a_violation(plan: Plan, evidence: Evidence) -> None:
    put = evidence.ledger.puts[0]
    put.answered_ns = 261 * 1_000_000

    (violation,) = live.check_answer_time(live.answer_ms_max(plan), put)

    assert (violation.expected, violation.found) == ("<= 260 ms", "261 ms")


@pytest.mark.parametrize("fault", ["slow_sync_chance", "failed_sync_chance", "failed_creation_chance"])
def test_on_a_slow_or_failing_disk_puts_have_no_time_limit(plan: Plan, evidence: Evidence, fault: str) -> None:
    put = evidence.ledger.puts[0]
    put.answered_ns = 10**12

    assert list(live.check_answer_time(live.answer_ms_max(replace(plan, faults=FaultPlan(**{fault: 0.1}))), put)) == []


def test_a_put_without_an_answer_has_no_time_limit(plan: Plan, evidence: Evidence) -> None:
    put = evidence.ledger.puts[0]
    put.answered_ns = None

    assert list(live.check_answer_time(live.answer_ms_max(plan), put)) == []


def test_the_time_limit_of_a_put_is_longer_on_a_slow_disk(plan: Plan) -> None:
    assert live.held_up_ms_max(plan) == 0
    slow = replace(plan, faults=FaultPlan(slow_sync_chance=0.1, slow_sync_ms_max=3000))
    assert live.held_up_ms_max(slow) == 5000 + 3000


def test_a_stop_may_wait_for_the_commit_of_half_messages_that_the_check_put_back(plan: Plan) -> None:
    pool = plan.replace(memory={"transient_pool": True}, transactions={"chance": 0.5})

    assert live.buffered_copies_ms_max(pool) == live.commit_ms_max(pool) > 0
    assert live.buffered_copies_ms_max(pool.replace(memory={"transient_pool": False})) == 0
    assert live.buffered_copies_ms_max(pool.replace(transactions={"chance": 0.0})) == 0


def test_a_delayed_message_may_stay_in_the_write_buffer_for_longer_than_its_delay(plan: Plan) -> None:
    settings = {"commit_commit_log_thorough_interval_ms": 1_000}
    pool = plan.replace(memory={"transient_pool": True}, settings=settings)
    assert live.commit_ms_max(pool) == 1_200
    assert live.hidden_ms_max(pool) == 200  # the shortest delay is 1 s
    assert live.hidden_ms_max(plan) == 0


def test_the_time_limit_of_a_put_grows_with_each_new_segment(plan: Plan, evidence: Evidence) -> None:
    put = evidence.ledger.puts[0]
    segment_ms = live.segment_ms_max(plan)
    assert segment_ms == 20

    def judge(took_ms: int) -> list[str]:
        put.answered_ns = took_ms * 1_000_000
        found = live.check_answer_time(live.answer_ms_max(plan), put, 2 * segment_ms)
        return [violation.expected for violation in found]

    assert judge(260 + 40) == []
    assert judge(260 + 41) == ["<= 300 ms"]


# -- held pulls ------------------------------------------------------------------------------------


def held_pull(queue_offset: int, tags: str = "*", topic: str = "T0", due_ns: int = 0) -> HeldPull:
    command, wanted = RemotingCommand(RequestCode.PULL_MESSAGE, 1), TagFilter.parse(tags)
    return HeldPull(command, cast(Channel, None), (topic, 0), queue_offset, wanted, due_ns)


def held_pull_violations(store: MessageStore, queue_offset: int, tags: str = "*", topic: str = "T0") -> list[str]:
    """Return the violations for a held pull from an offset on."""
    pull = held_pull(queue_offset, tags, topic)
    return [violation.found for violation in live.check_held_pull(store, pull)]


@pytest.mark.parametrize("extended", [False, True])
def test_a_held_pull_with_a_dispatched_matching_message_is_a_violation(extended: bool) -> None:
    def body(store: MessageStore, disk: Disk) -> list[list[str]]:
        said = [
            held_pull_violations(store, 3),
            held_pull_violations(store, 0, "TagB"),
            held_pull_violations(store, 0, topic="T1"),
            held_pull_violations(store, 2),
            held_pull_violations(store, 0, "TagA"),
        ]
        entry = store.queues.find_or_create("T0", 0).entry(2)
        assert entry is not None
        store.dispatch.reput_from.set(entry.physical_offset)
        return [*said, held_pull_violations(store, 2), held_pull_violations(store, 1)]

    holds: list[str] = []
    there = [[f"held, and its message {queue_offset} announced"] for queue_offset in range(3)]
    assert on_a_store(body, indexed=True, extended=extended) == [
        holds,
        holds,
        holds,
        there[2],
        there[0],
        holds,
        there[1],
    ]


@with_settings(indexed=True)
def test_a_slave_may_hold_a_pull_although_a_message_is_available(store: MessageStore) -> None:
    store.config = replace(store.config, broker_role=BrokerRole.SLAVE)
    assert held_pull_violations(store, 0) == []


@with_settings(indexed=True)
def test_a_pull_stays_held_until_its_time_or_a_message(store: MessageStore) -> None:
    for queue_offset, topic, due_ns, count in ((3, "T0", 9, 1), (0, "T1", 9, 1), (3, "T0", 5, 0), (2, "T0", 9, 0)):
        pulls = [held_pull(queue_offset, topic=topic, due_ns=due_ns)]
        assert len(list(live.check_still_held(store, pulls, now_ns=5))) == count


# -- puts waiting at a stop ------------------------------------------------------------------------

STOPPED_MS = 40


def violations_of_put_at_stop(plan: Plan, put: PutEntry, answered_ms: int | None) -> list[tuple[str, str]]:
    """Return the violations for a put that was requested at 0, if the store stopped at STOPPED_MS."""
    put.answered_ns = None if answered_ms is None else answered_ms * 1_000_000
    found = live.check_left_over_put(plan, put, STOPPED_MS * 1_000_000)
    return [(violation.expected, violation.found) for violation in found]


def test_a_put_waiting_at_a_stop_may_take_a_few_more_syncs(plan: Plan, evidence: Evidence) -> None:
    put = evidence.ledger.puts[0]

    assert violations_of_put_at_stop(plan, put, None) == []
    assert violations_of_put_at_stop(plan, put, STOPPED_MS - 1) == []
    assert violations_of_put_at_stop(plan, put, STOPPED_MS + 260) == []
    assert violations_of_put_at_stop(plan, put, STOPPED_MS + 261) == [("<= 260 ms", "261 ms")]


def test_a_put_requested_after_the_stop_has_no_time_limit(plan: Plan, evidence: Evidence) -> None:
    put = evidence.ledger.puts[0]

    put.asked_ns = STOPPED_MS * 1_000_000
    assert violations_of_put_at_stop(plan, put, 10_000) == []
    put.asked_ns -= 1
    assert violations_of_put_at_stop(plan, put, 10_000) == [("<= 260 ms", f"{10_000 - STOPPED_MS} ms")]


def test_a_slow_disk_may_delay_a_put_waiting_at_a_stop(plan: Plan, evidence: Evidence) -> None:
    slow = replace(plan, faults=FaultPlan(slow_sync_chance=0.1))
    harmless = replace(plan, faults=FaultPlan(short_write_chance=0.1))

    assert violations_of_put_at_stop(slow, evidence.ledger.puts[0], 10**6) == []
    assert violations_of_put_at_stop(harmless, evidence.ledger.puts[0], 10**6) != []


def test_a_pause_in_progress_may_delay_a_put_waiting_at_a_stop(plan: Plan, evidence: Evidence) -> None:
    put = evidence.ledger.puts[0]
    paused = replace(plan, disturbances=DisturbancePlan(paused_task_chance=0.1, paused_task_ms_max=500))
    stepped = replace(plan, disturbances=DisturbancePlan(clock_step_chance=0.1, paused_task_ms_max=500))

    assert violations_of_put_at_stop(paused, put, STOPPED_MS + 760) == []
    assert violations_of_put_at_stop(paused, put, STOPPED_MS + 761) == [("<= 760 ms", "761 ms")]
    assert violations_of_put_at_stop(stepped, put, STOPPED_MS + 261) == [("<= 260 ms", "261 ms")]


# -- waits for a flush -----------------------------------------------------------------------------


def flush_wait_violations(plan: Plan, put: PutEntry, took_ms: int, wrote_offset: int = 300) -> list[tuple[str, str]]:
    """Return the violations for a put that is answered at 5000 ms, the given time after its record was stored."""
    append = AppendMessageResult(wrote_offset, 100, 0, 5_000, PLAIN.store_host)
    result = PutMessageResult(PutMessageStatus.FLUSH_DISK_TIMEOUT, append)
    found = live.check_flush_wait(plan, put, result, 5_000 + took_ms)
    return [(violation.expected, violation.found) for violation in found]


@pytest.fixture
def short_timeout_plan(plan: Plan) -> Plan:
    """Return a plan with a flush timeout of 200 ms and a disk that may take far longer."""
    return plan.replace(
        sync_flush=True,
        commit_log_bytes=2048,
        flush={"sync_timeout_ms": 200},
        faults=FaultPlan(slow_sync_chance=0.4, slow_sync_ms_max=3_000),
    )


def test_the_flush_wait_of_a_put_ends_at_the_configured_timeout_even_on_a_slow_disk(
    short_timeout_plan: Plan, evidence: Evidence
) -> None:
    put = evidence.ledger.puts[0]

    assert flush_wait_violations(short_timeout_plan, put, 220) == []
    assert flush_wait_violations(short_timeout_plan, put, 221) == [("<= 220 ms", "221 ms")]


def test_a_put_that_also_waits_for_a_slave_may_take_both_timeouts(short_timeout_plan: Plan, evidence: Evidence) -> None:
    put = evidence.ledger.puts[0]
    of_two = short_timeout_plan.replace(cluster={"slaves": 1, "sync_master": True, "slave_timeout_ms": 1_000})

    assert flush_wait_violations(of_two, put, 1_220) == []
    assert flush_wait_violations(of_two, put, 1_221) == [("<= 1220 ms", "1221 ms")]


def test_a_put_that_opens_a_segment_may_exceed_the_flush_timeout(short_timeout_plan: Plan, evidence: Evidence) -> None:
    put = evidence.ledger.puts[0]

    assert flush_wait_violations(short_timeout_plan, put, 9_000, wrote_offset=4096) == []
    assert flush_wait_violations(short_timeout_plan, put, 9_000, wrote_offset=4097) != []


def test_a_put_that_does_not_wait_for_the_flush_has_no_flush_timeout(
    short_timeout_plan: Plan, evidence: Evidence
) -> None:
    put = evidence.ledger.puts[0]

    assert flush_wait_violations(short_timeout_plan.replace(sync_flush=False), put, 9_000) == []
    assert flush_wait_violations(short_timeout_plan, replace(put, wait=False), 9_000) == []
    refused = PutMessageResult(PutMessageStatus.SERVICE_NOT_AVAILABLE)
    assert list(live.check_flush_wait(short_timeout_plan, put, refused, 9_000)) == []


def test_flush_waits_are_not_judged_in_runs_with_clock_steps(short_timeout_plan: Plan, evidence: Evidence) -> None:
    disturbed = short_timeout_plan.replace(disturbances={"clock_step_chance": 0.1})

    assert flush_wait_violations(disturbed, evidence.ledger.puts[0], 9_000) == []


def test_a_send_must_be_answered_after_the_disk_and_slave_timeouts(short_timeout_plan: Plan) -> None:
    limit_ms = (
        short_timeout_plan.flush.sync_timeout_ms
        + short_timeout_plan.cluster.slave_timeout_ms
        + live.request_ms_max(short_timeout_plan)
    )
    asked_ns = (5_000_000, 6_000_000)
    assert not list(live.check_waiting(short_timeout_plan, asked_ns, (limit_ms + 5) * 1_000_000))
    (found,) = live.check_waiting(short_timeout_plan, asked_ns, (limit_ms + 6) * 1_000_000)
    assert (found.invariant, found.found) == ("LIVE", f"{limit_ms + 1} ms")


def test_a_refused_request_does_not_count_as_a_timeout() -> None:
    assert not list(live.violation_of_time_out(7, ConnectionRefusedError()))
    assert [found.invariant for found in live.violation_of_time_out(7, TimeoutError())] == ["LIVE"]


@pytest.mark.parametrize(("tasks", "most"), [(1, 1), (2, 1), (4, 2)])
def test_a_host_that_keeps_more_than_half_of_the_tasks_busy_is_a_violation(plan: Plan, tasks: int, most: int) -> None:
    plan = plan.replace(broker={"tasks_each": tasks})
    assert list(live.check_requests_of_host(plan, "10.0.0.1", most)) == []
    (violation,) = live.check_requests_of_host(plan, "10.0.0.1", most + 1)
    assert violation.found == str(most + 1)


@pytest.mark.parametrize(("paused_ms", "count"), [(0, 1), (1_000, 0)])
def test_a_queued_request_may_also_wait_for_pauses(plan: Plan, paused_ms: int, count: int) -> None:
    limit_ms = plan.flush.sync_timeout_ms + plan.cluster.slave_timeout_ms + 1_000
    queued, now_ns = [("client manage", 1)], (limit_ms + 1_000) * 1_000_000 + 1
    found = list(live.check_queued_requests(plan, queued, now_ns, lambda since_ns: paused_ms * 1_000_000 * since_ns))
    assert [one.invariant for one in found] == ["LIVE"] * count
