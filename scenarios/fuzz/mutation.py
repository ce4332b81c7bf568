"""Input mutation: changes a few fields, parts or bytes of an input.

After a change that moves bytes, the field offsets in the shape are wrong. Later changes of the same input then affect
nearby bytes, which is acceptable. Targets correct the checksums of mutated inputs.
"""

from collections.abc import Sequence
from typing import TypeVar

from ...sim.choices import Choices
from .shape import CHECKSUM, CONSTANT, LENGTH, OFFSET, TEXT, Field, Shape

T = TypeVar("T")

_POOL_BITS = 53


class Draw:
    """Random numbers of one seed, the same in every Python version."""

    __slots__ = ("unit",)

    def __init__(self, seed: str) -> None:
        self.unit = Choices(seed).stream("fuzz").raw_random

    def randbelow(self, options: int) -> int:
        assert options > 0, options
        return int(self.unit() * options)

    def randint(self, low: int, high: int) -> int:
        assert low <= high, (low, high)
        return low + int(self.unit() * (high - low + 1))

    def choice(self, options: Sequence[T]) -> T:
        assert options, "no options to draw from"
        return options[int(self.unit() * len(options))]

    def chance(self, probability: float) -> bool:
        return self.unit() < probability

    def random_bytes(self, size_bytes: int) -> bytes:
        count = -(-size_bytes // 6)
        pieces = [int(self.unit() * (1 << _POOL_BITS)).to_bytes(7, "big")[1:] for _ in range(count)]
        return b"".join(pieces)[:size_bytes]


INTERESTING = (
    *(0, 1, 2, 3, 4, 7, 8, 16, 20, 21, 32, 40, 64, 90, 91, 92, 100, 103, 115, 127, 128, 129, 255, 256),
    *(512, 1000, 1023, 1024, 4095, 4096, 32767, 32768, 65535, 65536, 1 << 20, (1 << 24) - 1, 1 << 24),
    *(1 << 28, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 53) + 1, 1 << 62),
    *((1 << 63) - 1, 1 << 63),
    *(-1, -2, -4, -8, -20, -91, -128, -129, -32768),
)
"""Values for fields: sizes of parts, limits of integer types, and the neighbours of both."""
CONSTANTS = (0xDAA320A7, 0xDAA320AB, 0xCBD43194, 0x7FFFFFFF, 0xFFFFFFFF, 0, 1, 2)
CHANGES_MAX = 4
_GROWTH_BYTES_MAX = 64
_NUDGE_MAX = 32


def mutate_bytes(raw: bytes, shape: Shape, draw: Draw, others: Sequence[bytes], size_bytes_max: int) -> bytearray:
    """Return a mutated copy of an input. Mutations may copy parts of other inputs."""
    data = bytearray(raw)
    unit, fields = draw.unit, shape.fields
    changes = 1
    while changes < CHANGES_MAX and unit() < 0.4:
        changes += 1
    for _ in range(changes):
        roll = unit()
        if fields and roll < 0.6:
            _change_field(data, fields[int(unit() * len(fields))], fields, draw)
        elif roll < 0.75:
            _flip_bit(data, draw)
        elif roll < 0.88 and shape.parts:
            _PART_CHANGES[int(unit() * len(_PART_CHANGES))](data, shape, draw, others)
        else:
            _BYTE_CHANGES[int(unit() * len(_BYTE_CHANGES))](data, draw, others)
    del data[size_bytes_max:]  # the memory limit of a target assumes this maximum
    assert len(data) <= size_bytes_max, (len(data), size_bytes_max)
    return data


def _change_field(data: bytearray, field: Field, fields: Sequence[Field], draw: Draw) -> None:
    at, size_bytes, kind = field
    end = at + size_bytes
    if end > len(data):
        return
    if kind == TEXT:
        _change_text(data, at, end, draw)
        return
    value = _new_number(int.from_bytes(data[at:end], "big"), kind, data, fields, draw)
    data[at:end] = (value & (1 << 8 * size_bytes) - 1).to_bytes(size_bytes, "big")


def _new_number(value: int, kind: str, data: bytearray, fields: Sequence[Field], draw: Draw) -> int:
    """Choose a new value: a neighbour, a limit, another field's value, or a random value."""
    roll = draw.unit()
    if kind == CONSTANT and roll < 0.5:
        return draw.choice(CONSTANTS)
    if kind == CHECKSUM and roll < 0.5:
        return value ^ 1 << draw.randbelow(32)
    if roll < 0.3:
        return value + draw.randint(-_NUDGE_MAX, _NUDGE_MAX)
    if roll < 0.6:
        return draw.choice(INTERESTING)
    if roll < 0.75:
        return len(data) + draw.randint(-_NUDGE_MAX, _NUDGE_MAX) if kind in (LENGTH, OFFSET) else -value
    if roll < 0.9:
        at, size_bytes, _ = draw.choice(fields)
        return int.from_bytes(data[at : at + min(size_bytes, 8)], "big")
    return value ^ 1 << draw.randbelow(64)


