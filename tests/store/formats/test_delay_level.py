import pytest

from tornlog.store.formats.consume_queue import is_ext_address, tags_code
from tornlog.store.formats.delay_level import DEFAULT_DELAY_LEVELS, SCHEDULE_TOPIC, parse_delay_levels, record_tags_code
from tornlog.store.formats.scan import ScannedRecord

STORED_MS = 1_600_000_000_123
DELAYS = parse_delay_levels(DEFAULT_DELAY_LEVELS)


def scanned_record(
    properties: bytes, *, topic: str = SCHEDULE_TOPIC, store_timestamp_ms: int = STORED_MS
) -> ScannedRecord:
    return ScannedRecord(0, 91, topic, 0, 0, 0, store_timestamp_ms, properties)


def test_there_are_eighteen_default_delay_levels_from_a_second_to_two_hours() -> None:
    assert len(DELAYS) == 18
    assert (DELAYS[1], DELAYS[5], DELAYS[18]) == (1000, 60_000, 7_200_000)


def test_delay_levels_may_use_all_four_time_units() -> None:
    assert parse_delay_levels("2s 3m 4h 999d") == {1: 2000, 2: 180_000, 3: 14_400_000, 4: 86_313_600_000}


@pytest.mark.parametrize("bad", ["5", "s", "5x", "-5s", "5 s", "1.5h", "5S", "2s\u30003s"])
def test_the_error_for_an_invalid_delay_level_names_it(bad: str) -> None:
    with pytest.raises(ValueError, match=r"delay level 2: .*" + bad.split()[0]):
        parse_delay_levels(f"1s {bad}")


@pytest.mark.parametrize(
    ("properties", "code"),
    [(b"", 0), (b"TAGS\x01", 0), (b"TAGS\x01A", 65), (b"DELAY\x013\x02TAGS\x01A", 65), (b"KEYS\x01A", 0)],
)
def test_the_tags_code_of_an_ordinary_record_is_the_hash_of_its_tag(properties: bytes, code: int) -> None:
    assert record_tags_code(scanned_record(properties, topic="T1"), DELAYS) == code


def test_a_tag_is_hashed_by_its_characters_not_its_bytes() -> None:
    assert record_tags_code(scanned_record("TAGS\x01标签".encode(), topic="T1"), DELAYS) == tags_code("标签")


@pytest.mark.parametrize(
    ("delay", "wait_ms"),
    [(b"1", 1000), (b"3", 10_000), (b"18", 7_200_000), (b"19", 7_200_000), (b"+2", 5000), ("٣".encode(), 10_000)],
)
def test_the_tags_code_of_a_delayed_record_is_its_delivery_time(delay: bytes, wait_ms: int) -> None:
    assert record_tags_code(scanned_record(b"TAGS\x01A\x02DELAY\x01" + delay), DELAYS) == STORED_MS + wait_ms


@pytest.mark.parametrize("delay", [b"0", b"-1", b"soon", b"1_0", b" 1", b"2147483648", b"9" * 6000])
def test_with_an_invalid_delay_level_the_tags_code_is_the_hash_of_the_tag(delay: bytes) -> None:
    assert record_tags_code(scanned_record(b"TAGS\x01A\x02DELAY\x01" + delay), DELAYS) == 65


def test_a_delay_level_missing_from_the_table_waits_a_second() -> None:
    assert record_tags_code(scanned_record(b"DELAY\x012"), {1: 5, 3: 7}) == STORED_MS + 1000


@pytest.mark.parametrize(("stored_ms", "code"), [(2**63 - 1, 2**63 - 1), (-(2**62), 0)])
def test_a_delivery_time_is_never_mistaken_for_an_extension_address(stored_ms: int, code: int) -> None:
    record = scanned_record(b"DELAY\x011", store_timestamp_ms=stored_ms)

    assert record_tags_code(record, DELAYS) == code
    assert not is_ext_address(code)
