from collections.abc import Callable
from typing import Any

import pytest

from tornlog.store.config import BrokerRole
from tornlog.store.formats.consume_queue import tags_code
from tornlog.store.formats.message import TRANSACTION_PREPARED
from tornlog.store.formats.messages import GetMessageStatus, Message
from tornlog.store.formats.scan import ScannedRecord
from tornlog.store.message_store import MessageStore
from tornlog.store.queues.dispatch import MessageArrival
from tornlog.store.world import World

pytestmark = pytest.mark.usefixtures("inside")

Make = Callable[..., Any]


def test_an_arrival_listener_is_called_for_each_message_once_it_can_be_pulled(
    world: World, store: MessageStore
) -> None:
    seen: list[MessageArrival] = []

    def listen(arrival: MessageArrival) -> None:
        seen.append(arrival)
        pulled = store.get_message(arrival.topic, arrival.queue_id, arrival.next_offset - 1, 1)
        assert pulled.status is GetMessageStatus.FOUND

    store.on_arriving.append(listen)
    results = [store.put_message(Message.create("T", b"x", queue_id=3, tags="A")).append for _ in range(2)]
    world.tasks.sleep(1)
    assert store.on_arriving.last_error is None
    assert seen == [
        MessageArrival("T", 3, number + 1, tags_code("A"), result.store_timestamp_ms, {"TAGS": "A"})
        for number, result in enumerate(results)
        if result is not None
    ]


def test_records_outside_of_queues_cause_no_arrival_notification(world: World, store: MessageStore) -> None:
    seen: list[MessageArrival] = []
    store.on_arriving.append(seen.append)
    store.put_message(Message("T", b"half", sys_flag=TRANSACTION_PREPARED))
    store.put_message(Message.create("T", b"whole"))
    world.tasks.sleep(1)
    assert [arrival.next_offset for arrival in seen] == [1]


def test_an_exception_of_an_arrival_listener_stops_neither_dispatch_nor_other_listeners(
    world: World, store: MessageStore
) -> None:
    def fail(arrival: MessageArrival) -> None:
        raise RuntimeError(f"nobody for {arrival.topic}")

    seen: list[MessageArrival] = []
    store.on_arriving.append(fail)
    store.on_arriving.append(seen.append)
    for _ in range(3):
        store.put_message(Message.create("T", b"x"))
    world.tasks.sleep(1)
    assert len(seen) == 3
    assert str(store.on_arriving.last_error) == "nobody for T"
    assert store.dispatch.last_error is None
    assert store.get_max_offset_in_queue("T", 0) == 3


def test_a_slave_calls_no_arrival_listener(world: World, small: Make) -> None:
    store = MessageStore(world, small(broker_role=BrokerRole.SLAVE))
    store.on_arriving.append(lambda arrival: None)
    assert store.dispatch.on_arriving == []


def test_long_polling_can_be_enabled_and_disabled_while_the_store_runs(world: World, store: MessageStore) -> None:
    seen: list[int] = []
    store.on_arriving.append(lambda arrival: seen.append(arrival.next_offset))
    for number, is_on in enumerate((False, True, False)):
        object.__setattr__(store.config, "long_polling_enable", is_on)
        store.put_message(Message.create("T", b"x"))
        world.tasks.sleep(1)
        assert store.on_arriving.awaits("T", 0) is is_on
        assert seen == [2][:number]


def test_dispatch_notifies_of_arrivals_only_while_there_are_listeners(world: World, store: MessageStore) -> None:
    before = len(store.dispatch.on_arriving)
    first: list[MessageArrival] = []
    second: list[MessageArrival] = []
    tell_first, tell_second = first.append, second.append
    store.on_arriving.append(tell_first)
    store.on_arriving.append(tell_second)
    assert len(store.dispatch.on_arriving) == before + 1
    store.on_arriving.remove(tell_first)
    store.put_message(Message.create("T", b"x"))
    world.tasks.sleep(1)
    assert (len(first), len(second)) == (0, 1)
    store.on_arriving.remove(tell_second)
    assert len(store.dispatch.on_arriving) == before
    with pytest.raises(ValueError, match="not in list"):
        store.on_arriving.remove(tell_first)


@pytest.mark.parametrize(
    ("names", "offsets", "told"),
    [
        ("%LMQ%a,b", "4,7", [("T", 2, 10), ("%LMQ%a", 0, 5), ("b", 2, 8)]),
        ("%LMQ%a,b", "4", [("T", 2, 10)]),
        ("%LMQ%a", "four", [("T", 2, 10)]),
    ],
)
def test_a_message_also_arrives_in_the_light_queues_it_names(
    world: World, small: Make, names: str, offsets: str, told: list[tuple[str, int, int]]
) -> None:
    properties = f"INNER_MULTI_DISPATCH\1{names}\2INNER_MULTI_QUEUE_OFFSET\1{offsets}".encode()
    record = ScannedRecord(0, 200, "T", 2, 9, 0, 0, properties)
    for settings in ({"enable_lmq": True, "enable_multi_dispatch": True}, {}):
        store = MessageStore(world, small(**settings))
        seen: list[MessageArrival] = []
        store.on_arriving.append(seen.append)
        store.on_arriving.notify(record)
        assert [arrival[:3] for arrival in seen] == (told if settings else told[:1])
