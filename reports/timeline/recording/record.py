"""Recordings: define the data of one run from which timelines are drawn.

`begin`, `end` and `at` are moments: indices into `RunRecording.moments`, which are in the order of events. Virtual time
cannot order events, because hundreds of events can have the same nanosecond: time does not advance while code runs.
Byte ranges are [start, stop), from the first byte of the file.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from ....scenarios.claims.plan import Plan
from ....scenarios.oracle.evidence import Violation

RUNNING, READY, WAITING = "running", "ready", "waiting"
"""States of a task. A ready task could run, but another task runs; a waiting task is blocked."""
WROTE, COMMITTED, FLUSHED, DISPATCHED = "wrote", "committed", "flushed", "dispatched"
"""Names of log positions: ends of the written, committed (with a pool), flushed and dispatched log."""

EMPTY, DURABLE, DIRTY, DROPPED = "e", "d", "w", "x"
"""States of a sector before a cut: durable zeros; durable data; written but not synced; dropped by a failed sync."""
KEPT, LOST, MIXED, BACK, CHANGED, ABSENT = "k", "l", "m", "b", "o", "-"
"""States of a sector after a cut, except EMPTY and DURABLE: a dirty sector with the new content; with the old content;
with neither; a sector of a file that exists again because the crash undid a rename or removal; a sector that changed
while the machine was off; and a sector beyond the end of the file or of a missing file.
"""

CUT_OFF = "cut off"
"""Value of `ending` for an operation, task or put that was in flight when the machine died."""


class Subject(NamedTuple):
    """The scenario, seed and other values that identify a run."""

    scenario: str
    claim: str
    seed: int | None
    """None for a recorded program."""
    mutant: str | None


class RecordedMoment(NamedTuple):
    """A point in the order of events. step: number of scheduling points before it."""

    now_ns: int
    step: int


@dataclass(slots=True)
class MachineRecord:
    """One machine. ending: `killed`, `stopped`, or empty if it ran until the end of the run."""

    name: str
    begin: int
    end: int = -1
    ending: str = ""


@dataclass(slots=True)
class TaskRecord:
    """One task, named `machine/name`. ending: empty after a normal end, CUT_OFF, or the error of the task."""

    name: str
    begin: int
    end: int = -1
    ending: str = ""

    @property
    def machine(self) -> str:
        return self.name.partition("/")[0]


class Span(NamedTuple):
    """A task in one state. why: the reason for waiting, such as `lock put held by life-0/main`."""

    task: int
    state: str
    begin: int
    end: int
    why: str


@dataclass(slots=True)
class Hold:
    """A period in which a task holds a lock."""

    task: int
    lock: str
    begin: int
    end: int = -1


@dataclass(slots=True)
class OperationRecord:
    """One file operation of a store.

    start: -1 without a byte range. ending: empty after success, CUT_OFF, or the error. parts: names of the disk model's
    operations, if they differ from kind. place: the source line of the call, if known. taken: describes the effects
    that the crash undid.
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
    """An acknowledgement that a program printed. place: the source line that printed it."""

    task: int
    text: str
    begin: int
    end: int
    place: str


class Position(NamedTuple):
    """A log position that is valid from a moment on."""

    name: str
    at: int
    value: int


class CheckpointWrite(NamedTuple):
    """A write to the checkpoint, with the written store times in ms."""

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
    """Whether one recovery found a put. promised: it had to. returned: an earlier recovery had not found the put."""

    at: int
    machine: str
    found: bool
    promised: bool
    returned: bool


@dataclass(slots=True)
class Put:
    """One message of a producer.

    path, start, stop: the file and bytes of the record; path is empty if the record was never written. status: the
    answer; empty without an answer, and answered is then -1.
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
    """The sectors of one file at a cut, one letter per sector. The size of a missing file is -1.

    torn: numbers of torn pages after the cut. pages: numbers of the pages in the map, in order; empty if it has all
    pages. more: number of changed pages that are not in the map.
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
    """The death of a machine, and the data lost with it.

    how: the crash profile, or another cause of changes. operation, path, when: the file operation in progress, and
    whether the crash was before, during or after its effect; empty without an operation. lost: describes lost names,
    sizes and removals. damaged: puts with damaged records after the cut. following: the next machine, if any.
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
    """A violation with its time and task. puts: the numbers of the affected puts."""

    at: int
    task: int
    violation: Violation
    puts: tuple[int, ...]


@dataclass(slots=True)
class RunRecording:
    """The recording of one run. Lists are sorted by begin. Task and put numbers are indices of `tasks` and `puts`."""

    subject: Subject
    plan: Plan | None
    """None for a user's own scenario or a recorded program."""
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
    """Further facts as name and value."""
