import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from operator import eq, gt, le
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from tornlog.reports.pipeline.source import directory as directories
from tornlog.reports.pipeline.source.columns import Condition, RowConditions, is_in
from tornlog.reports.pipeline.source.directory import StoreDirectory
from tornlog.reports.pipeline.source.messages import Messages
from tornlog.reports.pipeline.source.source_options import SourceOptions
from tornlog.store.formats.message import BLANK_MAGIC, decode_record
from tornlog.store.formats.messages import Message
from tornlog.store.formats.properties import decode_properties

DERIVED = "physical_offset,tags_code,key_hashes,light_places"


def rows_of(root: Path, *filters: Condition, **options: str) -> list[dict[str, Any]]:
    chosen = SourceOptions.from_spark({"path": str(root), **options})
    table, directory = Messages(chosen), StoreDirectory(chosen.path, chosen.commit_log)
    conditions = RowConditions(filters)
    parts = table.partitions(directory, conditions)
    return [
        dict(row, properties=dict(row["properties"] or ())) if "properties" in row else row
        for part in parts
        for batch in table.batches(directory, part, conditions)
        for row in batch.to_pylist()
    ]


def overwrite_in_log(root: Path, position: int, raw: bytes, segment: int = 0) -> None:
    with (root / "commitlog" / f"{segment:020}").open("r+b") as file:
        file.seek(position)
        file.write(raw)


def test_every_column_equals_the_decoded_field_of_the_record(written: Callable[..., Path]) -> None:
    root = written()
    rows = rows_of(root)
    assert len(rows) == 200
    for row in rows:
        record = decode_record(Path(row["file"]).read_bytes(), row["position"], file=row["file"])
        assert row == {
            "file": row["file"],
            "position": row["position"],
            "physical_offset": record.physical_offset,
            "size": record.size_bytes,
            "topic": record.topic,
            "queue_id": record.queue_id,
            "queue_offset": record.queue_offset,
            "sys_flag": record.sys_flag,
            "flag": record.flag,
            "born_timestamp_ms": record.born_timestamp_ms,
            "born_host": str(record.born_host),
            "store_timestamp_ms": record.store_timestamp_ms,
            "born_time": datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=record.born_timestamp_ms),
            "store_time": datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=record.store_timestamp_ms),
            "store_host": str(record.store_host),
            "reconsume_times": record.reconsume_times,
            "prepared_transaction_offset": record.prepared_transaction_offset,
            "body_crc": record.body_crc,
            "properties": decode_properties(record.properties),
            "tags": decode_properties(record.properties)["TAGS"],
            "keys": None
            if "KEYS" not in decode_properties(record.properties)
            else [f"k{row['body'].decode().split('|')[0]}"],
            "body": record.body,
            "is_proven": True,
            "damage": None,
        }


@pytest.mark.parametrize("split_bytes", [0, pytest.param(1, marks=pytest.mark.slow), 999, 5_000])
def test_ranges_of_any_size_return_each_record_once(written: Callable[..., Path], split_bytes: int) -> None:
    root = written()
    assert rows_of(root, splitBytes=str(split_bytes)) == rows_of(root)


@pytest.mark.ci
def test_a_body_that_contains_a_valid_record_starts_no_range(
    tmp_path: Path, opened: Callable[[Path], Any], put: Callable[..., None]
) -> None:
    plain = opened(tmp_path / "plain")
    put(plain, range(2))
    plain.shutdown()
    first = rows_of(tmp_path / "plain")[0]
    raw = Path(first["file"]).read_bytes()[: first["size"]]
    store = opened(tmp_path / "store")
    for number in range(3):
        at = store.max_phy_offset + 88  # where the body will lie
        forged = raw[:28] + at.to_bytes(8, "big") + raw[36:]
        assert store.put_message(Message.create("T", forged, tags=str(number))).status.name == "PUT_OK"
    store.shutdown()
    for split_bytes in (1, 100, 0):
        rows = rows_of(tmp_path / "store", splitBytes=str(split_bytes))
        assert [row["topic"] for row in rows] == ["T"] * 3


@pytest.mark.parametrize(
    "filters",
    [
        [Condition("topic", eq, "T1")],
        [Condition("topic", eq, "T1"), Condition("queue_id", eq, 0)],
        [Condition("physical_offset", gt, 30_000)],
        [Condition("queue_offset", le, 7), Condition("topic", is_in, ("T0", "nobody"))],
        [Condition("physical_offset", eq, 0)],
        [Condition("size", is_in, ())],
    ],
)
def test_query_conditions_select_the_matching_rows(written: Callable[..., Path], filters: list[Any]) -> None:
    root = written()
    wanted = [
        row
        for row in rows_of(root)
        if all(
            row[one.column] in one.value if one.compare is is_in else one.compare(row[one.column], one.value)
            for one in filters
        )
    ]
    assert rows_of(root, *filters) == wanted


def test_ranges_that_the_query_conditions_exclude_are_not_read(written: Callable[..., Path]) -> None:
    root = written()
    options = SourceOptions.from_spark({"path": str(root)})
    table, directory = Messages(options), StoreDirectory(str(root))
    condition = Condition("physical_offset", gt, 20_000)
    everything = table.partitions(directory, RowConditions())
    some = table.partitions(directory, RowConditions([condition]))
    first, *others = list(everything)[1:]
    assert list(some) == [replace(first, start=20_001 - first.segment.base_offset), *others]
    assert rows_of(root, Condition("physical_offset", gt, 20_000)) == [
        row for row in rows_of(root) if row["physical_offset"] > 20_000
    ]


