"""The record of what a program did to its files, in order: the one thing that is known of it afterwards.

Paths are absolute on the disk that the program is given: what lies in its directory is below `/files`, what it makes by
`tempfile` below `/tmp`. Files go by numbers, for a descriptor outlives names: those that are there at the start, in the
order of their paths, have the first ones.

    kind              path    target   file   at      size   data
    create            name    -        its    -       -      -        path "": a file without a name, O_TMPFILE
    write             -       -        which  offset  -      bytes
    store             -       -        which  offset  -      bytes    through a map; within one page, seen whole or not
    truncate          -       -        which  size    -      -
    allocate          -       -        which  offset  bytes  -        the file is at least that long: at + size
    zero range        -       -        which  offset  bytes  -        what of it is in the file is zeros
    sync              -       "data"   which  offset  bytes  -        fsync; with a target fdatasync, msync, O_DSYNC;
                                                                      size 0: all of it
    rename            old     new      -      -       -      -        of a file, or of a directory with all it holds
    exchange          one     other    -      -       -      -        RENAME_EXCHANGE
    link              old     new      -      -       -      -        path "": of the file by its number
    symlink           name    text     -      -       -      -
    unlink            name    -        -      -       -      -
    make directory    name    -        -      -       -      -
    remove directory  name    -        -      -       -      -
    sync directory    name    -        -      -       -      -
    sync all          -       -        -      -       -      -
    failed sync       -       -        which  offset  bytes  -        as sync, or all; EIO: clean, and not durable
    lying sync        name    -        which  offset  bytes  -        as sync, or sync directory, but not durable yet
    fault             kind    detail   which  -       -      -        a call was made to fail; it did nothing by that
    acknowledge       text    -        -      -       -      -        a promise; without any, a printed line

Modes, owners, times and extended attributes are not in it: the simulated disk keeps none that a program could lose.
Nor are calls that change no content and make nothing durable. Blocks reserved beyond the end (FALLOC_FL_KEEP_SIZE) show
in no file, and the disk has room for all that was recorded. msync(MS_ASYNC) "is in fact a no-op" (msync(2)).
sync_file_range writes no metadata and flushes no drive: "there are no guarantees that the data will be available after
a crash" (sync_file_range(2)).

JSON: `{"format": "tornlog-record/2", "program": [arguments], "exit": code, "steps": [{"do": kind, "path", "target",
"file", "at", "size", "data": base64, "from": stack, "by": task, "call": system call}], "stacks": [[[file, line,
function], ...]], "tasks": [[process, thread, name]], "unseen": [{"event", "detail", "from"}], "unended": text}`, in
steps what a kind does not use left out, and `unended` where it is empty. Stacks are innermost first. The recorder of
Python's own calls leaves `call` out; that of the system's calls has empty stacks, unless it is asked for them. In
`tornlog-record/1`, which is still read, `allocate` had the size in `at`, and there were no tasks.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec

FORMAT = "tornlog-record/2"
_FORMAT_BEFORE = "tornlog-record/1"
FILES, TEMPORARY = "/files", "/tmp"
"""Where the program's own directory and its temporary files are on its disk."""
CREATE, WRITE, STORE, TRUNCATE, ALLOCATE, ZERO_RANGE = "create", "write", "store", "truncate", "allocate", "zero range"
RENAME, EXCHANGE, LINK, SYMLINK, UNLINK = "rename", "exchange", "link", "symlink", "unlink"
MAKE_DIRECTORY, REMOVE_DIRECTORY = "make directory", "remove directory"
SYNC, SYNC_DIRECTORY, SYNC_ALL = "sync", "sync directory", "sync all"
FAILED_SYNC, LYING_SYNC, FAULT = "failed sync", "lying sync", "fault"
DATA = "data"
"""The target of a sync that is one of data only: of no times, and so of fewer names of other files."""
INJECTED = (FAILED_SYNC, LYING_SYNC, FAULT)
"""What a program did not do by itself: faults that its calls were made to meet."""
ACKNOWLEDGE = "acknowledge"
KINDS = (
    *(CREATE, WRITE, STORE, TRUNCATE, ALLOCATE, ZERO_RANGE, RENAME, EXCHANGE, LINK, SYMLINK, UNLINK),
    *(MAKE_DIRECTORY, REMOVE_DIRECTORY, SYNC, SYNC_DIRECTORY, SYNC_ALL, *INJECTED, ACKNOWLEDGE),
)
FILE_BYTES_MAX = 1 << 40
"""The length of one file. Files cost what is written to them, not their length."""
RECORD_BYTES_MAX = 256 << 20
"""Of all that is written: what is more is not replayed, but reported."""


class RecordError(ValueError):
    """A document is no record, or one that makes no sense."""


