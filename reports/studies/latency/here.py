"""Host measurements: time syncs, CPU work and puts on this machine.

A real store measures the total latencies, and records the disk's delays in syncs and in writes to memory-mapped files.
A second store measures the latencies without a disk: its syncs sleep for a known time, which is subtracted. From these
latencies and the recorded delays the simulation computes the latency of each put, with waiting, shared syncs and
handovers between threads. The speed of a machine varies, and one stall per hundred syncs determines the percentiles. So
each measurement (a turn) is short, and its simulation uses the delays recorded in the same turn.
"""

import time
from array import array
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

from ....faults.devices.drives import DurationDistribution
from ....faults.devices.storage import MeasuredStorage
from ....store.message_store import MessageStore
from ....store.real.files import RealFiles, RealMappedFile
from ....store.real.world import real_world
from ....store.world import Files
from ...quantities import percentiles_us
from .host import FileStalls, HostCosts
from .real.puts import measure, running_store
from .simulated import simulate
from .traffic import FLUSHES, Setup, arrivals, checked_put, message_of

STAND_IN_SECONDS = 0.0003
_SEGMENT_BYTES = 64 << 20
"""Large enough for all turns, so that no measured put creates a segment."""
_SIMULATED_SEGMENT_BYTES = 4 << 20
"""Large enough for one turn."""
_HANDOVER_WORK_SHARE = 3  # one third of a handover is computing, the rest is spent in the kernel


class ClockedFiles:
    """Real files that record the disk's delays, or replace syncs by sleeps.

    log_syncs_ns: durations of the commit log's syncs, in order. stalls: delayed writes to memory-mapped files.
    """

    def __init__(self, sleep_seconds: float | None = None, *, times_stores: bool = True) -> None:
        """sleep_seconds: duration of the sleep that replaces a sync; None: real syncs. times_stores: whether stores may
        be timed. If not, the store's C core appends to the log directly, as it does with plain files.
        """
        self._files = RealFiles()
        self.sleep_seconds = sleep_seconds
        self.times_stores = times_stores
        self.log_syncs_ns = array("q")
        self.stalls = FileStalls()

    def __getattr__(self, name: str) -> object:
        return getattr(self._files, name)

    def map(self, path: str, size_bytes: int) -> "ClockedMappedFile":
        return ClockedMappedFile(self._files.map(path, size_bytes), self)

    def use_measured_syncs(self) -> None:
        del self.log_syncs_ns[:]
        self.stalls = FileStalls()

    def sync(self, path: str) -> None:
        if not self._sleep():
            self._files.sync(path)

    def sync_directory(self, path: str) -> None:
        if not self._sleep():
            self._files.sync_directory(path)

    def _sleep(self) -> bool:
        if self.sleep_seconds is not None:
            time.sleep(self.sleep_seconds)
        return self.sleep_seconds is not None


class ClockedMappedFile:
    """A memory-mapped file that times its syncs and writes."""

    def __init__(self, mapped: RealMappedFile, files: ClockedFiles) -> None:
        self._mapped = mapped
        self._files = files
        self._is_log = "/commitlog/" in mapped.path
        self.path = mapped.path
        self.size_bytes = mapped.size_bytes
        # `readable`: without it, the store would read records in Python instead of its core in C.
        names = ["view", "readable", "pwrite", "mlock", "munlock", "advise_will_need", "advise_dont_need", "close"]
        if files.sleep_seconds is not None:
            names.append("store")  # two clock reads would slow a put by a third, and its stalls are unused
        if not files.times_stores:
            names.append("pages")
        for name in names:
            setattr(self, name, getattr(mapped, name))  # bound once, because __getattr__ would slow down calls

    def store(self, at: int, data: bytes | bytearray | memoryview) -> None:
        begun_ns = time.perf_counter_ns()
        self._mapped.store(at, data)
        self._files.stalls.stalls_of(self.path).record(time.perf_counter_ns() - begun_ns)

    def msync(self, start: int, end: int) -> None:
        begun_ns = time.perf_counter_ns()
        if self._files.sleep_seconds is None:
            self._mapped.msync(start, end)
        else:
            time.sleep(self._files.sleep_seconds)
        if self._is_log:
            self._files.log_syncs_ns.append(time.perf_counter_ns() - begun_ns)

    def fdatasync(self) -> None:
        self.msync(0, self.size_bytes)


