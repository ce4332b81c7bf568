"""This machine, measured: what its syncs and its computing cost, and what puts really take, turn by turn.

The parts are measured without the whole: syncs without a store, and a store without a disk, whose syncs sleep for a
time that is known and taken off. From these the simulation says what the whole would take, and beside them the whole
is measured. Machines have good and bad moments, so all of it goes in short turns that follow one another closely.
"""

import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import cast

from ...faults.devices.measured import MeasuredStorage
from ...faults.devices.spread import Spread
from ...store.message_store import MessageStore
from ...store.real.files import RealFiles, RealMappedFile
from ...store.real.world import real_world
from ...store.world import Files
from .host import Host
from .putting import checked_put, message_of
from .real import measure, running_store
from .setup import FLUSHES, Setup
from .simulated import simulate
from .stand_in import StandInFiles

SYNC_RATE, ASYNC_RATE = 400.0, 2_000.0
"""Puts per second: what a single producer can put on most disks, and little enough computing to leave out queues."""
SYNC_PUTS, ASYNC_PUTS = 100, 300
"""Of a turn."""
_STAND_IN_SECONDS = 0.0003
_SEGMENT_BYTES = 64 << 20
_BLOCK_BYTES = 4096
_RAW_BLOCKS = (1, 4)
_RAW_SYNCS = {1: SYNC_PUTS, 4: SYNC_PUTS // 5}
_RAW_BYTES = {1: 1_100, 4: 4 * _BLOCK_BYTES - 100}
_HANDOVER_WORK_SHARE = 3  # a third of a handover is computing, the rest the system's


@dataclass(frozen=True, slots=True)
class Turn:
    """What was measured one right after the other, for one number of producers; in ns."""

    number: int
    producers: int
    syncs: dict[int, "array[int]"]
    """Durations of bare syncs, by how many blocks they wrote."""
    puts_alone: "array[int]"
    """What one producer's puts took that waited for no disk."""
    puts: "array[int]"
    """The same with all producers."""
    synced_puts: "array[int]"
    """What one producer's puts took that waited for a sync, the sync taken off."""
    real: dict[str, "array[int]"]
    """Latencies of puts into the whole store, by flush."""

    def host(self) -> Host:
        """Return what was measured beside the disk."""
        usual_ns = Spread(self.puts_alone).quantile(0.5)
        handover = Spread(max(took_ns - usual_ns, 0) for took_ns in self.synced_puts)
        return Host(
            put=Spread(self.puts),
            put_work_ns=usual_ns,
            handover=handover,
            handover_work_ns=handover.quantile(0.5) // _HANDOVER_WORK_SHARE,
            dispatch_ns=usual_ns // 2,
            touch_ns=0,  # it is in what puts take
        )

    def simulated(self, flush: str) -> "array[int]":
        """Return the latencies that the parts make of the same puts, in the simulation."""
        syncs = {blocks: Spread(took_ns) for blocks, took_ns in self.syncs.items()}
        setup = setup_of(flush, self.producers, self.number)
        return simulate(setup, self.host(), lambda stream: MeasuredStorage(stream, syncs)).latencies_ns


def setup_of(flush: str, producers: int, turn: int) -> Setup:
    """Return what is put in one turn."""
    is_sync = flush == "sync"
    return Setup(
        flush,
        producers,
        SYNC_RATE if is_sync else ASYNC_RATE,
        SYNC_PUTS if is_sync else ASYNC_PUTS,
        segment_bytes=_SEGMENT_BYTES,
        seed=turn,
    )


def measure_here(directory: str, producers: Sequence[int], turns: int) -> Iterator[Turn]:
    """Measure this machine below a directory, in so many turns for each number of producers."""
    with _Places(directory) as places:
        for number in range(turns):
            for each in producers:
                yield places.turn(number, each)


class _Places:
    """What a machine is measured with: a store for each way to flush, two whose syncs sleep, and a bare file."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._stack = ExitStack()
        self.stores: dict[str, MessageStore] = {}
        self._stand_in = StandInFiles(_STAND_IN_SECONDS)
        self._raw_at = 0

    def __enter__(self) -> "_Places":
        enter, directory = self._stack.enter_context, self._directory
        for flush in FLUSHES:
            setup = setup_of(flush, 1, 0)
            self.stores[flush] = enter(running_store(real_world(), setup, f"{directory}/{flush}"))
        world = replace(real_world(), files=cast(Files, self._stand_in))
        self._synced = enter(running_store(world, setup_of("sync", 1, 0), f"{directory}/sync-without-disk"))
        world = replace(real_world(), files=cast(Files, StandInFiles(_STAND_IN_SECONDS)))
        self._unsynced = enter(
            running_store(world, setup_of("async", 1, 0), f"{directory}/async-without-disk")
        )
        self._raw = self._raw_file(f"{directory}/raw")
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _raw_file(self, path: str) -> RealMappedFile:
        raw = RealFiles().map(path, _SEGMENT_BYTES)
        self._stack.callback(raw.close)
        raw.msync(0, _SEGMENT_BYTES)
        return raw

    def turn(self, number: int, producers: int) -> Turn:
        """Measure the parts, then the whole."""
        alone = self._unsynced_puts(setup_of("async", 1, number))
        return Turn(
            number,
            producers,
            {blocks: self._bare_syncs(blocks, number) for blocks in _RAW_BLOCKS},
            alone,
            alone if producers == 1 else self._unsynced_puts(setup_of("async", producers, number)),
            self._synced_puts(setup_of("sync", 1, number)),
            {flush: self._puts(setup_of(flush, producers, number)) for flush in FLUSHES},
        )

    def _puts(self, setup: Setup) -> "array[int]":
        return measure(setup, checked_put(self.stores[setup.flush], message_of(setup)))

    def _unsynced_puts(self, setup: Setup) -> "array[int]":
        took_ns = array("q")
        measure(setup, _timed(checked_put(self._unsynced, message_of(setup)), took_ns))
        return took_ns

    def _synced_puts(self, setup: Setup) -> "array[int]":
        took_ns, slept_ns = array("q"), self._stand_in.slept_ns
        del slept_ns[:]
        measure(setup, _timed(checked_put(self._synced, message_of(setup)), took_ns))
        return array("q", (took - slept for took, slept in zip(took_ns, slept_ns, strict=True)))

    def _bare_syncs(self, blocks: int, turn: int) -> "array[int]":
        setup, took_ns = setup_of("sync", 1, turn), array("q")
        measure(replace(setup, puts=_RAW_SYNCS[blocks]), self._timed_sync(blocks, took_ns))
        return took_ns

    def _timed_sync(self, blocks: int, took_ns: "array[int]") -> Callable[[], None]:
        """Return a call that writes at the end of what was written, and times a sync of that."""
        data = bytes(_RAW_BYTES[blocks])

        def sync() -> None:
            if self._raw_at + len(data) > _SEGMENT_BYTES:
                self._raw_at = 0
            at, self._raw_at = self._raw_at, self._raw_at + len(data)
            self._raw.store(at, data)
            begun_ns = time.perf_counter_ns()
            self._raw.msync(at, at + len(data))
            took_ns.append(time.perf_counter_ns() - begun_ns)

        return sync


def _timed(call: Callable[[], None], took_ns: "array[int]") -> Callable[[], None]:
    """Return a call that notes what it took, whenever it was due."""

    def timed() -> None:
        begun_ns = time.perf_counter_ns()
        call()
        took_ns.append(time.perf_counter_ns() - begun_ns)

    return timed
