"""Consume queues: a run of 20-byte entries. Any bytes are one, so what is asked is which may be believed."""

from itertools import groupby
from struct import Struct

from ....store.formats import consume_queue
from ..material import TAGS
from ..mutation import Draw
from ..shape import Shape, queue_shape
from ..target import InputOutcome, Target, TargetViolation

_ENTRY = Struct(">qiq")
_ENTRY_BYTES = 20
_ENTRIES_MAX = 6
_BLANK_SIZE = 0x7FFFFFFF


class ConsumeQueueTarget(Target):
    """A piece of a queue's file."""

    name = "consumequeue"
    size_bytes_max = 400

    def valid(self, draw: Draw) -> bytes:
        """Make a few entries, blank ones in front now and then, zeros behind."""
        raw = consume_queue.BLANK_ENTRY_BYTES * (draw.below(3) if draw.chance(0.3) else 0)
        physical_offset = draw.below(1 << 40)
        for _ in range(draw.between(1, _ENTRIES_MAX)):
            size_bytes = draw.between(91, 4096)
            raw += consume_queue.encode_entry(
                physical_offset, size_bytes, consume_queue.tags_code(draw.pick(TAGS))
            )
            physical_offset += size_bytes
        return raw + bytes(_ENTRY_BYTES * draw.below(2))

    def shape(self, raw: bytes) -> Shape:
        """Return the three fields of each entry."""
        return queue_shape(raw)

    def check(self, raw: bytes) -> InputOutcome:
        """Read each whole entry."""
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
