"""Stored form of sent messages, and answers to sends."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.one_life import with_settings
from tornlog.store.broker.requests import RequestCode, ResponseCode
from tornlog.store.broker.sending import PUT_CODES
from tornlog.store.broker.topics import TopicConfig
from tornlog.store.formats.batch import BatchUnit, encode_batch
from tornlog.store.formats.messages import PutMessageStatus
from tornlog.store.formats.properties import decode_properties

Live = Callable[..., Any]


def test_a_send_is_answered_with_its_queue_and_offset(client: Any) -> None:
    client.send_message(b"one")
    answer = client.send_message(b"two")
    assert answer.code == ResponseCode.SUCCESS
    record = client.pulled(1)[0]
    assert answer.ext_fields == {
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "msgId": f"7F00000100002A9F{record.physical_offset:016X}",
        "queueId": "0",
        "queueOffset": "1",
    }
    assert (record.body, record.topic, record.queue_id) == (b"two", "Orders", 0)
    assert (str(record.born_host), str(record.store_host)) == ("10.0.0.1|50000", "127.0.0.1|10911")


def test_send_requests_with_long_field_names_are_accepted(bench: Any, client: Any) -> None:
    answer = client.answer(
        RequestCode.SEND_MESSAGE,
        b"hello",
        producerGroup="sellers",
        topic="Orders",
        defaultTopic="TBW102",
        defaultTopicQueueNums=4,
        queueId=3,
        sysFlag=0,
        bornTimestamp=1,
        flag=7,
        properties="TAGS\x01A",
    )
    bench.settle()
    assert answer.code == ResponseCode.SUCCESS
    assert client.pulled(queueId=3)[0].flag == 7


def test_stored_properties_gain_the_cluster_lose_wait_and_have_java_map_order(bench: Any) -> None:
    client = bench.client()
    given = {"KEYS": "k0", "UNIQ_KEY": "U", "WAIT": "true", "TAGS": "TagA"}
    client.send_message(b"m0", properties=given)
    properties: str = client.pulled()[0].properties
    assert properties == "KEYS\x01k0\x02UNIQ_KEY\x01U\x02CLUSTER\x01DefaultCluster\x02TAGS\x01TagA"


def test_the_first_message_creates_its_topic_with_the_requested_number_of_queues(bench: Any) -> None:
    bench.client().send_message(b"m", d=3)
    made = bench.broker.topics.get("Orders")
    assert (made.read_queue_nums, made.write_queue_nums, made.perm) == (3, 3, 6)
    bench.client().send_message(b"m", "Wide", d=100)
    assert bench.broker.topics.get("Wide").write_queue_nums == 8


@with_settings(auto_create_topic_enable=False)
def test_automatic_topic_creation_can_be_disabled(bench: Any) -> None:
    answer = bench.client().send_message(b"m")
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert "Orders" in answer.remark


@pytest.mark.parametrize(
    ("fields", "code", "word"),
    [
        ({"b": "no/such"}, ResponseCode.SYSTEM_ERROR, "topic"),
        ({"b": ".."}, ResponseCode.SYSTEM_ERROR, "topic"),
        ({"b": ""}, ResponseCode.SYSTEM_ERROR, "topic"),
        ({"b": "x" * 128}, ResponseCode.SYSTEM_ERROR, "127"),
        ({"b": "SCHEDULE_TOPIC_XXXX"}, ResponseCode.NO_PERMISSION, "SCHEDULE_TOPIC_XXXX"),
        ({"b": "RMQ_SYS_TRANS_HALF_TOPIC"}, ResponseCode.NO_PERMISSION, "only the broker may send"),
        ({"e": 4}, ResponseCode.SYSTEM_ERROR, "queueId"),
        ({"e": "many"}, ResponseCode.SYSTEM_ERROR, "e: expected a 32-bit integer, found 'many'"),
        ({"e": 1 << 31}, ResponseCode.SYSTEM_ERROR, "e: expected a 32-bit integer"),
        ({"g": "9" * 20}, ResponseCode.SYSTEM_ERROR, "g: expected a 64-bit integer"),
    ],
)
def test_an_invalid_send_is_refused_with_its_error(
    bench: Any, fields: dict[str, object], code: ResponseCode, word: str
) -> None:
    before = bench.broker.store.max_phy_offset
    answer = bench.client().send_message(b"m", **fields)
    assert answer.code == code
    assert word in answer.remark
    assert bench.broker.store.max_phy_offset == before


def test_the_error_for_a_send_without_a_topic_names_the_field(bench: Any) -> None:
    answer = bench.client().answer(RequestCode.SEND_MESSAGE_V2, b"m", a="sellers")
    assert answer.remark == "b: expected a string, found no such field"


@with_settings(store={"max_message_size": 100})
def test_a_body_above_the_size_limit_is_illegal(bench: Any) -> None:
    assert bench.client().send_message(b"x" * 101).code == ResponseCode.MESSAGE_ILLEGAL
    assert bench.client().send_message(b"x" * 100).code == ResponseCode.SUCCESS


def test_a_negative_queue_id_selects_a_queue_round_robin(bench: Any) -> None:
    client = bench.client()
    queues = [client.send_message(b"m", e=-1).ext_fields["queueId"] for _ in range(8)]
    assert sorted(queues) == ["0", "0", "1", "1", "2", "2", "3", "3"]


def test_a_batch_is_stored_as_adjacent_records_with_unique_ids(bench: Any, client: Any) -> None:
    units = encode_batch([BatchUnit(0, b"b1", b"TAGS\x01A"), BatchUnit(5, b"b2", b"")])
    fields = {"a": "sellers", "b": "Orders", "c": "TBW102", "d": 4, "e": 2, "f": 0, "g": 1, "h": 0}
    answer = client.answer(RequestCode.SEND_BATCH_MESSAGE, units, i="WAIT\x01true", m="true", **fields)
    bench.settle()
    assert answer.ext_fields["queueOffset"] == "0"
    assert len(answer.ext_fields["msgId"].split(",")) == 2
    first, second = client.pulled(queueId=2)
    assert (first.body, second.body, second.flag) == (b"b1", b"b2", 5)
    assert decode_properties(second.properties) == {"WAIT": "true", "CLUSTER": "DefaultCluster"}


def test_a_malformed_batch_is_illegal(bench: Any) -> None:
    fields = {"a": "sellers", "b": "Orders", "c": "TBW102", "d": 4, "e": 2, "f": 0, "g": 1, "h": 0}
    for units in (b"", b"half a unit", b"\xff" * 64):
        answer = bench.client().answer(RequestCode.SEND_BATCH_MESSAGE, units, m="true", **fields)
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    retry = {**fields, "b": "%RETRY%billing"}
    answer = bench.client().answer(RequestCode.SEND_BATCH_MESSAGE, b"", m="true", **retry)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL


def test_transaction_flags_from_a_client_are_ignored(client: Any) -> None:
    client.send_message(b"seen", f=12)
    assert [record.body for record in client.pulled()] == [b"seen"]


def test_a_message_with_too_many_retries_goes_to_the_dead_letter_topic(client: Any) -> None:
    topic = "%RETRY%billing"
    assert client.send_message(b"again", topic, j=2, l=3).code == ResponseCode.SUCCESS
    assert client.send_message(b"dead", topic, j=3, l=3).code == ResponseCode.SUCCESS
    old = client.send_message(b"old client", topic, j=3, l=3, version=120)
    assert old.code == ResponseCode.SUCCESS
    assert [record.body for record in client.pulled(topic=topic)] == [b"again", b"old client"]
    assert [record.body for record in client.pulled(topic="%DLQ%billing")] == [b"dead"]


@with_settings(broker_permission=4)
def test_a_read_only_broker_refuses_sends_to_ordered_topics_and_retries(client: Any) -> None:
    topic = {"topic": "Ordered", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "order": "true"}
    client.answer(RequestCode.UPDATE_AND_CREATE_TOPIC, **topic)
    assert client.send_message(b"m", "Ordered").code == ResponseCode.NO_PERMISSION
    assert client.send_message(b"m", "Others").code == ResponseCode.SUCCESS
    back = client.answer(RequestCode.CONSUMER_SEND_MSG_BACK, offset=0, group="billing", delayLevel=0)
    assert back.code == ResponseCode.NO_PERMISSION


@with_settings(start_accept_send_request_time_stamp_ms=1 << 62)
def test_no_message_is_accepted_before_the_configured_start_time(bench: Any) -> None:
    assert bench.client().send_message(b"m").code == ResponseCode.SYSTEM_ERROR


def test_topics_survive_a_restart_of_the_broker(live: Live, lab: Callable[..., Any]) -> None:
    first = lab()
    live(lambda bench: bench.client().send_message(b"m", "Kept", d=2), first)
    image = first.switch_off()

    def body(bench: Any) -> None:
        assert bench.broker.topics.get("Kept").read_queue_nums == 2
        assert [record.body for record in bench.client().pulled(topic="Kept")] == [b"m"]

    live(body, lab(image))


def test_a_topic_whose_table_cannot_be_stored_is_not_created(live: Live, lab: Callable[..., Any]) -> None:
    bench_lab = lab()

    def body(bench: Any) -> None:
        bench_lab.failures.plan("sync", "topics.json")
        assert bench.client().send_message(b"m").code == ResponseCode.SYSTEM_ERROR
        assert bench.broker.topics.get("Orders") is None
        assert bench.client().send_message(b"m").code == ResponseCode.SUCCESS

    live(body, bench_lab)


def test_every_put_status_has_a_response_code_that_clients_know() -> None:
    assert set(PUT_CODES) == set(PutMessageStatus)
    assert [PUT_CODES[status] for status in (PutMessageStatus.PUT_OK, PutMessageStatus.FLUSH_DISK_TIMEOUT)] == [0, 10]
    assert PUT_CODES[PutMessageStatus.SLAVE_NOT_AVAILABLE] == 11
    assert PUT_CODES[PutMessageStatus.FLUSH_SLAVE_TIMEOUT] == 12
    assert PUT_CODES[PutMessageStatus.SERVICE_NOT_AVAILABLE] == 14


@pytest.mark.parametrize("queue_id", [-1, 0])
def test_a_send_to_a_topic_without_queues_is_refused(bench: Any, queue_id: int) -> None:
    bench.broker.topics.put("Orders", TopicConfig("Orders", 1, 0))
    end = bench.broker.store.max_phy_offset
    answer = bench.client().send_message(b"m", e=queue_id)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "writeQueueNums of topic 'Orders': expected 1 or more, found 0" in answer.remark
    assert bench.broker.store.max_phy_offset == end


@pytest.mark.parametrize("name", ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
def test_the_error_for_a_message_with_a_delivery_time_names_the_property(client: Any, name: str) -> None:
    timed = {"KEYS": "k", name: "5"}
    plain = client.send_message(b"m", properties=timed)
    half = client.send_message(b"m", properties={**timed, "TRAN_MSG": "true", "PGROUP": "sellers"})
    units = [BatchUnit(0, b"a", b""), BatchUnit(0, b"b", f"{name}\x015\x02".encode())]
    inside = client.answer(320, encode_batch(units), **batch_fields())
    around = client.answer(320, encode_batch(units[:1]), **batch_fields(i=f"{name}\x015"))
    for answer in (plain, half, inside, around):
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert f"property {name}" in answer.remark
    assert client.send_message(b"TIMER_DELAY_SEC", properties={"KEYS": "TIMER_DELAY_SEC"}).code == 0
    units = [BatchUnit(0, b"TIMER_DELAY_SEC", b"")]
    assert client.answer(320, encode_batch(units), **batch_fields()).code == 0


def batch_fields(**given: Any) -> dict[str, Any]:
    fields = {"a": "sellers", "b": "Orders", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 0, "h": 0, "i": ""}
    return {**fields, "m": "true", **given}
