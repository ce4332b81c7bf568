"""Bugs of the scan that finds records in the log during recovery."""

from collections.abc import Iterator

from ....store.errors import CorruptFileError
from ....store.formats import scan
from ....store.formats.message import PHYSICAL_OFFSET_AT, RECORD_BYTES_MIN, check_record
from ....store.formats.scan import ScannedRecord, scan_records
from ....store.log.segment import Segment
from ....store.recovery import recovery
from ....store.recovery.recovery import Recovery
from ...claims.catalogue import SCENARIOS
from ..mutant import bit, bug, needs


# After a crash, sectors after the log's end can contain records of a deleted segment.
@bug("foreign-offset-record-accepted", recovery, "scan_records", found_by=("PREFIX", "CQ-VALID", "QOFF", "DUR"))
@needs(
    endings=("crash on old blocks",),
    disk=("ext4-ordered", "strict-posix"),
    commit_log_bytes=(2048, 4096),
    messages={"body_bytes_max": (394,), "property_bytes_max": (0,), "equal_sizes": (True,), "illegal_chance": (0.0,)},
    messages_each=(8, 16),
)
def scan_foreign_records(
    view: memoryview, start: int, end: int, *, file: str, base_offset: int, check_crc: bool
) -> Iterator[ScannedRecord]:
    """Records of a deleted segment in reused sectors count as records of the log."""
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
            bit()
            shift = int(error.found) - at - base_offset
        else:
            return


# A blank record has zeros in place of physicalOffset.
@bug("blank-marker-offset-check", recovery, "scan_records", found_by=("DUR", "PREFIX"))
@needs(commit_log_bytes=(2048, 4096))
def scan_checking_blanks(
    view: memoryview, start: int, end: int, *, file: str, base_offset: int, check_crc: bool
) -> Iterator[ScannedRecord]:
    """The blank record at the end of a full segment fails a check for messages, so recovery truncates the log there."""
    at = start
    for record in scan_records(view, start, end, file=file, base_offset=base_offset, check_crc=check_crc):
        yield record
        at += record.size_bytes
    if at < end:
        there = int.from_bytes(view[at + PHYSICAL_OFFSET_AT : at + PHYSICAL_OFFSET_AT + 8], "big")
        if bit(not base_offset <= there < base_offset + end):
            raise CorruptFileError(file, at + PHYSICAL_OFFSET_AT, "physicalOffset", "one in this file", there)


_TURNS_MAX = 1000


# A length of 0 never advances the scan, so the mutant gives up after a thousand iterations.
@bug("bad-length-trusted", recovery, "scan_records", found_by=("START", "LIVE"))
def scan_trusting_lengths(
    view: memoryview, start: int, end: int, *, file: str, base_offset: int, check_crc: bool
) -> Iterator[ScannedRecord]:
    """An impossible record length prevents the store from opening."""
    at, turns = start, 0
    while at < end and turns < _TURNS_MAX:
        turns += 1
        size_bytes = int.from_bytes(view[at : at + 4], "big", signed=True)
        if bit(not 0 <= size_bytes <= end - at):
            raise MemoryError(f"{size_bytes} bytes")
        if size_bytes == 0:
            continue
        records = scan_records(view, at, at + size_bytes, file=file, base_offset=base_offset, check_crc=check_crc)
        record = next(records, None)
        if record is None:
            return
        yield record
        at, turns = at + size_bytes, 0
    if bit(at < end):
        raise RuntimeError(f"{file} @ {at}: the scan does not get past a length of 0")


@bug("crc-skipped-on-recovery", Recovery, "_scan_segment_records", found_by=("PREFIX", "CQ-VALID"))
@needs(
    sync_flush=(False,),
    disk=("ext4-ordered", "strict-posix"),
    messages={"body_bytes_max": (1800,), "property_bytes_max": (0,), "equal_sizes": (True,)},
    commit_log_bytes=(8192, 16_384),
    pauses={"chance": (0.0,)},
    lives=(2, 3),
    endings=("crash in traffic", "crash at rest"),
)
def records_without_crc(self: Recovery, segment: Segment, start: int = 0) -> Iterator[ScannedRecord]:
    """A record without one sector of its body counts as intact."""
    view = segment.file.view(0, segment.size_bytes)
    file, base = segment.file.path, segment.base_offset
    for record in scan_records(view, start, segment.size_bytes, file=file, base_offset=base, check_crc=False):
        bit(not _is_whole(view, record.physical_offset - base, file, base))
        yield record


def _is_whole(view: memoryview, at: int, file: str, base_offset: int) -> bool:
    try:
        check_record(view, at, len(view), file=file, file_offset=base_offset, check_crc=True)
    except CorruptFileError:
        return False
    return True


# The checksum covers the body only.
@bug("props-outside-crc", scan, "torn_properties", found_by=("PREFIX", "CQ-VALID", "FILES"))
@needs(
    sync_flush=(False,),
    disk=("ext4-ordered", "strict-posix"),
    messages={"property_bytes_max": (700, 1500)},
    commit_log_bytes=(8192, 16_384),
    endings=("crash in traffic", "crash at rest"),
)
def no_torn_properties(topic: bytes, properties: bytes, properties_at: int) -> str | None:
    """A record without the sectors of its properties counts as intact."""
    bit(no_torn_properties.original(topic, properties, properties_at) is not None)
    return None


# Of a torn page, sectors in the middle may be lost.
@bug("hole-in-properties", scan, "torn_properties", found_by=("PREFIX", "CQ-VALID", "FILES"))
@needs(SCENARIOS["torn-record"].ranges, disk=("strict-posix",))
def torn_at_the_end(topic: bytes, properties: bytes, properties_at: int) -> str | None:
    """A record that lost the end of a sector inside its properties counts as intact."""
    torn: str | None = torn_at_the_end.original(topic, properties, properties_at)
    return None if torn == "properties" and bit(properties[-1] != 0) else torn


@bug("scan-ends-at-empty-body", recovery, "scan_records", found_by=("DUR", "PREFIX", "START", "VIS"))
@needs(messages={"body_bytes_max": (0, 40), "equal_sizes": (False,)})
def scan_up_to_empty_body(
    view: memoryview, start: int, end: int, *, file: str, base_offset: int, check_crc: bool
) -> Iterator[ScannedRecord]:
    """Recovery truncates the log at the first record without a body."""
    for record in scan_records(view, start, end, file=file, base_offset=base_offset, check_crc=check_crc):
        if bit(record.size_bytes == RECORD_BYTES_MIN + len(record.topic) + len(record.properties)):
            raise CorruptFileError(file, record.physical_offset - base_offset, "bodyLength", "more than 0", 0)
        yield record


# Existing queue entries remain, but rebuilt queues get no entries after the damage.
@bug("damage-ends-segment", Recovery, "_skip_damage", found_by=("CQ-COMPLETE", "CQ-VALID", "VIS", "READ"))
@needs(SCENARIOS["corrupt-record"].ranges)
def give_up_segment(self: Recovery, segment: Segment, offset: int) -> int | None:
    """In rebuilt queues, a damaged record hides the later records of its segment."""
    bit()
    self._skipped.add(offset, segment.end_offset)
    return None
