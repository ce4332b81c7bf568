"""Damage of single records and skipped queue offsets: the changes, and the judges' view of them."""

from dataclasses import replace

import pytest

from tests.fixtures import QUIET_PLAN, execute
from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.image import Image
from tornlog.scenarios.claims.machine import ROOT, world_of
from tornlog.scenarios.claims.plan import Life, LifeEnding
from tornlog.scenarios.oracle.known_damage import DamagedBytes, KnownDamage
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.oracle.put_entry import PutEntry
from tornlog.scenarios.oracle.recovered import read_store
from tornlog.scenarios.workload.damage import damage_record, flip_queue_offset, without_queues
from tornlog.scenarios.workload.store_faults import SKIPPED_NUMBERS, skip_numbers
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.store.config import StoreConfig
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore

SEGMENT_BYTES = 1024
BODY_BYTES = 400  # two records a segment


def stopped_store(messages: int) -> tuple[Image, MessageStore, list[PutEntry]]:
    """Return a store's image after some messages and a clean stop, the store, and the puts."""
    choices = Choices("records")
    kernel = Kernel(RandomWalk(choices.stream("schedule"), 16))
    machine = kernel.create_machine("one")
    disk = Disk(kernel, choices.stream("disk"), image=Image({}, ()))
    puts = []

    def main() -> MessageStore:
        store = MessageStore(world_of(machine, disk), StoreConfig(ROOT, mapped_file_size_commit_log=SEGMENT_BYTES))
        store.load()
        store.start()
        for number in range(messages):
            append = store.put_message(Message.create("T", b"b" * BODY_BYTES)).append
            assert append is not None
            name = str(number)
            puts.append(
                PutEntry(
                    name, "T", 0, "", b"b" * BODY_BYTES, name.encode(), True, 0,
                    physical_offset=append.wrote_offset, queue_offset=append.queue_offset,
                )
            )  # fmt: skip
        assert store.shutdown()
        return store

    store = kernel.run(machine, main, time_limit_ns=60 * 10**9)
    return disk.image_after_power_off(), store, puts


def changed_bytes(before: Image, after: Image) -> list[tuple[str, int]]:
    """Return the positions at which two images with the same files differ."""
    return [
        (path, at)
        for path, file in before.files.items()
        for at, byte in enumerate(file.content)
        if byte != after.files[path].content[at]
    ]


@pytest.mark.parametrize(("skipped", "hidden"), [({2}, True), ({1, 2}, False), ({0, 1, 2}, False), ({4}, False)])
def test_a_flipped_queue_offset_may_hide_a_gap_before_its_record(skipped: set[int], hidden: bool) -> None:
    image, store, puts = stopped_store(4)
    flaws = []
    for seed in range(12):
        damage = flip_queue_offset(image, store, puts, Choices(str(seed)).stream("s"), {("T", 0): skipped})
        assert damage is not None
        flaws.append((damage.flaw.put.queue_offset, damage.flaw.log_offset % 8, damage.flaw.was, damage.flaw.became))
    hiding = [flaw for flaw in flaws if flaw[0] == 3 and flaw[2:] == (b"\3", b"\2")]
    assert (len(hiding) > 3) == hidden


@pytest.mark.parametrize(("skipped", "contradicting"), [({1}, True), ({0, 1}, False), ({4}, False)])
def test_a_flipped_queue_offset_may_contradict_the_record_after_a_gap(skipped: set[int], contradicting: bool) -> None:
    image, store, puts = stopped_store(4)
    flaws = []
    for seed in range(12):
        damage = flip_queue_offset(image, store, puts, Choices(str(seed)).stream("s"), {("T", 0): skipped})
        assert damage is not None
        flaws.append((damage.flaw.put.queue_offset, damage.flaw.was, damage.flaw.became))
    assert (flaws.count((3, b"\3", b"\2")) > 3) == contradicting


@pytest.mark.slow
def test_flipping_a_queue_offset_changes_one_bit_of_one_record() -> None:
    image, store, puts = stopped_store(6)
    for seed in range(12):
        damage = flip_queue_offset(image, store, puts, Choices(str(seed)).stream("s"), {})
        assert damage is not None
        ((path, at),) = changed_bytes(image, damage.image)
        begin = damage.flaw.put.physical_offset
        assert begin is not None
        assert begin + 20 <= damage.flaw.log_offset < begin + 28
        assert (int(path.rpartition("/")[2]) + at) == damage.flaw.log_offset
        assert (damage.flaw.was[0] ^ damage.flaw.became[0]).bit_count() == 1

    assert flip_queue_offset(image, store, [], Choices("0").stream("s"), {}) is None


