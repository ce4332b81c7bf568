"""What is measured: a layout, a number of topics, a way of flushing."""

from dataclasses import dataclass, field, replace

from ....faults.devices.memory import Memory
from ....faults.devices.read_ahead import PAGES_MOST
from ....store.config import StoreConfig
from ....store.message import Message
from ..latency.setup import config_of

SHARED, PARTITIONED = "shared", "partitioned"
LAYOUTS = (SHARED, PARTITIONED)
"""One log for all topics, and a queue for each, as RocketMQ has it; one log for each topic, as Kafka has it."""

FLUSHES = ("sync", "async")
TOPICS = (1, 4, 16, 64, 256, 1024, 4096)

_LOG_BYTES = 32 << 20
_QUEUE_BYTES = 20_000
_NEVER_MS = 1 << 30


@dataclass(frozen=True, slots=True)
class TopicsSetup:
    """One series of puts, each to a topic of its own drawing."""

    layout: str
    flush: str
    topics: int
    puts: int
    producers: int = 32
    body_bytes: int = 1024
    seed: int = 0
    memory: Memory = field(default_factory=Memory)
    queues_ahead: bool = True
    """Whether files of consume queues are allocated ahead, as here, or as they are written back, as in Java."""
    packed: bool = False
    """Whether growing files lie packed as they are written back, or each keeps room behind its last block."""
    read_ahead_pages: int = PAGES_MOST
    """How far is read ahead at most."""
    around_faults: bool = True
    """Whether what is read through a map, the shared log and its queues, is read around where it is not there.

    Linux does, unless it is told that reads are random (MADV_RANDOM).
    """
    flushes: bool = True
    """Whether async flush flushes, or leaves all to the system."""

    def config(self, directory: str) -> StoreConfig:
        """Return the settings of a store in a directory, of which both layouts take what concerns them."""
        config = config_of(self.flush, directory, _LOG_BYTES)
        if not self.flushes:
            config = replace(
                config, flush_interval_commit_log_ms=_NEVER_MS, flush_interval_consume_queue_ms=_NEVER_MS
            )
        return replace(config, mapped_file_size_consume_queue=_QUEUE_BYTES)

    def messages(self) -> list[Message]:
        """Return what is put to each topic."""
        body = bytes(self.body_bytes)
        return [Message.of(f"topic-{topic}", body) for topic in range(self.topics)]
