"""Rigs: hand-made evidence of a store with three messages, and a running store on a simulated disk."""

from collections.abc import Callable

import pytest

from tests.one_life import call_in_one_life
from tests.scenarios.oracle.invariants.on_stores import on_a_store
from tests.scenarios.oracle.invariants.puts import put_of
from tornlog.scenarios.oracle.evidence import Evidence
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.oracle.reader import LogRecord
from tornlog.scenarios.oracle.recovered import FoundQueue, FoundRecord, RecoveredStore
from tornlog.scenarios.workload.options import set_delay_level
from tornlog.store.formats.consume_queue import tags_code
from tornlog.store.formats.delay_level import SCHEDULE_TOPIC
from tornlog.store.formats.messages import PutMessageStatus


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
def store() -> Callable[..., object]:
    """Runs a test with a store on a simulated disk. The settings are those of `on_a_store`."""
    return on_a_store


@pytest.fixture
def disk() -> None:
    """The disk of `store`."""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    return call_in_one_life(pyfuncitem, ("store", "disk"))
