import pytest

from tornlog.store.errors import FilterExpressionError
from tornlog.store.filters.sql_filter import SqlExpression
from tornlog.store.formats.consume_queue import ExtUnit
from tornlog.store.formats.host import Host
from tornlog.store.formats.message import encode_record
from tornlog.store.services.consumer_filter import (
    FORGOTTEN_AFTER_MS,
    BloomFilter,
    ConsumerFilterData,
    ConsumerFilterManager,
    SqlMessageFilter,
    set_bits,
)


def test_a_registered_consumer_has_the_bloom_filter_bits_of_its_topic_and_group(
    consumers: ConsumerFilterManager, times: list[int]
) -> None:
    data = consumers.register("T", "g", "a > 1")

    assert data.positions == BloomFilter.for_error_rate().bit_positions("g#T")
    assert (data.map_bytes, data.born_timestamp_ms, data.dead_timestamp_ms) == (14, 1_000, None)
    assert consumers.filters_of_topic("T") == (data,)
    assert consumers.find("T", "g") is data
    assert consumers.find("T", "h") is consumers.find("U", "g") is None
    assert consumers.register("T", "h", "a > 2") in consumers.filters_of_topic("T")


def test_an_invalid_filter_expression_is_not_registered(consumers: ConsumerFilterManager, times: list[int]) -> None:
    data = consumers.register("T", "g", "a > 1")
    with pytest.raises(FilterExpressionError):
        consumers.register("T", "g", "a >", 1)

    assert consumers.filters_of_topic("T") == (data,)


def test_a_newer_filter_expression_replaces_the_old_one(consumers: ConsumerFilterManager, times: list[int]) -> None:
    old = consumers.register("T", "g", "a > 1", 1)
    times.append(2_000)
    new = consumers.register("T", "g", "a > 2", 2)

    assert consumers.filters_of_topic("T") == (new,)
    assert new.born_timestamp_ms == 2_000
    assert old.born_timestamp_ms > 1 << 60


@pytest.mark.parametrize(("expression", "version"), [("a > 1", 2), ("a > 1", 1), ("a > 2", 1), ("a > 2", 0)])
def test_an_equal_or_older_filter_expression_is_ignored(
    consumers: ConsumerFilterManager, times: list[int], expression: str, version: int
) -> None:
    data = consumers.register("T", "g", "a > 1", 1)
    times.append(2_000)

    assert consumers.register("T", "g", expression, version) is data
    assert data.born_timestamp_ms == 1_000
    assert data.client_version == max(version, 1)


def test_an_unregistered_consumer_is_forgotten_only_after_a_long_time(
    consumers: ConsumerFilterManager, times: list[int]
) -> None:
    back, gone = consumers.register("T", "back", "a > 1"), consumers.register("T", "gone", "a > 1")
    consumers.unregister("back")
    consumers.unregister("gone")
    consumers.unregister("unknown")
    assert back.dead_timestamp_ms == gone.dead_timestamp_ms == 1_000
    times.append(2_000)
    consumers.unregister("gone")
    assert gone.dead_timestamp_ms == 1_000
    assert consumers.filters_of_topic("T") == (
        back,
        gone,
    )  # dispatch must still set the bits, because the group may return

    assert consumers.register("T", "back", "a > 1") is back
    assert back.dead_timestamp_ms is None
    times.append(1_000 + FORGOTTEN_AFTER_MS)
    consumers.register("U", "other", "a > 1")
    assert consumers.filters_of_topic("T") == (back,)


BLOOM = BloomFilter.for_error_rate()
BORN_MS = 1_000


def consumer() -> ConsumerFilterData:
    positions = BLOOM.bit_positions("g#T")
    return ConsumerFilterData("T", "g", SqlExpression.parse("a > 1"), 0, positions, BLOOM.map_bytes, BORN_MS)


def unit(stored_ms: int, *texts: str, map_bytes: int = BLOOM.map_bytes) -> ExtUnit:
    bits = bytearray(BLOOM.map_bytes)
    for text in texts:
        set_bits(bits, BLOOM.bit_positions(text))
    return ExtUnit(0, stored_ms, bytes(bits[:map_bytes]))


def record(properties: bytes) -> bytes:
    host = Host(b"\x7f\0\0\1", 1)
    return bytes(
        encode_record(
            topic=b"T",
            properties=properties,
            body=b"body",
            queue_id=0,
            flag=0,
            sys_flag=0,
            born_timestamp_ms=0,
            born_host=host,
            store_timestamp_ms=0,
            store_host=host,
        )
    )


def test_a_bit_map_without_the_bits_of_a_consumer_excludes_the_message() -> None:
    wanted = SqlMessageFilter.of_consumer(consumer())

    assert wanted.reads_records
    assert wanted.matches_queue(0, unit(BORN_MS + 1, "g#T", "h#T"))
    assert not wanted.matches_queue(0, unit(BORN_MS + 1))
    assert not wanted.matches_queue(0, unit(BORN_MS + 1, "h#T"))


def test_an_old_missing_or_differently_sized_bit_map_is_ignored() -> None:
    wanted = SqlMessageFilter.of_consumer(consumer())

    assert wanted.matches_queue(0, unit(BORN_MS))
    assert wanted.matches_queue(0, unit(BORN_MS + 1, map_bytes=0))
    assert wanted.matches_queue(0, unit(BORN_MS + 1, map_bytes=8))
    assert wanted.matches_queue(0, None)
    assert wanted.matches_queue(None, None)


def test_an_unregistered_filter_expression_is_evaluated_on_every_record() -> None:
    wanted = SqlMessageFilter.parse("a > 1")

    assert wanted.matches_queue(0, unit(BORN_MS + 1))
    assert wanted.matches_record(record(b"b\x01x\x02a\x012"))
    assert not wanted.matches_record(record(b"a\x011"))
    assert not wanted.matches_record(record(b""))
    assert SqlMessageFilter.parse("a = '\ufffd'").matches_record(record(b"a\x01\xff"))


def test_an_unreadable_record_has_no_properties_for_filters() -> None:
    raw = record(b"a\x012")

    assert not SqlMessageFilter.parse("a > 1").matches_record(raw[:-3])
    assert SqlMessageFilter.parse("a IS NULL").matches_record(raw[:-3])
