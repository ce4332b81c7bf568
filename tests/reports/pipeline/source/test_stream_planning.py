import json
import shutil
from base64 import b64encode
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isal.isal_zlib import crc32
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from tornlog.reports.pipeline.source.columns import RowConditions
from tornlog.reports.pipeline.source.directory import StoreDirectory
from tornlog.reports.pipeline.source.known_records import KNOWN_MAX, LogCutError
from tornlog.reports.pipeline.source.messages import Messages
from tornlog.reports.pipeline.source.source_options import SourceOptions
from tornlog.reports.pipeline.source.stream import LogStream
from tornlog.store.message_store import MessageStore

SEGMENT_BYTES = 16 << 10
MESSAGES = 200
RECORD_HEAD_BYTES = 88
STORE_TIME_AT = 56
COLUMNS = "physical_offset,size,position,damage"
Row = dict[str, Any]


def stream_of(root: Path, **options: str) -> LogStream:
    return LogStream(
        SourceOptions.from_spark({"path": str(root), "columns": "physical_offset,size,position,damage", **options})
    )


def table_of(root: Path) -> list[Row]:
    table = Messages(SourceOptions.from_spark({"path": str(root), "columns": COLUMNS}))
    directory, conditions = StoreDirectory(str(root)), RowConditions()
    parts = table.partitions(directory, conditions)
    return [row for part in parts for batch in table.batches(directory, part, conditions) for row in batch.to_pylist()]


def batches_of(
    root: Path, start: dict[str, Any] | None = None, limit: ReadLimit | None = None, **options: str
) -> list[tuple[list[Row], dict[str, Any]]]:
    """Return rows and offset of each batch, each planned by a new stream from the last offset."""
    found = []
    start = stream_of(root).initialOffset() if start is None else start
    while True:
        stream = stream_of(root, **options)
        end = json.loads(json.dumps(stream.latestOffset(start, limit or stream.getDefaultReadLimit())))
        rows = [row for part in stream.partitions(start, end) for some in stream.read(part) for row in some.to_pylist()]
        if end["to"] == start["to"] and not rows:
            return found
        found.append((rows, end))
        start = end


def rows_in(batches: list[tuple[list[Row], dict[str, Any]]]) -> list[Row]:
    return [row for rows, _ in batches for row in rows]


@pytest.mark.parametrize("without", ["", "consumequeue"])
@pytest.mark.parametrize("size_bytes", [1, 700, 3000, SEGMENT_BYTES, SEGMENT_BYTES + 1, 40_000, 1 << 30])
def test_a_byte_limit_keeps_stream_batches_small_without_loss(
    template: Path, tmp_path: Path, size_bytes: int, without: str
) -> None:
    root = tmp_path / "store"
    shutil.copytree(template, root, ignore=shutil.ignore_patterns(without or "nothing"))
    batches = batches_of(root, maxBytes=str(size_bytes))
    assert rows_in(batches) == table_of(template)
    largest = max(row["size"] for row in rows_in(batches))
    assert all(len(rows) <= 1 or sum(row["size"] for row in rows) <= size_bytes for rows, _ in batches)
    if largest < size_bytes < SEGMENT_BYTES:
        assert len(batches) < 2 * sum(row["size"] for row in rows_in(batches)) / (size_bytes - largest) + 1


def test_a_stream_batch_has_at_most_maxBytes_and_at_most_maxRows(template: Path) -> None:  # noqa: N802
    assert stream_of(template, maxBytes="7000").getDefaultReadLimit() == ReadMaxBytes(7000)
    assert stream_of(template, maxBytes="7000", maxRows="5").getDefaultReadLimit() == ReadMaxRows(5)
    batches = batches_of(template, maxBytes="7000", maxRows="5")
    assert rows_in(batches) == table_of(template)
    assert all(len(rows) <= 5 and sum(row["size"] for row in rows) <= 7000 for rows, _ in batches)
    ((rows, _),) = batches_of(template, limit=ReadAllAvailable(), maxBytes="7000", maxRows="5")
    assert len(rows) == MESSAGES


