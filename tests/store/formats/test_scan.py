import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.store.formats.example_record import VECTOR, make_record
from tornlog.store.errors import CorruptFileError
from tornlog.store.formats import scan
from tornlog.store.formats.host import Host
from tornlog.store.formats.message import (
    MESSAGE_MAGIC_V2,
    decode_record,
    encode_blank,
    encode_message_record,
    encode_record,
)
from tornlog.store.formats.scan import ScannedRecord, scan_records, torn_properties

MakeRecord = Callable[..., bytearray]
BASE = 4096  # of the file in the log


def scanned(raw: bytes | bytearray, *, end: int | None = None, check_crc: bool = True) -> list[ScannedRecord]:
    view = memoryview(bytes(raw))
    end = len(view) if end is None else end
    return list(scan_records(view, 0, end, file="commitlog/4096", base_offset=BASE, check_crc=check_crc))


def scan_error(raw: bytes | bytearray, *, check_crc: bool = True) -> tuple[str, int]:
    """Return field and offset of the error in raw. It is the same before and after topics are known."""
    with pytest.raises(CorruptFileError) as cold:
        scanned(raw, check_crc=check_crc)
    with pytest.raises(CorruptFileError) as warm:
        scanned(raw, check_crc=check_crc)
    assert str(cold.value) == str(warm.value)
    return cold.value.field, cold.value.offset


def small_log(make: MakeRecord, *all_changes: dict[str, Any]) -> bytearray:
    """Encode records one after the other, each at its own physical offset."""
    log = bytearray()
    for number, changes in enumerate(all_changes):
        log += make(**{"physical_offset": BASE + len(log), "queue_offset": number} | changes)
    return log


def test_scanning_the_record_of_the_specification_returns_the_fields_for_dispatch() -> None:
    assert scanned(VECTOR) == [ScannedRecord(4096, 112, "T1", 3, 7, 0, 1_600_000_000_123, b"TAGS\x01A\x02KEYS\x01k1")]


def test_consecutive_records_of_every_shape_are_scanned() -> None:
    v6 = Host.parse("::1|1")
    log = small_log(
        make_record,
        {},
        {"body": b"", "properties": b""},
        {"born_host": v6, "sys_flag": 0x10, "store_timestamp_ms": 5},
        {"store_host": v6, "sys_flag": 0x20, "store_timestamp_ms": 6},
        {"born_host": v6, "store_host": v6, "sys_flag": 0x30, "store_timestamp_ms": 7},
        {"topic": "主题".encode(), "queue_id": -1},
        {"properties": b"p" * 32767, "topic": b"t" * 127},
    )
    v2 = decode_record(make_record(physical_offset=BASE + len(log), queue_offset=7), 0, file="f")
    log += encode_message_record(
        replace(v2, magic=MESSAGE_MAGIC_V2, topic="x" * 200, size_bytes=v2.size_bytes + 1 + 198)
    )
    records = scanned(log)

    assert records == scanned(log, check_crc=False)
    assert [record.queue_offset for record in records] == list(range(8))
    assert [record.store_timestamp_ms for record in records[2:5]] == [5, 6, 7]
    assert [record.topic for record in records[5:]] == ["主题", "t" * 127, "x" * 200]
    assert sum(record.size_bytes for record in records) == len(log)


def test_a_v1_topic_length_above_127_is_corrupt_even_for_a_known_v2_topic() -> None:
    record = decode_record(make_record(physical_offset=BASE), 0, file="f")
    long = replace(record, magic=MESSAGE_MAGIC_V2, topic="y" * 200, size_bytes=112 + 1 + 198)
    raw = bytearray(encode_message_record(long))
    assert scanned(raw)[0].topic == "y" * 200

    del raw[93]  # the high byte of the length
    raw[:8] = (112 + 198).to_bytes(4) + bytes.fromhex("daa320a7")
    assert scan_error(raw) == ("topicLength", 93)


def test_scanned_records_with_equal_topics_share_one_string() -> None:
    first, second, third = scanned(small_log(make_record, {}, {}, {}))

    assert first.topic is second.topic is third.topic


def test_clearing_the_topic_cache_loses_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_TOPICS_MAX", 2)
    monkeypatch.setattr(scan, "_topics", {})
    names = [f"topic-{number % 5}" for number in range(20)]
    log = small_log(make_record, *({"topic": name.encode()} for name in names))

    assert [record.topic for record in scanned(log)] == names
    assert len(scan._topics) <= 2


def test_a_blank_record_of_any_size_ends_the_scan() -> None:
    log = small_log(make_record, {}, {})

    assert len(scanned(log + encode_blank(8))) == 2
    assert len(scanned(log + bytes.fromhex("ffffffff cbd43194") + b"stale" * 99)) == 2
    assert scanned(encode_blank(100).ljust(100, b"\0")) == []


