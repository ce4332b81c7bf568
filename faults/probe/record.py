"""Record of a program: the sequence of its file changes and promises.

Paths are absolute on the program's disk: its working directory is `/files`, and its temporary files are below `/tmp`.
Steps identify files by number, because a program can use a file after the unlink of its name. The initial files have
the first numbers, sorted by path.

    kind              path    target   file   at      size   data
    create            name    -        new    -       -      -        path "": a file without a name, O_TMPFILE
    write             -       -        number offset  -      bytes
    store             -       -        number offset  -      bytes    through a map; within one page, atomic
    truncate          -       -        number size    -      -
    allocate          -       -        number offset  bytes  -        extends the file to at least at + size
    zero range        -       -        number offset  bytes  -        zeros, up to the end of the file
    sync              -       "data"   number offset  bytes  -        fsync; with a target fdatasync, msync, O_DSYNC;
                                                                      size 0: the whole file
    rename            old     new      -      -       -      -        of a file, or of a directory with its content
    exchange          one     other    -      -       -      -        RENAME_EXCHANGE
    link              old     new      -      -       -      -        path "": of the file by its number
    symlink           name    text     -      -       -      -
    unlink            name    -        -      -       -      -
    make directory    name    -        -      -       -      -
    remove directory  name    -        -      -       -      -
    sync directory    name    -        -      -       -      -
    sync all          -       -        -      -       -      -
    failed sync       -       -        number offset  bytes  -        as sync, or all; EIO: clean, and not durable
    lying sync        name    -        number offset  bytes  -        as sync, or sync directory, but not durable yet
    fault             kind    detail   number -       -      -        an injected fault made a call fail, without effect
    acknowledge       text    -        -      -       -      -        a promise; without promises, a printed line
    refuse            text    -        -      -       -      -        an operation that returned an error to its user

A record omits modes, owners, times and extended attributes, which the simulated disk does not store, and calls that
neither change content nor make data durable. Blocks reserved beyond the end (FALLOC_FL_KEEP_SIZE) do not change a file,
and the simulated disk is never full. msync(MS_ASYNC) "is in fact a no-op" (msync(2)). sync_file_range writes no
metadata and flushes no drive: "there are no guarantees that the data will be available after a crash"
(sync_file_range(2)).

JSON: `{"format": "tornlog-record/2", "program": [arguments], "exit": code, "steps": [{"do": kind, "path", "target",
"file", "at", "size", "data": base64, "from": stack, "by": task, "call": system call}], "stacks": [[[file, line,
function], ...]], "tasks": [[process, thread, name]], "unseen": [{"event", "detail", "from"}], "unended": text, "rules":
[[rule, injections]], "cuts": [step], "separate_disks": [[path, kind of crash]]}`. The document omits fields that the
kind does not use, and empty `unended`, `rules`, `cuts` and `separate_disks`. Stacks are innermost first. The recorder
of Python calls omits `call`. The recorder of system calls has stacks only on request. In `tornlog-record/1`, which can
still be read, `allocate` had the size in `at`, and there were no tasks.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec

FORMAT = "tornlog-record/2"
_FORMAT_BEFORE = "tornlog-record/1"
FILES, TEMPORARY = "/files", "/tmp"
"""The program's working directory and its temporary directory, on the simulated disk."""
CREATE, WRITE, STORE, TRUNCATE, ALLOCATE, ZERO_RANGE = "create", "write", "store", "truncate", "allocate", "zero range"
RENAME, EXCHANGE, LINK, SYMLINK, UNLINK = "rename", "exchange", "link", "symlink", "unlink"
MAKE_DIRECTORY, REMOVE_DIRECTORY = "make directory", "remove directory"
SYNC, SYNC_DIRECTORY, SYNC_ALL = "sync", "sync directory", "sync all"
FAILED_SYNC, LYING_SYNC, FAULT = "failed sync", "lying sync", "fault"
DATA = "data"
"""Target of a data-only sync, which does not commit times, and so commits fewer names of other files."""
INJECTED = (FAILED_SYNC, LYING_SYNC, FAULT)
ACKNOWLEDGE, REFUSE = "acknowledge", "refuse"
ANSWERS = (ACKNOWLEDGE, REFUSE)
"""Steps that tell a user the result of an operation. They change no file."""
REFUSED_PREFIX = "refused "
"""Prefix of a promise that `with_refusals` turns into a refusal."""
TWO_NAMES = (RENAME, EXCHANGE, LINK)
"""Steps whose names must be on one disk."""
KINDS = (
    *(CREATE, WRITE, STORE, TRUNCATE, ALLOCATE, ZERO_RANGE, RENAME, EXCHANGE, LINK, SYMLINK, UNLINK),
    *(MAKE_DIRECTORY, REMOVE_DIRECTORY, SYNC, SYNC_DIRECTORY, SYNC_ALL, *INJECTED, *ANSWERS),
)
FILE_BYTES_MAX = 1 << 40
"""Maximum length of one file. The memory cost depends only on its data."""
RECORD_BYTES_MAX = 256 << 20
"""Maximum amount of written data. A probe reports a program that writes more, and does not replay it."""
STEPS_MAX = 1_000_000
UNSEEN_MAX = 100


