import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StructType

from tornlog.reports.pipeline.source.known_records import KNOWN_MAX, LogCutError
from tornlog.reports.pipeline.source.rocketmq import RocketMQSource
from tornlog.reports.pipeline.source.source_options import SourceOptions
from tornlog.reports.pipeline.source.stream import ExpiredError, LogStream
from tornlog.store.message_store import MessageStore

SEGMENT_BYTES = 16 << 10
_WRITER = """
import runpy, time
from pathlib import Path
from tornlog.store.real.world import real_world
from tornlog.store.message_store import MessageStore
here = runpy.run_path({conftest!r})
store = MessageStore(real_world(), here["config_at"](Path({root!r})))
store.load()
store.start()
print("ready", flush=True)
number = 0
while True:
    here["put_numbers"](store, range(number, number + 5))
    number += 5
    time.sleep({pause_seconds})
"""


def stream_of(root: Path, **options: str) -> LogStream:
    return LogStream(SourceOptions.from_spark({"path": str(root), **options}))


def rows_of(stream: LogStream, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
    parts = stream.partitions(start, end)
    return [row for part in parts for batch in stream.read(part) for row in batch.to_pylist()]


def batches_of(stream: LogStream, start: dict[str, Any], rows: int | None = None) -> Iterator[Any]:
    """Yield the rows and the offset of each batch, to the end."""
    while True:
        limit = ReadAllAvailable() if rows is None else ReadMaxRows(rows)
        end = stream.latestOffset(start, limit)
        found = rows_of(stream, start, end)
        if not found:
            return
        yield found, end
        start = end


def offsets_of(rows: list[dict[str, Any]]) -> list[int]:
    return [row["physical_offset"] for row in rows]


@pytest.mark.parametrize("rows", [None, 1, 7, 50])
def test_stream_batches_have_each_record_once_across_segments(written: Callable[..., Path], rows: int | None) -> None:
    root = written()
    whole = offsets_of(rows_of(stream_of(root), {}, stream_of(root).latestOffset(_begin(), ReadAllAvailable())))
    assert len(set(whole)) == len(whole) == 200
    stream = stream_of(root)
    found = list(batches_of(stream, stream.initialOffset(), rows))
    assert [place for batch, _ in found for place in offsets_of(batch)] == whole
    assert all(len(batch) <= (rows or 200) for batch, _ in found)
    assert len(list((root / "commitlog").iterdir())) > 3


def test_a_stream_batch_can_be_read_again_from_its_offset_alone(written: Callable[..., Path]) -> None:
    root = written()
    stream = stream_of(root)
    (first, end), (second, last), *_ = batches_of(stream, stream.initialOffset(), 60)
    assert rows_of(stream_of(root), {}, end) == first
    assert rows_of(stream_of(root), end, last) == second


def test_a_stream_batch_has_at_most_maxRows_rows(written: Callable[..., Path]) -> None:  # noqa: N802
    root = written(20)
    assert stream_of(root, maxRows="7").getDefaultReadLimit() == ReadMaxRows(7)
    assert isinstance(stream_of(root).getDefaultReadLimit(), ReadAllAvailable)


def test_a_partial_record_is_left_for_a_later_batch(written: Callable[..., Path]) -> None:
    root = written(10)
    stream = stream_of(root)
    (rows, _), *_ = batches_of(stream, stream.initialOffset())
    last = rows[-1]
    segment = root / "commitlog" / f"{0:020}"
    whole = segment.read_bytes()
    for missing in (1, 20, last["size"] - 1):
        torn = bytearray(whole)
        end = last["position"] + last["size"]
        torn[end - missing : end] = bytes(missing)
        segment.write_bytes(torn)
        assert (
            offsets_of(rows_of(stream, {}, stream.latestOffset(_begin(), ReadAllAvailable()))) == offsets_of(rows)[:-1]
        )
    before = stream.latestOffset(_begin(), ReadAllAvailable())
    segment.write_bytes(whole)
    assert offsets_of(rows_of(stream, before, stream.latestOffset(before, ReadAllAvailable()))) == [
        last["physical_offset"]
    ]


@pytest.mark.parametrize("cut", [1, 30])
def test_after_a_truncation_the_new_records_appear_once(
    written: Callable[..., Path], opened: Callable[[Path], MessageStore], put: Callable[..., None], cut: int
) -> None:
    root = written(60)
    stream = stream_of(root)
    ((rows, end),) = batches_of(stream, stream.initialOffset())
    _truncate_log(root, rows[-cut])
    recovered = opened(root)
    put(recovered, range(100, 120), body_bytes=80)
    recovered.shutdown()
    later = [row for batch, _ in batches_of(stream_of(root), end) for row in batch]
    table = rows_of(stream, {}, stream_of(root).latestOffset(_begin(), ReadAllAvailable()))
    assert rows[:-cut] + later == table
    assert len(later) == 20


def test_a_truncated_log_without_new_records_gives_no_rows(written: Callable[..., Path]) -> None:
    root = written(30)
    stream = stream_of(root)
    ((rows, end),) = batches_of(stream, stream.initialOffset())
    _truncate_log(root, rows[-3])
    after = stream.latestOffset(end, ReadAllAvailable())
    assert after["to"] == rows[-3]["physical_offset"]
    assert rows_of(stream, end, after) == []
    assert list(stream.read(InputPartition(None))) == []


def test_a_truncation_before_all_known_records_ends_the_stream(written: Callable[..., Path]) -> None:
    root = written(KNOWN_MAX + 100)
    stream = stream_of(root)
    ((rows, end),) = batches_of(stream, stream.initialOffset())
    _truncate_log(root, rows[20])
    with pytest.raises(LogCutError, match="upTo=durable"):
        stream.latestOffset(end, ReadAllAvailable())


def test_records_removed_before_they_were_read_end_the_stream(written: Callable[..., Path]) -> None:
    root = written()
    stream = stream_of(root)
    begin = stream.initialOffset()
    first_batch = stream.latestOffset(begin, ReadMaxRows(5))
    (root / "commitlog" / f"{0:020}").unlink()
    with pytest.raises(ExpiredError, match=f"begins at {SEGMENT_BYTES}"):
        stream.latestOffset(first_batch, ReadAllAvailable())


def test_a_stream_with_up_to_durable_reads_only_up_to_the_checkpoint(written: Callable[..., Path]) -> None:
    root = written(40)
    everything = stream_of(root).latestOffset(_begin(), ReadAllAvailable())
    rows = rows_of(stream_of(root), {}, everything)
    assert stream_of(root, upTo="durable").latestOffset(_begin(), ReadAllAvailable()) == everything
    (root / "abort").touch()  # from here on, the store has an unclean exit
    durable_ms = rows[-1]["store_timestamp_ms"]
    checkpoint = bytearray((root / "checkpoint").read_bytes())
    checkpoint[:8] = durable_ms.to_bytes(8, "big")
    (root / "checkpoint").write_bytes(checkpoint)
    durable = stream_of(root, upTo="durable").latestOffset(_begin(), ReadAllAvailable())
    wanted = [row["physical_offset"] for row in rows if row["store_timestamp_ms"] < durable_ms]
    assert offsets_of(rows_of(stream_of(root), {}, durable)) == wanted
    (root / "checkpoint").unlink()
    assert stream_of(root, upTo="durable").latestOffset(_begin(), ReadAllAvailable())["to"] == 0


def test_damage_in_a_full_segment_appears_as_a_row_and_the_stream_continues(written: Callable[..., Path]) -> None:
    root = written()
    rows = rows_of(stream_of(root), {}, stream_of(root).latestOffset(_begin(), ReadAllAvailable()))
    third = rows[2]
    with (root / "commitlog" / f"{0:020}").open("r+b") as segment:
        segment.seek(third["position"] + 4)
        segment.write(b"\0\0\0\0")
    stream = stream_of(root)
    found = [row for batch, _ in batches_of(stream, stream.initialOffset()) for row in batch]
    (odd,) = [row for row in found if row["damage"] is not None]
    assert (odd["position"], odd["damage"]["field"]) == (third["position"] + 4, "magicCode")
    assert offsets_of([row for row in found if row["damage"] is None]) == offsets_of(rows[:2] + rows[3:])


def test_without_new_records_the_stream_offset_does_not_change(written: Callable[..., Path]) -> None:
    stream = stream_of(written(20))
    ((_, end),) = batches_of(stream, stream.initialOffset())
    assert stream.latestOffset(end, ReadAllAvailable()) is end


def test_a_stream_with_available_now_ends_at_the_current_end(
    written: Callable[..., Path], opened: Callable[[Path], MessageStore], put: Callable[..., None]
) -> None:
    root = written(40)
    stream = stream_of(root)
    stream.prepareForTriggerAvailableNow()
    store = opened(root)
    put(store, range(100, 200))
    store.shutdown()
    found = [row for batch, _ in batches_of(stream, stream.initialOffset(), 15) for row in batch]
    assert len(found) == 40
    stream = stream_of(root)
    stream.prepareForTriggerAvailableNow()
    assert sum(len(batch) for batch, _ in batches_of(stream, stream.initialOffset(), 15)) == 140


@pytest.mark.parametrize("table", ["index_entries", "checkpoint", "letters"])
def test_only_messages_and_queue_entries_can_be_streamed(table: str) -> None:
    with pytest.raises(ValueError, match=f"only messages and queue_entries can be streamed, not {table}"):
        stream_of(Path("/nowhere"), table=table)


@pytest.mark.slow
def test_a_query_returns_each_surviving_message_once_despite_stops_and_kills(
    spark: SparkSession, tmp_path: Path, opened: Callable[[Path], MessageStore]
) -> None:
    root, sink, checkpoints = tmp_path / "store", str(tmp_path / "sink"), str(tmp_path / "checkpoints")
    writer = _start_writer(root)
    try:
        for restart in range(6):
            messages = spark.readStream.format("rocketmq").option("maxRows", 400).load(str(root))
            query = (
                messages.writeStream.format("parquet")
                .option("checkpointLocation", checkpoints)
                .trigger(processingTime="100 milliseconds")
                .start(sink)
            )
            seen = _rows_done(query)
            if restart == 3:
                _kill(writer)
                writer = _start_writer(root)
            _wait_for_rows(query, seen + 100)
            query.stop()
    finally:
        _kill(writer)
    opened(root).shutdown()
    messages = spark.readStream.format("rocketmq").load(str(root))
    last = messages.writeStream.format("parquet").option("checkpointLocation", checkpoints)
    last.trigger(availableNow=True).start(sink).awaitTermination()
    table = spark.read.format("rocketmq").load(str(root))
    columns = ["topic", "queue_id", "queue_offset", "physical_offset", "body"]
    streamed = spark.read.parquet(sink).select(columns)
    assert streamed.count() == table.count() > 600
    assert streamed.exceptAll(table.select(columns)).count() == 0
    assert len(list((root / "commitlog").iterdir())) > 5


@pytest.mark.slow
def test_a_query_returns_each_entry_of_two_stores_once_despite_stops_and_kills(
    spark: SparkSession, tmp_path: Path, opened: Callable[[Path], MessageStore]
) -> None:
    roots, sink, checkpoints = [tmp_path / "a", tmp_path / "b"], str(tmp_path / "sink"), str(tmp_path / "checkpoints")
    entries = spark.readStream.format("rocketmq").option("table", "queue_entries")
    writers = [_start_writer(root, pause_seconds=0.1) for root in roots]
    try:
        for named in ([roots[0]], roots, roots[::-1]):
            query = (
                entries.options(paths=json.dumps([str(root) for root in named]), maxRows=1000)
                .load()
                .writeStream.format("parquet")
                .option("checkpointLocation", checkpoints)
                .trigger(processingTime="100 milliseconds")
                .start(sink)
            )
            _wait_for_rows(query, 100)
            _kill(writers[1])
            writers[1] = _start_writer(roots[1], pause_seconds=0.1)
            _wait_for_rows(query, _rows_done(query) + 100)
            query.stop()
    finally:
        for writer in writers:
            _kill(writer)
    for root in roots:
        opened(root).shutdown()
    everything = entries.options(paths=json.dumps([str(root) for root in roots]), maxRows=1_000_000).load()
    last = everything.writeStream.format("parquet").option("checkpointLocation", checkpoints)
    last.trigger(availableNow=True).start(sink).awaitTermination()
    of_the_file = "file", "position"
    table = spark.read.format("rocketmq").option("table", "queue_entries").load([str(root) for root in roots])
    streamed = spark.read.parquet(sink).drop(*of_the_file)
    assert streamed.count() == table.count() > 500
    assert streamed.exceptAll(table.drop(*of_the_file)).count() == 0
    assert streamed.select("store").distinct().count() == 2


def _begin() -> dict[str, Any]:
    return {"from": 0, "to": 0, "known": ""}


def _truncate_log(root: Path, row: dict[str, Any]) -> None:
    """Truncate the log before a record, as after a power cut and recovery."""
    for segment in sorted((root / "commitlog").iterdir()):
        keep = max(row["physical_offset"] - int(segment.name), 0)
        if keep == 0 and int(segment.name):
            segment.unlink()
        elif keep < SEGMENT_BYTES:
            segment.write_bytes(segment.read_bytes()[:keep] + bytes(SEGMENT_BYTES - keep))


def _start_writer(root: Path, pause_seconds: float = 0.01) -> "subprocess.Popen[str]":
    conftest = str(Path(__file__).with_name("conftest.py"))
    code = _WRITER.format(conftest=conftest, root=str(root), pause_seconds=pause_seconds)
    writer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n"
    return writer


def _kill(writer: "subprocess.Popen[str]") -> None:
    writer.kill()
    writer.communicate()


def _rows_done(query: Any) -> int:
    return sum(progress["numInputRows"] for progress in query.recentProgress)


def _wait_for_rows(query: Any, rows: int) -> None:
    deadline = time.monotonic() + 60
    while _rows_done(query) < rows:
        assert query.exception() is None, query.exception()
        assert time.monotonic() < deadline, query.lastProgress
        time.sleep(0.1)


def test_a_stream_on_a_spark_without_batch_starts_is_refused_with_the_version_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
    monkeypatch.delitem(sys.modules, "tornlog.reports.pipeline.source.stream")
    with pytest.raises(ValueError, match=r"needs Spark 4\.2 or newer, this is"):
        RocketMQSource({"path": "/a"}).streamReader(StructType())