def test_planning_a_stream_batch_does_not_read_full_segments(
    written: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, counting_directory: Callable[[str], Any]
) -> None:
    root = written(4000)
    stream = stream_of(root)
    directory = counting_directory(str(root))
    monkeypatch.setattr(stream._logs[str(root)], "directory", directory)
    log_bytes = sum(one.size_bytes for one in directory.segments())
    end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    heads_bytes = 88 * len(directory.segments())
    known_bytes = 1 << 20
    assert end["to"] > log_bytes - SEGMENT_BYTES
    assert log_bytes > 1.5 * known_bytes
    assert directory.read_bytes < heads_bytes + 2 * known_bytes + 4 * SEGMENT_BYTES


def test_a_stream_offset_has_less_than_a_thousand_bytes(written: Callable[..., Path]) -> None:
    root = written(2 * KNOWN_MAX)
    *_, (_, end) = batches_of(root)
    assert len(json.dumps(end)) < 1000
    assert end["first"] < end["last"] < end["to"]


@pytest.mark.ci
@settings(max_examples=40)
@given(
    damage=st.lists(
        st.tuples(st.integers(0, 3 * SEGMENT_BYTES - 1), st.integers(1, 400), st.integers(0, 255)),
        min_size=1,
        max_size=4,
    ),
    limit=st.sampled_from([ReadAllAvailable(), ReadMaxRows(7), ReadMaxBytes(5000), ReadMaxBytes(20_000)]),
)
def test_a_stream_returns_the_rows_of_the_table_despite_damage_in_full_segments(
    template: Path, damage: list[tuple[int, int, int]], limit: ReadLimit
) -> None:
    with TemporaryDirectory() as place:
        root = Path(place) / "store"
        shutil.copytree(template, root)
        for at, size_bytes, value in damage:
            segment = root / "commitlog" / f"{at // SEGMENT_BYTES * SEGMENT_BYTES:020}"
            whole = bytearray(segment.read_bytes())
            part = slice(at % SEGMENT_BYTES, min(at % SEGMENT_BYTES + size_bytes, SEGMENT_BYTES))
            whole[part] = bytes([value]) * len(whole[part])
            segment.write_bytes(whole)
        assert rows_in(batches_of(root, limit=limit)) == table_of(root)


@pytest.mark.parametrize("kept", [*range(40, 60), MESSAGES - 1])
@pytest.mark.parametrize("rows", [None, 9])
def test_after_a_truncation_anywhere_the_new_records_appear_once(
    template: Path,
    tmp_path: Path,
    opened: Callable[[Path], MessageStore],
    put: Callable[..., None],
    kept: int,
    rows: int | None,
) -> None:
    root = tmp_path / "store"
    shutil.copytree(template, root)
    limit = ReadAllAvailable() if rows is None else ReadMaxRows(rows)
    batches = batches_of(root, limit=limit)
    before = rows_in(batches)
    truncate_log(root, before[kept]["physical_offset"])
    recovered = opened(root)
    put(recovered, range(kept, kept + 90))
    recovered.shutdown()
    after = rows_in(batches_of(root, batches[-1][1], limit=limit))
    assert before[:kept] + after == table_of(root)
    assert len(after) == 90