@pytest.mark.slow
def test_only_records_that_recovery_skips_after_a_clean_exit_are_damaged() -> None:
    image, store, puts = stopped_store(10)
    assert len(store.log.segments) == 5
    fields = set()
    for seed in range(40):
        damage = damage_record(image, store, puts, Choices(str(seed)).stream("s"))
        assert damage is not None
        ((path, _),) = changed_bytes(image, damage.image)
        assert int(path.rpartition("/")[2]) < 2 * SEGMENT_BYTES
        at = damage.flaw.log_offset - (damage.flaw.put.physical_offset or 0)
        assert 0 <= at < 8 or 88 <= at < 88 + BODY_BYTES
        fields.add(min(at // 4, 2))

    assert fields == {0, 1, 2}
    assert damage_record(*stopped_store(6), Choices("0").stream("s")) is None


def test_losing_the_queues_removes_all_their_files_and_the_checkpoint() -> None:
    image, _, _ = stopped_store(4)
    left = without_queues(image, StoreConfig(ROOT))

    assert f"{ROOT}/consumequeue/T/0/{0:020d}" in image.files
    assert not [path for path in (*left.files, *left.directories) if "consumequeue" in path]
    assert set(image.files) - set(left.files) == {
        path for path in image.files if "consumequeue" in path or path.endswith("/checkpoint")
    }


def test_a_judge_reads_a_damaged_record_as_before_the_damage() -> None:
    put = PutEntry("p", "T", 0, "", b"", b"p", True, 0, physical_offset=16)
    known = KnownDamage()
    known.record_damage(DamagedBytes(20, b"a", b"b", put), unreadable=True)

    there, gone = memoryview(b"0123b567"), memoryview(b"0123c567")
    assert bytes(known.view_before_damage(there, 16)) == b"0123a567"
    assert known.view_before_damage(gone, 16) is gone
    assert known.view_before_damage(there, 24) is there
    assert known.unreadable == {16}


def test_a_judge_reads_a_flipped_queue_offset_as_before() -> None:
    image, store, puts = stopped_store(4)
    damage = flip_queue_offset(image, store, puts, Choices("1").stream("s"), {})
    assert damage is not None
    choices = Choices("again")
    kernel = Kernel(RandomWalk(choices.stream("schedule"), 16))
    machine = kernel.create_machine("two")
    disk = Disk(kernel, choices.stream("disk"), image=damage.image)
    known = KnownDamage()
    known.record_damage(damage.flaw, unreadable=False)

    def numbers() -> tuple[list[int], list[int]]:
        other = MessageStore(world_of(machine, disk), store.config)
        other.load()
        as_it_is, seen_through = read_store(other), read_store(other, known_damage=known)
        other.close()
        return (
            [found.record.queue_offset for found in as_it_is.records],
            [found.record.queue_offset for found in seen_through.records],
        )

    as_it_is, seen_through = kernel.run(machine, numbers, time_limit_ns=60 * 10**9)
    assert seen_through == [0, 1, 2, 3]
    assert as_it_is != seen_through


def run_with_skipped_offsets(image: Image, config: StoreConfig, seed: str) -> tuple[Ledger, int, int, int]:
    """Let queues skip offsets; return the ledger, their number, the end of T/0, and the next put's queue offset."""
    choices, ledger = Choices(seed), Ledger()
    kernel = Kernel(RandomWalk(choices.stream("schedule"), 16))
    machine = kernel.create_machine("two")
    disk = Disk(kernel, choices.stream("disk"), image=image)

    def main() -> tuple[int, int, int]:
        store = MessageStore(world_of(machine, disk), config)
        store.load()
        skipping = skip_numbers(store, choices.stream("skip"), 3, ledger)
        queue = store.queues.find("T", 0)
        assert queue is not None
        end = queue.max_offset
        store.start()
        append = store.put_message(Message.create("T", b"b")).append
        assert append is not None
        assert store.shutdown()
        return skipping, end, append.queue_offset

    return ledger, *kernel.run(machine, main, time_limit_ns=60 * 10**9)


def test_queues_continue_after_skipped_offsets_which_the_ledger_records() -> None:
    image, store, _ = stopped_store(4)
    written = set()
    for seed in range(20):
        ledger, skipping, end, number = run_with_skipped_offsets(image, store.config, str(seed))
        assert ledger.missing_offsets == ({("T", 0): set(range(4, number))} if skipping else {})
        assert skipping == (number > 4)
        assert end in (4, number)
        written.add((skipping, end > 4))

    assert written == {(0, False), (1, False), (1, True)}


def test_damaged_records_and_skipped_offsets_are_counted() -> None:
    plan = QUIET_PLAN.replace(
        commit_log_bytes=SEGMENT_BYTES,
        messages={"body_bytes_max": 300, "equal_sizes": True},
        starts={"skipped_numbers_max": 2},
        lives=tuple(
            Life(LifeEnding(ending), "nothing-lost", -1, "after", 12) for ending in ("stop", "stop and flipped number")
        ),
    )
    outcomes = [execute(plan, str(seed)) for seed in range(6)]
    plan = replace(
        plan, recover_whole_log=True, lives=(replace(plan.lives[0], ending=LifeEnding.STOP_AND_DAMAGED_RECORD),)
    )
    outcomes += [execute(plan, str(seed)) for seed in range(4)]

    assert [outcome.violations for outcome in outcomes] == [[]] * 10
    injected = sum((outcome.injected for outcome in outcomes), outcomes[0].injected)
    assert injected[SKIPPED_NUMBERS] > 0
    assert injected["flipped number"] > 0
    assert injected["damaged record"] > 0
