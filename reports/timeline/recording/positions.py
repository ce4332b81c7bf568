"""How far the log has come, in each sense, whenever that changes; and what its checkpoint is given."""

from collections.abc import Iterator

from ....store.errors import CorruptFileError
from ....store.formats.checkpoint import decode_checkpoint
from ....store.log.segment import Segment
from ....store.message_store import MessageStore
from ....store.world import Cell
from .moments import Moments
from .record import COMMITTED, DISPATCHED, FLUSHED, WROTE, CheckpointWrite, Position
from .watched_world import WatchedCell


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
        if self.store is not None and cell is self.store.dispatch.reput_from:
            self._recovered = True  # where dispatch begins is the last that a recovery says
        if not self._recovered:
            return
        at = -1
        for name, value in self._now():
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
        """Yield each position of the store."""
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
