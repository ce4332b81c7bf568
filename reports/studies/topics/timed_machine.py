"""Timed machine: simulates one of the layouts with storage and CPU time."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar, cast

from ....faults.devices.cached_reads import ReadAhead
from ....faults.devices.drives import DeviceModel
from ....faults.devices.pages import ROOM_BLOCKS
from ....faults.devices.system import StorageSystem, TimedFiles, TimedMappedFile
from ....faults.disk.disk import Disk
from ....faults.disk.files import SimFiles
from ....faults.disk.mapped_file import Buffer
from ....faults.disk.syncs import SyncTiming
from ....sim.choices import Choices
from ....sim.kernel import Kernel
from ....sim.machine import SimProcessor, WaitReason
from ....sim.policies.random_walk import RoundRobin
from ....sim.process import collect_garbage_at_end
from ....store.message_store import MessageStore
from ....store.world import Files, World
from ..latency.host import HostCosts, HostTasks
from .layouts import SHARED, Partitions, SharedLog, TopicLayout, TopicsSetup, Touched
from .partitioned_log import PartitionedLog

T = TypeVar("T")
_ROOT = "/store"
_UNTIL_IT_BLOCKS = 1 << 40
_TIME_LIMIT_NS = 100_000 * 1_000_000_000
_QUEUE_ROOM_BYTES = 6_000_000
"""Size of a consume queue file with RocketMQ's settings. Simulated files are shorter, but equally far apart on disk."""
_PAGE_BYTES = 4096
_ASLEEP = WaitReason("sleep")


class TimedMachine:
    """A machine that is created before a simulation run and used inside it."""

    def __init__(self, setup: TopicsSetup, host: HostCosts, model: DeviceModel, kernel: Kernel) -> None:
        self.setup = setup
        self.kernel = kernel
        self.choices = Choices(f"topics/{setup.seed}")
        self.machine = kernel.create_machine("host")
        self.processor = SimProcessor(kernel)
        self._charges_reads = False
        self.read_wait_ns = [0, 0]
        """Time of all consumers' waits for reads of records, and of queues."""
        files = Disk(kernel, self.choices.stream("disk"), timing=SyncTiming(0, 0)).mount(self.machine)
        self.system = StorageSystem(
            kernel.create_machine("storage"),
            model(self.choices.stream("storage")),
            setup.memory,
            room_blocks=0 if setup.packed else ROOM_BLOCKS,
            read_ahead=self._read_ahead,
            sorts_requests=setup.sorts_requests,
        )
        self.files = TimedFiles(files, self.system, self._bytes_ahead)
        self.tasks = HostTasks(self.machine, host, self.processor, self.choices.stream("handovers"))
        touched = cast(Files, PageFaultFiles(self.files, self.processor, host.touch_ns))
        self._world = World(self.machine.clock, self.tasks, touched)
        self._open_file = partial(SimGrowingFile, files, self.files, self._wait_for_read)

    def _bytes_ahead(self, path: str, size_bytes: int) -> int | None:
        """Return the number of bytes to allocate ahead for a mapped file; None without allocation."""
        if "/consumequeue/" not in path:
            return size_bytes
        return max(size_bytes, _QUEUE_ROOM_BYTES) if self.setup.queues_ahead else None

    def _read_ahead(self, path: str) -> ReadAhead:
        """Only the shared log and its queues are read through mappings."""
        setup = self.setup
        return ReadAhead(setup.read_ahead_pages, around=setup.around_faults and setup.layout == SHARED)

    def start(self) -> TopicLayout:
        """Start a layout with a durable message in each topic. This takes no virtual time."""
        setup, messages = self.setup, self.setup.messages()
        self.files.is_timed = False
        layout: TopicLayout
        if setup.layout == SHARED:
            store = MessageStore(self._world, setup.config(_ROOT))
            store.load()
            store.start()
            layout = SharedLog(store, messages, self._wait_for_read)
        else:
            is_sync = setup.flush == "sync"
            log = PartitionedLog(self._world, self._open_file, setup.config(_ROOT), is_sync=is_sync)
            log.start()
            for message in messages:
                log.create(message.topic, 0)
            layout = Partitions(log, messages)
        for topic in range(setup.topics):
            layout.put(topic)
        self.settle(layout)
        if isinstance(layout, SharedLog):
            layout.store.flush_queues.flush_thoroughly()  # syncs the directories of new queues once
        self.files.is_timed = True
        return layout

    def settle(self, layout: TopicLayout) -> None:
        """Wait until all puts are visible, then write back all files in no virtual time."""
        if isinstance(layout, SharedLog):
            while layout.store.dispatch_behind_bytes:
                self.sleep_ns(1_000_000)
        self.system.write_back.forget()

    def drop_page_cache(self) -> None:
        self.system.reads.drop_pages()
        self._charges_reads = True

    def sleep_ns(self, ns: int) -> None:
        self.kernel.park(_ASLEEP, self.kernel.now_ns + ns)

    def _wait_for_read(self, path: str, start: int, end: int) -> None:
        if self._charges_reads:
            begun_ns = self.kernel.now_ns
            self.system.read(self.kernel.current.name, path, start, end)
            self.read_wait_ns["/consumequeue/" in path] += self.kernel.now_ns - begun_ns


