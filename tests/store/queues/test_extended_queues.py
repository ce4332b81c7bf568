"""Extended queues: dispatch, pulls, SQL filters, recovery and crashes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.store.rigs import Make
from tornlog.faults.crashes.profiles import PROFILES
from tornlog.faults.disk.image import Image
from tornlog.sim.errors import MachineDied
from tornlog.store.config import FlushDiskType, StoreConfig
from tornlog.store.formats.checkpoint import decode_checkpoint
from tornlog.store.formats.consume_queue import ExtUnit, ext_address_of, is_ext_address, tags_code
from tornlog.store.formats.messages import GetMessageStatus, Message
from tornlog.store.message_store import MessageStore
from tornlog.store.recovery.recovery import RecoveryReport
from tornlog.store.services.consumer_filter import SqlMessageFilter, use_bit_maps
from tornlog.store.world import World

EXT = "/store/consumequeue_ext/T/0/"
QUEUE = "/store/consumequeue/T/0/"
EXT_BYTES = 200
"""Nine units without a bit map fit into a file."""


@pytest.fixture
def extended(small: Make) -> Callable[..., StoreConfig]:
    """Make settings of a small store with extended queues."""

    def config(**settings: Any) -> StoreConfig:
        made: StoreConfig = small(
            enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=EXT_BYTES, **settings
        )
        return made

    return config


def opened_store(world: World, config: StoreConfig) -> tuple[MessageStore, RecoveryReport]:
    store = MessageStore(world, config)
    report = store.load()
    store.start()
    return store, report


def put_numbered(store: MessageStore, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        message = Message.create("T", b"%04d" % number, tags="AB"[number % 2], properties={"n": str(number)})
        assert store.put_message(message).is_stored
    store.world.tasks.sleep(2)


def tags_codes_of(store: MessageStore) -> list[int]:
    """Return the tagsCode of every entry."""
    queue = store.queues.find_or_create("T", 0)
    entries = [queue.entry(index) for index in range(queue.max_offset)]
    return [entry.tags_code for entry in entries if entry is not None]


def pulled_numbers(store: MessageStore, **wanted: Any) -> list[int]:
    """Return the numbers of all messages that match."""
    numbers, at = [], 0
    while True:
        result = store.get_message("T", 0, at, **wanted)
        if result.status not in (GetMessageStatus.FOUND, GetMessageStatus.NO_MATCHED_MESSAGE):
            return numbers
        numbers += [int(raw[88:92]) for raw in result.records]
        at = result.next_begin_offset


def image_after_shutdown(machine: Any, config: StoreConfig, count: int) -> Image:
    """Return the disk of a store of count messages that was shut down."""

    def body(world: World) -> None:
        store, _ = opened_store(world, config)
        put_numbered(store, count)
        assert store.shutdown()

    machine.run(body)
    image: Image = machine.switch_off()
    return image


def test_each_extended_entry_leads_to_a_unit_with_the_code_and_time_of_its_record(world: World, extended: Make) -> None:
    store, _ = opened_store(world, extended())
    put_numbered(store, 12)
    queue = store.queues.find_or_create("T", 0)

    assert tags_codes_of(store) == [
        ext_address_of(number * 20 if number < 9 else 200 + (number - 9) * 20) for number in range(12)
    ]
    for number, code in enumerate(tags_codes_of(store)):
        entry = queue.entry(number)
        assert entry is not None
        record = store.look_message_by_offset(entry.physical_offset)
        assert record is not None
        assert queue.ext_unit_at(code) == ExtUnit(tags_code("AB"[number % 2]), record.store_timestamp_ms, b"")
    assert queue.ext_unit_at(65) is None
    assert store.shutdown()


def test_pulls_by_tag_use_extension_units_and_an_entry_without_its_unit_matches(
    lab: Make, extended: Make, patched: Make
) -> None:
    config = extended(recover_whole_log=False, message_index_enable=False)
    image = image_after_shutdown(lab(), config, 40)
    # Entries of records that are known to be durable are not compared with the log.
    lost = patched(image, EXT + "0" * 20, 0, bytes(60))

    def whole(world: World) -> None:
        store, _ = opened_store(world, config)
        assert pulled_numbers(store) == list(range(40))
        assert pulled_numbers(store, tags="B") == list(range(1, 40, 2))
        assert store.shutdown()

    def holed(world: World) -> None:
        store, report = opened_store(world, config)
        assert report.start_offset > 1_000
        assert pulled_numbers(store, tags="B") == [0, 1, 2, *range(3, 40, 2)]
        assert store.shutdown()

    lab(image).run(whole)
    lab(lost).run(holed)


def test_an_entry_whose_extension_unit_cannot_be_stored_has_the_plain_tags_code(
    world: World, bench: Any, extended: Make
) -> None:
    store, _ = opened_store(world, extended())
    bench.failures.plan("map", EXT)
    put_numbered(store, 2)

    assert tags_codes_of(store) == [65, ext_address_of(0)]
    assert pulled_numbers(store, tags="A") == [0]
    assert store.shutdown()


def test_an_entry_whose_dispatch_failed_is_dispatched_again_with_a_new_unit(
    world: World, bench: Any, extended: Make
) -> None:
    store, _ = opened_store(world, extended())
    bench.failures.plan("map", QUEUE)
    put_numbered(store, 1)
    world.tasks.sleep(2_000)

    assert tags_codes_of(store) == [ext_address_of(20)]
    assert store.shutdown()


def test_records_that_are_in_no_queue_have_no_extension_unit(world: World, extended: Make) -> None:
    store, _ = opened_store(world, extended())
    store.put_message(Message("T", b"prepared", sys_flag=4))
    put_numbered(store, 1)

    assert tags_codes_of(store) == [ext_address_of(0)]
    assert store.shutdown()
    again, report = opened_store(world, extended())
    assert (report.changed_entries, tags_codes_of(again)) == (0, [ext_address_of(0)])
    assert again.shutdown()


# -- recovery --------------------------------------------------------------------------------------


def test_a_clean_restart_keeps_all_extension_addresses_and_continues_after_the_last_unit(
    lab: Make, extended: Make
) -> None:
    image = image_after_shutdown(lab(), extended(), 12)

    def body(world: World) -> None:
        store, report = opened_store(world, extended())
        assert report.changed_entries == 0
        assert all(map(is_ext_address, tags_codes_of(store)))
        put_numbered(store, 1, 12)
        assert tags_codes_of(store)[-1] == ext_address_of(260)
        assert pulled_numbers(store, tags="A") == list(range(0, 13, 2))
        assert store.shutdown()

    lab(image).run(body)


@pytest.mark.parametrize("whole", [True, False])
def test_recovery_without_the_extension_files_restores_plain_tags_codes_without_message_loss(
    lab: Make, extended: Make, patched: Make, whole: bool
) -> None:
    config = extended(recover_whole_log=whole)
    image = image_after_shutdown(lab(), config, 12)
    for path in [path for path in image.files if path.startswith(EXT)]:
        image = patched(image, path, 0, None)

    def body(world: World) -> None:
        store, report = opened_store(world, config)
        assert report.changed_entries == 12
        assert tags_codes_of(store) == [65, 66] * 6
        put_numbered(store, 1, 12)
        assert tags_codes_of(store)[-1] == ext_address_of(0)
        assert pulled_numbers(store, tags="A") == list(range(0, 13, 2))
        assert store.shutdown()

    lab(image).run(body)


def test_only_entries_of_damaged_extension_units_lose_their_address(lab: Make, extended: Make, patched: Make) -> None:
    image = image_after_shutdown(lab(), extended(), 12)
    image = patched(image, EXT + "0" * 20, 20 + 9, b"\x07")  # the code of the second, torn
    image = patched(image, EXT + "0" * 20, 60 + 17, b"\x07")  # the time of the fourth

    def body(world: World) -> None:
        store, report = opened_store(world, extended())
        assert report.changed_entries
        assert [number for number, code in enumerate(tags_codes_of(store)) if not is_ext_address(code)] == [1, 3]
        assert pulled_numbers(store, tags="B") == list(range(1, 12, 2))
        assert store.shutdown()

    lab(image).run(body)


def test_entries_with_plain_tags_codes_are_unchanged_when_the_extension_is_enabled(lab: Make, extended: Make) -> None:
    plain = replace(extended(), enable_consume_queue_ext=False)
    image = image_after_shutdown(lab(), plain, 5)

    def body(world: World) -> None:
        store, report = opened_store(world, extended())
        assert report.changed_entries == 0
        put_numbered(store, 1, 5)
        assert tags_codes_of(store) == [65, 66, 65, 66, 65, ext_address_of(0)]
        assert store.shutdown()

    lab(image).run(body)


def test_no_extension_address_remains_when_the_extension_is_disabled(lab: Make, extended: Make) -> None:
    image = image_after_shutdown(lab(), extended(), 5)
    plain = replace(extended(), enable_consume_queue_ext=False)

    def body(world: World) -> None:
        store, report = opened_store(world, plain)
        assert report.changed_entries == 5
        assert tags_codes_of(store) == [65, 66, 65, 66, 65]
        assert pulled_numbers(store, tags="A") == [0, 2, 4]
        assert store.shutdown()

    lab(image).run(body)


def test_the_checkpoint_does_not_cover_replaced_addresses_before_their_sync(lab: Make, extended: Make) -> None:
    image = image_after_shutdown(lab(), extended(), 5)
    plain = replace(extended(), enable_consume_queue_ext=False)

    def queue_time(world: World) -> int:
        return decode_checkpoint(world.files.read(plain.checkpoint_path), file="").logics_msg_timestamp_ms

    def body(world: World) -> None:
        assert queue_time(world) > 0
        store = MessageStore(world, plain)
        assert store.load().changed_entries == 5
        assert queue_time(world) == 0
        store.start()
        put_numbered(store, 1, 5)
        assert store.shutdown()
        assert queue_time(world) > 0

    lab(image).run(body)


def test_a_power_cut_after_the_replacement_of_addresses_leaves_no_torn_tags_code(
    lab: Make, extended: Make, patched: Make
) -> None:
    # The tags code of entry 204 is at bytes 4092 to 4100, so in two pages.
    config, path, page = extended(mapped_file_size_consume_queue=8_000), QUEUE + "0" * 20, 4_096
    plain = replace(config, enable_consume_queue_ext=False, recover_whole_log=False, message_index_enable=False)
    rewritten = b""

    def fill(world: World) -> None:
        store, _ = opened_store(world, config)
        put_numbered(store, 209)
        for number in (209, 214):
            world.tasks.sleep(10_000)
            put_numbered(store, 5, number)
        assert store.shutdown()

    def switch_off_extension(world: World) -> None:
        nonlocal rewritten
        store, report = opened_store(world, plain)
        assert report.start_offset > 0
        assert report.changed_entries
        segment = store.queues.find_or_create("T", 0).queue.segments[0]
        rewritten = bytes(segment.file.view(0, page))

    def reopen(world: World) -> None:
        store, _ = opened_store(world, plain)
        assert set(range(0, 219, 2)) <= set(pulled_numbers(store, tags="A"))
        assert store.shutdown()

    machine = lab()
    machine.run(fill)
    before = machine.switch_off()
    machine = lab(before)
    machine.run(switch_off_extension)
    torn = patched(machine.switch_off(), path, 0, rewritten + before.files[path].content[page:])
    lab(torn).run(reopen)


def test_a_queue_without_entries_has_no_extension(lab: Make, extended: Make, patched: Make) -> None:
    image = image_after_shutdown(lab(), extended(), 5)
    for path in [path for path in image.files if path.startswith(("/store/commitlog/", QUEUE))]:
        image = patched(image, path, 0, None)

    def body(world: World) -> None:
        store, _ = opened_store(world, extended())
        assert world.files.list_directory(EXT.rstrip("/")) == []
        put_numbered(store, 1)
        assert tags_codes_of(store) == [ext_address_of(0)]
        assert store.shutdown()

    lab(image).run(body)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("profile", ["strict-posix", "ext4-ordered", "process-kill"])
def test_after_any_crash_every_extension_address_leads_to_its_own_unit(
    lab: Make, extended: Make, profile: str, whole: bool
) -> None:
    config = extended(
        recover_whole_log=whole,
        flush_disk_type=FlushDiskType.SYNC_FLUSH,
        flush_interval_consume_queue_ms=3,
        flush_consume_queue_thorough_interval_ms=20,
        flush_consume_queue_least_pages=1,
    )

    def life(world: World, first: int) -> None:
        store, _ = opened_store(world, config)
        check(store)
        number = first
        while True:
            message = Message.create("T", b"%04d" % number, tags="AB"[number % 2])
            if store.put_message(message).is_stored:
                answered.append(number)
            world.tasks.sleep(number % 4 * 1_500 if number % 16 == 0 else 1)
            number += 1

    def check(store: MessageStore) -> None:
        found = pulled_numbers(store)
        assert set(answered) <= set(found)
        by_tag = {tag: [number for number in found if number % 2 == index] for index, tag in enumerate("AB")}
        queue = store.queues.find_or_create("T", 0)
        for index, code in enumerate(tags_codes_of(store)):
            expected = tags_code("AB"[found[index] % 2])
            unit = queue.ext_unit_at(code)
            if is_ext_address(code):
                assert unit is not None
                assert unit.tags_code == expected
                kept.append(code)
            else:
                assert code == expected
        for tag, numbers in by_tag.items():
            assert pulled_numbers(store, tags=tag) == numbers

    answered: list[int] = []
    kept: list[int] = []
    image: Image | None = None
    for round_number in range(8):
        machine = lab(image)
        machine.disk.crash_at(120 + 37 * round_number * (1 + round_number), "during")
        with pytest.raises(MachineDied):
            machine.run(lambda world: life(world, len(answered) * 2 + round_number))  # noqa: B023
        image = machine.disk.crash(PROFILES[profile])
    last = lab(image)
    last.run(lambda world: check(opened_store(world, config)[0]))
    assert len(answered) > 50
    assert len(kept) > 50


# -- bit maps --------------------------------------------------------------------------------------


def test_bit_maps_avoid_reading_unwanted_records_for_registered_consumers(
    world: World, extended: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MessageStore(world, extended())
    consumers = use_bit_maps(store)
    store.load()
    store.start()
    put_numbered(store, 3)
    data = consumers.register("T", "g", "n >= 10 AND TAGS = 'A'")
    world.tasks.sleep(1)
    put_numbered(store, 20, 3)
    wanted = SqlMessageFilter.of_consumer(data)
    reads: list[int] = []
    read = store.commit_log.record_bytes
    monkeypatch.setattr(
        store.commit_log, "record_bytes", lambda at, size, end: (reads.append(at), read(at, size, end))[1]
    )

    assert pulled_numbers(store, wanted=wanted) == [10, 12, 14, 16, 18, 20, 22]
    assert len(reads) == 3 + 7  # the first three messages are older than the consumer
    reads.clear()
    assert pulled_numbers(store, wanted=SqlMessageFilter.parse(data.expression.text)) == list(range(10, 23, 2))
    assert len(reads) == 23
    queue = store.queues.find_or_create("T", 0)
    units = [queue.ext_unit_at(code) for code in tags_codes_of(store)]
    assert [len(unit.bit_map) for unit in units if unit is not None] == [0] * 3 + [14] * 20
    assert store.shutdown()


def test_bit_maps_survive_a_restart_and_are_ignored_for_new_consumers(lab: Make, extended: Make) -> None:
    machine = lab()

    def first(world: World) -> None:
        store = MessageStore(world, extended())
        consumers = use_bit_maps(store)
        store.load()
        store.start()
        consumers.register("T", "g", "n = 1")
        world.tasks.sleep(1)
        put_numbered(store, 4)
        assert store.shutdown()

    def second(world: World) -> None:
        store = MessageStore(world, extended())
        consumers = use_bit_maps(store)
        report = store.load()
        store.start()
        assert report.changed_entries == 0
        data = consumers.register("T", "g", "n = 2")
        assert pulled_numbers(store, wanted=SqlMessageFilter.of_consumer(data)) == [2]
        world.tasks.sleep(1)
        put_numbered(store, 4)
        assert pulled_numbers(store, wanted=SqlMessageFilter.of_consumer(data)) == [2, 2]
        assert store.shutdown()

    machine.run(first)
    lab(machine.switch_off()).run(second)
