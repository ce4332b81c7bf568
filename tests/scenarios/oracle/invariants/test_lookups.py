"""Lookups: wrong bounds of a queue, and offsets by time that are not the nearest."""

import pytest

from tornlog.scenarios.oracle.invariants.lookups import (
    ListedEntry,
    QueueBounds,
    check_earliest_time,
    check_last_time,
    check_missing_queue,
    check_offset_by_time,
    check_queue_bounds,
    check_queue_entries,
    check_viewed_message,
)
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.oracle.put_entry import PutEntry

QUEUE = ("T0", 0)
NOTHING = QueueBounds(0, 0)


@pytest.fixture
def ledger() -> Ledger:
    """Return a ledger with three messages; the second and third are at log offsets 100 and 200."""
    ledger = Ledger()
    for number in range(3):
        put = PutEntry(f"m{number}", *QUEUE, "", b"body", b"KEYS\1m%d" % number, True, 0)
        put.wrote_bytes = 100
        if number:
            put.queue_offset, put.physical_offset = number, 100 * number
        ledger.record_request(put)
    return ledger


@pytest.mark.parametrize(
    ("bounds", "before", "fields"),
    [
        (QueueBounds(0, 3), NOTHING, []),
        (QueueBounds(0, 2), NOTHING, []),  # the third message is not dispatched yet
        (QueueBounds(0, 1), NOTHING, ["maxOffset"]),
        (QueueBounds(0, 4), NOTHING, ["maxOffset"]),
        (QueueBounds(0, 2), QueueBounds(0, 3), ["maxOffset"]),
        (QueueBounds(2, 3), NOTHING, ["minOffset", "minOffset"]),
    ],
)
def test_the_bounds_of_a_queue_contain_its_dispatched_messages(
    ledger: Ledger, bounds: QueueBounds, before: QueueBounds, fields: list[str]
) -> None:
    assert [found.field for found in check_queue_bounds(ledger, QUEUE, bounds, before, 200)] == fields


@pytest.mark.parametrize(("offset", "nearer"), [(0, 1), (1, 0), (2, 2), (3, 0)])
def test_an_offset_by_time_is_the_nearest_in_its_file(offset: int, nearer: int) -> None:
    times = {0: 1_000, 1: 2_000, 2: 3_000, 3: 1_900}  # offset 3 is in the next file
    found = check_offset_by_time(QUEUE, 1_900, offset, times, QueueBounds(0, 4), 3)
    assert len(list(found)) == nearer


@pytest.mark.parametrize(("wanted_ms", "offset", "wrong"), [(1_000, 3, 1), (1_001, 3, 0), (500, 0, 0)])
def test_a_time_before_the_first_message_finds_it_also_in_another_file(wanted_ms: int, offset: int, wrong: int) -> None:
    found = check_offset_by_time(QUEUE, wanted_ms, offset, {0: 1_000, 3: 1_900}, QueueBounds(0, 4), 3)
    assert len(list(found)) == wrong


def test_the_answer_about_a_missing_queue_is_that_about_an_empty_one() -> None:
    assert not list(check_missing_queue(QUEUE, "offset", 0, 0))
    (found,) = check_missing_queue(QUEUE, "offset", 0, -1)
    assert (found.invariant, found.expected, found.found) == ("READ", "0", "-1")


def test_an_earliest_time_is_that_of_the_first_message() -> None:
    assert not list(check_earliest_time(QUEUE, 5, 5))
    assert not list(check_earliest_time(QUEUE, 5, None))
    assert [found.expected for found in check_earliest_time(QUEUE, -1, 5)] == ["5"]


def test_a_dispatched_message_is_found_by_its_id(ledger: Ledger) -> None:
    put = ledger.puts[1]
    assert not list(check_viewed_message(ledger, put, 100, [], must_be_there=False))
    (found,) = check_viewed_message(ledger, put, 100, [], must_be_there=True)
    assert (found.invariant, found.expected) == ("READ", "m1")


@pytest.mark.parametrize(("last_ms", "wrong"), [(5, 0), (6, 1), (None, 0)])
def test_the_last_time_of_a_queue_is_that_of_its_last_message(last_ms: int | None, wrong: int) -> None:
    assert len(list(check_last_time(QUEUE, 5, last_ms))) == wrong


KNOWN = {0: ListedEntry(0, 90), 1: ListedEntry(100, 100), 2: ListedEntry(200, 100)}


@pytest.mark.parametrize(
    ("asked", "entries", "summary"),
    [
        (range(9), KNOWN, ""),
        (range(1, 2), {1: KNOWN[1]}, ""),
        (range(3, 9), {3: ListedEntry(300, 7)}, ""),  # stored since the request
        (range(1, 9), {1: KNOWN[1]}, "are missing"),
        (range(2), KNOWN, "not asked for"),
        (range(1, 2), {1: ListedEntry(100, 99)}, "the entry of m1 in T0/0 is wrong"),
        (range(1, 2), {1: ListedEntry(101, 100)}, "the entry of m1 in T0/0 is wrong"),
    ],
)
def test_entries_of_a_queue_name_the_places_of_its_messages(
    ledger: Ledger, asked: range, entries: dict[int, ListedEntry], summary: str
) -> None:
    found = [one.summary for one in check_queue_entries(ledger, QUEUE, asked, entries, QueueBounds(0, 3))]
    assert len(found) == bool(summary)
    assert all(summary in one for one in found)


def test_entries_before_the_begin_of_a_queue_may_be_missing(ledger: Ledger) -> None:
    entries = {2: KNOWN[2]}
    assert not list(check_queue_entries(ledger, QUEUE, range(9), entries, QueueBounds(2, 3)))
    assert list(check_queue_entries(ledger, QUEUE, range(9), entries, QueueBounds(1, 3)))
