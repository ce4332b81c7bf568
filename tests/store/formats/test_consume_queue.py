import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tornlog.store.formats.consume_queue import (
    BLANK_ENTRY,
    BLANK_ENTRY_BYTES,
    ENTRY_BYTES,
    QueueEntry,
    decode_entry,
    encode_entry,
    is_blank,
    is_valid,
    tags_code,
)

I64 = st.integers(-(2**63), 2**63 - 1)


def test_the_entry_of_the_specification_comes_out_byte_for_byte() -> None:
    assert encode_entry(4096, 112, tags_code("A")).hex() == "0000000000001000000000700000000000000041"


def test_a_tags_code_is_sign_extended() -> None:
    assert encode_entry(0, 91, tags_code("polygenelubricants"))[12:].hex() == "ffffffff80000000"


def test_no_tag_has_the_code_zero() -> None:
    assert tags_code("") == 0


def test_the_blank_entry_is_known_by_its_bytes() -> None:
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
def test_an_entry_is_valid_if_it_can_point_at_a_record(entry: QueueEntry, valid: bool) -> None:
    assert is_valid(entry) is valid


@settings(max_examples=50, deadline=None)
@given(st.lists(st.builds(QueueEntry, I64, st.integers(-(2**31), 2**31 - 1), I64), max_size=4))
def test_every_entry_survives_encoding_and_decoding(entries: list[QueueEntry]) -> None:
    raw = memoryview(b"".join(encode_entry(*entry) for entry in entries))

    assert [decode_entry(raw, at) for at in range(0, len(raw), ENTRY_BYTES)] == entries
