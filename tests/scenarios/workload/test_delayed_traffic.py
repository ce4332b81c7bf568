"""Delayed messages: the puts of producers, and their entries in the ledger."""

import re
from dataclasses import replace

import pytest

from tests.fixtures import QUIET_PLAN, execute, make_put
from tornlog.scenarios.claims.plan import Life, LifeEnding, Plan
from tornlog.scenarios.claims.ranges import Ranges, draw_plan
from tornlog.scenarios.oracle.ledger import HALF_TOPIC, Ledger
from tornlog.scenarios.oracle.put_entry import PutEntry, WaitingPlace
from tornlog.scenarios.oracle.reader import LogRecord
from tornlog.scenarios.oracle.recovered import read_store
from tornlog.scenarios.runs.run_of import simulation_of
from tornlog.scenarios.runs.store_run import Run
from tornlog.scenarios.workload.options import (
    DELAYS_MS,
    draw_delay_level,
    draw_wait_ms,
    place_of_level,
    set_delay_level,
    set_waiting_place,
)
from tornlog.scenarios.workload.skew import EVEN
from tornlog.sim.choices import Choices
from tornlog.store.formats.delay_level import SCHEDULE_TOPIC
from tornlog.store.message_store import MessageStore


def test_every_delay_level_is_drawn_with_the_planned_chance() -> None:
    stream = Choices("levels").stream("levels")
    drawn = [draw_delay_level(stream, QUIET_PLAN.replace(delay={"chance": 0.5}), EVEN) for _ in range(200)]
    assert set(drawn) == {0, *DELAYS_MS}
    assert 70 < drawn.count(0) < 130


def test_a_plan_without_delayed_messages_draws_no_delay() -> None:
    stream = Choices("levels").stream("levels")
    assert draw_delay_level(stream, QUIET_PLAN, EVEN) == 0
    assert stream.draw_count == 0


def test_the_drawn_wait_for_deliveries_sometimes_covers_every_delay_level() -> None:
    stream = Choices("patience").stream("patience")
    drawn = [draw_wait_ms(stream) for _ in range(200)]
    assert min(drawn) == 1
    assert max(drawn) > max(DELAYS_MS.values())


@pytest.mark.parametrize("wait", [True, False])
def test_the_ledger_predicts_queue_size_and_properties_of_a_delayed_record_and_its_copy(
    delayed_plan: Plan, monkeypatch: pytest.MonkeyPatch, wait: bool
) -> None:
    plan = delayed_plan.replace(messages={"no_wait_chance": 0.0 if wait else 1.0})
    predicted: dict[str, int] = {}
    ask = Ledger.record_request

    def note(self: Ledger, put: PutEntry) -> None:
        predicted[put.name] = put.record_bytes
        ask(self, put)

    monkeypatch.setattr(Ledger, "record_request", note)
    run = Run(plan, simulation_of(plan, Choices("1")))
    assert run.execute().violations == []
    assert run._store is not None

    puts = run._ledger.puts
    assert puts
    for put in puts:
        level = put.place[1] + 1
        assert put.place[0] == SCHEDULE_TOPIC
        assert put.delay_ms == DELAYS_MS[level]
        assert re.search(rb"DELAY\x01(%d|9)$" % level, put.properties)  # levels above the highest count as this one
        assert put.wait is wait
        assert put.wrote_bytes == predicted[put.name]
        assert put.queue_offset is not None


def test_a_delivered_copy_is_recognised_by_its_queue_and_properties() -> None:
    ledger, put = Ledger(), make_put("m")
    set_delay_level(put, 2)
    ledger.record_request(put)
    properties = put.properties + b"\2REAL_TOPIC\1T\2REAL_QID\0010"
    own = LogRecord(0, put.record_bytes, SCHEDULE_TOPIC, 1, 0, 0, 0, properties, put.head)
    copy = own._replace(topic="T", queue_id=0)

    assert (ledger.put_of(own), ledger.put_copied_by(own)) == (put, None)
    assert (ledger.put_of(copy), ledger.put_copied_by(copy)) == (None, put)
    assert ledger.put_copied_by(copy._replace(queue_id=1)) is None
    assert ledger.put_copied_by(copy._replace(properties=properties + b"\2more\1x")) is None


