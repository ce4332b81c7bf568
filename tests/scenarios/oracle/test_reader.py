"""Oracle reader: accepts the test vector of the format and rejects every broken record."""

import pytest

from tornlog.scenarios.fuzz.material import random_record
from tornlog.scenarios.fuzz.mutation import Draw
from tornlog.scenarios.oracle.reader import in_java_map_order, is_blank, valid_record_at_position
from tornlog.store.formats.properties import rebuild_properties

VECTOR = bytes.fromhex(
    "00000070daa320a73610a68600000003"
    "00000000000000000000000700000000"
    "000010000000000000000174876e8000"
    "7f0000010000c35000000174876e807b"
    "0a00000100002a9f0000000000000000"
    "000000000000000568656c6c6f025431"
    "000e544147530141024b455953016b31"
)
AT = 4096


def test_the_test_vector_record_is_read_correctly() -> None:
    whole = valid_record_at_position(VECTOR, 0, len(VECTOR), AT)

    assert whole is not None
    properties = b"TAGS\x01A\x02KEYS\x01k1"
    assert whole.record[:8] == (AT, 112, "T1", 3, 7, 0, 1_600_000_000_123, properties)
    born_host, store_host = bytes.fromhex("7f0000010000c350"), bytes.fromhex("0a00000100002a9f")
    assert whole.record.head == (0xDAA320A7, 0x3610A686, 0, 1_600_000_000_000, born_host, store_host, 0, 0)
    assert whole.body == b"hello"


@pytest.mark.parametrize(
    ("at", "patch"),
    [
        (0, "0000006f"),
        (0, "00000071"),
        (0, "80000000"),
        (4, "daa320a8"),
        (8, "3610a687"),
        (28, "0000000000001001"),
        (36, "00000010"),
        (84, "00000004"),
        (84, "7fffffff"),
        (84, "ffffffff"),
        (88, "69"),
        (93, "00"),
        (93, "ff"),
        (94, "00"),
        (94, "ff"),
        (96, "000f"),
        (96, "ffff"),
        (111, "00"),
    ],
)
def test_a_damaged_record_is_refused(at: int, patch: str) -> None:
    new = bytes.fromhex(patch)
    raw = VECTOR[:at] + new + VECTOR[at + len(new) :]

    assert valid_record_at_position(raw, 0, len(raw), AT) is None


def test_a_record_must_end_before_the_limit_and_name_its_own_offset() -> None:
    assert valid_record_at_position(VECTOR, 0, len(VECTOR) - 1, AT) is None
    assert valid_record_at_position(VECTOR, 0, len(VECTOR), AT + 1) is None
    assert valid_record_at_position(b"", 0, 0, AT) is None
    assert valid_record_at_position(b"?" + VECTOR, 1, len(VECTOR) + 1, AT) is not None


def test_a_zeroed_byte_at_the_end_of_any_sector_counts_as_torn() -> None:
    before = bytes(512 - len(VECTOR) + 5)
    raw = before + VECTOR
    end_of_sector = 511
    torn = raw[:end_of_sector] + b"\0" + raw[end_of_sector + 1 :]

    assert valid_record_at_position(raw, len(before), len(raw), AT) is not None
    assert valid_record_at_position(torn, len(before), len(raw), AT) is None


def test_every_drawn_record_is_valid() -> None:
    draw = Draw("records")
    for _ in range(300):
        raw = random_record(draw, AT, 3)
        whole = valid_record_at_position(raw, 0, len(raw), AT)
        assert whole is not None
        assert whole.record.size_bytes == len(raw)


def test_a_blank_record_is_recognised_by_its_magic() -> None:
    blank = bytes.fromhex("00000064cbd43194")

    assert is_blank(blank, 0, 8)
    assert not is_blank(blank, 0, 7)
    assert not is_blank(VECTOR, 0, 112)


@pytest.mark.parametrize(
    "properties",
    [
        {"KEYS": "m0", "TAGS": "TagA", "tier": "2", "CLUSTER": "DefaultCluster"},
        {"KEYS": "m0", "DELAY": "1", "TRAN_MSG": "true", "PGROUP": "g", "UNIQ_KEY": "m0", "CLUSTER": "c"},
    ],
)
def test_properties_in_map_order_equal_those_that_a_broker_stores(properties: dict[str, str]) -> None:
    assert in_java_map_order(properties).decode() == rebuild_properties(properties)
