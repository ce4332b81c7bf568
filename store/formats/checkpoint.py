"""Checkpoint file: the store times up to which data is flushed. Big-endian.

    offset  bytes  field
    0       8      physicMsgTimestamp  i64, ms  commit log
    8       8      logicsMsgTimestamp  i64, ms  consume queues
    16      8      indexMsgTimestamp   i64, ms  full index files
    24      4072   unused, zero; RocketMQ 5 keeps two offsets there

The file has no checksum and no version. A missing file counts as three zeros. Source: RocketMQ StoreCheckpoint.java.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from ..errors import CorruptFileError

CHECKPOINT_FILE_BYTES = 4096  # RocketMQ MappedFile.OS_PAGE_SIZE
CHECKPOINT_BYTES = 24
SAFETY_MARGIN_MS = 3_000  # RocketMQ StoreCheckpoint.getMinTimestamp
"""Recovery subtracts this margin, because a sync can end between records of the same ms, and clocks are imprecise."""
_LAYOUT = Struct(">qqq")
assert _LAYOUT.size == CHECKPOINT_BYTES
_FIELDS = ("physicMsgTimestamp", "logicsMsgTimestamp", "indexMsgTimestamp")


class CheckpointValues(NamedTuple):
    """Store times in ms up to which log, queues and index are flushed. 0 means unknown."""

    physic_msg_timestamp_ms: int
    logics_msg_timestamp_ms: int
    index_msg_timestamp_ms: int


def encode_checkpoint(values: CheckpointValues) -> bytes:
    return _LAYOUT.pack(*values)


def encode_checkpoint_file(values: CheckpointValues) -> bytes:
    return encode_checkpoint(values).ljust(CHECKPOINT_FILE_BYTES, b"\0")


def is_creation_interrupted(raw: bytes) -> bool:
    """Return whether the file is all zero and too short. A crash during the creation leaves such a file."""
    return len(raw) < CHECKPOINT_BYTES and not any(raw)


def decode_checkpoint(raw: bytes, *, file: str) -> CheckpointValues:
    """Decode the file. Raises CorruptFileError if the file is too short or a time is negative."""
    if len(raw) < CHECKPOINT_BYTES:
        expected = f"at least {CHECKPOINT_BYTES} bytes"
        raise CorruptFileError(file, len(raw), "size", expected, f"{len(raw)} bytes")
    values = CheckpointValues._make(_LAYOUT.unpack_from(raw))
    for number, (field, value) in enumerate(zip(_FIELDS, values, strict=True)):
        if value < 0:
            raise CorruptFileError(file, number * 8, field, "0 or more", value)
    return values


def times_beyond_log(
    values: CheckpointValues, last_store_timestamp_ms: int, *, unclean_exit: bool, file: str
) -> Iterator[CorruptFileError]:
    """Yield an error for each time that is later than the last record's store time.

    After an unclean exit, only the time that recovery uses is checked.
    """
    expected = f"at most {last_store_timestamp_ms}, the last record's store time"
    if unclean_exit:
        durable_ms = min(values[:2])
        if durable_ms - SAFETY_MARGIN_MS > last_store_timestamp_ms:
            yield CorruptFileError(file, 0, _FIELDS[0], expected, durable_ms)
        return
    for number, (field, time_ms) in enumerate(zip(_FIELDS, values, strict=True)):
        if time_ms > last_store_timestamp_ms:
            yield CorruptFileError(file, number * 8, field, expected, time_ms)
