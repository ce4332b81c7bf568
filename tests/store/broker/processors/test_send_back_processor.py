"""Consumers return messages that they could not process, for a limited number of retries."""

from typing import Any

import pytest

from tornlog.store.broker.requests import RequestCode, ResponseCode
from tornlog.store.broker.topics import TopicConfig
from tornlog.store.formats.properties import decode_properties

from .conftest import GROUP

RETRY, DEAD = f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"


def test_a_message_sent_back_is_retried_after_the_requested_delay(bench: Any, client: Any) -> None:
    sent = client.send_message(b"hard", properties={"TAGS": "A"}).ext_fields["msgId"]
    answer = client.answer(RequestCode.CONSUMER_SEND_MSG_BACK, offset=0, group=GROUP, delayLevel=1)
    assert answer.code == ResponseCode.SUCCESS
    bench.sleep(900)
    bench.settle()
    assert client.pulled(topic=RETRY) == []
    bench.sleep(200)
    bench.settle()
    (record,) = client.pulled(topic=RETRY)
    properties = decode_properties(record.properties)
    assert (record.body, record.reconsume_times, record.queue_id) == (b"hard", 1, 0)
    assert properties["RETRY_TOPIC"] == "Orders"
    assert properties["ORIGIN_MESSAGE_ID"] == sent
    assert properties["TAGS"] == "A"


def test_the_default_delay_grows_with_each_retry(bench: Any) -> None:
    client = bench.client()
    client.send_message(b"hard")
    levels = []
    topic, offset = "Orders", 0
    for _ in range(3):
        record = client.pulled(offset, topic)[0]
        fields = {"offset": record.physical_offset, "group": GROUP, "delayLevel": 0}
        assert client.answer(RequestCode.CONSUMER_SEND_MSG_BACK, **fields).code == ResponseCode.SUCCESS
        bench.sleep(61_000)
        bench.settle()
        offset, topic = (0, RETRY) if topic == "Orders" else (offset + 1, RETRY)
        again = client.pulled(offset, topic)[0]
        levels.append(decode_properties(again.properties)["DELAY"])
    assert levels == ["3", "4", "5"]


def test_a_message_with_negative_delay_level_or_no_retries_left_becomes_a_dead_letter(bench: Any, client: Any) -> None:
    client.send_message(b"hopeless")
    client.send_message(b"too often")
    back = RequestCode.CONSUMER_SEND_MSG_BACK
    second = client.pulled(1)[0].physical_offset
    assert client.answer(back, offset=0, group=GROUP, delayLevel=-1).code == ResponseCode.SUCCESS
    fields = {"offset": second, "group": GROUP, "delayLevel": 0, "maxReconsumeTimes": 0}
    assert client.answer(back, **fields).code == ResponseCode.SUCCESS
    bench.settle()
    assert [record.body for record in client.pulled(topic=DEAD)] == [b"hopeless", b"too often"]


def test_dead_letters_go_to_the_first_queue_of_a_topic_that_an_operator_gave_more(bench: Any, client: Any) -> None:
    client.send_message(b"hopeless")
    bench.broker.topics.put(DEAD, TopicConfig(DEAD, 4, 4))
    for _ in range(4):
        client.answer(RequestCode.CONSUMER_SEND_MSG_BACK, offset=0, group=GROUP, delayLevel=-1)
    bench.settle()
    assert len(client.pulled(topic=DEAD)) == 4


def test_only_visible_messages_can_be_sent_back(bench: Any, client: Any) -> None:
    client.send_message(b"half", properties={"TRAN_MSG": "true", "PGROUP": "sellers"})
    end = bench.broker.store.max_phy_offset
    for offset in (0, 1, end, -5, 1 << 62):
        answer = client.answer(RequestCode.CONSUMER_SEND_MSG_BACK, offset=offset, group=GROUP, delayLevel=1)
        assert (answer.code, str(offset) in answer.remark) == (ResponseCode.SYSTEM_ERROR, True)
    assert bench.broker.store.max_phy_offset == end


@pytest.mark.parametrize(("topic", "level"), [(RETRY, 1), (DEAD, -1)])
def test_sending_back_to_a_retry_topic_without_queues_is_refused(
    bench: Any, client: Any, topic: str, level: int
) -> None:
    client.send_message(b"hard")
    bench.broker.topics.put(topic, TopicConfig(topic, 0, 0))
    end = bench.broker.store.max_phy_offset
    answer = client.answer(RequestCode.CONSUMER_SEND_MSG_BACK, offset=0, group=GROUP, delayLevel=level)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert f"writeQueueNums of topic '{topic}'" in answer.remark
    assert bench.broker.store.max_phy_offset == end