class Step(msgspec.Struct, frozen=True, omit_defaults=True, rename={"kind": "do", "stack": "from"}):
    """One thing that the program did. Which fields a kind uses is at the head of this file."""

    kind: str
    path: str = ""
    target: str = ""
    file: int = -1
    at: int = 0
    size: int = 0
    data: bytes = b""
    stack: int = 0
    by: int = 0
    """Who did it, by the record's `tasks`."""
    call: str = ""
    """The system call, where the recorder stands at these."""


class SourceLine(NamedTuple):
    """A line of a program."""

    file: str
    line: int
    function: str


class ProgramTask(NamedTuple):
    """A thread of the program, or of a process that it started. Both numbers are in the order of appearance."""

    process: int
    thread: int
    name: str


NOBODY = ProgramTask(-1, -1, "")
"""Who made the promises that a record begins with, if it is one of a check."""


class Unseen(msgspec.Struct, frozen=True, rename={"stack": "from"}):
    """Something the program did that a recorder does not stand before.

    event: an audit event of Python's, a system call, or a limit.
    """

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
    tasks: tuple[ProgramTask, ...] = (ProgramTask(0, 0, ""),)
    unended: str = ""
    """What of a line was printed, or promised, of which the end never came: it is no promise."""
    before: tuple[str, ...] = ()
    """The paths of the files that were there before the first step, by their numbers. The image of the start has them,
    so they are not in the document.
    """

    @property
    def acknowledged(self) -> list[str]:
        """Return all that was promised, in order."""
        return [step.path for step in self.steps if step.kind == ACKNOWLEDGE]

    @property
    def injected(self) -> list[int]:
        """Return the numbers of the steps that are faults."""
        return [number for number, step in enumerate(self.steps) if step.kind in INJECTED]

    def upto(self, steps: int) -> "ProgramRecord":
        """Return the first steps only, with all stacks."""
        return replace(self, steps=self.steps[:steps], unseen=(), unended="")

    def to_json(self) -> dict[str, Any]:
        """Return the record as a document."""
        document: dict[str, Any] = {"format": FORMAT, **msgspec.to_builtins(self)}
        for named, step in zip(document["steps"], self.steps, strict=True):
            named["from"] = step.stack  # also where it is 0, which readers do not take for granted
        del document["before"]
        if not self.unended:
            del document["unended"]
        return document

    @classmethod
    def from_json(cls, document: Any) -> "ProgramRecord":
        """Read what to_json wrote. Raises RecordError saying what is wrong with another document."""
        found = document.get("format") if isinstance(document, dict) else type(document).__name__
        if found not in (FORMAT, _FORMAT_BEFORE):
            raise RecordError(f"record: format: expected {FORMAT}, found {found}")
        try:
            record = msgspec.convert(document, cls)
        except msgspec.ValidationError as error:
            raise RecordError(f"record: {error}") from error
        if found == _FORMAT_BEFORE:
            record = _from_before(record)
        _check(record)
        return record

    def dumps(self) -> str:
        """Return the record as text."""
        return json.dumps(self.to_json())


def _from_before(record: ProgramRecord) -> ProgramRecord:
    """Return a record of the format before as one of this format."""
    steps = (
        msgspec.structs.replace(step, at=0, size=step.at) if step.kind == ALLOCATE else step for step in record.steps
    )
    return replace(record, steps=tuple(steps))


def _check(record: ProgramRecord) -> None:
    """Raise RecordError if a step cannot be: what is carried out later is bounded here."""
    for number, step in enumerate(record.steps):
        name, expected, found = "", "", ""
        if step.kind not in KINDS:
            name, expected, found = "do", f"one of {', '.join(KINDS)}", step.kind
        elif step.size < 0:
            name, expected, found = "size", "at least 0", str(step.size)
        elif not 0 <= step.at <= FILE_BYTES_MAX - max(len(step.data), step.size):
            name, expected, found = "at", f"0 to {FILE_BYTES_MAX} with its data", str(step.at)
        elif not 0 <= step.stack < len(record.stacks):
            name, expected, found = "from", f"less than {len(record.stacks)}", str(step.stack)
        elif not 0 <= step.by < len(record.tasks):
            name, expected, found = "by", f"less than {len(record.tasks)}", str(step.by)
        if name:
            raise RecordError(f"record: step {number}: {name}: expected {expected}, found {found}")


def has_promised(steps: Sequence[Step], printed: Collection[int]) -> bool:
    """Return whether a program has promised anything by itself: the lines that it has printed are no promises then."""
    return any(step.kind == ACKNOWLEDGE and number not in printed for number, step in enumerate(steps))


def only_promises(steps: Sequence[Step], printed: Collection[int]) -> list[Step]:
    """Return steps without printed lines, which have these numbers, if the program has promised anything by itself."""
    made = has_promised(steps, printed)
    return [step for number, step in enumerate(steps) if not (made and number in printed)]
