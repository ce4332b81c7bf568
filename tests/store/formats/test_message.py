from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.store.formats.example_record import VECTOR, make_record
from tornlog.store.errors import CorruptFileError, InvalidMessageError
from tornlog.store.formats.host import Host
from tornlog.store.formats.message import (
    BORN_HOST_V6,
    MESSAGE_MAGIC,
    MESSAGE_MAGIC_V2,
    STORE_HOST_V6,
    MessageRecord,
    body_crc,
    decode_record,
    encode_blank,
    encode_message_record,
    encode_record,
    place_records,
)

IPV4 = Host.parse("10.0.0.1|10911")
IPV6 = Host.parse("2001:db8::1|40001")
I64 = st.integers(-(2**63), 2**63 - 1)
I32 = st.integers(-(2**31), 2**31 - 1)
HOSTS = st.builds(Host, st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16), I32)
TEXT = st.text(st.characters(blacklist_categories=["Cs"]), max_size=30)


@st.composite
def records(draw: st.DrawFn) -> MessageRecord:
    """Draw a record with correct sizes, CRC and host bits. All other fields are arbitrary."""
    born_host, store_host = draw(HOSTS), draw(HOSTS)
    magic = draw(st.sampled_from([MESSAGE_MAGIC, MESSAGE_MAGIC_V2]))
    body, topic, properties = draw(st.binary(max_size=60)), draw(TEXT.filter(bool)), draw(TEXT)
    sys_flag = draw(I32) & ~(BORN_HOST_V6 | STORE_HOST_V6)
    sys_flag |= BORN_HOST_V6 * born_host.is_ipv6 | STORE_HOST_V6 * store_host.is_ipv6
    size_bytes = 91 + 12 * born_host.is_ipv6 + 12 * store_host.is_ipv6 + (magic == MESSAGE_MAGIC_V2)
    size_bytes += len(body) + len(topic.encode()) + len(properties.encode())
    return MessageRecord(
        size_bytes,
        magic,
        body_crc(body),
        draw(I32),
        draw(I32),
        draw(I64),
        draw(I64),
        sys_flag,
        draw(I64),
        born_host,
        draw(I64),
        store_host,
        draw(I32),
        draw(I64),
        body,
        topic,
        properties,
    )


def patched(raw: bytes | bytearray, at: int, data: bytes) -> bytes:
    return bytes(raw[:at]) + data + bytes(raw[at + len(data) :])


def test_an_encoded_record_equals_the_specification() -> None:
    assert make_record() == VECTOR


def test_an_encoded_blank_record_equals_the_specification() -> None:
    assert encode_blank(100).hex() == "00000064cbd43194"


@pytest.mark.parametrize(("born_host", "sys_flag"), [(IPV4, 0), (IPV6, 0x10)])
def test_placing_a_record_changes_only_its_offsets_and_store_time(born_host: Host, sys_flag: int) -> None:
    raw = make_record(born_host=born_host, sys_flag=sys_flag)
    before = decode_record(raw, 0, file="f")
    buffer = bytearray(b"before") + raw + b"after"
    place_records(
        buffer, (6,), queue_offset=99, physical_offset=2**40 - 6, store_timestamp_ms=5, born_host_v6=born_host.is_ipv6
    )

    assert decode_record(buffer, 6, file="f") == replace(
        before, queue_offset=99, physical_offset=2**40, store_timestamp_ms=5
    )
    assert buffer.startswith(b"before")
    assert buffer.endswith(b"after")


def test_an_empty_body_has_the_checksum_zero() -> None:
    raw = make_record(body=b"", properties=b"")

    assert len(raw) == 93
    assert raw[8:12] == bytes(4)
    assert decode_record(raw, 0, file="f").body == b""


def test_the_sign_bit_of_a_body_checksum_is_cleared() -> None:
    assert body_crc(b"123456789") == 0xCBF43926 & 0x7FFFFFFF


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"topic": b"t" * 128}, "topic: expected 1 to 127 bytes, found 128"),
        ({"topic": ("中" * 50).encode()}, "topic: expected 1 to 127 bytes, found 150"),
        ({"topic": b""}, "topic: expected 1 to 127 bytes, found 0"),
        ({"properties": bytes(32768)}, "properties: expected at most 32767 bytes, found 32768"),
    ],
)
def test_a_topic_or_properties_beyond_their_length_field_are_refused(changes: dict[str, bytes], text: str) -> None:
    with pytest.raises(InvalidMessageError, match=text):
        make_record(**changes)


