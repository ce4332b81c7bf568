"""scan-ends-at-empty-body: a scan takes a record without a body for damage, though its CRC is right."""

from collections.abc import Iterator
from dataclasses import replace

from ...store.errors import CorruptFileError
from ...store.formats.message import RECORD_BYTES_MIN
from ...store.formats.scan import ScannedRecord, scan_records
from ...store.log import recovery
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _scan_records(
    view: memoryview, start: int, end: int, *, file: str, base_offset: int, check_crc: bool
) -> Iterator[ScannedRecord]:
    for record in scan_records(view, start, end, file=file, base_offset=base_offset, check_crc=check_crc):
        if record.size_bytes == RECORD_BYTES_MIN + len(record.topic) + len(record.properties):
            raise CorruptFileError(file, record.physical_offset - base_offset, "bodyLength", "more than 0", 0)
        yield record


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, body_bytes_max=(0, 40), equal_sizes=(False,))


MUTANT = Mutant(
    "scan-ends-at-empty-body",
    "recovery",
    "recovery cuts the log in front of the first record that has no body",
    (Patch(recovery, "scan_records", _scan_records),),
    _narrow,
    ("DUR", "PREFIX", "START", "VIS"),
)