_SYNC_RATE, _ASYNC_RATE = 400.0, 2_000.0
"""Puts per second: low enough for one producer on most disks, and for puts that never wait for the CPU."""
SYNC_PUTS, ASYNC_PUTS = 100, 300


@dataclass(frozen=True, slots=True)
class Turn:
    """The measurements of one turn with one number of producers, in ns."""

    number: int
    producers: int
    syncs: "array[int]"
    """Durations of the commit log's syncs under sync flush, in order."""
    puts_alone: "array[int]"
    """Latencies of one producer's puts without a disk."""
    puts: "array[int]"
    """Latencies of all producers' puts without a disk."""
    synced_puts: "array[int]"
    """Latencies of one producer's puts with a sync, minus the sync's duration."""
    real: dict[str, "array[int]"]
    """Latencies of puts into the real store, by flush."""
    stalls: dict[str, FileStalls]
    """Delayed writes to memory-mapped files of the real store, by flush."""

    def host_costs(self) -> HostCosts:
        return costs_of(self.puts_alone, self.puts, self.synced_puts)

    def simulated(self, flush: str) -> "array[int]":
        storage, stalls = MeasuredStorage(self.syncs), self.stalls.get(flush)
        setup = replace(_make_setup(flush, self.producers, self.number), segment_bytes=_SIMULATED_SEGMENT_BYTES)
        return simulate(
            setup, self.host_costs(), lambda _: storage, on_traffic=storage.use_measured_syncs, stalls=stalls
        ).latencies_ns


def costs_of(alone_ns: Sequence[int], puts_ns: Sequence[int], synced_ns: Sequence[int]) -> HostCosts:
    """Return the costs of measured puts without a disk: of one producer, of all, and of one with a sync."""
    usual_ns = DurationDistribution(alone_ns).quantile(0.5)
    handover = DurationDistribution(max(took_ns - usual_ns, 0) for took_ns in synced_ns)
    return HostCosts(
        put=DurationDistribution(puts_ns),
        put_work_ns=usual_ns,
        handover=handover,
        handover_work_ns=handover.quantile(0.5) // _HANDOVER_WORK_SHARE,
        dispatch_ns=usual_ns // 2,
        touch_ns=0,  # included in the put costs
    )


def _make_setup(flush: str, producers: int, turn: int) -> Setup:
    is_sync = flush == "sync"
    return Setup(
        flush,
        producers,
        _SYNC_RATE if is_sync else _ASYNC_RATE,
        SYNC_PUTS if is_sync else ASYNC_PUTS,
        segment_bytes=_SEGMENT_BYTES,
        seed=turn,
    )


def measure_here(directory: str, producers: Sequence[int], turns: int) -> Generator[Turn, None, None]:
    with ExitStack() as stack:
        places = _MeasuredStores(directory, stack)
        for number in range(turns):
            for each in producers:
                yield places.turn(number, each)


