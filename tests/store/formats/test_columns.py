"""The C core and the Python code find the same records in any bytes."""

from array import array
from collections.abc import Iterator
from sys import byteorder
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.store.formats.example_record import make_record
from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.columns import COLUMNS, KEY_COLUMNS, ROWS_MAX, NativeCore, PlainRecords
from tornlog.store.formats.consume_queue import encode_entry
from tornlog.store.formats.delay_level import SCHEDULE_TOPIC, entry_tags_code, parse_delay_levels
from tornlog.store.formats.host import Host
from tornlog.store.formats.index import HEADER_BYTES, SLOT, SLOT_BYTES, time_diff_s
from tornlog.store.formats.index import encode_entry as encode_index_entry
from tornlog.store.formats.index_key import key_hashes, may_have_keys
from tornlog.store.formats.java_hash import java_hash
from tornlog.store.formats.message import (
    BORN_HOST_V6,
    MESSAGE_MAGIC_V2,
    STORE_HOST_V6,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    decode_record,
    encode_blank,
    encode_message_record,
    encode_record,
)
from tornlog.store.formats.scan import scan_records

BASE = 4096
DELAYS = parse_delay_levels("1s 5s")
V4, V6 = Host.parse("10.0.0.1|10911"), Host.parse("2001:db8::1|40001")
UNQUEUED = (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)


SLOTS = 5


class Key(NamedTuple):
    """A row of the columns of keys."""

    key_hash: int
    physical_offset: int
    store_timestamp_ms: int


class Taken(NamedTuple):
    """The fields of a record that recovery uses."""

    physical_offset: int
    size_bytes: int
    queue: tuple[str, int] | None
    queue_offset: int
    store_timestamp_ms: int
    tags_code: int
    """0 for a record that is added to no queue."""
    keys: tuple[int, ...]


class Scanned(NamedTuple):
    taken: list[Taken]
    error: str | None
    by_core: int = 0
    """Number of records that the core scanned."""

    @property
    def found(self) -> tuple[list[Taken], str | None]:
        return self.taken, self.error


def scan_with_python(log: bytes, at: int, *, check_crc: bool) -> Iterator[Taken]:
    for record in scan_records(memoryview(log), at, len(log), file="f", base_offset=BASE, check_crc=check_crc):
        is_queued = record.sys_flag & TRANSACTION_MASK not in UNQUEUED
        yield Taken(
            record.physical_offset,
            record.size_bytes,
            (record.topic, record.queue_id) if is_queued else None,
            record.queue_offset,
            record.store_timestamp_ms,
            entry_tags_code(record.topic, record.properties, record.store_timestamp_ms, DELAYS) if is_queued else 0,
            key_hashes(record.topic, record.properties) if may_have_keys(record) else (),
        )


def by_python(log: bytes, *, check_crc: bool = True) -> Scanned:
    taken: list[Taken] = []
    try:
        for one in scan_with_python(log, 0, check_crc=check_crc):
            taken.append(one)  # noqa: PERF402 - records before an error count
    except CorruptFileError as error:
        return Scanned(taken, str(error))
    return Scanned(taken, None)


def by_core(core: NativeCore, log: bytes, *, check_crc: bool = True) -> Scanned:
    """Scan like recovery: the core until it stops, then one record in Python, then the core again."""
    plain, queues, taken = PlainRecords(core), list[tuple[str, int]](), list[Taken]()
    at = count = 0
    try:
        while True:
            while plain.scan(memoryview(log), at, BASE, check_crc=check_crc):
                taken += taken_rows(plain, queues)
                count, at = count + plain.count, plain.end
            one = next(scan_with_python(log, at, check_crc=check_crc), None)
            if one is None:
                return Scanned(taken, None, count)
            taken.append(one)
            at += one.size_bytes
            if one.queue is not None and plain.register_queue(*one.queue) == len(queues):
                queues.append(one.queue)
    except CorruptFileError as error:
        return Scanned(taken, str(error), count)


