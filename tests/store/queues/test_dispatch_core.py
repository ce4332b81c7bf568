"""Dispatch with and without the C core: the same queues, index, positions and calls of listeners."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tornlog.store.config import StoreConfig
from tornlog.store.formats.batch import BatchUnit, encode_batch
from tornlog.store.formats.columns import NativeCore
from tornlog.store.formats.message import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from tornlog.store.formats.messages import Message, MessageBatch
from tornlog.store.log.segment import Segment
from tornlog.store.message_store import MessageStore
from tornlog.store.queues.consume_queue import QueueSegments
from tornlog.store.queues.dispatch import MessageArrival
from tornlog.store.real.world import RealClock, real_world

BEGIN_MS = 1_600_000_000_000
SEEDS = 12
PROPERTIES = ("", "KEYS\x01k1 k2\x02", "TAGS\x01A\x02UNIQ_KEY\x01u7\x02", "DELAY\x012\x02", "KEYS\x01\u00e9\x02")


@dataclass
class SteppedClock(RealClock):
    """A clock that changes only when the test sets it."""

    ms: int = BEGIN_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ns(self) -> int:  # type: ignore[override]  # a static method there
        return self.ms * 1_000_000


@dataclass
class Dispatched:
    """A store that runs only the allocate service."""

    store: MessageStore
    clock: SteppedClock
    arrived: list[MessageArrival]


def opened_store(place: Path, core: NativeCore | None) -> Dispatched:
    """Open an empty store with small files, so that each kind of file becomes full between the records of a put."""
    clock = SteppedClock()
    config = StoreConfig(
        str(place),
        mapped_file_size_commit_log=16_384,
        mapped_file_size_consume_queue=140,
        max_hash_slot_num=7,
        max_index_num=23,
        message_index_enable=True,
    )
    store = MessageStore(replace(real_world(), clock=clock, core=core), config)
    store.load()
    store.allocate.start()
    arrived: list[MessageArrival] = []
    store.on_arriving.append(arrived.append, lambda topic, queue_id: queue_id == 1)
    return Dispatched(store, clock, arrived)


def random_put(chance: random.Random) -> tuple[Message | MessageBatch, int]:
    """Return a put of any kind, and the difference between its queue offset and the expected one."""
    topic, queue_id = chance.choice(["T", "Topic-1", "\u4e3b"]), chance.randrange(3)
    properties = chance.choice(PROPERTIES)
    body = bytes(chance.randrange(300))
    if chance.random() < 0.3:
        count = chance.randrange(1, 9)
        units = [BatchUnit(number, body[number:], b"UNIQ_KEY\x01b%d\x02" % number) for number in range(count)]
        return MessageBatch(Message(topic, queue_id=queue_id), encode_batch(units)), 0
    sys_flag = chance.choice([0] * 8 + [TRANSACTION_PREPARED, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK])
    misses = chance.choice([0] * 30 + [1, 5, -1, 10_000])
    return Message(topic, body, queue_id, properties, sys_flag=sys_flag), misses


def put_and_dispatch(made: Dispatched, seed: int) -> None:
    """Put messages, with calls of dispatch in between, until all are dispatched."""
    chance, store = random.Random(seed), made.store
    for _ in range(chance.randrange(20, 120)):
        put, misses = random_put(chance)
        made.clock.ms += chance.choice([0, 1, 7, 2_000])
        head = put.head if isinstance(put, MessageBatch) else put
        key = (head.topic, head.queue_id)
        if misses:
            store.commit_log.topic_queue_table[key] = max(store.commit_log.topic_queue_table.get(key, 0) + misses, 0)
        assert store.commit_log.begin_put(put).append is not None
        if chance.random() < 0.2:
            dispatch_all(store)
    dispatch_all(store)


def dispatch_all(store: MessageStore) -> None:
    """Dispatch to the end of the log. After each error, dispatch again."""
    while store.dispatch.behind_bytes:
        try:
            store.dispatch.dispatch_available()
        except OSError:
            continue


def close(store: MessageStore) -> None:
    store.allocate.shutdown()
    store.close()


def dispatch_results(made: Dispatched, place: Path) -> dict[str, Any]:
    """Close a store and return the queues, index and positions that dispatch wrote."""
    dispatch, store = made.store.dispatch, made.store
    assert store.index is not None
    found: dict[str, Any] = {
        "passed over": (dispatch.passed_over_count, str(dispatch.passed_over).replace(str(place), "")),
        "dispatched": (dispatch.reput_from.get(), dispatch.dispatched_store_timestamp_ms),
        "queues": {(one.topic, one.queue_id): (one.min_offset, one.max_offset) for one in store.queues.all_queues()},
        "index": [(file.name, file.header) for file in store.index.table.files],
        "awaited": sorted(one[:5] for one in made.arrived if one.queue_id == 1),
    }
    close(store)
    for path in sorted(place.rglob("*")):
        if path.is_file() and path.parent.name != "commitlog":
            found[str(path.relative_to(place))] = path.read_bytes()
    return found


def results_with_and_without_core(
    tmp_path: Path, core: NativeCore, seed: int, wrap: Callable[[], None] = lambda: None
) -> tuple[Any, Any]:
    """Return the results of a store with the core and of one without, after the same puts."""
    found = []
    for name, one in (("with", core), ("without", None)):
        made = opened_store(tmp_path / name, one)
        wrap()
        put_and_dispatch(made, seed)
        found.append(dispatch_results(made, tmp_path / name))
    return found[0], found[1]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_dispatch_with_and_without_the_core_gives_the_same_queues_and_index(
    tmp_path: Path, core: NativeCore, seed: int
) -> None:
    found, expected = results_with_and_without_core(tmp_path, core, seed)
    assert found == expected


def test_the_generated_dispatch_workloads_include_skipped_records_and_filled_gaps(tmp_path: Path) -> None:
    passed_over = 0
    for seed in range(SEEDS):
        made = opened_store(tmp_path / str(seed), None)
        put_and_dispatch(made, seed)
        passed_over += made.store.dispatch.passed_over_count
        close(made.store)
    assert passed_over > 0


@pytest.mark.parametrize("seed", range(SEEDS))
def test_dispatch_with_and_without_the_core_is_the_same_after_failed_file_creations(
    tmp_path: Path, core: NativeCore, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = QueueSegments.create

    def wrap() -> None:
        chance = random.Random(seed)

        def may_fail(self: QueueSegments, base_offset: int) -> Segment:
            if chance.random() < 0.3:
                raise OSError(5, "no file for you")
            return create(self, base_offset)

        monkeypatch.setattr(QueueSegments, "create", may_fail)

    found, expected = results_with_and_without_core(tmp_path, core, seed, wrap)
    assert found == expected


def test_the_core_dispatches_plain_records_in_batches(
    tmp_path: Path, core: NativeCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = opened_store(tmp_path / "store", core)
    runs: list[int] = []
    for number in range(40):
        message = Message.create("T", bytes([number]), keys=f"k{number}")
        assert made.store.commit_log.begin_put(message).append is not None
    queue = made.store.queues.find_or_create("T", 0)
    put_run = queue.put_run

    def noted(queue_offset: int, entries: bytes) -> None:
        runs.append(len(entries) // 20)
        put_run(queue_offset, entries)

    monkeypatch.setattr(queue, "put_run", noted)
    dispatch_all(made.store)
    close(made.store)
    assert sum(runs) == 39
    assert len(runs) < 5
