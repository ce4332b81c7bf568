from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.one_life import with_settings
from tests.scenarios.oracle.invariants.puts import put_of
from tornlog.scenarios.oracle.invariants import idx
from tornlog.scenarios.oracle.invariants.idx import ALWAYS_MS
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.oracle.put_entry import PutEntry
from tornlog.scenarios.oracle.recovered import read_store
from tornlog.store.index.index_file import IndexFile
from tornlog.store.index.key_query import QueryMessageResult
from tornlog.store.message_store import MessageStore


def test_a_store_without_an_index_gets_no_lookups(store: MessageStore) -> None:
    assert list(idx.check_lookups(store, read_store(store))) == []


@with_settings(indexed=True)
def test_a_key_that_is_not_found_is_a_violation_that_names_it(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(IndexFile, "may_hold", lambda file, begin_ms, end_ms: False)
    summaries = [violation.summary for violation in idx.check_lookups(store, read_store(store))]
    assert summaries == [f"a look-up of m{number} in T0" for number in range(3) for _ in range(2)]


@pytest.mark.parametrize(("torn", "wrong"), [(False, 3), (True, 0)])
@with_settings(indexed=True)
def test_lookups_by_time_are_left_out_after_a_torn_header_lost_its_time(
    torn: bool, wrong: int, store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(IndexFile, "may_hold", lambda file, *window_ms: window_ms == ALWAYS_MS)
    found = read_store(store)
    if torn:
        last = found.records[-1]
        found.records[-1] = replace(last, record=last.record._replace(store_timestamp_ms=0))
    assert len(list(idx.check_lookups(store, found))) == wrong


@with_settings(indexed=True)
def test_a_damaged_key_is_looked_up_as_stored(store: MessageStore) -> None:
    found = read_store(store)
    first = found.records[0]
    damaged = first.record._replace(properties=first.record.properties.replace(b"m0", b"\xf00"))
    found.records[0] = replace(first, record=damaged)
    assert [violation.summary for violation in idx.check_lookups(store, found)] == ["a look-up of \udcf00 in T0"] * 2


def lookup_violations(
    store: MessageStore,
    doctor: Callable[[QueryMessageResult], QueryMessageResult] = lambda result: result,
    window_ms: tuple[int, int] = ALWAYS_MS,
    forget: bool = False,
    make_put: Callable[[int], PutEntry] = put_of,
) -> list[str]:
    """Look up m1, change the answer, and judge it."""
    ledger = Ledger()
    places = [found.record.physical_offset for found in read_store(store).records]
    for number, place in enumerate(places):
        put = make_put(number)
        put.physical_offset = place
        if not forget:
            ledger.record_request(put)
    result = store.query_message("T0", "m1", idx.ANSWERS_MAX, *ALWAYS_MS)
    assert result.physical_offsets == [places[1]]
    dispatched_to = store.dispatch.reput_from.get()
    found = idx.check_lookup_answer(store, ledger, ("T0", "m1"), window_ms, doctor(result), dispatched_to)
    return [violation.summary for violation in found]


@pytest.mark.parametrize(("around_ms", "wrong"), [((0, 0), 1), ((-1, 1), 1), ((1, 9), 0), ((-9, -1), 0)])
@with_settings(indexed=True)
def test_a_lookup_in_a_window_must_find_the_messages_of_its_times(
    store: MessageStore, around_ms: tuple[int, int], wrong: int
) -> None:
    record = read_store(store).records[1].record
    begin_ms, end_ms = (record.store_timestamp_ms + by for by in around_ms)

    def stored(number: int) -> PutEntry:
        put = put_of(number)
        put.stored_ms = record.store_timestamp_ms if number == 1 else 0
        return put

    found = lookup_violations(store, without_records, (begin_ms, end_ms), make_put=stored)
    assert len(found) == wrong


def with_doubled_records(result: QueryMessageResult) -> QueryMessageResult:
    return QueryMessageResult(result.records * 2, result.physical_offsets * 2)


def without_records(result: QueryMessageResult) -> QueryMessageResult:
    return QueryMessageResult()


def with_garbage_record(result: QueryMessageResult) -> QueryMessageResult:
    return replace(result, records=[bytes(200)])


def with_another_key(result: QueryMessageResult) -> QueryMessageResult:
    return replace(result, records=[result.records[0].replace(b"KEYS\1m1", b"KEYS\1m7")])


@pytest.mark.parametrize(
    ("doctor", "summaries"),
    [
        (lambda result: result, []),
        (with_doubled_records, ["a look-up of m1 in T0"]),
        (without_records, ["a look-up of m1 in T0"]),
        (with_garbage_record, ["an answer without the key"]),
        (with_another_key, ["an answer without the key"]),
    ],
)
@with_settings(indexed=True)
def test_a_query_answer_that_does_not_match_the_puts_is_a_violation(
    store: MessageStore, doctor: Callable[[QueryMessageResult], QueryMessageResult], summaries: list[str]
) -> None:
    assert lookup_violations(store, doctor) == summaries


@with_settings(indexed=True)
def test_a_query_answer_outside_of_the_time_range_is_a_violation(store: MessageStore) -> None:
    assert lookup_violations(store, window_ms=(0, 1)) == ["an answer outside of the time window"]


@with_settings(indexed=True)
def test_a_query_answer_that_was_never_put_is_a_violation(store: MessageStore) -> None:
    assert lookup_violations(store, forget=True) == ["an answer that no producer put"]


@with_settings(indexed=True)
def test_a_query_answer_with_another_body_is_a_violation(store: MessageStore) -> None:
    def other(number: int) -> PutEntry:
        put = put_of(number)
        put.body = put.body.upper()
        return put

    assert lookup_violations(store, make_put=other) == ["an answer with another body"]


@with_settings(indexed=True)
def test_a_query_answer_of_maximum_size_may_lack_older_messages(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def same_key(number: int) -> PutEntry:
        put = put_of(number)
        put.properties = put.properties.replace(b"KEYS\1m0", b"KEYS\1m1")
        return put

    monkeypatch.setattr(idx, "ANSWERS_MAX", 1)
    ledger = Ledger()
    for number, place in enumerate((0, 5)):
        put = same_key(0 if number == 0 else 2)
        put.properties += b"\2n\1%d" % number
        put.physical_offset = place
        ledger.record_request(put)
    store.dispatch.reput_from.set(10_000)
    result = store.query_message("T0", "m1", 1, *ALWAYS_MS)
    empty = QueryMessageResult()
    asked = ("T0", "m1")
    judged = idx.check_lookup_answer(store, ledger, asked, ALWAYS_MS, result, 10_000)
    missed = idx.check_lookup_answer(store, ledger, asked, ALWAYS_MS, empty, 10_000)
    assert ([one.summary for one in judged if "look-up" in one.summary], [one.found for one in missed]) == ([], ["[]"])
