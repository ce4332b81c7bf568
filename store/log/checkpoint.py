"""Checkpoint: stores the store times up to which data is durable.

RocketMQ's StoreCheckpoint. Recovery starts its scan at the newest segment that begins with a record older than both
the log time and the queue time. A time in the checkpoint may be too early but never too late: it advances only after a
sync of the data and file names that it covers.
"""

from ..errors import CorruptFileError
from ..formats.checkpoint import (
    CHECKPOINT_FILE_BYTES,
    CheckpointValues,
    decode_checkpoint,
    encode_checkpoint,
    is_creation_interrupted,
)
from ..formats.checkpoint import SAFETY_MARGIN_MS as SAFETY_MARGIN_MS
from ..marks import count_mark, is_forced
from ..world import Files, MappedFile, World


class StoreCheckpoint:
    """The checkpoint file, and the values for the next `flush`.

    Invariant: the times of log and queues decrease only when recovery rebuilds queues or truncates the log. Only `load`
    changes trusted_timestamp_ms and trusted_log_timestamp_ms.
    """

    def __init__(self, world: World, path: str) -> None:
        self._world = world
        self._path = path
        self._lock = world.tasks.lock("checkpoint")
        self._file: MappedFile | None = None
        self._is_durable = False
        """Whether this process has synced the file. An earlier one may have died before its sync."""
        self.physic_msg_timestamp_ms = 0
        """The log is durable up to this store time."""
        self.logics_msg_timestamp_ms = 0
        """Consume queues are durable up to this store time."""
        self.index_msg_timestamp_ms = 0
        """Full index files are durable up to this store time."""
        self.trusted_timestamp_ms = 0
        """Value of recovery_timestamp_ms when `load` read the file."""
        self.trusted_log_timestamp_ms = 0
        """Store time up to which the log was durable when `load` read the file, minus SAFETY_MARGIN_MS."""

    def load(self) -> CorruptFileError | None:
        """Read the file. Returns an error if the file is corrupt. A missing, empty or incomplete file counts as zeros.

        A corrupt file is overwritten with zeros, so recovery scans more of the log.
        """
        assert self._file is None, "load once"
        damage = None
        is_believed = not is_forced("checkpoint not believed")
        try:
            values = read_checkpoint(self._world.files, self._path)
        except CorruptFileError as error:
            is_believed, damage = False, error
        if not is_believed:
            count_mark("checkpoint not believed")
            values = CheckpointValues(0, 0, 0)
        self.physic_msg_timestamp_ms, self.logics_msg_timestamp_ms, self.index_msg_timestamp_ms = values
        self._file = self._world.files.map(self._path, CHECKPOINT_FILE_BYTES)
        if not is_believed:
            self.flush()  # otherwise the old times on the disk would also cover new files
        self.trusted_timestamp_ms = self.recovery_timestamp_ms
        self.trusted_log_timestamp_ms = trusted_timestamp_ms(self.physic_msg_timestamp_ms)
        return damage

    @property
    def values(self) -> CheckpointValues:
        return CheckpointValues(self.physic_msg_timestamp_ms, self.logics_msg_timestamp_ms, self.index_msg_timestamp_ms)

    @property
    def recovery_timestamp_ms(self) -> int:
        """Store time up to which log and queues are durable, minus SAFETY_MARGIN_MS."""
        return trusted_timestamp_ms(self.physic_msg_timestamp_ms, self.logics_msg_timestamp_ms)

    @property
    def has_queue_time(self) -> bool:
        """Return False if the checkpoint has no queue time, as after `reset_queue_time`."""
        return self.logics_msg_timestamp_ms > 0

    def advance_log_time(self, store_timestamp_ms: int) -> None:
        self.physic_msg_timestamp_ms = max(self.physic_msg_timestamp_ms, store_timestamp_ms)

    def advance_queue_time(self, store_timestamp_ms: int) -> None:
        self.logics_msg_timestamp_ms = max(self.logics_msg_timestamp_ms, store_timestamp_ms)

    def advance_index_time(self, store_timestamp_ms: int) -> bool:
        is_new = store_timestamp_ms > self.index_msg_timestamp_ms
        if is_new:
            self.index_msg_timestamp_ms = store_timestamp_ms
        return is_new

    def reset_queue_time(self) -> None:
        """Durably reset the queue time to 0. Call this before queue entries are removed."""
        if self.logics_msg_timestamp_ms > 0 or not self._is_durable:
            self.logics_msg_timestamp_ms = 0
            self.flush()

    def limit_to_log_end(self, store_timestamp_ms: int) -> None:
        """Durably lower the times to the store time of the last record in the log.

        Later times belong to truncated records. If the clock was set back, new records have earlier times.
        """
        latest_ms = max(self.physic_msg_timestamp_ms, self.logics_msg_timestamp_ms)
        if latest_ms > store_timestamp_ms or not self._is_durable:
            self.physic_msg_timestamp_ms = min(self.physic_msg_timestamp_ms, store_timestamp_ms)
            self.logics_msg_timestamp_ms = min(self.logics_msg_timestamp_ms, store_timestamp_ms)
            self.flush()

    def limit_index_time(self, store_timestamp_ms: int) -> None:
        """Durably lower the index time to store_timestamp_ms. Index files with later messages may not be durable."""
        if self.index_msg_timestamp_ms > store_timestamp_ms or not self._is_durable:
            self.index_msg_timestamp_ms = min(self.index_msg_timestamp_ms, store_timestamp_ms)
            self.flush()

    def flush(self) -> None:
        """Write the values. The write is atomic, because all values are in one sector."""
        assert self._file is not None, "load first"
        with self._lock:
            self._file.store(0, encode_checkpoint(self.values))
            self._file.msync(0, CHECKPOINT_FILE_BYTES)
            self._is_durable = True

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def trusted_timestamp_ms(*times_ms: int) -> int:
    # With messageIndexSafe, RocketMQ's recovery also uses the index time. Tornlog recovers the index separately.
    return max(0, min(times_ms) - SAFETY_MARGIN_MS)


def read_checkpoint(files: Files, path: str) -> CheckpointValues:
    """Read the checkpoint file. Returns zeros if the file is missing or a crash interrupted its creation.

    Ignores bytes after the regular file length.
    """
    status = files.status(path)
    if status is None or status.size_bytes == 0:
        return CheckpointValues(0, 0, 0)
    if status.size_bytes > CHECKPOINT_FILE_BYTES:
        raw = bytes(files.map(path, CHECKPOINT_FILE_BYTES).view(0, CHECKPOINT_FILE_BYTES))
    else:
        raw = files.read(path)
    return CheckpointValues(0, 0, 0) if is_creation_interrupted(raw) else decode_checkpoint(raw, file=path)
