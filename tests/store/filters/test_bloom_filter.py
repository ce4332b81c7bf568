import pytest

from tornlog.store.services.consumer_filter import BloomFilter, has_bits, murmur3_64, set_bits


def test_the_default_bloom_filter_has_the_size_of_rocketmq_for_20_percent_and_32_consumers() -> None:
    assert BloomFilter.for_error_rate() == BloomFilter(112, 3)
    assert BloomFilter.for_error_rate().map_bytes == 14
    assert BloomFilter.for_error_rate(20, 64) == BloomFilter(216, 3)
    assert BloomFilter.for_error_rate(1, 1) == BloomFilter(16, 7)


def test_bloom_filter_positions_combine_both_halves_of_the_hash() -> None:
    # murmur3 of "hello" begins with cbd8a7b3 41bd9b02: 0x41bd9b02 + i * 0xcbd8a7b3, in 32 bits, flipped if negative
    expected = []
    for number in (1, 2, 3):
        value = (0x41BD9B02 + number * 0xCBD8A7B3) % 2**32
        expected.append((value if value < 2**31 else 2**32 - 1 - value) % 112)

    assert BloomFilter.for_error_rate().bit_positions("hello") == tuple(expected)


def test_bit_positions_count_from_the_lowest_bit_of_the_first_byte() -> None:
    bits = bytearray(2)
    set_bits(bits, (0, 9, 15))

    assert bits == b"\x01\x82"
    assert has_bits(bytes(bits), (0, 15))
    assert not has_bits(bytes(bits), (0, 1))


def test_a_bloom_filter_contains_added_texts_and_few_others() -> None:
    bloom = BloomFilter.for_error_rate()
    bits = bytearray(bloom.map_bytes)
    for number in range(32):
        set_bits(bits, bloom.bit_positions(f"group-{number}#T"))

    assert all(has_bits(bytes(bits), bloom.bit_positions(f"group-{number}#T")) for number in range(32))
    mistaken = sum(has_bits(bytes(bits), bloom.bit_positions(f"other-{number}#T")) for number in range(1000))
    assert 100 < mistaken < 300


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
def test_murmur3_hashes_equal_those_of_the_reference_implementation(text: str, expected: int) -> None:
    assert murmur3_64(text.encode()) == expected


def test_murmur3_hashes_differ_for_every_length_of_the_last_block() -> None:
    assert len({murmur3_64(bytes(size)) for size in range(40)}) == 40
