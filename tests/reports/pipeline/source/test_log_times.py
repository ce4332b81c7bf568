import shutil
from collections.abc import Callable
from operator import ge, lt
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tornlog.reports.pipeline.source.columns import Condition, RowConditions
from tornlog.reports.pipeline.source.directory import StoreDirectory
from tornlog.reports.pipeline.source.messages import Messages
from tornlog.reports.pipeline.source.source_options import SourceOptions
from tornlog.store.config import StoreConfig
from tornlog.store.formats.message import MESSAGE_MAGIC
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import real_world

SEGMENT_BYTES = 64 << 10
MESSAGES = 1500
FIRST_MS, STEP_MS, BACK_MS = 1_800_000_000_000, 10, 3_000
LAST_MS = FIRST_MS + MESSAGES * STEP_MS
STORED_AT = 56


def set_store_times(root: Path, *, back_at: int) -> None:
    """Give records ascending times, except for one step back."""
    number = 0
    for path in sorted((root / "commitlog").iterdir()):
        raw, at = bytearray(path.read_bytes()), 0
        while int.from_bytes(raw[at + 4 : at + 8], "big") == MESSAGE_MAGIC & 0xFFFFFFFF:
            stored_ms = FIRST_MS + number * STEP_MS - (BACK_MS if number >= back_at else 0)
            raw[at + STORED_AT : at + STORED_AT + 8] = stored_ms.to_bytes(8, "big")
            at += int.from_bytes(raw[at : at + 4], "big")
            number += 1
        path.write_bytes(raw)
    assert number == MESSAGES


def store_at(root: Path, segment_bytes: int = SEGMENT_BYTES, *, back_at: int = MESSAGES) -> Path:
    store = MessageStore(real_world(), StoreConfig(str(root), mapped_file_size_commit_log=segment_bytes))
    store.load()
    store.start()
    for number in range(MESSAGES):
        store.put_message(Message.create(f"T{number % 3}", b"x" * (number % 400), queue_id=number % 2))
    store.shutdown()
    set_store_times(root, back_at=back_at)
    return root


@pytest.fixture(scope="module")
def rising(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store_at(tmp_path_factory.mktemp("rising") / "store")


@pytest.fixture(scope="module")
def stepped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store_at(tmp_path_factory.mktemp("stepped") / "store", back_at=700)


def offsets(directory: StoreDirectory, low_ms: int, high_ms: int, **options: str) -> list[int]:
    """Return the offsets of the records stored between two times, the last one excluded."""
    table = Messages(SourceOptions.from_spark({"path": directory.root, "columns": "physical_offset", **options}))
    time = "store_timestamp_ms"
    conditions = RowConditions([Condition(time, ge, low_ms), Condition(time, lt, high_ms)])
    return [
        row["physical_offset"]
        for part in table.partitions(directory, conditions)
        for batch in table.batches(directory, part, conditions)
        for row in batch.to_pylist()
    ]


times = st.integers(FIRST_MS - 5_000, LAST_MS + 5_000)


@pytest.mark.parametrize("is_local", [True, False])
@given(low_ms=times, high_ms=times, split_bytes=st.sampled_from(["0", "20000"]))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_time_range_query_returns_the_rows_of_the_log(
    rising: Path,
    stepped: Path,
    opened_directory: Callable[..., StoreDirectory],
    is_local: bool,
    low_ms: int,
    high_ms: int,
    split_bytes: str,
) -> None:
    for root, out_of_order_ms in ((rising, 0), (stepped, BACK_MS)):
        directory = opened_directory(root, is_local=is_local)
        wanted = offsets(directory, low_ms, high_ms)
        options = {"outOfOrderMs": str(out_of_order_ms), "splitBytes": split_bytes}
        assert offsets(directory, low_ms, high_ms, **options) == wanted


@pytest.mark.parametrize("length", [1, 40])
def test_a_time_range_query_misses_no_record_around_a_backward_clock_step(stepped: Path, length: int) -> None:
    directory = StoreDirectory(str(stepped))
    for number in range(300, 800, 10):
        between = FIRST_MS + number * STEP_MS, FIRST_MS + (number + length) * STEP_MS
        wanted = offsets(directory, *between)
        assert len(wanted) >= length
        assert offsets(directory, *between, outOfOrderMs=str(BACK_MS)) == wanted


def test_a_time_range_query_misses_rows_if_out_of_order_ms_is_too_small(stepped: Path) -> None:
    directory = StoreDirectory(str(stepped))
    around = FIRST_MS + 700 * STEP_MS - 500, FIRST_MS + 700 * STEP_MS

    wanted = offsets(directory, *around)

    assert len(wanted) == 100  # the clock passes this half second twice
    assert offsets(directory, *around, outOfOrderMs=str(BACK_MS)) == wanted
    assert offsets(directory, *around, outOfOrderMs="0") != wanted


@pytest.mark.parametrize("harm", ["queues gone", "first records gone", "a segment gone", "a record gone"])
def test_segments_that_cannot_be_searched_by_time_are_read_completely(rising: Path, tmp_path: Path, harm: str) -> None:
    root = tmp_path / "store"
    shutil.copytree(rising, root)
    segments = sorted((root / "commitlog").iterdir())
    if harm == "queues gone":
        shutil.rmtree(root / "consumequeue")
    elif harm == "a segment gone":
        segments[3].unlink()
    else:
        for segment in segments[2:5]:
            raw = bytearray(segment.read_bytes())
            at = 0 if harm == "first records gone" else raw.index(b"T1", len(raw) // 2)
            raw[at : at + 8] = bytes(8)
            segment.write_bytes(raw)
    directory = StoreDirectory(str(root))

    for begin in range(0, MESSAGES, 50):
        between = FIRST_MS + begin * STEP_MS, FIRST_MS + (begin + 60) * STEP_MS
        assert offsets(directory, *between, outOfOrderMs="0") == offsets(directory, *between)


@pytest.mark.parametrize(("segment_bytes", "times_less"), [(SEGMENT_BYTES, 3), (64 << 20, 25)])
def test_a_short_time_range_reads_few_bytes(
    tmp_path: Path, counting_directory: Callable[[str], Any], segment_bytes: int, times_less: int
) -> None:
    root = store_at(tmp_path / "store", segment_bytes)
    for begin in (10, 500, 1000):
        between = FIRST_MS + begin * STEP_MS, FIRST_MS + (begin + 10) * STEP_MS
        read = []
        for options in ({}, {"outOfOrderMs": "0"}):
            directory = counting_directory(str(root))
            assert len(offsets(directory, *between, useQueues="false", **options)) == 10
            read.append(directory.read_bytes)
        assert read[1] < read[0] / times_less, begin


@pytest.mark.parametrize(
    ("options", "why"),
    [({"outOfOrderMs": "-1"}, "outoforderms"), ({"outOfOrderMs": "1", "table": "checkpoint"}, "times")],
)
def test_an_invalid_value_of_out_of_order_ms_is_refused(options: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        SourceOptions.from_spark({"path": "/store", **options})
