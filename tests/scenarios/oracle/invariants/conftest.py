"""Rigs: hand-made evidence of a store with three messages, and a running store on a simulated disk."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import pytest

from tests.scenarios.oracle.invariants.puts import put_of
from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.image import Image
from tornlog.scenarios.claims.machine import ROOT, world_of
from tornlog.scenarios.oracle.evidence import Evidence
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.oracle.reader import LogRecord
from tornlog.scenarios.oracle.recovered import FoundQueue, FoundRecord, RecoveredStore
from tornlog.scenarios.workload.options import set_delay_level
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.store.config import FlushDiskType, StoreConfig
from tornlog.store.formats.consume_queue import tags_code
from tornlog.store.formats.delay_level import SCHEDULE_TOPIC
from tornlog.store.formats.messages import Message, PutMessageStatus
from tornlog.store.message_store import MessageStore

T = TypeVar("T")
Body = Callable[[MessageStore, Disk], T]


@pytest.fixture
def evidence() -> Evidence:
    """Return a store with three messages m0, m1, m2 in T0/0, each acknowledged, promised and present."""
    ledger, store = Ledger(), RecoveredStore(min_offset=0)
    queue = FoundQueue("T0", 0, 0, 0, 3, "/store/consumequeue/T0/0", [])
    store.queues["T0", 0] = queue
    at = 0
    for number in range(3):
        put = put_of(number)
        ledger.record_request(put)
        put.answered_ns, put.status = 1_000_000, PutMessageStatus.PUT_OK
        put.physical_offset, put.queue_offset, put.stored_ms = at, number, 1000 + number
        ledger.promise(put)
        record = LogRecord(at, put.record_bytes, "T0", 0, number, 0, 1000 + number, put.properties, put.head)
        found = FoundRecord(record, "/store/commitlog/0", at, put.body)
        store.records.append(found)
        store.by_offset[at] = found
        queue.entries.append((at, put.record_bytes, tags_code("TagA")))
        at += put.record_bytes
    store.max_offset = at
    return Evidence(ledger, store)


@pytest.fixture
def delayed_evidence() -> Evidence:
    """Return a store with two messages d0 and d1 for T0/0, put with a delay of a second and delivered when due."""
    ledger, store = Ledger(), RecoveredStore(min_offset=0)
    ledger.begin_delivery(0, {})
    store.queues[SCHEDULE_TOPIC, 0] = FoundQueue(SCHEDULE_TOPIC, 0, 0, 0, 2, "", [])
    puts = [put_of(number) for number in range(2)]
    for number, put in enumerate(puts):
        put.name = f"d{number}"
        put.properties = f"KEYS\1{put.name}\2DELAY\0011".encode()
        set_delay_level(put, 1)
        ledger.record_request(put)
    for topic, store_ms in ((SCHEDULE_TOPIC, 1000), ("T0", 2000)):
        for number, put in enumerate(puts):
            properties = put.properties + b"\2REAL_TOPIC\1T0\2REAL_QID\0010"
            at = len(store.records) * 200
            record = LogRecord(at, 200, topic, 0, number, 0, store_ms + number, properties, put.head)
            store.by_offset[at] = FoundRecord(record, "/store/commitlog/0", at, put.body)
            store.records.append(store.by_offset[at])
    store.delivered_to = {1: 2}
    return Evidence(ledger, store)


@pytest.fixture
def on_a_store() -> Callable[..., object]:
    """Return a function that runs a body with a SYNC_FLUSH store, started on an empty simulated disk."""
    return partial(_run_on_a_store, indexed=False)


@pytest.fixture
def on_an_indexed_store() -> Callable[..., object]:
    """Return such a function for a store with an index and three dispatched messages: m0, m1 and m2 of T0."""
    return partial(_run_on_a_store, indexed=True)


@pytest.fixture(params=[False, True])
def on_a_store_of_either_queues(request: pytest.FixtureRequest) -> Callable[..., object]:
    """Return such a function, once with plain queues and once with extended queues."""
    return partial(_run_on_a_store, indexed=True, extended=request.param)


def _run_on_a_store(body: Body[T], *, indexed: bool, extended: bool = False) -> T:
    choices = Choices("judges")
    kernel = Kernel(RandomWalk(choices.stream("schedule"), 16))
    machine = kernel.create_machine("one")
    disk = Disk(kernel, choices.stream("disk"), image=Image({}, ()))

    def main() -> T:
        config = StoreConfig(
            ROOT,
            flush_disk_type=FlushDiskType.SYNC_FLUSH,
            mapped_file_size_commit_log=2048,
            mapped_file_size_consume_queue=200,
            message_index_enable=indexed,
            enable_consume_queue_ext=extended,
            max_hash_slot_num=5,
            max_index_num=12,
        )
        store = MessageStore(world_of(machine, disk), config)
        store.load()
        store.start()
        if indexed:
            for number in range(3):
                put = put_of(number)
                message = Message("T0", put.body, 0, put.properties.decode())
                assert store.put_message(message).append is not None
            store.world.tasks.sleep(10)
        return body(store, disk)

    return kernel.run(machine, main, time_limit_ns=60 * 10**9)