def taken_rows(plain: PlainRecords, queues: list[tuple[str, int]]) -> list[Taken]:
    keys: dict[int, list[int]] = {}
    columns = zip(*(plain.key_column(name) for name in KEY_COLUMNS), strict=True)
    rows = list(zip(*(plain.column(name) for name in COLUMNS), strict=True))
    stored = {row[0]: row[4] for row in rows}
    for key_hash, offset, stored_ms in columns:
        assert stored[offset] == stored_ms
        keys.setdefault(offset, []).append(key_hash)
    queue_of = dict(enumerate(queues)) | {-1: None}
    return [
        Taken(*row[:2], queue_of[row[2]], *row[3:5], row[5] if row[2] >= 0 else 0, tuple(keys.get(row[0], ())))
        for row in rows
    ]


def log_of(records: list[dict[str, Any]]) -> bytes:
    """Encode adjacent records, each with its own physicalOffset. v2: in format V2."""
    log = bytearray()
    for number, changes in enumerate(records):
        flags = changes.get("sys_flag", 0)
        fields = {
            "topic": b"T1",
            "properties": b"",
            "body": b"hello",
            "queue_id": 0,
            "flag": 0,
            "born_timestamp_ms": 1,
            "store_timestamp_ms": 1_600_000_000_000 + number,
            "queue_offset": number,
            "born_host": V6 if flags & BORN_HOST_V6 else V4,
            "store_host": V6 if flags & STORE_HOST_V6 else V4,
            "sys_flag": flags,
            "physical_offset": BASE + len(log),
        } | {name: value for name, value in changes.items() if name != "v2"}
        raw = bytes(encode_record(**fields))
        if changes.get("v2"):
            plain = decode_record(raw, 0, file="f")
            raw = encode_message_record(
                type(plain)(**{name: getattr(plain, name) for name in plain.__slots__} | _v2_of(plain.size_bytes))
            )
        log += raw
    return bytes(log)


def _v2_of(size_bytes: int) -> dict[str, Any]:
    return {"magic": MESSAGE_MAGIC_V2, "size_bytes": size_bytes + 1}


PLAIN_VALUES = [b"", b"A", b"TagA", b"k1 k2", b" k ", b"  ", b"k1  k2", b"a\x01b", b"2", b"x" * 300, b"actngdwx"]
"""The last value is a key of topic T1 with the hash -2^31."""
ODD_VALUES = ["é".encode(), b"\xff", b"a\x00b"]
NAMES = [b"TAGS", b"KEYS", b"UNIQ_KEY", b"DELAY", b"XTAGS", b"TAG", b"KEYSX", b""]
PLAIN_TOPICS = [b"T1", b"Bench", b"%RETRY%group", b"t" * 127]
ODD_TOPICS = ["é".encode(), SCHEDULE_TOPIC.encode(), b"a\x00b"]


def properties_of(values: list[bytes]) -> st.SearchStrategy[bytes]:
    entries = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(values)), max_size=5)
    return st.builds(
        lambda pieces, end: b"\x02".join(name + b"\x01" + value for name, value in pieces) + end,
        entries,
        st.sampled_from([b"", b"\x02", b"\x02\x02", b"TAGS"]),
    )


def record_of(
    topics: list[bytes], properties: st.SearchStrategy[bytes], v2: st.SearchStrategy[bool]
) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "topic": st.sampled_from(topics),
            "properties": properties,
            "body": st.one_of(st.binary(max_size=9), st.binary(min_size=60, max_size=600)),
            "queue_id": st.sampled_from([0, 1, 7, -1, (1 << 31) - 1]),
            "queue_offset": st.sampled_from([0, 1, 2, 3, -1, (1 << 63) - 1]),
            "sys_flag": st.builds(
                lambda transaction, hosts: transaction | hosts,
                st.sampled_from([0, TRANSACTION_PREPARED, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK]),
                st.sampled_from([0, BORN_HOST_V6, STORE_HOST_V6, BORN_HOST_V6 | STORE_HOST_V6]),
            ),
            "store_timestamp_ms": st.sampled_from([0, 1_600_000_000_000, -5, (1 << 63) - 1]),
            "v2": v2,
        }
    )


plain_record = record_of(PLAIN_TOPICS, properties_of(PLAIN_VALUES), st.just(False))
odd_record = record_of(
    PLAIN_TOPICS + ODD_TOPICS,
    st.one_of(properties_of(PLAIN_VALUES + ODD_VALUES), st.binary(max_size=20)),
    st.booleans(),
)
damage_of = st.lists(st.tuples(st.integers(0, 4000), st.binary(min_size=1, max_size=9)), max_size=3)


