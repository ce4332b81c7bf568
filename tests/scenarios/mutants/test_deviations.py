"""Deviations that lose data only in combination: each acts as described, unlike the store."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from tornlog.scenarios.mutants.known import applied_mutant
from tornlog.store.config import StoreConfig
from tornlog.store.formats.messages import Message
from tornlog.store.index.index_service import IndexFiles
from tornlog.store.log.transient_pool import BufferedSegment, TransientStorePool
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import real_world
from tornlog.store.world import World

LOG_BYTES = 4096


@pytest.fixture
def world() -> World:
    return real_world()


@pytest.fixture
def opened(world: World, tmp_path: Path) -> Iterator[Callable[[], MessageStore]]:
    """Open a store in a new directory, and shut it down after the test."""
    stores: list[MessageStore] = []

    def open_one() -> MessageStore:
        config = StoreConfig(
            str(tmp_path),
            mapped_file_size_commit_log=LOG_BYTES,
            mapped_file_size_consume_queue=200,
            enable_consume_queue_ext=True,
            mapped_file_size_consume_queue_ext=4096,
            flush_interval_consume_queue_ms=600_000,
        )
        stores.append(MessageStore(world, config))
        stores[0].load()
        return stores[0]

    yield open_one
    stores[0].shutdown()


def deviation(name: str, *, is_in: bool) -> AbstractContextManager[None]:
    return applied_mutant(name) if is_in else nullcontext()


@pytest.mark.parametrize("is_in", [True, False])
def test_with_the_deviation_the_marker_is_created_after_puts_are_accepted(
    opened: Callable[[], MessageStore], monkeypatch: pytest.MonkeyPatch, is_in: bool
) -> None:
    accepting: list[int] = []
    monkeypatch.setattr(MessageStore, "mark_running", lambda self: accepting.append(self._accepting.get()))
    store = opened()
    with deviation("marker-after-services", is_in=is_in):
        store.start()

    assert accepting == [int(is_in)]
    assert "mark_running" not in vars(store)


@pytest.mark.parametrize("is_in", [True, False])
def test_with_the_deviation_an_existing_file_becomes_the_new_segment_with_its_old_bytes(
    opened: Callable[[], MessageStore], tmp_path: Path, is_in: bool
) -> None:
    store = opened()
    first = tmp_path / "commitlog" / f"{0:020d}"
    first.parent.mkdir(exist_ok=True)
    first.write_bytes(b"x" * LOG_BYTES)
    with deviation("leftover-reopened", is_in=is_in):
        store.start()
        stored = store.put_message(Message.create("T", b"new")).append

    assert stored is not None
    assert first.read_bytes()[stored.wrote_bytes :].strip(b"\0") == (
        b"x" * (LOG_BYTES - stored.wrote_bytes) if is_in else b""
    )


@pytest.mark.parametrize("is_in", [True, False])
def test_with_the_deviation_directory_entries_of_index_files_are_not_synced(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_in: bool
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(type(world.files), "sync_directory", lambda self, path: synced.append(path))
    files = IndexFiles(world, str(tmp_path), 5, 5)
    with deviation("index-names-unsynced", is_in=is_in):
        files.sync_names()

    assert bool(synced) is not is_in


@pytest.mark.parametrize("is_in", [True, False])
def test_with_the_deviation_the_checkpoint_covers_a_put_that_is_only_in_memory(
    world: World, tmp_path: Path, is_in: bool
) -> None:
    pool = TransientStorePool(world, LOG_BYTES, 1)
    pool.fill()
    buffer = pool.borrow_buffer()
    assert buffer is not None
    file = world.files.map(str(tmp_path / "segment"), LOG_BYTES)
    segment = BufferedSegment(world.tasks, file, 0, "test", pool=pool, buffer=buffer)
    segment.append(0, b"put")
    segment.store_timestamp_ms = 7
    with deviation("commit-time-of-last-put", is_in=is_in):
        assert segment.readable_store_timestamp_ms == (7 if is_in else 0)

    segment.commit(0)
    assert segment.readable_store_timestamp_ms == 7
    file.close()


@pytest.mark.parametrize("is_in", [True, False])
def test_with_the_deviation_a_flush_covers_one_file_of_each_queue(
    opened: Callable[[], MessageStore], is_in: bool
) -> None:
    store = opened()
    store.start()
    for _ in range(25):  # a file has ten entries
        store.put_message(Message.create("T", b"x"))
    while store.dispatch_behind_bytes:
        store.world.tasks.sleep(1)
    queue = store.queues.find("T", 0)
    assert queue is not None
    queue.queue.flushed_where.set(0)
    for segment in queue.queue.segments:
        segment.flushed.set(0)
    with deviation("queue-pass-flushes-one-file", is_in=is_in):
        queue.flush(0)

    assert queue.queue.flushed_where.get() == (200 if is_in else 500)
