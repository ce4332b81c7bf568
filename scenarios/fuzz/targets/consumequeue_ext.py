"""Extensions of consume queues: units of variable length, one after the other, up to an end mark or zeros."""

from ....store.errors import CorruptFileError
from ....store.formats import consume_queue as ext
from ..material import BORN_MS
from ..mutation import Draw
from ..shape import Shape, ext_shape
from ..target import InputOutcome, Target, TargetViolation, field_of

FILE = "consumequeue_ext/T1/0/00000000000000000000"
_BIT_MAP_BYTES = (0, 1, 8, 8, 64)
_UNITS_MAX = 4


class ConsumeQueueExtTarget(Target):
    """The beginning of a file."""

    name = "consumequeue-ext"
    size_bytes_max = 1024

    def valid(self, draw: Draw) -> bytes:
        """Make a few units, and what ends them."""
        units = [
            ext.encode_unit(ext.ExtUnit(draw.below(1 << 31), BORN_MS, draw.raw(draw.pick(_BIT_MAP_BYTES))))
            for _ in range(draw.between(1, _UNITS_MAX))
        ]
        return b"".join(units) + draw.pick((b"", ext.END_MARK, bytes(ext.END_BYTES)))

    def shape(self, raw: bytes) -> Shape:
        """Return the units that lengths lead to, and the end mark."""
        return ext_shape(raw)

    def check(self, raw: bytes) -> InputOutcome:
        """Read unit after unit."""
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
            return InputOutcome(False, f"{field_of(error, FILE, end)} behind {min(count, 8)}")
        if end - at >= 2 and raw[at : at + 2] not in (b"\0\0", ext.END_MARK):
            raise TargetViolation("end", "an end mark, or zeros", raw[at : at + 2].hex())
        return InputOutcome(True, f"{min(count, 8)} {raw[at : at + 2].hex()}")
