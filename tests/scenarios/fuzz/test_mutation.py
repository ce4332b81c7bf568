from itertools import pairwise

import pytest

from tornlog.scenarios.fuzz.mutation import Draw, mutate_bytes
from tornlog.scenarios.fuzz.shape import (
    CHECKSUM,
    LENGTH,
    OFFSET,
    PLAIN,
    TEXT,
    Field,
    Shape,
    ShapePart,
    correct_records,
    record_parts,
    shape_of_file,
)
from tornlog.scenarios.fuzz.targets import TARGETS
from tornlog.scenarios.oracle.reader import valid_record_at_position

RAW = bytes(range(1, 41))
SHAPE = Shape(
    (Field(0, 4, LENGTH), Field(4, 8, OFFSET), Field(12, 4, CHECKSUM), Field(16, 10, TEXT)),
    (ShapePart(0, 16), ShapePart(16, 26), ShapePart(26, 40)),
)


def test_mutation_does_not_change_the_original_input() -> None:
    draw = Draw("a")
    copies = [bytes(mutate_bytes(RAW, SHAPE, draw, [RAW], 60)) for _ in range(500)]

    assert bytes(range(1, 41)) == RAW
    assert len(set(copies)) > 300
    assert max(map(len, copies)) == 60
    assert {40, 24, 30} < set(map(len, copies))  # as it was, and without one of its parts


def test_equal_draws_give_equal_mutations() -> None:
    assert [mutate_bytes(RAW, SHAPE, Draw("b"), [], 99) for _ in range(3)] == [
        mutate_bytes(RAW, SHAPE, Draw("b"), [], 99)
    ] * 3


@pytest.mark.parametrize("raw", [b"", b"a", RAW])
def test_any_input_can_be_mutated_with_any_shape(raw: bytes) -> None:
    draw = Draw("c")
    for shape in (PLAIN, SHAPE):
        for _ in range(1_000):
            assert len(mutate_bytes(raw, shape, draw, [b"", RAW], 1 << 16)) <= 1 << 16


@pytest.mark.parametrize("name", [name for name in TARGETS if name != "directory"])
def test_input_shapes_describe_the_fields_and_parts_of_an_input(name: str) -> None:
    target, draw = TARGETS[name](), Draw("d")
    kinds, parts = set(), 0
    for _ in range(50):
        raw = target.valid_input(draw)
        shape = target.shape(raw)
        kinds |= {field.kind for field in shape.fields}
        parts += len(shape.parts)
        assert all(one.at < other.at for one, other in pairwise(sorted(shape.fields)) if one.size_bytes)
    assert kinds
    assert parts


def test_the_shape_of_a_store_file_depends_on_its_folder() -> None:
    draw = Draw("e")
    log, queue = TARGETS["commitlog"]().valid_input(draw), TARGETS["consumequeue"]().valid_input(draw)

    assert shape_of_file("commitlog/0", log) == TARGETS["commitlog"]().shape(log)
    assert shape_of_file("consumequeue/T/0/0", queue) == TARGETS["consumequeue"]().shape(queue)
    assert shape_of_file("abort", b"") == PLAIN


def test_damaged_records_are_valid_after_their_checksums_are_corrected() -> None:
    target, draw = TARGETS["commitlog"](), Draw("f")
    mended = 0
    for _ in range(100):
        raw = bytearray(target.valid_input(draw))
        parts = list(record_parts(raw))
        for start, _ in parts:
            raw[start + 8] ^= 1
            raw[start + 35] ^= 1
        correct_records(raw, 1000)
        mended += all(valid_record_at_position(bytes(raw), start, end, 1000 + start) for start, end in parts)
    assert mended == 100
