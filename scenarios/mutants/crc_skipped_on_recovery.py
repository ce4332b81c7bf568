"""#40 crc-skipped-on-recovery: recovery believes lengths and magic, and never compares a body with its checksum."""

from collections.abc import Iterator
from dataclasses import replace

from ...store.formats.scan import ScannedRecord, scan_records
from ...store.log.recovery import Recovery
from ...store.log.segment import Segment
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _records(self: Recovery, segment: Segment, start: int = 0) -> Iterator[ScannedRecord]:
    return scan_records(
        segment.file.view(0, segment.size_bytes),
        start,
        segment.size_bytes,
        file=segment.file.path,
        base_offset=segment.base_offset,
        check_crc=False,
    )


def _narrow(ranges: Ranges) -> Ranges:
    return replace(
        ranges,
        sync_flush=(False,),
        disk=("ext4-ordered", "strict-posix"),
        body_bytes_max=(1800,),
        property_bytes_max=(0,),
        commit_log_bytes=(8192, 16384),
        equal_sizes=(True,),
        pause_chance=(0.0,),
        lives=(2, 3),
        endings=("crash in traffic", "crash at rest"),
    )


MUTANT = Mutant(
    "crc-skipped-on-recovery",
    "recovery",
    "a record whose body lost a sector is taken for whole",
    (Patch(Recovery, "_records", _records),),
    _narrow,
    ("PREFIX",),
)
