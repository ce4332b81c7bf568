"""Plug-ins: stores around a store that change what it does. RocketMQ's messageStorePlugIn.

class Counting(AbstractPluginMessageStore):
    puts = 0

    def put_message(self, message):
        self.puts += 1
        return super().put_message(message)

store = build_message_store("my.plugins:Counting", PluginContext(world, config), MessageStore(world, config))
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module

from .config import ConfigError, StoreConfig
from .filters.message_filter import MessageFilter
from .formats.message import MessageRecord
from .index.index_service import QueryMessageResult
from .log.recovery import RecoveryReport
from .message import GetMessageResult, Message, MessageBatch, PutMessageResult
from .message_store_protocol import MessageStoreProtocol
from .queues.dispatch import ArrivalNotifier, Dispatcher
from .running_flags import RunningFlags
from .stats import StoreStats
from .world import World


@dataclass(frozen=True, slots=True)
class PluginContext:
    """What a plug-in may want to know."""

    world: World
    config: StoreConfig
    broker_conf: Mapping[str, str] = field(default_factory=dict)
    """The broker's other settings, by RocketMQ's keys."""


class AbstractPluginMessageStore:
    """Hands every operation to the next store. A plug-in overrides what it cares for.

    What the next store does of itself, its recovery or its services, does not come by here.
    """

    def __init__(self, context: PluginContext, next_store: MessageStoreProtocol) -> None:
        self.context = context
        self.next = next_store

    # -- parts -------------------------------------------------------------------------------------

    @property
    def config(self) -> StoreConfig:
        """Return the settings."""
        return self.next.config

    @property
    def flags(self) -> RunningFlags:
        """Return the reasons for which work is refused."""
        return self.next.flags

    @property
    def stats(self) -> StoreStats:
        """Return the counts of this life."""
        return self.next.stats

    @property
    def on_arriving(self) -> ArrivalNotifier:
        """Return those who are told of each message that can be pulled."""
        return self.next.on_arriving

    @property
    def dispatchers(self) -> list[Dispatcher]:
        """Return what each record is handed to, in order."""
        return self.next.dispatchers

    # -- life --------------------------------------------------------------------------------------

    def load(self, *, clean_exit: bool | None = None) -> RecoveryReport:
        """Lock the directory, map what is there, and recover it."""
        return self.next.load(clean_exit=clean_exit)

    def recover(self, *, clean_exit: bool) -> RecoveryReport:
        """Bring log and queues to one consistent state."""
        return self.next.recover(clean_exit=clean_exit)

    def start(self) -> None:
        """Start the services and accept puts."""
        self.next.start()

    def mark_running(self) -> None:
        """Create the marker that tells the next start how this one ended."""
        self.next.mark_running()

    def shutdown(self) -> bool:
        """Stop accepting, make everything durable, and end; return whether the exit was clean."""
        return self.next.shutdown()

    def is_clean(self) -> bool:
        """Return whether everything written is durable and visible."""
        return self.next.is_clean()

    def close(self) -> None:
        """Give maps and lock back, without a word to the disk."""
        self.next.close()

    def execute_delete_files_manually(self) -> None:
        """Delete segments whose time is over, whatever the hour."""
        self.next.execute_delete_files_manually()

    def clean_expired_consumer_queue(self) -> None:
        """Remove the queues all of whose messages have left the log."""
        self.next.clean_expired_consumer_queue()

    # -- putting -----------------------------------------------------------------------------------

    def put_message(self, message: Message) -> PutMessageResult:
        """Store one message."""
        return self.next.put_message(message)

    def put_messages(self, batch: MessageBatch) -> PutMessageResult:
        """Store a batch."""
        return self.next.put_messages(batch)

    @property
    def is_os_page_cache_busy(self) -> bool:
        """Return whether a put has held the lock for so long that the disk must be stalling."""
        return self.next.is_os_page_cache_busy

    @property
    def is_transient_store_pool_deficient(self) -> bool:
        """Return whether a new segment would find no buffer."""
        return self.next.is_transient_store_pool_deficient

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
        return self.next.get_message(topic, queue_id, offset, max_messages, tags, wanted)

    def look_message_by_offset(self, physical_offset: int) -> MessageRecord | None:
        """Return the record that begins at a log offset, None if none does."""
        return self.next.look_message_by_offset(physical_offset)

    def query_message(
        self, topic: str, key: str, max_messages: int, begin_ms: int, end_ms: int
    ) -> QueryMessageResult:
        """Return the newest messages of a topic that have a key, stored in [begin_ms, end_ms]."""
        return self.next.query_message(topic, key, max_messages, begin_ms, end_ms)

    def get_max_offset_in_queue(self, topic: str, queue_id: int) -> int:
        """Return the queue offset behind the last visible message."""
        return self.next.get_max_offset_in_queue(topic, queue_id)

    def get_min_offset_in_queue(self, topic: str, queue_id: int) -> int:
        """Return the queue offset of the first message, -1 for a queue never seen."""
        return self.next.get_min_offset_in_queue(topic, queue_id)

    def get_offset_in_queue_by_time(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """Return the queue offset of the message stored nearest to a time."""
        return self.next.get_offset_in_queue_by_time(topic, queue_id, timestamp_ms)

    @property
    def max_phy_offset(self) -> int:
        """Return the log offset behind the last record."""
        return self.next.max_phy_offset

    @property
    def min_phy_offset(self) -> int:
        """Return the first log offset, -1 for an empty log."""
        return self.next.min_phy_offset

    # -- watching ----------------------------------------------------------------------------------

    @property
    def dispatch_behind_bytes(self) -> int:
        """Return how much of the log is not visible yet."""
        return self.next.dispatch_behind_bytes

    def runtime_info(self) -> dict[str, str]:
        """Return what a broker tells of its store."""
        return self.next.runtime_info()


def build_message_store(
    names: str, context: PluginContext, store: MessageStoreProtocol
) -> MessageStoreProtocol:
    """Wrap a store in the plug-ins of a comma-separated list of `package.module:Class`; the first is the outermost.

    Raises ConfigError for a name behind which there is no plug-in. What the making of one raises goes through.
    """
    for name in reversed([name.strip() for name in names.split(",") if name.strip()]):
        store = _plugin_class(name)(context, store)
    return store


def _plugin_class(name: str) -> type[AbstractPluginMessageStore]:
    module_name, _, class_name = name.partition(":")
    expected = "package.module:Class of an AbstractPluginMessageStore"
    try:
        found = getattr(import_module(module_name), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError("message_store_plug_in", expected, name) from error
    if not (isinstance(found, type) and issubclass(found, AbstractPluginMessageStore)):
        raise ConfigError("message_store_plug_in", expected, name)
    return found
