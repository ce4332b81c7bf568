"""IDX on an index with one error at a time, and on a running store with wrong answers."""

from dataclasses import replace
from struct import pack_into
from typing import Any

import pytest

from tests.one_life import with_settings
from tornlog.faults.disk.disk import Disk
from tornlog.scenarios.oracle.evidence import Evidence
from tornlog.scenarios.oracle.index_model import FoundIndex, file_content, read_index
from tornlog.scenarios.oracle.invariants import idx
from tornlog.store.formats.index import IndexHeader
from tornlog.store.formats.index_key import key_hash
from tornlog.store.message_store import MessageStore

SLOTS, ENTRIES_MAX = 2, 3
FIRST, SECOND = "/store/index/1", "/store/index/2"


def file_of(found: list[Any], front_end_ms: int = 0) -> bytes:
    """Return the bytes of an index file with the names of records as keys."""
    first_ms, last = found[0].record.store_timestamp_ms, found[-1].record
    entries = []
    for one in found:
        name = one.record.properties.split(b"\2")[0][5:]
        counted_from_ms = first_ms if entries else front_end_ms
        stored_ms = one.record.store_timestamp_ms
        diff_s = (stored_ms - counted_from_ms) // 1000 if counted_from_ms else 0
        entries.append((key_hash("T0", name), one.record.physical_offset, diff_s))
    header = IndexHeader(first_ms, last.store_timestamp_ms, entries[0][1], last.physical_offset, 0, 0)
    return file_content(header, entries, SLOTS, ENTRIES_MAX)


@pytest.fixture
def indexed(evidence: Evidence) -> Evidence:
    """Return three messages, stored five seconds apart, and an index of two files: m0 and m1, then m2."""
    for number, found in enumerate(evidence.store.records):
        found.record = found.record._replace(store_timestamp_ms=10_000 + 5_000 * number)
    m0, m1, m2 = evidence.store.records
    files = [(FIRST, file_of([m0, m1])), (SECOND, file_of([m2], front_end_ms=15_000))]
    evidence.store.index = FoundIndex(SLOTS, ENTRIES_MAX, files)
    return evidence


def index_violations(evidence: Evidence) -> list[tuple[str, str]]:
    return [(violation.file, violation.field) for violation in idx.check_index(evidence)]


def with_field(content: bytes, form: str, at: int, value: int) -> bytes:
    changed = bytearray(content)
    pack_into(form, changed, at, value)
    return bytes(changed)


def test_a_store_without_an_index_is_not_checked_for_idx(evidence: Evidence) -> None:
    assert index_violations(evidence) == []


def test_a_log_without_keys_needs_no_index_file(indexed: Evidence) -> None:
    indexed.store.records.clear()
    indexed.store.index = FoundIndex(SLOTS, ENTRIES_MAX, [])
    assert index_violations(indexed) == []


def test_a_key_without_an_index_entry_is_a_violation_that_names_it(indexed: Evidence) -> None:
    assert indexed.store.index is not None
    del indexed.store.index.files[1]

    (violation,) = idx.check_index(indexed)

    assert violation.summary == "a key without an index entry"
    assert violation.expected.startswith("m2 of the record at ")


def test_a_duplicate_index_entry_is_a_violation(indexed: Evidence) -> None:
    assert indexed.store.index is not None
    m2 = indexed.store.records[2]
    twice = file_of([m2, m2], front_end_ms=15_000)
    indexed.store.index.files[1] = (SECOND, twice)

    assert [violation.summary for violation in idx.check_index(indexed)] == ["an entry that occurs twice"]


def test_an_index_entry_of_a_missing_record_is_a_violation(indexed: Evidence) -> None:
    m2 = indexed.store.records.pop()

    (violation, *_) = idx.check_index(indexed)

    assert violation.summary == "an entry without a key in the log"
    assert violation.found.startswith(f"{m2.record.physical_offset}, with hash ")


