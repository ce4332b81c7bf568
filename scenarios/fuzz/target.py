"""Fuzz targets: make valid inputs of a format, mutate them, and judge inputs.

The outcome of an input is a short text. Inputs on the same code path have the same outcome. Inputs with a new outcome
are mutated further. A finding is a `TargetViolation`, or an error that the called function does not document.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from ...store.errors import CorruptFileError
from .mutation import Draw, mutate_bytes
from .shape import Shape, shape_of_file

CORRECTED_CHANCE = 0.5
"""Probability that a mutated input gets correct checksums."""
_TEXT_CHARACTERS_MAX = 200_000


class InputOutcome(NamedTuple):
    """The result of an input."""

    accepted: bool
    way: str
    """The code path, for example the refused field and the number of records before it."""


class TargetViolation(Exception):
    """The code under test violates a guarantee."""

    def __init__(self, kind: str, expected: object, found: object) -> None:
        super().__init__(f"{kind}: expected {expected}, found {found}")
        self.kind = kind
        self.expected = str(expected)
        self.found = str(found)


class Target(ABC):
    """A format to fuzz."""

    name: ClassVar[str]
    file: ClassVar[str] = ""
    """Path of a file of this format in a store directory."""
    children: ClassVar[int] = 32
    """Number of mutated copies of one input in a round."""
    size_bytes_max: ClassVar[int] = 4096
    """Maximum length of an input. Longer inputs are truncated."""
    cpu_seconds_max: ClassVar[float] = 2.0
    """Time limit for one input: at least a thousand times the time for a valid input."""
    memory_bytes_max: ClassVar[int] = 1 << 20
    """Limit of the memory allocated at one time while an input is judged."""
    inputs_between_measurements: ClassVar[int] = 1
    """Minimum number of inputs between two memory measurements."""
    keeps_length: ClassVar[bool] = False
    """Whether minimisation may remove only whole parts from an input."""

    @abstractmethod
    def valid_input(self, draw: Draw) -> bytes:
        """Make a valid input with the store's own encoders."""

    @abstractmethod
    def check(self, raw: bytes) -> InputOutcome:
        """Judge an input. Raises TargetViolation, or an undocumented error of the code under test."""

    def shape(self, raw: bytes) -> Shape:
        return shape_of_file(self.file, raw)

    def correct_checksums(self, data: bytearray) -> None:  # noqa: B027 - most formats need no correction
        """Correct checksums and similar fields in place, so that fuzzing reaches the code after a check."""

    def mutate(self, raw: bytes, shape: Shape, draw: Draw, others: Sequence[bytes]) -> bytes:
        data = mutate_bytes(raw, shape, draw, others, self.size_bytes_max)
        if draw.chance(CORRECTED_CHANCE):
            self.correct_checksums(data)
        return bytes(data)


def field_in_error(error: CorruptFileError, file: str, size_bytes: int) -> str:
    """Return the field that an error names. Raises TargetViolation for an incomplete error."""
    if error.file != file:
        raise TargetViolation("error-file", file, error.file)
    if not 0 <= error.offset <= size_bytes:
        raise TargetViolation("error-offset", f"0 to {size_bytes}", f"{error.offset}: {error}"[:300])
    if not error.field or not error.expected or not error.found:
        raise TargetViolation("error-text", "field, expected and found", str(error)[:300])
    if len(str(error)) > _TEXT_CHARACTERS_MAX:
        raise TargetViolation("error-text", f"{_TEXT_CHARACTERS_MAX} characters at most", len(str(error)))
    return error.field
