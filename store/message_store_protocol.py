"""Protocol of a message store for code outside of it: RocketMQ's MessageStore interface.

`MessageStore` is one, and so is every plug-in around it. What an operation means stands with `MessageStore`.
"""

from typing import Protocol

from .config import StoreConfig
from .filters.message_filter import MessageFilter
from .formats.message import MessageRecord
from .index.index_service import QueryMessageResult
from .log.recovery import RecoveryReport
from .message import GetMessageResult, Message, MessageBatch, PutMessageResult
from .queues.dispatch import ArrivalNotifier, Dispatcher
from .running_flags import RunningFlags
from .stats import StoreStats


class MessageStoreProtocol(Protocol):
    """A message store, or something around one."""

    # -- parts -------------------------------------------------------------------------------------

    @property
    def config(self) -> StoreConfig:
        """Return the settings."""

    @property
    def flags(self) -> RunningFlags:
        """Return the reasons for which work is refused."""

    @property
    def stats(self) -> StoreStats:
        """Return the counts of this life."""

    @property
    def on_arriving(self) -> ArrivalNotifier:
        """Return those who are told of each message that can be pulled."""

    @property
    def dispatchers(self) -> list[Dispatcher]:
        """Return what each record is handed to, in order."""

    # -- life --------------------------------------------------------------------------------------

    def load(self, *, clean_exit: bool | None = None) -> RecoveryReport:
        """Lock the directory, map what is there, and recover it."""

    def recover(self, *, clean_exit: bool) -> RecoveryReport:
        """Bring log and queues to one consistent state."""

    def start(self) -> None:
        """Start the services and accept puts."""

    def mark_running(self) -> None:
        """Create the marker that tells the next start how this one ended."""

    def shutdown(self) -> bool:
        """Stop accepting, make everything durable, and end; return whether the exit was clean."""

    def is_clean(self) -> bool:
        """Return whether everything written is durable and visible."""

    def close(self) -> None:
        """Give maps and lock back, without a word to the disk."""

    def execute_delete_files_manually(self) -> None:
        """Delete segments whose time is over, whatever the hour."""

    def clean_expired_consumer_queue(self) -> None:
        """Remove the queues all of whose messages have left the log."""

    # -- putting -----------------------------------------------------------------------------------

    def put_message(self, message: Message) -> PutMessageResult:
        """Store one message."""

    def put_messages(self, batch: MessageBatch) -> PutMessageResult:
        """Store a batch."""

    @property
    def is_os_page_cache_busy(self) -> bool:
        """Return whether a put has held the lock for so long that the disk must be stalling."""

    @property
    def is_transient_store_pool_deficient(self) -> bool:
        """Return whether a new segment would find no buffer."""

    # -- reading -----------------------------------------------------------------------------------

    def get_message(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_messages: int = 32,
        tags: str | None = None,
        wanted: MessageFilter | None = None,
    ) -> GetMessageResult:
        """Pull up to max_messages from a queue offset on."""

    def look_message_by_offset(self, physical_offset: int) -> MessageRecord | None:
        """Return the record that begins at a log offset, None if none does."""

    def query_message(
        self, topic: str, key: str, max_messages: int, begin_ms: int, end_ms: int
    ) -> QueryMessageResult:
        """Return the newest messages of a topic that have a key, stored in [begin_ms, end_ms]."""

    def get_max_offset_in_queue(self, topic: str, queue_id: int) -> int:
        """Return the queue offset behind the last visible message."""

    def get_min_offset_in_queue(self, topic: str, queue_id: int) -> int:
        """Return the queue offset of the first message, -1 for a queue never seen."""

    def get_offset_in_queue_by_time(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """Return the queue offset of the message stored nearest to a time."""

    @property
    def max_phy_offset(self) -> int:
        """Return the log offset behind the last record."""

    @property
    def min_phy_offset(self) -> int:
        """Return the first log offset, -1 for an empty log."""

    # -- watching ----------------------------------------------------------------------------------

    @property
    def dispatch_behind_bytes(self) -> int:
        """Return how much of the log is not visible yet."""

    def runtime_info(self) -> dict[str, str]:
        """Return what a broker tells of its store."""
