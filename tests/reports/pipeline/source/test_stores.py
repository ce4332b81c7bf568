import json
import shutil
from operator import eq, ge
from pathlib import Path
from typing import Any

import pytest

from tornlog.reports.pipeline.source.columns import Condition, RowConditions
from tornlog.reports.pipeline.source.named import description
from tornlog.reports.pipeline.source.rocketmq import TABLES
from tornlog.reports.pipeline.source.source_options import SourceOptions
from tornlog.reports.pipeline.source.stores import StoresTable

Row = dict[str, Any]


def table_of(options: dict[str, str], name: str = "messages") -> StoresTable:
    return StoresTable(SourceOptions.from_spark({**options, "table": name}), TABLES[name])


def rows_of(table: StoresTable, *filters: Condition) -> list[Row]:
    conditions = RowConditions(filters)
    parts = table.partitions(conditions)
    return [row for part in parts for batch in table.batches(part, conditions) for row in batch.to_pylist()]


@pytest.fixture
def two(template: Path, tmp_path: Path) -> list[str]:
    """Return two stores, the second with damage."""
    roots = [tmp_path / "a", tmp_path / "b"]
    for root in roots:
        shutil.copytree(template, root)
    with min((roots[1] / "commitlog").iterdir()).open("r+b") as segment:
        segment.seek(4)
        segment.write(bytes(4))
    return [str(root) for root in roots]


@pytest.mark.parametrize("name", TABLES)
def test_each_row_has_the_path_of_its_store(two: list[str], name: str) -> None:
    both = rows_of(table_of({"paths": json.dumps(two)}, name))
    assert both == [{"store": root, **row} for root in two for row in rows_of(table_of({"path": root}, name))]
    assert {row["store"] for row in both} == set(two)


def test_the_column_store_exists_if_stores_are_listed_or_if_it_is_selected(two: list[str]) -> None:
    (one, _), both = two, json.dumps(two)
    assert table_of({"path": one}).schema.names[0] == "file"
    assert table_of({"paths": json.dumps([one])}).schema.names[:2] == ["store", "file"]
    assert table_of({"paths": both, "columns": "size"}).schema.names == ["size"]
    assert table_of({"path": one, "columns": "size,store"}).schema.names == ["store", "size"]
    assert rows_of(table_of({"path": one, "columns": "store"})) == [{"store": one}] * 200
    with pytest.raises(ValueError, match=r"no column shop in messages; there are file, .*, store$"):
        table_of({"path": one, "columns": "store,shop"})


def test_a_store_that_a_filter_excludes_is_not_read_and_damage_of_the_other_remains(two: list[str]) -> None:
    table = table_of({"paths": json.dumps(two)})
    everything = rows_of(table)
    found = rows_of(table, Condition("store", eq, two[1]))
    assert found == [row for row in everything if row["store"] == two[1]]
    assert [row for row in found if row["damage"] is not None]
    some = rows_of(table, Condition("store", eq, two[0]), Condition("queue_offset", ge, 40))
    assert some == [row for row in everything if row["store"] == two[0] and row["queue_offset"] >= 40]
    shutil.rmtree(Path(two[0]) / "commitlog")
    (Path(two[0]) / "commitlog").write_text("nothing of it can be listed")
    assert rows_of(table, Condition("store", eq, two[1])) == found


def test_the_error_for_a_missing_store_names_it(two: list[str], tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=f"^{nowhere}: no such directory"):
        rows_of(table_of({"paths": json.dumps([two[0], nowhere])}))


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"paths": "/a,/b"}, "paths: expected a list of directories in JSON, found '/a,/b'"),
        ({"paths": "[]"}, "paths: expected a list of directories"),
        ({"paths": '["/a", 7]'}, "paths: expected a list of directories"),
        ({"paths": '["/a", "/a/"]'}, "paths: expected each directory once"),
        ({"paths": '["/a"]', "path": "/b"}, "path and paths: expected one of them"),
        ({"paths": '["/a"]', "commitLog": "/b"}, "commitlog: one store's log"),
        ({}, "no directory"),
    ],
)
def test_an_invalid_list_of_stores_is_refused(options: dict[str, str], wanted: str) -> None:
    with pytest.raises(ValueError, match=wanted):
        SourceOptions.from_spark(options)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, ": 0.1 of 0.1 MB"),
        ({"where": "physical_offset < 9000"}, " where physical_offset < 9000: 0.0 of 0.1 MB"),
        ({"table": "queue_entries", "where": "topic = 'T1'"}, " where topic = 'T1': 0.0 of 0.0 MB"),
        ({"table": "checkpoint"}, ": 0.0 of 0.0 MB"),
        (
            {"where": "topic = 'T1'", "key": "k3", "hashSlots": "50"},
            " where topic = 'T1' and key = k3: 0.1 of 0.1 MB, without records that queue entries exclude and records"
            " that the index excludes",
        ),
    ],
)
def test_the_description_of_a_table_tells_conditions_and_bytes(
    template: Path, options: dict[str, str], wanted: str
) -> None:
    found = description(SourceOptions.from_spark({"path": str(template), **options}))
    assert found == f"rocketmq {options.get('table', 'messages')} of {template}{wanted}"
