"""Topic layouts: provides both layouts through one interface, with CPU costs.

The CPU costs were measured on one machine with real files. The cost of a put is the CPU time of the whole process,
including dispatch, in a closed loop of one producer without syncs. The cost of a pulled record was measured with pulls
of 32 records from the page cache. With one topic, a put into the shared log took 10.9 us. The simulation scales all
costs by one factor, so that this put takes as long as a put and its dispatch on the reference host. Both layouts become
slower with the number of files that they write. `tornlog plot topics --disk here` repeats the measurement (put_cpu_us,
pull_cpu_us in its table).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import log
from typing import Protocol

from ....faults.devices.cached_reads import PAGES_MAX
from ....faults.devices.pages import PageCacheLimits
from ....store.config import StoreConfig
from ....store.formats.consume_queue import ENTRY_BYTES
from ....store.formats.messages import Message, PutMessageStatus
from ....store.log.segment_queue import SegmentQueue
from ....store.message_store import MessageStore
from ..latency.host import REFERENCE
from ..latency.traffic import config_of
from .partitioned_log import PartitionedLog

SHARED, PARTITIONED = "shared", "partitioned"
LAYOUTS = (SHARED, PARTITIONED)
"""One log for all topics with a queue per topic, as in RocketMQ; and one log per topic, as in Kafka."""
FLUSHES = ("sync", "async")
TOPICS = (1, 4, 16, 64, 256, 1024, 4096)
_LOG_BYTES = 32 << 20
_QUEUE_BYTES = 20_000
_NEVER_MS = 1 << 30
_PUT_US = {
    SHARED: ((1, 10.9), (64, 10.9), (1024, 14.4), (4096, 18.0)),
    PARTITIONED: ((1, 4.8), (64, 5.3), (1024, 9.6), (4096, 12.2)),
}
_PULLED_US = {SHARED: 2.1, PARTITIONED: 1.1}
_REFERENCE_US = 10.9
_SCALE_NS = (REFERENCE.put_work_ns + REFERENCE.dispatch_ns) / _REFERENCE_US
PULLED_MAX = 32
"""Maximum number of records per pull."""
Touched = Callable[[str, int, int], None]
"""Callback with a file's path and the range [start, end) that a pull has read."""


@dataclass(frozen=True, slots=True)
class TopicsSetup:
    """The parameters of one series of puts to random topics."""

    layout: str
    flush: str
    topics: int
    puts: int
    producers: int = 32
    body_bytes: int = 1024
    seed: int = 0
    memory: PageCacheLimits = field(default_factory=PageCacheLimits)
    queues_ahead: bool = True
    """Whether blocks of consume queue files are allocated ahead (tornlog), not during write-back (Java)."""
    packed: bool = False
    """Whether write-back packs growing files together on disk.

    Without packing, each file reserves space after its last block.
    """
    read_ahead_pages: int = PAGES_MAX
    around_faults: bool = True
    """Whether a page fault in the shared log or its queues also reads the pages around it.

    Linux reads these pages by default; MADV_RANDOM prevents this.
    """
    sorts_requests: bool = True
    """Whether the system sorts the disk's queue (mq-deadline), not only the disk itself (none)."""
    flushes: bool = True
    """Whether async flush syncs files. Without these syncs, only the kernel writes the files back."""

    def config(self, directory: str) -> StoreConfig:
        """Each layout uses only some of the settings."""
        config = config_of(self.flush, directory, _LOG_BYTES)
        if not self.flushes:
            config = replace(config, flush_interval_commit_log_ms=_NEVER_MS, flush_interval_consume_queue_ms=_NEVER_MS)
        return replace(config, mapped_file_size_consume_queue=_QUEUE_BYTES)

    def messages(self) -> list[Message]:
        body = bytes(self.body_bytes)
        return [Message.create(f"topic-{topic}", body) for topic in range(self.topics)]


def put_factor(layout: str, topics: int) -> float:
    """Return the cost of a put and its dispatch, relative to the shared log with one topic.

    The cost is interpolated between measured numbers of topics, on a logarithmic scale, and constant above the largest
    one.
    """
    points = _PUT_US[layout]
    for (few, low), (many, high) in pairwise(points):
        if topics <= many:
            return (low + (high - low) * log(topics / few) / log(many / few)) / _REFERENCE_US
    return points[-1][1] / _REFERENCE_US


def pulled_ns(layout: str) -> int:
    """Return the CPU time per pulled record."""
    return round(_PULLED_US[layout] * _SCALE_NS)


class TopicLayout(Protocol):
    """A store with one of the layouts, which creates the messages that it stores."""

    def put(self, topic: int) -> None:
        """Put a message to a topic. Raises RuntimeError or OSError if the message was not stored as requested."""

    def pull(self, topic: int, offset: int) -> list[bytes]:
        """Return up to PULLED_MAX records of a topic from an offset on."""

    def shutdown(self) -> None:
        """Stop the store."""


class SharedLog:
    """The message store of tornlog: one log, and a consume queue for each topic."""

    def __init__(self, store: MessageStore, messages: Sequence[Message], touched: Touched | None = None) -> None:
        self.store = store
        self._messages = messages
        self._touched = touched

    def put(self, topic: int) -> None:
        status = self.store.put_message(self._messages[topic]).status
        if status is not PutMessageStatus.PUT_OK:
            raise RuntimeError(f"a put was answered {status.name}")

    def pull(self, topic: int, offset: int) -> list[bytes]:
        name = self._messages[topic].topic
        result = self.store.get_message(name, 0, offset, PULLED_MAX)
        if self._touched is not None and result.records:
            queue, end_offset = self.store.queues.find_or_create(name, 0).queue, offset + len(result.records)
            self._report_pulled_range(queue, offset * ENTRY_BYTES, end_offset * ENTRY_BYTES)
            for at, record in zip(result.physical_offsets, result.records, strict=True):
                self._report_pulled_range(self.store.log, at, at + len(record))
        return result.records

    def _report_pulled_range(self, row: SegmentQueue, start: int, end: int) -> None:
        """Report the range that a pull has read, which is in a single segment."""
        segment = row.find(start)
        assert segment is not None
        assert self._touched is not None
        self._touched(segment.file.path, start - segment.base_offset, end - segment.base_offset)

    def shutdown(self) -> None:
        self.store.shutdown()


class Partitions:
    """One log for each topic."""

    def __init__(self, log: PartitionedLog, messages: Sequence[Message]) -> None:
        self.log = log
        self._messages = messages

    def put(self, topic: int) -> None:
        self.log.put(self._messages[topic])

    def pull(self, topic: int, offset: int) -> list[bytes]:
        return self.log.read(self._messages[topic].topic, 0, offset, PULLED_MAX)

    def shutdown(self) -> None:
        self.log.shutdown()
