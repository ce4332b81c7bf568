"""Removals that `WatchedRemovals` permits, records and reports."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import cast

import pytest

from tornlog.faults.disk.disk import Disk
from tornlog.scenarios.claims.machine import ROOT, world_of
from tornlog.scenarios.oracle.disk_space import DiskRoom, WatchedRemovals
from tornlog.scenarios.oracle.evidence import Violation
from tornlog.scenarios.oracle.invariants import clean
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.store.config import StoreConfig
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.retention.cleaning import CleanCommitLog
from tornlog.store.world import Files

HOUR_MS = 3_600_000


class Watched:
    """A store of some full segments with watched removals, and the reported violations."""

    def __init__(self, kernel: Kernel, choices: Choices) -> None:
        self.machine = kernel.create_machine("one")
        self.disk = Disk(kernel, choices.stream("disk"))
        self.room = DiskRoom(kernel, self.disk, self._paused_ns)
        self.ledger = Ledger()
        self.reported: list[str] = []
        self.pauses: list[tuple[int, int]] = []
        world = world_of(self.machine, self.disk)
        self.watched = WatchedRemovals(world.files, self.disk, self.room, self.ledger, self._report)
        world = replace(world, files=cast(Files, self.watched))
        config = StoreConfig(
            ROOT, mapped_file_size_commit_log=1024, mapped_file_size_consume_queue=100, message_index_enable=False
        )
        self.store = MessageStore(world, config)

    def _report(self, violations: Iterable[Violation]) -> None:
        self.reported += [violation.summary for violation in violations]

    def _paused_ns(self, since_ns: int) -> int:
        return sum(end_ns - max(begin_ns, since_ns) for begin_ns, end_ns in self.pauses if end_ns > since_ns)

    def open(self) -> None:
        """Load and start the store, put twelve messages, and wait until all are durable and visible."""
        self.store.load()
        self.watched.store = self.store
        self.store.start()
        for number in range(12):
            self.store.put_message(Message.create("T0", b"b" * 600, keys=f"k{number}"))
        self.settle()

    def settle(self) -> None:
        self.store.flush.flush_to(self.store.max_phy_offset)
        self.store.world.tasks.sleep(1_000)
        self.store.flush_queues.request_full_flush()
        self.store.world.tasks.sleep(1_000)

    def age(self, count: int) -> None:
        for segment in self.store.log.segments[:count]:
            self.store.world.files.set_mtime_ms(segment.file.path, self.store.world.clock.now_ms() - 100 * HOUR_MS)

    def clean(self) -> None:
        self.store.execute_delete_files_manually()
        self.store.world.tasks.sleep(5_000)


def test_outside_the_hours_of_deletion_only_a_request_removes_expired_segments() -> None:
    def body(shop: Watched) -> None:
        shop.age(1)
        shop.watched.is_time = clean.is_delete_hour
        assert not clean.is_delete_hour(shop.store)
        shop.clean()
        shop.store.config = replace(shop.store.config, delete_when="04;12")
        assert clean.is_delete_hour(shop.store)

    assert watched(body).reported == ["a segment is removed without a reason"]


def watched(body: Callable[[Watched], None]) -> Watched:
    """Run a body with a watched store, and return the store."""
    choices = Choices("door")
    kernel = Kernel(RandomWalk(choices.stream("schedule"), 16))
    shop = Watched(kernel, choices)

    def main() -> None:
        shop.open()
        body(shop)

    kernel.run(shop.machine, main, time_limit_ns=3600 * 10**9)
    return shop


def test_removals_of_expired_segments_are_recorded() -> None:
    def body(shop: Watched) -> None:
        shop.age(4)
        shop.clean()
        assert shop.store.log.min_offset == 4 * 1024
        assert shop.store.shutdown(), "which removes the segment that was made ahead"

    shop = watched(body)
    assert shop.reported == []
    assert shop.ledger.expired_to == 4 * 1024
    assert shop.ledger.ended_queues == set()


def test_the_removal_of_an_unexpired_segment_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CleanCommitLog, "_has_expired", lambda self, segment: segment.base_offset < 2048)

    def body(shop: Watched) -> None:
        shop.age(1)
        shop.clean()

    assert watched(body).reported == ["a segment is removed without a reason"]


def test_a_full_disk_at_the_start_of_a_pass_permits_removals() -> None:
    def body(shop: Watched) -> None:
        shop.room.limit_capacity(shop.store.world.files.space(ROOT).used_bytes)
        shop.store.execute_delete_files_manually()
        shop.store.world.tasks.sleep(250)
        shop.room.lift_limit()
        shop.store.world.tasks.sleep(5_000)

    shop = watched(body)
    assert shop.reported == []
    assert shop.ledger.expired_to == 10 * 1024


@pytest.mark.parametrize("is_paused", [True, False])
def test_a_removal_pass_that_started_on_a_full_disk_may_continue_after_a_pause(is_paused: bool) -> None:
    def body(shop: Watched) -> None:
        tasks, clock = shop.store.world.tasks, shop.store.world.clock
        shop.room.limit_capacity(shop.store.world.files.space(ROOT).used_bytes)
        tasks.sleep(10)
        shop.room.lift_limit()
        began_ns = clock.monotonic_ns()
        tasks.sleep(20_000)
        if is_paused:  # two pauses; the last five seconds contain only the second
            shop.pauses = [(began_ns, began_ns + 9 * 10**9), (began_ns + 10 * 10**9, began_ns + 18 * 10**9)]
        shop.store.log.remove_first()

    shop = watched(body)
    assert shop.reported == ([] if is_paused else ["a segment is removed without a reason"])


@pytest.mark.parametrize("has_stray_file", [False, True])
def test_the_removal_of_all_but_the_last_queue_file_is_recorded(has_stray_file: bool) -> None:
    def body(shop: Watched) -> None:
        if has_stray_file:
            queue = shop.store.queues.find("T0", 0)
            shop.store.world.files.write(f"{queue.queue.segments[0].file.path}.bak", b"of no queue")
        shop.store.put_message(Message.create("Other", b"b" * 600))
        shop.settle()
        shop.age(12)
        shop.clean()
        shop.clean()
        shop.store.clean_expired_consumer_queue()

    shop = watched(body)
    assert shop.reported == []
    assert shop.ledger.ended_queues == {("T0", 0)}
