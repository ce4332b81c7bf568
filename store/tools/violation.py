"""Violation of a guarantee of a store directory, with its place, and what an unclean exit explains."""

from dataclasses import dataclass, field
from enum import Enum
from errno import EACCES, EIO, EMFILE, ENFILE, ENOMEM, EPERM
from typing import NamedTuple

from ..errors import CorruptFileError

_REFUSALS = (EACCES, EPERM, EIO, EMFILE, ENFILE, ENOMEM)


def is_refusal(error: BaseException) -> bool:
    """Return whether an error keeps a file from being read and says nothing of what is in it: that is no damage."""
    return isinstance(error, OSError) and error.errno in _REFUSALS


def relative_to(root: str, file: str) -> str:
    """Return a path below root without root, `.` for root itself."""
    return "." if file == root else file.removeprefix(root.rstrip("/") + "/")


class DirectoryPromise(Enum):
    """Which promise is broken."""

    LOG = "LOG"
    """The log is a row of whole segments, filled with whole records up to one end, zeros behind it."""
    QOFF = "QOFF"
    """The records of one queue count up by one."""
    CQ_VALID = "CQ-VALID"
    """Entry n of a queue points at the record of that queue with queueOffset n, with its size and tagsCode."""
    CQ_COMPLETE = "CQ-COMPLETE"
    """Every record that belongs in a queue has its entry there."""
    IDX = "IDX"
    """Every key of every record has one entry in the index, in the order of the log, and nothing else is there."""
    CKPT = "CKPT"
    """The checkpoint claims nothing that is not in the log."""
    META = "META"
    """Each side file can be read."""


class DirectoryViolation(NamedTuple):
    """One broken promise. file is relative to the store directory, offset counts from the file's start."""

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
    """Everything a verification has to say, in the order of finding it."""

    root: str
    unclean_exit: bool
    violations: list[DirectoryViolation] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def violation(
        self, promise: DirectoryPromise, file: str, offset: int, name: str, expected: object, found: object
    ) -> DirectoryViolation:
        """Return a violation; file as the world spells it."""
        place = relative_to(self.root, file), offset
        return DirectoryViolation(promise, *place, name, str(expected), str(found))

    def violated(
        self, promise: DirectoryPromise, file: str, offset: int, name: str, expected: object, found: object
    ) -> None:
        """Add a violation; file as the world spells it."""
        self.violations.append(self.violation(promise, file, offset, name, expected, found))

    def extend(self, others: "Findings") -> None:
        """Add what was found elsewhere in the same directory."""
        self.violations += others.violations
        self.notes += others.notes

    def corrupt(self, promise: DirectoryPromise, error: CorruptFileError) -> None:
        """Add what a decoder complained about."""
        self.violated(promise, error.file, error.offset, error.field, error.expected, error.found)

    def unreadable(self, promise: DirectoryPromise, file: str, error: OSError) -> None:
        """Add a file that is not what it should be. Raises the error if it says nothing of what is there."""
        if is_refusal(error):
            error.filename = error.filename or file
            raise error
        self.violated(promise, error.filename or file, 0, "file", "a readable file", error.strerror or error)

    def stray(self, promise: DirectoryPromise, file: str, name: str, expected: object, found: object) -> None:
        """Add, as a note, what is among the store's files and not the store's."""
        violation = self.violation(promise, file, 0, name, expected, found)
        self.notes.append(f"{violation}; no part of the store: a start leaves it alone")

    def explained(self, violation: DirectoryViolation, consequence: str) -> None:
        """Add what an unclean exit explains as a note, and as a violation if the exit was clean."""
        if self.unclean_exit:
            self.notes.append(f"{violation}; unclean exit: recovery will {consequence}")
        else:
            self.violations.append(violation)
