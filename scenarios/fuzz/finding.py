"""A finding is an artefact: one file that holds the input that broke a promise, and all there is to say about it.

format     "tornlog-fuzz-finding/1"
versions   of tornlog and Python
target     what was fuzzed; seed; mutant: its id or null; number: of the input, from 1
signature  the promise; expected and found, in words
input      the smallest input that breaks it, base64
original   the input that was found, base64; the same if nothing smaller was
"""

import json
import platform
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any

from ... import __version__
from ...faults.simulation.artefact import artefact_of
from .judging import FuzzViolation

FORMAT = "tornlog-fuzz-finding/1"
_KINDS: dict[str, tuple[type, ...]] = {
    "target": (str,),
    "seed": (int,),
    "mutant": (str, type(None)),
    "number": (int,),
    "signature": (str,),
    "expected": (str,),
    "found": (str,),
    "input": (str,),
    "original": (str,),
}


class FindingFileError(Exception):
    """A file that is not a finding this version can read."""


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
        document = {
            "format": FORMAT,
            "versions": {"tornlog": __version__, "python": platform.python_version()},
            "target": self.target,
            "seed": self.seed,
            "mutant": self.mutant,
            "number": self.number,
            "signature": self.breach.signature,
            "expected": self.breach.expected,
            "found": self.breach.found,
            "input": b64encode(self.raw).decode(),
            "original": b64encode(self.original).decode(),
        }
        return json.dumps(document, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "FuzzFailure":
        """Read an artefact. Raises FindingFileError naming what is wrong with it."""
        try:
            document = artefact_of(text, FORMAT)
        except ValueError as error:
            raise FindingFileError(str(error)) from error
        for name, kinds in _KINDS.items():
            if type(document.get(name)) not in kinds:
                expected = " or ".join(kind.__name__ for kind in kinds)
                raise FindingFileError(
                    f"{name}: expected {expected}, found {type(document.get(name)).__name__}"
                )
        return cls(
            document["target"],
            document["seed"],
            document["mutant"],
            document["number"],
            FuzzViolation(document["signature"], document["expected"], document["found"]),
            _bytes_of(document, "input"),
            _bytes_of(document, "original"),
        )


def _bytes_of(document: dict[str, Any], name: str) -> bytes:
    try:
        return b64decode(document[name], validate=True)
    except ValueError as error:
        raise FindingFileError(f"{name}: expected base64: {error}") from error
