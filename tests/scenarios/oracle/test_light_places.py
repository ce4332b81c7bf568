import pytest

from tornlog.scenarios.oracle.light_places import light_places, light_queue, light_queues_without_offset
from tornlog.scenarios.oracle.put_entry import PLAIN
from tornlog.scenarios.oracle.reader import LogRecord
from tornlog.store.formats.delay_level import SCHEDULE_TOPIC


def record(names: str, offsets: str = "", topic: str = "T0") -> LogRecord:
    text = f"KEYS\1m\2INNER_MULTI_DISPATCH\1{names}" + (f"\2INNER_MULTI_QUEUE_OFFSET\1{offsets}" if offsets else "")
    return LogRecord(0, 200, topic, 1, 7, 0, 0, text.encode(errors="surrogateescape"), PLAIN.head(b""))


def test_the_properties_of_a_record_determine_its_light_queues() -> None:
    places = light_places(record("%LMQ%a,M", "3,4"))
    assert places == {("%LMQ%a", 0): 3, ("M", 1): 4}


def test_a_record_without_light_queue_offsets_has_none() -> None:
    assert light_places(record("%LMQ%a,M")) == {}


def test_a_repeated_light_queue_name_or_the_own_queue_counts_once() -> None:
    assert light_places(record("M,T0,M", "3,7,3")) == {("M", 1): 3}
    assert light_queues_without_offset(record("M,T0,M", "3,7,3"), ("M", "T0", "M")) == []


@pytest.mark.parametrize("offsets", ["3,x", "3,", "-1,2", "0\0\0,1", "\udc80,1"])
def test_a_record_with_damaged_light_queue_offsets_has_none(offsets: str) -> None:
    assert light_places(record("%LMQ%a,M", offsets)) == {}


def test_a_light_queue_without_an_offset_in_the_record_is_missing() -> None:
    assert light_queues_without_offset(record("%LMQ%a,M", "3"), ("%LMQ%a", "M")) == [("M", 1)]


@pytest.mark.parametrize("topic", [SCHEDULE_TOPIC, "RMQ_SYS_TRANS_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"])
def test_a_delayed_or_half_message_needs_no_light_queue_offset_yet(topic: str) -> None:
    assert light_queues_without_offset(record("M", topic=topic), ("M",)) == []


def test_only_a_queue_with_a_light_name_is_shared_by_all_queue_ids() -> None:
    assert light_queue("%LMQ%a", 3) == ("%LMQ%a", 0)
    assert light_queue("M", 3) == ("M", 3)
