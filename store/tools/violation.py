"""Violation of a guarantee of a store directory, and its place."""

from dataclasses import dataclass, field
from enum import Enum
from errno import EACCES, EIO, EMFILE, ENFILE, ENOMEM, EPERM
from typing import NamedTuple

from ..errors import CorruptFileError

_REFUSALS = (EACCES, EPERM, EIO, EMFILE, ENFILE, ENOMEM)


def is_refusal(error: BaseException) -> bool:
    """Return whether an error prevents reading a file but says nothing about its content: it is no damage."""
    return isinstance(error, OSError) and error.errno in _REFUSALS


def relative_to(root: str, file: str) -> str:
    """Return a path relative to root, `.` for root itself."""
    return "." if file == root else file.removeprefix(root.rstrip("/") + "/")


class DirectoryPromise(Enum):
    """The guarantees of a store directory."""

    LOG = "LOG"
    """The log is a row of whole segments, filled with whole records up to one end and zeros after it."""
    QOFF = "QOFF"
    """The queueOffsets of one queue count up by one."""
    CQ_VALID = "CQ-VALID"
    """Entry n of a queue points at the record of that queue with queueOffset n, with its size and tagsCode."""
    CQ_COMPLETE = "CQ-COMPLETE"
    """Every record that belongs in a queue has its entry there."""
    IDX = "IDX"
    """Every key of every record has exactly one index entry, in log order, and there are no others."""
    CKPT = "CKPT"
    """The checkpoint claims only records that are in the log."""
    META = "META"
    """Each side file can be read."""


class DirectoryViolation(NamedTuple):
    """One broken guarantee. file is relative to the store directory, offset counts from the file's start."""

    promise: DirectoryPromise
    file: str
    offset: int
    field: str
    expected: str
    found: str

    def __str__(self) -> str:
        place = f"{self.file} @ {self.offset}: {self.field}"
        return f"{place}: expected {self.expected}, found {self.found} [{self.promise.value}]"


@dataclass(slots=True)
class Findings:
    """Violations and notes of a verification, in the order of finding."""

    root: str
    unclean_exit: bool
    violations: list[DirectoryViolation] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def violation(
        self, promise: DirectoryPromise, file: str, offset: int, name: str, expected: object, found: object
    ) -> DirectoryViolation:
        """Return a violation; file is a path of the world."""
        place = relative_to(self.root, file), offset
        return DirectoryViolation(promise, *place, name, str(expected), str(found))

    def violated(
        self, promise: DirectoryPromise, file: str, offset: int, name: str, expected: object, found: object
    ) -> None:
        """Add a violation; file is a path of the world."""
        self.violations.append(self.violation(promise, file, offset, name, expected, found))

    def extend(self, others: "Findings") -> None:
        """Add the findings of another check of the same directory."""
        self.violations += others.violations
        self.notes += others.notes

    def corrupt(self, promise: DirectoryPromise, error: CorruptFileError) -> None:
        """Add the error of a decoder."""
        self.violated(promise, error.file, error.offset, error.field, error.expected, error.found)

    def unreadable(self, promise: DirectoryPromise, file: str, error: OSError) -> None:
        """Add an unreadable file. Raises the error if it says nothing about the content."""
        if is_refusal(error):
            error.filename = error.filename or file
            raise error
        self.violated(promise, error.filename or file, 0, "file", "a readable file", error.strerror or error)

    def stray(self, promise: DirectoryPromise, file: str, name: str, expected: object, found: object) -> None:
        """Add a foreign file as a note."""
        violation = self.violation(promise, file, 0, name, expected, found)
        self.notes.append(f"{violation}; no part of the store: a start leaves it alone")

    def explained(self, violation: DirectoryViolation, consequence: str) -> None:
        """Add a violation as a note after an unclean exit, which explains it; else as a violation."""
        if self.unclean_exit:
            self.notes.append(f"{violation}; unclean exit: recovery will {consequence}")
        else:
            self.violations.append(violation)
