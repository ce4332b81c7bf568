"""Target: the commit log, read by recovery, dispatch and look-ups.

The recovery scan and the oracle's reader must agree on the bytes of each record and on the refused records. Encoding a
decoded record again must give the same bytes. The keys and the tag of a record must be the keys and the tag in its
properties.
"""

from ....store.errors import CorruptFileError
from ....store.formats import delay_level, index_key, message, scan
from ....store.formats.delay_level import SCHEDULE_TOPIC
from ...oracle.reader import ReadRecord, indexed_keys, is_blank, key_hash, tag_code_of, valid_record_at_position
from ..material import random_record
from ..mutation import Draw
from ..shape import correct_records
from ..target import InputOutcome, Target, TargetViolation, field_in_error

FILE = "commitlog/00000000000000065536"
BASE_OFFSET = 65_536
DELAYS_MS = {1: 1000, 2: 5000, 3: 7_200_000}
_FIRST_OFFSETS = (0, 7)
_I64_MAX = (1 << 63) - 1


class CommitLogTarget(Target):
    """Fuzzes the beginning of a log segment."""

    name = "commitlog"
    file = FILE

    def valid_input(self, draw: Draw) -> bytes:
        raw, queue_offset = b"", draw.choice(_FIRST_OFFSETS)
        records = 1
        while records < 3 and draw.chance(0.3):
            records += 1
        for number in range(records):
            raw += random_record(draw, BASE_OFFSET + len(raw), queue_offset + number)
        if draw.chance(0.2):
            raw += message.encode_blank(draw.randint(8, 64)) + bytes(draw.randbelow(16))
        return raw

    def correct_checksums(self, data: bytearray) -> None:
        correct_records(data, BASE_OFFSET)

    def check(self, raw: bytes) -> InputOutcome:
        end, at, count = len(raw), 0, 0
        view, kind = memoryview(raw), ""
        records = scan.scan_records(view, 0, end, file=FILE, base_offset=BASE_OFFSET, check_crc=True)
        try:
            for scanned in records:
                whole = valid_record_at_position(raw, at, end, BASE_OFFSET + at)
                if whole is None:
                    raise TargetViolation("served-incomplete", "a complete record", f"{scanned} at {at}"[:300])
                kind = _check_record(raw, at, scanned, whole)
                at += whole.record.size_bytes
                count += 1
        except CorruptFileError as error:
            return _refused_outcome(raw, at, f"{min(count, 2)}{kind}", error)
        if at != end and not is_blank(raw, at, end):
            raise TargetViolation("end", f"{end}, or a blank record", at)
        return InputOutcome(True, f"{min(count, 2)}{kind}{'' if at == end else ' blank'}")


def _check_record(raw: bytes, at: int, scanned: scan.ScannedRecord, whole: ReadRecord) -> str:
    """Compare the results of the scan, the decoder and the oracle's reader for a record. Return the record's kind."""
    record = whole.record
    if scanned != record[: len(scanned)]:
        raise TargetViolation("scanned", record, scanned)
    decoded = message.decode_record(raw, at, file=FILE)
    if decoded.body != whole.body:
        raise TargetViolation("body", whole.body.hex()[:200], decoded.body.hex()[:200])
    again = message.encode_message_record(decoded)
    if again != raw[at : at + record.size_bytes]:
        raise TargetViolation("re-encoded", raw[at : at + record.size_bytes].hex()[:400], again.hex()[:400])
    code = delay_level.record_tags_code(scanned, DELAYS_MS)
    if not -_I64_MAX <= code + 1 <= _I64_MAX + 1:
        raise TargetViolation("tags-code", "64 bits", code)
    wanted = tag_code_of(record.properties)
    if record.topic != SCHEDULE_TOPIC and code != wanted:
        raise TargetViolation("tags-code", wanted, code)
    keyed = index_key.may_have_keys(scanned) and index_key.key_hashes(scanned.topic, scanned.properties)
    hashes = tuple(key_hash(record.topic, key) for key in indexed_keys(record))
    if (keyed or ()) != hashes:
        raise TargetViolation("keys", hashes, keyed)
    return ("k" if keyed else "t" if code else "p") + ("6" if record.sys_flag & 0x30 else "")


def _refused_outcome(raw: bytes, at: int, previous: str, error: CorruptFileError) -> InputOutcome:
    field = field_in_error(error, FILE, len(raw))
    if valid_record_at_position(raw, at, len(raw), BASE_OFFSET + at) is not None:
        raise TargetViolation("refused-whole", "the record", error)
    last = at
    for start in scan.record_starts_after(memoryview(raw), at, len(raw), BASE_OFFSET):
        if not last < start <= len(raw):
            raise TargetViolation("chain", f"{last + 1} to {len(raw)}", start)
        last = start
    return InputOutcome(False, f"{field} after {previous}{' +' if last > at else ''}")
