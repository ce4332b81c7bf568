"""The messages that a consumer group has handled, and those that it may miss after a recovery."""

import pytest

from tornlog.scenarios.oracle.group_delivery import GroupDelivery, MessagePlace, is_of_users, user_places
from tornlog.scenarios.oracle.put_entry import PLAIN
from tornlog.scenarios.oracle.reader import LogRecord
from tornlog.scenarios.oracle.recovered import FoundRecord

QUEUE = ("T0", 0)


def place(offset: int) -> MessagePlace:
    return MessagePlace(*QUEUE, offset)


def owed(group: GroupDelivery, until: int) -> list[int]:
    return [offset for offset in range(until) if group.is_owed(place(offset))]


def found_at(where: MessagePlace, body: bytes) -> FoundRecord:
    record = LogRecord(0, 100, where.topic, where.queue_id, where.queue_offset, 0, 0, b"", PLAIN.head(body))
    return FoundRecord(record, "log", 0, body)


def test_a_group_is_owed_a_message_until_a_consumer_has_dealt_with_it() -> None:
    group = GroupDelivery()
    group.pass_over(QUEUE, 2, asked_in=0)
    group.deal_with([place(0)])

    assert owed(group, 2) == [1]


def test_a_message_that_reuses_a_skipped_offset_is_not_owed() -> None:
    group = GroupDelivery()
    group.pass_over(QUEUE, 1, asked_in=0)
    assert group.note_recovery(1, [], {}) == {}

    assert owed(group, 2) == [1]


@pytest.mark.parametrize(("asked_in", "left", "excused"), [(0, 1, 2), (0, 3, 0), (1, 1, 0)])
def test_an_answer_of_an_earlier_life_excuses_only_the_places_that_a_recovery_took_since(
    asked_in: int, left: int, excused: int
) -> None:
    group = GroupDelivery()
    group.note_recovery(1, map(place, range(left)), {})
    group.pass_over(QUEUE, 2, asked_in=asked_in)

    assert owed(group, 3) == list(range(excused, 3))


def test_a_later_recovery_does_not_excuse_a_message_from_before_a_stop() -> None:
    group = GroupDelivery()
    group.note_recovery(1, [], {})
    group.note_recovery(2, [place(0)], {})
    group.pass_over(QUEUE, 1, asked_in=1)
    assert owed(group, 1) == [0], "the message was there when that was asked"
    group.pass_over(QUEUE, 1, asked_in=0)
    assert owed(group, 1) == []


def test_a_recovery_drops_lost_handled_messages_and_returns_queue_ends() -> None:
    group = GroupDelivery()
    group.deal_with([place(0), place(1)])

    assert group.note_recovery(1, [place(0)], {("T1", 0): 4}) == {QUEUE: 1, ("T1", 0): 4}
    assert group.dealt_with == {place(0)}


def test_only_the_first_of_two_records_with_one_place_counts() -> None:
    first, moved = found_at(place(0), b"first"), found_at(place(0), b"moved")
    other = found_at(MessagePlace("%RETRY%consumers", 0, 0), b"first")

    assert dict(user_places([first, moved, other])) == {place(0): first}
    assert [is_of_users(topic) for topic in ("T0", "T12", "T", "%RETRY%T0")] == [True, True, False, False]
