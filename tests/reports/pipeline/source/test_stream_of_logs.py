import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tornlog.reports.pipeline.source.columns import RowConditions
from tornlog.reports.pipeline.source.known_records import LogCutError
from tornlog.reports.pipeline.source.messages import Messages
from tornlog.reports.pipeline.source.source_options import SourceOptions
from tornlog.reports.pipeline.source.stores import StoresTable
from tornlog.reports.pipeline.source.stream import ExpiredError, LogStream
from tornlog.store.message_store import MessageStore

SEGMENT_BYTES = 16 << 10
COLUMNS = "store,physical_offset,size"
Row = dict[str, Any]
Offset = dict[str, Any]


def options_of(*roots: Path, **options: str) -> SourceOptions:
    paths = json.dumps([str(root) for root in roots])
    return SourceOptions.from_spark({"paths": paths, "columns": COLUMNS, **options})


def table_of(*roots: Path) -> list[Row]:
    table, conditions = StoresTable(options_of(*roots), Messages), RowConditions()
    parts = table.partitions(conditions)
    return [row for part in parts for batch in table.batches(part, conditions) for row in batch.to_pylist()]


def batches_of(
    *roots: Path, start: Offset | None = None, stream: LogStream | None = None, **options: str
) -> Iterator[tuple[list[Row], Offset]]:
    """Yield rows and offset of each batch, each planned by a new stream from the last offset."""
    start = LogStream(options_of(*roots, **options)).initialOffset() if start is None else start
    while True:
        reader = stream or LogStream(options_of(*roots, **options))
        end = json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))
        rows = [row for part in reader.partitions(start, end) for some in reader.read(part) for row in some.to_pylist()]
        if not rows and end == start:
            return
        yield rows, end
        start = end


def rows_in(batches: list[tuple[list[Row], Offset]]) -> list[Row]:
    return [row for rows, _ in batches for row in rows]


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["store"], row["physical_offset"]))


@pytest.fixture
def stores(
    template: Path, tmp_path: Path, opened: Callable[[Path], MessageStore], put: Callable[..., None]
) -> tuple[Path, Path, Path]:
    """Return stores of 200, 30 and no messages."""
    many, few, idle = tmp_path / "many", tmp_path / "few", tmp_path / "idle"
    shutil.copytree(template, many)
    for root, messages in ((few, 30), (idle, 0)):
        store = opened(root)
        put(store, range(messages))
        store.shutdown()
    return many, few, idle


@pytest.mark.parametrize("limit", [{}, {"maxRows": "1"}, {"maxRows": "7"}, {"maxBytes": "9000"}, {"maxBytes": "1"}])
def test_stream_batches_have_each_record_of_each_log_once(stores: tuple[Path, ...], limit: dict[str, str]) -> None:
    batches = list(batches_of(*stores, **limit))
    assert in_order(rows_in(batches)) == in_order(table_of(*stores))
    assert Counter(row["store"] for row in rows_in(batches)) == {str(stores[0]): 200, str(stores[1]): 30}
    if not limit:
        assert len(batches) == 1