def test_columns_can_be_selected_and_derived_columns_only_by_name(written: Callable[..., Path]) -> None:
    root = written(7)
    assert list(rows_of(root, columns="topic, body")[0]) == ["topic", "body"]
    assert "body" not in rows_of(root, body="false")[0]
    rows = rows_of(root, columns=DERIVED)
    assert [len(row["key_hashes"]) for row in rows] == [1, 0, 0, 1, 0, 0, 1]
    assert all(row["tags_code"] for row in rows)
    assert all(row["light_places"] == [] for row in rows)
    with pytest.raises(ValueError, match="no column bodies in messages; there are file"):
        rows_of(root, columns="bodies")


def test_a_record_with_a_corrupt_body_is_a_row_with_damage(written: Callable[..., Path]) -> None:
    root = written()
    before = rows_of(root)
    overwrite_in_log(root, before[5]["position"] + 100, b"\xff")
    after = rows_of(root)
    assert after[5]["damage"]["field"] == "bodyCRC"
    assert (after[5]["topic"], after[5]["is_proven"]) == (before[5]["topic"], True)
    assert after[:5] + after[6:] == before[:5] + before[6:]


def test_a_topic_length_with_the_highest_bit_set_is_damage(written: Callable[..., Path]) -> None:
    root = written()
    before = rows_of(root)
    length_at = before[5]["position"] + 88 + len(before[5]["body"])
    overwrite_in_log(
        root, length_at - 1, b"\xc9\xc9"
    )  # the body's last byte, so that it is read again without its checksum
    after = rows_of(root)
    assert [row["damage"]["field"] for row in after if row["damage"]] == ["bodyCRC"]
    assert [row for row in after if not row["damage"]] == before[:5] + before[6:]


@pytest.mark.parametrize("has_queues", [True, False])
def test_records_after_a_corrupt_header_are_found_and_confirmed_by_their_queues(
    written: Callable[..., Path], *, has_queues: bool
) -> None:
    root = written()
    before = rows_of(root)
    overwrite_in_log(root, before[5]["position"], b"\0\1")
    if not has_queues:
        shutil.rmtree(root / "consumequeue")
    for split_bytes in ("0", "700", "4000"):
        after = rows_of(root, splitBytes=split_bytes)
        (odd,) = [row for row in after if row["damage"]]
        assert odd["position"] == before[5]["position"]
        assert odd["damage"]["field"] == "totalSize"
        assert odd["damage"]["expected"].startswith("91 to ")
        sound = [row for row in after if not row["damage"]]
        assert [row["physical_offset"] for row in sound] == [row["physical_offset"] for row in before[:5] + before[6:]]
        unproven = [row["physical_offset"] for row in after if row["is_proven"] is False]
        in_segment = [row["physical_offset"] for row in before[6:] if row["file"] == before[5]["file"]]
        assert unproven == ([] if has_queues else in_segment)


def test_zeros_are_damage_inside_the_log_but_not_at_its_end(written: Callable[..., Path]) -> None:
    root = written()
    before = rows_of(root)
    assert [row["damage"] for row in before] == [None] * 200
    first = [row for row in before if row["file"] == before[0]["file"]]
    overwrite_in_log(root, first[-3]["position"], bytes(16_384 - first[-3]["position"]))
    (odd,) = [row for row in rows_of(root) if row["damage"]]
    assert (odd["position"], odd["damage"]) == (
        first[-3]["position"],
        {"field": "magicCode", "expected": "a record or a blank one", "found": "zeros"},
    )


def test_a_blank_record_that_does_not_fill_the_segment_hides_no_records(written: Callable[..., Path]) -> None:
    root = written()
    before = rows_of(root)
    overwrite_in_log(root, before[5]["position"] + 4, BLANK_MAGIC.to_bytes(4, "big", signed=True))
    for split_bytes in ("0", "300", "4000"):
        after = rows_of(root, splitBytes=split_bytes)
        (odd,) = [row for row in after if row["damage"]]
        left = 16_384 - before[5]["position"]
        expected, found = f"{left}, the rest of the segment", str(before[5]["size"])
        reason = {"field": "totalSize", "expected": expected, "found": found}
        assert (odd["position"], odd["damage"]) == (before[5]["position"], reason)
        sound = [row["physical_offset"] for row in after if not row["damage"]]
        assert sound == [row["physical_offset"] for row in before[:5] + before[6:]]


@pytest.mark.parametrize("window_bytes", [100, 4096, 10_000])
def test_remote_files_are_read_in_windows(
    written: Callable[..., Path], window_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = written()
    before = rows_of(root)
    overwrite_in_log(root, before[30]["position"], b"\0\1")
    overwrite_in_log(root, before[40]["position"] + 100, b"\xff")
    mapped = rows_of(root)
    system = fs.SubTreeFileSystem("/", fs.LocalFileSystem())
    monkeypatch.setattr(directories, "open_place", lambda place: (system, place))
    monkeypatch.setattr("tornlog.reports.pipeline.source.records.WINDOW_BYTES", window_bytes)
    for split_bytes in ("0", "3000"):
        read = rows_of(root, splitBytes=split_bytes)
        assert [row | {"file": ""} for row in read] == [row | {"file": ""} for row in mapped]
