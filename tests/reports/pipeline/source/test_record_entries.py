import json
import re
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from tornlog.reports.pipeline.source.columns import RowConditions
from tornlog.reports.pipeline.source.queue_entries import QueueEntries
from tornlog.reports.pipeline.source.source_options import SourceOptions
from tornlog.reports.pipeline.source.stores import StoresTable
from tornlog.reports.pipeline.source.stream import LogStream
from tornlog.store.config import StoreConfig
from tornlog.store.formats.message import TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from tornlog.store.formats.messages import Message
from tornlog.store.formats.properties import encode_properties
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import real_world

GOLDEN = Path(__file__).parents[3] / "golden"
ARCHIVES = sorted(path.relative_to(GOLDEN).as_posix() for path in GOLDEN.rglob("*.tar.gz"))
TAMPERED = "14-"
"""Prefixes of the names of stores with damaged or deleted parts."""
COLUMNS = "topic,queue_id,queue_offset,physical_offset,size,tags_code,is_blank,damage"
Row = dict[str, Any]


def streamed(root: Path, limit: ReadLimit | None = None, **options: str) -> list[Row]:
    stream = LogStream(SourceOptions.from_spark({"path": str(root), **options}))
    start, rows = stream.initialOffset(), list[Row]()
    while (end := stream.latestOffset(start, limit or ReadAllAvailable())) is not start:
        rows += [
            row for part in stream.partitions(start, end) for some in stream.read(part) for row in some.to_pylist()
        ]
        start = end
    return rows


def entries_of(root: Path, limit: ReadLimit | None = None, **options: str) -> list[Row]:
    return streamed(root, limit, table="queue_entries", columns=COLUMNS, **options)


def entries_in_queue_files(root: Path, **options: str) -> list[Row]:
    """Return the rows of the table, without blank and expired entries."""
    chosen = SourceOptions.from_spark({"path": str(root), "table": "queue_entries", "columns": COLUMNS, **options})
    begin = min((int(path.name) for path in (root / "commitlog").iterdir()), default=0)
    table, conditions = StoresTable(chosen, QueueEntries), RowConditions()
    parts = table.partitions(conditions)
    rows = [row for part in parts for batch in table.batches(part, conditions) for row in batch.to_pylist()]
    return [row for row in rows if not row["is_blank"] and row["physical_offset"] >= begin]


def entries_in_log(root: Path, **options: str) -> list[Row]:
    """Return the entries expected from the messages of a stream, and damage."""
    names = "topic,queue_id,queue_offset,physical_offset,size,sys_flag,tags_code,light_places,damage"
    rows = list[Row]()
    for row in streamed(root, columns=names, **options):
        sys_flag, light = row.pop("sys_flag"), row.pop("light_places")
        if row["topic"] is None:
            rows.append({**row, "is_blank": None})
        elif sys_flag & 12 not in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK):
            rows += [{**row, **place, "is_blank": False} for place in ({}, *light)]
    return rows


def sorted_rows(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["topic"], row["queue_id"], row["queue_offset"]))