def test_a_scan_can_start_in_the_middle_of_a_file() -> None:
    log = small_log(make_record, {}, {})
    view = memoryview(bytes(log))
    found = list(scan_records(view, 112, 224, file="f", base_offset=BASE, check_crc=True))

    assert [record.physical_offset for record in found] == [BASE + 112]


def test_records_before_a_corrupt_one_are_still_yielded() -> None:
    log = small_log(make_record, {}, {}) + bytes(4096)
    found = scan_records(memoryview(log), 0, len(log), file="f", base_offset=BASE, check_crc=True)

    assert [next(found).queue_offset, next(found).queue_offset] == [0, 1]
    with pytest.raises(CorruptFileError, match="f @ 228: magicCode: expected daa320a7 or daa320ab, found 00000000"):
        next(found)


@pytest.mark.parametrize("left", [1, 7, 8, 90])
def test_remaining_bytes_too_few_for_a_record_are_corrupt(left: int) -> None:
    log = small_log(make_record, {})

    assert scan_error(log + log[:left]) == ("totalSize", 112)


@pytest.mark.parametrize(
    ("at", "data", "field", "offset"),
    [
        (0, "7fffffff", "totalSize", 0),
        (0, "80000000", "totalSize", 0),
        (0, "00000071", "totalSize", 0),
        (0, "0000006f", "propertiesLength", 96),
        (4, "daa320a8", "magicCode", 4),
        (8, "00000000", "bodyCRC", 8),
        (28, "0000000000001001", "physicalOffset", 28),
        (28, "ffffffffffffffff", "physicalOffset", 28),
        (36, "00000010", "bodyLength", 96),
        (84, "00ffffff", "bodyLength", 84),
        (84, "ffffffff", "bodyLength", 84),
        (93, "00", "topicLength", 93),
        (93, "81", "topicLength", 93),
        (94, "ff", "topic", 94),
        (96, "ffff", "propertiesLength", 96),
        (96, "000d", "totalSize", 0),
    ],
)
def test_the_error_for_a_corrupt_scanned_field_names_field_and_offset(
    at: int, data: str, field: str, offset: int
) -> None:
    log = small_log(make_record, {}, {}, {})
    raw = bytes.fromhex(data)
    log[112 + at : 112 + at + len(raw)] = raw

    assert scan_error(log) == (field, 112 + offset)


def test_a_record_that_exceeds_the_scan_range_is_corrupt_even_if_the_file_is_longer() -> None:
    log = small_log(make_record, {}, {})

    with pytest.raises(CorruptFileError, match="4096 @ 112: totalSize: expected 91 to 100, found 112"):
        scanned(log, end=212)


def test_a_topic_torn_to_a_known_topic_is_still_detected() -> None:
    log = small_log(make_record, {}, {"body": b"", "topic": b"T1x", "properties": b""})
    del log[112 + 91 :]
    log[112:116] = (91).to_bytes(4)

    assert scan_error(log) == ("topicLength", 112 + 88)


def test_a_negative_body_length_is_corrupt_even_if_header_bytes_look_like_a_topic() -> None:
    log = small_log(make_record, {}, {"body": b"", "properties": b""})
    log[112 + 68 : 112 + 88] = b"\x02T1\x00" + bytes([len(log) - 112 - 73]) + b"v" * 11 + (-20).to_bytes(4, signed=True)
    log[112 + 88 :] = b"v" * 5

    assert scan_error(log, check_crc=False) == ("bodyLength", 112 + 84)


def test_a_wrong_body_is_accepted_only_without_checksum_verification() -> None:
    log = small_log(make_record, {}, {})
    log[112 + 90] ^= 1

    assert scan_error(log) == ("bodyCRC", 112 + 8)
    assert len(scanned(log, check_crc=False)) == 2


def test_a_topic_or_properties_ending_in_a_zero_byte_are_torn() -> None:
    assert scan_error(small_log(make_record, {}, {"topic": b"T\x00"})) == ("topic", 112 + 94)
    assert scan_error(small_log(make_record, {}, {"properties": b"TAGS\x01A\x00"})) == ("properties", 112 + 98)


def test_a_single_zero_byte_inside_properties_is_not_torn() -> None:
    log = small_log(make_record, {"properties": b"a\x01\x00b\x02TAGS\x01A"}, {})

    assert scanned(log)[0].properties == b"a\x01\x00b\x02TAGS\x01A"


