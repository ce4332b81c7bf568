"""Plug-ins pass every operation of MessageStore to the next store, also operations added later."""

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest

from tornlog.store.config import ConfigError, StoreConfig
from tornlog.store.formats.messages import Message, PutMessageResult
from tornlog.store.message_store import MessageStore
from tornlog.store.plugins import AbstractPluginMessageStore, AnyMessageStore, PluginContext, build_message_store
from tornlog.store.real.world import real_world
from tornlog.store.world import World

pytestmark = pytest.mark.usefixtures("inside")

HERE = __name__
PARTS = {"config", "flags", "stats", "on_arriving"}
"""Public attributes of a store."""

INTERNAL = {"call_when_readable", "services"}
"""Operations that replication and the harness call on the store directly, not through plug-ins."""

OPERATIONS = {name for name in vars(MessageStore) if not name.startswith("_")} - INTERNAL


class Counting(AbstractPluginMessageStore):
    """The plug-in of the module's example, which counts puts."""

    puts = 0

    def put_message(self, message: Message) -> PutMessageResult:
        self.puts += 1
        return super().put_message(message)


class Refusing(AbstractPluginMessageStore):
    def __init__(self, context: PluginContext, next_store: AnyMessageStore) -> None:
        raise RuntimeError("not today")


class Recorder:
    """A next store that records each call and returns the call."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        if name in PARTS or isinstance(vars(MessageStore).get(name), property):
            return f"the store's {name}"

        def call(*arguments: Any, **named: Any) -> Any:
            self.asked.append((name, arguments, named))
            return f"answer of {name}"

        return call


@pytest.fixture
def context() -> PluginContext:
    return PluginContext(real_world(), StoreConfig("/nowhere"))


def public_names(kind: type) -> set[str]:
    return {
        name
        for name, value in vars(kind).items()
        if not name.startswith("_") and isinstance(value, FunctionType | property)
    }


def test_a_plugin_has_every_operation_of_the_store() -> None:
    assert public_names(AbstractPluginMessageStore) == OPERATIONS | PARTS


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_a_plugin_operation_has_the_same_signature_as_that_of_the_store(name: str) -> None:
    own = vars(MessageStore)[name]
    other = vars(AbstractPluginMessageStore)[name]
    if isinstance(own, property):
        assert isinstance(other, property)
    else:
        assert inspect.signature(other) == inspect.signature(own)


@pytest.mark.parametrize("name", sorted(OPERATIONS | PARTS))
def test_a_plugin_forwards_each_operation_with_all_arguments(name: str, context: PluginContext) -> None:
    recorder = Recorder()
    plugin: Any = AbstractPluginMessageStore(context, recorder)  # type: ignore[arg-type]
    own = vars(MessageStore).get(name)
    if not isinstance(own, FunctionType):
        assert getattr(plugin, name) == f"the store's {name}"
        return
    parameters = list(inspect.signature(own).parameters.values())[1:]
    plain = [f"<{each.name}>" for each in parameters if each.kind is not each.KEYWORD_ONLY]
    named = {each.name: f"<{each.name}>" for each in parameters if each.kind is each.KEYWORD_ONLY}
    answer = getattr(plugin, name)(*plain, **named)

    (asked,) = recorder.asked
    given = inspect.signature(own).bind(None, *asked[1], **asked[2]).arguments
    assert asked[0] == name
    assert {key: value for key, value in given.items() if key != "self"} == {
        each.name: f"<{each.name}>" for each in parameters
    }
    assert answer in (f"answer of {name}", None)
    if inspect.signature(own).return_annotation is not None:
        assert answer == f"answer of {name}"


def test_the_first_configured_plugin_is_the_outermost_and_all_see_a_put(
    world: World, small: Callable[..., StoreConfig]
) -> None:
    config = small()
    context = PluginContext(world, config, {"messageStorePlugIn": "..."})
    inner = MessageStore(world, config)
    names = f"{HERE}:Counting, {HERE}:AbstractPluginMessageStore,{HERE}:Counting,"
    store: Any = build_message_store(names, context, inner)
    assert [type(each) for each in (store, store.next, store.next.next)] == [
        Counting,
        AbstractPluginMessageStore,
        Counting,
    ]
    assert store.next.next.next is inner
    assert store.context is context
    store.load()
    store.start()
    store.put_message(Message.create("T", b"x"))
    world.tasks.sleep(1)
    assert (store.puts, store.next.next.puts, store.stats.put_messages_total) == (1, 1, 1)
    assert len(store.get_message("T", 0, 0).records) == 1
    assert store.shutdown()


def test_without_plugins_the_store_is_not_wrapped(context: PluginContext) -> None:
    recorder: Any = Recorder()
    assert build_message_store("", context, recorder) is recorder
    assert build_message_store(" , ", context, recorder) is recorder


@pytest.mark.parametrize(
    "name", ["no.such.module:Plugin", f"{HERE}:Missing", f"{HERE}:Recorder", f"{HERE}:HERE", f"{HERE}:", ":X"]
)
def test_the_error_for_a_name_that_is_not_a_plugin_names_it(name: str, context: PluginContext) -> None:
    recorder: Any = Recorder()
    with pytest.raises(ConfigError, match=r"message_store_plug_in: expected package\.module:Class") as refused:
        build_message_store(name, context, recorder)
    assert name in str(refused.value)


def test_an_exception_of_a_plugin_constructor_is_raised(context: PluginContext) -> None:
    recorder: Any = Recorder()
    with pytest.raises(RuntimeError, match="not today"):
        build_message_store(f"{HERE}:Refusing", context, recorder)
