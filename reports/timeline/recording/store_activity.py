"""Store activity: positions of the log, checkpoints, puts, and what each recovery made of them."""

import re
from collections.abc import Iterator

from ....scenarios.oracle.evidence import Evidence, Violation
from ....scenarios.oracle.ledger import Ledger
from ....scenarios.oracle.put_entry import PutEntry
from ....store.errors import CorruptFileError
from ....store.formats.checkpoint import decode_checkpoint
from ....store.log.segment import Segment
from ....store.message_store import MessageStore
from ....store.world import Cell
from .record import (
    COMMITTED,
    CUT_OFF,
    DISPATCHED,
    FLUSHED,
    WROTE,
    CheckpointWrite,
    Position,
    Put,
    RecoveryOutcome,
)
from .task_activity import Moments, TaskSpans
from .watched_world import WatchedCell

_NAME = re.compile(r"m\d+(?:\.\d+)+")
_THE_LOG = "commitlog"
"""What a violation has for a file if its offset is the log's."""


class Positions:
    """The positions of one store after another."""

    def __init__(self, moments: Moments) -> None:
        self.all: list[Position] = []
        self.checkpoints: list[CheckpointWrite] = []
        self.store: MessageStore | None = None
        """The store of the present machine, from when it is about to load."""
        self._moments = moments
        self._values: dict[str, int] = {}
        self._recovered = False

    def follow(self, store: MessageStore) -> None:
        """Follow another store from now on: as soon as its recovery has come to a result."""
        self.store = store
        self._values = {}
        self._recovered = False

    def written(self, cell: WatchedCell) -> None:
        """Note the positions that have moved, now that a cell was given a value."""
        with self._moments.kernel.at_one_moment():  # a store's attributes may be scheduling points
            if self.store is not None and cell is self.store.dispatch.reput_from:
                self._recovered = True  # where dispatch begins is the last that a recovery says
            positions = list(self._now()) if self._recovered else []
        at = -1
        for name, value in positions:
            if self._values.get(name) != value:
                self._values[name] = value
                at = self._moments.mark() if at < 0 else at
                self.all.append(Position(name, at, value))

    def wrote(self, path: str, at: int, data: bytes) -> None:
        """Note the checkpoint's times, if that is what was written."""
        if self.store is None or path != self.store.config.checkpoint_path or at != 0:
            return
        try:
            values = decode_checkpoint(data, file=path)
        except CorruptFileError:
            return  # no times, whatever it is: the store's own reading of it will say so
        self.checkpoints.append(CheckpointWrite(self._moments.mark(), *values))

    def _now(self) -> Iterator[tuple[str, int]]:
        if self.store is None or not self.store.log.segments:
            return
        log = self.store.log
        last = log.segments[-1]
        yield WROTE, last.base_offset + _value(last.wrote)
        if self.store.pool is not None:
            yield COMMITTED, _committed(log.segments)
        yield FLUSHED, _value(log.flushed_where)
        yield DISPATCHED, _value(self.store.dispatch.reput_from)


def _committed(segments: tuple[Segment, ...]) -> int:
    """Return up to where everything is in the files."""
    for segment in segments:
        readable = _value(segment.readable)
        if readable < segment.size_bytes:
            return segment.base_offset + readable
    return segments[-1].end_offset


def _value(cell: Cell) -> int:
    """Return what a cell holds, without a scheduling point."""
    assert isinstance(cell, WatchedCell), "a store that is followed lives in a watched world"
    return cell.value


class RecordedLedger(Ledger):
    """A ledger that reports each put before it is made."""

    def __init__(self, puts: "Puts") -> None:
        super().__init__()
        self._puts = puts

    def ask(self, entry: PutEntry) -> None:
        """Note a put before it is made."""
        super().ask(entry)
        self._puts.asked(entry)


class Puts:
    """The puts of one run. Open ones are looked at whenever anything happens: no event announces an answer."""

    def __init__(self, moments: Moments, tasks: TaskSpans) -> None:
        self.all: list[Put] = []
        self.by_name: dict[str, int] = {}
        self._moments = moments
        self._tasks = tasks
        self._open: dict[str, PutEntry] = {}
        self._store: MessageStore | None = None

    def follow(self, store: MessageStore) -> None:
        """Let what is put from now on be put into this store."""
        self._store = store

    def asked(self, entry: PutEntry) -> None:
        """Note a put that the task that runs is about to make."""
        self.look()  # its last one may have been answered just now
        assert entry.name not in self.by_name, entry.name
        self.by_name[entry.name] = len(self.all)
        task, at = self._tasks.current(), self._moments.mark()
        self.all.append(Put(entry.name, entry.topic, entry.queue_id, entry.wait, task, at))
        self._open[entry.name] = entry

    def look(self) -> None:
        """Note the puts that have been answered since the last look."""
        answered = [entry for entry in self._open.values() if entry.answered_ns is not None]
        at = self._moments.mark() if answered else -1
        for entry in answered:
            del self._open[entry.name]
            put = self.all[self.by_name[entry.name]]
            assert put.asked <= at, f"{put.name} is answered at {at}, before it was asked"
            put.answered = at
            put.status = "" if entry.status is None else entry.status.value
            if entry.physical_offset is None or entry.queue_offset is None:
                continue
            put.log_offset, put.queue_offset = entry.physical_offset, entry.queue_offset
            with self._moments.kernel.at_one_moment():
                segment = None if self._store is None else self._store.log.find(entry.physical_offset)
                if segment is not None:
                    put.path = segment.file.path
                    put.start = entry.physical_offset - segment.base_offset
                    put.stop = put.start + entry.record_bytes

    def writes(self, path: str, at: int, data: bytes) -> None:
        """Note what the task that runs is about to write: whatever has the properties of its put is the record."""
        task = self._tasks.current()
        for name, entry in self._open.items():
            put = self.all[self.by_name[name]]
            if put.task == task and entry.properties in data:
                put.path, put.start, put.stop = path, at, at + len(data)

    def died(self) -> None:
        """Note that all those who wait for an answer are dead."""
        for name in self._open:
            self.all[self.by_name[name]].status = CUT_OFF
        self._open.clear()

    def concerned(self, violation: Violation) -> tuple[int, ...]:
        """Return the numbers of the puts that a violation names, then of those whose records it points into."""
        words = f"{violation.summary} {violation.expected} {violation.found}"
        named = [self.by_name[name] for name in _NAME.findall(words) if name in self.by_name]
        return tuple(dict.fromkeys(named + [number for number, put in enumerate(self.all) if _holds(put, violation)]))

    def recovered(self, evidence: Evidence, machine: str) -> None:
        """Note which puts a recovery found, and which it had to."""
        ledger, at = evidence.ledger, self._moments.mark()
        here = set()
        for found in evidence.store.records:
            entry = ledger.put_of(found.record)
            if entry is None:
                continue
            here.add(entry.name)
            put = self.all[self.by_name[entry.name]]
            put.path, put.start = found.file, found.position
            put.stop = found.position + found.record.size_bytes
            put.log_offset, put.queue_offset = found.record.physical_offset, found.record.queue_offset
        for put in self.all:
            found_it = put.name in here
            outcome = RecoveryOutcome(
                at, machine, found_it, put.name in ledger.promised, found_it and put.name in ledger.gone
            )
            put.outcomes.append(outcome)


def _holds(put: Put, violation: Violation) -> bool:
    if put.start < 0 or put.log_offset < 0:
        return False
    if violation.file == _THE_LOG:
        return put.log_offset <= violation.offset < put.log_offset + put.stop - put.start
    return put.path == violation.file and put.start <= violation.offset < put.stop
