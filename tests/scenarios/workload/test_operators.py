"""Operators: each has exactly its own effects."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import pytest

from tornlog.faults.disk.disk import Disk
from tornlog.scenarios.claims.machine import CONFIG, ROOT, world_of
from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.oracle.disk_space import DiskRoom
from tornlog.scenarios.oracle.evidence import Violation
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.workload.consuming import Newcomer
from tornlog.scenarios.workload.operators import persisting_operators, queue_operator, retention_operator, room_operator
from tornlog.sim.choices import Choices, Stream
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.store.config import StoreConfig
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.running_flags import RunningFlags
from tornlog.store.services.consumer_offsets import ConsumerOffsetManager

T = TypeVar("T")


def on_a_store(seed: str, body: Callable[[MessageStore, Stream, Kernel, Disk], T]) -> T:
    """Run a body with a store of ten segments."""
    choices = Choices(seed)
    kernel = Kernel(RandomWalk(choices.stream("schedule"), 16))
    machine, disk = kernel.create_machine("one"), Disk(kernel, choices.stream("disk"))

    def main() -> T:
        config = StoreConfig(
            ROOT, mapped_file_size_commit_log=1024, mapped_file_size_consume_queue=100, max_hash_slot_num=5
        )
        store = MessageStore(world_of(machine, disk), config)
        store.load()
        store.start()
        for _ in range(10):
            store.put_message(Message.create("T0", b"b" * 600))
        store.flush.flush_to(store.max_phy_offset)
        store.flush_queues.request_full_flush()
        store.world.tasks.sleep(1_000)
        return body(store, choices.stream("operator"), kernel, disk)

    return kernel.run(machine, main, time_limit_ns=3600 * 10**9)


def test_a_retention_operator_deletes_some_of_the_oldest_segments_or_all_but_the_last() -> None:
    def body(store: MessageStore, stream: Stream, kernel: Kernel, disk: Disk) -> int:
        retention_operator(store, stream)()
        store.world.tasks.sleep(60_000)
        return store.log.min_offset // 1024

    left = {on_a_store(str(seed), body) for seed in range(12)}
    assert 9 in left
    assert len(left) > 3


def test_a_retention_operator_that_ages_no_segment_deletes_only_old_ones() -> None:
    def body(store: MessageStore, stream: Stream, kernel: Kernel, disk: Disk) -> int:
        for segment in store.log.segments[:4]:
            store.world.files.set_mtime_ms(segment.file.path, store.world.clock.now_ms() - 100 * 3_600_000)
        retention_operator(store, stream, ages=False)()
        store.world.tasks.sleep(60_000)
        return store.log.min_offset // 1024

    assert {on_a_store(str(seed), body) for seed in range(4)} == {4}


def test_a_newcomer_asks_for_each_new_queue_once(crash_plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def end_of(self: MessageStore, topic: str, queue_id: int) -> int:
        asked.append((topic, queue_id))
        return 0

    def body(store: MessageStore, stream: Stream, kernel: Kernel, disk: Disk) -> None:
        newcomer = Newcomer(crash_plan, store, disk, Ledger(), list)
        newcomer.note_queue(("T1", 0))
        newcomer.note_queue(("T1", 1))
        more = iter((True, False))
        newcomer.ask_repeatedly(lambda: next(more))

    monkeypatch.setattr(MessageStore, "get_max_offset_in_queue", end_of)
    on_a_store("newcomer", body)
    assert asked == [("T1", 0), ("T1", 1)]


def test_a_retention_operator_ignores_an_already_removed_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    def body(store: MessageStore, stream: Stream, kernel: Kernel, disk: Disk) -> int:
        asked = 0

        def ask(self: MessageStore) -> None:
            nonlocal asked
            asked += 1

        monkeypatch.setattr(MessageStore, "execute_delete_files_manually", ask)
        for segment in store.log.segments:
            store.world.files.unlink(segment.file.path)
        retention_operator(store, stream)()
        return asked

    assert on_a_store("late", body) > 0


def test_a_stopped_retention_operator_requests_no_more_deletions() -> None:
    pauses: list[int | None] = []

    def stopped_within(pause_ms: int | None) -> bool:
        pauses.append(pause_ms)
        return True

    def body(store: MessageStore, stream: Stream, kernel: Kernel, disk: Disk) -> int:
        retention_operator(store, stream, stopped_within)()
        store.world.tasks.sleep(60_000)
        return store.log.min_offset

    assert on_a_store("called off", body) == 0
    assert len(pauses) == 1


def test_a_queue_operator_requests_the_removal_of_expired_queues_or_does_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def body(store: MessageStore, stream: Stream, kernel: Kernel, disk: Disk) -> list[int]:
        asked = []
        monkeypatch.setattr(MessageStore, "clean_expired_consumer_queue", lambda self: asked.append(1))
        for _ in range(20):
            queue_operator(store, stream)
        return asked

    assert 0 < len(on_a_store("queues", body)) < 20


def test_a_disk_space_operator_frees_space_in_the_end() -> None:
    def body(store: MessageStore, stream: Stream, kernel: Kernel, disk: Disk) -> int:
        room = DiskRoom(kernel, disk, lambda _: 0)
        room.limit_capacity(1)
        began_ns = kernel.now_ns
        said: list[Violation] = []
        room_operator(store, stream, room, said.extend)()
        assert not room.is_limited
        return (kernel.now_ns - began_ns) // 1_000_000

    waited_ms = [on_a_store(str(seed), body) for seed in range(8)]
    assert min(waited_ms) >= 1
    assert max(waited_ms) > 1000


def violations_on_full_disk(
    store: MessageStore, stream: Stream, kernel: Kernel, disk: Disk, *, is_paused: bool = False
) -> list[Violation]:
    room = DiskRoom(kernel, disk, lambda since_ns: kernel.now_ns - since_ns if is_paused else 0)
    room.limit_capacity(disk.used_bytes)
    said: list[Violation] = []
    room_operator(store, stream, room, said.extend)()
    return said


@pytest.mark.parametrize("refuses", [True, False])
def test_a_disk_space_operator_reports_a_store_that_accepts_puts_on_a_full_disk(
    monkeypatch: pytest.MonkeyPatch, *, refuses: bool
) -> None:
    if not refuses:
        monkeypatch.setattr(RunningFlags, "add_refusal", lambda self, reason: None)

    said = [violation for seed in range(12) for violation in on_a_store(str(seed), violations_on_full_disk)]
    told = {(violation.invariant, violation.expected) for violation in said}
    assert told == (set() if refuses else {("STATUS", "DISK_FULL")})


@pytest.mark.parametrize("allows", [True, False])
def test_a_disk_space_operator_reports_a_store_that_still_refuses_puts_long_after_space_was_freed(
    monkeypatch: pytest.MonkeyPatch, *, allows: bool
) -> None:
    if not allows:
        monkeypatch.setattr(RunningFlags, "clear_refusal", lambda self, reason: None)

    said = [violation for seed in range(12) for violation in on_a_store(str(seed), violations_on_full_disk)]
    assert {(violation.invariant, violation.found) for violation in said} == (
        set() if allows else {("STATUS", "DISK_FULL")}
    )


@pytest.mark.parametrize("forgotten", ["add_refusal", "clear_refusal"])
def test_a_disk_space_operator_does_not_judge_a_paused_store(monkeypatch: pytest.MonkeyPatch, forgotten: str) -> None:
    monkeypatch.setattr(RunningFlags, forgotten, lambda self, reason: None)

    paused = partial(violations_on_full_disk, is_paused=True)
    assert [violation for seed in range(12) for violation in on_a_store(str(seed), paused)] == []


def test_concurrent_persist_calls_take_turns_writing_the_file() -> None:
    def body(store: MessageStore, stream: Stream, kernel: Kernel, disk: Disk) -> int:
        manager = ConsumerOffsetManager(store.world, CONFIG, flush_interval_ms=1000)
        manager.load()
        manager.commit_offset("G", "T", 0, 7)
        persisting_operators(manager, stream)()
        again = ConsumerOffsetManager(store.world, CONFIG, flush_interval_ms=1000)
        again.load()
        return again.query_offset("G", "T", 0)

    assert {on_a_store(str(seed), body) for seed in range(6)} == {-1, 7}