def test_an_ambiguous_truncation_after_a_backward_clock_step_ends_the_stream(template: Path, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(template, root)
    *_, (_, end) = batches_of(root)
    *_, row, behind = table_of(root)[:-4]
    truncate_log(root, behind["physical_offset"])
    head = head_of(root, row)
    stored_ms = int.from_bytes(head[STORE_TIME_AT : STORE_TIME_AT + 8], "big")
    mark = blake2b(head, digest_size=8).digest()[0]
    earlier = [
        head[:STORE_TIME_AT] + (stored_ms - before_ms).to_bytes(8, "big") + head[STORE_TIME_AT + 8 :]
        for before_ms in range(10_000, 14_000)
    ]
    alike = [one for one in earlier if blake2b(one, digest_size=8).digest()[0] == mark]
    other = [one for one in earlier if blake2b(one, digest_size=8).digest()[0] != mark]
    put_head(root, row, other[0])
    assert [one["physical_offset"] for one in rows_in(batches_of(root, end))] == [row["physical_offset"]]
    put_head(root, row, alike[0])
    with pytest.raises(LogCutError, match="the clock was set back"):
        batches_of(root, end)


@pytest.mark.parametrize("lost", [0, 1, 12])
def test_a_stream_continues_from_an_offset_in_the_older_format(
    template: Path, tmp_path: Path, opened: Callable[[Path], MessageStore], put: Callable[..., None], lost: int
) -> None:
    root = tmp_path / "store"
    shutil.copytree(template, root)
    rows = table_of(root)
    known = b"".join(
        row["physical_offset"].to_bytes(8, "big") + crc32(head_of(root, row)).to_bytes(4, "big") for row in rows[-100:]
    )
    to = rows[-1]["physical_offset"] + rows[-1]["size"]
    old = {"from": 0, "to": to, "known": b64encode(known).decode()}
    if lost:
        truncate_log(root, rows[-lost]["physical_offset"])
    store = opened(root)
    put(store, range(30), body_bytes=80)
    store.shutdown()
    batches = batches_of(root, old)
    assert rows[: len(rows) - lost] + rows_in(batches) == table_of(root)
    assert len(json.dumps(batches[-1][1])) < 1000


def test_an_offset_in_the_older_format_without_a_matching_record_ends_the_stream(
    template: Path, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    shutil.copytree(template, root)
    place = table_of(root)[-1]["physical_offset"]
    known = place.to_bytes(8, "big") + bytes(4)
    with pytest.raises(LogCutError, match="upTo=durable"):
        batches_of(root, {"from": 0, "to": place + 100, "known": b64encode(known).decode()})


def test_the_lag_of_a_stream_batch_is_reported(
    template: Path, tmp_path: Path, opened: Callable[[Path], MessageStore], put: Callable[..., None]
) -> None:
    root = tmp_path / "store"
    shutil.copytree(template, root)
    rows = table_of(root)
    log_end = rows[-1]["physical_offset"] + rows[-1]["size"]
    stream = stream_of(root, maxBytes="20000")
    assert stream.reportLatestOffset() == {"to": log_end}
    first = stream.latestOffset(stream.initialOffset(), ReadMaxBytes(20_000))
    times_ms = [int.from_bytes(head_of(root, row)[STORE_TIME_AT : STORE_TIME_AT + 8], "big") for row in rows]
    in_batch = [time_ms for row, time_ms in zip(rows, times_ms, strict=True) if row["physical_offset"] < first["to"]]
    lag = {"to": log_end, "lag_bytes": log_end - first["to"], "lag_ms": times_ms[-1] - in_batch[-1]}
    assert stream.reportLatestOffset() == lag
    last = stream.latestOffset(first, ReadAllAvailable())
    assert stream.reportLatestOffset() == {"to": log_end, "lag_bytes": 0, "lag_ms": 0}
    store = opened(root)
    put(store, range(50))
    store.shutdown()
    grown = table_of(root)[-1]
    lag_bytes = grown["physical_offset"] + grown["size"] - last["to"]
    assert stream.reportLatestOffset()["lag_bytes"] == lag_bytes > 50 * 300
    truncate_log(root, rows[10]["physical_offset"])
    assert stream.reportLatestOffset()["to"] == rows[10]["physical_offset"]


def test_a_directory_without_a_log_has_no_stream_lag(tmp_path: Path) -> None:
    stream = stream_of(tmp_path)
    begin = stream.initialOffset()
    assert stream.latestOffset(begin, ReadAllAvailable()) is begin
    assert stream.reportLatestOffset() == {"to": 0, "lag_bytes": 0}


def put_head(root: Path, row: Row, head: bytes) -> None:
    base_offset = row["physical_offset"] - row["position"]
    with (root / "commitlog" / f"{base_offset:020}").open("r+b") as segment:
        segment.seek(row["position"])
        segment.write(head)


def head_of(root: Path, row: Row) -> bytes:
    base_offset = row["physical_offset"] - row["position"]
    segment = (root / "commitlog" / f"{base_offset:020}").read_bytes()
    return segment[row["position"] : row["position"] + RECORD_HEAD_BYTES]


def truncate_log(root: Path, end: int) -> None:
    """Truncate the log at an offset, as after a power cut and recovery."""
    for segment in sorted((root / "commitlog").iterdir()):
        keep = max(end - int(segment.name), 0)
        if keep == 0 and int(segment.name):
            segment.unlink()
        elif keep < SEGMENT_BYTES:
            segment.write_bytes(segment.read_bytes()[:keep] + bytes(SEGMENT_BYTES - keep))