def test_the_longest_topic_and_properties_are_stored() -> None:
    record = decode_record(make_record(topic=b"t" * 127, properties=b"p" * 32767), 0, file="f")

    assert (len(record.topic), len(record.properties)) == (127, 32767)


def test_a_v2_record_can_have_a_topic_longer_than_127_bytes() -> None:
    record = decode_record(VECTOR, 0, file="f")
    long = replace(record, magic=MESSAGE_MAGIC_V2, topic="t" * 300, size_bytes=112 + 1 + 298)

    assert decode_record(encode_message_record(long), 0, file="f") == long


def test_properties_that_are_not_utf8_are_kept_unchanged() -> None:
    raw = bytes(make_record(properties=b"TAGS\x01\xff\xfe"))

    assert encode_message_record(decode_record(raw, 0, file="f")) == raw


@pytest.mark.parametrize(
    ("at", "data", "field", "offset"),
    [
        (4, "cbd43194", "magicCode", 4),
        (4, "00000000", "magicCode", 4),
        (0, "7fffffff", "totalSize", 0),
        (0, "00000071", "totalSize", 0),
        (0, "0000006f", "propertiesLength", 96),
        (0, "00000000", "totalSize", 0),
        (0, "ffffffff", "totalSize", 0),
        (0, "0000005b", "bodyLength", 84),
        (8, "3610a687", "bodyCRC", 8),
        (8, "b610a686", "bodyCRC", 8),
        (88, "69", "bodyCRC", 8),
        (36, "00000030", "totalSize", 0),
        (84, "7fffffff", "bodyLength", 84),
        (84, "ffffffff", "bodyLength", 84),
        (93, "00", "topicLength", 93),
        (93, "80", "topicLength", 93),
        (93, "7f", "topicLength", 93),
        (94, "ff", "topic", 94),
        (96, "ffff", "propertiesLength", 96),
        (96, "000d", "totalSize", 0),
        (96, "000f", "propertiesLength", 96),
    ],
)
def test_the_error_for_a_corrupt_record_field_names_field_and_offset(
    at: int, data: str, field: str, offset: int
) -> None:
    with pytest.raises(CorruptFileError) as caught:
        decode_record(bytes(10) + patched(VECTOR, at, bytes.fromhex(data)), 10, file="commitlog/0", file_offset=1000)

    assert (caught.value.file, caught.value.field, caught.value.offset) == ("commitlog/0", field, 1010 + offset)


@pytest.mark.parametrize("kept", [0, 1, 7, 8, 40, 90, 111])
def test_a_record_truncated_anywhere_is_corrupt(kept: int) -> None:
    with pytest.raises(CorruptFileError) as caught:
        decode_record(VECTOR[:kept], 0, file="f")

    assert (caught.value.field, caught.value.offset) == ("totalSize", 0)


@settings(max_examples=100)
@given(records())
def test_every_record_survives_encoding_and_decoding(record: MessageRecord) -> None:
    raw = encode_message_record(record)

    assert decode_record(memoryview(raw), 0, file="f") == record
    assert encode_message_record(decode_record(raw, 0, file="f")) == raw


@settings(max_examples=50)
@given(records().filter(lambda record: record.magic == MESSAGE_MAGIC))
def test_both_encoders_write_the_same_v1_record(record: MessageRecord) -> None:
    assert encode_message_record(record) == encode_record(
        topic=record.topic.encode(),
        properties=record.properties.encode(),
        body=record.body,
        queue_id=record.queue_id,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp_ms=record.born_timestamp_ms,
        born_host=record.born_host,
        store_timestamp_ms=record.store_timestamp_ms,
        store_host=record.store_host,
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=record.prepared_transaction_offset,
        queue_offset=record.queue_offset,
        physical_offset=record.physical_offset,
    )


@settings(max_examples=100)
@given(records(), st.lists(st.tuples(st.integers(0, 200), st.binary(min_size=1, max_size=4)), max_size=4))
def test_a_damaged_record_is_corrupt_or_encodes_to_its_own_bytes(
    record: MessageRecord, damage: list[tuple[int, bytes]]
) -> None:
    raw = encode_message_record(record)
    for at, data in damage:
        raw = patched(raw, at % len(raw), data)
    try:
        decoded = decode_record(raw, 0, file="f")
    except CorruptFileError as error:
        place = error.offset
    else:
        place = raw.index(encode_message_record(decoded))
    assert 0 <= place < len(raw)


@settings(max_examples=100)
@given(st.binary(max_size=300))
def test_random_bytes_do_not_decode_as_a_record(raw: bytes) -> None:
    with pytest.raises(CorruptFileError):
        decode_record(raw, 0, file="f")
