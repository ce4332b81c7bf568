"""Queries by key, producer's id, log offset and time, and bounds of queues."""

from typing import Any

from tests.one_life import with_settings
from tornlog.store.broker.requests import RequestCode, ResponseCode

from .conftest import records_of

EVER = {"beginTimestamp": 0, "endTimestamp": (1 << 63) - 1}


def test_a_query_by_key_returns_the_messages_with_that_key(client: Any) -> None:
    for number in range(3):
        client.send_message(b"%d" % number, properties={"KEYS": "k1" if number else "k0"})
    found = client.answer(RequestCode.QUERY_MESSAGE, topic="Orders", key="k1", maxNum=10, **EVER)
    assert found.code == ResponseCode.SUCCESS
    assert [record.body for record in records_of(found)] == [b"1", b"2"]
    assert int(found.ext_fields["indexLastUpdatePhyoffset"]) == records_of(found)[-1].physical_offset
    none = client.answer(RequestCode.QUERY_MESSAGE, topic="Orders", key="k2", maxNum=10, **EVER)
    assert none.code == ResponseCode.QUERY_NOT_FOUND


@with_settings(store={"default_query_max_num": 2})
def test_a_query_by_unique_key_uses_the_configured_limit(client: Any) -> None:
    for _ in range(3):
        client.send_message(b"m", properties={"UNIQ_KEY": "U"})
    fields = {"topic": "Orders", "key": "U", "maxNum": 1, "_UNIQUE_KEY_QUERY": "true", **EVER}
    assert len(records_of(client.answer(RequestCode.QUERY_MESSAGE, **fields))) == 2


def test_a_message_can_be_viewed_only_by_its_exact_offset(client: Any) -> None:
    client.send_message(b"one")
    client.send_message(b"two")
    offset = client.pulled(1)[0].physical_offset
    (record,) = records_of(client.answer(RequestCode.VIEW_MESSAGE_BY_ID, offset=offset))
    assert record == client.pulled(1)[0]
    for wrong in (offset + 1, -1, 1 << 62):
        answer = client.answer(RequestCode.VIEW_MESSAGE_BY_ID, offset=wrong)
        assert (answer.code, answer.body) == (ResponseCode.SYSTEM_ERROR, b"")


def test_min_max_and_time_offsets_of_a_queue_are_reported(bench: Any, client: Any) -> None:
    for _ in range(3):
        client.send_message(b"m")
        bench.sleep(100)
    first, last = client.pulled()[0], client.pulled()[2]

    def told(code: int, **fields: Any) -> dict[str, str]:
        answer = client.answer(code, **{"topic": "Orders", "queueId": 0, **fields})
        assert answer.code == ResponseCode.SUCCESS
        found: dict[str, str] = answer.ext_fields
        return found

    assert told(RequestCode.GET_MAX_OFFSET) == {"offset": "3"}
    assert told(RequestCode.GET_MIN_OFFSET) == {"offset": "0"}
    by_time = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
    assert told(by_time, timestamp=last.store_timestamp_ms) == {"offset": "2"}
    earliest = {"timestamp": str(first.store_timestamp_ms)}
    assert told(RequestCode.GET_EARLIEST_MSG_STORETIME) == earliest


def test_querying_a_missing_queue_returns_an_empty_queue_without_creating_it(bench: Any, client: Any) -> None:
    before = [queue.topic for queue in bench.broker.own_store.queues.all_queues()]
    for topic, queue_id in (("Nothing", 0), ("../../etc", 0), ("TBW102", 99), ("TBW102", -1)):
        for code, found in (
            (RequestCode.GET_MAX_OFFSET, {"offset": "0"}),
            (RequestCode.GET_MIN_OFFSET, {"offset": "0"}),
            (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {"offset": "0"}),
            (RequestCode.GET_EARLIEST_MSG_STORETIME, {"timestamp": "-1"}),
        ):
            answer = client.answer(code, topic=topic, queueId=queue_id, timestamp=0)
            assert (answer.code, answer.ext_fields) == (ResponseCode.SUCCESS, found)
    assert [queue.topic for queue in bench.broker.own_store.queues.all_queues()] == before
