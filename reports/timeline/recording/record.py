"""Recordings: plain data, for whoever draws it.

Everything has a moment: an index into `RunRecording.moments`, which are in the order in which things happened. That
order is what distinguishes events: virtual time stands still while anything runs, so hundreds of them may have the same
ns.
`begin` and `end` are moments. Ranges of bytes are [start, stop), counted from a file's first byte.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from ....scenarios.claims.plan import Plan
from ....scenarios.oracle.evidence import Violation

RUNNING, READY, WAITING = "running", "ready", "waiting"
"""States of a task: it runs; it could; it is blocked."""
WROTE, COMMITTED, FLUSHED, DISPATCHED = "wrote", "committed", "flushed", "dispatched"
"""Positions of the log, as log offsets: behind what was put, what is in the files (with a pool), what the store takes
for durable, and what is visible in queues."""

EMPTY, DURABLE, DIRTY, DROPPED = "e", "d", "w", "x"
"""Sectors before a cut: zeros and durable; durable; written and not synced; dropped by a sync that failed."""
KEPT, LOST, MIXED, BACK, CHANGED, ABSENT = "k", "l", "m", "b", "o", "-"
"""Sectors behind a cut, beside EMPTY and DURABLE: dirty and there; dirty and as it was before; neither the one nor the
other; of a file whose name the cut gave back, by undoing a rename or a removal; changed while the machine was off; not
there, for the file has ended before or is gone."""

CUT_OFF = "cut off"
"""How an operation, a task or a put ended that was under way when its machine died."""


class Subject(NamedTuple):
    """Which run it is."""

    scenario: str
    claim: str
    seed: int | None
    """None of what was recorded outside of the simulation."""
    mutant: str | None


class RecordedMoment(NamedTuple):
    """When: virtual time, and how many scheduling points had been passed."""

    now_ns: int
    step: int


@dataclass(slots=True)
class MachineRecord:
    """One machine, from when it was switched on. ending: `killed`, `stopped`, empty if the run ended before it."""

    name: str
    begin: int
    end: int = -1
    ending: str = ""


@dataclass(slots=True)
class TaskRecord:
    """One task; its name is `machine/name`. ending: empty, CUT_OFF, or what it failed with."""

    name: str
    begin: int
    end: int = -1
    ending: str = ""

    @property
    def machine(self) -> str:
        """Return the name of its machine."""
        return self.name.partition("/")[0]


class Span(NamedTuple):
    """A task in one state. why: what it waits for, as `lock put held by life-0/main`."""

    task: int
    state: str
    begin: int
    end: int
    why: str


@dataclass(slots=True)
class Hold:
    """A lock in the hands of a task."""

    task: int
    lock: str
    begin: int
    end: int = -1


@dataclass(slots=True)
class OperationRecord:
    """One call of a store to its files. start is -1 if it has no range.

    ending: empty if it did what it says, CUT_OFF, or the error. parts: what it did to the disk, as the disk names it,
    if that is not what it is called itself. place: the line of the program that made the call, where that is known.
    taken: what the crash took of its effect, in words.
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
    """A line by which a program promised something to its users, and the line of the program that it was made by."""

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
    """The times that a checkpoint was given, in ms."""

    at: int
    physic_ms: int
    logics_ms: int
    index_ms: int


class Fault(NamedTuple):
    """Something that went wrong on purpose. about: the file, or the task."""

    at: int
    kind: str
    about: str


class RecoveryOutcome(NamedTuple):
    """What one recovery made of a put. promised: it had to be there. returned: an earlier recovery had missed it."""

    at: int
    machine: str
    found: bool
    promised: bool
    returned: bool


@dataclass(slots=True)
class Put:
    """One message that a producer put. path and range: where its record lies; path is empty if it never got there.

    status: as answered, empty without an answer. answered: -1 then.
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
    """One file at a cut, sector by sector: a letter each. Sizes are -1 where there is no such file.

    torn: pages that are at no one moment behind it. pages: those whose sectors these are, one after the other; empty if
    they are of all pages. more: how many others have changed.
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
    """The end of a machine that may have taken something, and what it took.

    how: the profile of a crash, or what else changed files. operation, path, when: what it died in, and whether before,
    during or after its effect; empty if it died of nothing on the disk. lost: names, sizes and removals, in words.
    damaged: the puts whose records are no longer whole. following: the machine that found what was left, if one did.
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
    """A violation, when it was found, and by which task. puts: those that it is about."""

    at: int
    task: int
    violation: Violation
    puts: tuple[int, ...]


@dataclass(slots=True)
class RunRecording:
    """One run. Lists are in the order of beginnings; numbers of tasks and puts are indices of `tasks` and `puts`."""

    subject: Subject
    plan: Plan | None
    """None of a user's own code, and of a program that was recorded."""
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
    """What else there is to say of the whole, each with its name."""