class _MeasuredStores:
    """One real store per flush mode, and two stores that sleep in place of a sync."""

    def __init__(self, directory: str, stack: ExitStack) -> None:
        """stack: its exit shuts down the stores."""

        def running(name: str, flush: str, files: ClockedFiles) -> MessageStore:
            world = replace(real_world(), files=cast(Files, files))
            return stack.enter_context(running_store(world, _make_setup(flush, 1, 0), f"{directory}/{name}"))

        self._clocked = {flush: ClockedFiles() for flush in FLUSHES}
        self.stores = {flush: running(flush, flush, files) for flush, files in self._clocked.items()}
        self._sleeping = ClockedFiles(STAND_IN_SECONDS)
        self._synced = running("sync-without-disk", "sync", self._sleeping)
        self._unsynced = running("async-without-disk", "async", ClockedFiles(STAND_IN_SECONDS))

    def turn(self, number: int, producers: int) -> Turn:
        """Measure the real stores between two halves of the other measurements, so that slow phases affect both."""
        alone, together, synced = array("q"), array("q"), array("q")

        def measure_half_of_the_parts(seed: int) -> None:
            setup = _make_setup("async", 1, seed)
            half = replace(setup, puts=setup.puts // 2)
            alone.extend(self._measure_unsynced_puts(half))
            if producers > 1:
                together.extend(self._measure_unsynced_puts(replace(half, producers=producers)))
            setup = _make_setup("sync", 1, seed)
            synced.extend(self._measure_synced_puts(replace(setup, puts=setup.puts // 2)))

        measure_half_of_the_parts(2 * number)
        real = {flush: self._measure_puts(_make_setup(flush, producers, number)) for flush in FLUSHES}
        measure_half_of_the_parts(2 * number + 1)
        syncs = self._clocked["sync"].log_syncs_ns[:]
        stalls = {flush: files.stalls for flush, files in self._clocked.items()}
        return Turn(number, producers, syncs, alone, together or alone, synced, real, stalls)

    def _measure_puts(self, setup: Setup) -> "array[int]":
        self._clocked[setup.flush].use_measured_syncs()
        put = checked_put(self.stores[setup.flush], message_of(setup))
        return measure(arrivals(setup), put).latencies_ns

    def _measure_unsynced_puts(self, setup: Setup) -> "array[int]":
        took_ns = array("q")
        measure(arrivals(setup), timed_call(checked_put(self._unsynced, message_of(setup)), took_ns))
        return took_ns

    def _measure_synced_puts(self, setup: Setup) -> "array[int]":
        took_ns, slept_ns = array("q"), self._sleeping.log_syncs_ns
        self._sleeping.use_measured_syncs()
        measure(arrivals(setup), timed_call(checked_put(self._synced, message_of(setup)), took_ns))
        return without_syncs(took_ns, slept_ns)


def without_syncs(took_ns: "array[int]", synced_ns: "array[int]") -> "array[int]":
    """Return the durations of one producer's puts without their syncs."""
    return array("q", (took - synced for took, synced in zip(took_ns, synced_ns, strict=True)))


def timed_call(call: Callable[[], None], took_ns: "array[int]") -> Callable[[], None]:
    """Return a call that appends its duration to `took_ns`."""

    def timed() -> None:
        begun_ns = time.perf_counter_ns()
        call()
        took_ns.append(time.perf_counter_ns() - begun_ns)

    return timed


class LatencyComparison(NamedTuple):
    """Latencies in ns of the same arrivals, real and simulated, for one flush mode and number of producers."""

    flush: str
    producers: int
    rate: float
    real_ns: "array[int]"
    simulated_ns: "array[int]"

    def ratios(self) -> list[float]:
        """Return simulated / real percentile for each of LATENCY_SHARES."""
        assert len(self.simulated_ns) == len(self.real_ns), "the same arrivals"
        simulated, real = percentiles_us(self.simulated_ns), percentiles_us(self.real_ns)
        return [one / other for one, other in zip(simulated, real, strict=True)]


def compare_turns(turns: Sequence[Turn]) -> Iterable[LatencyComparison]:
    for producers in sorted({turn.producers for turn in turns}):
        mine = [turn for turn in turns if turn.producers == producers]
        for flush in FLUSHES:
            real, simulated = array("q"), array("q")
            for turn in mine:
                real += turn.real[flush]
                simulated += turn.simulated(flush)
            yield LatencyComparison(flush, producers, _make_setup(flush, producers, 0).rate, real, simulated)
