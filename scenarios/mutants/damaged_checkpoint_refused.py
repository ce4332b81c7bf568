"""A checkpoint that is none keeps the store from opening, though all that it says can be had from the log.

Found in this store: a time below zero, or a file shorter than three times.
"""

from dataclasses import replace

from ...store.formats.checkpoint import CHECKPOINT_FILE_BYTES
from ...store.log.checkpoint import StoreCheckpoint, read_checkpoint
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _load(self: StoreCheckpoint) -> None:
    values = read_checkpoint(self._world.files, self._path)
    self.physic_msg_timestamp_ms = values.physic_msg_timestamp_ms
    self.logics_msg_timestamp_ms = values.logics_msg_timestamp_ms
    self.index_msg_timestamp_ms = values.index_msg_timestamp_ms
    self._file = self._world.files.map(self._path, CHECKPOINT_FILE_BYTES)
    self.vouched_timestamp_ms = self.recovery_timestamp_ms


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, endings=("stop and strays",))


MUTANT = Mutant(
    "damaged-checkpoint-refused",
    "checkpoint",
    "a checkpoint that is negative or cut short is refused, though nothing that it says is needed",
    (Patch(StoreCheckpoint, "load", _load),),
    _narrow,
    ("START",),
)
