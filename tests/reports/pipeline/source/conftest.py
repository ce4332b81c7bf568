"""Source fixtures: stores of a few small segments, written with threads and mappings."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import NativeFile, fs
from pyspark.sql import SparkSession

from tornlog.reports.pipeline.source import dispatched
from tornlog.reports.pipeline.source.directory import StoreDirectory
from tornlog.reports.pipeline.spark.session import session
from tornlog.store.config import StoreConfig
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import real_world

SEGMENT_BYTES = 16 << 10
HASH_SLOTS, INDEX_ENTRIES = 50, 40


class CountingDirectory(StoreDirectory):
    """A store directory that reads as from a remote file system, and counts the bytes."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self._system, self.is_local = fs.SubTreeFileSystem("/", fs.LocalFileSystem()), False
        self.read_bytes = self.reads = 0

    def _read_at(self, stream: NativeFile, start: int, end: int) -> bytes:
        self.read_bytes += end - start
        self.reads += 1
        return super()._read_at(stream, start, end)


@pytest.fixture(scope="session")
def counting_directory() -> Callable[[str], Any]:
    return CountingDirectory


@pytest.fixture(scope="session")
def opened_directory() -> Callable[..., StoreDirectory]:
    """Open a store directory as a StoreDirectory or a CountingDirectory."""

    def open_directory(root: Path, *, is_local: bool) -> StoreDirectory:
        return StoreDirectory(str(root)) if is_local else CountingDirectory(str(root))

    return open_directory


def config_at(root: Path) -> StoreConfig:
    return StoreConfig(
        str(root),
        mapped_file_size_commit_log=SEGMENT_BYTES,
        mapped_file_size_consume_queue=600,
        max_hash_slot_num=HASH_SLOTS,
        max_index_num=INDEX_ENTRIES,
    )


def put_numbers(store: MessageStore, numbers: range, body_bytes: int = 300) -> None:
    """Put messages of two topics with two queues each, every third with a key."""
    for number in numbers:
        properties = {"keys": f"k{number}"} if number % 3 == 0 else {}
        body = f"{number}|".encode() * (body_bytes // 4)
        store.put_message(
            Message.create(f"T{number % 2}", body, queue_id=number // 2 % 2, tags=f"Tag{number % 5}", **properties)
        )


@pytest.fixture
def opened() -> Callable[[Path], MessageStore]:
    """Return a function that opens and starts a store, creating it if it is missing."""

    def open_store(root: Path) -> MessageStore:
        store = MessageStore(real_world(), config_at(root))
        store.load()
        store.start()
        return store

    return open_store


@pytest.fixture
def put() -> Callable[..., None]:
    return put_numbers


@pytest.fixture
def written(tmp_path: Path, opened: Callable[[Path], MessageStore]) -> Callable[..., Path]:
    """Return a function that writes a store with a number of messages and stops it."""

    def write(messages: int = 200, name: str = "store") -> Path:
        root = tmp_path / name
        store = opened(root)
        put_numbers(store, range(messages))
        store.shutdown()
        return root

    return write


@pytest.fixture
def always_use_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make queries use queues even for small gains."""
    monkeypatch.setattr(dispatched, "SEARCH_BYTES", 0)
    monkeypatch.setattr(dispatched, "SHARE_MAX", 1.0)
    monkeypatch.setattr(dispatched, "COST_SHARE_MAX", 1_000.0)
    monkeypatch.setattr(dispatched, "NEAR_BYTES", 1)  # no two records count as near each other


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 200 messages in five segments. Tests copy it before they change it."""
    root = tmp_path_factory.mktemp("template") / "store"
    store = MessageStore(real_world(), config_at(root))
    store.load()
    store.start()
    put_numbers(store, range(200))
    store.shutdown()
    return root


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with session("local[2]", config={"spark.sql.shuffle.partitions": "2"}) as made:
        yield made
