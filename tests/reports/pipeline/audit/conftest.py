"""A store with an index, one Spark, and audits of directories."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tornlog.reports.bench.workplace import real_world
from tornlog.reports.pipeline.audit.audit import Audit, audit
from tornlog.reports.pipeline.spark.session import session
from tornlog.store.config import StoreConfig
from tornlog.store.message import Message
from tornlog.store.message_store import MessageStore

Finding = tuple[str, str, int, str, bool]
"""Promise, name of the file, position, field, and whether it is explained."""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    small = {"spark.sql.shuffle.partitions": "1", "spark.sql.adaptive.enabled": "false"}
    compiled = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    with session("local[2]", config={**small, **compiled}) as made:  # what pays for large stores only
        yield made


@pytest.fixture
def found_in(spark: SparkSession) -> Callable[..., list[Finding]]:
    """Return what audits a directory and returns what was found, in order."""

    def find(root: Path, **options: str) -> list[Finding]:
        found: Audit = audit(spark, str(root), options)
        rows = found.first(1000)
        found.release()
        return [
            (row.promise, str(Path(row.file).relative_to(root)), row.position, row.field, row.is_explained)
            for row in rows
        ]

    return find


@pytest.fixture
def store_at(tmp_path: Path) -> Path:
    """The directory of a stopped store: 140 messages in two queues, all keyed, in several files of each kind."""
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
        store.put_message(Message.of("T", body, queue_id=number % 2, tags=f"Tag{number % 5}", keys=f"k{number}"))
    store.shutdown()
    return root
