from tornlog.store.filters.bloom_filter import BloomFilter, set_bits
from tornlog.store.filters.consumer_filter import ConsumerFilterData, SqlMessageFilter
from tornlog.store.filters.sql_filter import SqlExpression
from tornlog.store.formats.consume_queue import ExtUnit
from tornlog.store.formats.host import Host
from tornlog.store.formats.message import encode_record

BLOOM = BloomFilter.of()
BORN_MS = 1_000


def consumer() -> ConsumerFilterData:
    positions = BLOOM.positions("g#T")
    return ConsumerFilterData("T", "g", SqlExpression.parse("a > 1"), 0, positions, BLOOM.map_bytes, BORN_MS)


def unit(stored_ms: int, *texts: str, map_bytes: int = BLOOM.map_bytes) -> ExtUnit:
    bits = bytearray(BLOOM.map_bytes)
    for text in texts:
        set_bits(bits, BLOOM.positions(text))
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


def test_a_map_without_the_consumers_bits_rules_a_message_out() -> None:
    wanted = SqlMessageFilter.of_consumer(consumer())

    assert wanted.reads_records
    assert wanted.matches_queue(0, unit(BORN_MS + 1, "g#T", "h#T"))
    assert not wanted.matches_queue(0, unit(BORN_MS + 1))
    assert not wanted.matches_queue(0, unit(BORN_MS + 1, "h#T"))


def test_a_map_that_is_older_or_of_another_length_or_missing_says_nothing() -> None:
    wanted = SqlMessageFilter.of_consumer(consumer())

    assert wanted.matches_queue(0, unit(BORN_MS))
    assert wanted.matches_queue(0, unit(BORN_MS + 1, map_bytes=0))
    assert wanted.matches_queue(0, unit(BORN_MS + 1, map_bytes=8))
    assert wanted.matches_queue(0, None)
    assert wanted.matches_queue(None, None)


def test_an_expression_that_nobody_has_registered_is_evaluated_on_every_record() -> None:
    wanted = SqlMessageFilter.parse("a > 1")

    assert wanted.matches_queue(0, unit(BORN_MS + 1))
    assert wanted.matches_record(record(b"b\x01x\x02a\x012"))
    assert not wanted.matches_record(record(b"a\x011"))
    assert not wanted.matches_record(record(b""))
    assert SqlMessageFilter.parse("a = '\ufffd'").matches_record(record(b"a\x01\xff"))


def test_a_record_that_cannot_be_read_has_no_properties() -> None:
    raw = record(b"a\x012")

    assert not SqlMessageFilter.parse("a > 1").matches_record(raw[:-3])
    assert SqlMessageFilter.parse("a IS NULL").matches_record(raw[:-3])
