"""Audit fixtures: a store with an index, and a Spark session."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tornlog.reports.pipeline.spark.engine import SparkEngine
from tornlog.reports.pipeline.spark.session import session
from tornlog.store.config import StoreConfig
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import real_world


@pytest.fixture(scope="module")
def on_spark() -> Iterator[SparkEngine]:
    with session("local[2]") as spark:
        yield SparkEngine(spark.sparkContext)


@pytest.fixture
def store_at(tmp_path: Path) -> Path:
    """A stopped store: 140 keyed messages in two queues, in several files of each kind."""
    root = tmp_path / "store"
    config = StoreConfig(
        str(root),
        mapped_file_size_commit_log=16 << 10,
        mapped_file_size_consume_queue=600,
        max_hash_slot_num=50,
        max_index_num=41,
    )
    store = MessageStore(real_world(), config)
    store.load()
    store.start()
    for number in range(140):
        body = f"{number}|".encode() * 80
        store.put_message(Message.create("T", body, queue_id=number % 2, tags=f"Tag{number % 5}", keys=f"k{number}"))
    store.shutdown()
    return root
