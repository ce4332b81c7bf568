import tarfile
from collections.abc import Iterator
from operator import eq, gt, lt
from pathlib import Path
from typing import Any

import pytest

from tornlog.reports.pipeline.source import index_lookup, indexed
from tornlog.reports.pipeline.source.columns import Condition, RowConditions, is_in
from tornlog.reports.pipeline.source.directory import StoreDirectory
from tornlog.reports.pipeline.source.messages import Messages
from tornlog.reports.pipeline.source.source_options import SourceOptions
from tornlog.store.formats.message import TRANSACTION_MASK, TRANSACTION_ROLLBACK

pytestmark = pytest.mark.usefixtures("always_use_queues")

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[3] / "golden"
CASES = sorted(path.parent.name for path in GOLDEN.glob("*/store.tar.gz"))
_DECIDED_BY_SPLIT = ("is_proven",)
"""A column that depends on the ranges: a range may begin at a proven record that other ranges find unproven."""


def rows_of(root: Path, *filters: Condition, **options: str) -> list[dict[str, Any]]:
    chosen = SourceOptions.from_spark({"path": str(root), **options})
    table, directory = Messages(chosen), StoreDirectory(str(root))
    conditions = RowConditions(filters)
    return [
        {name: value for name, value in row.items() if name not in _DECIDED_BY_SPLIT}
        for part in table.partitions(directory, conditions)
        for batch in table.batches(directory, part, conditions)
        for row in batch.to_pylist()
    ]


def stores_in(tmp_path: Path, name: str) -> Iterator[Path]:
    """Unpack a case; yield each store directory in it."""
    with tarfile.open(GOLDEN / name / "store.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    yield from sorted(path.parent for path in tmp_path.rglob("commitlog"))


@pytest.mark.parametrize("name", CASES)
def test_a_golden_store_has_the_same_rows_for_all_ranges_and_filters(tmp_path: Path, name: str) -> None:
    for root in stores_in(tmp_path, name):
        whole = rows_of(root, splitBytes="0")
        longest = max((path.stat().st_size for path in (root / "commitlog").iterdir()), default=0)
        for split_bytes in (longest // 37 + 1, longest // 5 + 1):
            assert rows_of(root, splitBytes=str(split_bytes)) == whole
        sound = [row for row in whole if row["topic"] is not None]
        if sound:
            one = sound[len(sound) // 2]
            topic, queue_id, place = one["topic"], one["queue_id"], one["queue_offset"]
            for name in sorted({row["topic"] for row in sound}):
                for split_bytes in (0, longest // 5 + 1):
                    found = rows_of(root, Condition("topic", eq, name), splitBytes=str(split_bytes))
                    assert found == [row for row in sound if row["topic"] == name]
            filters = (
                Condition("topic", eq, topic),
                Condition("queue_id", eq, queue_id),
                Condition("queue_offset", eq, place),
            )
            wanted = [
                row for row in sound if (row["topic"], row["queue_id"], row["queue_offset"]) == (topic, queue_id, place)
            ]
            assert rows_of(root, *filters) == wanted
            some = (
                Condition("topic", is_in, (topic, "nobody")),
                Condition("queue_offset", gt, place),
                Condition("queue_id", lt, 3),
            )
            assert rows_of(root, *some) == [
                row for row in sound if row["topic"] == topic and row["queue_offset"] > place and row["queue_id"] < 3
            ]


@pytest.mark.parametrize("name", CASES)
def test_a_key_query_of_a_golden_store_returns_the_rows_with_the_key(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexed, "SHARE_MAX", 100.0)
    for root in stores_in(tmp_path, name):
        sound = [row for row in rows_of(root) if row["topic"] is not None]
        by_key: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for row in sound:
            if row["sys_flag"] & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
                continue  # no index has these records
            unique = dict(row["properties"]).get("UNIQ_KEY")
            for key in {*(row["keys"] or ()), *([unique] if unique else ())}:
                by_key.setdefault((row["topic"], key), []).append(row)
        some = sorted(by_key)
        for topic, key in {*some[:1], *some[len(some) // 2 :][:1], *some[-1:], *some[:: len(some) // 9 + 1]}:
            for asking_bytes in (1, 1 << 20):  # lookups by slot, then by entry
                monkeypatch.setattr(index_lookup, "ASKING_BYTES", asking_bytes)
                assert rows_of(root, Condition("topic", eq, topic), key=key) == by_key[topic, key]
        assert rows_of(root, Condition("topic", is_in, tuple({row["topic"] for row in sound})), key="no such key") == []
