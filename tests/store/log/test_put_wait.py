"""Puts that wait for the disk or a slave before they are answered."""

from dataclasses import dataclass
from typing import Any

import pytest

from tests.one_life import with_settings
from tests.store.rigs import Make
from tornlog.faults.disk.syncs import SyncTiming
from tornlog.store.config import BrokerRole, FlushDiskType
from tornlog.store.formats.batch import BatchUnit, encode_batch
from tornlog.store.formats.messages import Message, MessageBatch, PutMessageResult, PutMessageStatus
from tornlog.store.log.put_wait import PutWait
from tornlog.store.message_store import MessageStore
from tornlog.store.plugins import AbstractPluginMessageStore, PluginContext
from tornlog.store.world import World

SYNC, ASYNC = FlushDiskType.SYNC_FLUSH, FlushDiskType.ASYNC_FLUSH
OK, DISK_TIMEOUT = PutMessageStatus.PUT_OK, PutMessageStatus.FLUSH_DISK_TIMEOUT
SLAVE_TIMEOUT, NO_SLAVE = PutMessageStatus.FLUSH_SLAVE_TIMEOUT, PutMessageStatus.SLAVE_NOT_AVAILABLE
SYNC_MS = 1_000
UNITS = encode_batch([BatchUnit(0, b"body", b"")])


@dataclass
class Slave:
    """A slave that was sent all of the log."""

    reported_offset: int = 0

    def has_range(self, start_offset: int, end_offset: int) -> bool:
        return end_offset <= self.reported_offset


def started(world: World, config: Any) -> MessageStore:
    store = MessageStore(world, config)
    store.load()
    store.start()
    store.commit_log.queue.add(store.allocate.make_segment(0))  # so that only a flush takes time
    return store


class Putting:
    """A put that was begun, and the times of its callbacks."""

    def __init__(self, world: World, store: MessageStore, message: Message | MessageBatch) -> None:
        self._world = world
        self._began_ms = self._now_ms()
        self.called_ms: list[int] = []
        self.put = store.begin_put(message, lambda: self.called_ms.append(self._now_ms() - self._began_ms))

    def _now_ms(self) -> int:
        return self._world.clock.monotonic_ns() // 1_000_000

    @property
    def status(self) -> PutMessageStatus | None:
        """Return the answer if it is known."""
        assert isinstance(self.put, PutWait)
        found = self.put.poll(self._world.clock.monotonic_ns())
        return None if found is None else found.status

    @property
    def due_ms(self) -> int:
        assert isinstance(self.put, PutWait)
        return self.put.due_ns(self._world.clock.monotonic_ns()) // 1_000_000 - self._began_ms


SLOW_SYNCS = SyncTiming(SYNC_MS * 1_000_000, SYNC_MS * 1_000_000)


@pytest.mark.parametrize("is_batch", [False, True])
@with_settings(timing=SLOW_SYNCS)
def test_a_put_is_in_the_log_at_once_and_answered_after_the_sync(world: World, small: Make, is_batch: bool) -> None:
    store = started(world, small(flush_disk_type=SYNC))
    head = Message.create("T", b"")
    putting = Putting(world, store, MessageBatch(head, UNITS) if is_batch else head)
    assert putting.put.append is not None
    assert store.log.put_offset == putting.put.append.wrote_bytes
    assert (putting.called_ms, putting.status) == ([], None)
    world.tasks.sleep(SYNC_MS + 100)
    assert putting.called_ms == [SYNC_MS]
    assert putting.status is OK
    assert store.stats.put_latency_counts[0] == 0  # the put counts as slow although no task waited for it
    assert store.stats.put_ns_max >= SYNC_MS * 1_000_000


@with_settings(timing=SLOW_SYNCS)
def test_a_put_that_timed_out_keeps_its_answer(world: World, small: Make) -> None:
    store = started(world, small(flush_disk_type=SYNC, sync_flush_timeout_ms=SYNC_MS - 200))
    putting = Putting(world, store, Message.create("T", b"slow"))
    assert putting.due_ms == SYNC_MS - 200
    world.tasks.sleep(SYNC_MS - 201)
    assert putting.status is None
    world.tasks.sleep(1)
    assert (putting.called_ms, putting.status) == ([], DISK_TIMEOUT)
    world.tasks.sleep(SYNC_MS)
    assert (putting.called_ms, putting.status) == ([SYNC_MS], DISK_TIMEOUT)


