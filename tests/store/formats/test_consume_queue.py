import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.consume_queue import (
    ADDRESS_MAX,
    ADDRESS_TOP,
    BLANK_ENTRY,
    BLANK_ENTRY_BYTES,
    END_MARK,
    ENTRY_BYTES,
    OFFSET_MAX,
    UNIT_BYTES_MAX,
    UNIT_BYTES_MIN,
    ExtUnit,
    QueueEntry,
    decode_entry,
    decode_unit,
    encode_entry,
    encode_unit,
    ext_address_of,
    ext_offset_of,
    is_blank,
    is_ext_address,
    is_valid,
    tags_code,
    unit_bytes_at,
)

I64 = st.integers(-(2**63), 2**63 - 1)


def test_an_encoded_queue_entry_equals_the_specification() -> None:
    assert encode_entry(4096, 112, tags_code("A")).hex() == "0000000000001000000000700000000000000041"


def test_a_tags_code_is_sign_extended_to_64_bits() -> None:
    assert encode_entry(0, 91, tags_code("polygenelubricants"))[12:].hex() == "ffffffff80000000"


def test_a_blank_entry_is_recognised() -> None:
    assert BLANK_ENTRY_BYTES.hex() == "00000000000000007fffffff0000000000000000"
    assert is_blank(decode_entry(BLANK_ENTRY_BYTES, 0))
    assert not is_blank(BLANK_ENTRY._replace(physical_offset=1))


@pytest.mark.parametrize(
    ("entry", "valid"),
    [
        (QueueEntry(0, 91, 0), True),
        (QueueEntry(4096, 112, -(2**31)), True),
        (QueueEntry(0, 0, 0), False),
        (QueueEntry(-1, 91, 0), False),
        (QueueEntry(0, -1, 0), False),
        (BLANK_ENTRY, False),
    ],
)
def test_a_queue_entry_is_valid_if_it_can_point_to_a_record(entry: QueueEntry, valid: bool) -> None:
    assert is_valid(entry) is valid


@settings(max_examples=50)
@given(st.lists(st.builds(QueueEntry, I64, st.integers(-(2**31), 2**31 - 1), I64), max_size=4))
def test_every_entry_survives_encoding_and_decoding(entries: list[QueueEntry]) -> None:
    raw = memoryview(b"".join(encode_entry(*entry) for entry in entries))

    assert [decode_entry(raw, at) for at in range(0, len(raw), ENTRY_BYTES)] == entries


UNIT = ExtUnit(-2, 0x0102030405060708, b"\xaa\xbb")


def test_an_extension_unit_is_encoded_as_size_code_time_and_bits_in_big_endian() -> None:
    raw = encode_unit(UNIT)

    assert raw.hex() == "0016" + "fffffffffffffffe" + "0102030405060708" + "0002" + "aabb"
    assert decode_unit(b"??" + raw, 2, 24, file="ext") == UNIT
    assert unit_bytes_at(raw, 0, len(raw), file="ext") == 22


def test_an_extension_unit_may_have_no_bits_or_up_to_the_maximum() -> None:
    for bits in (b"", bytes(UNIT_BYTES_MAX - UNIT_BYTES_MIN)):
        raw = encode_unit(UNIT._replace(bit_map=bits))
        assert decode_unit(raw, 0, len(raw), file="ext").bit_map == bits


def test_an_extension_address_is_an_offset_minus_2_to_the_63_and_no_tag_hash() -> None:
    assert ext_address_of(0) == -(1 << 63)
    assert ext_address_of(OFFSET_MAX) == -(1 << 63) + (1 << 56) - 1
    assert ext_address_of(OFFSET_MAX).to_bytes(8, "big", signed=True)[0] == ADDRESS_TOP
    assert ADDRESS_MAX == -2147483649
    assert ext_offset_of(ext_address_of(123_456)) == 123_456
    assert is_ext_address(ADDRESS_MAX)
    assert not is_ext_address(-0x8000_0000)
    assert not is_ext_address(1)


@pytest.mark.parametrize("raw", [b"", b"\0", b"\0\0", END_MARK, END_MARK + b"anything"])
def test_zeros_an_end_mark_and_the_end_of_the_file_are_no_extension_units(raw: bytes) -> None:
    assert unit_bytes_at(raw, 0, len(raw), file="ext") == 0
    with pytest.raises(CorruptFileError, match="ext @ 0: size"):
        decode_unit(raw, 0, len(raw), file="ext")


def test_the_error_for_a_damaged_extension_unit_names_the_field() -> None:
    raw = encode_unit(UNIT)
    for size, found in ((b"\0\x13", 19), (b"\x80\0", -32768), (b"\x7f\xff", 32767), (b"\0\x17", 23)):
        with pytest.raises(CorruptFileError, match=rf"ext @ 1: size: expected 20 to 22, found {found}"):
            unit_bytes_at(b"?" + size + raw[2:], 1, 23, file="ext")
    with pytest.raises(CorruptFileError, match="ext @ 18: bitMapLength: expected 2, found 3"):
        decode_unit(raw[:18] + b"\0\3" + raw[20:], 0, 22, file="ext")
