import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tornlog.store.errors import CorruptFileError, InvalidMessageError
from tornlog.store.formats.batch import BatchUnit, decode_batch, encode_batch, encode_batch_records, join_properties
from tornlog.store.formats.host import Host
from tornlog.store.formats.message import decode_record, encode_record, place_records

UNITS = st.builds(BatchUnit, st.integers(-(2**31), 2**31 - 1), st.binary(max_size=40), st.binary(max_size=40))
RAW = encode_batch([BatchUnit(7, b"body", b"TAGS\x01A"), BatchUnit(0, b"", b"")])


def test_an_encoded_batch_has_the_bytes_that_the_java_producer_writes() -> None:
    assert RAW.hex(" ", 4) == (
        bytes.fromhex(
            "00000020 00000000 00000000 00000007 00000004 626f6479 0006 544147530141"
            "00000016 00000000 00000000 00000000 00000000 0000"
        ).hex(" ", 4)
    )


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
def test_the_error_for_an_invalid_batch_length_names_its_offset(at: int, data: str, field: str, offset: int) -> None:
    raw = RAW[:at] + bytes.fromhex(data) + RAW[at + len(data) // 2 :]
    with pytest.raises(CorruptFileError) as caught:
        decode_batch(raw)

    assert (caught.value.file, caught.value.field, caught.value.offset) == ("batch body", field, offset)


def test_magic_and_checksum_of_a_batch_unit_are_ignored() -> None:
    assert decode_batch(RAW[:4] + b"\xff" * 8 + RAW[12:]) == decode_batch(RAW)


def test_a_truncated_batch_is_corrupt_unless_it_ends_between_units() -> None:
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
def test_batch_properties_follow_those_of_each_unit_with_one_separator(
    unit: bytes, batch: bytes, joined: bytes
) -> None:
    assert join_properties(unit, batch) == joined


@settings(max_examples=100)
@given(st.lists(UNITS, max_size=5))
def test_every_batch_survives_encoding_and_decoding(units: list[BatchUnit]) -> None:
    assert decode_batch(encode_batch(units)) == units


@settings(max_examples=100)
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


CLIENT, BROKER = Host(bytes(range(16)), 5), Host(b"\x7f\0\0\1", 10911)
SYS_FLAG = 0x10


def records_of(units: bytes, shared: bytes = b"") -> tuple[bytearray, tuple[int, ...]]:
    return encode_batch_records(
        units,
        topic=b"Topic",
        shared_properties=shared,
        queue_id=3,
        sys_flag=SYS_FLAG,
        born_timestamp_ms=1_600_000_000_000,
        born_host=CLIENT,
        store_host=BROKER,
        reconsume_times=2,
        clean=None,
    )


PROPERTIES = st.binary(max_size=40).map(lambda raw: raw.replace(b"\0", b"."))


@given(st.lists(st.builds(BatchUnit, st.integers(-(2**31), 2**31 - 1), st.binary(max_size=60), PROPERTIES)), PROPERTIES)
def test_a_batch_becomes_the_same_records_as_its_messages_put_one_by_one(units: list[BatchUnit], shared: bytes) -> None:
    raw = encode_batch(units)
    records, starts = records_of(raw, shared)

    alone = [
        encode_record(
            topic=b"Topic",
            properties=join_properties(unit.properties, shared),
            body=unit.body,
            queue_id=3,
            flag=unit.flag,
            sys_flag=SYS_FLAG,
            born_timestamp_ms=1_600_000_000_000,
            born_host=CLIENT,
            store_timestamp_ms=0,
            store_host=BROKER,
            reconsume_times=2,
        )
        for unit in decode_batch(raw)
    ]
    assert records == b"".join(alone)
    assert starts == tuple(sum(map(len, alone[:number])) for number in range(len(alone)))


def test_placing_a_batch_gives_each_record_its_own_queue_and_log_offset() -> None:
    records, starts = records_of(encode_batch([BatchUnit(0, b"x" * number, b"") for number in range(4)]))
    place_records(records, starts, queue_offset=7, physical_offset=1000, store_timestamp_ms=99, born_host_v6=True)

    placed = [decode_record(records, start, file="f") for start in starts]
    assert [record.queue_offset for record in placed] == [7, 8, 9, 10]
    assert [record.physical_offset for record in placed] == [1000 + start for start in starts]
    assert {record.store_timestamp_ms for record in placed} == {99}


@pytest.mark.parametrize("properties", [b"a\1\0b", b"p" * 32768])
def test_properties_that_do_not_fit_into_a_record_are_refused(properties: bytes) -> None:
    whole = properties[:-1] if len(properties) > 32767 else properties
    units = encode_batch([BatchUnit(0, b"", b""), BatchUnit(0, b"", whole)])
    with pytest.raises(InvalidMessageError, match="the unit at 22"):
        records_of(units, shared=b"x" if whole != properties else b"")
