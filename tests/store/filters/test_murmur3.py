import pytest

from tornlog.store.filters.bloom_filter import murmur3_64


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("hello", 0xCBD8A7B341BD9B02),
        ("hello, world", 0x342FAC623A5EBC8E),
        ("19 Jan 2038 at 3:14:07 AM", 0xB89E5988B737AFFC),
        ("The quick brown fox jumps over the lazy dog.", 0xCD99481F9EE902C9),
        ("The quick brown fox jumps over the lazy dog", 0xE34BBC7BBC071B6C),
    ],
)
def test_hashes_are_those_of_the_reference_implementation(text: str, expected: int) -> None:
    assert murmur3_64(text.encode()) == expected


def test_every_length_of_the_last_block_counts() -> None:
    assert len({murmur3_64(bytes(size)) for size in range(40)}) == 40
