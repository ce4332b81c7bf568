"""Targets: consume queues and their extensions.

Any 20 bytes form a queue entry, so the target checks only which entries count as valid.
"""

from itertools import groupby
from struct import Struct

from ....store.errors import CorruptFileError
from ....store.formats import consume_queue
from ....store.formats import consume_queue as ext
from ..material import BORN_MS, TAGS
from ..mutation import Draw
from ..target import InputOutcome, Target, TargetViolation, field_in_error

_ENTRY = Struct(">qiq")
_ENTRY_BYTES = 20
_ENTRIES_MAX = 6
_BLANK_SIZE = 0x7FFFFFFF


class ConsumeQueueTarget(Target):
    """Fuzzes a part of a queue file."""

    name = "consumequeue"
    file = "consumequeue/T1/0/00000000000000000000"
    size_bytes_max = 400

    def valid_input(self, draw: Draw) -> bytes:
        raw = consume_queue.BLANK_ENTRY_BYTES * (draw.randbelow(3) if draw.chance(0.3) else 0)
        physical_offset = draw.randbelow(1 << 40)
        for _ in range(draw.randint(1, _ENTRIES_MAX)):
            size_bytes = draw.randint(91, 4096)
            code = consume_queue.tags_code(draw.choice(TAGS))
            raw += consume_queue.encode_entry(physical_offset, size_bytes, code)
            physical_offset += size_bytes
        return raw + bytes(_ENTRY_BYTES * draw.randbelow(2))

    def check(self, raw: bytes) -> InputOutcome:
        way = ""
        for at in range(0, len(raw) - _ENTRY_BYTES + 1, _ENTRY_BYTES):
            entry = consume_queue.decode_entry(raw, at)
            physical_offset, size_bytes, code = fields = _ENTRY.unpack_from(raw, at)
            if entry != fields:
                raise TargetViolation("entry", fields, entry)
            is_blank = physical_offset == 0 and size_bytes == _BLANK_SIZE and code == 0
            is_valid = physical_offset >= 0 and size_bytes > 0 and not is_blank
            if consume_queue.is_valid(entry) is not is_valid or consume_queue.is_blank(entry) is not is_blank:
                raise TargetViolation("valid", f"valid {is_valid}, blank {is_blank}", entry)
            if consume_queue.encode_entry(*entry) != raw[at : at + _ENTRY_BYTES]:
                raise TargetViolation("re-encoded", raw[at : at + _ENTRY_BYTES].hex(), entry)
            way += "v" if is_valid else "b" if is_blank else "-"
        kinds = "".join(kind for kind, _ in groupby(way))
        return InputOutcome("-" not in way, kinds[:6])


FILE = "consumequeue_ext/T1/0/00000000000000000000"
_BIT_MAP_BYTES = (0, 1, 8, 8, 64)
_UNITS_MAX = 4


class ConsumeQueueExtTarget(Target):
    """Fuzzes the beginning of a queue extension file."""

    name = "consumequeue-ext"
    file = FILE
    size_bytes_max = 1024

    def valid_input(self, draw: Draw) -> bytes:
        units = [
            ext.encode_unit(
                ext.ExtUnit(draw.randbelow(1 << 31), BORN_MS, draw.random_bytes(draw.choice(_BIT_MAP_BYTES)))
            )
            for _ in range(draw.randint(1, _UNITS_MAX))
        ]
        return b"".join(units) + draw.choice((b"", ext.END_MARK, bytes(ext.END_BYTES)))

    def check(self, raw: bytes) -> InputOutcome:
        at, count, end = 0, 0, len(raw)
        try:
            while size_bytes := ext.unit_bytes_at(raw, at, end, file=FILE):
                if not ext.UNIT_BYTES_MIN <= size_bytes <= end - at:
                    raise TargetViolation("size", f"{ext.UNIT_BYTES_MIN} to {end - at}", size_bytes)
                unit = ext.decode_unit(raw, at, end, file=FILE)
                if ext.encode_unit(unit) != raw[at : at + size_bytes]:
                    raise TargetViolation("re-encoded", raw[at : at + size_bytes].hex(), unit)
                at += size_bytes
                count += 1
        except CorruptFileError as error:
            return InputOutcome(False, f"{field_in_error(error, FILE, end)} after {min(count, 8)}")
        if end - at >= 2 and raw[at : at + 2] not in (b"\0\0", ext.END_MARK):
            raise TargetViolation("end", "an end mark, or zeros", raw[at : at + 2].hex())
        return InputOutcome(True, f"{min(count, 8)} {raw[at : at + 2].hex()}")