def run_timed(setup: TopicsSetup, host: HostCosts, model: DeviceModel, body: Callable[[TimedMachine], T]) -> T:
    with collect_garbage_at_end(), Kernel(RoundRobin(_UNTIL_IT_BLOCKS), step_limit=1 << 60) as kernel:
        machine = TimedMachine(setup, host, model, kernel)
        return kernel.run(machine.machine, lambda: body(machine), time_limit_ns=_TIME_LIMIT_NS)


class PageFaultFiles:
    """Files of which the first write to each mapped page takes time."""

    def __init__(self, files: TimedFiles, processor: SimProcessor, touch_ns: int) -> None:
        self._files = files
        self._processor = processor
        self._touch_ns = touch_ns

    def __getattr__(self, name: str) -> object:
        return getattr(self._files, name)

    def map(self, path: str, size_bytes: int) -> "PageFaultMappedFile":
        return PageFaultMappedFile(self._files.map(path, size_bytes), size_bytes, self)

    def spend_page_faults(self, pages: int) -> None:
        """Spend the time of page faults in the current task."""
        if pages * self._touch_ns:
            self._processor.compute(pages * self._touch_ns)


class PageFaultMappedFile:
    """A mapped file that records written pages. Invariant: byte n of `_touched` is 1 if page n was written."""

    def __init__(self, mapped: TimedMappedFile, size_bytes: int, files: PageFaultFiles) -> None:
        self._mapped = mapped
        self._files = files
        self._touched = bytearray(-(-size_bytes // _PAGE_BYTES))

    def __getattr__(self, name: str) -> object:
        return getattr(self._mapped, name)

    def store(self, at: int, data: Buffer) -> None:
        first, last = at // _PAGE_BYTES, (at + max(len(data), 1) - 1) // _PAGE_BYTES
        assert 0 <= first <= last < len(self._touched), (at, len(data))
        new = self._touched.count(0, first, last + 1)
        if new:
            self._touched[first : last + 1] = b"\1" * (last + 1 - first)
        self._files.spend_page_faults(new)
        self._mapped.store(at, data)


class SimGrowingFile:
    """An open file on simulated storage that takes virtual time."""

    def __init__(self, files: SimFiles, timed: TimedFiles, touched: Touched, path: str) -> None:
        """touched: waits until bytes [start, end) of a file are in the page cache."""
        self._files = files
        self._touched = touched
        self._path = path
        self._descriptor = timed.open(path)

    def write(self, at: int, data: bytes) -> int:
        return self._descriptor.write(at, data)

    def read(self, at: int, size_bytes: int) -> bytes:
        end = min(at + size_bytes, self._descriptor.size_bytes)
        if end <= at:
            return b""
        assert end <= self._descriptor.size_bytes, (end, self._descriptor.size_bytes)
        self._touched(self._path, at, end)
        return bytes(self._files.map(self._path, end).view(at, end))

    def sync(self) -> None:
        self._descriptor.sync()

    def close(self) -> None:
        """No-op: a simulated descriptor has no cost."""
