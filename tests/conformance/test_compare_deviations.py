"""Deviations are lines of docs/deviations.md, and explain no other differences."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from tests.conformance.deviations import DEVIATIONS
from tests.conformance.differences import differences
from tests.conformance.observed import (
    Entry,
    OpenedDirectory,
    SeenQueue,
    SeenRecord,
    StoreDifference,
    StoreObservation,
    times_of,
    window_of,
)
from tests.conformance.truth import BLANK, contradictions_of
from tornlog.store.config import StoreConfig
from tornlog.store.formats import scan
from tornlog.store.formats.consume_queue import tags_code

ROOT = Path(__file__).parents[2]
CONFIG = StoreConfig("/store", mapped_file_size_commit_log=1000, mapped_file_size_consume_queue=100, max_index_num=100)


def record(number: int, topic: str = "T", **properties: str) -> SeenRecord:
    """Return the record of that number, 100 bytes long."""
    at = number * 100
    hosts = ("7f000001:0", "7f000001:10911")
    return SeenRecord(at, 100, f"id{at}", topic, 0, number, at, 0, 0, 0, 1000 + number, *hosts, 0, 0, "b", properties)


def entry(number: int, tags: str = "") -> Entry:
    return number * 100, 100, tags_code(tags)


def observation(count: int, **changes: Any) -> StoreObservation:
    """Return a store of count messages in one queue, each with its own key."""
    records = {number * 100: record(number, KEYS=f"k{number}") for number in range(count)}
    entries = [entry(number) for number in range(count)]
    queue = SeenQueue(0, count, entries, [each[0] for each in entries])
    lookups = {("T", f"k{number}"): [number * 100] for number in range(count)}
    found = StoreObservation("", 0, count * 100, records, [], {("T", 0): queue}, lookups)
    return replace(found, **changes)


def queue_of(*entries: Entry, begin: int = 0) -> dict[tuple[str, int], SeenQueue]:
    return {("T", 0): SeenQueue(begin, begin + len(entries), list(entries), [each[0] for each in entries])}


def names(
    ours: StoreObservation,
    real: StoreObservation,
    files: dict[str, bytes] | None = None,
    version: str = "rocketmq-4.9.8",
) -> set[str]:
    """Return the explanations of the differences, `nothing` for one without."""
    found = differences_between(ours, real, files, version)
    return {"nothing" if one.deviation is None else one.deviation.name for one in found}


def differences_between(
    ours: StoreObservation,
    real: StoreObservation,
    files: dict[str, bytes] | None = None,
    version: str = "rocketmq-4.9.8",
) -> list[StoreDifference]:
    return differences(OpenedDirectory(CONFIG, {"abort": b""} | (files or {}), ours, real, version))


def test_every_deviation_has_a_line_in_the_documentation_table() -> None:
    text = (ROOT / "docs/deviations.md").read_text()
    assert [each.name for each in DEVIATIONS.values() if f"| {each.line}" not in text] == []


def test_equal_observations_have_no_differences() -> None:
    assert names(observation(3), observation(3)) == set()


@pytest.mark.parametrize(
    ("entries", "explained"),
    [
        ((entry(0), entry(1)), {"nothing"}),
        ((BLANK, entry(1), entry(2)), {"queue-head-lost"}),
        ((entry(0), (0, 0, 0), entry(2)), {"zero-entry"}),
        ((entry(0), entry(2)), {"queue-shifted", "queue-tail-lost"}),
        ((entry(0), entry(1), (250, 100, 0)), {"dangling-entry"}),
        ((entry(0), entry(1), (200, 100, 7)), {"nothing"}),
    ],
)
def test_each_kind_of_queue_difference_has_its_explanation(entries: tuple[Entry, ...], explained: set[str]) -> None:
    assert names(observation(3), observation(3, queues=queue_of(*entries))) == explained


def test_an_expired_entry_before_the_beginning_of_our_queue_is_explained() -> None:
    records = {number * 100: record(number) for number in (1, 2)}
    ours = observation(3, min_offset=100, records=records, lookups={}, queues=queue_of(entry(1), entry(2), begin=1))
    real = replace(ours, queues=queue_of(entry(0), entry(1), entry(2)))
    assert names(ours, real) == {"expired-entry"}


def test_a_missing_queue_end_is_explained_only_if_another_queue_ends_later() -> None:
    other = ("U", 0)
    records = observation(3).records | {300: record(3, "U")._replace(queue_offset=0)}
    further = {other: SeenQueue(0, 1, [entry(3)], [300])}
    ours = observation(4, records=records, queues=observation(3).queues | further, lookups={})
    short = queue_of(entry(0), entry(1))
    assert names(ours, replace(ours, queues=short | further)) == {"queue-tail-lost"}
    assert "nothing" in names(ours, replace(ours, queues=short))


def test_a_torn_entry_is_explained_only_if_it_was_torn_before_opening() -> None:
    torn = (200, 100, 7)
    raw = (200).to_bytes(8, "big") + (100).to_bytes(4, "big") + (7).to_bytes(8, "big")
    real = observation(3, queues=queue_of(entry(0), entry(1), torn))
    assert names(observation(3), real, {"consumequeue/T/0/00000000000000000000": bytes(40) + raw}) == {"torn-entry"}
    assert names(observation(3), real, {"consumequeue/T/1/00000000000000000000": bytes(40) + raw}) == {"nothing"}


def contradictions(ours: StoreObservation) -> list[str]:
    """Return the places where a store contradicts its own log."""
    return [place for place, _, _ in contradictions_of(ours, CONFIG)]


def test_an_entry_before_the_start_of_our_log_is_an_error_of_our_store() -> None:
    records = {number * 100: record(number) for number in (1, 2)}
    ours = observation(3, min_offset=100, records=records, lookups={})
    without = replace(ours, queues=queue_of(entry(1), entry(2), begin=1))
    blank = replace(ours, queues={("T", 0): SeenQueue(0, 3, [BLANK, entry(1), entry(2)], [100, 200])})
    ours.queues["T", 0].pulled = [100, 200]
    assert contradictions(ours) == ["queue T/0 0"]
    assert contradictions(without) == contradictions(blank) == []


def test_a_blank_after_the_last_entry_of_our_queue_is_an_error_of_our_store() -> None:
    def ending_in(*more: Entry) -> StoreObservation:
        return observation(2, queues={("T", 0): SeenQueue(0, 2 + len(more), [entry(0), entry(1), *more], [0, 100])})

    assert contradictions(ending_in()) == []
    assert contradictions(ending_in(BLANK)) == ["queue T/0 2"]
    assert contradictions(observation(0, queues={("T", 0): SeenQueue(0, 1, [BLANK], [])})) == []


def test_a_blank_entry_missing_in_the_real_store_is_explained_with_the_next_entry() -> None:
    ours = observation(4, lookups={})
    del ours.records[100]
    ours.records[300] = ours.records[300]._replace(topic="A", queue_offset=0)
    ahead = SeenQueue(0, 1, [entry(3)], [300])
    ours.queues[("T", 0)] = SeenQueue(0, 3, [entry(0), BLANK, entry(2)], [0, 200])
    ours.queues[("A", 0)] = ahead
    assert names(ours, replace(ours, queues={**queue_of(entry(0)), ("A", 0): ahead})) == {"queue-tail-lost"}
    assert "nothing" in names(ours, replace(ours, queues=queue_of(entry(0))))


def test_an_entry_missing_in_the_real_store_is_lost_only_if_our_entry_points_to_a_record() -> None:
    records = {number * 100: record(number) for number in (1, 2)}
    ours = observation(3, records=records, lookups={})
    real = replace(ours, queues=queue_of(entry(1), entry(2), begin=1))
    ours.queues["T", 0] = SeenQueue(0, 3, [BLANK, entry(1), entry(2)], [100, 200])
    assert names(ours, real) == {"nothing"}

    dangling = replace(ours, queues=queue_of((50, 100, 0), entry(1), entry(2)))
    found = differences(OpenedDirectory(CONFIG, {}, dangling, real, "rocketmq-4.9.8"))
    assert [one.deviation for one in found if one.place == "queue T/0 0"] == [None]

    whole = replace(observation(3), queues=queue_of(entry(1), entry(2), begin=1))
    assert names(observation(3), whole) == {"queue-head-lost"}


def test_a_difference_that_contradicts_our_own_log_has_no_explanation() -> None:
    wrong = observation(3, queues=queue_of(entry(0), entry(1)))
    assert names(wrong, observation(3)) >= {"nothing"}
    assert names(observation(3, lookups={("T", "k1"): []}), observation(3)) >= {"nothing"}


def written_files(
    *,
    physical_offset: int = 200,
    magic: int = 0xDAA320A7,
    is_v6: tuple[int, int] = (0, 0),
    topic: bytes = b"T",
    body: bytes = b"b",
    properties: bytes = b"a\x01b\x02",
    size_more: int = 0,
    cut: int = 1000,
) -> dict[str, bytes]:
    """Return a file of the log with a record at 200, the end of the log of `seen(2)`."""
    born, stored = (bytes(20 if v6 else 8) for v6 in is_v6)
    sys_flag = is_v6[0] * 0x10 | is_v6[1] * 0x20
    tail = born + bytes(8) + stored + bytes(12) + len(body).to_bytes(4, "big") + body
    tail += bytes([len(topic)]) + topic + len(properties).to_bytes(2, "big") + properties
    crc = (crc32(body) & 0x7FFFFFFF).to_bytes(4, "big")
    rest = crc + bytes(16) + physical_offset.to_bytes(8, "big") + sys_flag.to_bytes(4, "big") + bytes(8) + tail
    raw = (8 + len(rest) + size_more).to_bytes(4, "big") + magic.to_bytes(4, "big") + rest
    return {"commitlog/00000000000000000000": (bytes(200) + raw).ljust(1000, b"\0")[:cut]}


@pytest.mark.parametrize(
    ("how", "explained"),
    [
        ({}, "nothing"),
        ({"magic": 0}, "nothing"),
        ({"physical_offset": 1200}, "foreign-record"),
        ({"physical_offset": 1200, "magic": 0xCBD43194}, "nothing"),
        ({"physical_offset": 1200, "cut": 239}, "nothing"),
        ({"topic": b"T\0"}, "torn-record"),
        ({"topic": b"T\0", "body": b"", "properties": b""}, "torn-record"),
        ({"topic": b"T\0", "is_v6": (1, 0)}, "torn-record"),
        ({"topic": b"T\0", "is_v6": (0, 1)}, "torn-record"),
        ({"topic": b"T\0", "is_v6": (1, 1)}, "torn-record"),
        ({"topic": b"T\0", "size_more": 1}, "nothing"),
        ({"topic": b"T\0", "cut": 290}, "nothing"),
        ({"body": b"\0\0"}, "nothing"),
        ({"properties": b"a\x01b\0"}, "torn-record"),
        ({"properties": b"a\0b\x02"}, "nothing"),
        ({"properties": b"p" * 217 + b"\0" + b"p" * 5}, "nothing"),
        ({"properties": b"p" * 218 + b"\0" + b"p" * 5}, "torn-record"),
        ({"properties": b"p" * 219 + b"\0" + b"p" * 5}, "nothing"),
    ],
)
def test_a_message_that_only_the_real_store_has_is_explained_only_by_torn_or_foreign_bytes_at_our_log_end(
    how: dict[str, Any], explained: str
) -> None:
    assert names(observation(2), observation(3), written_files(**how)) == {explained}


def test_a_valid_record_that_our_scanner_rejects_has_no_explanation(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = written_files(topic=b"never-seen-before")
    monkeypatch.setattr(scan, "torn_properties", lambda topic, properties, at: "properties")
    assert names(observation(2), observation(3), sound) == {"nothing"}


def test_a_message_missing_in_the_real_store_has_no_explanation() -> None:
    assert "nothing" in names(observation(3), observation(2))


@pytest.mark.parametrize(
    ("offsets", "explained"),
    [([100, 100], "index-twice"), ([100, 200], "index-stale"), ([100, 900], "nothing"), ([], "nothing")],
)
def test_each_kind_of_key_lookup_difference_has_its_explanation(offsets: list[int], explained: str) -> None:
    real = observation(3, lookups={("T", "k1"): offsets})
    assert names(observation(3), real) == {explained}


def test_a_missing_key_is_explained_only_before_the_start_of_recovery() -> None:
    late_ms = 1_000_000
    records = {number * 100: record(number, KEYS=f"k{number}") for number in range(10)}
    records[1000] = record(10, KEYS="k10")._replace(store_timestamp=late_ms)
    ours = observation(11, records=records)
    lacks_first = observation(11, records=records, lookups=ours.lookups | {("T", "k1"): []})
    lacks_last = observation(11, records=records, lookups=ours.lookups | {("T", "k10"): []})
    checkpoint = {"checkpoint": (late_ms + 3_000).to_bytes(8, "big") * 2}

    assert names(ours, lacks_first, checkpoint) == {"index-lost"}
    assert names(ours, lacks_last, checkpoint) == {"nothing"}
    assert names(ours, lacks_first) == {"nothing"}


def test_after_a_clean_exit_a_missing_key_is_explained_only_if_no_index_file_covers_it() -> None:
    sizes = {"max_hash_slot_num": 5, "max_index_num": 100}

    def index_of(next_entry: int) -> bytes:
        entry_bytes = bytes(4) + (100).to_bytes(8, "big") + bytes(8)
        return bytes(36) + next_entry.to_bytes(4, "big") + bytes(4 * 5 + 20) + entry_bytes

    lacks = observation(3, lookups=observation(3).lookups | {("T", "k1"): []})

    def explained(index: bytes) -> set[Any]:
        config = replace(CONFIG, **sizes)  # type: ignore[arg-type]
        found = differences(OpenedDirectory(config, {"index/1": index}, observation(3), lacks, "rocketmq-4.9.8"))
        return {one.deviation and one.deviation.name for one in found}

    assert explained(bytes(len(index_of(2)))) == {"index-lost"}
    assert explained(index_of(1)) == {"index-lost"}  # the next entry overwrites it
    assert explained(index_of(2)) == {None}


def observation_of_times(found: int, count: int = 3, *, blank_first: bool = False) -> StoreObservation:
    """Return a store of some records, five to a queue file, and its result for the time of the third."""
    store = observation(count)
    if blank_first:
        queue = store.queues["T", 0]
        store = replace(store, queues={("T", 0): replace(queue, entries=[BLANK, *queue.entries[1:]])})
    return replace(store, nearest={(("T", 0), 1_002): found})


def test_a_time_lookup_difference_is_explained_only_by_changed_mtimes_or_blank_entries() -> None:
    assert names(observation_of_times(2), observation_of_times(2)) == set()
    assert names(observation_of_times(2), observation_of_times(0)) == {"nothing"}
    assert names(observation_of_times(2, 6), observation_of_times(0, 6)) == {"file-times"}
    assert "time-of-nothing" in names(
        observation_of_times(2, blank_first=True), observation_of_times(0, blank_first=True)
    )


def file_without_entries(number: int) -> dict[str, bytes]:
    return {f"consumequeue/T/0/{number * 20:020d}": bytes(100)}


def test_a_time_lookup_result_of_0_is_explained_by_an_empty_last_queue_file() -> None:
    assert names(observation_of_times(2, 5), observation_of_times(0, 5), file_without_entries(5)) == {"time-of-nothing"}
    assert names(observation_of_times(2, 5), observation_of_times(1, 5), file_without_entries(5)) == {"nothing"}
    assert names(observation_of_times(2, 5), observation_of_times(0, 5), file_without_entries(0)) == {"nothing"}


@pytest.mark.parametrize(("first", "leads_to"), [(0, 0), (5, 4)])
def test_a_time_lookup_in_an_expired_file_is_explained_if_it_returns_the_offset_before_the_file(
    first: int, leads_to: int
) -> None:
    entries = observation_of_times(0).queues["T", 0].entries
    ours, real, other = (
        replace(observation_of_times(found), queues=queue_of(*entries, begin=10)) for found in (12, leads_to, 11)
    )
    found, unknown = (
        [one.deviation for one in differences_between(ours, there, file_without_entries(first)) if " at " in one.place]
        for there in (real, other)
    )
    assert found == [DEVIATIONS["file-times"]]
    assert unknown == [None]


def test_time_lookups_of_queues_with_different_offsets_are_not_compared() -> None:
    shifted = replace(
        observation_of_times(7), queues=queue_of(*observation_of_times(2).queues["T", 0].entries, begin=5)
    )
    assert {one.place for one in differences_between(observation_of_times(2), shifted) if " at " in one.place} == set()


def test_a_time_lookup_of_our_store_that_misses_the_nearest_message_is_an_error() -> None:
    records = {offset: one._replace(store_timestamp=offset) for offset, one in observation(3).records.items()}
    store = observation(3, records=records)
    assert contradictions(replace(store, nearest={(("T", 0), 149): 1})) == []
    assert contradictions(replace(store, nearest={(("T", 0), 149): 2})) == ["queue T/0 at 149"]


def test_a_time_window_query_returns_all_of_its_messages_and_at_most_one_second_more() -> None:
    at_ms = (1_000, 2_000, 3_000, 4_000, 5_000, 5_900, 6_100)
    records = {
        offset: one._replace(store_timestamp=at_ms[number])
        for number, (offset, one) in enumerate(observation(7).records.items())
    }
    store = observation(7, records=records)
    first, *_, late = store.lookups
    begin_ms, end_ms = window_of(times_of(store))

    assert (begin_ms, end_ms) == (1_000, 6_100)
    assert contradictions(replace(store, windowed={late: store.lookups[late]})) == []
    assert contradictions(replace(store, windowed={late: []})) != []
    sound = replace(store, windowed={first: store.lookups[first]})
    assert names(sound, replace(store, windowed={first: []})) == {"index-seconds"}


def test_keys_with_equal_hashes_are_found_together() -> None:
    records = {0: record(0, KEYS="Aa"), 100: record(1, KEYS="BB")}
    exact = {("T", "Aa"): [0], ("T", "BB"): [100]}
    both = {("T", "Aa"): [0, 100], ("T", "BB"): [0, 100]}
    ours = observation(2, records=records, lookups=exact)
    assert names(ours, replace(ours, lookups=both)) == {"index-hash-only"}


def test_a_start_refused_by_the_real_store_is_explained_only_by_a_wrong_file_size() -> None:
    refused = StoreObservation(refusal="load() returned false")
    assert names(observation(1), refused) == {"nothing"}
    assert names(observation(1), refused, {"commitlog/00000000000000001000": b""}) == {"odd-file"}
    assert names(refused, observation(1), {"commitlog/00000000000000001000": b""}) == {"nothing"}
    assert names(observation(1), StoreObservation(refusal="java.lang.Error"), {"commitlog/1": b""}) == {"nothing"}


def test_a_start_refused_by_our_store_has_no_explanation() -> None:
    refused = StoreObservation(refusal="load() returned false")
    gap = {f"commitlog/{base:020}": bytes(1000) for base in (0, 2000)}
    assert names(refused, refused) == {"nothing"}
    assert names(refused, refused, gap) == {"nothing"}
    assert names(refused, observation(1), gap) == {"nothing"}


def test_an_endless_wait_of_the_real_store_is_explained_only_by_a_gap_in_its_log() -> None:
    waits = StoreObservation(refusal="start() does not end: dispatch is 265 bytes behind")
    files = {f"commitlog/{base:020}": bytes(1000) for base in (0, 2000)}
    assert names(observation(1), waits, files) == {"gap"}
    assert names(observation(1), waits) == {"nothing"}


def test_a_failure_of_5_3_3_is_explained_by_a_last_queue_file_without_entries() -> None:
    refused = StoreObservation(refusal="load() returned false")
    queue = {f"consumequeue/T/0/{base:020}": bytes(100) for base in (0, 100)}
    written = queue | {f"consumequeue/T/0/{100:020}": b"x" * 100}
    assert names(observation(1), refused, queue, "rocketmq-5.3.3") == {"empty-queue-file"}
    assert names(observation(1), refused, written, "rocketmq-5.3.3") == {"nothing"}
    assert names(observation(1), refused, queue) == {"nothing"}


def test_a_gap_in_the_log_explains_a_record_that_only_our_store_finds() -> None:
    files = {f"commitlog/{base:020}": bytes(1000) for base in (0, 2000)}
    real = replace(observation(1), records={})
    assert names(observation(1), real, files) == {"gap"}
    assert names(observation(1), real) == {"nothing"}


def test_delivery_progress_may_differ_only_if_the_queue_differs() -> None:
    assert names(observation(1, progress={1: 4}), observation(1, progress={1: 3})) == {"nothing"}
    assert names(observation(1, progress={1: 4}), observation(1, progress=None)) == set()
