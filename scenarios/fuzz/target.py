"""Fuzz targets: a format, or recovery. A target makes valid inputs, breaks them, and judges any bytes at all.

Judging ends in an outcome, a short text that is the same for inputs that took the same way: inputs with a new one are
worth breaking further. What must never come of an input is `TargetViolation`; so is every error that no docstring
names.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from ...store.errors import CorruptFileError
from .mutation import Draw, mutated
from .shape import Shape, shape_of_file

MENDED_CHANCE = 0.5
"""Of broken inputs, how many have their checksums made right again."""
_TEXT_CHARACTERS_MAX = 200_000


class InputOutcome(NamedTuple):
    """What came of an input."""

    accepted: bool
    way: str
    """What was met on the way: the refused field, how many records were read before."""


class TargetViolation(Exception):
    """An input for which the code under test does not keep what it promises."""

    def __init__(self, kind: str, expected: object, found: object) -> None:
        super().__init__(f"{kind}: expected {expected}, found {found}")
        self.kind = kind
        self.expected = str(expected)
        self.found = str(found)


class Target(ABC):
    """One thing to fuzz."""

    name: ClassVar[str]
    file: ClassVar[str] = ""
    """The path in a store's directory of what the input is taken for."""
    children: ClassVar[int] = 32
    """How many broken copies of one input are made in a row."""
    size_bytes_max: ClassVar[int] = 4096
    """Longer inputs are cut."""
    cpu_seconds_max: ClassVar[float] = 2.0
    """Of one input: a thousand times what honest ones take, or more."""
    memory_bytes_max: ClassVar[int] = 1 << 20
    """What judging one input may have allocated at once, however short it is."""
    measured_apart: ClassVar[int] = 1
    """How many inputs there are at least from one whose memory is measured to the next."""
    keeps_length: ClassVar[bool] = False
    """Whether an input with bytes taken out of it, other than whole parts, is none."""

    @abstractmethod
    def valid(self, draw: Draw) -> bytes:
        """Make a valid input with the store's own encoders."""

    @abstractmethod
    def check(self, raw: bytes) -> InputOutcome:
        """Judge an input. Raises Broken, or whatever the code under test should not have raised."""

    def shape(self, raw: bytes) -> Shape:
        """Return what is where in an input, as far as it can be read."""
        return shape_of_file(self.file, raw)

    def mend(self, data: bytearray) -> None:  # noqa: B027 - most formats have nothing to mend
        """Make checksums, and what else nobody gets past, right again in a broken input, in place."""

    def mutate(self, raw: bytes, shape: Shape, draw: Draw, others: Sequence[bytes]) -> bytes:
        """Return a broken copy of an input of that shape."""
        data = mutated(raw, shape, draw, others, self.size_bytes_max)
        if draw.chance(MENDED_CHANCE):
            self.mend(data)
        return bytes(data)


def field_of(error: CorruptFileError, file: str, size_bytes: int) -> str:
    """Return the field that an error names. Broken: it lacks a place in the file, or what was expected or found."""
    if error.file != file:
        raise TargetViolation("error-file", file, error.file)
    if not 0 <= error.offset <= size_bytes:
        raise TargetViolation("error-offset", f"0 to {size_bytes}", f"{error.offset}: {error}"[:300])
    if not error.field or not error.expected or not error.found:
        raise TargetViolation("error-text", "field, expected and found", str(error)[:300])
    if len(str(error)) > _TEXT_CHARACTERS_MAX:
        raise TargetViolation("error-text", f"{_TEXT_CHARACTERS_MAX} characters at most", len(str(error)))
    return error.field
