import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession

from tornlog.reports.pipeline.source.named import store_table
from tornlog.reports.pipeline.source.rocketmq import COMMENTS, TABLES, RocketMQSource
from tornlog.reports.pipeline.source.source_options import SourceOptions

pytestmark = pytest.mark.ci

SLOTS = 50
ENTRIES_AT = 40 + 4 * SLOTS


@pytest.fixture
def table(spark: SparkSession) -> Callable[..., DataFrame]:
    def load(root: Path, name: str = "messages", **options: str) -> DataFrame:
        return spark.read.format("rocketmq").options(table=name, **options).load(str(root))

    return load


def test_a_store_has_four_spark_tables(table: Callable[..., DataFrame], written: Callable[..., Path]) -> None:
    root = written()
    messages = table(root)
    assert [tuple(row) for row in messages.groupBy("topic").count().orderBy("topic").collect()] == [
        ("T0", 100),
        ("T1", 100),
    ]
    raw = b"".join(path.read_bytes() for path in sorted((root / "consumequeue/T1/0").iterdir()))
    entries = table(root, "queue_entries").where("topic = 'T1' and queue_id = 0").orderBy("queue_offset").collect()
    assert [(row.physical_offset, row["size"], row.tags_code) for row in entries] == [
        struct.unpack_from(">qiq", raw, 20 * number) for number in range(50)
    ]
    assert [row.queue_offset for row in entries] == list(range(50))
    index = table(root, "index_entries").orderBy("file", "number").collect()
    assert len(index) == 67
    first = Path(index[0].file).read_bytes()
    assert (index[0].key_hash, index[0].physical_offset, index[0].time_diff_s, index[0].previous) == (
        struct.unpack_from(">iqii", first, ENTRIES_AT + 20)
    )
    (checkpoint,) = table(root, "checkpoint").collect()
    times = struct.unpack_from(">qqq", (root / "checkpoint").read_bytes())
    assert tuple(checkpoint)[1:] == (*times, None)


@pytest.mark.slow
def test_several_tasks_can_read_one_segment(table: Callable[..., DataFrame], written: Callable[..., Path]) -> None:
    split = table(written(30), splitBytes="2000")
    assert split.rdd.getNumPartitions() > 3
    assert split.count() == 30


def test_the_spark_source_applies_the_query_conditions(
    table: Callable[..., DataFrame], written: Callable[..., Path]
) -> None:
    root = written()
    some = table(root, where="topic = 'T1' and queue_offset >= 40")
    assert some.count() == 20
    assert [row.queue_offset for row in some.where("queue_id = 1").orderBy("queue_offset").collect()] == list(
        range(40, 50)
    )
    place = table(root, where="topic = 'T1' and queue_id = 0 and queue_offset in (3, 4)")
    assert place.rdd.getNumPartitions() == 2, "a task for each place that is named"
    assert sorted(row.queue_offset for row in place.collect()) == [3, 4]


@pytest.mark.parametrize("is_on", ["true", "false"])
def test_several_queries_on_one_table_are_independent_of_each_other(
    spark: SparkSession, table: Callable[..., DataFrame], written: Callable[..., Path], is_on: str
) -> None:
    setting = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(setting, is_on)
    try:
        log = table(written())
        one, other = log.where("topic = 'T1'"), log.where("topic = 'T0' and queue_id = 1")
        assert (one.count(), log.count(), other.count(), log.count()) == (100, 200, 50, 200)
        assert one.union(other).count() == 150
        assert one.join(other, "queue_offset").count() == 100
    finally:
        spark.conf.unset(setting)


