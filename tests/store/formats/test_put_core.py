"""Puts with the core in C and without it: the same records, and what Python refuses the core leaves to it."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornlog.store.errors import CorruptFileError, InvalidMessageError
from tornlog.store.formats.batch import BatchUnit, encode_batch, encode_batch_records
from tornlog.store.formats.columns import Core
from tornlog.store.formats.host import Host
from tornlog.store.formats.message import (
    BORN_HOST_V6,
    MAX_PROPERTIES_BYTES,
    MAX_TOPIC_BYTES,
    STORE_HOST_V6,
    encode_record,
    place_records,
)

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
ODD_INT32 = INT32 | st.integers(2**31, 2**64)
HOSTS = st.builds(Host, st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16), INT32)
LONGEST_TOPIC = b"t" * MAX_TOPIC_BYTES
TOPICS = st.binary(min_size=1, max_size=20) | st.sampled_from([b"", LONGEST_TOPIC, LONGEST_TOPIC + b"t"])
LONGEST = b"p" * MAX_PROPERTIES_BYTES
PROPERTIES = st.binary(max_size=60) | st.sampled_from([LONGEST, LONGEST + b"p", b"a\x01b\x02", b"a\0b"])
BODIES = st.binary(max_size=300) | st.binary(min_size=4000, max_size=5000)


def flags_of(flags: int, born_host: Host, store_host: Host) -> int:
    """Return flags that agree with the hosts."""
    flags &= ~(BORN_HOST_V6 | STORE_HOST_V6)
    flags |= BORN_HOST_V6 if born_host.is_ipv6 else 0
    return flags | STORE_HOST_V6 if store_host.is_ipv6 else flags


@given(
    topic=TOPICS,
    properties=PROPERTIES,
    body=BODIES,
    queue_id=INT32,
    flag=ODD_INT32,
    flags=INT32,
    born_ms=INT64,
    born_host=HOSTS,
    store_host=HOSTS,
    reconsume_times=ODD_INT32,
    prepared_at=INT64,
)
def test_a_record_is_that_of_python_and_what_python_refuses_is_left_to_it(
    core: Core,
    topic: bytes,
    properties: bytes,
    body: bytes,
    queue_id: int,
    flag: int,
    flags: int,
    born_ms: int,
    born_host: Host,
    store_host: Host,
    reconsume_times: int,
    prepared_at: int,
) -> None:
    sys_flag = flags_of(flags, born_host, store_host)
    found = core.encode(
        *(topic, properties, body, queue_id, flag, sys_flag, born_ms, born_host, store_host),
        *(reconsume_times, prepared_at),
    )
    if b"\0" in properties:
        assert found is None
        return
    try:
        expected = encode_record(
            topic=topic,
            properties=properties,
            body=body,
            queue_id=queue_id,
            flag=flag,
            sys_flag=sys_flag,
            born_timestamp_ms=born_ms,
            born_host=born_host,
            store_timestamp_ms=0,
            store_host=store_host,
            reconsume_times=reconsume_times,
            prepared_transaction_offset=prepared_at,
        )
    except (InvalidMessageError, struct.error):
        assert found is None
    else:
        assert found == expected


UNITS = st.builds(BatchUnit, INT32, st.binary(max_size=200), PROPERTIES.filter(lambda one: len(one) <= len(LONGEST)))


@st.composite
def batch_bodies(draw: st.DrawFn) -> bytes:
    """Return the body of a batch; of some, a byte is another one, or the end is missing."""
    body = bytearray(encode_batch(draw(st.lists(UNITS))))
    if body and draw(st.booleans()):
        body[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
    if draw(st.integers(0, 9)) == 0:
        del body[draw(st.integers(0, len(body))) :]
    return bytes(body)


@given(
    units=batch_bodies(),
    topic=TOPICS.filter(lambda one: 0 < len(one) <= MAX_TOPIC_BYTES),
    shared=PROPERTIES.filter(lambda one: len(one) < 100),
    queue_id=INT32,
    flags=INT32,
    born_ms=INT64,
    born_host=HOSTS,
    store_host=HOSTS,
    reconsume_times=INT32,
)
def test_the_records_of_a_batch_are_those_of_python_and_what_python_refuses_is_left_to_it(
    core: Core,
    units: bytes,
    topic: bytes,
    shared: bytes,
    queue_id: int,
    flags: int,
    born_ms: int,
    born_host: Host,
    store_host: Host,
    reconsume_times: int,
) -> None:
    sys_flag = flags_of(flags, born_host, store_host)
    found = core.encode_batch(units, topic, shared, queue_id, sys_flag, born_ms, born_host, store_host, reconsume_times)
    try:
        expected = encode_batch_records(
            units,
            topic=topic,
            shared_properties=shared,
            queue_id=queue_id,
            sys_flag=sys_flag,
            born_timestamp_ms=born_ms,
            born_host=born_host,
            store_host=store_host,
            reconsume_times=reconsume_times,
            clean=None,
        )
    except (CorruptFileError, InvalidMessageError):
        assert found is None
        return
    if b"\0" in shared or not expected[1]:
        assert found is None
    else:
        assert found == expected


@given(
    starts=st.lists(st.integers(0, 900), max_size=5).map(tuple),
    queue_offset=st.integers(0, 2**62),
    physical_offset=st.integers(0, 2**62),
    stored_ms=st.integers(0, 2**62),
    born_host_v6=st.booleans(),
)
def test_records_are_placed_as_python_does(
    core: Core, starts: tuple[int, ...], queue_offset: int, physical_offset: int, stored_ms: int, born_host_v6: bool
) -> None:
    found, expected = bytearray(1000), bytearray(1000)
    given_places = starts, queue_offset, physical_offset, stored_ms, born_host_v6
    place_records(expected, *given_places)
    core.place(found, *given_places)
    assert found == expected


@pytest.mark.parametrize("start", [-1, 937, 1000, 2**40])
def test_a_start_that_is_in_front_of_no_record_is_refused(core: Core, start: int) -> None:
    with pytest.raises(ValueError, match="in front of a record"):
        core.place(bytearray(1000), (start,), 0, 0, 0, False)


@pytest.mark.parametrize(
    "change", [{"body": None}, {"born_host": (b"1234",)}, {"topic": "t"}, {"store_host": Host(b"12345", 1)}]
)
def test_arguments_of_other_types_are_refused_and_a_host_of_another_length_is_left_to_python(
    core: Core, change: dict[str, Any]
) -> None:
    host = Host(b"1234", 1)
    arguments: dict[str, Any] = {"topic": b"t", "properties": b"", "body": b"", "queue_id": 0, "flag": 0, "sys_flag": 0}
    arguments |= {"born_ms": 0, "born_host": host, "store_host": host, "reconsume_times": 0, "prepared_at": 0} | change
    if "store_host" in change:
        assert core.encode(*arguments.values()) is None
    else:
        with pytest.raises(TypeError):
            core.encode(*arguments.values())
