"""Bugs of the scan: which bytes of the log recovery takes for records."""

from collections.abc import Iterator

from ....store.errors import CorruptFileError
from ....store.formats import scan
from ....store.formats.message import PHYSICAL_OFFSET_AT, RECORD_BYTES_MIN, check_record
from ....store.formats.scan import ScannedRecord, scan_records
from ....store.log.segment import Segment
from ....store.recovery import recovery
from ....store.recovery.recovery import Recovery
from ...claims.catalogue import SCENARIOS
from ...claims.ranges import Ranges
from ..mutant import Mutant, Patch, bit


# #12 foreign-offset-record-accepted: recovery does not compare a record's physicalOffset with where it lies. Behind
# the end of the log a disk may show what its sectors held for an older segment: whole records, from elsewhere.
def _scan_foreign_records(
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
            bit()
            shift = int(error.found) - at - base_offset
        else:
            return


FOREIGN_OFFSET_RECORD_ACCEPTED = Mutant(
    "foreign-offset-record-accepted",
    "records that an older segment had in the same sectors are taken for the log's own",
    (Patch(recovery, "scan_records", _scan_foreign_records),),
    ("PREFIX", "CQ-VALID", "QOFF", "DUR"),
    Ranges(
        endings=("crash on old blocks",),
        disk=("ext4-ordered", "strict-posix"),
        commit_log_bytes=(2048, 4096),
        messages={
            "body_bytes_max": (394,),
            "property_bytes_max": (0,),
            "equal_sizes": (True,),
            "illegal_chance": (0.0,),
        },
        messages_each=(8, 16),
    ),
)


# #13 blank-marker-offset-check: recovery wants a physical offset inside the file from blank records, too.
# They have none: where other records have it, behind the eight bytes of a blank one, there are zeros. So the
# end of a full file passes for the end of the log.
def _scan_checking_blanks(
    view: memoryview, start: int, end: int, *, file: str, base_offset: int, check_crc: bool
) -> Iterator[ScannedRecord]:
    at = start
    for record in scan_records(view, start, end, file=file, base_offset=base_offset, check_crc=check_crc):
        yield record
        at += record.size_bytes
    if at < end:
        there = int.from_bytes(view[at + PHYSICAL_OFFSET_AT : at + PHYSICAL_OFFSET_AT + 8], "big")
        if bit(not base_offset <= there < base_offset + end):
            raise CorruptFileError(file, at + PHYSICAL_OFFSET_AT, "physicalOffset", "one in this file", there)


BLANK_MARKER_OFFSET_CHECK = Mutant(
    "blank-marker-offset-check",
    "the blank record at the end of a full segment fails a check meant for messages, and the log ends there",
    (Patch(recovery, "scan_records", _scan_checking_blanks),),
    ("DUR", "PREFIX"),
    Ranges(commit_log_bytes=(2048, 4096)),
)


# #43 bad-length-trusted: recovery goes by a record's length without looking whether it can be one. Zero,
# which is behind the end of every log, leads nowhere for ever: a thousand turns, here, and an error in place
# of the hang. A length beyond the file is memory that is not to be had.
_TURNS_MAX = 1000


def _scan_trusting_lengths(
    view: memoryview, start: int, end: int, *, file: str, base_offset: int, check_crc: bool
) -> Iterator[ScannedRecord]:
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


BAD_LENGTH_TRUSTED = Mutant(
    "bad-length-trusted",
    "a length that cannot be one keeps the store from opening",
    (Patch(recovery, "scan_records", _scan_trusting_lengths),),
    ("START", "LIVE"),
)


# #40 crc-skipped-on-recovery: recovery believes lengths and magic, and never compares a body with its checksum.
def _records_without_crc(self: Recovery, segment: Segment, start: int = 0) -> Iterator[ScannedRecord]:
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


CRC_SKIPPED_ON_RECOVERY = Mutant(
    "crc-skipped-on-recovery",
    "a record whose body lost a sector is taken for whole",
    (Patch(Recovery, "_records", _records_without_crc),),
    ("PREFIX", "CQ-VALID"),
    Ranges(
        sync_flush=(False,),
        disk=("ext4-ordered", "strict-posix"),
        messages={"body_bytes_max": (1800,), "property_bytes_max": (0,), "equal_sizes": (True,)},
        commit_log_bytes=(8192, 16384),
        pauses={"chance": (0.0,)},
        lives=(2, 3),
        endings=("crash in traffic", "crash at rest"),
    ),
)


# #14 props-outside-crc: the checksum covers the body, and nothing looks at topic and properties behind it. A
# record whose last sectors were lost passes if its lengths are on the sectors that were not.
_original_torn_properties = scan.torn_properties


def _no_torn_properties(topic: bytes, properties: bytes, properties_at: int) -> str | None:
    bit(_original_torn_properties(topic, properties, properties_at) is not None)
    return None


PROPS_OUTSIDE_CRC = Mutant(
    "props-outside-crc",
    "a record that lost the sectors with its properties is taken for whole",
    (Patch(scan, "torn_properties", _no_torn_properties),),
    ("PREFIX", "CQ-VALID"),
    Ranges(
        sync_flush=(False,),
        disk=("ext4-ordered", "strict-posix"),
        messages={"property_bytes_max": (700, 1500)},
        commit_log_bytes=(8192, 16384),
        endings=("crash in traffic", "crash at rest"),
    ),
)


# scan-ends-at-empty-body: a scan takes a record without a body for damage, though its CRC is right.
def _scan_up_to_empty_body(
    view: memoryview, start: int, end: int, *, file: str, base_offset: int, check_crc: bool
) -> Iterator[ScannedRecord]:
    for record in scan_records(view, start, end, file=file, base_offset=base_offset, check_crc=check_crc):
        if bit(record.size_bytes == RECORD_BYTES_MIN + len(record.topic) + len(record.properties)):
            raise CorruptFileError(file, record.physical_offset - base_offset, "bodyLength", "more than 0", 0)
        yield record


SCAN_ENDS_AT_EMPTY_BODY = Mutant(
    "scan-ends-at-empty-body",
    "recovery cuts the log in front of the first record that has no body",
    (Patch(recovery, "scan_records", _scan_up_to_empty_body),),
    ("DUR", "PREFIX", "START", "VIS"),
    Ranges(messages={"body_bytes_max": (0, 40), "equal_sizes": (False,)}),
)


# damage-ends-segment, not of the catalogue: recovery gives up a segment at the first damage, although it vouches for
# what lies behind. Entries that are there stay; where queues are made anew, all behind the damage is hidden.
def _give_up_segment(self: Recovery, segment: Segment, offset: int) -> int | None:
    bit()
    self._skipped.add(offset, segment.end_offset)
    return None


DAMAGE_ENDS_SEGMENT = Mutant(
    "damage-ends-segment",
    "one damaged record hides those behind it in its segment when queues are made anew",
    (Patch(Recovery, "_pass_damage", _give_up_segment),),
    ("CQ-COMPLETE", "CQ-VALID", "VIS", "READ"),
    SCENARIOS["damage-hides-nothing-behind-it"].ranges,
)
