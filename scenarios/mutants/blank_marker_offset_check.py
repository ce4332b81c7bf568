"""#13 blank-marker-offset-check: recovery wants a physical offset inside the file from blank records, too.

They have none: where other records have it, behind the eight bytes of a blank one, there are zeros. So the end of a
full file passes for the end of the log.
"""

from collections.abc import Iterator
from dataclasses import replace

from ...store.errors import CorruptFileError
from ...store.formats.message import PHYSICAL_OFFSET_AT
from ...store.formats.scan import ScannedRecord, scan_records
from ...store.log import recovery
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _scan_records(
    view: memoryview, start: int, end: int, *, file: str, base_offset: int, check_crc: bool
) -> Iterator[ScannedRecord]:
    at = start
    for record in scan_records(view, start, end, file=file, base_offset=base_offset, check_crc=check_crc):
        yield record
        at += record.size_bytes
    if at < end:
        there = int.from_bytes(view[at + PHYSICAL_OFFSET_AT : at + PHYSICAL_OFFSET_AT + 8], "big")
        if not base_offset <= there < base_offset + end:
            raise CorruptFileError(file, at + PHYSICAL_OFFSET_AT, "physicalOffset", "one in this file", there)


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, commit_log_bytes=(2048, 4096))


MUTANT = Mutant(
    "blank-marker-offset-check",
    "recovery",
    "the blank record at the end of a full segment fails a check meant for messages, and the log ends there",
    (Patch(recovery, "scan_records", _scan_records),),
    _narrow,
    ("DUR", "PREFIX"),
)