@settings(max_examples=200)
@given(st.lists(plain_record, min_size=1, max_size=12))
def test_both_scanners_agree_on_plain_records_and_python_scans_only_the_first_of_each_queue(
    core: NativeCore, records: list[dict[str, Any]]
) -> None:
    log = log_of(records)
    expected = by_python(log)

    queues = {one.queue for one in expected.taken} - {None}
    assert by_core(core, log) == Scanned(expected.taken, None, by_core=len(records) - len(queues))


@settings(max_examples=200)
@given(
    records=st.lists(st.one_of(plain_record, odd_record), min_size=1, max_size=6),
    repeats=st.integers(1, 3),
    damage=damage_of,
    cut=st.integers(0, 200),
    check_crc=st.booleans(),
)
def test_both_scanners_agree_on_any_log(
    core: NativeCore,
    records: list[dict[str, Any]],
    repeats: int,
    damage: list[tuple[int, bytes]],
    cut: int,
    check_crc: bool,
) -> None:
    log = bytearray(log_of(records * repeats))
    for at, data in damage:
        place = at % len(log)
        log[place : place + len(data)] = data[: len(log) - place]
    raw = bytes(log[: max(len(log) - cut, 0)] if cut < 100 else log + encode_blank(cut))

    assert by_core(core, raw, check_crc=check_crc).found == by_python(raw, check_crc=check_crc).found


@pytest.fixture
def three_records() -> bytes:
    """Three records of one queue, 112 bytes each. After the first record the queue is known."""
    changes = [{"queue_offset": number, "physical_offset": BASE + 112 * number} for number in range(3)]
    return b"".join(bytes(make_record(**change)) for change in changes)


def test_a_flipped_bit_anywhere_has_the_same_effect_on_both_scanners(core: NativeCore, three_records: bytes) -> None:
    left = 0
    for at in range(112, len(three_records)):
        for bit in range(8):
            log = bytearray(three_records)
            log[at] ^= 1 << bit
            for check_crc in (True, False):
                found = by_core(core, bytes(log), check_crc=check_crc)
                assert found.found == by_python(bytes(log), check_crc=check_crc).found, (at, bit)
                left += check_crc and found.by_core < 2

    assert left > 2 * 8 * (4 + 4 + 4 + 8 + 4 + 5 + 1 + 2)  # all bits of sizes, magic, CRC, place, body and lengths


@pytest.mark.parametrize("topic_bytes", [0, 128, 255])
@pytest.mark.parametrize("transaction", [0, TRANSACTION_PREPARED])
def test_a_record_with_an_invalid_topic_is_scanned_by_python(
    core: NativeCore, topic_bytes: int, transaction: int
) -> None:
    first, both = log_of([{}]), log_of([{}, {"topic": b"T", "sys_flag": transaction}])
    second = bytearray(both[len(first) :])
    second[-4:] = bytes([topic_bytes]) + b"t" * topic_bytes + bytes(2)  # topicLength, topic, no properties
    second[:4] = len(second).to_bytes(4)
    found = by_core(core, first + second)

    assert found.found == by_python(first + second).found
    assert found.error is not None
    assert "topicLength" in found.error


def test_both_scanners_agree_on_a_log_truncated_anywhere(core: NativeCore, three_records: bytes) -> None:
    for end in range(len(three_records)):
        assert by_core(core, three_records[:end]).found == by_python(three_records[:end]).found, end


def test_both_scanners_compute_the_same_checksum_for_bodies_of_every_length(core: NativeCore) -> None:
    bodies = [bytes(at * 7 % 256 for at in range(size)) for size in [*range(300), 1024, 4095, 65_536]]
    log = log_of([{"body": body} for body in bodies])

    found = by_core(core, log)
    assert found == Scanned(by_python(log).taken, None, by_core=len(bodies) - 1)


