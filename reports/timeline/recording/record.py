"""Recordings: the plain data of one run, for timelines.

`begin`, `end` and `at` are moments: indices into `RunRecording.moments`, which are in the order of events. Virtual time
cannot order events, because it stands still while code runs, so hundreds of events share a nanosecond. Byte ranges are
[start, stop), from the first byte of the file.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from ....scenarios.claims.plan import Plan
from ....scenarios.oracle.evidence import Violation

RUNNING, READY, WAITING = "running", "ready", "waiting"
"""States of a task; a ready task could run, a waiting one is blocked."""
WROTE, COMMITTED, FLUSHED, DISPATCHED = "wrote", "committed", "flushed", "dispatched"
"""Log offsets: after the last put; in the files (with a pool); durable according to the store; visible in queues."""

EMPTY, DURABLE, DIRTY, DROPPED = "e", "d", "w", "x"
"""Sectors before a cut: durable zeros; durable data; written without a sync; dropped by a failed sync."""
KEPT, LOST, MIXED, BACK, CHANGED, ABSENT = "k", "l", "m", "b", "o", "-"
"""Sectors after a cut, besides EMPTY and DURABLE.

In this order: a dirty sector that survived; one with its older content; one with neither content; a sector of a file
that came back because a rename or removal was undone; one that changed while the machine was off; and one after the end
of the file or of a missing file.
"""

CUT_OFF = "cut off"
"""Ending of an operation, task or put in flight when its machine died."""


class Subject(NamedTuple):
    """Identifies the run."""

    scenario: str
    claim: str
    seed: int | None
    """None for a recording of a real program."""
    mutant: str | None


class RecordedMoment(NamedTuple):
    """Virtual time, and the number of scheduling points passed."""

    now_ns: int
    step: int


@dataclass(slots=True)
class MachineRecord:
    """One machine. ending: `killed`, `stopped`, or empty if the run ended first."""

    name: str
    begin: int
    end: int = -1
    ending: str = ""


@dataclass(slots=True)
class TaskRecord:
    """One task, named `machine/name`. ending: empty, CUT_OFF, or its error."""

    name: str
    begin: int
    end: int = -1
    ending: str = ""

    @property
    def machine(self) -> str:
        return self.name.partition("/")[0]


class Span(NamedTuple):
    """A task in one state. why: what it waits for, such as `lock put held by life-0/main`."""

    task: int
    state: str
    begin: int
    end: int
    why: str


@dataclass(slots=True)
class Hold:
    """A lock held by a task."""

    task: int
    lock: str
    begin: int
    end: int = -1


@dataclass(slots=True)
class OperationRecord:
    """One file operation of a store. start is -1 without a range.

    ending: empty after success, CUT_OFF, or the error. parts: the operations of the disk model, if their names differ
    from
    kind. place: the source line of the call, if known. taken: the effects lost in the crash, in words.
    """

    task: int
    kind: str
    path: str
    start: int
    stop: int
    begin: int
    end: int = -1
    ending: str = ""
    parts: list[str] = field(default_factory=list)
    place: str = ""
    taken: str = ""


class PromiseMade(NamedTuple):
    """A promise that a program printed for its users, and its source line."""

    task: int
    text: str
    begin: int
    end: int
    place: str


class Position(NamedTuple):
    """A position of the log from a moment on."""

    name: str
    at: int
    value: int


class CheckpointWrite(NamedTuple):
    """The times written to a checkpoint, in ms."""

    at: int
    physic_ms: int
    logics_ms: int
    index_ms: int


class Fault(NamedTuple):
    """An injected fault. about: the file or the task."""

    at: int
    kind: str
    about: str


class RecoveryOutcome(NamedTuple):
    """The result of one recovery for a put. promised: the put was owed. returned: an earlier recovery missed it."""

    at: int
    machine: str
    found: bool
    promised: bool
    returned: bool


@dataclass(slots=True)
class Put:
    """One message of a producer. path and range: place of its record; path is empty if it was never written.

    status: the answer, or empty; answered is then -1.
    """

    name: str
    topic: str
    queue_id: int
    wait: bool
    task: int
    asked: int
    answered: int = -1
    status: str = ""
    log_offset: int = -1
    queue_offset: int = -1
    path: str = ""
    start: int = -1
    stop: int = -1
    outcomes: list[RecoveryOutcome] = field(default_factory=list)


class FileMap(NamedTuple):
    """The sectors of one file at a cut, one letter each. The size of a missing file is -1.

    torn: torn pages after the cut. pages: the pages of the sectors, in order; empty for all pages. more: how many other
    pages changed.
    """

    path: str
    bytes_before: int
    bytes_after: int
    before: str
    after: str
    torn: tuple[int, ...]
    name_is_durable: bool
    pages: tuple[int, ...] = ()
    more: int = 0


@dataclass(slots=True)
class Cut:
    """The end of a machine, and its losses.

    how: the crash profile, or the other cause of changes. operation, path, when: the current file operation, and
    whether
    the crash was before, during or after its effect; empty without one. lost: lost names, sizes and removals, in words.
    damaged: puts with a record that is no longer whole. following: the next machine, if any.
    """

    at: int
    machine: str
    how: str = ""
    operation: str = ""
    path: str = ""
    when: str = ""
    lost: tuple[str, ...] = ()
    files: list[FileMap] = field(default_factory=list)
    damaged: list[int] = field(default_factory=list)
    following: str = ""


class ViolationRecord(NamedTuple):
    """A violation with its time and task. puts: the puts that it concerns."""

    at: int
    task: int
    violation: Violation
    puts: tuple[int, ...]


@dataclass(slots=True)
class RunRecording:
    """One run. Lists are sorted by begin; numbers of tasks and puts are indices of `tasks` and `puts`."""

    subject: Subject
    plan: Plan | None
    """None for a user's own code or a recorded program."""
    digest: str
    injected: dict[str, int]
    page_bytes: int
    sector_bytes: int
    moments: list[RecordedMoment]
    machines: list[MachineRecord]
    tasks: list[TaskRecord]
    spans: list[Span]
    holds: list[Hold]
    operations: list[OperationRecord]
    positions: list[Position]
    checkpoints: list[CheckpointWrite]
    faults: list[Fault]
    cuts: list[Cut]
    puts: list[Put]
    broken: list[ViolationRecord]
    promises: list[PromiseMade] = field(default_factory=list)
    facts: tuple[tuple[str, str], ...] = ()
    """Further facts of the whole run, by name."""
