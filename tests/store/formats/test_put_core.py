"""Puts with and without the C core: the same records, and the core leaves all refusals to Python."""

import dataclasses
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornlog.store.config import StoreConfig
from tornlog.store.errors import CorruptFileError, InvalidMessageError
from tornlog.store.formats.batch import BatchUnit, encode_batch, encode_batch_records
from tornlog.store.formats.columns import NativeCore
from tornlog.store.formats.host import Host
from tornlog.store.formats.message import (
    BLANK_BYTES,
    BORN_HOST_V6,
    MAX_PROPERTIES_BYTES,
    MAX_TOPIC_BYTES,
    STORE_HOST_V6,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_NONE,
    TRANSACTION_PREPARED,
    encode_record,
    place_records,
)
from tornlog.store.formats.messages import Message
from tornlog.store.formats.redirect import DELAY_MARK
from tornlog.store.log.put_encoder import EncodedPut, PutEncoder

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
ODD_INT32 = INT32 | st.integers(2**31, 2**64)
HOSTS = st.builds(Host, st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16), INT32)
LONGEST_TOPIC = b"t" * MAX_TOPIC_BYTES
TOPICS = st.binary(min_size=1, max_size=20) | st.sampled_from([b"", LONGEST_TOPIC, LONGEST_TOPIC + b"t"])
LONGEST = b"p" * MAX_PROPERTIES_BYTES
PROPERTIES = st.binary(max_size=60) | st.sampled_from([LONGEST, LONGEST + b"p", b"a\x01b\x02", b"a\0b"])
BODIES = st.binary(max_size=300) | st.binary(min_size=4000, max_size=5000)


IN_ORDER = ("units", "topic", "properties", "shared_properties", "body", "queue_id", "flag", "sys_flag")
IN_ORDER += ("born_timestamp_ms", "born_host", "store_host", "reconsume_times", "prepared_transaction_offset")
"""Parameters of the core, including those for a batch."""
HEAD = {"sys_flag": INT32, "born_timestamp_ms": INT64, "born_host": HOSTS, "store_host": HOSTS}


