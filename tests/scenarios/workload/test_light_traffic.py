"""Messages for light queues: the draw, and their entries in the ledger."""

import pytest

from tests.fixtures import QUIET_PLAN, execute, make_put
from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.oracle.put_entry import PutEntry
from tornlog.scenarios.oracle.reader import LogRecord
from tornlog.scenarios.workload import options
from tornlog.scenarios.workload.options import set_delay_level
from tornlog.sim.choices import Choices
from tornlog.store.formats.messages import PutMessageStatus
from tornlog.store.formats.properties import decode_properties, encode_properties
from tornlog.store.message_store import MessageStore


@pytest.fixture
def light_plan() -> Plan:
    return QUIET_PLAN.replace(light_queues={"chance": 1.0}, consumers=2, topics=2, queues_per_topic=2)


@pytest.fixture
def light_put() -> PutEntry:
    put = make_put("m")
    put.light_names = ("%LMQ%L0", "M0")
    put.properties += b"\2INNER_MULTI_DISPATCH\1%LMQ%L0,M0"
    return put


def record_of(put: PutEntry, topic: str = "T", **added: str) -> LogRecord:
    named = decode_properties(put.properties.decode()) | added
    return LogRecord(0, 200, topic, 0, 0, 0, 0, encode_properties(named).encode(), put.head)


def test_messages_name_light_queues_if_the_plan_enables_them(light_plan: Plan) -> None:
    stream = Choices("light").stream("one")
    drawn = [options.draw_light_names(stream, light_plan) for _ in range(50)]
    assert {name for names in drawn for name in names} == set(options.LIGHT_NAMES)
    assert {len(names) for names in drawn} == {1, 2, 3}
    assert options.draw_light_names(stream, light_plan.replace(light_queues={"chance": 0.0})) == ()


def test_consumers_read_light_queues_only_if_the_plan_enables_them(light_plan: Plan) -> None:
    stream = Choices("light").stream("one")
    read = {options.draw_queue(stream, light_plan, ("T1", 1)) for _ in range(50)}
    assert read == {("T1", 1), ("%LMQ%L0", 0), ("%LMQ%L1", 0), ("M0", 1), ("T0", 1)}
    assert options.draw_queue(stream, light_plan.replace(light_queues={"chance": 0.0}), ("T1", 1)) == ("T1", 1)


def test_a_run_with_light_queues_fills_them_without_a_violation(
    light_plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[str] = set()
    get_message = MessageStore.get_message

    def watched(self: MessageStore, topic: str, *arguments: object, **options: object) -> object:
        result = get_message(self, topic, *arguments, **options)
        if result.records:
            seen.add(topic)
        return result

    monkeypatch.setattr(MessageStore, "get_message", watched)
    for seed in range(5):
        assert execute(light_plan, str(seed)).violations == []
    assert "%LMQ%L0" in seen


def test_the_ledger_recognises_a_record_whatever_light_queue_offsets_it_got(light_put: PutEntry) -> None:
    ledger = Ledger()
    ledger.record_request(light_put)
    assert ledger.put_of(record_of(light_put, INNER_MULTI_QUEUE_OFFSET="3,4")) is light_put
    assert ledger.put_of(record_of(light_put, INNER_MULTI_QUEUE_OFFSET="3,4", other="x")) is None
    assert ledger.put_of(record_of(light_put, INNER_MULTI_QUEUE_OFFSET="3,4", REAL_TOPIC="T", REAL_QID="0")) is None
    assert ledger.put_of(record_of(light_put, "other", INNER_MULTI_QUEUE_OFFSET="3,4")) is None


def test_a_delayed_message_enters_light_queues_at_its_delivery(light_put: PutEntry) -> None:
    ledger = Ledger()
    light_put.wait = False
    set_delay_level(light_put, 1)
    ledger.record_request(light_put)
    real = {"REAL_TOPIC": "T", "REAL_QID": "0"}
    waiting = record_of(light_put, "SCHEDULE_TOPIC_XXXX", WAIT="false", **real)
    assert ledger.put_of(waiting) is light_put
    copy = record_of(light_put, INNER_MULTI_QUEUE_OFFSET="3,4", **real)
    assert (ledger.put_of(copy), ledger.put_copied_by(copy)) == (None, light_put)


@pytest.mark.parametrize("wait", [True, False])  # a record with offsets in light queues has no WAIT
def test_the_largest_record_size_includes_the_longest_light_queue_offsets(light_put: PutEntry, wait: bool) -> None:
    light_put.wait = wait
    plain = 91 + 4 + 1 + len(light_put.properties)
    places = len("\2INNER_MULTI_QUEUE_OFFSET\1") + 2 * 19 + 1
    assert options.longest_record_bytes(light_put) == plain + places
    set_delay_level(light_put, 1)
    goes_to = len("\2REAL_TOPIC\1T\2REAL_QID\0010")
    assert options.longest_record_bytes(light_put) == plain + places + goes_to
    light_put.light_names = ()
    assert options.longest_record_bytes(light_put) == light_put.record_bytes


def test_a_topic_longer_than_the_schedule_topic_needs_a_larger_record_on_delivery(light_put: PutEntry) -> None:
    light_put.light_names, light_put.topic = (), "t" * 127
    set_delay_level(light_put, 1)
    assert options.longest_record_bytes(light_put) == light_put.record_bytes + 127 - len("SCHEDULE_TOPIC_XXXX")


def test_a_stored_put_has_a_known_record_size(light_plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[PutEntry] = []
    ask = Ledger.record_request
    monkeypatch.setattr(Ledger, "record_request", lambda self, put: (asked.append(put), ask(self, put))[1])
    execute(light_plan)
    stored = [put for put in asked if put.status is PutMessageStatus.PUT_OK and put.light_names]
    assert stored
    assert all(put.wrote_bytes and put.wrote_bytes < options.longest_record_bytes(put) for put in stored)
