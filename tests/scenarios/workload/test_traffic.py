"""Users: their requests, which do not depend on the schedule, and their records in the ledger."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tests.fixtures import QUIET_PLAN, execute
from tornlog.faults.disk.disk import Disk
from tornlog.scenarios.claims.machine import config_of, world_of
from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.oracle.evidence import Violation
from tornlog.scenarios.oracle.invariants import live
from tornlog.scenarios.oracle.invariants.consumers import wanted_tags
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.oracle.put_entry import ProducerKnowledge, PutEntry
from tornlog.scenarios.runs.run_of import policy_of
from tornlog.scenarios.workload import drawing
from tornlog.scenarios.workload.drawing import ILLEGAL_TOPICS, LONGEST_TOPIC, TAGS
from tornlog.scenarios.workload.odd_requests import BATCH_FLAWS, FLAWS
from tornlog.scenarios.workload.traffic import Traffic
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.store.formats.messages import Message, PutMessageResult, PutMessageStatus
from tornlog.store.message_store import MessageStore


def traffic_of(plan: Plan, seed: str = "1", messages_each: int = 20) -> tuple[Ledger, list[Violation]]:
    """Return the ledger of one life and the violations that users reported."""
    choices, ledger, found = Choices(seed), Ledger(), []

    def report(violations: Iterable[Violation]) -> None:
        found.extend(violations)

    with Kernel(policy_of(plan, choices)) as kernel:
        machine = kernel.create_machine("life")
        disk = Disk(kernel, choices.stream("disk"))

        def body() -> None:
            store = MessageStore(world_of(machine, disk), config_of(plan))
            store.load()
            store.start()
            Traffic(plan, store, disk, ledger, report, 0, choices.stream).run(messages_each)
            store.shutdown()

        kernel.run(machine, body, time_limit_ns=3600 * 10**9)
    return ledger, found


def requested_fields(put: PutEntry) -> tuple[Any, ...]:
    return (put.name, put.topic, put.queue_id, put.tags, put.body, put.properties, put.wait)


@pytest.fixture(scope="module")
def busy_plan() -> Plan:
    """A plan with all actions of producers and consumers."""
    return QUIET_PLAN.replace(
        consumers=2,
        topics=2,
        queues_per_topic=2,
        messages={
            "body_bytes_max": 300,
            "property_bytes_max": 200,
            "batch_chance": 0.3,
            "illegal_chance": 0.2,
            "no_wait_chance": 0.3,
            "equal_sizes": False,
        },
        pauses={"chance": 0.2, "ms_max": 5},
        consuming={"filtered": True},
    )


def test_every_put_is_answered_and_recorded_with_its_offsets() -> None:
    ledger, found = traffic_of(QUIET_PLAN)
    assert found == []
    assert len(ledger.puts) == 2 * 20
    assert all(put.knowledge is ProducerKnowledge.ACKNOWLEDGED for put in ledger.puts)
    places = sorted((put.physical_offset, put.record_bytes) for put in ledger.puts if put.physical_offset is not None)
    assert len(places) == 40
    assert all(at + size <= following for (at, size), (following, _) in pairwise(places))
    assert all(put.answered_ns is not None and put.answered_ns >= put.asked_ns for put in ledger.puts)


def test_clients_do_some_of_everything_that_the_plan_allows(busy_plan: Plan) -> None:
    ledgers = []
    for seed in range(3):  # a single seed may not use every queue
        ledger, found = traffic_of(busy_plan, str(seed))
        assert found == []
        ledgers.append(ledger)
    puts = [put for ledger in ledgers for put in ledger.puts]
    assert {put.topic for put in puts} == {"T0", "T1", *ILLEGAL_TOPICS, LONGEST_TOPIC}
    assert {put.queue_id for put in puts} == {0, 1}
    assert {put.tags for put in puts} > set(TAGS)  # some messages have odd tags
    assert len({put.content for put in puts}) > 5
    assert {put.wait for put in puts} == {True, False}
    assert {put.name.count(".") for put in puts} == {2, 3}, "alone and in batches"
    assert {put.status for put in puts} == {PutMessageStatus.PUT_OK, PutMessageStatus.MESSAGE_ILLEGAL}
    assert len({len(put.body) for put in puts}) > 10
    assert any(pull.puts for ledger in ledgers for pull in ledger.pulls)


def test_invalid_messages_are_refused(busy_plan: Plan) -> None:
    ledger, _ = traffic_of(busy_plan)
    illegal = [put for put in ledger.puts if put.topic in ILLEGAL_TOPICS]
    assert illegal
    assert any(put.physical_offset for put in ledger.puts if put.topic == LONGEST_TOPIC)
    assert all(put.knowledge is ProducerKnowledge.REFUSED for put in illegal)
    assert all(put.physical_offset is None for put in illegal)


def test_requests_with_each_flaw_are_refused(busy_plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "_BATCH_FLAW_CHANCE", 0.6)
    plan = busy_plan.replace(messages={"illegal_chance": 0.9, "batch_chance": 0.6})
    reasons = set()
    for seed in range(6):
        ledger, found = traffic_of(plan, str(seed), messages_each=60)
        assert found == []
        flawed = [put for put in ledger.puts if put.refused_because.startswith("it has ")]
        assert all(put.status is PutMessageStatus.MESSAGE_ILLEGAL for put in flawed)
        reasons |= {put.refused_because.partition(";")[0].removeprefix("it has ") for put in flawed}
    assert reasons == {*FLAWS, *BATCH_FLAWS}


def test_batches_with_each_form_are_stored_as_the_ledger_expects(busy_plan: Plan) -> None:
    messages = {"batch_chance": 1.0, "illegal_chance": 0.0, "limit_bytes": 900}
    plan = busy_plan.replace(messages=messages, light_queues={"chance": 0.5}, consuming={"filtered": False})
    ledger, found = traffic_of(plan, messages_each=40)
    assert found == []
    puts = ledger.puts
    endings = {(b"\2batch\1all" in put.properties, put.properties.endswith(b"\2")) for put in puts}
    assert endings == {(False, False), (False, True), (True, False)}
    assert any(b"INNER_MULTI_DISPATCH" in put.properties and put.physical_offset is not None for put in puts)
    assert not any(b"INNER_MULTI_QUEUE_OFFSET" in put.properties for put in puts)
    assert any("its body has 901 bytes" in put.refused_because for put in puts)


def test_client_requests_do_not_depend_on_the_schedule(busy_plan: Plan) -> None:
    plan = replace(busy_plan, commit_log_bytes=1 << 18)  # so that no body can fill the segment
    first, _ = traffic_of(replace(plan, policy="random-walk", policy_parameter=1))
    second, _ = traffic_of(replace(plan, policy="pct", policy_parameter=3))
    assert [put.name for put in first.puts] != [put.name for put in second.puts], "order is the schedule's"
    assert sorted(map(requested_fields, first.puts)) == sorted(map(requested_fields, second.puts))


def test_with_equal_sizes_all_records_have_the_same_length() -> None:
    ledger, _ = traffic_of(QUIET_PLAN.replace(messages={"equal_sizes": True}))
    assert len({put.record_bytes for put in ledger.puts}) == 1


def test_the_ledger_predicts_the_record_length_of_batch_messages(busy_plan: Plan) -> None:
    ledger, _ = traffic_of(busy_plan.replace(producers=1, messages={"batch_chance": 1.0, "illegal_chance": 0.0}))
    by_place = {put.physical_offset: put for put in ledger.puts}
    neighbours = [put for put in ledger.puts if put.name.endswith(".1")]
    assert neighbours
    for second in neighbours:
        first = next(put for put in ledger.puts if put.name == f"{second.name[:-2]}.0")
        if first.physical_offset is not None:
            assert by_place[first.physical_offset + first.record_bytes] is second


def test_consumers_receive_only_put_messages_up_to_the_end() -> None:
    plan = replace(QUIET_PLAN, consumers=2, topics=1, queues_per_topic=1)
    ledger, found = traffic_of(plan)
    assert found == []
    in_order = sorted(ledger.puts, key=lambda put: put.queue_offset or 0)
    for pull in ledger.pulls:
        assert pull.puts == in_order[: len(pull.puts)]
        assert pull.end_offset == len(pull.puts) > 0


def test_a_filtering_consumer_receives_only_matching_messages(busy_plan: Plan) -> None:
    given = 0
    for seed in range(5):
        ledger, _ = traffic_of(busy_plan, str(seed))
        for pull in ledger.pulls:
            assert pull.tags is not None
            assert all(put.tags in (wanted_tags(pull.tags) or ()) for put in pull.puts)
            given += len(pull.puts)
    assert given > 0


@pytest.mark.parametrize(
    ("segments", "sleeps_ms", "late"), [(100, 0, []), (0, 1_000, ["LIVE"]), (100, 3_000, ["LIVE"])]
)
def test_puts_made_by_the_store_itself_may_delay_a_put_only_for_the_segments_they_need(
    segments: int, sleeps_ms: int, late: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = replace(QUIET_PLAN, producers=1, sync_ms_max=10, commit_log_bytes=4096)
    put_message, took_ms = MessageStore.put_message, []

    def put_behind_others(store: MessageStore, message: Message) -> PutMessageResult:
        began_ms = store.world.clock.now_ms()
        for _ in range(segments):
            put_message(store, replace(message, body=bytes(3_000)))
        store.world.tasks.sleep(sleeps_ms)
        result = put_message(store, message)
        took_ms.append(store.world.clock.now_ms() - began_ms)
        return result

    monkeypatch.setattr(MessageStore, "put_message", put_behind_others)
    _, found = traffic_of(plan, messages_each=1)

    assert [violation.invariant for violation in found] == late
    assert took_ms[0] > (live.answer_ms_max(plan) or 0)


def test_a_record_that_no_client_put_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    get_message = MessageStore.get_message

    def get_something_else(self: MessageStore, *arguments: Any, **options: Any) -> Any:
        result = get_message(self, *arguments, **options)
        return replace(result, records=[b"KEYS\1forged" for _ in result.records])

    monkeypatch.setattr(MessageStore, "get_message", get_something_else)
    outcome = execute(replace(QUIET_PLAN, consumers=1, topics=1, queues_per_topic=1))
    assert outcome.violations[0].invariant == "VIS"
    assert outcome.violations[0].found == "KEYS\1forged"