def test_a_committed_message_with_a_delay_is_a_copy_in_the_queue_of_its_level_and_after_its_delay() -> None:
    ledger, put = Ledger(), make_put("m")
    set_waiting_place(put, WaitingPlace((HALF_TOPIC, 0)))
    put.delayed_at_commit = place_of_level(2)
    ledger.record_request(put)
    properties = put.properties + b"\2REAL_TOPIC\1T\2REAL_QID\0010"
    waits = LogRecord(0, put.record_bytes, SCHEDULE_TOPIC, 1, 0, 8, 0, properties, put.head)
    delivered = waits._replace(topic="T", queue_id=0)

    assert put.delivery_delay_ms == DELAYS_MS[2]
    assert (ledger.put_copied_by(waits), ledger.put_delayed_in(waits)) == (put, put)
    assert (ledger.put_copied_by(delivered), ledger.put_delayed_in(delivered)) == (put, None)
    assert ledger.put_copied_by(waits._replace(queue_id=0)) is None


@pytest.mark.parametrize("is_half", [True, False])
def test_a_waiting_message_loses_the_target_and_the_checks_of_an_earlier_one(is_half: bool) -> None:
    ledger, put, plain = Ledger(), make_put("m"), make_put("m").properties
    checks = b"\2TRANSACTION_CHECK_TIMES\0012"
    put.properties += b"\2REAL_TOPIC\1T7\2REAL_QID\0011" + checks
    place = WaitingPlace((HALF_TOPIC, 0)) if is_half else place_of_level(1)
    set_waiting_place(put, place)
    ledger.record_request(put)
    properties = plain + (b"" if is_half else checks) + b"\2REAL_TOPIC\1T\2REAL_QID\0010"
    record = LogRecord(0, put.record_bytes, *place.place, 0, 0, 0, properties, put.head)

    assert put.record_bytes == put.content.record_bytes(put.body, place.place[0], properties)
    assert ledger.put_of(record) is put
    assert ledger.put_of(record._replace(properties=properties.replace(b"TOPIC\1T", b"TOPIC\1T7"))) is None


def test_illegal_delayed_messages_are_refused_when_they_are_put(delayed_plan: Plan) -> None:
    plan = delayed_plan.replace(messages={"illegal_chance": 1.0, "equal_sizes": True})
    run = Run(plan, simulation_of(plan, Choices("1")))
    assert run.execute().violations == []
    assert run._ledger.puts
    assert all(put.physical_offset is None for put in run._ledger.puts)


def test_consumers_receive_the_copies_of_delayed_messages(delayed_plan: Plan) -> None:
    ranges = Ranges(delay={"chance": (1.0,)}, consumers=(2,), topics=(1,), queues_per_topic=(1,), endings=("stop",))
    copies = 0
    for seed in range(10):
        choices = Choices(str(seed))
        plan = draw_plan(choices.stream("plan"), ranges.replace(messages={"batch_chance": (0.0,)}))
        run = Run(plan, simulation_of(plan, choices))
        assert run.execute().violations == []
        assert all(one.copy_end is not None for one in run._ledger.kept_messages)
        assert all(one.is_durable for one in run._ledger.kept_messages)
        copies += len(run._ledger.kept_messages)
    assert copies > 0


def test_a_put_is_delivered_once_in_a_run_without_crashes(delayed_plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []

    def count_copies(store: MessageStore) -> None:
        found[:] = [record.record.topic for record in read_store(store).records]

    close = MessageStore.close
    monkeypatch.setattr(MessageStore, "close", lambda self: (count_copies(self), close(self))[1])
    outcome = execute(replace(delayed_plan, lives=(Life(LifeEnding.STOP, "nothing-lost", -1, "after", 5),)))

    assert outcome.violations == []
    assert len(found) == 2 * outcome.messages
    assert found.count(SCHEDULE_TOPIC) == outcome.messages
