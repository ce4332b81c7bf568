"""Replication stream: reports and frames."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.replication import (
    FrameHeader,
    FrameReader,
    decode_frame_header,
    decode_report,
    encode_frame_header,
    encode_report,
)


def test_a_slave_report_is_one_big_endian_long() -> None:
    assert encode_report(0x0102030405060708).hex() == "0102030405060708"
    assert decode_report(bytes.fromhex("0000000000001000"), stream="s", position=0) == 4096


def test_a_transfer_header_is_a_long_and_an_int() -> None:
    assert encode_frame_header(4096, 100).hex() == "000000000000100000000064"


def test_a_transfer_header_survives_encoding_and_decoding() -> None:
    raw = encode_frame_header(5000, 3192)

    assert decode_frame_header(raw, 8192, stream="s", position=0) == FrameHeader(5000, 3192)


def test_the_error_for_a_negative_slave_report_names_its_position() -> None:
    with pytest.raises(CorruptFileError, match=r"reports @ 16: slave_offset: expected 0 or more, found -1"):
        decode_report(b"\xff" * 8, stream="reports", position=16)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (encode_frame_header(0, 8193), r"s @ 18: size_bytes: expected 0 to 8192, found 8193"),
        (encode_frame_header(8000, 200), r"s @ 18: size_bytes: expected 0 to 192, found 200"),
        (b"\0" * 8 + b"\xff" * 4, r"s @ 18: size_bytes: expected 0 to 8192, found -1"),
        (b"\xff" * 8 + b"\0" * 4, r"s @ 10: log_offset: expected 0 or more, found -1"),
    ],
)
def test_the_error_for_an_invalid_transfer_header_names_its_position(raw: bytes, message: str) -> None:
    with pytest.raises(CorruptFileError, match=message):
        decode_frame_header(raw, 8192, stream="s", position=10)


SEGMENT_BYTES = 1024


def pieces_of(stream: bytes, cuts: list[int]) -> list[tuple[int, bytes]]:
    """Return the pieces that a reader yields for a stream split at some places."""
    reader, found, at = FrameReader(SEGMENT_BYTES, "s"), [], 0
    for cut in [*sorted(cuts), len(stream)]:
        found += [(piece.log_offset, bytes(piece.data)) for piece in reader.feed(stream[at:cut])]
        at = max(cut, at)
    return found


@given(st.lists(st.integers(0, 80), max_size=12))
def test_transferred_log_bytes_keep_their_offsets_for_any_split_of_the_stream(cuts: list[int]) -> None:
    stream = (
        encode_frame_header(1000, 24) + b"a" * 24 + encode_frame_header(1024, 0)
        + encode_frame_header(1024, 20) + b"b" * 20
    )  # fmt: skip
    found = pieces_of(stream, cuts)
    log = {at + number: data[number] for at, data in found for number in range(len(data))}

    assert bytes(log[at] for at in range(1000, 1044)) == b"a" * 24 + b"b" * 20
    assert [at for at, data in found if not data] == [1024]


def test_a_too_long_transfer_frame_is_refused_before_it_is_buffered() -> None:
    reader = FrameReader(SEGMENT_BYTES, "log from m")
    good = encode_frame_header(0, 4) + b"good"

    with pytest.raises(CorruptFileError, match=r"log from m @ 24: size_bytes: expected 0 to 1024, found 2147483647"):
        list(reader.feed(good + encode_frame_header(0, 0x7FFFFFFF)))
