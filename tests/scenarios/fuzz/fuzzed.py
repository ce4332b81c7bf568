"""A fuzzing target for tests, and a function that fuzzes a format."""

from collections.abc import Callable, Sequence

from tornlog.scenarios.fuzz.engine import Fuzzer, FuzzTally
from tornlog.scenarios.fuzz.judging import address_space_limited
from tornlog.scenarios.fuzz.mutants import find_fuzz_mutant
from tornlog.scenarios.fuzz.mutation import Draw
from tornlog.scenarios.fuzz.shape import PLAIN, Shape, ShapePart
from tornlog.scenarios.fuzz.target import InputOutcome, Target
from tornlog.scenarios.fuzz.targets import TARGETS


class MadeTarget(Target):
    """A target whose check is given by the test. Semicolons separate the parts of an input."""

    name = "made"
    size_bytes_max = 64
    cpu_seconds_max = 0.3
    memory_bytes_max = 1 << 20

    def __init__(self, check: Callable[[bytes], InputOutcome], inputs: Sequence[bytes] = (b"a;b;c",)) -> None:
        self._check = check
        self._inputs = inputs

    def valid_input(self, draw: Draw) -> bytes:
        return draw.choice(self._inputs)

    def shape(self, raw: bytes) -> Shape:
        parts, at = [], 0
        while (end := raw.find(b";", at)) >= 0:
            parts.append(ShapePart(at, end + 1))
            at = end + 1
        return Shape(PLAIN.fields, tuple(parts))

    def check(self, raw: bytes) -> InputOutcome:
        return self._check(raw)


def fuzz(name: str, inputs: int, *, seed: int = 0, mutant: str | None = None) -> FuzzTally:
    """Fuzz a format with a given number of inputs and an optional mutant."""
    fuzzer = Fuzzer(TARGETS[name](), seed)
    if mutant is None:
        fuzzer.run(inputs)
        return fuzzer.tally
    found = find_fuzz_mutant(mutant)
    assert found is not None, mutant
    with found.applied(), address_space_limited():
        fuzzer.run(inputs)
    return fuzzer.tally