@pytest.mark.parametrize("size", [1, 17, 63, 64, 65, 200])
def test_the_compiled_core_detects_a_flipped_bit_in_a_body(core: NativeCore, size: int) -> None:
    log = log_of([{"body": bytes(size)}] * 2)
    body_at = len(log) // 2 + 88
    for bit in range(8 * size):
        broken = bytearray(log)
        broken[body_at + bit // 8] ^= 1 << bit % 8
        assert by_core(core, bytes(broken)).by_core == 0, bit
        assert by_core(core, bytes(broken), check_crc=False).by_core == 1, bit


@pytest.mark.parametrize(
    "changes",
    [
        {"v2": True},
        {"topic": "é".encode()},
        {"topic": SCHEDULE_TOPIC.encode(), "properties": b"DELAY\x012"},
        {"properties": "TAGS\x01é".encode()},
        {"properties": "KEYS\x01é".encode()},
        {"properties": b"a\x01\x00b"},
        {"properties": b"INNER_MULTI_DISPATCH\x01%LMQ%a"},
        {"properties": b"KEYS\x01" + b"k " * (ROWS_MAX + 1)},
    ],
    ids=["V2", "topic", "delayed", "tag", "key", "NUL", "light", "keys"],
)
def test_records_with_unusual_fields_are_scanned_by_python(core: NativeCore, changes: dict[str, Any]) -> None:
    log = log_of([{}, changes, changes, {}])

    found = by_core(core, log)
    assert found == Scanned(by_python(log).taken, None, by_core=1)


def test_more_records_than_one_table_holds_are_scanned_in_several_batches(core: NativeCore) -> None:
    keyed = {"properties": b"KEYS\x01" + b" ".join(b"k%d" % number for number in range(100))}
    log = log_of([{}] * (ROWS_MAX + 10) + [keyed] * 200)

    found = by_core(core, log)
    assert found == Scanned(by_python(log).taken, None, by_core=ROWS_MAX + 209)


def test_the_key_hash_without_an_absolute_value_is_0_in_the_index(core: NativeCore) -> None:
    log = log_of([{}, {"properties": b"KEYS\x01actngdwx"}])

    found = by_core(core, log)
    assert java_hash("T1#actngdwx") == -(1 << 31)
    assert (found.taken[1].keys, found.by_core) == ((0,), 1)


def test_a_scan_stops_at_a_record_stored_after_the_time_limit(core: NativeCore) -> None:
    log = log_of([{"store_timestamp_ms": stored_ms} for stored_ms in (1, 5, 5, 6, 5)])
    plain = PlainRecords(core)
    plain.register_queue("T1", 0)

    assert plain.scan(memoryview(log), 0, BASE, check_crc=True, stored_ms_max=5)
    assert list(plain.column("store_timestamp_ms")) == [1, 5, 5]
    assert not plain.scan(memoryview(log), plain.end, BASE, check_crc=True, stored_ms_max=5)


def test_runs_group_entries_with_consecutive_queue_offsets(core: NativeCore) -> None:
    places = [("A", 0, 5), ("B", 0, 0), ("A", 0, 6), ("A", 1, 7), ("A", 0, 8), ("B", 0, 1), ("A", 0, 7), ("A", 0, 8)]
    tagged = b"TAGS\x01polygenelubricants"
    records = [
        {"topic": topic.encode(), "queue_id": queue_id, "queue_offset": offset, "properties": tagged}
        for topic, queue_id, offset in places
    ]
    log = log_of([*records, {"topic": b"A", "sys_flag": TRANSACTION_PREPARED}])
    plain = PlainRecords(core)
    queues = [("B", 0), ("A", 1), ("C", 0), ("A", 0)]
    assert [plain.register_queue(*queue) for queue in queues] == [0, 1, 2, 3]
    assert plain.register_queue("B", 0) == 0

    assert plain.scan(memoryview(log), 0, BASE, check_crc=True)
    assert plain.count == 9
    each = plain.column("size_bytes")[0]

    def of(*numbers: int) -> tuple[bytes, bytes]:
        """Return entries and store times of some records."""
        entries = (encode_entry(BASE + each * number, each, -(1 << 31)) for number in numbers)
        return b"".join(entries), array("q", [1_600_000_000_000 + number for number in numbers]).tobytes()

    assert plain.runs() == [(0, 0, *of(1, 5)), (1, 7, *of(3)), (3, 5, *of(0, 2)), (3, 8, *of(4)), (3, 7, *of(6, 7))]


@pytest.mark.parametrize("start", [-1, 337])
def test_a_scan_start_outside_of_the_log_is_refused(core: NativeCore, three_records: bytes, start: int) -> None:
    with pytest.raises(ValueError, match="start is outside of the log"):
        PlainRecords(core).scan(memoryview(three_records), start, BASE, check_crc=True)


def expected_links(
    keys: list[Key], index: bytes, newest: dict[int, int], number: int, begin_ms: int
) -> tuple[bytes, int]:
    """Return the expected result of the core for keys in a file of SLOTS slots, computed from the format."""
    entries, used = b"", 0
    for key in keys:
        slot_at = HEADER_BYTES + key.key_hash % SLOTS * SLOT_BYTES
        previous = newest.get(slot_at) or SLOT.unpack_from(index, slot_at)[0]
        previous = previous if 0 < previous < number else 0
        diff_s = time_diff_s(begin_ms, key.store_timestamp_ms)
        entries += encode_index_entry(key.key_hash, key.physical_offset, diff_s, previous)
        begin_ms = key.store_timestamp_ms if number == 1 else begin_ms
        newest[slot_at] = number
        used += previous == 0
        number += 1
    return entries, used


@settings(max_examples=100)
@given(
    names=st.lists(st.sampled_from([b"a", b"k1", b"k2 k3", b"polygenelubricants"]), min_size=1, max_size=9),
    times=st.sampled_from([(0, 0), (1_600_000_000_000, 999), (1_600_000_000_000, 86_400_000), (1, 1 << 59), (50, -7)]),
    slots=st.lists(st.sampled_from([0, 1, 2, 3, 5, 500, -1, -(1 << 31)]), min_size=SLOTS, max_size=SLOTS),
    numbers=st.dictionaries(st.integers(0, SLOTS - 1), st.integers(1, 4), max_size=3),
    number=st.sampled_from([1, 2, 5, 1000, (1 << 31) - 100]),
    begin_ms=st.sampled_from([0, -1, 1_600_000_000_000, 1_599_999_990_001]),
    skipped=st.integers(0, 1),
)
def test_index_entries_are_linked_as_the_format_specifies(
    core: NativeCore,
    names: list[bytes],
    times: tuple[int, int],
    slots: list[int],
    numbers: dict[int, int],
    number: int,
    begin_ms: int,
    skipped: int,
) -> None:
    first_ms, step_ms = times
    log = log_of(
        [
            {"properties": b"KEYS\x01" + name, "store_timestamp_ms": first_ms + at * step_ms}
            for at, name in enumerate(names)
        ]
    )
    plain = PlainRecords(core)
    plain.register_queue("T1", 0)
    assert plain.scan(memoryview(log), 0, BASE, check_crc=True)
    keys = [Key(*row) for row in zip(*(plain.key_column(name) for name in KEY_COLUMNS), strict=True)][skipped:]
    index = bytes(HEADER_BYTES) + b"".join(map(SLOT.pack, slots))
    newest = {HEADER_BYTES + slot * SLOT_BYTES: found for slot, found in numbers.items() if found < number}
    expected_newest = dict(newest)

    expected = expected_links(keys, index, expected_newest, number, begin_ms)
    found = plain.link(skipped, plain.key_count, memoryview(index), SLOTS, newest, number, begin_ms)
    assert (found, newest) == (expected, expected_newest)


def test_invalid_index_tables_are_refused_by_the_core(core: NativeCore) -> None:
    keys, index = bytearray(8 * len(KEY_COLUMNS) * 4), memoryview(bytes(HEADER_BYTES + 5 * SLOT_BYTES))
    for begin, end, slots, number in [
        (-1, 1, 5, 1),
        (2, 1, 5, 1),
        (0, 5, 5, 1),
        (0, 1, 6, 1),
        (0, 1, 0, 1),
        (0, 1, 5, 0),
        (0, 2, 5, 0x7FFFFFFE),
    ]:
        with pytest.raises(ValueError, match="rows, slots or number is out of range"):
            core.link(keys, begin, end, index, slots, {}, number, 0)
    rows = bytearray(8 * len(COLUMNS) * 4)
    with pytest.raises(ValueError, match="count or queues is out of range"):
        core.runs(rows, 5, 1)
    with pytest.raises(ValueError, match="count or queues is out of range"):
        core.runs(rows, 1, -1)
    for each in (rows, bytearray((-2).to_bytes(8, byteorder, signed=True)) * (len(rows) // 8)):
        with pytest.raises(ValueError, match="a queue that is out of range"):
            core.runs(each, 4, 0)
    assert core.runs(rows, 0, 1) == []
