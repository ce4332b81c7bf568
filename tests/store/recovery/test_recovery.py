from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from tests.store.rigs import Make, started
from tornlog.faults.disk.image import FileImage, Image
from tornlog.store.config import StoreConfig
from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.batch import BatchUnit, encode_batch
from tornlog.store.formats.checkpoint import SAFETY_MARGIN_MS, CheckpointValues, encode_checkpoint
from tornlog.store.formats.consume_queue import BLANK_ENTRY_BYTES
from tornlog.store.formats.message import MAGIC_AT, decode_record
from tornlog.store.formats.messages import AppendMessageResult, GetMessageStatus, Message, MessageBatch
from tornlog.store.message_store import MessageStore
from tornlog.store.recovery.recovery import RecoveryReport
from tornlog.store.world import World

BODY_BYTES = 400
"""Two messages fill a segment of 1024 bytes."""
BODY_AT = 88
QUEUE_OFFSET_AT = 20
QUEUE = "/store/consumequeue/T/0/00000000000000000000"
PAIR = 1024


def body_of(number: int) -> bytes:
    return f"{number:04d}".encode() * (BODY_BYTES // 4)


@dataclass
class Filled:
    """The disk of a store, and the log offset of each message."""

    image: Image
    puts: list[AppendMessageResult]

    def at(self, number: int) -> int:
        return self.puts[number].wrote_offset


@dataclass
class Found:
    """The result of a load: each queue's bodies by queue offset, None for an entry without a readable record."""

    report: RecoveryReport
    log_end: int
    bodies: dict[str, list[bytes | None]]

    @property
    def findings(self) -> list[tuple[str, int, str]]:
        return [(each.file, each.offset, each.field) for each in self.report.findings]


@pytest.fixture
def fill(lab: Make) -> Callable[..., Filled]:
    """Fill a store with messages, pause_ms of virtual time apart. The topic depends on the number of the message."""

    def make(
        config: StoreConfig,
        count: int,
        *,
        abruptly: bool = False,
        pause_ms: int = 0,
        topic: Callable[[int], str] = lambda number: "T",
    ) -> Filled:
        bench = lab()
        puts: list[AppendMessageResult] = []

        def body(world: World) -> None:
            store = started(world, config)
            for number in range(count):
                result = store.put_message(Message.create(topic(number), body_of(number), tags="A"))
                assert result.append is not None
                puts.append(result.append)
                world.tasks.sleep(pause_ms + 1)
            if not abruptly:
                assert store.shutdown()

        bench.run(body)
        return Filled(bench.switch_off(abruptly=abruptly), puts)

    return make


@pytest.fixture
def recover(lab: Make) -> Callable[..., Found]:
    """Load a store twice. The second load must find the same state as the first."""

    def once(image: Image, config: StoreConfig) -> tuple[Found, Image]:
        bench = lab(image)

        def body(world: World) -> Found:
            store = MessageStore(world, config)
            report = store.load()
            return Found(report, store.max_phy_offset, {t: bodies(store, t) for t in ("T", "Old")})

        return bench.run(body), bench.switch_off()

    def load(image: Image, config: StoreConfig) -> Found:
        first, left = once(image, config)
        second, again = once(left, config)

        assert second.bodies == first.bodies
        assert second.log_end == first.log_end
        assert again.digest() == left.digest()
        return first

    return load


class Rig(NamedTuple):
    """Functions for a test of damage: fill a store, patch files on its disk, recover it."""

    fill: Make
    recover: Make
    patched: Make
    small: Make

    def damaged(self, filled: Filled, offset: int) -> Image:
        """Return a disk on which the body of the message at a log offset is damaged."""
        image: Image = self.patched(filled.image, log_file(offset), offset % PAIR + BODY_AT, b"?")
        return image

    def renumbered(self, image: Image, filled: Filled, numbers: dict[int, int]) -> Image:
        """Return a disk on which some messages have other queueOffsets."""
        for number, said in numbers.items():
            at, raw = filled.at(number), said.to_bytes(8, "big", signed=True)
            image = self.patched(image, log_file(at), at % PAIR + QUEUE_OFFSET_AT, raw)
        return image


@pytest.fixture
def rig(fill: Make, recover: Make, patched: Make, small: Make) -> Rig:
    return Rig(fill, recover, patched, small)


def bodies(store: MessageStore, topic: str) -> list[bytes | None]:
    found: list[bytes | None] = []
    for offset in range(store.get_max_offset_in_queue(topic, 0)):
        pulled = store.get_message(topic, 0, offset, 1)
        is_there = pulled.status is GetMessageStatus.FOUND and pulled.queue_offsets[0] == offset
        found.append(readable_body(pulled.records[0]) if is_there else None)
    return found


def readable_body(raw: bytes) -> bytes | None:
    try:
        return decode_record(raw, 0, file="pulled").body
    except CorruptFileError:
        return None


def bodies_numbered(*numbers: int) -> list[bytes | None]:
    return [body_of(number) for number in numbers]


def log_file(offset: int) -> str:
    return f"/store/commitlog/{offset // PAIR * PAIR:020d}"


def finding_of_wrong_queue_offset(filled: Filled, number: int) -> tuple[str, int, str]:
    """Return the finding about a message with a wrong queueOffset."""
    at = filled.at(number)
    return log_file(at), at % PAIR + QUEUE_OFFSET_AT, "queueOffset"


# Damage in the trusted and in the untrusted part of the log


def test_after_a_clean_exit_damage_in_the_log_is_reported_and_not_truncated(rig: Rig) -> None:
    filled = rig.fill(rig.small(), 20)
    bad = filled.at(4)
    found = rig.recover(rig.damaged(filled, bad), rig.small())

    assert found.findings == [(log_file(bad), bad % PAIR + 8, "bodyCRC")]
    assert found.log_end == filled.puts[-1].wrote_offset + filled.puts[-1].wrote_bytes
    assert found.report.changed_entries == 0
    assert found.bodies["T"] == [*bodies_numbered(0, 1, 2, 3), None, body_of(5), *bodies_numbered(*range(6, 20))]


@pytest.mark.parametrize("abruptly", [False, True])
def test_damage_after_the_checkpoint_ends_the_log(abruptly: bool, rig: Rig) -> None:
    filled = rig.fill(rig.small(), 20, abruptly=abruptly)
    bad = filled.at(15)
    found = rig.recover(rig.damaged(filled, bad), rig.small())

    assert found.findings == [(log_file(bad), bad % PAIR + 8, "bodyCRC")]
    assert found.log_end == found.report.end_offset == bad
    assert found.bodies["T"] == bodies_numbered(*range(15))


def test_after_an_unclean_exit_without_a_checkpoint_even_early_damage_ends_the_log(rig: Rig) -> None:
    filled = rig.fill(rig.small(), 20, abruptly=True)
    bad = filled.at(4)
    found = rig.recover(rig.damaged(filled, bad), rig.small())

    assert found.bodies["T"] == bodies_numbered(*range(4))


@pytest.mark.parametrize("recover_whole_log", [False, True])
def test_damage_before_the_checkpoint_does_not_end_the_log(recover_whole_log: bool, rig: Rig) -> None:
    config = rig.small(
        recover_whole_log=recover_whole_log,
        flush_consume_queue_thorough_interval_ms=1_000,
        flush_commit_log_thorough_interval_ms=1_000,
        message_index_enable=False,
    )
    filled = rig.fill(config, 20, abruptly=True, pause_ms=1_000)
    bad = filled.at(4)
    found = rig.recover(rig.damaged(filled, bad), config)

    assert (found.report.start_offset == 0) == recover_whole_log
    assert (found.findings != []) == recover_whole_log
    assert found.log_end == filled.puts[-1].wrote_offset + filled.puts[-1].wrote_bytes
    assert found.bodies["T"] == [*bodies_numbered(0, 1, 2, 3), None, body_of(5), *bodies_numbered(*range(6, 20))]


def test_damage_does_not_end_the_log_if_a_killed_recovery_has_reset_the_time_of_the_queues(rig: Rig) -> None:
    filled = rig.fill(rig.small(), 20, abruptly=True)
    bad, last = filled.at(4), filled.puts[-1]
    checkpoint = encode_checkpoint(CheckpointValues(last.store_timestamp_ms + SAFETY_MARGIN_MS, 0, 0))
    image = rig.patched(rig.damaged(filled, bad), "/store/checkpoint", 0, checkpoint)
    found = rig.recover(image, rig.small())

    assert found.findings == [(log_file(bad), bad % PAIR + 8, "bodyCRC")]
    assert found.log_end == last.wrote_offset + last.wrote_bytes
    assert found.bodies["T"] == [*bodies_numbered(0, 1, 2, 3), None, *bodies_numbered(*range(5, 20))]


def test_entries_of_damaged_records_at_the_end_of_a_queue_are_kept(rig: Rig) -> None:
    filled = rig.fill(rig.small(), 20, topic=lambda number: "Old" if number < 6 else "T")
    bad = filled.at(4)
    found = rig.recover(rig.damaged(filled, bad), rig.small())

    assert len(found.findings) == 1
    assert found.bodies["Old"] == [*bodies_numbered(0, 1, 2, 3), None, body_of(5)]
    assert found.bodies["T"] == bodies_numbered(*range(6, 20))


def test_entries_lost_together_with_their_damaged_records_become_blank(rig: Rig) -> None:
    filled = rig.fill(rig.small(), 20)
    bad = filled.at(2)
    image = rig.damaged(filled, bad)
    for file in ("00000000000000000000", "00000000000000000200"):
        image = rig.patched(image, f"/store/consumequeue/T/0/{file}", 0, None)
    found = rig.recover(image, rig.small())

    assert found.findings == [(log_file(bad), bad % PAIR + 8, "bodyCRC")]
    assert found.bodies["T"] == [*bodies_numbered(0, 1), None, *bodies_numbered(*range(3, 20))]


@pytest.mark.parametrize("field_at", [0, MAGIC_AT, BODY_AT])
def test_a_segment_with_skipped_damage_is_appended_to(field_at: int, rig: Rig) -> None:
    config = rig.small(mapped_file_size_commit_log=4 * PAIR, max_hash_slot_num=5, max_index_num=40)
    filled = rig.fill(config, 40)
    image = filled.image
    for number in (1, 2, 5):
        bad = filled.at(number)
        image = rig.patched(image, log_file(0), bad + field_at, b"?")
    for path in filled.image.files:
        if "consumequeue" in path or "/index/" in path:
            image = rig.patched(image, path, 0, None)
    found = rig.recover(image, config)

    assert len(found.findings) == (2 if field_at == MAGIC_AT else 3)  # two adjacent errors may be reported as one
    assert found.bodies["T"] == [None if n in (1, 2, 5) else body_of(n) for n in range(40)]


def test_an_earlier_entry_with_a_record_of_another_queue_becomes_blank(rig: Rig) -> None:
    filled = rig.fill(rig.small(), 20, topic=lambda number: "Old" if number < 3 else "T")
    image = rig.patched(filled.image, log_file(0), BODY_AT + BODY_BYTES + 1, b"Ole")
    found = rig.recover(image, rig.small())

    assert found.findings == []
    assert found.bodies["Old"] == [None, *bodies_numbered(1, 2)]


def test_an_earlier_entry_that_points_into_the_scanned_log_causes_a_scan_of_the_whole_log(rig: Rig) -> None:
    config = rig.small(recover_whole_log=False, message_index_enable=False)
    filled = rig.fill(config, 25, topic=lambda number: "Old" if number % 2 else "T")
    scanned_from = rig.recover(filled.image, config).report.start_offset
    foreign = scanned_from.to_bytes(8, "big")
    found = rig.recover(
        rig.patched(filled.image, "/store/consumequeue/Old/0/00000000000000000000", 180, foreign), config
    )

    assert scanned_from == filled.at(20)
    assert found.report.start_offset == 0
    assert found.bodies["Old"] == bodies_numbered(*range(1, 25, 2))
    assert found.bodies["T"] == bodies_numbered(*range(0, 25, 2))


def test_a_first_record_with_an_impossible_queue_offset_is_reported(rig: Rig) -> None:
    filled = rig.fill(rig.small(), 20, topic=lambda number: "Old" if number < 4 else "T")
    image = rig.patched(filled.image, log_file(0), BODY_AT, b"?")  # trusted damage, which is skipped
    at = filled.at(2)
    image = rig.patched(image, log_file(at), at % PAIR + QUEUE_OFFSET_AT, (9).to_bytes(8, "big"))
    found = rig.recover(image, rig.small())

    assert found.findings == [(log_file(0), 8, "bodyCRC"), (log_file(at), QUEUE_OFFSET_AT, "queueOffset")]
    assert found.bodies["Old"] == [None, *bodies_numbered(1, 2, 3)]


@pytest.mark.parametrize("entries", ["kept", "lost"])
@pytest.mark.parametrize("flipped", [15 ^ 1 << 62, 21, 16, 14, 3, 0, -5])
@pytest.mark.parametrize("number", [0, 1, 15, 18])
def test_a_wrong_queue_offset_is_corrected(number: int, flipped: int, entries: str, rig: Rig) -> None:
    filled = rig.fill(rig.small(), 20)
    at = filled.at(number)
    raw = flipped.to_bytes(8, "big", signed=True)
    image = rig.patched(filled.image, log_file(at), at % PAIR + QUEUE_OFFSET_AT, raw)
    if entries == "lost":
        for path in filled.image.files:
            if "consumequeue" in path:
                image = rig.patched(image, path, 0, None)
    found = rig.recover(image, rig.small())

    assert found.findings == [(log_file(at), at % PAIR + QUEUE_OFFSET_AT, "queueOffset")] * (flipped != number)
    if number == 0 and entries == "lost" and flipped != 0:
        assert found.bodies["T"][-19:] == bodies_numbered(
            *range(1, 20)
        )  # only its queueOffset tells where the queue begins
    else:
        assert found.bodies["T"] == bodies_numbered(*range(20))


@pytest.mark.parametrize("gap", [1, 2, 7, 300])
@pytest.mark.parametrize("entries", ["kept", "lost"])
def test_records_after_a_gap_in_the_queue_offsets_are_kept(entries: str, gap: int, rig: Rig) -> None:
    """4.9.8 leaves such a gap if it restarts with an empty queue file: a zero entry, and numbers that continue after
    it.
    """
    config = rig.small(mapped_file_size_consume_queue=20_000)
    filled = rig.fill(config, 20)
    image = filled.image
    raw = image.files[QUEUE].content
    for number in range(15, 20):
        at = filled.at(number)
        moved = (number + gap).to_bytes(8, "big")
        image = rig.patched(image, log_file(at), at % PAIR + QUEUE_OFFSET_AT, moved)
    rows = bytes(gap * 20) + raw[15 * 20 : 20 * 20]
    image = rig.patched(image, QUEUE, 15 * 20, rows if entries == "kept" else bytes(len(rows)))
    found = rig.recover(image, config)

    assert found.findings == []
    assert found.bodies["T"] == [*bodies_numbered(*range(15)), *[None] * gap, *bodies_numbered(*range(15, 20))]


@pytest.mark.parametrize("gap", [1, 4, 6])
@pytest.mark.parametrize("alone", [8, 15])  # one bit away from 8 + 1 and 8 + 4, several from 15 + 1 and the others
def test_a_single_record_between_two_gaps_is_kept_even_if_its_entry_is_lost(alone: int, gap: int, rig: Rig) -> None:
    config = rig.small(mapped_file_size_consume_queue=20_000)
    filled = rig.fill(config, 20)
    image = rig.patched(filled.image, QUEUE, alone * 20, bytes((20 - alone) * 20))
    for number in range(alone, 20):
        at, skipped = filled.at(number), gap if number == alone else gap + 2
        image = rig.patched(image, log_file(at), at % PAIR + QUEUE_OFFSET_AT, (number + skipped).to_bytes(8, "big"))
    found = rig.recover(image, config)

    assert found.findings == []
    assert found.bodies["T"] == [
        *bodies_numbered(*range(alone)),
        *[None] * gap,
        *bodies_numbered(alone),
        None,
        None,
        *bodies_numbered(*range(alone + 1, 20)),
    ]


def test_an_entry_corrects_a_wrong_queue_offset_that_a_later_gap_seems_to_confirm(rig: Rig) -> None:
    config = rig.small(mapped_file_size_consume_queue=20_000)
    filled = rig.fill(config, 20)
    image = filled.image
    row = image.files[QUEUE].content
    # 7 is wrong for 5; the gap after it ends at 8
    image = rig.renumbered(image, filled, {number: 7 if number == 5 else number + 2 for number in range(5, 20)})
    found = rig.recover(rig.patched(image, QUEUE, 6 * 20, bytes(40) + row[6 * 20 : 20 * 20]), config)

    assert found.findings == [finding_of_wrong_queue_offset(filled, 5)]
    assert found.bodies["T"] == [*bodies_numbered(*range(6)), None, None, *bodies_numbered(*range(6, 20))]


@pytest.mark.parametrize("hole", [bytes(20), BLANK_ENTRY_BYTES])
@pytest.mark.parametrize("gap", [1, 3])
@pytest.mark.parametrize(("first", "entries"), [(1, 20), (5, 20), (18, 20), (19, 20), (5, 19), (18, 19)])
def test_an_entry_corrects_a_queue_offset_that_ignores_a_preceding_gap(
    first: int, entries: int, gap: int, hole: bytes, rig: Rig
) -> None:
    config = rig.small(mapped_file_size_consume_queue=20_000)
    filled = rig.fill(config, 20)
    image = filled.image
    row = image.files[QUEUE].content
    # the first record after the gap has the queueOffset that it would have without the gap
    image = rig.renumbered(image, filled, {number: number + gap for number in range(first + 1, 20)})
    row = hole * gap + row[first * 20 : entries * 20] + bytes((20 - entries) * 20)  # a crash prevented their dispatch
    found = rig.recover(rig.patched(image, QUEUE, first * 20, row), config)

    assert found.findings == [finding_of_wrong_queue_offset(filled, first)]
    assert found.bodies["T"] == [*bodies_numbered(*range(first)), *[None] * gap, *bodies_numbered(*range(first, 20))]


@pytest.mark.parametrize("written", [4, 9, 11, 20, 31, 49, 51])
@pytest.mark.parametrize("first", [1, 5, 19])
def test_an_entry_corrects_a_wrong_queue_offset_despite_half_written_blank_entries(
    first: int, written: int, rig: Rig
) -> None:
    """Half of the size 2^31 - 1 looks like the size of a record."""
    config = rig.small(mapped_file_size_consume_queue=20_000)
    filled = rig.fill(config, 20)
    image = filled.image
    row = image.files[QUEUE].content
    image = rig.renumbered(image, filled, {number: number + 3 for number in range(first + 1, 20)})
    hole = (BLANK_ENTRY_BYTES * 3)[:written] + bytes(60 - written)
    found = rig.recover(rig.patched(image, QUEUE, first * 20, hole + row[first * 20 : 20 * 20]), config)

    assert found.findings == [finding_of_wrong_queue_offset(filled, first)]
    assert found.bodies["T"] == [*bodies_numbered(*range(first)), None, None, None, *bodies_numbered(*range(first, 20))]


@pytest.mark.parametrize("last_durable", [9, 10, 11])
def test_an_entry_corrects_the_queue_offset_of_the_last_record_before_the_checkpoint(
    last_durable: int, rig: Rig
) -> None:
    config = rig.small(mapped_file_size_consume_queue=20_000)
    filled = rig.fill(config, 20, abruptly=True, pause_ms=1_000)
    image = filled.image
    row = image.files[QUEUE].content
    # record 10 has the queueOffset that it would have without the gap before it
    image = rig.renumbered(image, filled, {number: number + 3 for number in range(11, 20)})
    image = rig.patched(image, QUEUE, 10 * 20, bytes(60) + row[10 * 20 : 20 * 20])
    durable_ms = filled.puts[last_durable].store_timestamp_ms + SAFETY_MARGIN_MS
    checkpoint = encode_checkpoint(CheckpointValues(durable_ms, durable_ms, 0))
    found = rig.recover(rig.patched(image, "/store/checkpoint", 0, checkpoint), config)

    assert found.findings == [finding_of_wrong_queue_offset(filled, 10)]
    assert found.bodies["T"] == [*bodies_numbered(*range(10)), None, None, None, *bodies_numbered(*range(10, 20))]


@pytest.mark.parametrize("hole", [bytes(20), BLANK_ENTRY_BYTES])
@pytest.mark.parametrize("gap", [1, 2, 8])
@pytest.mark.parametrize("first", [1, 5, 18])
def test_an_entry_confirms_a_gap_despite_a_wrong_queue_offset_after_it(
    first: int, gap: int, hole: bytes, rig: Rig
) -> None:
    config = rig.small(mapped_file_size_consume_queue=20_000)
    filled = rig.fill(config, 20)
    image = filled.image
    row = image.files[QUEUE].content
    # the second record after the gap has the queueOffset that it would have without the gap
    image = rig.renumbered(
        image, filled, {number: number if number == first + 1 else number + gap for number in range(first, 20)}
    )
    found = rig.recover(rig.patched(image, QUEUE, first * 20, hole * gap + row[first * 20 : 20 * 20]), config)

    assert found.findings == [finding_of_wrong_queue_offset(filled, first + 1)]
    assert found.bodies["T"] == [*bodies_numbered(*range(first)), *[None] * gap, *bodies_numbered(*range(first, 20))]


@pytest.mark.parametrize("twice", [1, 2, 5])
def test_duplicate_entries_correct_no_queue_offset(twice: int, rig: Rig) -> None:
    config = rig.small(mapped_file_size_consume_queue=20_000)
    filled = rig.fill(config, 20)
    row = filled.image.files[QUEUE].content
    found = rig.recover(rig.patched(filled.image, QUEUE, 0, row[: twice * 20] + row[: 20 * 20]), config)

    assert found.findings == []
    assert found.bodies["T"] == bodies_numbered(*range(20))


@pytest.mark.parametrize("blanks", [1, 3])
def test_a_queue_of_only_blank_entries_is_removed_if_the_whole_log_is_scanned(blanks: int, rig: Rig, lab: Make) -> None:
    """A wrong queueOffset caused the blank entries, and a crash then removed its record from the log."""
    filled = rig.fill(rig.small(), 20, abruptly=True, topic=lambda number: "Gone" if number == 19 else "T")
    queue, at = "/store/consumequeue/Gone/0/00000000000000000000", filled.at(19)
    entry = filled.image.files[queue].content[:20]
    image = rig.patched(filled.image, queue, 0, BLANK_ENTRY_BYTES * blanks + entry)
    bench = lab(rig.patched(image, log_file(at), at % PAIR, bytes(PAIR - at % PAIR)))
    bench.run(lambda world: MessageStore(world, rig.small()).load())

    assert queue in image.files
    assert queue not in bench.switch_off().files


def test_a_queue_that_lost_all_entries_begins_in_the_file_of_its_first_record(rig: Rig, lab: Make) -> None:
    image = rig.fill(rig.small(), 25).image
    for offset in range(0, 12 * PAIR, PAIR):
        image = rig.patched(image, log_file(offset), 0, None)
    files = [f"/store/consumequeue/T/0/{offset:020d}" for offset in (0, 200, 400)]
    image = rig.patched(image, files[0], 0, bytes(200))
    for file in files[1:]:
        image = rig.patched(image, file, 0, None)
    bench = lab(image)
    bench.run(lambda world: MessageStore(world, rig.small()).load())
    left = bench.switch_off()

    assert [file in left.files for file in files] == [False, False, True]


def test_a_first_record_at_a_used_index_causes_a_scan_of_the_whole_log(rig: Rig) -> None:
    config = rig.small(recover_whole_log=False, message_index_enable=False)
    filled = rig.fill(config, 25, topic=lambda number: "Old" if number in (0, 22) else "T")
    at = filled.at(22)
    image = rig.patched(filled.image, log_file(at), at % PAIR + QUEUE_OFFSET_AT, bytes(8))
    image = rig.patched(image, "/store/consumequeue/Old/0/00000000000000000000", 20, bytes(20))
    found = rig.recover(image, config)

    assert found.report.start_offset == 0
    assert found.findings == [(log_file(at), at % PAIR + QUEUE_OFFSET_AT, "queueOffset")]
    assert found.bodies["Old"] == bodies_numbered(0, 22)  # 0 is one bit away from the 1 it had


def test_an_unused_segment_does_not_extend_the_part_of_the_log_that_is_not_scanned(rig: Rig) -> None:
    filled = rig.fill(rig.small(), 10)
    ahead = filled.puts[-1].wrote_offset // PAIR * PAIR + PAIR
    image = Image(
        {**filled.image.files, log_file(ahead): FileImage(bytes(PAIR), 1_600_000_000_000)}, filled.image.directories
    )
    bad = filled.at(4)
    found = rig.recover(rig.patched(image, log_file(bad), bad % PAIR + BODY_AT, b"?"), rig.small())

    assert log_file(ahead) not in filled.image.files
    assert found.log_end == bad
    assert found.bodies["T"] == bodies_numbered(*range(4))


@pytest.mark.parametrize("entries_left", [0, 1, 2])
def test_entries_before_the_first_readable_record_are_kept_or_blank(entries_left: int, rig: Rig) -> None:
    filled = rig.fill(rig.small(), 20)
    image = rig.patched(filled.image, log_file(0), BODY_AT, b"?")
    lost = bytes((2 - entries_left) * 20)
    image = rig.patched(image, QUEUE, entries_left * 20, lost)
    found = rig.recover(image, rig.small())

    assert (found.report.changed_entries == 0) == (entries_left == 2)
    assert found.bodies["T"] == [None, *bodies_numbered(*range(1, 20))]


# Queues


@pytest.mark.parametrize("abruptly", [False, True])
def test_missing_queues_are_rebuilt(abruptly: bool, rig: Rig) -> None:
    filled = rig.fill(rig.small(), 25, abruptly=abruptly)
    image = filled.image
    for path in filled.image.files:
        if "consumequeue" in path:
            image = rig.patched(image, path, 0, None)
    found = rig.recover(image, rig.small())

    assert found.report.changed_entries == 25
    assert found.bodies["T"] == bodies_numbered(*range(25))


def test_missing_entries_before_the_scan_cause_a_scan_of_the_whole_log(rig: Rig) -> None:
    config = rig.small(recover_whole_log=False, message_index_enable=False)
    filled = rig.fill(config, 25)
    kept = rig.recover(filled.image, config)
    image = rig.patched(filled.image, "/store/consumequeue/T/0/00000000000000000200", 0, None)
    image = rig.patched(image, "/store/consumequeue/T/0/00000000000000000400", 0, None)
    rebuilt = rig.recover(image, config)

    assert kept.report.start_offset == filled.puts[-1].wrote_offset // PAIR * PAIR - 2 * PAIR
    assert kept.report.changed_entries == 0
    assert rebuilt.report.start_offset == 0
    assert rebuilt.report.changed_entries == 15
    assert kept.bodies["T"] == rebuilt.bodies["T"] == bodies_numbered(*range(25))


@pytest.mark.parametrize("left", [None, 99])
def test_after_a_crash_during_a_load_its_queue_entries_do_not_count_as_durable(
    left: int | None, rig: Rig, lab: Make
) -> None:
    config = rig.small(recover_whole_log=False, message_index_enable=False)
    bench = lab(rig.fill(config, 25).image)
    queue = [f"/store/consumequeue/T/0/{at:020d}" for at in (0, 200, 400)]

    def body(world: World) -> None:
        for path in queue[1:]:
            content = world.files.read(path)
            world.files.unlink(path)
            if left is not None:
                world.files.write(path, content[:left])
        died = MessageStore(world, config)
        assert died.load().changed_entries == 15
        died.close()
        assert not bench.disk.is_durable(queue[1], 0, 200)

        store = MessageStore(world, config)
        report = store.load()
        assert (report.clean_exit, report.start_offset, report.changed_entries) == (True, 0, 0)
        store.start()
        store.flush_queues.flush_thoroughly()
        assert all(bench.disk.is_durable(path, 0, 200) for path in queue)
        assert store.shutdown()
        assert MessageStore(world, config).load().start_offset > 0

    bench.run(body)


def test_a_queue_longer_than_the_write_buffer_is_rebuilt_completely(lab: Make, rig: Rig) -> None:
    config = rig.small(mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=20_000)
    units = encode_batch(BatchUnit(0, b"", b"KEYS\1k") for _ in range(500))
    bench = lab()

    def body(world: World) -> None:
        store = started(world, config)
        for _ in range(10):
            assert store.put_messages(MessageBatch(Message("Many"), units)).is_stored
        assert store.shutdown()

    bench.run(body)
    image = left = bench.switch_off()
    queue = [path for path in image.files if "consumequeue" in path]
    for path in queue:
        image = rig.patched(image, path, 0, None)
    rebuilt = lab(image)
    rebuilt.run(lambda world: MessageStore(world, config).load())
    found = rebuilt.switch_off()

    assert len(queue) == 5
    assert all(found.files[path].content == left.files[path].content for path in queue)


def test_a_queue_without_a_scanned_record_keeps_only_valid_entries(rig: Rig) -> None:
    config = rig.small(recover_whole_log=False, message_index_enable=False)
    filled = rig.fill(config, 20, topic=lambda number: "Old" if number < 3 else "T")
    beyond = filled.puts[-1].wrote_offset
    entry = beyond.to_bytes(8, "big") + (492).to_bytes(4, "big") + bytes(8)
    image = rig.patched(filled.image, "/store/consumequeue/Old/0/00000000000000000000", 60, entry)
    found = rig.recover(image, config)

    assert found.report.start_offset > 0
    assert found.report.changed_entries == 1
    assert found.bodies["Old"] == bodies_numbered(0, 1, 2)


def test_a_gap_in_a_queue_without_a_scanned_record_is_kept(rig: Rig) -> None:
    config = rig.small(recover_whole_log=False, message_index_enable=False)
    filled = rig.fill(config, 20, topic=lambda number: "Old" if number < 6 else "T")
    queue = "/store/consumequeue/Old/0/00000000000000000000"
    row, image = filled.image.files[queue].content, filled.image
    image = rig.renumbered(image, filled, {number: number + 3 for number in range(2, 6)})
    found = rig.recover(rig.patched(image, queue, 40, bytes(60) + row[40:120]), config)

    assert found.report.start_offset > filled.at(5)
    assert found.report.changed_entries == 0
    assert found.bodies["Old"] == [*bodies_numbered(0, 1), None, None, None, *bodies_numbered(2, 3, 4, 5)]


def test_entries_beyond_the_end_of_the_log_are_removed(rig: Rig) -> None:
    filled = rig.fill(rig.small(), 20, abruptly=True)
    image = filled.image
    for offset in (8 * PAIR, 9 * PAIR):
        image = rig.patched(image, log_file(offset), 0, bytes(PAIR))
    found = rig.recover(image, rig.small())

    assert found.log_end == 8 * PAIR
    assert found.bodies["T"] == bodies_numbered(*range(16))
    assert found.report.changed_entries == 1  # one queue was truncated


def test_a_log_without_its_first_segments_keeps_queue_offsets(rig: Rig) -> None:
    filled = rig.fill(rig.small(), 20)
    image = filled.image
    for offset in range(0, 4 * PAIR, PAIR):
        image = rig.patched(image, log_file(offset), 0, None)
    headless = rig.recover(image, rig.small())
    for path in filled.image.files:
        if "consumequeue" in path:
            image = rig.patched(image, path, 0, None)
    rebuilt = rig.recover(image, rig.small())

    assert headless.bodies["T"] == rebuilt.bodies["T"] == [None] * 8 + bodies_numbered(*range(8, 20))


@pytest.mark.parametrize(
    ("queue_offset", "is_reported", "left"),
    [(3, True, []), (10, False, [None, body_of(9)])],
    ids=["used, reported and skipped", "too large, a blank entry"],
)
def test_a_record_with_another_queue_offset_and_no_entry(
    rig: Rig, queue_offset: int, is_reported: bool, left: list[bytes | None]
) -> None:
    filled = rig.fill(rig.small(), 10)
    bad = filled.at(9)
    place = bad % PAIR + QUEUE_OFFSET_AT
    image = rig.patched(filled.image, log_file(bad), place, queue_offset.to_bytes(8, "big"))
    image = rig.patched(image, QUEUE, 9 * 20, bytes(20))
    found = rig.recover(image, rig.small())

    assert found.findings == ([(log_file(bad), place, "queueOffset")] if is_reported else [])
    assert found.bodies["T"] == [*bodies_numbered(*range(9)), *left]


@pytest.mark.parametrize("number", [0, 9])
def test_a_record_with_an_impossible_queue_offset_in_recovery_is_reported_and_skipped(number: int, rig: Rig) -> None:
    filled = rig.fill(rig.small(), 10, topic=lambda each: "T" if each == number else "Old")
    bad = filled.at(number)
    absurd = (1 << 40).to_bytes(8, "big")
    image = rig.patched(filled.image, log_file(bad), bad % PAIR + QUEUE_OFFSET_AT, absurd)
    image = rig.patched(image, QUEUE, 0, None)
    found = rig.recover(image, rig.small())

    assert found.findings == [(log_file(bad), bad % PAIR + QUEUE_OFFSET_AT, "queueOffset")]
    assert found.bodies["T"] == []
    assert len(found.bodies["Old"]) == 9


# Positions and files


def test_an_empty_directory_is_an_empty_store(rig: Rig) -> None:
    found = rig.recover(Image({}, ()), rig.small())

    assert (found.report.records, found.log_end, found.findings) == (0, 0, [])


@pytest.mark.parametrize("abruptly", [True, False])
@pytest.mark.parametrize("size_bytes", [1, 7])
def test_a_segment_size_without_room_for_a_blank_record_is_damage(
    world: World, small: Make, size_bytes: int, abruptly: bool
) -> None:
    world.files.make_directories("/store/commitlog")
    world.files.write(log_file(0), b"x" * size_bytes)
    if abruptly:
        world.files.write("/store/abort", b"")
    store = MessageStore(world, small(mapped_file_size_commit_log=size_bytes, max_message_size=1))
    with pytest.raises(CorruptFileError, match="file size: expected 8 or more, the size of a blank record, found"):
        store.load()


def test_a_recovery_that_fails_on_a_disk_error_raises_it_and_can_be_repeated(rig: Rig, lab: Make) -> None:
    filled = rig.fill(rig.small(), 20, abruptly=True)
    bad = filled.at(15)
    bench = lab(rig.damaged(filled, bad))
    bench.failures.plan("msync", "commitlog")

    def fail(world: World) -> None:
        store = MessageStore(world, rig.small())
        with pytest.raises(OSError, match="Input/output error"):
            store.load()
        store.close()

    bench.run(fail)
    again = lab(bench.switch_off())

    def body(world: World) -> None:
        store = MessageStore(world, rig.small())
        store.load()
        assert bodies(store, "T") == bodies_numbered(*range(15))

    again.run(body)