def test_explain_names_path_conditions_and_bytes_of_a_named_table(
    spark: SparkSession, written: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    root = written()
    some = store_table(spark, str(root), where="topic = 'T1' and physical_offset >= 40000", columns="topic")
    some.explain()
    assert (
        f"BatchScan rocketmq messages of {root} where topic = 'T1' and physical_offset >= 40000: 0.0 of 0.1 MB,"
        " without records that queue entries exclude[topic"
    ) in capsys.readouterr().out
    assert (
        some.count()
        == spark.read.format("rocketmq").load(str(root)).where("topic = 'T1' and physical_offset >= 40000").count()
    )


@pytest.mark.slow
def test_a_key_query_returns_rows_with_that_key_among_their_keys(
    table: Callable[..., DataFrame], written: Callable[..., Path]
) -> None:
    root = written()
    expected = table(root).where("topic = 'T1' and array_contains(keys, 'k63')").collect()
    assert len(expected) == 1
    assert table(root, key="k63", hashSlots=str(SLOTS), where="topic = 'T1'").collect() == expected
    assert table(root, key="k63").collect() == expected


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"table": "checkpoint", "key": "k1"}, "key: only messages have keys, not the table checkpoint"),
        ({"table": "letters"}, "no table letters; there are messages, queue_entries"),
        ({"colums": "topic"}, "no option colums"),
        ({"columns": "bodies"}, "no column bodies in messages"),
        ({"splitBytes": "many"}, "splitbytes: expected a whole number from 0 on, found 'many'"),
        ({"maxRows": "0"}, "maxrows: expected a whole number from 1 on"),
        ({"upTo": "yesterday"}, "upto: expected whole or durable"),
        ({"delayLevels": "soon"}, "soon"),
        ({"where": "body = 'x'"}, "where: expected one of .*topic; found body"),
    ],
)
def test_an_unknown_source_option_is_refused(
    spark: SparkSession, written: Callable[..., Path], options: dict[str, str], wanted: str
) -> None:
    root = written(1)
    with pytest.raises((AnalysisException, PythonException), match=wanted):
        spark.read.format("rocketmq").options(**options).load(str(root)).collect()
    with pytest.raises(ValueError, match="no directory"):
        SourceOptions.from_spark({})


def test_a_place_without_a_store_is_an_error_and_a_store_without_messages_has_no_rows(
    table: Callable[..., DataFrame], tmp_path: Path
) -> None:
    with pytest.raises(AnalysisException, match="no store: neither a log nor a queue"):
        table(tmp_path).count()
    (tmp_path / "commitlog").mkdir()
    for name in ("messages", "queue_entries", "index_entries", "checkpoint"):
        assert table(tmp_path, name).count() == 0
    with pytest.raises(AnalysisException, match="nowhere: no such directory"):
        table(tmp_path / "nowhere").count()


@pytest.mark.slow
def test_damage_of_side_files_is_returned_as_rows(
    table: Callable[..., DataFrame], written: Callable[..., Path]
) -> None:
    root = written()
    (root / "checkpoint").write_bytes(bytes(7))
    queue = root / f"consumequeue/T0/1/{0:020}"
    raw = bytearray(queue.read_bytes())
    raw[40:60] = bytes(20)
    queue.write_bytes(raw + b"odd")
    last = sorted((root / "index").iterdir())[-1]
    index = bytearray(last.read_bytes())
    index[ENTRIES_AT + 20 + 16 : ENTRIES_AT + 40] = (77).to_bytes(4, "big")
    index[36:40] = (1 << 20).to_bytes(4, "big")
    last.write_bytes(index)
    (root / "index" / "20200101000000000").write_bytes(b"no index")
    (row,) = table(root, "checkpoint").collect()
    assert tuple(row.damage) == ("size", "at least 24 bytes", "7 bytes")
    assert [field for _, field in _damage(table(root, "queue_entries"))] == ["entry", "size"]
    found = _damage(table(root, "index_entries", hashSlots=str(SLOTS)))
    assert {field for _, field in found} >= {"previous", "indexCount", "size"}


def test_conditions_of_every_kind_exclude_queue_entries(
    table: Callable[..., DataFrame], written: Callable[..., Path]
) -> None:
    root = written()
    everything = [row.asDict() for row in table(root, "queue_entries").collect()]
    for condition, test in (
        ("queue_offset between 31 and 33", lambda row: 31 <= row["queue_offset"] <= 33),
        ("physical_offset < 5000", lambda row: row["physical_offset"] < 5000),
        ("tags_code in (2598902, 2598903)", lambda row: row["tags_code"] in (2598902, 2598903)),
        ("topic in ('T0', 'x') and queue_id > 0", lambda row: row["topic"] == "T0" and row["queue_id"] > 0),
    ):
        found = [row.asDict() for row in table(root, "queue_entries", where=condition).collect()]
        assert _sorted(found) == _sorted([row for row in everything if test(row)])
        assert 0 < len(found) < len(everything)


def test_the_source_is_registered_in_sessions_as_rocketmq() -> None:
    assert RocketMQSource.name() == "rocketmq"


def _damage(rows: DataFrame) -> list[tuple[int, str]]:
    found = rows.where("damage is not null").collect()
    return [(row.position, row.damage.field) for row in found]


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["topic"], row["queue_id"], row["queue_offset"]))


