"""#43 bad-length-trusted: recovery goes by a record's length without looking whether it can be one.

Zero, which is behind the end of every log, leads nowhere for ever: a thousand turns, here, and an error in place of the
hang. A length beyond the file is memory that is not to be had.
"""

from collections.abc import Iterator

from ...store.formats.scan import ScannedRecord, scan_records
from ...store.log import recovery
from .mutant import Mutant, Patch

_TURNS_MAX = 1000


def _scan_records(
    view: memoryview, start: int, end: int, *, file: str, base_offset: int, check_crc: bool
) -> Iterator[ScannedRecord]:
    at, turns = start, 0
    while at < end and turns < _TURNS_MAX:
        turns += 1
        size_bytes = int.from_bytes(view[at : at + 4], "big", signed=True)
        if not 0 <= size_bytes <= end - at:
            raise MemoryError(f"{size_bytes} bytes")
        if size_bytes == 0:
            continue
        records = scan_records(
            view, at, at + size_bytes, file=file, base_offset=base_offset, check_crc=check_crc
        )
        record = next(records, None)
        if record is None:
            return
        yield record
        at, turns = at + size_bytes, 0
    if at < end:
        raise RuntimeError(f"{file} @ {at}: the scan does not get past a length of 0")


MUTANT = Mutant(
    "bad-length-trusted",
    "recovery / dispatch",
    "a length that cannot be one keeps the store from opening",
    (Patch(recovery, "scan_records", _scan_records),),
    None,
    ("START", "LIVE"),
)
