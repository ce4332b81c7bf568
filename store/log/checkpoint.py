"""Checkpoint: up to which store time data is known to be durable. RocketMQ's StoreCheckpoint, kept conservative.

Recovery starts its scan at the newest segment whose first record is older than the smaller of the two times, so each
time may lag behind the truth and must never lead it. It is moved only after the sync it stands for, names included.
"""

from ..errors import CorruptFileError
from ..formats.checkpoint import (
    CHECKPOINT_FILE_BYTES,
    CheckpointValues,
    decode_checkpoint,
    encode_checkpoint,
    is_unborn,
)
from ..formats.checkpoint import SAFETY_MARGIN_MS as SAFETY_MARGIN_MS
from ..marks import forces, hit
from ..world import Files, MappedFile, World


class StoreCheckpoint:
    """The checkpoint file and the values it will hold after the next `flush`.

    Invariant: the times of log and queues never fall, but when queues begin again; vouched_timestamp_ms is of a load.
    """

    def __init__(self, world: World, path: str) -> None:
        self._world = world
        self._path = path
        self._lock = world.tasks.lock("checkpoint")
        self._file: MappedFile | None = None
        self.physic_msg_timestamp_ms = 0
        """Store time up to which the log is durable."""
        self.logics_msg_timestamp_ms = 0
        """Store time up to which every consume queue is durable."""
        self.index_msg_timestamp_ms = 0
        """Store time up to which full index files are durable."""
        self.vouched_timestamp_ms = 0
        """Store time up to which log and queues were durable when the file was read, less the margin."""

    def load(self) -> CorruptFileError | None:
        """Read the file; a missing or unborn one means that nothing is known. Return what is wrong with it.

        What it says can be had without it, at the price of a longer scan: a damaged one is written anew, with zeros.
        """
        assert self._file is None, "load once"
        damage = None
        is_believed = not forces("checkpoint not believed")
        try:
            values = read_checkpoint(self._world.files, self._path)
        except CorruptFileError as error:
            is_believed, damage = False, error
        if not is_believed:
            hit("checkpoint not believed")
            values = CheckpointValues(0, 0, 0)
        self.physic_msg_timestamp_ms, self.logics_msg_timestamp_ms, self.index_msg_timestamp_ms = values
        self._file = self._world.files.map(self._path, CHECKPOINT_FILE_BYTES)
        if not is_believed:
            self.flush()  # times on disk that are later than those in memory would vouch for files made from now on
        self.vouched_timestamp_ms = self.recovery_timestamp_ms
        return damage

    @property
    def values(self) -> CheckpointValues:
        """Return the three times, in ms."""
        return CheckpointValues(self.physic_msg_timestamp_ms, self.logics_msg_timestamp_ms, self.index_msg_timestamp_ms)

    @property
    def recovery_timestamp_ms(self) -> int:
        """Return the store time up to which both log and queues are durable, less the margin."""
        return vouched_timestamp_ms(self.physic_msg_timestamp_ms, self.logics_msg_timestamp_ms)

    @property
    def knows_queues(self) -> bool:
        """Return whether anything is known of the queues; not once they begin again, nor without a checkpoint."""
        return self.logics_msg_timestamp_ms > 0

    def log_is_durable_to(self, store_timestamp_ms: int) -> None:
        """Note that every record up to this store time is durable."""
        self.physic_msg_timestamp_ms = max(self.physic_msg_timestamp_ms, store_timestamp_ms)

    def queues_are_durable_to(self, store_timestamp_ms: int) -> None:
        """Note that every queue entry of records up to this store time is durable."""
        self.logics_msg_timestamp_ms = max(self.logics_msg_timestamp_ms, store_timestamp_ms)

    def index_is_durable_to(self, store_timestamp_ms: int) -> bool:
        """Note that every full index file that ends no later than this store time is durable; False if that is old."""
        is_new = store_timestamp_ms > self.index_msg_timestamp_ms
        if is_new:
            self.index_msg_timestamp_ms = store_timestamp_ms
        return is_new

    def queues_begin_again(self) -> None:
        """Note, durably, that nothing is known of the queues any more: some of their entries are about to go."""
        if self.logics_msg_timestamp_ms > 0:
            self.logics_msg_timestamp_ms = 0
            self.flush()

    def log_ends_at(self, store_timestamp_ms: int) -> None:
        """Note, durably, the time of the log's last record: those to come, after a clock step, may have earlier ones.

        Later times were those of records that are not there any more.
        """
        if max(self.physic_msg_timestamp_ms, self.logics_msg_timestamp_ms) > store_timestamp_ms:
            self.physic_msg_timestamp_ms = min(self.physic_msg_timestamp_ms, store_timestamp_ms)
            self.logics_msg_timestamp_ms = min(self.logics_msg_timestamp_ms, store_timestamp_ms)
            self.flush()

    def index_begins_again_at(self, store_timestamp_ms: int) -> None:
        """Note, durably, that no index file that ends later than this store time is known to be durable."""
        if self.index_msg_timestamp_ms > store_timestamp_ms:
            self.index_msg_timestamp_ms = store_timestamp_ms
            self.flush()

    def flush(self) -> None:
        """Write the values, in one piece smaller than a sector, and make them durable."""
        assert self._file is not None, "load first"
        with self._lock:
            self._file.store(0, encode_checkpoint(self.values))
            self._file.msync(0, CHECKPOINT_FILE_BYTES)

    def close(self) -> None:
        """Give the mapping back."""
        if self._file is not None:
            self._file.close()
            self._file = None


def vouched_timestamp_ms(physic_ms: int, logics_ms: int) -> int:
    """Return the store time up to which log and queues are durable, by a checkpoint's times, less the margin."""
    # The index time does not count, unlike in RocketMQ with messageIndexSafe: the index has a recovery of its own.
    return max(0, min(physic_ms, logics_ms) - SAFETY_MARGIN_MS)


def read_checkpoint(files: Files, path: str) -> CheckpointValues:
    """Return what a checkpoint file says; zeros if there is none, or a crash has cut its making short.

    What is behind the file's own length means nothing, and is not read.
    """
    status = files.status(path)
    if status is None or status.size_bytes == 0:
        return CheckpointValues(0, 0, 0)
    if status.size_bytes > CHECKPOINT_FILE_BYTES:
        raw = bytes(files.map(path, CHECKPOINT_FILE_BYTES).view(0, CHECKPOINT_FILE_BYTES))
    else:
        raw = files.read(path)
    return CheckpointValues(0, 0, 0) if is_unborn(raw) else decode_checkpoint(raw, file=path)