def test_sql_creates_a_table_and_a_view_and_dropping_the_table_keeps_the_store(
    spark: SparkSession, written: Callable[..., Path]
) -> None:
    root = written(30)
    files = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    for what in ("TABLE", "TEMPORARY VIEW"):
        options = f"path '{root}', columns 'topic,queue_offset', splitBytes '2000'"
        spark.sql(f"CREATE {what} made USING rocketmq OPTIONS ({options})")
        try:
            made = spark.sql("SELECT * FROM made WHERE topic = 'T1'")
            assert made.columns == ["topic", "queue_offset"]
            assert made.count() == 15
        finally:
            spark.sql(f"DROP {what.removeprefix('TEMPORARY ')} made")
    spark.sql(f"CREATE TABLE made USING rocketmq OPTIONS (`table` 'queue_entries') LOCATION '{root}'")
    try:
        assert spark.table("made").count() == 30
    finally:
        spark.sql("DROP TABLE made")
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == files


def test_create_table_can_select_rows(spark: SparkSession, written: Callable[..., Path]) -> None:
    options = f"path '{written(30)}', where \"topic = 'T1' and queue_id = 0\""
    for what in ("TABLE", "TEMPORARY VIEW"):
        spark.sql(f"CREATE {what} chosen USING rocketmq OPTIONS ({options})")
        try:
            rows = spark.sql("SELECT topic, queue_id, count(*) AS messages FROM chosen GROUP BY ALL").collect()
            assert [tuple(row) for row in rows] == [("T1", 0, 8)]
        finally:
            spark.sql(f"DROP {what.removeprefix('TEMPORARY ')} chosen")


def test_stores_of_several_brokers_are_one_table(spark: SparkSession, written: Callable[..., Path]) -> None:
    roots = [str(written(messages, name)) for name, messages in (("a", 30), ("b", 6))]
    both = spark.read.format("rocketmq").load(roots)
    assert {row.store: row["count"] for row in both.groupBy("store").count().collect()} == {roots[0]: 30, roots[1]: 6}
    assert both.where(both.store == roots[1]).count() == 6
    chosen = spark.read.format("rocketmq").option("where", f"store = '{roots[1]}' and queue_id = 0").load(roots)
    assert {(row.store, row.queue_id) for row in chosen.collect()} == {(roots[1], 0)}
    spark.sql(f"CREATE TABLE made USING rocketmq OPTIONS (paths '{json.dumps(roots)}', `table` 'queue_entries')")
    try:
        rows = spark.sql("SELECT store, count(*) AS entries FROM made WHERE topic = 'T1' GROUP BY store").collect()
        assert {row.store: row.entries for row in rows} == {roots[0]: 15, roots[1]: 3}
    finally:
        spark.sql("DROP TABLE made")


def test_create_table_without_a_path_or_with_an_unknown_option_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="no option colums"):
        spark.sql(f"CREATE TABLE made USING rocketmq OPTIONS (path '{tmp_path}', colums 'topic')")


@pytest.mark.parametrize("name", TABLES)
def test_every_table_column_has_a_comment(table: Callable[..., DataFrame], tmp_path: Path, name: str) -> None:
    derived = ["tags_code", "key_hashes", "light_places"] if name == "messages" else []
    derived.append("store")
    columns = [*table(tmp_path, name).columns, *derived]
    assert set(columns) == set(COMMENTS[name]), "and no comment is without its column"
    shown = table(tmp_path, name, columns=",".join(columns))
    assert {field.name: field.metadata.get("comment") for field in shown.schema} == {
        column: COMMENTS[name][column] for column in shown.columns
    }
    assert [row.comment for row in _described(shown)] == [COMMENTS[name][column] for column in shown.columns]


def _described(shown: DataFrame) -> list[Any]:
    shown.createOrReplaceTempView("shown")
    return shown.sparkSession.sql("DESCRIBE shown").collect()


def test_times_are_timestamps_with_millisecond_precision(
    spark: SparkSession, table: Callable[..., DataFrame], written: Callable[..., Path]
) -> None:
    root = written(30)
    segment = min((root / "commitlog").iterdir())
    raw = bytearray(segment.read_bytes())
    raw[56:64] = (1 << 62).to_bytes(8, "big")  # the first record's store time, which no checksum covers
    segment.write_bytes(raw)
    times = table(root, columns="physical_offset,born_timestamp_ms,born_time,store_timestamp_ms,store_time")
    assert [field.dataType.typeName() for field in times.schema if field.name.endswith("_time")] == ["timestamp"] * 2
    rows = times.selectExpr("*", "unix_micros(born_time) as born", "unix_micros(store_time) as stored")
    first, *others = rows.orderBy("physical_offset").collect()
    assert (first.store_timestamp_ms, first.store_time) == (1 << 62, None)
    assert len(others) == 29
    for row in others:
        assert (row.born, row.stored) == (1000 * row.born_timestamp_ms, 1000 * row.store_timestamp_ms)
    latest = max(row.store_time for row in others)
    assert times.where(times.store_time >= latest).count() == sum(row.store_time == latest for row in others)
