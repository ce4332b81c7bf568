"""The messages that a consumer group has handled, and those that it may miss after a recovery."""

import pytest

from tornlog.scenarios.oracle.group_delivery import GroupDelivery, MessagePlace, is_of_users, user_places
from tornlog.scenarios.oracle.put_entry import PLAIN
from tornlog.scenarios.oracle.reader import LogRecord
from tornlog.scenarios.oracle.recovered import FoundRecord

QUEUE = ("T0", 0)


def place_at(offset: int) -> MessagePlace:
    return MessagePlace(*QUEUE, offset)


def undelivered_offsets(group: GroupDelivery, until: int) -> list[int]:
    return [offset for offset in range(until) if group.is_owed(place_at(offset))]


def record_at(where: MessagePlace, body: bytes) -> FoundRecord:
    record = LogRecord(0, 100, where.topic, where.queue_id, where.queue_offset, 0, 0, b"", PLAIN.head(body))
    return FoundRecord(record, "log", 0, body)


def test_a_group_must_receive_a_message_until_a_consumer_has_handled_it() -> None:
    group = GroupDelivery()
    group.record_position(QUEUE, 2, asked_in=0)
    group.record_handled([place_at(0)])

    assert undelivered_offsets(group, 2) == [1]


def test_a_message_at_an_offset_skipped_before_a_recovery_need_not_be_received() -> None:
    group = GroupDelivery()
    group.record_position(QUEUE, 1, asked_in=0)
    assert group.note_recovery(1, [], {}) == {}

    assert undelivered_offsets(group, 2) == [1]


@pytest.mark.parametrize(("asked_in", "left", "excused"), [(0, 1, 2), (0, 3, 0), (1, 1, 0)])
def test_a_skip_answered_by_an_earlier_life_excuses_only_offsets_lost_in_a_recovery_since(
    asked_in: int, left: int, excused: int
) -> None:
    group = GroupDelivery()
    group.note_recovery(1, map(place_at, range(left)), {})
    group.record_position(QUEUE, 2, asked_in=asked_in)

    assert undelivered_offsets(group, 3) == list(range(excused, 3))


def test_a_later_recovery_does_not_excuse_a_message_from_before_a_stop() -> None:
    group = GroupDelivery()
    group.note_recovery(1, [], {})
    group.note_recovery(2, [place_at(0)], {})
    group.record_position(QUEUE, 1, asked_in=1)
    assert undelivered_offsets(group, 1) == [0], "the message was there when that was asked"
    group.record_position(QUEUE, 1, asked_in=0)
    assert undelivered_offsets(group, 1) == []


def test_a_recovery_drops_lost_handled_messages_and_returns_queue_ends() -> None:
    group = GroupDelivery()
    group.record_handled([place_at(0), place_at(1)])

    assert group.note_recovery(1, [place_at(0)], {("T1", 0): 4}) == {QUEUE: 1, ("T1", 0): 4}
    assert group.dealt_with == {place_at(0)}


def test_of_two_records_with_one_queue_offset_only_the_first_counts() -> None:
    first, moved = record_at(place_at(0), b"first"), record_at(place_at(0), b"moved")
    other = record_at(MessagePlace("%RETRY%consumers", 0, 0), b"first")

    assert dict(user_places([first, moved, other])) == {place_at(0): first}
    assert [is_of_users(topic) for topic in ("T0", "T12", "T", "%RETRY%T0")] == [True, True, False, False]
