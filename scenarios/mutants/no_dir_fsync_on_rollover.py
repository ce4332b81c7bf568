"""#38 no-dir-fsync-on-rollover: a new segment's data and size are synced, its name is not."""

from dataclasses import replace

from ...store.log.allocate import AllocateMappedFileService
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _make_durable(self: AllocateMappedFileService, path: str) -> None:
    self.world.files.sync(path)


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, disk=("strict-posix",), sync_flush=(True,), commit_log_bytes=(2048,))


MUTANT = Mutant(
    "no-dir-fsync-on-rollover",
    "file allocation",
    "a power cut takes a new segment's name, and everything acknowledged in it",
    (Patch(AllocateMappedFileService, "make_durable", _make_durable),),
    _narrow,
    ("DUR", "START", "PREFIX", "CQ-VALID"),
)
