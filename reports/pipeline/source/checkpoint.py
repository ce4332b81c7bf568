"""The table `checkpoint`: the store times up to which the log, the queues and the index are durable.

The table has one row; without a checkpoint file it is empty.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from ....store.errors import CorruptFileError
from ....store.formats.checkpoint import CHECKPOINT_BYTES, CheckpointValues, decode_checkpoint
from .columns import DAMAGE, Reason, RowConditions, fields_of
from .directory import StoreDirectory, StoreFile
from .source_options import SourceOptions

_TIMES = "physic_msg_timestamp_ms int64, logics_msg_timestamp_ms int64, index_msg_timestamp_ms int64"
FIELDS = (*fields_of(f"file string, {_TIMES}"), DAMAGE)


class Checkpoint:
    """The checkpoint as a table."""

    condition_columns = frozenset[str]()

    def __init__(self, options: SourceOptions) -> None:
        self.schema = pa.schema(options.chosen(FIELDS))

    def partitions(self, directory: StoreDirectory, conditions: RowConditions) -> Sequence[StoreFile]:
        found = directory.file("checkpoint")
        return [] if found is None else [found]

    def batches(
        self, directory: StoreDirectory, partition: StoreFile, conditions: RowConditions
    ) -> Iterator[pa.RecordBatch]:
        row: dict[str, object] = {"file": partition.path}
        try:
            row |= _checkpoint_values(directory, partition)._asdict()
        except CorruptFileError as error:
            row["damage"] = Reason.from_error(error)._asdict()
        yield pa.RecordBatch.from_pylist([row], self.schema)


def durable_times(directory: StoreDirectory) -> CheckpointValues | None:
    """Return the store times up to which the files are durable; None after a clean stop, because all data is durable.

    Raises CorruptFileError if the checkpoint is corrupt.
    """
    if directory.file("abort") is None:
        return None
    file = directory.file("checkpoint")
    return CheckpointValues(0, 0, 0) if file is None else _checkpoint_values(directory, file)


def _checkpoint_values(directory: StoreDirectory, file: StoreFile) -> CheckpointValues:
    return decode_checkpoint(bytes(directory.content(file)[:CHECKPOINT_BYTES]), file=file.path)