def test_index_entries_out_of_log_order_are_a_violation(indexed: Evidence) -> None:
    assert indexed.store.index is not None
    m0, m1, _ = indexed.store.records
    indexed.store.index.files[0] = (FIRST, file_of([m1, m0]))

    summaries = [violation.summary for violation in idx.check_index(indexed)]

    assert summaries[0] == "entries that are not in log order"


def test_an_index_file_before_the_last_that_is_not_full_is_a_violation(indexed: Evidence) -> None:
    assert indexed.store.index is not None
    m0, m1, m2 = indexed.store.records
    files = [(FIRST, file_of([m0])), (SECOND, file_of([m1, m2], front_end_ms=10_000))]
    indexed.store.index.files[:] = files

    assert index_violations(indexed) == [(FIRST, "indexCount")]


def test_a_last_index_file_without_entries_is_a_violation(indexed: Evidence) -> None:
    assert indexed.store.index is not None
    indexed.store.records.pop()
    indexed.store.index.files[1] = (SECOND, bytes(len(indexed.store.index.files[0][1])))

    assert index_violations(indexed) == [(SECOND, "indexCount")]


@pytest.mark.parametrize(
    ("form", "at", "field"),
    [
        (">q", 0, "beginTimestamp"),
        (">q", 8, "endTimestamp"),
        (">q", 16, "beginPhyOffset"),
        (">q", 24, "endPhyOffset"),
        (">i", 32, "hashSlotCount"),
        (">i", 40, "slot"),
        (">i", 44, "slot"),
        (">i", 48, "keyHash"),  # of entry 0, which is unused
        (">i", 48 + 20 + 12, "timeDiff"),
        (">i", 48 + 40 + 16, "previous"),
    ],
)
def test_every_index_field_that_differs_from_the_log_is_a_violation(
    indexed: Evidence, form: str, at: int, field: str
) -> None:
    assert indexed.store.index is not None
    (path, content), _ = indexed.store.index.files
    indexed.store.index.files[0] = (path, with_field(content, form, at, 77))

    assert index_violations(indexed) == [(FIRST, field)]


def test_an_index_header_that_counts_too_many_entries_is_a_violation(indexed: Evidence) -> None:
    assert indexed.store.index is not None
    (path, content), _ = indexed.store.index.files
    indexed.store.index.files[0] = (path, with_field(content, ">i", 36, 1000))

    assert index_violations(indexed) == [(FIRST, "indexCount")]


def test_index_entries_of_removed_records_are_not_checked(indexed: Evidence) -> None:
    assert indexed.store.index is not None
    del indexed.store.records[0]
    indexed.store.min_offset = 1
    assert index_violations(indexed) == []

    (path, content), _ = indexed.store.index.files
    indexed.store.index.files[0] = (path, with_field(content, ">i", 48 + 40 + 12, 77))
    assert index_violations(indexed) == [(FIRST, "timeDiff")], "that of a record that is still there is not"


def test_the_first_index_entry_after_a_removed_file_may_have_any_time(indexed: Evidence) -> None:
    assert indexed.store.index is not None
    del indexed.store.index.files[0]
    del indexed.store.records[:2]
    indexed.store.min_offset = indexed.store.records[0].record.physical_offset

    assert index_violations(indexed) == []


@with_settings(indexed=True)
def test_the_index_must_be_durable_only_after_a_clean_stop(store: MessageStore, disk: Disk) -> None:
    before = [violation.field for violation in idx.check_stopped_index(store, disk)]
    store.shutdown()
    assert (before, [violation.field for violation in idx.check_stopped_index(store, disk)]) == (["file"], [])


@with_settings(indexed=True)
def test_the_index_of_a_running_store_can_be_read(store: MessageStore) -> None:
    assert store.index is not None
    found, content = (read_index(store), bytes(store.index.table.files[0].view))
    assert [file for _, file in found.files] == [content]
    assert replace(found, files=[]) == FoundIndex(5, 12, [])