class RecordError(ValueError):
    """A document is not a valid record."""


class Step(msgspec.Struct, frozen=True, omit_defaults=True, rename={"kind": "do", "stack": "from"}):
    """One recorded action. The module docstring lists the fields of each kind."""

    kind: str
    path: str = ""
    target: str = ""
    file: int = -1
    at: int = 0
    size: int = 0
    data: bytes = b""
    stack: int = 0
    by: int = 0
    """Index in the record's `tasks`."""
    call: str = ""
    """Name of the system call, if the program was recorded at system calls."""


class SourceLine(NamedTuple):
    """A line of a program."""

    file: str
    line: int
    function: str


class ProgramTask(NamedTuple):
    """A thread of the program or of a child process. Numbers follow the order of appearance."""

    process: int
    thread: int
    name: str


class SeparateDisk(NamedTuple):
    """A directory on its own disk. profile: crash profile of its file system; "": the crash profile of the probe."""

    path: str
    profile: str = ""


def separate_disk_of(separate_disks: Iterable[SeparateDisk], path: str) -> SeparateDisk | None:
    """Return the separate disk of a path, or None for the disk with all other files."""
    return next((one for one in separate_disks if f"{path}/".startswith(f"{one.path}/")), None)


class CrossDeviceError(Exception):
    """A step has names on two disks, for which the kernel returns EXDEV."""

    def __init__(self, number: int, step: Step) -> None:
        names = " -> ".join(path.removeprefix(f"{FILES}/") for path in (step.path, step.target))
        super().__init__(
            f"step {number + 1}, {step.kind} {names}: the names are on two disks, where this call fails with EXDEV"
        )


PROMISE_TASK = ProgramTask(-1, -1, "")
"""The task of the promises before a recorded recovery."""


class UnseenAction(msgspec.Struct, frozen=True, rename={"stack": "from"}):
    """An action that the recorder does not support. event: a Python audit event, a system call, or a limit."""

    event: str
    detail: str
    stack: int


class Answers(NamedTuple):
    """The promises and the refused operations of a program up to some moment."""

    acknowledged: list[str]
    refused: Sequence[str] = ()

    @classmethod
    def from_steps(cls, steps: Sequence[Step]) -> "Answers":
        texts = [[step.path for step in steps if step.kind == kind] for kind in ANSWERS]
        return cls(*texts)

    @property
    def steps(self) -> Iterator[Step]:
        """Yield a step for each promise, then for each refusal."""
        for kind, texts in zip(ANSWERS, self, strict=True):
            yield from (Step(kind, text) for text in texts)


