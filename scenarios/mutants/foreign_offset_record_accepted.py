"""#12 foreign-offset-record-accepted: recovery does not compare a record's physicalOffset with where it lies.

Behind the end of the log a disk may show what its sectors held for an older segment: whole records, from elsewhere.
"""

from collections.abc import Iterator
from dataclasses import replace

from ...store.errors import CorruptFileError
from ...store.formats.scan import ScannedRecord, scan_records
from ...store.log import recovery
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _scan_records(
    view: memoryview, start: int, end: int, *, file: str, base_offset: int, check_crc: bool
) -> Iterator[ScannedRecord]:
    at, shift = start, 0
    while True:
        records = scan_records(view, at, end, file=file, base_offset=base_offset + shift, check_crc=check_crc)
        try:
            for record in records:
                at = record.physical_offset - shift - base_offset + record.size_bytes
                yield record._replace(physical_offset=record.physical_offset - shift)
        except CorruptFileError as error:
            if error.field != "physicalOffset":
                raise
            shift = int(error.found) - at - base_offset
        else:
            return


def _narrow(ranges: Ranges) -> Ranges:
    return replace(
        ranges,
        endings=("crash on old blocks",),
        disk=("ext4-ordered", "strict-posix"),
        commit_log_bytes=(2048, 4096),
        body_bytes_max=(394,),
        property_bytes_max=(0,),
        equal_sizes=(True,),
        messages_each=(8, 16),
        illegal_chance=(0.0,),
    )


MUTANT = Mutant(
    "foreign-offset-record-accepted",
    "recovery",
    "records that an older segment had in the same sectors are taken for the log's own",
    (Patch(recovery, "scan_records", _scan_records),),
    _narrow,
    ("PREFIX", "CQ-VALID", "QOFF", "DUR"),
)
