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
from base64 import b64decode, b64encode
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

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


class Step(NamedTuple):
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


class Unseen(NamedTuple):
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
        return {
            "format": FORMAT,
            "program": list(self.program),
            "exit": self.exit,
            "steps": [_step_json(step) for step in self.steps],
            "stacks": [[list(place) for place in stack] for stack in self.stacks],
            "unseen": [{"event": one.event, "detail": one.detail, "from": one.stack} for one in self.unseen],
        }

    @classmethod
    def from_json(cls, document: Any) -> "ProgramRecord":
        """Read what to_json wrote. Raises RecordError saying what is wrong with another document."""
        found = document.get("format") if isinstance(document, dict) else type(document).__name__
        if found != FORMAT:
            raise RecordError(f"record: format: expected {FORMAT}, found {found}")
        try:
            record = cls(
                tuple(document["program"]),
                tuple(_step_of(number, step) for number, step in enumerate(document["steps"])),
                tuple(tuple(SourceLine(*place) for place in stack) for stack in document["stacks"]),
                tuple(Unseen(one["event"], one["detail"], one["from"]) for one in document["unseen"]),
                document["exit"],
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise RecordError(f"record: {type(error).__name__}: {error}") from error
        _check(record)
        return record

    def dumps(self) -> str:
        """Return the record as text."""
        return json.dumps(self.to_json())


def _step_json(step: Step) -> dict[str, Any]:
    """Return a step without the fields that say nothing."""
    named: dict[str, Any] = {"do": step.kind}
    if step.path:
        named["path"] = step.path
    if step.target:
        named["target"] = step.target
    if step.file >= 0:
        named["file"] = step.file
    if step.at:
        named["at"] = step.at
    if step.data:
        named["data"] = b64encode(step.data).decode()
    named["from"] = step.stack
    return named


def _step_of(number: int, named: dict[str, Any]) -> Step:
    try:
        data = b64decode(named.get("data", ""), validate=True)
    except ValueError as error:
        raise RecordError(f"record: step {number}: data: expected base64, found {error}") from error
    return Step(
        named["do"],
        named.get("path", ""),
        named.get("target", ""),
        named.get("file", -1),
        named.get("at", 0),
        data,
        named["from"],
    )


def _check(record: ProgramRecord) -> None:
    """Raise RecordError if a step cannot be: what is carried out later is bounded here."""
    for number, step in enumerate(record.steps):
        if step.kind not in KINDS:
            raise RecordError(
                f"record: step {number}: do: expected one of {', '.join(KINDS)}, found {step.kind}"
            )
        if not 0 <= step.at <= FILE_BYTES_MAX - len(step.data):
            raise RecordError(
                f"record: step {number}: at: expected 0 to {FILE_BYTES_MAX} with its data, found {step.at}"
            )
        if not 0 <= step.stack < len(record.stacks):
            raise RecordError(
                f"record: step {number}: from: expected less than {len(record.stacks)}, found {step.stack}"
            )


def only_promises(steps: Sequence[Step], printed: Collection[int]) -> list[Step]:
    """Return steps without printed lines, which have these numbers, if the program has promised anything by itself."""
    made = [number for number, step in enumerate(steps) if step.kind == ACKNOWLEDGE and number not in printed]
    return [step for number, step in enumerate(steps) if not (made and number in printed)]