@dataclass(frozen=True, slots=True)
class ProgramRecord:
    """All changes of one run of a program."""

    program: tuple[str, ...]
    steps: tuple[Step, ...]
    stacks: tuple[tuple[SourceLine, ...], ...]
    unseen: tuple[UnseenAction, ...] = ()
    exit: int = 0
    tasks: tuple[ProgramTask, ...] = (ProgramTask(0, 0, ""),)
    unended: str = ""
    """The last line of output without a line break, which is no promise."""
    before: tuple[str, ...] = ()
    """Paths of the initial files, by number. The document omits them, because the start image has them."""
    rules: tuple[tuple[str, int], ...] = ()
    """Fault rules that the program requested, each with the number of injections."""
    cuts: tuple[int, ...] = ()
    """Crash points that the program requested, each as the number of the next step."""
    separate_disks: tuple[SeparateDisk, ...] = ()
    """Directories on separate disks. All other files are on one more disk."""

    @property
    def acknowledged(self) -> list[str]:
        return [step.path for step in self.steps if step.kind == ACKNOWLEDGE]

    @property
    def refused(self) -> list[str]:
        return [step.path for step in self.steps if step.kind == REFUSE]

    @property
    def answers(self) -> list[Step]:
        """Return the steps that are promises or refusals."""
        return [step for step in self.steps if step.kind in ANSWERS]

    def with_refusals(self) -> "ProgramRecord":
        """Return the record with promises with the prefix `refused ` as refusals."""
        return replace(self, steps=tuple(map(_as_refusal, self.steps)))

    def with_separate_disks(self, separate_disks: Sequence[SeparateDisk]) -> "ProgramRecord":
        """Return the record with directories on separate disks. CrossDeviceError: a step has names on two disks."""
        for number, step in enumerate(self.steps):
            names = (step.path, step.target) if step.kind in TWO_NAMES and step.path else ()
            if len({separate_disk_of(separate_disks, name) for name in names}) > 1:
                raise CrossDeviceError(number, step)
        return replace(self, separate_disks=tuple(separate_disks))

    @property
    def injected(self) -> list[int]:
        """Return the numbers of the steps that are injected faults."""
        return [number for number, step in enumerate(self.steps) if step.kind in INJECTED]

    def with_first_steps(self, steps: int) -> "ProgramRecord":
        """Return the record with only its first steps, and with all stacks."""
        assert steps >= 0, steps
        return replace(self, steps=self.steps[:steps], unseen=(), unended="")

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {"format": FORMAT, **msgspec.to_builtins(self)}
        for named, step in zip(document["steps"], self.steps, strict=True):
            named["from"] = step.stack  # written even if 0, because readers require the field
        del document["before"]
        for name in ("unended", "rules", "cuts", "separate_disks"):
            if not document[name]:
                del document[name]
        return document

    @classmethod
    def from_json(cls, document: Any) -> "ProgramRecord":
        """Read the output of to_json. RecordError: the first invalid field."""
        found = document.get("format") if isinstance(document, dict) else type(document).__name__
        if found not in (FORMAT, _FORMAT_BEFORE):
            raise RecordError(f"record: format: expected {FORMAT}, found {found}")
        try:
            record = msgspec.convert(document, cls)
        except msgspec.ValidationError as error:
            raise RecordError(f"record: {error}") from error
        if found == _FORMAT_BEFORE:
            record = _from_previous_format(record)
        _check_steps(record)
        return record

    def dumps(self) -> str:
        return json.dumps(self.to_json())


def _as_refusal(step: Step) -> Step:
    if step.kind != ACKNOWLEDGE or not step.path.startswith(REFUSED_PREFIX):
        return step
    return msgspec.structs.replace(step, kind=REFUSE, path=step.path.removeprefix(REFUSED_PREFIX))


def _from_previous_format(record: ProgramRecord) -> ProgramRecord:
    steps = (
        msgspec.structs.replace(step, at=0, size=step.at) if step.kind == ALLOCATE else step for step in record.steps
    )
    return replace(record, steps=tuple(steps))


def _check_steps(record: ProgramRecord) -> None:
    """Raise RecordError for an invalid step, or for one that would make a replay too expensive."""
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
    """Return whether a program has called `acknowledge`, so that its printed lines are no promises."""
    return any(step.kind == ACKNOWLEDGE and number not in printed for number, step in enumerate(steps))


def only_promises(steps: Sequence[Step], printed: Collection[int]) -> list[Step]:
    """If the program has called `acknowledge`, remove its printed lines. printed: their numbers."""
    made = has_promised(steps, printed)
    return [step for number, step in enumerate(steps) if not (made and number in printed)]
