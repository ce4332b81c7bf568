"""The record of what a program did to its files, in order: the one thing that is known of it afterwards.

Paths are absolute on the disk that the program is given: what lies in its directory is below `/files`, what it makes by
`tempfile` below `/tmp`. Files go by numbers, for a descriptor outlives names: those that are there at the start, in the
order of their paths, have the first ones.

    kind              path    target   file   at      data
    create            name    -        its    -       -
    write             -       -        which  offset  bytes
    truncate          -       -        which  size    -
    allocate          -       -        which  size    -        posix_fallocate: the file is at least that long
    sync              -       -        which  -       -        fsync, fdatasync
    rename            old     new      -      -       -
    link              old     new      -      -       -
    unlink            name    -        -      -       -
    make directory    name    -        -      -       -
    remove directory  name    -        -      -       -
    sync directory    name    -        -      -       -
    sync all          -       -        -      -       -
    acknowledge       text    -        -      -       -        a promise; of programs that make none, a printed line

Modes, owners, times and extended attributes are not in it: the simulated disk keeps none that a program could lose.

JSON: `{"format": "tornlog-record/1", "program": [arguments], "exit": code, "steps": [{"do": kind, "path", "target",
"file", "at", "data": base64, "from": stack}], "stacks": [[[file, line, function], ...]], "unseen": [{"event",
"detail", "from"}]}`, in steps what a kind does not use left out. Stacks are innermost first.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec

FORMAT = "tornlog-record/1"
FILES, TEMPORARY = "/files", "/tmp"
"""Where the program's own directory and its temporary files are on its disk."""
CREATE, WRITE, TRUNCATE, ALLOCATE = "create", "write", "truncate", "allocate"
RENAME, LINK, UNLINK = "rename", "link", "unlink"
MAKE_DIRECTORY, REMOVE_DIRECTORY = "make directory", "remove directory"
SYNC, SYNC_DIRECTORY, SYNC_ALL = "sync", "sync directory", "sync all"
ACKNOWLEDGE = "acknowledge"
KINDS = (
    *(CREATE, WRITE, TRUNCATE, ALLOCATE, RENAME, LINK, UNLINK, MAKE_DIRECTORY, REMOVE_DIRECTORY),
    *(SYNC, SYNC_DIRECTORY, SYNC_ALL, ACKNOWLEDGE),
)
FILE_BYTES_MAX = 64 << 20
"""Of one file: what is longer is not replayed, but reported."""
RECORD_BYTES_MAX = 256 << 20
"""Of all that is written."""


class RecordError(ValueError):
    """A document is no record, or one that makes no sense."""


class Step(msgspec.Struct, frozen=True, omit_defaults=True, rename={"kind": "do", "stack": "from"}):
    """One thing that the program did. Which fields a kind uses is at the head of this file."""

    kind: str
    path: str = ""
    target: str = ""
    file: int = -1
    at: int = 0
    data: bytes = b""
    stack: int = 0


class SourceLine(NamedTuple):
    """A line of a program."""

    file: str
    line: int
    function: str


class Unseen(msgspec.Struct, frozen=True, rename={"stack": "from"}):
    """Something the program did that a recorder does not stand before: an audit event of Python's, or a limit."""

    event: str
    detail: str
    stack: int


@dataclass(frozen=True, slots=True)
class ProgramRecord:
    """All that one run of a program did to its files."""

    program: tuple[str, ...]
    steps: tuple[Step, ...]
    stacks: tuple[tuple[SourceLine, ...], ...]
    unseen: tuple[Unseen, ...] = ()
    exit: int = 0

    @property
    def acknowledged(self) -> list[str]:
        """Return all that was promised, in order."""
        return [step.path for step in self.steps if step.kind == ACKNOWLEDGE]

    def upto(self, steps: int) -> "ProgramRecord":
        """Return the first steps only, with all stacks."""
        return replace(self, steps=self.steps[:steps], unseen=())

    def to_json(self) -> dict[str, Any]:
        """Return the record as a document."""
        document: dict[str, Any] = {"format": FORMAT, **msgspec.to_builtins(self)}
        for named, step in zip(document["steps"], self.steps, strict=True):
            named["from"] = step.stack  # also where it is 0, which readers do not take for granted
        return document

    @classmethod
    def from_json(cls, document: Any) -> "ProgramRecord":
        """Read what to_json wrote. Raises RecordError saying what is wrong with another document."""
        found = document.get("format") if isinstance(document, dict) else type(document).__name__
        if found != FORMAT:
            raise RecordError(f"record: format: expected {FORMAT}, found {found}")
        try:
            record = msgspec.convert(document, cls)
        except msgspec.ValidationError as error:
            raise RecordError(f"record: {error}") from error
        _check(record)
        return record

    def dumps(self) -> str:
        """Return the record as text."""
        return json.dumps(self.to_json())


def _check(record: ProgramRecord) -> None:
    """Raise RecordError if a step cannot be: what is carried out later is bounded here."""
    for number, step in enumerate(record.steps):
        name, expected, found = "", "", ""
        if step.kind not in KINDS:
            name, expected, found = "do", f"one of {', '.join(KINDS)}", step.kind
        elif not 0 <= step.at <= FILE_BYTES_MAX - len(step.data):
            name, expected, found = "at", f"0 to {FILE_BYTES_MAX} with its data", str(step.at)
        elif not 0 <= step.stack < len(record.stacks):
            name, expected, found = "from", f"less than {len(record.stacks)}", str(step.stack)
        if name:
            raise RecordError(f"record: step {number}: {name}: expected {expected}, found {found}")


def only_promises(steps: Sequence[Step], printed: Collection[int]) -> list[Step]:
    """Return steps without printed lines, which have these numbers, if the program has promised anything by itself."""
    made = [number for number, step in enumerate(steps) if step.kind == ACKNOWLEDGE and number not in printed]
    return [step for number, step in enumerate(steps) if not (made and number in printed)]