@pytest.mark.parametrize("flush", [SYNC, ASYNC])
@with_settings(timing=SLOW_SYNCS)
def test_a_put_that_needs_no_durability_does_not_wait(world: World, small: Make, flush: FlushDiskType) -> None:
    store = started(world, small(flush_disk_type=flush))
    message = Message.create("T", b"hasty")
    message.wait_store_ok = flush is ASYNC
    putting = Putting(world, store, message)
    assert isinstance(putting.put, PutMessageResult)
    assert putting.put.status is OK
    refused = Putting(world, store, Message.create("T" * 300, b""))
    assert refused.put == PutMessageResult(PutMessageStatus.MESSAGE_ILLEGAL)


@pytest.mark.parametrize(
    ("reports_ms", "expected", "known_ms"), [(500, OK, SYNC_MS), (1_500, OK, 1_500), (None, SLAVE_TIMEOUT, 2_000)]
)
@with_settings(timing=SLOW_SYNCS)
def test_a_put_on_a_sync_master_waits_for_disk_and_slave_and_reports_the_slave_first(
    world: World, small: Make, reports_ms: int | None, expected: PutMessageStatus, known_ms: int
) -> None:
    settings = {"broker_role": BrokerRole.SYNC_MASTER, "slave_timeout_ms": 2_000}
    store = started(world, small(flush_disk_type=SYNC, **settings))
    transfer, slave = store.commit_log.group_transfer, Slave()
    assert transfer is not None
    transfer.add_replica(slave)
    putting = Putting(world, store, Message.create("T", b"both"))
    assert putting.due_ms == store.config.sync_flush_timeout_ms
    first_ms = SYNC_MS if reports_ms is None else min(SYNC_MS, reports_ms)

    def report() -> None:
        world.tasks.sleep(reports_ms or 0)
        slave.reported_offset = store.log.put_offset
        transfer.complete_reported_requests(slave)

    if reports_ms is not None:
        world.tasks.spawn("report", report)
    world.tasks.sleep(known_ms - 1)
    assert putting.status is None
    assert putting.due_ms == (2_000 if first_ms == SYNC_MS else store.config.sync_flush_timeout_ms)
    world.tasks.sleep(2)
    assert putting.status is expected
    assert transfer._requests == []
    assert len(putting.called_ms) == (1 if reports_ms is None else 2)


@with_settings(timing=SLOW_SYNCS)
def test_a_put_without_an_available_slave_still_waits_for_the_disk(world: World, small: Make) -> None:
    store = started(world, small(flush_disk_type=SYNC, broker_role=BrokerRole.SYNC_MASTER))
    putting = Putting(world, store, Message.create("T", b"alone"))
    assert (putting.called_ms, putting.status) == ([0], None)
    world.tasks.sleep(SYNC_MS + 100)
    assert putting.status is NO_SLAVE
    assert store.put_message(Message.create("T", b"the same, waited for")).status is NO_SLAVE


class OnePut(AbstractPluginMessageStore):
    def put_message(self, message: Message) -> PutMessageResult:
        message.body += b"!"
        return super().put_message(message)


class Batches(AbstractPluginMessageStore):
    def put_messages(self, batch: MessageBatch) -> PutMessageResult:
        return PutMessageResult(PutMessageStatus.MESSAGE_ILLEGAL)


@with_settings(timing=SLOW_SYNCS)
def test_a_plug_in_that_overrides_one_put_method_is_called_for_every_kind_of_put(world: World, small: Make) -> None:
    store = started(world, small(flush_disk_type=SYNC))
    context, message = PluginContext(world, store.config), Message.create("T", b"body")
    batch = MessageBatch(Message.create("T", b""), UNITS)
    one, batches = OnePut(context, store), Batches(context, store)
    begun = one.begin_put(message, lambda: None)
    assert isinstance(begun, PutMessageResult)
    assert (begun.status, message.body) == (OK, b"body!")
    assert isinstance(one.begin_put(batch, lambda: None), PutWait)
    assert batches.begin_put(batch, lambda: None) == PutMessageResult(PutMessageStatus.MESSAGE_ILLEGAL)
    assert isinstance(batches.begin_put(message, lambda: None), PutWait)
