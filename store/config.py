"""Every setting of a store, under RocketMQ's names in Python's spelling, with RocketMQ's defaults."""

from dataclasses import dataclass
from enum import Enum

from .formats.consume_queue import ENTRY_BYTES
from .formats.delay_level import DEFAULT_DELAY_LEVELS

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


class FlushDiskType(Enum):
    """When a put is answered: after its bytes are durable, or after they are in the page cache."""

    SYNC_FLUSH = "SYNC_FLUSH"
    ASYNC_FLUSH = "ASYNC_FLUSH"


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Settings of one store directory. Sizes are bytes, `_ms` are milliseconds, pages are 4096 bytes."""

    store_path_root_dir: str
    flush_disk_type: FlushDiskType = FlushDiskType.ASYNC_FLUSH

    mapped_file_size_commit_log: int = GIB
    mapped_file_size_consume_queue: int = 300_000 * ENTRY_BYTES
    max_message_size: int = 4 * MIB

    flush_interval_commit_log_ms: int = 500
    flush_commit_log_least_pages: int = 4
    flush_commit_log_thorough_interval_ms: int = 10_000
    flush_interval_consume_queue_ms: int = 1_000
    flush_consume_queue_least_pages: int = 2
    flush_consume_queue_thorough_interval_ms: int = 60_000
    sync_flush_timeout_ms: int = 5_000
    os_page_cache_busy_time_out_ms: int = 1_000

    max_transfer_bytes_on_message_in_memory: int = 256 * KIB
    max_transfer_count_on_message_in_memory: int = 32
    max_transfer_bytes_on_message_in_disk: int = 64 * KIB
    max_transfer_count_on_message_in_disk: int = 8
    access_message_in_memory_max_bytes: int = 8 * GIB

    message_delay_level: str = DEFAULT_DELAY_LEVELS
    check_crc_on_recover: bool = True
    recover_whole_log: bool = True
    """Compare every queue with the whole log on load, not only with what the checkpoint leaves open.

    Not a RocketMQ key: 4.9 always trusts the checkpoint, and so rebuilds less than what a lost queue needs.
    """

    def __post_init__(self) -> None:
        for name in ("mapped_file_size_commit_log", "mapped_file_size_consume_queue", "max_message_size"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}: expected more than 0, found {getattr(self, name)}")
        rounded = -(-self.mapped_file_size_consume_queue // ENTRY_BYTES) * ENTRY_BYTES
        object.__setattr__(self, "mapped_file_size_consume_queue", rounded)

    @property
    def commit_log_directory(self) -> str:
        """Return where the log's segments are."""
        return f"{self.store_path_root_dir}/commitlog"

    @property
    def consume_queue_directory(self) -> str:
        """Return where the queues' segments are, below `<topic>/<queueId>/`."""
        return f"{self.store_path_root_dir}/consumequeue"

    @property
    def checkpoint_path(self) -> str:
        """Return where the checkpoint is."""
        return f"{self.store_path_root_dir}/checkpoint"

    @property
    def abort_path(self) -> str:
        """Return the marker that exists while the store runs."""
        return f"{self.store_path_root_dir}/abort"

    @property
    def lock_path(self) -> str:
        """Return the file whose lock makes an instance the only one."""
        return f"{self.store_path_root_dir}/lock"
