"""Taking a master's stream apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.replication import FrameReader, encode_frame_header

SEGMENT_BYTES = 1024


def pieces_of(stream: bytes, cuts: list[int]) -> list[tuple[int, bytes]]:
    """Return what a reader makes of a stream that comes cut at some places."""
    reader, found, at = FrameReader(SEGMENT_BYTES, "s"), [], 0
    for cut in [*sorted(cuts), len(stream)]:
        found += [(piece.log_offset, bytes(piece.data)) for piece in reader.feed(stream[at:cut])]
        at = max(cut, at)
    return found


@given(st.lists(st.integers(0, 80), max_size=12))
def test_however_a_stream_is_cut_its_bytes_keep_their_places(cuts: list[int]) -> None:
    stream = (
        encode_frame_header(1000, 24) + b"a" * 24 + encode_frame_header(1024, 0)
        + encode_frame_header(1024, 20) + b"b" * 20
    )  # fmt: skip
    found = pieces_of(stream, cuts)
    log = {at + number: data[number] for at, data in found for number in range(len(data))}

    assert bytes(log[at] for at in range(1000, 1044)) == b"a" * 24 + b"b" * 20
    assert [at for at, data in found if not data] == [1024]


def test_nothing_is_passed_on_of_a_header_that_is_not_whole() -> None:
    assert pieces_of(encode_frame_header(0, 100)[:11], []) == []


def test_an_oversized_frame_is_refused_before_anything_of_it_is_kept() -> None:
    reader = FrameReader(SEGMENT_BYTES, "log from m")
    good = encode_frame_header(0, 4) + b"good"

    with pytest.raises(
        CorruptFileError, match=r"log from m @ 24: size_bytes: expected 0 to 1024, found 2147483647"
    ):
        list(reader.feed(good + encode_frame_header(0, 0x7FFFFFFF)))