def with_host_bits(fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields in the order of the core's parameters. The address bits of sys_flag agree with the hosts."""
    hosts = {BORN_HOST_V6: fields["born_host"], STORE_HOST_V6: fields["store_host"]}
    plain = fields["sys_flag"] & ~(BORN_HOST_V6 | STORE_HOST_V6)
    fields = fields | {"sys_flag": plain | sum(bit for bit, host in hosts.items() if host.is_ipv6)}
    return {name: fields[name] for name in IN_ORDER if name in fields}


@given(
    st.fixed_dictionaries(
        {"topic": TOPICS, "properties": PROPERTIES, "body": BODIES, "queue_id": INT32, "flag": ODD_INT32}
        | HEAD
        | {"reconsume_times": ODD_INT32, "prepared_transaction_offset": INT64}
    ).map(with_host_bits)
)
def test_the_compiled_core_encodes_a_record_like_python_or_declines(core: NativeCore, fields: dict[str, Any]) -> None:
    found = core.encode(*fields.values())
    if b"\0" in fields["properties"]:
        assert found is None
        return
    try:
        expected = encode_record(**fields, store_timestamp_ms=0)
    except (InvalidMessageError, struct.error):
        assert found is None
    else:
        assert found == expected


UNITS = st.builds(BatchUnit, INT32, st.binary(max_size=200), PROPERTIES.filter(lambda one: len(one) <= len(LONGEST)))


@st.composite
def batch_bodies(draw: st.DrawFn) -> bytes:
    """Return the body of a batch, sometimes with a changed byte or without its end."""
    body = bytearray(encode_batch(draw(st.lists(UNITS))))
    if body and draw(st.booleans()):
        body[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
    if draw(st.integers(0, 9)) == 0:
        del body[draw(st.integers(0, len(body))) :]
    return bytes(body)


@given(
    st.fixed_dictionaries(
        {
            "units": batch_bodies(),
            "topic": TOPICS.filter(lambda one: 0 < len(one) <= MAX_TOPIC_BYTES),
            "shared_properties": PROPERTIES.filter(lambda one: len(one) < 100),
            "queue_id": INT32,
        }
        | HEAD
        | {"reconsume_times": INT32}
    ).map(with_host_bits)
)
def test_the_compiled_core_encodes_a_batch_like_python_or_declines(core: NativeCore, fields: dict[str, Any]) -> None:
    found = core.encode_batch(*fields.values())
    try:
        expected = encode_batch_records(**fields, clean=None)
    except (CorruptFileError, InvalidMessageError):
        assert found is None
        return
    if b"\0" in fields["shared_properties"] or not expected[1]:
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
def test_the_compiled_core_places_records_like_python(
    core: NativeCore,
    starts: tuple[int, ...],
    queue_offset: int,
    physical_offset: int,
    stored_ms: int,
    born_host_v6: bool,
) -> None:
    found, expected = bytearray(1000), bytearray(1000)
    given_places = starts, queue_offset, physical_offset, stored_ms, born_host_v6
    place_records(expected, *given_places)
    core.place(found, *given_places)
    assert found == expected


@pytest.mark.parametrize("start", [-1, 937, 1000, 2**40])
def test_placing_at_a_start_without_room_for_a_record_is_refused(c_core: NativeCore, start: int) -> None:
    with pytest.raises(ValueError, match="in front of a record"):
        c_core.place(bytearray(1000), (start,), 0, 0, 0, False)


@pytest.mark.parametrize(
    "change", [{"body": None}, {"born_host": (b"1234",)}, {"topic": "t"}, {"store_host": Host(b"12345", 1)}]
)
def test_the_compiled_core_refuses_wrong_types_and_declines_hosts_of_unusual_length(
    c_core: NativeCore, change: dict[str, Any]
) -> None:
    host = Host(b"1234", 1)
    arguments: dict[str, Any] = {"topic": b"t", "properties": b"", "body": b"", "queue_id": 0, "flag": 0, "sys_flag": 0}
    arguments |= {"born_ms": 0, "born_host": host, "store_host": host, "reconsume_times": 0, "prepared_at": 0} | change
    if "store_host" in change:
        assert c_core.encode(*arguments.values()) is None
    else:
        with pytest.raises(TypeError):
            c_core.encode(*arguments.values())


PLAIN_TEXTS = st.text(st.sampled_from("aé\x01\x02.DELAY"), min_size=1, max_size=9)
ODD_TEXTS = st.text(st.sampled_from("é\0./\ud800"), max_size=3) | st.sampled_from(
    ["DELAY\x01", "DDELAY\x012", "é" * 64]
)
PLAIN_MESSAGES = st.builds(
    Message,
    topic=PLAIN_TEXTS | st.just("é" * 63),
    body=BODIES,
    queue_id=st.integers(0, 2**31 - 1),
    properties=PLAIN_TEXTS | st.just("p" * MAX_PROPERTIES_BYTES),
    flag=INT32,
    sys_flag=INT32.map(lambda number: number & ~TRANSACTION_PREPARED),
    born_timestamp_ms=INT64,
    born_host=HOSTS,
    store_host=HOSTS,
    reconsume_times=INT32,
    prepared_transaction_offset=INT64,
)
"""Messages of which the core declines few."""
ODD_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "topic": ODD_TEXTS,
    "properties": ODD_TEXTS | st.just("p" * (MAX_PROPERTIES_BYTES + 1)),
    "queue_id": INT32,
    "sys_flag": INT32,
    **dict.fromkeys(("flag", "reconsume_times", "born_timestamp_ms", "prepared_transaction_offset"), ODD_INT32),
    **dict.fromkeys(("born_host", "store_host"), st.builds(Host, st.binary(max_size=17), ODD_INT32)),
}
CHANGES = st.just({}) | st.one_of(*(st.fixed_dictionaries({name: each}) for name, each in ODD_FIELDS.items()))
MESSAGES = st.builds(lambda message, change: dataclasses.replace(message, **change), PLAIN_MESSAGES, CHANGES)
STORED = ("topic", "properties", "body", *IN_ORDER[5:])
BODY_BYTES_MAX = 4_500
PAGES_BYTES = 40_000


def arguments_of(message: Message, pages: memoryview, position: int, *place: int) -> tuple[Any, ...]:
    """Return the arguments of `NativeCore.store`."""
    values = {each.name: getattr(message, each.name) for each in dataclasses.fields(message)}
    return (pages, position, BODY_BYTES_MAX, *(values[name] for name in STORED), *place)


POSITIONS = st.integers(0, 2_000) | st.integers(-1, PAGES_BYTES + 1)
PLACES = st.tuples(INT64, st.integers(0, 2**62), INT64)


@given(MESSAGES, POSITIONS, PLACES)
def test_the_compiled_core_stores_a_plain_message_like_python_or_declines(
    core: NativeCore, message: Message, position: int, place: tuple[int, int, int]
) -> None:
    assert_stored_like_python(core, message, position, place)


@pytest.mark.parametrize(
    "change",
    [
        *({"topic": topic} for topic in (".", "..", "...", "a.", ".a", "a/", "/a", "a\0", "é" * 63 + "t", "é" * 64)),
        *({"properties": text} for text in ("DELAY", "DELAY1", "DELAY\x01", "DDELAY\x01", "DELAYDELAY\x011", "\0", "")),
        *({"sys_flag": sys_flag} for sys_flag in (0, 4, 8, 12, 0x10, 0x20, -1 ^ 4)),
        *({"body": bytes(size_bytes)} for size_bytes in (0, BODY_BYTES_MAX, BODY_BYTES_MAX + 1)),
    ],
)
def test_the_compiled_core_stores_a_message_with_a_limit_like_python_or_declines(
    core: NativeCore, change: dict[str, Any]
) -> None:
    message = dataclasses.replace(Message("T", b"body"), **change)
    assert_stored_like_python(core, message, 0, (1, 2, 3))


def test_the_compiled_core_leaves_room_for_a_blank_record(core: NativeCore) -> None:
    message = Message("T", b"body")
    size_bytes = core.store(*arguments_of(message, memoryview(bytearray(PAGES_BYTES)), 0, 0, 0, 0))
    last = PAGES_BYTES - BLANK_BYTES - size_bytes
    for position in (-1, last, last + 1, last + BLANK_BYTES, PAGES_BYTES, PAGES_BYTES + 1):
        assert_stored_like_python(core, message, position, (1, 2, 3))


def assert_stored_like_python(core: NativeCore, message: Message, position: int, place: tuple[int, int, int]) -> None:
    expected, found = bytearray(PAGES_BYTES), bytearray(PAGES_BYTES)
    config = StoreConfig("/store", max_message_size=BODY_BYTES_MAX)
    encoded = PutEncoder(config, None).encode(message)
    size_bytes = 0
    if isinstance(encoded, EncodedPut) and is_plain(message) and position >= 0:
        room_bytes = PAGES_BYTES - position - BLANK_BYTES
        if len(encoded.buffer) <= room_bytes:
            size_bytes = len(encoded.buffer)
            place_records(encoded.buffer, encoded.starts, *place, encoded.born_host_v6)
            expected[position : position + size_bytes] = encoded.buffer
    assert core.store(*arguments_of(message, memoryview(found), position, *place)) == size_bytes
    assert found == expected


def is_plain(message: Message) -> bool:
    """Return whether the core may not decline a message that Python stores."""
    return DELAY_MARK not in message.properties and message.sys_flag & TRANSACTION_MASK in (
        TRANSACTION_NONE,
        TRANSACTION_COMMIT,
    )


@pytest.mark.parametrize(
    "change",
    [
        *({"topic": b"T"}, {"properties": b""}, {"body": bytearray(b"b")}, {"body": None}, {"queue_id": 1.0}),
        *({"flag": None}, {"born_host": b"1234"}, {"born_host": (b"1234",)}, {"born_host": ("1234", 1)}),
        *({"store_host": (b"1234", "1")}, {"store_host": (b"1234", 1 << 64)}, {"born_timestamp_ms": 1 << 63}),
    ],
)
def test_the_compiled_core_stores_no_message_with_fields_of_other_types(
    c_core: NativeCore, change: dict[str, Any]
) -> None:
    found = bytearray(1000)
    message = Message("T", b"body")
    assert c_core.store(*arguments_of(message, memoryview(found), 0, 0, 0, 0)) > 0
    found[:] = bytes(1000)
    assert c_core.store(*arguments_of(dataclasses.replace(message, **change), memoryview(found), 0, 0, 0, 0)) == 0
    assert found == bytes(1000)


def test_the_compiled_core_stores_nothing_in_read_only_or_released_pages(c_core: NativeCore) -> None:
    released = memoryview(bytearray(1000))
    released.release()
    for pages, error in ((memoryview(bytes(1000)), BufferError), (released, ValueError)):
        with pytest.raises(error):
            c_core.store(*arguments_of(Message("T"), pages, 0, 0, 0, 0))
    with pytest.raises(TypeError, match="expected 17 arguments, found 16"):
        c_core.store(*arguments_of(Message("T"), released, 0, 0, 0))