def test_logs_share_the_batch_limit_and_reuse_unused_shares(stores: tuple[Path, ...]) -> None:
    many, few, _ = map(str, stores)
    counts = [Counter(row["store"] for row in rows) for rows, _ in batches_of(*stores, maxRows="30")]
    assert counts == [{few: 15, many: 15}] * 2 + [{many: 30}] * 5 + [{many: 20}]
    limit_bytes = 30_000
    sizes = [sum(row["size"] for row in rows) for rows, _ in batches_of(*stores, maxBytes=str(limit_bytes))]
    assert max(sizes) <= limit_bytes
    assert all(size > limit_bytes // 2 for size in sizes[:-1])


def test_with_a_limit_below_the_number_of_logs_each_log_still_advances(stores: tuple[Path, ...]) -> None:
    many, few, _ = map(str, stores)
    (first, _), *_ = batches_of(*stores, maxRows="1")
    assert Counter(row["store"] for row in first) == {many: 1, few: 1}


def test_a_log_added_to_a_stream_is_read_from_its_beginning(stores: tuple[Path, ...]) -> None:
    many, few, idle = stores
    before = list(batches_of(few, idle))
    after = list(batches_of(idle, many, few, start=before[-1][1]))
    assert in_order(rows_in(before)) == in_order(table_of(few, idle))
    assert in_order(rows_in(after)) == in_order(table_of(many))


@pytest.mark.parametrize("again", [1, 4])
def test_a_batch_with_an_added_log_can_be_read_again_from_its_offset_alone(
    stores: tuple[Path, ...], again: int
) -> None:
    many, few, _ = stores
    *_, (_, start) = batches_of(few)
    batches = list(batches_of(many, few, start=start, maxRows="50"))
    starts = [start, *(offset for _, offset in batches)]
    rows, end = batches[again - 1]
    reader = LogStream(options_of(few, many))
    read = reader.partitions(starts[again - 1], end)
    assert [row for part in read for some in reader.read(part) for row in some.to_pylist()] == rows
    assert rows


def test_a_stream_offset_of_a_single_unnamed_log_continues_as_that_of_the_first_store(stores: tuple[Path, ...]) -> None:
    many, few, _ = stores
    alone = LogStream(SourceOptions.from_spark({"path": str(many)}))
    start = alone.latestOffset(alone.initialOffset(), ReadAllAvailable())
    assert "logs" not in start
    assert in_order(rows_in(list(batches_of(many, few, start=start)))) == in_order(table_of(few))
    with pytest.raises(LogCutError, match=f"^{few}: the log was truncated"):
        list(batches_of(few, many, start=start))


def test_a_missing_log_ends_the_stream_with_an_error_that_names_it(stores: tuple[Path, ...]) -> None:
    many, few, idle = stores
    *_, (_, start) = batches_of(many, few)
    for reader in (LogStream(options_of(many, idle)), LogStream(SourceOptions.from_spark({"path": str(many)}))):
        with pytest.raises(ValueError, match=f"^{few}: the stream has read this log before"):
            reader.latestOffset(start, ReadAllAvailable())
        with pytest.raises(ValueError, match=f"^{few}: "):
            reader.partitions(start, start)


def test_a_truncated_log_continues_independently_and_an_expired_log_is_named(
    stores: tuple[Path, ...], opened: Callable[[Path], MessageStore], put: Callable[..., None]
) -> None:
    many, few, idle = stores
    batches = list(batches_of(*stores, maxRows="40"))
    before = rows_in(batches)
    last = max(row["physical_offset"] for row in before if row["store"] == str(few))
    segment = few / "commitlog" / f"{last // SEGMENT_BYTES * SEGMENT_BYTES:020}"
    whole = segment.read_bytes()
    segment.write_bytes(whole[: last % SEGMENT_BYTES].ljust(len(whole), b"\0"))
    for root in (few, idle):
        store = opened(root)
        put(store, range(100, 110), body_bytes=80)
        store.shutdown()
    after = rows_in(list(batches_of(*stores, start=batches[-1][1])))
    lost = {"store": str(few), "physical_offset": last}
    kept = [row for row in before if (row["store"], row["physical_offset"]) != tuple(lost.values())]
    assert len(after) == 20
    assert in_order(kept + after) == in_order(table_of(*stores))
    (_, early), *_ = batches
    min((many / "commitlog").iterdir()).unlink()
    with pytest.raises(ExpiredError, match=f"^{many}: the log begins at {SEGMENT_BYTES}"):
        list(batches_of(*stores, start=early))


def test_a_stream_with_available_now_covers_every_log(
    stores: tuple[Path, ...], opened: Callable[[Path], MessageStore], put: Callable[..., None]
) -> None:
    there = in_order(table_of(*stores))
    reader = LogStream(options_of(*stores, maxRows="60"))
    reader.prepareForTriggerAvailableNow()
    for root in stores:
        store = opened(root)
        put(store, range(5))
        store.shutdown()
    assert in_order(rows_in(list(batches_of(*stores, stream=reader, maxRows="60")))) == there


def test_stream_lag_is_reported_in_total_and_for_each_log(stores: tuple[Path, ...]) -> None:
    many, few, idle = map(str, stores)
    reader = LogStream(options_of(*stores, maxRows="30"))
    nothing_planned = reader.reportLatestOffset()
    assert set(nothing_planned) == {"logs"}
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    lag = reader.reportLatestOffset()
    for store in (many, few, idle):
        assert lag["logs"][store]["lag_bytes"] == nothing_planned["logs"][store]["to"] - end["logs"][store]["to"]
    assert lag["lag_bytes"] == lag["logs"][many]["lag_bytes"] + lag["logs"][few]["lag_bytes"] > 0
    assert lag["lag_ms"] == max(lag["logs"][store]["lag_ms"] for store in (many, few))
    assert lag["logs"][idle] == {"to": 0, "lag_bytes": 0}


def test_without_new_records_in_any_log_the_stream_offset_does_not_change(stores: tuple[Path, ...]) -> None:
    reader = LogStream(options_of(*stores))
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert reader.latestOffset(end, ReadAllAvailable()) is end
    assert list(end["logs"]) == [str(root) for root in stores]
    assert reader.partitions(end, end) == []
