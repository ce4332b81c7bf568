"""Simulated machine: a store on a host, over the page cache of a disk model.

A neighbour is another process on the same disk and in the same memory: it appends to files at a rate, syncs them, and
reads old segments as late consumers do. In `CONDITIONS` it writes 400 MiB/s: twice the rate of a hard disk, less than
that of flash, because faster simulations take too long. Late consumers read in order, 20 or 50 MiB/s.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, cast

from ....faults.devices.cached_reads import ReadAhead
from ....faults.devices.drives import MODELS, DeviceModel
from ....faults.devices.pages import ROOM_BLOCKS, PageCacheLimits
from ....faults.devices.system import StorageSystem, TimedFiles
from ....faults.devices.unjournaled import MetadataWrites
from ....faults.disk.disk import Disk
from ....faults.disk.syncs import SyncTiming
from ....sim.choices import Choices, Stream
from ....sim.machine import WaitReason
from ....store.world import Files, World
from .host import HoldingFiles, HostCosts, HostTasks, Interpreter
from .waits import RecordingKernel

_MIB = 1 << 20
_GIB = 1 << 30
_SECOND_NS = 1_000_000_000
_ASLEEP = WaitReason("sleep")
_PAUSED = WaitReason("pause")
_CHUNK_BYTES = 256 << 10
_OLD_BYTES = 4 * _GIB


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another process on the machine."""

    write_bytes_per_s: int = 0
    file_bytes: int = 64 * _MIB
    """Size at which it begins a new file."""
    sync_ms: int = 1_000
    """Interval of its syncs; 0: none."""
    read_bytes_per_s: int = 0
    """Rate of its reads of old segments, in order (cold reads)."""
    is_direct: bool = False
    """Whether it writes past the page cache (O_DIRECT)."""


@dataclass(frozen=True, slots=True)
class SystemConfig:
    """The disk, memory and neighbours of a simulated machine, with Linux's defaults."""

    disk: str
    """One of MODELS; with `device` only a name."""
    memory_bytes: int = 8 * _GIB
    neighbour: Neighbour = field(default_factory=Neighbour)
    stable_pages: bool = False
    """Whether the device needs stable pages, as one with checksums does."""
    orders_data: bool = True
    """Whether commits wait for data of files with new blocks (before Linux 5.6)."""
    unjournaled: MetadataWrites | None = None
    """The writes of syncs if the file system has no journal. None: it has one, ext4's default."""
    is_sparse: bool = False
    """Whether segments are sparse (ftruncate, as RocketMQ makes them), not preallocated."""
    requests_max: int = 16
    """Requests of background write-back in the queue (blk-wbt, RWB_DEF_DEPTH)."""
    dirty_bytes_max: int = 0
    """Limit of dirty bytes. 0: the default ratio of memory."""
    device: DeviceModel | None = None
    """A device other than those of MODELS."""
    process_bytes: int = 0
    """Anonymous memory of the store's process, without the pool."""
    is_full: bool = False
    """Whether memory is full of clean pages of another file at the start."""

    @property
    def limits(self) -> PageCacheLimits:
        return PageCacheLimits(dirty_bytes_max=self.dirty_bytes_max, memory_bytes=self.memory_bytes)


FREE, SHORT, BUSY = "free", "short", "busy"
SHORT_MEMORY_BYTES = 256 * _MIB
PRODUCERS_UNDER_LOAD = 4
RATE_UNDER_LOAD = 400.0
SECONDS_UNDER_LOAD = 6
"""Long enough for eleven flushes of the log, and a commit of the journal's timer."""
SYNC_RATE_UNDER_LOAD, SYNC_PUTS_UNDER_LOAD = 8.0, 60
"""Few puts, which a busy hard disk can still sync."""
_WRITE_BYTES_PER_S = 400 * _MIB


class LoadCondition(NamedTuple):
    """A named condition."""

    meaning: str
    system: Callable[[str], SystemConfig]
    """Returns the system with a disk of this name."""


CONDITIONS = {
    FREE: LoadCondition("8 GiB, no neighbour", SystemConfig),
    SHORT: LoadCondition(
        "256 MiB, late consumers read old segments",
        lambda disk: SystemConfig(
            disk, SHORT_MEMORY_BYTES, Neighbour(read_bytes_per_s=(20 if disk == "hdd" else 50) * _MIB)
        ),
    ),
    BUSY: LoadCondition(
        "256 MiB, a neighbour writes 400 MiB/s",
        lambda disk: SystemConfig(disk, SHORT_MEMORY_BYTES, Neighbour(_WRITE_BYTES_PER_S, sync_ms=0)),
    ),
}


