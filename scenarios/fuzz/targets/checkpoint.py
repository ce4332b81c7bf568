"""Target: the checkpoint file, which has three times, then zeros up to a page."""

from struct import Struct

from ....store.errors import CorruptFileError
from ....store.formats import checkpoint
from ..material import BORN_MS
from ..mutation import Draw
from ..target import InputOutcome, Target, TargetViolation, field_in_error

FILE = "checkpoint"
_TIMES = Struct(">qqq")


class CheckpointTarget(Target):
    """Fuzzes the beginning of a checkpoint file."""

    name = "checkpoint"
    file = FILE
    size_bytes_max = 256

    def valid_input(self, draw: Draw) -> bytes:
        times = (draw.choice((0, 1, BORN_MS, BORN_MS + draw.randbelow(1 << 30))) for _ in range(3))
        values = checkpoint.CheckpointValues(*times)
        return checkpoint.encode_checkpoint(values) + bytes(8 * draw.randbelow(4))

    def check(self, raw: bytes) -> InputOutcome:
        try:
            values = checkpoint.decode_checkpoint(raw, file=FILE)
        except CorruptFileError as error:
            field = field_in_error(error, FILE, len(raw))
            if len(raw) >= _TIMES.size and min(_TIMES.unpack_from(raw)) >= 0:
                raise TargetViolation("refused-whole", "three times", error) from error
            return InputOutcome(False, field)
        if values != _TIMES.unpack_from(raw) or min(values) < 0:
            raise TargetViolation("times", "the stored times, each 0 or more", values)
        if checkpoint.encode_checkpoint(values) != raw[: _TIMES.size]:
            raise TargetViolation("re-encoded", raw[: _TIMES.size].hex(), values)
        return InputOutcome(True, "".join("0" if value == 0 else "t" for value in values))
