"""Plug-ins: wrappers around a store. RocketMQ's messageStorePlugIn.

class Counting(AbstractPluginMessageStore):
    puts = 0

    def put_message(self, message):
        self.puts += 1
        return super().put_message(message)

store = build_message_store("my.plugins:Counting", PluginContext(world, config), MessageStore(world, config))
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from .config import ConfigError, StoreConfig
from .formats.java_text import java_trim
from .formats.messages import Message, MessageBatch, PutMessageResult
from .log.put_wait import PutWait
from .message_store import MessageStore
from .world import World

_PARTS = ("config", "flags", "stats", "on_arriving")
_INTERNAL = ("call_when_readable", "services")
"""Operations that replication and the test harness call on the store directly, not through plug-ins."""

if TYPE_CHECKING:
    _Operations = MessageStore
else:
    _Operations = object


@dataclass(frozen=True, slots=True)
class PluginContext:
    """The environment of a plug-in."""

    world: World
    config: StoreConfig
    broker_conf: Mapping[str, str] = field(default_factory=dict)


class AbstractPluginMessageStore(_Operations):
    """Passes every operation to the next store. A plug-in overrides some operations.

    Calls inside the next store, for example by recovery and services, bypass the plug-in.
    """

    def __init__(self, context: PluginContext, next_store: "AnyMessageStore") -> None:
        self.context = context
        self.next = next_store

    def begin_put(
        self, message: Message | MessageBatch, on_known: Callable[[], None] | None = None
    ) -> PutMessageResult | PutWait:
        """Begin a put. If the plug-in overrides the blocking put, call the override and block."""
        own, plain = type(self), AbstractPluginMessageStore
        if isinstance(message, MessageBatch):
            if own.put_messages is not plain.put_messages:
                return self.put_messages(message)
        elif own.put_message is not plain.put_message:
            return self.put_message(message)
        return self.next.begin_put(message, on_known)


def _delegate_to_store(operation: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(operation)
    def call_next_store(self: AbstractPluginMessageStore, *arguments: Any, **named: Any) -> Any:
        return getattr(self.next, operation.__name__)(*arguments, **named)

    return call_next_store


for _name, _value in {**dict.fromkeys(_PARTS), **vars(MessageStore)}.items():
    if not _name.startswith("_") and _name not in (*_INTERNAL, *vars(AbstractPluginMessageStore)):
        _own = _delegate_to_store(_value) if callable(_value) else property(attrgetter(f"next.{_name}"))
        setattr(AbstractPluginMessageStore, _name, _own)

AnyMessageStore = MessageStore | AbstractPluginMessageStore
"""A store with or without plug-ins. All code outside of the store uses this type."""


def build_message_store(names: str, context: PluginContext, store: AnyMessageStore) -> AnyMessageStore:
    """Wrap a store in plug-ins: a comma-separated list of `package.module:Class`, the outermost first.

    Raises ConfigError for a name without a plug-in, and any exception of a plug-in's constructor.
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
