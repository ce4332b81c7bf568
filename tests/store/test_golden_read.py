"""Reads of golden stores return the same results as RocketMQ."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.store.rigs import StandingClock
from tornlog.store.formats.host import encode_message_id
from tornlog.store.formats.messages import Message, PutMessageStatus
from tornlog.store.message_store import MessageStore
from tornlog.store.real.files import RealFiles
from tornlog.store.real.world import ThreadTasks, overlay_world
from tornlog.store.tools.geometry import Geometry
from tornlog.store.tools.verify import verify_directory
from tornlog.store.world import World

GOLDEN = Path(__file__).parents[1] / "golden"
MAIN_CASES = sorted(
    path.parent.name for path in GOLDEN.glob("*/manifest.json") if not path.parent.name.startswith("14-")
)
UNDAMAGED_14 = ["14-abn-control", "14-abn-index-deleted", "14-cln-abort-created", "14-cln-ckpt-deleted"]
CASES = [case for case in MAIN_CASES + UNDAMAGED_14 if case != "05b-delay-abrupt"]
"""Golden stores that RocketMQ's recovery did not change. In 05b RocketMQ delivered due messages."""


def pull_answer(store: MessageStore, question: dict[str, Any]) -> dict[str, Any]:
    result = store.get_message(
        question["topic"], question["queueId"], question["offset"], question["maxMsgNums"], question["subExpression"]
    )
    return {
        "status": result.status.value,
        "nextBeginOffset": result.next_begin_offset,
        "minOffset": result.min_offset,
        "maxOffset": result.max_offset,
        "bufferTotalSize": result.buffer_total_bytes,
        "queueOffsets": [int.from_bytes(record[20:28], "big") for record in result.records],
        "phyOffsets": [int.from_bytes(record[28:36], "big") for record in result.records],
    }


def lookup_answer(store: MessageStore, physical_offset: int) -> dict[str, Any] | None:
    record = store.look_message_by_offset(physical_offset)
    if record is None:
        return None
    return {
        "msgId": encode_message_id(record.store_host, record.physical_offset),
        "topic": record.topic,
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
        "storeSize": record.size_bytes,
    }


@pytest.mark.parametrize("case", CASES)
def test_every_pull_and_lookup_of_a_golden_store_returns_the_result_of_rocketmq(
    golden: Callable[..., Any], loaded: Callable[..., MessageStore], case: str
) -> None:
    written = golden(case)
    store = loaded(written.config(written.before))
    observed = written.observed
    for question in observed["getMessage"]:
        answer = pull_answer(store, question)
        assert answer == {name: question[name] for name in answer}, question
    for question in observed["lookMessageByOffset"]:
        assert lookup_answer(store, question["commitLogOffset"]) == question["found"]
    assert observed["getMessage"]


@pytest.mark.parametrize("case", CASES)
def test_time_lookups_of_a_golden_store_return_the_results_of_rocketmq(
    golden: Callable[..., Any], loaded: Callable[..., MessageStore], case: str
) -> None:
    written = golden(case)
    store = loaded(written.config(written.before))  # recovery does not change the times of these files
    for question in written.observed["offsetByTime"]:
        answer = store.get_offset_in_queue_by_time(question["topic"], question["queueId"], question["timestamp"])
        assert answer == question["offset"], question
    assert written.observed["offsetByTime"]


@pytest.mark.parametrize("case", CASES)
def test_messages_put_into_a_rocketmq_store_continue_its_queues(
    golden: Callable[..., Any], started: Callable[..., MessageStore], loaded: Callable[..., MessageStore], case: str
) -> None:
    written = golden(case)
    config = written.config(written.before)
    told = written.observed["topicQueueTable"]
    last = written.observed["commitLogRecords"][-1]
    last_offset = last["offset"] if isinstance(last, dict) else last[0]

    stored_ms = last["storeTimestamp"] if isinstance(last, dict) else last[-1]
    store = started(config, World(StandingClock(stored_ms), ThreadTasks(), RealFiles()))
    end, last_record = store.max_phy_offset, store.look_message_by_offset(last_offset)
    assert last_record is not None
    added = []
    for queue in written.observed["queues"]:
        for number in range(3):
            body = f"added {number}".encode()
            message = Message.create(queue["topic"], body, queue_id=queue["queueId"], tags="Added")
            result = store.put_message(message)
            assert result.status is PutMessageStatus.PUT_OK
            assert result.append is not None
            expected = told[f"{queue['topic']}-{queue['queueId']}"] + number
            assert result.append.queue_offset == expected
            added.append((message, expected, result.append.wrote_offset))
    assert store.shutdown()

    verification = verify_directory(overlay_world().files, str(written.before), Geometry(), lambda read_bytes: None)
    assert verification.findings.violations == []
    again = loaded(config)
    assert again.min_phy_offset == written.observed["minPhyOffset"]
    assert again.look_message_by_offset(last_offset) == last_record
    assert min(physical_offset for _, _, physical_offset in added) >= end
    for message, queue_offset, physical_offset in added:
        found = again.get_message(message.topic, message.queue_id, queue_offset, 1)
        assert (found.queue_offsets, found.physical_offsets) == ([queue_offset], [physical_offset])
        record = again.look_message_by_offset(physical_offset)
        assert record is not None
        assert record.body == message.body
    for question in written.observed["getMessage"]:
        if question["status"] == "FOUND" and question["nextBeginOffset"] < question["maxOffset"]:
            answer = pull_answer(again, question)
            assert answer["phyOffsets"] == question["phyOffsets"]
