"""What 4.9.8 takes for granted between its pool's buffers and the file."""

from .....store.log.transient_pool import BufferedSegment
from ....claims.ranges import Ranges
from ...mutant import Mutant, Patch


def _readable_store_timestamp_ms(self: BufferedSegment) -> int:
    return self.store_timestamp_ms


COMMIT_TIME_OF_LAST_PUT = Mutant(
    "commit-time-of-last-put",
    "transient buffer pool / checkpoint",
    "the checkpoint's log time is that of the last put, which may be in memory only",
    (Patch(BufferedSegment, "readable_store_timestamp_ms", property(_readable_store_timestamp_ms)),),
    None,
    ("CKPT",),
)


def _write(self: BufferedSegment, at: int, end: int) -> None:
    self.file.pwrite(at, self._buffer[at:end])


def _with_short_writes(ranges: Ranges) -> Ranges:
    return ranges.replace(
        sync_flush=(False,),
        memory={"transient_pool": (True,)},
    ).replace(faults={"short_write_chance": (0.2,)})


SHORT_WRITE_UNNOTICED = Mutant(
    "short-write-unnoticed",
    "transient buffer pool",
    "a commit counts as whole although the write wrote a part of it",
    (Patch(BufferedSegment, "_write", _write),),
    _with_short_writes,
    ("POS", "DUR", "LIVE", "CQ-VALID", "CQ-COMPLETE", "READ"),
)
