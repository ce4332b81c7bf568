"""Findings of fuzzing: the input that broke a promise, and all there is to say about it.

As an artefact (`faults.simulation.artefact`, of the kind "fuzz"):

target     what was fuzzed; seed; mutant: its id or null; number: of the input, from 1
breach     signature: the promise; expected and found, in words
raw        the smallest input that breaks it, base64
original   the input that was found, base64; the same if nothing smaller was
"""

from dataclasses import dataclass

from ...faults.simulation.artefact import FUZZ, read_artefact, write_artefact
from .judging import FuzzViolation


@dataclass(frozen=True, slots=True)
class FuzzFailure:
    """One broken promise, and the inputs that break it."""

    target: str
    seed: int
    mutant: str | None
    number: int
    breach: FuzzViolation
    raw: bytes
    original: bytes

    @property
    def name(self) -> str:
        """Return what names the file: format and promise."""
        return f"fuzz-{self.target}-{self.breach.signature}"

    def to_json(self) -> str:
        """Return the artefact's text."""
        return write_artefact(FUZZ, self)

    @classmethod
    def from_json(cls, text: str) -> "FuzzFailure":
        """Read an artefact. Raises ArtefactError naming what is wrong with it."""
        return read_artefact(text, FUZZ, cls)