class LatencyMachine:
    """The machine on which one series runs. Created before the simulation's run, and used inside it."""

    def __init__(self, kernel: RecordingKernel, host: HostCosts, config: SystemConfig, seed: int) -> None:
        self.kernel, self.host = kernel, host
        self.choices = Choices(f"latency/{seed}")
        self.machine = kernel.create_machine("host")
        self.processor = Interpreter(kernel)
        self.tasks = HostTasks(self.machine, host, self.processor, self.choices.stream("handovers"))
        self.disk = Disk(kernel, self.choices.stream("disk"), timing=SyncTiming(0, 0))
        self.system = self._system_of(config, self.choices.stream("storage"))
        room = (lambda path, size_bytes: None) if config.is_sparse else (lambda path, size_bytes: size_bytes)
        timed = TimedFiles(self.disk.mount(self.machine), self.system, room)
        self._files: Any = HoldingFiles(timed, self.processor) if host.holds_interpreter_lock else timed
        self._start_neighbour(config.neighbour, self.system)
        if host.pauses is not None:
            kernel.spawn(self.machine, "pauses", self._pause_all)

    @property
    def syncs(self) -> int:
        return self.system.write_back.syncs

    def world(self) -> World:
        return World(self.machine.clock, self.tasks, cast(Files, self._files))

    def _system_of(self, config: SystemConfig, stream: Stream) -> StorageSystem:
        kernel = self.kernel
        system = StorageSystem(
            kernel.create_machine("storage"),
            (config.device or MODELS[config.disk].make)(stream),
            config.limits,
            room_blocks=ROOM_BLOCKS,
            read_ahead=lambda path: ReadAhead(around=True),
            stable_pages=config.stable_pages,
            orders_data=config.orders_data,
            unjournaled=config.unjournaled,
        )
        system.write_back.requests_max = config.requests_max
        system.writes.on_fault = lambda pages: self.processor.compute(pages * self.host.touch_ns)
        system.writes.explain = kernel.rename_waits
        system.memory.hold_anonymous(config.process_bytes)
        if config.is_full:
            system.memory.fill(system.file("/old/clean"))
        return system

    def _start_neighbour(self, neighbour: Neighbour, system: StorageSystem) -> None:
        machine = self.kernel.create_machine("neighbour")
        if neighbour.write_bytes_per_s:
            self.kernel.spawn(machine, "writer", partial(self._write_files, neighbour, system))
        if neighbour.read_bytes_per_s:
            system.allocate_ahead("/old/segments", _OLD_BYTES, is_written=True)
            self.kernel.spawn(machine, "reader", partial(self._read_old, neighbour, system))

    def _write_files(self, neighbour: Neighbour, system: StorageSystem) -> None:
        kernel, writes, number, at = self.kernel, system.writes, 0, 0
        synced_ns = due_ns = kernel.now_ns
        write = writes.write_direct if neighbour.is_direct else writes.write
        while True:
            file = system.file(f"/neighbour/{number}")
            write(file, at, _CHUNK_BYTES)
            at += _CHUNK_BYTES
            is_full = at >= neighbour.file_bytes
            if neighbour.sync_ms and (is_full or kernel.now_ns - synced_ns >= neighbour.sync_ms * 1_000_000):
                system.write_back.sync(file, 0, neighbour.file_bytes)
                synced_ns = kernel.now_ns
            if is_full:
                number, at = number + 1, 0
            due_ns = self._sleep_until_due(due_ns, neighbour.write_bytes_per_s)

    def _read_old(self, neighbour: Neighbour, system: StorageSystem) -> None:
        due_ns = self.kernel.now_ns
        for at in range(0, _OLD_BYTES, _CHUNK_BYTES):
            system.read("consumer", "/old/segments", at, at + _CHUNK_BYTES)
            due_ns = self._sleep_until_due(due_ns, neighbour.read_bytes_per_s)

    def _sleep_until_due(self, due_ns: int, bytes_per_s: int) -> int:
        """Sleep for the rest of a chunk's time. A late neighbour does not catch up."""
        due_ns = max(due_ns + _CHUNK_BYTES * _SECOND_NS // bytes_per_s, self.kernel.now_ns)
        self.kernel.park(_ASLEEP, due_ns)
        return due_ns

    def _pause_all(self) -> None:
        pauses, kernel, stream = self.host.pauses, self.kernel, self.choices.stream("pauses")
        assert pauses is not None
        while True:
            gap_ns = round(stream.raw_random() * 2 / pauses.per_second * 1e9)
            kernel.park(_ASLEEP, kernel.now_ns + gap_ns)
            took_ns = pauses.durations.draw(stream, "pause")
            self.processor.run_holding(partial(kernel.park, _PAUSED, kernel.now_ns + took_ns))
