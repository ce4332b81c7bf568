"""Fuzz targets: make valid inputs of a format, mutate them, and judge any bytes.

The outcome of an input is a short text, the same for inputs on the same code path. Inputs with a new outcome are
mutated further. `TargetViolation`, or an error that no docstring names, is a finding.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from ...store.errors import CorruptFileError
from .mutation import Draw, mutated
from .shape import Shape, shape_of_file

MENDED_CHANCE = 0.5
"""Of mutated inputs that get correct checksums."""
_TEXT_CHARACTERS_MAX = 200_000


class InputOutcome(NamedTuple):
    """The result of an input."""

    accepted: bool
    way: str
    """The code path: the refused field, the number of records before it."""


class TargetViolation(Exception):
    """An input for which the code under test breaks a promise."""

    def __init__(self, kind: str, expected: object, found: object) -> None:
        super().__init__(f"{kind}: expected {expected}, found {found}")
        self.kind = kind
        self.expected = str(expected)
        self.found = str(found)


class Target(ABC):
    """One thing to fuzz."""

    name: ClassVar[str]
    file: ClassVar[str] = ""
    """The path of such a file in a store directory."""
    children: ClassVar[int] = 32
    """Number of mutated copies of one input in a row."""
    size_bytes_max: ClassVar[int] = 4096
    """Longer inputs are cut."""
    cpu_seconds_max: ClassVar[float] = 2.0
    """For one input: at least a thousand times the time of a valid one."""
    memory_bytes_max: ClassVar[int] = 1 << 20
    """Most memory allocated at once while one input is judged."""
    measured_apart: ClassVar[int] = 1
    """Least number of inputs between two memory measurements."""
    keeps_length: ClassVar[bool] = False
    """Whether only whole parts can be removed from an input."""

    @abstractmethod
    def valid(self, draw: Draw) -> bytes:
        """Make a valid input with the store's own encoders."""

    @abstractmethod
    def check(self, raw: bytes) -> InputOutcome:
        """Judge an input. Raises TargetViolation, or an undocumented error of the code under test."""

    def shape(self, raw: bytes) -> Shape:
        return shape_of_file(self.file, raw)

    def mend(self, data: bytearray) -> None:  # noqa: B027 - most formats need no correction
        """Correct checksums and similar fields of a mutated input in place, so that later code is reached."""

    def mutate(self, raw: bytes, shape: Shape, draw: Draw, others: Sequence[bytes]) -> bytes:
        """Return a mutated copy of an input of that shape."""
        data = mutated(raw, shape, draw, others, self.size_bytes_max)
        if draw.chance(MENDED_CHANCE):
            self.mend(data)
        return bytes(data)


def field_of(error: CorruptFileError, file: str, size_bytes: int) -> str:
    """Return the field that an error names. Raises TargetViolation if the error is incomplete."""
    if error.file != file:
        raise TargetViolation("error-file", file, error.file)
    if not 0 <= error.offset <= size_bytes:
        raise TargetViolation("error-offset", f"0 to {size_bytes}", f"{error.offset}: {error}"[:300])
    if not error.field or not error.expected or not error.found:
        raise TargetViolation("error-text", "field, expected and found", str(error)[:300])
    if len(str(error)) > _TEXT_CHARACTERS_MAX:
        raise TargetViolation("error-text", f"{_TEXT_CHARACTERS_MAX} characters at most", len(str(error)))
    return error.field
