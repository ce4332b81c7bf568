"""Plug-ins: stores around a store that change what it does. RocketMQ's messageStorePlugIn.

class Counting(AbstractPluginMessageStore):
    puts = 0

    def put_message(self, message):
        self.puts += 1
        return super().put_message(message)

store = build_message_store("my.plugins:Counting", PluginContext(world, config), MessageStore(world, config))
"""
# ruff: noqa: D102 - what an operation means stands with `MessageStore`

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module

from .config import ConfigError, StoreConfig
from .filters.message_filter import MessageFilter
from .formats.java_text import java_trim
from .formats.message import MessageRecord
from .formats.messages import GetMessageResult, Message, MessageBatch, PutMessageResult
from .index.key_query import QueryMessageResult
from .log.put_wait import PutWait
from .message_store import MessageStore
from .queues.dispatch import ArrivalNotifier, Dispatcher
from .recovery.recovery import RecoveryReport
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

    What an operation means stands with `MessageStore`. What the next store does of itself, its recovery or its
    services, does not come by here.
    """

    def __init__(self, context: PluginContext, next_store: "AnyMessageStore") -> None:
        self.context = context
        self.next = next_store

    # -- parts -------------------------------------------------------------------------------------

    @property
    def config(self) -> StoreConfig:
        return self.next.config

    @property
    def flags(self) -> RunningFlags:
        return self.next.flags

    @property
    def stats(self) -> StoreStats:
        return self.next.stats

    @property
    def on_arriving(self) -> ArrivalNotifier:
        return self.next.on_arriving

    @property
    def dispatchers(self) -> list[Dispatcher]:
        return self.next.dispatchers

    # -- life --------------------------------------------------------------------------------------

    def load(self, *, clean_exit: bool | None = None) -> RecoveryReport:
        return self.next.load(clean_exit=clean_exit)

    def recover(self, *, clean_exit: bool) -> RecoveryReport:
        return self.next.recover(clean_exit=clean_exit)

    def start(self) -> None:
        self.next.start()

    def mark_running(self) -> None:
        self.next.mark_running()

    def shutdown(self) -> bool:
        return self.next.shutdown()

    def is_clean(self) -> bool:
        return self.next.is_clean()

    def close(self) -> None:
        self.next.close()

    def execute_delete_files_manually(self) -> None:
        self.next.execute_delete_files_manually()

    def clean_expired_consumer_queue(self) -> None:
        self.next.clean_expired_consumer_queue()

    # -- putting -----------------------------------------------------------------------------------

    def put_message(self, message: Message) -> PutMessageResult:
        return self.next.put_message(message)

    def put_messages(self, batch: MessageBatch) -> PutMessageResult:
        return self.next.put_messages(batch)

    def begin_put(
        self, message: Message | MessageBatch, on_known: Callable[[], None] | None = None
    ) -> PutMessageResult | PutWait:
        """Begin a put; one that the plug-in has its own word about is waited for where it is begun."""
        own, plain = type(self), AbstractPluginMessageStore
        if isinstance(message, MessageBatch):
            if own.put_messages is not plain.put_messages:
                return self.put_messages(message)
        elif own.put_message is not plain.put_message:
            return self.put_message(message)
        return self.next.begin_put(message, on_known)

    @property
    def is_os_page_cache_busy(self) -> bool:
        return self.next.is_os_page_cache_busy

    @property
    def is_transient_store_pool_deficient(self) -> bool:
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
        return self.next.get_message(topic, queue_id, offset, max_messages, tags, wanted)

    def look_message_by_offset(self, physical_offset: int) -> MessageRecord | None:
        return self.next.look_message_by_offset(physical_offset)

    def query_message(self, topic: str, key: str, max_messages: int, begin_ms: int, end_ms: int) -> QueryMessageResult:
        return self.next.query_message(topic, key, max_messages, begin_ms, end_ms)

    def get_max_offset_in_queue(self, topic: str, queue_id: int) -> int:
        return self.next.get_max_offset_in_queue(topic, queue_id)

    def get_min_offset_in_queue(self, topic: str, queue_id: int) -> int:
        return self.next.get_min_offset_in_queue(topic, queue_id)

    def get_offset_in_queue_by_time(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        return self.next.get_offset_in_queue_by_time(topic, queue_id, timestamp_ms)

    @property
    def max_phy_offset(self) -> int:
        return self.next.max_phy_offset

    @property
    def min_phy_offset(self) -> int:
        return self.next.min_phy_offset

    # -- watching ----------------------------------------------------------------------------------

    @property
    def dispatch_behind_bytes(self) -> int:
        return self.next.dispatch_behind_bytes

    def runtime_info(self) -> dict[str, str]:
        return self.next.runtime_info()


AnyMessageStore = MessageStore | AbstractPluginMessageStore
"""A store, with or without plug-ins around it: what all code outside of the store asks."""


def build_message_store(names: str, context: PluginContext, store: AnyMessageStore) -> AnyMessageStore:
    """Wrap a store in the plug-ins of a comma-separated list of `package.module:Class`; the first is the outermost.

    Raises ConfigError for a name behind which there is no plug-in. What the making of one raises goes through.
    """
    for name in reversed([name for name in map(java_trim, names.split(",")) if name]):
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
