"""Violations of the guarantees of a store directory, with file and offset."""

from dataclasses import dataclass, field
from enum import Enum
from errno import EACCES, EIO, EMFILE, ENFILE, ENOMEM, EPERM
from typing import NamedTuple

from ..errors import CorruptFileError

_REFUSALS = (EACCES, EPERM, EIO, EMFILE, ENFILE, ENOMEM)


def is_refusal(error: BaseException) -> bool:
    """Return whether an error has a cause other than damage, for example a missing permission."""
    return isinstance(error, OSError) and error.errno in _REFUSALS


def relative_to(root: str, file: str) -> str:
    """Return the path of `file` relative to `root`, or `.` for the root itself."""
    return "." if file == root else file.removeprefix(root.rstrip("/") + "/")


class DirectoryPromise(Enum):
    """The guarantees of a store directory."""

    LOG = "LOG"
    """The log has no gap between segments, and contains whole records followed by zeros."""
    QOFF = "QOFF"
    """Consecutive records of a queue have consecutive queueOffsets."""
    CQ_VALID = "CQ-VALID"
    """Entry n of a queue points to the record of that queue with queueOffset n, and has its size and tagsCode."""
    CQ_COMPLETE = "CQ-COMPLETE"
    """Every record has an entry in each of its queues."""
    IDX = "IDX"
    """The index contains exactly one entry for each key of each record, in log order."""
    CKPT = "CKPT"
    """No time in the checkpoint is later than the last record of the log."""
    META = "META"
    """Each side file is valid."""


class DirectoryViolation(NamedTuple):
    """A broken guarantee. `file` is relative to the store directory."""

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
    """Violations and notes of a verification."""

    root: str
    unclean_exit: bool
    violations: list[DirectoryViolation] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def violation(
        self, promise: DirectoryPromise, file: str, offset: int, name: str, expected: object, found: object
    ) -> DirectoryViolation:
        place = relative_to(self.root, file), offset
        return DirectoryViolation(promise, *place, name, str(expected), str(found))

    def add_violation(
        self, promise: DirectoryPromise, file: str, offset: int, name: str, expected: object, found: object
    ) -> None:
        self.violations.append(self.violation(promise, file, offset, name, expected, found))

    def extend(self, others: "Findings") -> None:
        self.violations += others.violations
        self.notes += others.notes

    def add_corrupt(self, promise: DirectoryPromise, error: CorruptFileError) -> None:
        self.add_violation(promise, error.file, error.offset, error.field, error.expected, error.found)

    def add_unreadable(self, promise: DirectoryPromise, file: str, error: OSError) -> None:
        """Report an unreadable file as damaged. Raises `error` again if its cause is not damage."""
        if is_refusal(error):
            error.filename = error.filename or file
            raise error
        self.add_violation(promise, error.filename or file, 0, "file", "a readable file", error.strerror or error)

    def add_stray_note(self, promise: DirectoryPromise, file: str, name: str, expected: object, found: object) -> None:
        violation = self.violation(promise, file, 0, name, expected, found)
        self.notes.append(f"{violation}; not part of the store; a start does not change it")

    def add_explained(self, violation: DirectoryViolation, consequence: str) -> None:
        """Add damage that a crash can cause: as a note after an unclean exit, else as a violation."""
        if self.unclean_exit:
            self.notes.append(f"{violation}; unclean exit: recovery will {consequence}")
        else:
            self.violations.append(violation)
