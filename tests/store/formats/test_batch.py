import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.batch import BatchUnit, decode_batch, encode_batch, join_properties

UNITS = st.builds(BatchUnit, st.integers(-(2**31), 2**31 - 1), st.binary(max_size=40), st.binary(max_size=40))
RAW = encode_batch([BatchUnit(7, b"body", b"TAGS\x01A"), BatchUnit(0, b"", b"")])


def test_a_unit_is_written_as_the_producer_writes_it() -> None:
    assert RAW.hex(" ", 4) == (
        bytes.fromhex(
            "00000020 00000000 00000000 00000007 00000004 626f6479 0006 544147530141"
            "00000016 00000000 00000000 00000000 00000000 0000"
        ).hex(" ", 4)
    )


def test_an_empty_batch_body_holds_no_units() -> None:
    assert decode_batch(b"") == []


@pytest.mark.parametrize(
    ("at", "data", "field", "offset"),
    [
        (0, "7fffffff", "totalSize", 0),
        (0, "00000015", "totalSize", 0),
        (0, "ffffffff", "totalSize", 0),
        (16, "7fffffff", "bodyLength", 16),
        (16, "ffffffff", "bodyLength", 16),
        (24, "ffff", "propertiesLength", 24),
        (24, "0007", "propertiesLength", 24),
        (32, "00000015", "totalSize", 32),
    ],
)
def test_a_broken_length_is_named_with_its_place(at: int, data: str, field: str, offset: int) -> None:
    raw = RAW[:at] + bytes.fromhex(data) + RAW[at + len(data) // 2 :]
    with pytest.raises(CorruptFileError) as caught:
        decode_batch(raw)

    assert (caught.value.file, caught.value.field, caught.value.offset) == ("batch body", field, offset)


def test_magic_and_checksum_of_a_unit_are_ignored() -> None:
    assert decode_batch(RAW[:4] + b"\xff" * 8 + RAW[12:]) == decode_batch(RAW)


def test_a_cut_batch_is_corrupt_unless_the_cut_is_between_units() -> None:
    for kept in range(1, len(RAW)):
        if kept != 32:
            with pytest.raises(CorruptFileError):
                decode_batch(RAW[:kept])
    assert len(decode_batch(RAW[:32])) == 1


@pytest.mark.parametrize(
    ("unit", "batch", "joined"),
    [
        (b"a\x01b", b"c\x01d", b"a\x01b\x02c\x01d"),
        (b"a\x01b\x02", b"c\x01d", b"a\x01b\x02c\x01d"),
        (b"", b"c\x01d", b"c\x01d"),
        (b"a\x01b", b"", b"a\x01b"),
        (b"", b"", b""),
    ],
)
def test_batch_properties_follow_the_units_own_with_one_separator(
    unit: bytes, batch: bytes, joined: bytes
) -> None:
    assert join_properties(unit, batch) == joined


@settings(max_examples=100, deadline=None)
@given(st.lists(UNITS, max_size=5))
def test_every_batch_survives_encoding_and_decoding(units: list[BatchUnit]) -> None:
    assert decode_batch(encode_batch(units)) == units


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=80))
def test_random_bytes_decode_completely_or_are_corrupt(raw: bytes) -> None:
    try:
        units = decode_batch(raw)
    except CorruptFileError as error:
        accounted = error.offset
    else:
        accounted = sum(22 + len(unit.body) + len(unit.properties) for unit in units)
        assert accounted == len(raw)
    assert 0 <= accounted <= len(raw)
