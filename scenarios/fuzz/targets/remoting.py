"""Target: a few consecutive remoting frames from a connection.

Encoding a decoded binary frame again must give the same bytes. A JSON frame must give the same command.
"""

from dataclasses import replace

from ....store.errors import CorruptFileError
from ....store.formats.remoting import command, frame
from ..material import KEYS, TOPICS, random_body
from ..mutation import Draw
from ..shape import CONSTANT, LENGTH, NUMBER, TEXT, Field, Shape, ShapePart
from ..target import InputOutcome, Target, TargetViolation, field_in_error

PEER = "10.0.0.1:40001"
_CODES = (10, 11, 14, 34, 37, 310, 320, 105, 0, -1, 32767)
_NAMES = ("a", "b", "topic", "queueId", "i", "%", "")
_REMARKS = (None, None, "FOUND", "消息 not \u0000 found")
_FRAMES_MAX = 3


class RemotingTarget(Target):
    """Fuzzes the frames that a peer sends."""

    name = "remoting"

    def valid_input(self, draw: Draw) -> bytes:
        return b"".join(frame.encode_frame(_draw_command(draw)) for _ in range(draw.randint(1, _FRAMES_MAX)))

    def shape(self, raw: bytes) -> Shape:
        """Return the frames up to the first invalid length, with the fields of binary headers."""
        fields: list[Field] = []
        parts, at = [], 0
        while at + 8 <= len(raw):
            end = at + 4 + int.from_bytes(raw[at : at + 4], "big", signed=True)
            if not at + 8 <= end <= len(raw):
                break
            fields += [Field(at, 4, LENGTH), Field(at + 4, 1, CONSTANT), Field(at + 5, 3, LENGTH)]
            header_end = at + 8 + int.from_bytes(raw[at + 5 : at + 8], "big")
            if raw[at + 4] == command.HeaderForm.ROCKETMQ:
                fields += _binary_fields(raw, at + 8, min(header_end, end))
            else:
                fields.append(Field(at + 8, min(header_end, end) - at - 8, TEXT))
            parts.append(ShapePart(at, end))
            at = end
        return Shape(tuple(fields), tuple(parts))

    def correct_checksums(self, data: bytearray) -> None:
        """Correct the length of the first frame, so that fuzzing reaches the header decoder."""
        if len(data) >= 8:
            data[0:4] = (len(data) - 4).to_bytes(4, "big")
            if int.from_bytes(data[5:8], "big") > len(data) - 8:
                data[5:8] = (len(data) - 8).to_bytes(3, "big")

    def check(self, raw: bytes) -> InputOutcome:
        at, ways, end = 0, "", len(raw)
        try:
            while at < end:
                found, frame_end = frame.decode_frame(raw, at, end, file=PEER)
                if not at + 8 <= frame_end <= end:
                    raise TargetViolation("frame-end", f"{at + 8} to {end}", frame_end)
                _check_encoded(raw[at:frame_end], found)
                ways += _outcome_of_command(found)
                at = frame_end
        except CorruptFileError as error:
            return InputOutcome(False, f"{field_in_error(error, PEER, end).partition('.')[0]} after {ways[:4]}")
        return InputOutcome(True, ways[:4])


def _draw_command(draw: Draw) -> command.RemotingCommand:
    fields = {draw.choice(_NAMES): draw.choice((*TOPICS, *KEYS, "-1", "true")) for _ in range(draw.randbelow(4))}
    made = command.RemotingCommand(
        draw.choice(_CODES),
        draw.randbelow(1 << 31),
        draw.randbelow(4),
        draw.randbelow(len(command.LANGUAGES)),
        draw.choice((409, 401, 0)),
        draw.choice(_REMARKS),
        fields,
        random_body(draw.choice((0, 0, 5, 64))),
    )
    return replace(made, form=command.HeaderForm.ROCKETMQ) if draw.chance(0.6) else made


def _binary_fields(raw: bytes, at: int, end: int) -> list[Field]:
    """Return the fields of a binary header in [at, end), up to the first invalid length."""
    fields = [Field(at, 2, NUMBER), Field(at + 2, 1, NUMBER), Field(at + 13, 4, LENGTH)]
    place = at + 17 + int.from_bytes(raw[at + 13 : at + 17], "big")
    fields.append(Field(place, 4, LENGTH))
    place += 4
    while place + 6 <= end:
        key_end = place + 2 + int.from_bytes(raw[place : place + 2], "big")
        if key_end + 4 > end:
            break
        value_end = key_end + 4 + int.from_bytes(raw[key_end : key_end + 4], "big")
        fields += [Field(place, 2, LENGTH), Field(place + 2, key_end - place - 2, TEXT)]
        fields.append(Field(key_end, 4, LENGTH))
        if value_end > end:
            break
        fields.append(Field(key_end + 4, value_end - key_end - 4, TEXT))
        place = value_end
    return [field for field in fields if field.at + field.size_bytes <= end]


def _check_encoded(raw: bytes, found: command.RemotingCommand) -> None:
    again = frame.encode_frame(found)
    if found.form is command.HeaderForm.ROCKETMQ:
        if again != raw:
            raise TargetViolation("re-encoded", raw.hex()[:400], again.hex()[:400])
        return
    read, _ = frame.decode_frame(again, 0, len(again), file=PEER)
    if read != found and read != replace(found, language=read.language):
        raise TargetViolation("read-again", found, read)


def _outcome_of_command(found: command.RemotingCommand) -> str:
    form = "j" if found.form is command.HeaderForm.JSON else "b"
    return form + ("f" if found.ext_fields else "") + ("r" if found.remark else "")
