import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.checkpoint import (
    CHECKPOINT_FILE_BYTES,
    CheckpointValues,
    decode_checkpoint,
    encode_checkpoint,
)

TIMES = st.integers(0, 2**63 - 1)


def test_a_checkpoint_file_begins_with_three_big_endian_times() -> None:
    assert encode_checkpoint(CheckpointValues(1, 2, 3)).hex() == "0" * 15 + "1" + "0" * 15 + "2" + "0" * 15 + "3"


@pytest.mark.parametrize("size_bytes", [0, 10, 23])
def test_a_too_short_checkpoint_file_is_corrupt(size_bytes: int) -> None:
    with pytest.raises(CorruptFileError, match=f"at least 24 bytes, found {size_bytes} bytes"):
        decode_checkpoint(bytes(size_bytes), file="checkpoint")


@pytest.mark.parametrize(
    ("number", "field"), list(enumerate(["physicMsgTimestamp", "logicsMsgTimestamp", "indexMsgTimestamp"]))
)
def test_a_negative_checkpoint_time_is_corrupt(number: int, field: str) -> None:
    raw = bytearray(24)
    raw[number * 8] = 0xFF
    with pytest.raises(CorruptFileError) as caught:
        decode_checkpoint(bytes(raw), file="checkpoint")

    assert (caught.value.field, caught.value.offset) == (field, number * 8)


@settings(max_examples=50)
@given(st.builds(CheckpointValues, TIMES, TIMES, TIMES))
def test_every_checkpoint_survives_encoding_and_decoding(values: CheckpointValues) -> None:
    raw = encode_checkpoint(values).ljust(CHECKPOINT_FILE_BYTES, b"\0")

    assert decode_checkpoint(raw, file="checkpoint") == values
