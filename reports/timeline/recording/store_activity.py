"""Store activity: records log positions, checkpoints, puts, and recovery outcomes."""

import re
from collections.abc import Iterator

from ....scenarios.oracle.evidence import Evidence, Violation
from ....scenarios.oracle.put_entry import PutEntry
from ....store.errors import CorruptFileError
from ....store.formats.checkpoint import decode_checkpoint
from ....store.log.segment import Segment
from ....store.message_store import MessageStore
from ....store.world import Cell
from .record import COMMITTED, CUT_OFF, DISPATCHED, FLUSHED, WROTE, CheckpointWrite, Position, Put, RecoveryOutcome
from .task_activity import Moments, TaskSpans
from .watched_world import WatchedCell

_NAME = re.compile(r"m\d+(?:\.\d+)+")
_THE_LOG = "commitlog"
"""Replaces the file path of a violation that has a log offset."""


class Positions:
    """Records the log positions of consecutive process runs of a store."""

    def __init__(self, moments: Moments) -> None:
        self.all: list[Position] = []
        self.checkpoints: list[CheckpointWrite] = []
        self.store: MessageStore | None = None
        """The store of the current machine, set before it loads."""
        self._moments = moments
        self._values: dict[str, int] = {}
        self._recovered = False

    def follow(self, store: MessageStore) -> None:
        """Observe a new store, and record its positions after recovery."""
        self.store = store
        self._values = {}
        self._recovered = False

    def on_cell_written(self, cell: WatchedCell) -> None:
        # Reading an attribute of a store may be a scheduling point.
        with self._moments.kernel.without_scheduling_points():
            if self.store is not None and cell is self.store.dispatch.reput_from:
                self._recovered = True  # recovery sets this position as its last step
            positions = list(self._current_positions()) if self._recovered else []
        at = -1
        for name, value in positions:
            if self._values.get(name) != value:
                self._values[name] = value
                at = self._moments.mark() if at < 0 else at
                self.all.append(Position(name, at, value))

    def after_write(self, path: str, at: int, data: bytes) -> None:
        if self.store is None or path != self.store.config.checkpoint_path or at != 0:
            return
        try:
            values = decode_checkpoint(data, file=path)
        except CorruptFileError:
            return  # the next start of the store reports the corrupt checkpoint
        self.checkpoints.append(CheckpointWrite(self._moments.mark(), *values))

    def _current_positions(self) -> Iterator[tuple[str, int]]:
        if self.store is None or not self.store.log.segments:
            return
        log = self.store.log
        last = log.segments[-1]
        yield WROTE, last.base_offset + _cell_value(last.wrote)
        if self.store.pool is not None:
            yield COMMITTED, _committed(log.segments)
        yield FLUSHED, _cell_value(log.flushed_where)
        yield DISPATCHED, _cell_value(self.store.dispatch.reput_from)


def _committed(segments: tuple[Segment, ...]) -> int:
    """Return the log offset up to which all data has been copied from the pool to the files."""
    for segment in segments:
        readable = _cell_value(segment.readable)
        if readable < segment.size_bytes:
            return segment.base_offset + readable
    return segments[-1].end_offset


def _cell_value(cell: Cell) -> int:
    """Avoid the scheduling point of `Cell.value`."""
    assert isinstance(cell, WatchedCell), "a store that is followed lives in a watched world"
    return cell.value


class Puts:
    """Records the puts of one run. Because answers cause no event, every event checks unanswered puts."""

    def __init__(self, moments: Moments, tasks: TaskSpans) -> None:
        self.all: list[Put] = []
        self.by_name: dict[str, int] = {}
        self._moments = moments
        self._tasks = tasks
        self._open: dict[str, PutEntry] = {}
        self._store: MessageStore | None = None

    def follow(self, store: MessageStore) -> None:
        self._store = store

    def on_put_sent(self, entry: PutEntry) -> None:
        self.record_answers()  # the previous put of this task may have an answer by now
        assert entry.name not in self.by_name, entry.name
        self.by_name[entry.name] = len(self.all)
        task, at = self._tasks.current(), self._moments.mark()
        self.all.append(Put(entry.name, entry.topic, entry.queue_id, entry.wait, task, at))
        self._open[entry.name] = entry

    def record_answers(self) -> None:
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
            with self._moments.kernel.without_scheduling_points():
                segment = None if self._store is None else self._store.log.find(entry.physical_offset)
                if segment is not None:
                    put.path = segment.file.path
                    put.start = entry.physical_offset - segment.base_offset
                    put.stop = put.start + entry.record_bytes

    def before_write(self, path: str, at: int, data: bytes) -> None:
        """If the data is the record of a put, note its file and position."""
        task = self._tasks.current()
        for name, entry in self._open.items():
            put = self.all[self.by_name[name]]
            if put.task == task and entry.properties in data:
                put.path, put.start, put.stop = path, at, at + len(data)

    def on_producers_died(self) -> None:
        for name in self._open:
            self.all[self.by_name[name]].status = CUT_OFF
        self._open.clear()

    def puts_concerned_by(self, violation: Violation) -> tuple[int, ...]:
        """Return the puts that a violation names, then those with a record at its offset."""
        words = f"{violation.summary} {violation.expected} {violation.found}"
        named = [self.by_name[name] for name in _NAME.findall(words) if name in self.by_name]
        return tuple(
            dict.fromkeys(named + [number for number, put in enumerate(self.all) if _contains_record(put, violation)])
        )

    def recovered(self, evidence: Evidence, machine: str) -> None:
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
                at, machine, found_it, put.name in ledger.promised, found_it and put.name in ledger.lost_puts
            )
            put.outcomes.append(outcome)


def _contains_record(put: Put, violation: Violation) -> bool:
    if put.start < 0 or put.log_offset < 0:
        return False
    if violation.file == _THE_LOG:
        return put.log_offset <= violation.offset < put.log_offset + put.stop - put.start
    return put.path == violation.file and put.start <= violation.offset < put.stop
