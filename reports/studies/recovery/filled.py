"""Filled stores: creates stores with a given log size, to measure recovery."""

from dataclasses import dataclass, replace
from pathlib import Path

from ....store.config import StoreConfig
from ....store.formats.batch import BatchUnit, encode_batch
from ....store.formats.checkpoint import CheckpointValues, encode_checkpoint
from ....store.formats.message import decode_record
from ....store.formats.messages import Message, MessageBatch
from ....store.formats.properties import PROPERTY_KEYS, encode_properties
from ....store.log.checkpoint import SAFETY_MARGIN_MS
from ....store.message_store import MessageStore
from ....store.real.world import RealClock, real_world

TOPIC = "Bench"
QUEUES = 4
BATCH_MESSAGES = 32
"""Messages per batch; also the maximum number of messages per pull."""
SEGMENT_BYTES = 16 << 20
_BODY_BYTES = 1024
_BATCH_BYTES_MAX = 2 * _BODY_BYTES * BATCH_MESSAGES
_INDEX_SLOTS, _INDEX_ENTRIES = 20_000, 60_000


@dataclass(frozen=True, slots=True)
class FilledStore:
    """A store directory with messages of 1 KiB in four queues. Each message has a key."""

    directory: str
    log_bytes: int
    first_ms: tuple[int, ...]
    """Store time of each segment's first message."""

    def config(self, *, recover_whole_log: bool, index: bool) -> StoreConfig:
        return replace(_config_of(self.directory), recover_whole_log=recover_whole_log, message_index_enable=index)

    def make_clean(self) -> None:
        Path(_config_of(self.directory).abort_path).unlink(missing_ok=True)
        self._write_checkpoint(self.first_ms[-1])

    def make_crashed(self, behind_bytes: int) -> None:
        """Change the files to a state after a crash, with `behind_bytes` (whole segments) after the checkpoint."""
        Path(_config_of(self.directory).abort_path).touch()
        segments_after = -(-behind_bytes // SEGMENT_BYTES)
        trusted = len(self.first_ms) - min(segments_after, len(self.first_ms))
        assert 0 <= trusted <= len(self.first_ms), (trusted, len(self.first_ms))
        self._write_checkpoint(self.first_ms[trusted] if trusted > 0 else 0)

    def _write_checkpoint(self, trusted_ms: int) -> None:
        time_ms = trusted_ms + SAFETY_MARGIN_MS if trusted_ms else 0
        values = CheckpointValues(time_ms, time_ms, trusted_ms)
        path = Path(_config_of(self.directory).checkpoint_path)
        path.write_bytes(encode_checkpoint(values).ljust(path.stat().st_size, b"\0"))


def fill_store(directory: str, log_bytes: int) -> FilledStore:
    """Put messages into a new directory until the log has `log_bytes`, and stop the store."""
    store = MessageStore(replace(real_world(), clock=SteppingClock()), _config_of(directory))
    store.load()
    store.start()
    number = 0
    try:
        while store.max_phy_offset + _BATCH_BYTES_MAX <= log_bytes:
            store.put_messages(batch(_BODY_BYTES, number, keyed=True))
            number += 1
        end_offset = store.max_phy_offset
        first_ms = tuple(
            decode_record(bytes(segment.file.view(0, 2 * _BODY_BYTES)), 0, file="log").store_timestamp_ms
            for segment in store.log.segments
        )
    finally:
        store.shutdown()
    return FilledStore(directory, end_offset, first_ms)


def _config_of(directory: str) -> StoreConfig:
    return StoreConfig(
        directory,
        mapped_file_size_commit_log=SEGMENT_BYTES,
        max_hash_slot_num=_INDEX_SLOTS,
        max_index_num=_INDEX_ENTRIES,
    )


class SteppingClock(RealClock):
    """A wall clock that advances by 1 ms per message of a batch at each reading, so that the log spans minutes.

    Recovery trusts records up to some seconds before the checkpoint. With this clock the trusted part is as large as
    after real traffic.
    """

    def __init__(self) -> None:
        self._now_ms = super().now_ms()

    def now_ms(self) -> int:
        self._now_ms += BATCH_MESSAGES
        return self._now_ms


def message(body_bytes: int, queue_id: int = 0) -> Message:
    return Message.create(TOPIC, b"x" * body_bytes, queue_id=queue_id, tags="TagA")


def batch(body_bytes: int, number: int = 0, *, keyed: bool = False) -> MessageBatch:
    """keyed: give each message a unique key."""
    first = number * BATCH_MESSAGES
    units = [
        BatchUnit(0, b"x" * body_bytes, encode_properties({PROPERTY_KEYS: key(each)}).encode() if keyed else b"")
        for each in range(first, first + BATCH_MESSAGES)
    ]
    return MessageBatch(message(0, number % QUEUES), encode_batch(units))


def key(number: int) -> str:
    return f"order-{number}"