@pytest.mark.parametrize("lost", range(1, 4))
def test_a_zeroed_sector_of_properties_is_torn_at_any_position(lost: int) -> None:
    log = small_log(make_record, {"properties": b"a\x01" + b"v" * 2000})
    log[lost * 512 : lost * 512 + 512] = bytes(512)

    assert scan_error(log) == ("properties", 98)


def test_properties_that_are_zero_up_to_the_end_of_a_sector_are_torn() -> None:
    log = small_log(make_record, {"properties": b"a\x01" + b"v" * 2000})
    log[700:1024] = bytes(324)

    assert scan_error(log) == ("properties", 98)


def test_a_sector_with_one_nonzero_byte_is_not_torn() -> None:
    log = small_log(make_record, {"properties": b"a\x01" + b"v" * 2000})
    log[512 : 512 + 511] = bytes(511)

    assert len(scanned(log)) == 1


@pytest.mark.parametrize("lost_sector", range(5))
def test_a_record_that_lost_any_of_its_sectors_is_corrupt(lost_sector: int) -> None:
    log = small_log(make_record, {"body": b"b" * 600, "properties": b"a\x01" + b"v" * 1400, "topic": b"t" * 100})
    assert len(scanned(log)) == 1
    log[lost_sector * 512 : lost_sector * 512 + 512] = bytes(min(512, len(log) - lost_sector * 512))

    scan_error(log)


def test_torn_properties_names_the_field_and_counts_sectors_from_the_file_start() -> None:
    assert torn_properties(b"T", b"abc", 0) is None
    assert torn_properties(b"T\0", b"abc", 0) == "topic"
    assert torn_properties(b"T", b"abc\0", 0) == "properties"
    assert torn_properties(b"T", b"\0abc", 0) is None
    assert torn_properties(b"T", b"\0abc", 511) == "properties"
    assert torn_properties(b"T", b"\0abc", 512) is None


@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(st.binary(max_size=40), st.sampled_from(["a", "bb", "主题"]), st.binary(max_size=40)), max_size=5
    ),
    st.lists(st.tuples(st.integers(0, 2**16), st.binary(min_size=1, max_size=4)), max_size=3),
)
def test_scanning_a_damaged_log_yields_undamaged_records_and_then_ends_or_raises(
    messages: list[tuple[bytes, str, bytes]], damage: list[tuple[int, bytes]]
) -> None:
    log = bytearray()
    for body, topic, properties in messages:
        log += encode_record(
            topic=topic.encode(),
            properties=properties,
            body=body,
            queue_id=0,
            flag=0,
            sys_flag=0,
            born_timestamp_ms=0,
            born_host=Host(bytes(4), 0),
            store_timestamp_ms=0,
            store_host=Host(bytes(4), 0),
            physical_offset=BASE + len(log),
        )
    size_bytes = len(log)
    for at, data in damage:
        log[at % (size_bytes + 1) : at % (size_bytes + 1) + len(data)] = data
    at = 0
    try:
        for record in scan_records(memoryview(log), 0, len(log), file="f", base_offset=BASE, check_crc=True):
            decoded = decode_record(log, at, file="f")
            assert (record.physical_offset, record.size_bytes) == (BASE + at, decoded.size_bytes)
            assert (record.topic, record.queue_id, record.queue_offset, record.sys_flag) == (
                decoded.topic,
                decoded.queue_id,
                decoded.queue_offset,
                decoded.sys_flag,
            )
            assert record.properties.decode(errors="surrogateescape") == decoded.properties
            at += record.size_bytes
    except CorruptFileError as error:
        place = error.offset
    else:
        place = at
    assert at <= place <= len(log)


@settings(max_examples=100)
@given(st.binary(min_size=1, max_size=300))
def test_random_bytes_are_corrupt_at_once(raw: bytes) -> None:
    scan_error(raw)


def test_a_record_with_a_wrong_size_allocates_no_memory() -> None:
    log = small_log(make_record, {}) + bytes(1_000_000)
    log[0:4] = len(log).to_bytes(4)
    view = memoryview(log)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptFileError, match="totalSize: expected 112, found 1000112"):
            next(scan_records(view, 0, len(view), file="f", base_offset=BASE, check_crc=True))
        with pytest.raises(CorruptFileError, match="totalSize: expected 112, found 1000112"):
            decode_record(view, 0, file="f")
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("tail_bytes", range(4))
def test_a_record_cut_at_the_end_of_a_file_before_its_own_lengths_is_corrupt(tail_bytes: int) -> None:
    body = bytes(10)
    cut = make_record(physical_offset=BASE, body=body)[: 88 + len(body) + tail_bytes]
    cut[:4] = len(cut).to_bytes(4)

    field, _ = scan_error(cut, check_crc=False)

    assert field in ("totalSize", "bodyLength", "topicLength", "propertiesLength")
