"""Records made of a batch in one go are those made of its units one at a time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornlog.store.errors import CorruptFileError, InvalidMessageError
from tornlog.store.formats.batch import (
    BatchUnit,
    decode_batch,
    encode_batch,
    encode_batch_records,
    join_properties,
)
from tornlog.store.formats.host import Host
from tornlog.store.formats.message import decode_record, encode_record, place_records

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


@given(
    st.lists(st.builds(BatchUnit, st.integers(-(2**31), 2**31 - 1), st.binary(max_size=60), PROPERTIES)),
    PROPERTIES,
)
def test_a_batch_becomes_the_records_its_units_become_alone(units: list[BatchUnit], shared: bytes) -> None:
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


def test_placing_a_batch_counts_queue_offsets_up_and_gives_each_record_its_own_place() -> None:
    records, starts = records_of(encode_batch([BatchUnit(0, b"x" * number, b"") for number in range(4)]))
    place_records(
        records, starts, queue_offset=7, physical_offset=1000, store_timestamp_ms=99, born_host_v6=True
    )

    placed = [decode_record(records, start, file="f") for start in starts]
    assert [record.queue_offset for record in placed] == [7, 8, 9, 10]
    assert [record.physical_offset for record in placed] == [1000 + start for start in starts]
    assert {record.store_timestamp_ms for record in placed} == {99}


@pytest.mark.parametrize("properties", [b"a\1\0b", b"p" * 32768])
def test_properties_that_no_record_can_hold_are_refused(properties: bytes) -> None:
    whole = properties[:-1] if len(properties) > 32767 else properties
    units = encode_batch([BatchUnit(0, b"", b""), BatchUnit(0, b"", whole)])
    with pytest.raises(InvalidMessageError, match="the unit at 22"):
        records_of(units, shared=b"x" if whole != properties else b"")


def test_a_unit_that_is_cut_short_is_named() -> None:
    with pytest.raises(CorruptFileError, match="totalSize"):
        records_of(encode_batch([BatchUnit(0, b"body", b"")])[:-1])
