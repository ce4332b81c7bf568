"""A store directory with a log of some size, as a stopped store leaves it, and as a crash would leave it."""

from dataclasses import dataclass, replace
from pathlib import Path

from ....store.config import StoreConfig
from ....store.formats.checkpoint import CheckpointValues, encode_checkpoint
from ....store.formats.message import decode_record
from ....store.log.checkpoint import SAFETY_MARGIN_MS
from ....store.message_store import MessageStore
from ....store.real.world import real_world
from ...bench.messages import BATCH_MESSAGES, batch
from ...bench.workplace import SteppingClock

SEGMENT_BYTES = 16 << 20
_BODY_BYTES = 1024
_BATCH_BYTES_MAX = 2 * _BODY_BYTES * BATCH_MESSAGES
_INDEX_SLOTS, _INDEX_ENTRIES = 20_000, 60_000


@dataclass(frozen=True, slots=True)
class FilledStore:
    """A directory with messages of 1 KiB, each with a key, in four queues."""

    directory: str
    log_bytes: int
    first_ms: tuple[int, ...]
    """The store time of each segment's first message."""

    def config(self, *, recover_whole_log: bool, index: bool) -> StoreConfig:
        """Return the settings to recover it with."""
        return replace(
            _config(self.directory), recover_whole_log=recover_whole_log, message_index_enable=index
        )

    def leave_clean(self) -> None:
        """Let it be as after a clean exit."""
        Path(_config(self.directory).abort_path).unlink(missing_ok=True)
        self._write_checkpoint(self.first_ms[-1])

    def leave_crashed(self, behind_bytes: int) -> None:
        """Let it be as after a crash, with so much of the log, in whole segments, behind the checkpoint."""
        Path(_config(self.directory).abort_path).touch()
        behind = -(-behind_bytes // SEGMENT_BYTES)
        trusted = len(self.first_ms) - min(behind, len(self.first_ms))
        self._write_checkpoint(self.first_ms[trusted] if trusted > 0 else 0)

    def _write_checkpoint(self, vouched_ms: int) -> None:
        """Let log, queues and full index files be vouched for up to a store time."""
        time_ms = vouched_ms + SAFETY_MARGIN_MS if vouched_ms else 0
        values = CheckpointValues(time_ms, time_ms, vouched_ms)
        path = Path(_config(self.directory).checkpoint_path)
        path.write_bytes(encode_checkpoint(values).ljust(path.stat().st_size, b"\0"))


def fill(directory: str, log_bytes: int) -> FilledStore:
    """Put messages into a new directory while its log has room for more within log_bytes, and stop."""
    store = MessageStore(replace(real_world(), clock=SteppingClock()), _config(directory))
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


def _config(directory: str) -> StoreConfig:
    return StoreConfig(
        directory,
        mapped_file_size_commit_log=SEGMENT_BYTES,
        max_hash_slot_num=_INDEX_SLOTS,
        max_index_num=_INDEX_ENTRIES,
    )
