from typing import Any

import pytest

from tornlog.store.formats.consume_queue import (
    END_MARK,
    ENTRY_BYTES,
    NO_ADDRESS,
    OFFSET_MAX,
    ExtUnit,
    QueueEntry,
    encode_entry,
    encode_unit,
    ext_address_of,
    ext_offset_of,
)
from tornlog.store.queues.consume_queue import ConsumeQueue
from tornlog.store.queues.consume_queue_ext import ConsumeQueueExt
from tornlog.store.world import World

DIRECTORY = "/store/consumequeue_ext/T/0"
FILE_BYTES = 100
"""Four units of 24 bytes and an end mark. With a fifth unit the end mark would not fit."""


def ext_of(world: World, file_bytes: int = FILE_BYTES) -> ConsumeQueueExt:
    return ConsumeQueueExt(world, DIRECTORY, file_bytes, "T", 0)


def unit(number: int) -> ExtUnit:
    return ExtUnit(number, 1_000 + number, bytes([number] * 4))


def filled_extension(world: World, count: int) -> tuple[ConsumeQueueExt, list[int]]:
    ext = ext_of(world)
    return ext, [ext.put(unit(number)) for number in range(count)]


def loaded_extension(world: World, last_address: int | None) -> ConsumeQueueExt:
    ext = ext_of(world)
    ext.load()
    ext.truncate_to_last_used(last_address)
    return ext


def names(world: World) -> list[str]:
    return world.files.list_directory(DIRECTORY)


def test_extension_units_are_adjacent_and_a_full_file_has_an_end_mark(world: World) -> None:
    ext, addresses = filled_extension(world, 9)

    assert [ext_offset_of(address) for address in addresses] == [0, 24, 48, 72, 100, 124, 148, 172, 200]
    first = ext.queue.segments[0].file.view(0, FILE_BYTES)
    units = b"".join(encode_unit(unit(number)) for number in range(4))
    assert bytes(first) == units + END_MARK + bytes(2)
    assert [ext.get(address) for address in addresses] == [unit(number) for number in range(9)]


def test_reading_an_extension_address_without_a_unit_returns_none(world: World) -> None:
    ext, addresses = filled_extension(world, 5)

    for offset in (96, 98, 99, 148, 199, 200, 10_000, OFFSET_MAX):
        assert ext.get(ext_address_of(offset)) is None
    assert ext.get(addresses[0] + 2) is None  # in the middle of a unit
    assert ext_of(world).get(addresses[0]) is None


def test_an_extension_unit_that_is_too_long_or_has_no_file_gets_no_address(world: World, bench: Any) -> None:
    ext = ext_of(world)
    assert ext.put(ExtUnit(1, 1, bytes(77))) == NO_ADDRESS
    assert not ext.queue.segments
    assert ext_of(world, 1 << 20).put(ExtUnit(1, 1, bytes(32_748))) == NO_ADDRESS
    bench.failures.plan("map", DIRECTORY)
    assert ext.put(unit(0)) == NO_ADDRESS
    assert ext.put(unit(0)) == ext_address_of(0)
    assert ext.put(ExtUnit(1, 1, bytes(76))) == ext_address_of(100)  # the largest unit that fits