def _change_text(data: bytearray, at: int, end: int, draw: Draw) -> None:
    roll = draw.unit()
    if at == end or roll < 0.3:
        data[at:at] = draw.random_bytes(draw.randint(1, 4))
    elif roll < 0.6:
        data[draw.randint(at, end - 1)] = draw.choice((0, 1, 2, 0x20, 0x22, 0x7F, 0x80, 0xC0, 0xED, 0xFF))
    elif roll < 0.8:
        start = draw.randint(at, end - 1)
        del data[start : draw.randint(start + 1, end)]
    else:
        start = draw.randint(at, end - 1)
        data[start:end] = bytes(end - start)


def _remove_part(data: bytearray, shape: Shape, draw: Draw, others: Sequence[bytes]) -> None:
    start, end = draw.choice(shape.parts)
    del data[start:end]


def _repeat_part(data: bytearray, shape: Shape, draw: Draw, others: Sequence[bytes]) -> None:
    start, end = draw.choice(shape.parts)
    where = draw.choice(shape.parts).end
    data[where:where] = data[start:end]


def _swap_parts(data: bytearray, shape: Shape, draw: Draw, others: Sequence[bytes]) -> None:
    one, other = sorted((draw.choice(shape.parts), draw.choice(shape.parts)))
    if one.end <= other.start:
        between = data[one.end : other.start]
        data[one.start : other.end] = data[other.start : other.end] + between + data[one.start : one.end]


def _overwrite_part(data: bytearray, shape: Shape, draw: Draw, others: Sequence[bytes]) -> None:
    """Copy one part over the beginning of another part, like a lost or misdirected write."""
    start, end = draw.choice(shape.parts)
    at = draw.choice(shape.parts).start
    data[at : at + end - start] = data[start:end]


def _truncate_at_part(data: bytearray, shape: Shape, draw: Draw, others: Sequence[bytes]) -> None:
    del data[draw.choice(draw.choice(shape.parts)) :]


def _zero_part(data: bytearray, shape: Shape, draw: Draw, others: Sequence[bytes]) -> None:
    start, end = draw.choice(shape.parts)
    data[start:end] = bytes(max(0, min(end, len(data)) - start))


_PART_CHANGES = (_remove_part, _repeat_part, _swap_parts, _overwrite_part, _truncate_at_part, _zero_part)


def _flip_bit(data: bytearray, draw: Draw) -> None:
    if data:
        data[draw.randbelow(len(data))] ^= 1 << draw.randbelow(8)


def _flip_of_others(data: bytearray, draw: Draw, others: Sequence[bytes]) -> None:
    for _ in range(draw.randint(1, 8)):
        _flip_bit(data, draw)


def _truncate_bytes(data: bytearray, draw: Draw, others: Sequence[bytes]) -> None:
    del data[draw.randbelow(len(data) + 1) :]


def _remove_range(data: bytearray, draw: Draw, others: Sequence[bytes]) -> None:
    start = draw.randbelow(len(data) + 1)
    del data[start : start + draw.randint(1, _GROWTH_BYTES_MAX)]


def _insert_bytes(data: bytearray, draw: Draw, others: Sequence[bytes]) -> None:
    at = draw.randbelow(len(data) + 1)
    data[at:at] = draw.random_bytes(draw.randint(1, _GROWTH_BYTES_MAX))


def _append_zeros(data: bytearray, draw: Draw, others: Sequence[bytes]) -> None:
    data += bytes(draw.randint(1, _GROWTH_BYTES_MAX))


def _copy_range(data: bytearray, draw: Draw, others: Sequence[bytes]) -> None:
    start = draw.randbelow(len(data) + 1)
    piece = data[start : start + draw.randint(1, _GROWTH_BYTES_MAX)]
    at = draw.randbelow(len(data) + 1)
    data[at : at + len(piece) if draw.chance(0.5) else at] = piece


def _repeat_range_many_times(data: bytearray, draw: Draw, others: Sequence[bytes]) -> None:
    """Repeat a short range many times.

    Long inputs reveal code that takes more than linear time.
    """
    start = draw.randbelow(len(data) + 1)
    piece = data[start : start + draw.randint(1, 8)]
    data[start:start] = piece * draw.randint(2, 1 << draw.randint(1, 12))


def _splice_inputs(data: bytearray, draw: Draw, others: Sequence[bytes]) -> None:
    if others:
        other = draw.choice(others)
        data[draw.randbelow(len(data) + 1) :] = other[draw.randbelow(len(other) + 1) :]


_BYTE_CHANGES = (
    _flip_of_others,
    _truncate_bytes,
    _remove_range,
    _insert_bytes,
    _append_zeros,
    _copy_range,
    _repeat_range_many_times,
    _splice_inputs,
)
