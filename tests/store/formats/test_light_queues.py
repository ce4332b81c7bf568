"""Light queues: assigned offsets, entries in every named queue, and recovery of both."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.store.rigs import Make, started
from tornlog.faults.disk.image import Image
from tornlog.store.config import StoreConfig
from tornlog.store.errors import InvalidMessageError
from tornlog.store.formats.batch import BatchUnit, encode_batch
from tornlog.store.formats.light_queues import light_put, light_records, without_offsets
from tornlog.store.formats.message import decode_record
from tornlog.store.formats.messages import GetMessageStatus, Message, MessageBatch, PutMessageResult, PutMessageStatus
from tornlog.store.formats.properties import decode_properties, encode_properties, rebuild_properties
from tornlog.store.formats.scan import ScannedRecord
from tornlog.store.message_store import MessageStore
from tornlog.store.world import World

NAMES, OFFSETS = "INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET"


def record(properties: str) -> ScannedRecord:
    return ScannedRecord(500, 100, "T", 3, 7, 0, 1_000, properties.encode())


def places(properties: str, *, lmq: bool = True) -> list[tuple[str, int, int]]:
    return [(seen.topic, seen.queue_id, seen.queue_offset) for seen in light_records(record(properties), lmq=lmq)]


@pytest.fixture
def light_queue_config(small: Make) -> Callable[..., StoreConfig]:
    """Make settings of a small store with light queues."""

    def config(**settings: Any) -> StoreConfig:
        settings = {"enable_multi_dispatch": True, "enable_lmq": True, **settings}
        made: StoreConfig = small(**settings)
        return made

    return config


def put_with_light_queues(
    store: MessageStore, body: bytes, names: str, topic: str = "T", **settings: Any
) -> PutMessageResult:
    properties = {"a": "1", NAMES: names, **settings.pop("properties", {})}
    return store.put_message(Message.create(topic, body, properties=properties, **settings))


def bodies(store: MessageStore, topic: str, queue_id: int = 0) -> list[bytes]:
    """Return the bodies of all messages in a queue."""
    found, at = [], 0
    while True:
        result = store.get_message(topic, queue_id, at)
        if result.status is not GetMessageStatus.FOUND:
            return found
        found += [decode_record(raw, 0, file="log").body for raw in result.records]
        at = result.next_begin_offset


def stored_properties(store: MessageStore, result: PutMessageResult) -> dict[str, str]:
    """Return the properties of a message as they are in the log."""
    assert result.append is not None, result.status
    found = store.look_message_by_offset(result.append.wrote_offset)
    assert found is not None
    return decode_properties(found.properties)


# -- names and places ------------------------------------------------------------------------------


def test_a_record_is_in_every_light_queue_it_names_and_lmq_names_use_queue_0() -> None:
    properties = f"x\1y\2{NAMES}\1%LMQ%a,b,%LMQ%c\2{OFFSETS}\0015,6,7"

    assert places(properties) == [("%LMQ%a", 0, 5), ("b", 3, 6), ("%LMQ%c", 0, 7)]
    assert places(properties, lmq=False) == [("%LMQ%a", 3, 5), ("b", 3, 6), ("%LMQ%c", 3, 7)]
    assert light_records(record(properties), lmq=True)[0]._replace(topic="T", queue_id=3, queue_offset=7) == (
        record(properties)
    )


def test_repeated_light_queue_names_and_the_own_topic_are_ignored() -> None:
    assert places(f"{NAMES}\1%LMQ%a,T,%LMQ%a\2{OFFSETS}\0015,7,5") == [("%LMQ%a", 0, 5)]
    assert places(f"{NAMES}\1a,b,,\2{OFFSETS}\0011,2") == [("a", 3, 1), ("b", 3, 2)]  # as Java splits


@pytest.mark.parametrize(
    "properties",
    [
        "",
        f"{NAMES}\1%LMQ%a",
        f"{OFFSETS}\0015",
        f"{NAMES}\1%LMQ%a,b\2{OFFSETS}\0015",
        f"{NAMES}\1%LMQ%a\2{OFFSETS}\001-5",
        f"{NAMES}\1%LMQ%a\2{OFFSETS}\001five",
        f"{NAMES}\1%LMQ%a\2{OFFSETS}\001" + "9" * 20,
        f"{NAMES}\1 \2{OFFSETS}\0015",
        f"{NAMES}\1a/b\2{OFFSETS}\0015",
        f"{NAMES}\1{'n' * 256}\2{OFFSETS}\0015",
    ],
)
def test_light_queue_names_and_offsets_of_different_number_are_ignored(properties: str) -> None:
    assert places(properties) == []


def test_a_message_without_light_queue_names_is_in_no_light_queue() -> None:
    assert light_put("T", 0, f"{NAMES}\1 \2a\1b".encode(), bytearray, lmq=True) is None


def test_light_queue_offsets_set_by_a_producer_are_removed() -> None:
    assert without_offsets(f"a\1b\2{OFFSETS}\0015\2c\1d\2".encode()) == b"a\1b\2c\1d\2"
    assert without_offsets(f"{OFFSETS}X\0015".encode()) == f"{OFFSETS}X\0015".encode()


@pytest.mark.parametrize("name", ["a/b", "..", "a,,b", ",a", "n" * 256, "%LMQ%a\0"])
def test_a_light_queue_with_an_invalid_directory_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidMessageError, match=NAMES):
        light_put("T", 0, f"{NAMES}\1{name}".encode(), bytearray, lmq=True)


# -- putting ---------------------------------------------------------------------------------------


def test_a_message_has_its_own_offset_in_each_of_its_light_queues(world: World, light_queue_config: Make) -> None:
    store = started(world, light_queue_config())
    first = put_with_light_queues(store, b"1", "%LMQ%a,%LMQ%b")
    second = put_with_light_queues(store, b"2", "%LMQ%b", topic="U")
    third = put_with_light_queues(
        store, b"3", "%LMQ%b,%LMQ%a,c", queue_id=2, properties={"WAIT": "true", OFFSETS: "99,99,99"}
    )
    world.tasks.sleep(2)

    assert stored_properties(store, first) == {"a": "1", NAMES: "%LMQ%a,%LMQ%b", OFFSETS: "0,0"}
    assert stored_properties(store, second)[OFFSETS] == "1"
    assert stored_properties(store, third) == {"a": "1", NAMES: "%LMQ%b,%LMQ%a,c", OFFSETS: "2,1,0"}
    assert bodies(store, "%LMQ%a") == [b"1", b"3"]
    assert bodies(store, "%LMQ%b") == [b"1", b"2", b"3"]
    assert bodies(store, "c", 2) == [b"3"]
    assert bodies(store, "T") == [b"1"]
    assert store.shutdown()


def test_the_entry_in_a_light_queue_equals_that_in_the_messages_own_queue(
    world: World, light_queue_config: Make
) -> None:
    store = started(world, light_queue_config(enable_consume_queue_ext=True))
    put_with_light_queues(store, b"1", "%LMQ%a", tags="A")
    world.tasks.sleep(2)

    own, other = store.queues.find_or_create("T", 0), store.queues.find_or_create("%LMQ%a", 0)
    own_entry, other_entry = own.entry(0), other.entry(0)
    assert own_entry is not None
    assert other_entry == own_entry._replace(tags_code=65)  # only the message's own queue has an extension
    assert own.ext_unit_at(own_entry.tags_code) is not None
    assert store.shutdown()


def test_properties_of_a_light_queue_message_are_rewritten_in_rocketmqs_order(
    world: World, light_queue_config: Make
) -> None:
    store = started(world, light_queue_config())
    result = put_with_light_queues(store, b"1", "%LMQ%a", tags="A", keys="k")
    assert result.append is not None
    found = store.look_message_by_offset(result.append.wrote_offset)
    assert found is not None
    named = {"a": "1", NAMES: "%LMQ%a", "TAGS": "A", "KEYS": "k", OFFSETS: "0"}
    assert found.properties == rebuild_properties(named) != encode_properties(named)
    assert store.shutdown()


def test_a_refused_message_uses_no_light_queue_offset(world: World, light_queue_config: Make) -> None:
    store = started(world, light_queue_config())
    status = PutMessageStatus
    assert put_with_light_queues(store, b"1", "%LMQ%a,a/b").status is status.MESSAGE_ILLEGAL
    assert put_with_light_queues(store, bytes(2_000), "%LMQ%a").status is status.MESSAGE_ILLEGAL
    assert put_with_light_queues(store, b"1", "%LMQ%a", topic="a/b").status is status.MESSAGE_ILLEGAL
    assert put_with_light_queues(store, b"1", ",".join(["%LMQ%a"] * 1_500)).status is status.PROPERTIES_SIZE_EXCEEDED
    assert stored_properties(store, put_with_light_queues(store, b"1", "%LMQ%a"))[OFFSETS] == "0"
    assert store.shutdown()


def test_a_half_message_is_in_no_light_queue_and_a_delayed_one_enters_at_its_delivery(
    world: World, light_queue_config: Make
) -> None:
    store = started(world, light_queue_config(message_delay_level="1s"))
    prepared = Message.create("T", b"p", properties={NAMES: "%LMQ%a"})
    prepared.sys_flag = 4
    store.put_message(prepared)
    put_with_light_queues(store, b"half", "%LMQ%a", topic="RMQ_SYS_TRANS_HALF_TOPIC", properties={OFFSETS: "7"})
    delayed = put_with_light_queues(store, b"late", "%LMQ%a", properties={"DELAY": "1"})
    world.tasks.sleep(5)
    assert OFFSETS not in stored_properties(store, delayed)
    assert bodies(store, "%LMQ%a") == []
    world.tasks.sleep(3_000)
    assert bodies(store, "%LMQ%a") == [b"late"]
    assert bodies(store, "T") == [b"late"]
    assert store.shutdown()


def test_a_batch_is_in_no_light_queue(world: World, light_queue_config: Make) -> None:
    store = started(world, light_queue_config())
    claims = f"{NAMES}\1%LMQ%a\2{OFFSETS}\0011000000".encode()
    result = store.put_messages(MessageBatch(Message("T"), encode_batch([BatchUnit(0, b"1", claims)])))
    world.tasks.sleep(2)

    assert stored_properties(store, result) == {NAMES: "%LMQ%a"}
    assert bodies(store, "%LMQ%a") == []
    assert store.shutdown()


def test_light_queue_names_that_are_not_lmq_keep_the_queue_id_of_the_message(
    world: World, light_queue_config: Make
) -> None:
    store = started(world, light_queue_config(enable_lmq=False))
    put_with_light_queues(store, b"1", "%LMQ%a,b", queue_id=2)
    world.tasks.sleep(2)

    assert bodies(store, "%LMQ%a", 2) == bodies(store, "b", 2) == [b"1"]
    assert store.shutdown()


def test_with_light_queues_disabled_their_properties_are_stored_unchanged(world: World, small: Make) -> None:
    store = started(world, small())
    result = put_with_light_queues(store, b"1", "%LMQ%a", properties={OFFSETS: "9"})
    world.tasks.sleep(2)

    assert stored_properties(store, result) == {"a": "1", NAMES: "%LMQ%a", OFFSETS: "9"}
    assert bodies(store, "%LMQ%a") == []
    assert store.shutdown()


def test_puts_to_too_many_light_queues_are_refused_and_existing_queues_continue(
    world: World, light_queue_config: Make
) -> None:
    exceeded = PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED
    store = started(world, light_queue_config(max_lmq_consume_queue_num=2))
    assert put_with_light_queues(store, b"1", "%LMQ%a,%LMQ%b,%LMQ%c").status is exceeded
    assert put_with_light_queues(store, b"1", "%LMQ%a,%LMQ%b,c").is_stored
    assert put_with_light_queues(store, b"2", "%LMQ%c").status is exceeded
    assert put_with_light_queues(store, b"3", "%LMQ%b,%LMQ%b,d").is_stored
    world.tasks.sleep(2)

    assert bodies(store, "%LMQ%b") == [b"1", b"3"]
    assert bodies(store, "T") == [b"1", b"3"]
    assert store.shutdown()


# -- recovery --------------------------------------------------------------------------------------


@pytest.fixture
def filled(lab: Make, light_queue_config: Make) -> Image:
    """A stopped store with 30 messages in %LMQ%all, every third also in %LMQ%some, and 12 in no light queue."""
    machine = lab()

    def body(world: World) -> None:
        store = started(world, light_queue_config())
        for number in range(30):
            names = "%LMQ%all,%LMQ%some" if number % 3 == 0 else "%LMQ%all"
            put_with_light_queues(store, b"%d" % number, names, topic=f"T{number % 2}")
        for _ in range(12):
            store.put_message(Message.create("T", b"plain"))
        assert store.shutdown()

    machine.run(body)
    image: Image = machine.switch_off()
    return image


ALL = [b"%d" % number for number in range(30)]


def check_all_messages(store: MessageStore) -> None:
    store.world.tasks.sleep(2)
    assert bodies(store, "%LMQ%all")[:30] == ALL
    assert bodies(store, "%LMQ%some")[:10] == ALL[::3]
    assert stored_properties(store, put_with_light_queues(store, b"next", "%LMQ%all,%LMQ%some"))[OFFSETS] == "30,10"


@pytest.mark.parametrize("settings", [{}, {"recover_whole_log": False}])
def test_a_restart_restores_light_queues_and_their_offsets(
    lab: Make, light_queue_config: Make, filled: Image, settings: dict[str, Any]
) -> None:
    def body(world: World) -> None:
        store = MessageStore(world, light_queue_config(**settings))
        assert store.load().changed_entries == 0
        store.start()
        check_all_messages(store)
        assert store.shutdown()

    lab(filled).run(body)


@pytest.mark.parametrize("lost", ["%LMQ%all", "%LMQ%some", "%LMQ%", "consumequeue"])
@pytest.mark.parametrize("settings", [{}, {"recover_whole_log": False}])
def test_lost_light_queues_are_rebuilt_from_the_log(
    lab: Make, light_queue_config: Make, filled: Image, patched: Make, lost: str, settings: dict[str, Any]
) -> None:
    image = filled
    for path in [path for path in image.files if lost in path]:
        image = patched(image, path, 0, None)

    def body(world: World) -> None:
        store = started(world, light_queue_config(**settings))
        check_all_messages(store)
        assert store.shutdown()

    lab(image).run(body)


def test_a_store_opened_with_light_queues_disabled_keeps_existing_ones(
    lab: Make, light_queue_config: Make, filled: Image
) -> None:
    off = replace(light_queue_config(), enable_multi_dispatch=False, enable_lmq=False)
    machine = lab(filled)

    def without(world: World) -> None:
        store = MessageStore(world, off)
        assert store.load().changed_entries == 0
        store.start()
        put_with_light_queues(store, b"unseen", "%LMQ%all")
        world.tasks.sleep(2)
        assert bodies(store, "%LMQ%all") == ALL
        assert store.shutdown()

    def again(world: World) -> None:
        store = started(world, light_queue_config())
        check_all_messages(store)
        assert store.shutdown()

    machine.run(without)
    lab(machine.switch_off()).run(again)


def test_a_forged_light_queue_offset_is_reported_and_not_indexed(lab: Make, light_queue_config: Make) -> None:
    off = replace(light_queue_config(), enable_multi_dispatch=False, enable_lmq=False)
    machine = lab()

    def forge(world: World) -> None:
        store = started(world, off)
        put_with_light_queues(store, b"1", "%LMQ%a", properties={OFFSETS: "0"})
        put_with_light_queues(store, b"2", "%LMQ%a", properties={OFFSETS: "123456789"})
        put_with_light_queues(store, b"3", "%LMQ%b", properties={OFFSETS: "123456789"})
        assert store.shutdown()

    def load(world: World) -> None:
        store = MessageStore(world, light_queue_config())
        report = store.load()
        assert [finding.found for finding in report.findings] == ["123456789", "123456789"]
        store.start()
        world.tasks.sleep(2)
        assert bodies(store, "%LMQ%a") == [b"1"]
        assert bodies(store, "%LMQ%b") == []
        assert store.shutdown()

    machine.run(forge)
    lab(machine.switch_off()).run(load)