def test_extension_offsets_beyond_the_address_range_get_no_address(world: World) -> None:
    ext = ext_of(world)
    ext._first_base_offset = (OFFSET_MAX // FILE_BYTES + 1) * FILE_BYTES
    assert ext.put(unit(0)) == NO_ADDRESS


def test_loading_an_extension_continues_after_its_last_unit(world: World) -> None:
    _, addresses = filled_extension(world, 6)
    ext = loaded_extension(world, addresses[-1])

    assert ext.get(addresses[-1]) == unit(5)
    assert ext_offset_of(ext.put(unit(6))) == 148


def test_extension_units_after_the_last_referenced_one_are_zeroed(world: World) -> None:
    _, addresses = filled_extension(world, 9)
    ext = loaded_extension(world, addresses[4])

    assert names(world) == ["00000000000000000000", "00000000000000000100"]
    assert ext.get(addresses[5]) is None
    assert not any(ext.queue.segments[1].file.view(24, FILE_BYTES))
    assert ext.put(unit(77)) == addresses[5]
    assert ext.get(addresses[5]) == unit(77)


def test_an_extension_without_referring_entries_is_removed_and_restarts_at_0(world: World) -> None:
    filled_extension(world, 9)
    ext = loaded_extension(world, None)

    assert names(world) == []
    assert ext.put(unit(0)) == ext_address_of(0)


@pytest.mark.parametrize("last", [ext_address_of(260), ext_address_of(300), ext_address_of(399)])
def test_the_address_of_a_lost_extension_unit_is_not_reused(world: World, last: int) -> None:
    _, addresses = filled_extension(world, 9)
    ext = loaded_extension(world, last)

    assert names(world) == []
    assert ext.get(addresses[0]) is None
    assert ext.put(unit(0)) > last
    assert ext.get(last) is None


def test_a_torn_extension_unit_ends_the_last_file(world: World) -> None:
    ext, addresses = filled_extension(world, 3)
    ext.queue.segments[0].file.store(24, b"\0\x18" + bytes(20))  # only the size of the unit was written
    ext = ext_of(world)
    ext.load()

    assert [ext.get(address) for address in addresses] == [unit(0), None, None]
    ext.truncate_to_last_used(addresses[0])
    assert ext.put(unit(9)) == addresses[1]


def test_damage_in_an_earlier_extension_file_loses_only_the_units_there(world: World) -> None:
    ext, addresses = filled_extension(world, 5)
    ext.queue.segments[0].file.store(24, bytes(24))
    ext = loaded_extension(world, addresses[-1])

    found = [ext.get(address) for address in addresses]
    assert found == [unit(0), None, unit(2), unit(3), unit(4)]


def test_a_last_extension_file_with_an_end_mark_is_full(world: World) -> None:
    _, addresses = filled_extension(world, 5)
    world.files.unlink(f"{DIRECTORY}/00000000000000000100")
    ext = ext_of(world)
    ext.load()

    assert ext.queue.max_offset == FILE_BYTES
    ext.truncate_to_last_used(addresses[3])
    assert ext_offset_of(ext.put(unit(4))) == 100


def test_extension_files_after_a_gap_or_of_a_wrong_size_are_removed(world: World) -> None:
    _, addresses = filled_extension(world, 9)
    world.files.unlink(f"{DIRECTORY}/00000000000000000100")
    ext = loaded_extension(world, addresses[3])
    assert names(world) == ["00000000000000000000"]
    assert ext.get(addresses[3]) == unit(3)

    world.files.write(f"{DIRECTORY}/00000000000000000100", b"short")
    loaded_extension(world, addresses[3])
    assert names(world) == ["00000000000000000000"]

    world.files.write(f"{DIRECTORY}/foreign", b"")
    ext = loaded_extension(world, addresses[3])
    assert [error.file for error in ext.queue.unknown_entries] == [f"{DIRECTORY}/foreign"]
    assert names(world) == ["00000000000000000000", "foreign"]


def test_an_extension_unit_is_kept_only_for_a_record_with_its_code_and_time(world: World) -> None:
    ext, addresses = filled_extension(world, 2)

    assert ext.may_keep_address(addresses[1], 1, 1_001, is_durable=True)
    assert not ext.may_keep_address(addresses[1], 2, 1_001, is_durable=True)
    assert not ext.may_keep_address(addresses[1], 1, 1_002, is_durable=True)
    assert not ext.may_keep_address(ext_address_of(48), 0, 0, is_durable=True)


def test_a_torn_address_of_an_earlier_record_is_not_kept(world: World) -> None:
    queue = ConsumeQueue(world, "/store/consumequeue/T/0", 100 * ENTRY_BYTES, "T", 0, ext_of(world))
    for number in range(3):  # one tags code and one store time
        queue.put_extended(100 * number, 100, ExtUnit(7, 1_000, b""), number)
    last = QueueEntry(200, 100, 7)
    assert queue.tags_code_to_keep(2, last, 1_000, is_durable=True) == ext_address_of(40)

    queue.overwrite_entries(2, encode_entry(200, 100, ext_address_of(0)))
    assert queue.tags_code_to_keep(2, last, 1_000, is_durable=True) == 7
    assert queue.tags_code_to_keep(1, QueueEntry(100, 100, 7), 1_000, is_durable=True) == ext_address_of(20)


def test_kept_extension_units_that_may_not_be_durable_are_written_again(world: World, bench: Any) -> None:
    _, addresses = filled_extension(world, 7)
    ext = ext_of(world)
    ext.load()
    for number, address in enumerate(addresses):
        assert ext.may_keep_address(address, number, 1_000 + number, is_durable=number < 5)
    ext.truncate_to_last_used(addresses[-1])
    assert ext.queue.flushed_where.get() == 124
    bench.failures.calls.clear()
    ext.queue.flush_all(0)
    assert bench.failures.calls == [("msync", f"{DIRECTORY}/00000000000000000100")]
    assert bench.disk.is_durable(f"{DIRECTORY}/00000000000000000100", 24, 72)


def test_extension_files_before_the_first_needed_unit_expire(world: World, bench: Any) -> None:
    ext, addresses = filled_extension(world, 13)
    ext.queue.flush_all(0)
    ext.remove_before(-5)  # ignored, because a tag code is not an address
    ext.remove_before(addresses[4])
    assert len(names(world)) == 4  # as in RocketMQ, the file directly before that of the unit is kept

    bench.failures.plan("unlink", DIRECTORY)
    ext.remove_before(addresses[12])
    assert len(names(world)) == 4
    ext.remove_before(addresses[12])
    assert names(world) == ["00000000000000000200", "00000000000000000300"]
    assert ext.get(addresses[0]) is None
    assert ext.get(addresses[8]) == unit(8)
    assert loaded_extension(world, addresses[12]).get(addresses[8]) == unit(8)


def test_addresses_are_replaced_before_their_units_are_removed(world: World) -> None:
    queue = ConsumeQueue(world, "/store/consumequeue/T/0", 100 * ENTRY_BYTES, "T", 0, ext_of(world))
    for number in range(3):
        queue.put_extended(100 * number, 100, unit(number), number)
    queue.put(300, 100, ext_address_of(400), 3)  # its unit is lost
    changes = list[None]()

    assert queue.replace_addresses(3, 0, lambda: changes.append(None)) == []
    assert queue.replace_addresses(4, 100, lambda: changes.append(None)) == [1, 2]
    assert changes == [None, None]
    queue.set_recovered_end(4, 0)
    assert [queue.entry(number) for number in range(4)] == [
        QueueEntry(0, 100, ext_address_of(0)),  # its record has expired
        *(QueueEntry(100 * number, 100, unit(number).tags_code) for number in (1, 2)),
        QueueEntry(300, 100, ext_address_of(400)),
    ]
    assert names(world) == []