def stores_in(archive: str, place: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """Unpack an archive; yield each store directory, and the options that its files do not tell."""
    with tarfile.open(GOLDEN / archive) as opened:
        opened.extractall(place, filter="data")
    manifest = (GOLDEN / archive).with_name("manifest.json")
    config = json.loads(manifest.read_text())["config"] if manifest.exists() else {}
    levels = config.get("messageDelayLevel")
    options = {"delayLevels": levels} if levels else {}
    for root in sorted(path.parent for path in place.rglob("commitlog")):
        yield root, options


@pytest.mark.slow
@pytest.mark.parametrize("archive", [one for one in ARCHIVES if not one.startswith(TAMPERED)])
def test_entries_of_an_undamaged_golden_store_equal_its_queue_files(archive: str, tmp_path: Path) -> None:
    seen = 0
    for root, options in stores_in(archive, tmp_path):
        found = sorted_rows(entries_of(root, **options))
        assert found == sorted_rows(entries_in_queue_files(root, **options))
        seen += len(found)
    assert seen > 0


@pytest.mark.slow
@pytest.mark.parametrize("archive", [one for one in ARCHIVES if one.startswith(TAMPERED)])
def test_entries_of_a_damaged_golden_store_are_those_of_its_readable_records(archive: str, tmp_path: Path) -> None:
    for root, options in stores_in(archive, tmp_path):
        assert entries_of(root, **options) == entries_in_log(root, **options)


@pytest.fixture
def store_with_all_kinds_of_messages(tmp_path: Path) -> Path:
    """A store with light queues, transactions and delayed messages."""
    config = StoreConfig(
        str(tmp_path / "varied"),
        mapped_file_size_commit_log=16 << 10,
        mapped_file_size_consume_queue=600,
        enable_multi_dispatch=True,
        enable_lmq=True,
    )
    store = MessageStore(real_world(), config)
    store.load()
    store.start()
    for number in range(160):
        named = {"TAGS": f"Tag{number % 5}"}
        if number % 4 == 0:
            named["INNER_MULTI_DISPATCH"] = f"%LMQ%{number % 3},Other"
        if number % 10 == 3:
            named["DELAY"] = "18"
        sys_flag = (0, 0, TRANSACTION_PREPARED, 0, TRANSACTION_ROLLBACK)[number % 5]
        store.put_message(Message("T", b"x" * number, number % 2, encode_properties(named), sys_flag=sys_flag))
    assert store.shutdown()
    return tmp_path / "varied"


@pytest.mark.parametrize("limit", [ReadAllAvailable(), ReadMaxRows(9)])
def test_light_queues_have_entries_and_half_messages_have_none(
    store_with_all_kinds_of_messages: Path, limit: ReadLimit
) -> None:
    found = entries_of(store_with_all_kinds_of_messages, limit)
    assert sorted_rows(found) == sorted_rows(entries_in_queue_files(store_with_all_kinds_of_messages))
    assert found == entries_in_log(store_with_all_kinds_of_messages)
    topics = {row["topic"] for row in found}
    assert topics >= {"T", "%LMQ%0", "%LMQ%1", "%LMQ%2", "Other", "SCHEDULE_TOPIC_XXXX"}
    physical_offsets = [row["physical_offset"] for row in found]
    assert physical_offsets == sorted(physical_offsets)
    assert len(set(physical_offsets)) == 160 - 64 < len(found)


def test_streamed_tags_codes_equal_those_of_the_queue(tmp_path: Path, opened: Callable[[Path], MessageStore]) -> None:
    root = tmp_path / "store"
    store = opened(root)
    for tags in ("a", "é", "\U0001f600", "", " ", "a b || c", "x" * 300, "\x7f", "a\x7f"):
        for named in (f"TAGS\1{tags}", f"TAGS\1{tags}\2", f"TAGS\1b\2TAGS\1{tags}\2", f"TAGSX\1b\2TAGS\1{tags}", tags):
            properties = f"UNIQ_KEY\1u\2{named}"
            store.put_message(Message("T", b"body", 0, properties))
            store.put_message(Message("T", b"body", 0, f"DELAY\00118\2{properties}"))
    store.shutdown()
    found = entries_of(root)
    assert sorted_rows(found) == sorted_rows(entries_in_queue_files(root))
    assert len(found) == 90
    for segment in (root / "commitlog").iterdir():
        # Only in tags: a store time may also have this byte.
        segment.write_bytes(re.sub(rb"(?<=[\x01\x02a])\x7f", b"\xff", segment.read_bytes()))
    changed = entries_of(root)
    assert changed == entries_in_log(root)
    assert sum(before != after for before, after in zip(found, changed, strict=True)) == 8


def test_an_entry_missing_from_its_queue_is_streamed_with_the_offset_of_its_record(
    store_with_all_kinds_of_messages: Path,
) -> None:
    before = entries_of(store_with_all_kinds_of_messages)
    shutil.rmtree(store_with_all_kinds_of_messages / "consumequeue")
    assert entries_of(store_with_all_kinds_of_messages) == before
    for row in streamed(
        store_with_all_kinds_of_messages, table="queue_entries", columns="file,position,physical_offset,size"
    ):
        with Path(row["file"]).open("rb") as segment:
            segment.seek(row["position"])
            head = segment.read(36)
        assert (int.from_bytes(head[:4]), int.from_bytes(head[28:])) == (row["size"], row["physical_offset"])


def test_damage_is_streamed_with_its_offset_and_entries_report_a_corrupt_body(
    store_with_all_kinds_of_messages: Path,
) -> None:
    before = entries_of(store_with_all_kinds_of_messages)
    segment = store_with_all_kinds_of_messages / "commitlog" / f"{0:020}"
    raw = bytearray(segment.read_bytes())
    in_one_queue = [row["physical_offset"] for row in before if (row["topic"], row["queue_id"]) == ("T", 1)]
    third, fourth = in_one_queue[2:4]
    raw[third + 88] ^= 1
    raw[fourth + 4 : fourth + 8] = bytes(4)
    segment.write_bytes(raw)
    found = streamed(store_with_all_kinds_of_messages, table="queue_entries", columns=f"file,position,{COLUMNS}")
    odd = [row for row in found if row["damage"] is not None]
    assert [(row["damage"]["field"], row["topic"]) for row in odd] == [("bodyCRC", "T"), ("magicCode", None)]
    assert (odd[1]["file"], odd[1]["position"]) == (str(segment), fourth + 4)
    assert len(found) == len(before)
