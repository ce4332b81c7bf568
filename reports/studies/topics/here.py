"""Real topics: measures both layouts with real files and threads, in turns.

Producers are threads; CPython runs one thread at a time. Before late consumers start, the benchmark syncs written data
and asks the kernel to drop it from the page cache (MADV_DONTNEED, POSIX_FADV_DONTNEED). The kernel counts the bytes
that the process reads from the disk (/proc/self/io), but these may come from a cache of the disk or of a virtual
machine's host.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import median

from ....store.message_store import MessageStore
from ....store.real.world import real_world
from ...quantities import percentiles_us
from ..closed_loop import ClosedLoop
from ..latency.real.puts import measure
from ..latency.traffic import Setup, arrivals
from .layouts import FLUSHES, LAYOUTS, SHARED, Partitions, SharedLog, TopicLayout, TopicsSetup
from .partitioned_log import PartitionedLog
from .workload import few_topics_of

TOPICS_HERE = (1, 16, 256, 1024)
RATES_HERE = {"sync": 200.0, "async": 2_000.0}
"""Puts per second for latencies."""
_PRODUCERS = {"sync": 32, "async": 1}
_TURNS = 3
_TURN_SECONDS = 0.3
_RATE_SECONDS = 0.6
_PULL_SECONDS = 0.5
_LOG_BYTES = 64 << 20
_CREATED_MODE = 0o666  # the umask clears some bits


@dataclass(frozen=True, slots=True)
class MeasuredHere:
    """One layout with one number of topics on this machine; consumers run only under async flush."""

    variant: str
    flush: str
    topics: int
    puts_per_second: float
    """Rate of a closed loop; the median of all turns."""
    put_cpu_us: float
    """CPU time of the whole process per put, including dispatch."""
    rate: float
    p50_us: float
    p99_us: float
    most_us: float
    tail_per_second: float | None = None
    """Records per second that one consumer pulls from the page cache."""
    pull_cpu_us: float | None = None
    """CPU time per pulled record."""
    all_lag_per_second: float | None = None
    all_lag_read_bytes: float | None = None
    """Bytes per record that the process reads from the disk."""
    few_lag_per_second: float | None = None
    few_lag_read_bytes: float | None = None


def measure_here(directory: str, topics: Sequence[int]) -> Iterator[MeasuredHere]:
    for number in topics:
        for flush in FLUSHES:
            yield from _measure_beside(f"{directory}/{flush}-{number}", flush, number)


def _measure_beside(directory: str, flush: str, topics: int) -> Iterator[MeasuredHere]:
    with ExitStack() as stack:
        places = {
            layout: stack.enter_context(_MeasuredDirectory.open(f"{directory}/{layout}", layout, flush, topics))
            for layout in LAYOUTS
        }
        for _ in range(_TURNS):
            for place in places.values():
                place.put_for_a_while()
        for place in places.values():
            yield place.finish()


class _MeasuredDirectory:
    def __init__(self, directory: str, setup: TopicsSetup, layout: TopicLayout) -> None:
        self._directory = directory
        self._setup = setup
        self._layout = layout
        self._random = Random(setup.topics)
        self._rates: list[float] = []
        self._cpu_us: list[float] = []

    @classmethod
    @contextmanager
    def open(cls, directory: str, layout: str, flush: str, topics: int) -> Iterator["_MeasuredDirectory"]:
        """Yield a store with one message in each topic, and stop it after the block."""
        setup = TopicsSetup(layout, flush, topics, puts=0)
        opened = _open_layout(directory, setup)
        try:
            for topic in range(topics):
                opened.put(topic)
            yield cls(directory, setup, opened)
        finally:
            opened.shutdown()

    def put_for_a_while(self) -> None:
        producers = _PRODUCERS[self._setup.flush]
        cpu_ns = time.process_time_ns()
        sample = ClosedLoop([self._put_to_random_topic] * producers, _TURN_SECONDS).run()
        self._await_dispatch()
        self._rates.append(sample.rate)
        self._cpu_us.append((time.process_time_ns() - cpu_ns) / 1_000 / (sample.rate * _TURN_SECONDS))

    def finish(self) -> MeasuredHere:
        flush, topics = self._setup.flush, self._setup.topics
        rate = RATES_HERE[flush]
        arriving = Setup(flush, _PRODUCERS[flush], rate, int(rate * _RATE_SECONDS), seed=topics)
        latencies_ns = measure(arrivals(arriving), self._put_to_random_topic).latencies_ns
        p50, p99, most = percentiles_us(latencies_ns, (0.5, 0.99, 1.0))
        found = MeasuredHere(
            self._setup.layout, flush, topics, median(self._rates), median(self._cpu_us), rate, p50, p99, most
        )
        if flush == "sync":
            return found
        self._await_dispatch()
        everyone, few = list(range(topics)), few_topics_of(topics)
        tail, _, cpu_us = self._pull(everyone)
        few_lag, few_bytes, _ = self._pull_without_cache(few)
        all_lag, all_bytes, _ = self._pull_without_cache(everyone)
        return replace(
            found,
            tail_per_second=tail,
            pull_cpu_us=cpu_us,
            all_lag_per_second=all_lag,
            all_lag_read_bytes=all_bytes,
            few_lag_per_second=few_lag,
            few_lag_read_bytes=few_bytes,
        )

    def _put_to_random_topic(self) -> None:
        self._layout.put(int(self._random.random() * self._setup.topics))

    def _await_dispatch(self) -> None:
        if isinstance(self._layout, SharedLog):
            while self._layout.store.dispatch_behind_bytes:
                time.sleep(0.001)

    def _pull_without_cache(self, topics: Sequence[int]) -> tuple[float, float, float]:
        if isinstance(self._layout, SharedLog):
            store = self._layout.store
            for row in (store.log, *(queue.queue for queue in store.queues.all_queues())):
                for segment in row.segments:
                    segment.file.advise_dont_need(0, segment.size_bytes)
        for path in Path(self._directory).rglob("*"):
            if path.is_file():
                _drop_from_page_cache(path)
        return self._pull(topics)

    def _pull(self, topics: Sequence[int]) -> tuple[float, float, float]:
        """Pull from topics in turn. Return records per second, and bytes read and CPU time (µs) per record."""
        offsets = dict.fromkeys(topics, 0)
        records = 0
        read_bytes, cpu_ns, begun_ns = _read_bytes(), time.process_time_ns(), time.perf_counter_ns()
        due_ns = begun_ns + int(_PULL_SECONDS * 1e9)
        while offsets and time.perf_counter_ns() < due_ns:
            for topic, offset in list(offsets.items()):
                found = len(self._layout.pull(topic, offset))
                records += found
                if found:
                    offsets[topic] = offset + found
                else:
                    del offsets[topic]
        took_ns, cpu_ns = time.perf_counter_ns() - begun_ns, time.process_time_ns() - cpu_ns
        return records / took_ns * 1e9, (_read_bytes() - read_bytes) / records, cpu_ns / 1_000 / records


def _open_layout(directory: str, setup: TopicsSetup) -> TopicLayout:
    config = replace(setup.config(directory), mapped_file_size_commit_log=_LOG_BYTES)
    messages = setup.messages()
    if setup.layout == SHARED:
        store = MessageStore(real_world(), config)
        store.load()
        store.start()
        return SharedLog(store, messages)
    log = PartitionedLog(real_world(), RealGrowingFile, config, is_sync=setup.flush == "sync")
    log.start()
    return Partitions(log, messages)


def _drop_from_page_cache(path: Path) -> None:
    """Sync a file, because dirty pages are not dropped, and ask the kernel to drop it from memory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _read_bytes() -> int:
    for line in Path("/proc/self/io").read_text().splitlines():
        name, _, figure = line.partition(": ")
        if name == "read_bytes":
            return int(figure)
    return 0


class RealGrowingFile:
    """A real file opened for reading and writing, created if it is missing."""

    __slots__ = ("descriptor",)

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT, _CREATED_MODE)

    def write(self, at: int, data: bytes) -> int:
        return os.pwrite(self.descriptor, data, at)

    def read(self, at: int, size_bytes: int) -> bytes:
        return os.pread(self.descriptor, size_bytes, at)

    def sync(self) -> None:
        """Other threads run during a sync."""
        os.fdatasync(self.descriptor)

    def close(self) -> None:
        os.close(self.descriptor)
