import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import spark_tables
from tornlog.reports.pipeline.source.columns import RowConditions
from tornlog.reports.pipeline.source.directory import StoreDirectory
from tornlog.reports.pipeline.source.messages import Messages
from tornlog.reports.pipeline.source.queue_entries import QueueEntries
from tornlog.reports.pipeline.source.source_options import SourceOptions


def test_the_written_log_has_the_wanted_messages_without_damage(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(spark_tables, "_SEGMENT_BYTES", 1 << 20)
    root = tmp_path / "log"
    spark_tables.write_log(root, 2500)

    table, directory = Messages(SourceOptions.from_spark({"path": str(root)})), StoreDirectory(str(root))
    parts = table.partitions(directory, RowConditions())
    batches = (batch for part in parts for batch in table.batches(directory, part, RowConditions()))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert len(directory.segments()) == 3
    assert [row["keys"] for row in rows] == [[f"order-{number:08}"] for number in range(2500)]
    assert [(row["topic"], row["queue_offset"]) for row in rows[7:9]] == [("Topic0", 1), ("Topic1", 1)]
    assert {row["size"] for row in rows} == {1024}
    assert not any(row["damage"] for row in rows)

    entries = QueueEntries(SourceOptions.from_spark({"path": str(root), "table": "queue_entries"}))
    queues = entries.partitions(directory, RowConditions())
    batches = (batch for part in queues for batch in entries.batches(directory, part, RowConditions()))
    found = {(row["topic"], row["queue_offset"]): row["physical_offset"] for b in batches for row in b.to_pylist()}
    assert found == {(row["topic"], row["queue_offset"]): row["physical_offset"] for row in rows}


def test_processor_time_includes_that_of_running_children() -> None:
    code = "import time; began = time.process_time()\nwhile time.process_time() < began + 0.3: pass\nprint(); input()"
    before = spark_tables.cpu_ticks()
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert spark_tables.cpu_seconds_since(before) >= 0.25
        child.communicate(b"\n")


def test_a_process_that_ended_does_not_reduce_the_processor_time_of_others() -> None:
    code = "import time\nwhile time.process_time() < 0.3: pass\nprint(); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        before = spark_tables.cpu_ticks()
        child.communicate(b"\n")
    assert spark_tables.cpu_seconds_since(before) >= 0


def test_a_line_separates_the_fixed_cost_from_the_cost_of_a_message() -> None:
    assert spark_tables.line_through(1_000_000, 3.0, 3_000_000, 5.0) == (2.0, 1.0)
