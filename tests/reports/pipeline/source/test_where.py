import sys
from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceReader, EqualTo, Filter, GreaterThan, In, IsNotNull, LessThanOrEqual, Not
from pyspark.sql.types import StructType

from tornlog.reports.pipeline.source.advice import PUSHDOWN_WORKER, advice
from tornlog.reports.pipeline.source.columns import conditions_of
from tornlog.reports.pipeline.source.rocketmq import RocketMQSource
from tornlog.reports.pipeline.source.source_options import SourceOptions
from tornlog.reports.pipeline.source.stream import LogStream

COLUMNS = ("topic", "queue_id", "queue_offset", "store")
ROW = {"topic": "T1", "queue_id": 2, "queue_offset": 40, "store": "/a/b"}


def selects(text: str, row: Mapping[str, Any] = ROW) -> bool:
    conditions = conditions_of(text, COLUMNS)
    return all(conditions.allow(name, value) for name, value in row.items())


@pytest.mark.parametrize(
    ("text", "is_chosen"),
    [
        ("", True),
        ("topic = 'T1'", True),
        ('`topic` = "T1"', True),
        ("topic = 't1'", False),
        ("topic in ('T0', 'T1') AND queue_id IN (2)", True),
        ("(topic = 'T1' and (queue_id > 1)) and queue_offset >= 40 and store = '/a/b'", True),
        ("queue_id < 2", False),
        ("queue_id <= 2 and queue_id > -1", True),
        ("queue_offset between 39 and 40", True),
        ("queue_offset between -3 and 39", False),
        ("topic > 'T0' and topic < 'T2'", True),
        ("queue_id = 2 and queue_id = 3", False),
    ],
)
def test_returned_rows_satisfy_all_where_comparisons(text: str, is_chosen: bool) -> None:
    assert selects(text) == is_chosen
    assert bool(conditions_of(text, COLUMNS)) == bool(text)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("topic = 'a' or topic = 'b'", "expected comparisons .* joined by AND; found topic = 'a' OR topic = 'b'"),
        ("not topic = 'a'", "expected comparisons"),
        ("topic <> 'a'", "expected comparisons"),
        ("topic like 'a%'", "expected comparisons"),
        ("topic is null", "expected comparisons"),
        ("topic = store", "expected comparisons"),
        ("7 = queue_id", "expected comparisons"),
        ("queue_id + 1 = 2", "expected comparisons"),
        ("queue_id = 1.5", "expected comparisons .*; found 1.5"),
        ("queue_id in (select 1)", "expected comparisons"),
        ("queue_id in ()", "expected comparisons"),
        ("a.topic = 'a'", "expected comparisons"),
        ("topic = 'a'; drop table b", "expected comparisons"),
        ("topic = ", "expected comparisons .*; found 'topic = '"),
        ("topic", "expected comparisons"),
        ("-- all", "expected comparisons"),
        ("body = 'a'", "expected one of queue_id, .*, topic; found body"),
        ("queue_id = '2'", "expected whole numbers for queue_id, found '2'"),
        ("queue_id in (1, '2')", "expected whole numbers for queue_id"),
        ("topic = 5", "expected text for topic, found 5"),
    ],
)
def test_an_invalid_condition_is_refused_with_an_error_that_names_it(text: str, wanted: str) -> None:
    with pytest.raises(ValueError, match=f"^where: {wanted}"):
        conditions_of(text, COLUMNS)


def test_a_condition_on_a_missing_column_is_refused() -> None:
    with pytest.raises(ValueError, match="this table has no conditions; found topic"):
        conditions_of("topic = 'a'", ())


def test_a_stream_with_where_conditions_is_refused() -> None:
    with pytest.raises(ValueError, match="where: not supported by a stream"):
        LogStream(SourceOptions.from_spark({"path": "/a", "where": "topic = 'a'"}))


@pytest.mark.parametrize(
    ("filters", "where"),
    [
        ([IsNotNull(("topic",)), EqualTo(("topic",), "T1")], "topic = 'T1'"),
        ([GreaterThan(("queue_id",), 1), In(("queue_offset",), (3, 4))], "queue_id > 1 and queue_offset in (3, 4)"),
        ([EqualTo(("store",), "/a/b"), LessThanOrEqual(("damage", "field"), "a")], "store = '/a/b'"),
        ([EqualTo(("topic",), "a'b"), EqualTo(("body",), b"a"), EqualTo(("queue_id",), True)], None),
        ([Not(EqualTo(("topic",), "T1")), In(("queue_id",), (1, None))], None),
    ],
)
def test_advice_on_filters_is_the_option_with_the_same_conditions(filters: list[Filter], where: str | None) -> None:
    found = advice(filters, SourceOptions.from_spark({"path": "/a"}), COLUMNS)
    assert (found is None) == (where is None)
    if found is not None:
        assert found.endswith(f'to read less: .option("where", "{where}")')
        assert selects(str(where), {"topic": "T1", "queue_id": 2, "queue_offset": 3, "store": "/a/b"})


def test_advice_extends_the_option_of_the_table() -> None:
    options = SourceOptions.from_spark({"path": "/a", "where": "topic = 'T1'"})
    assert "\"topic = 'T1' and queue_id = 2\"" in str(advice([EqualTo(("queue_id",), 2)], options, COLUMNS))


def test_a_reader_leaves_all_filters_to_spark_and_prints_its_advice_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = RocketMQSource({"path": "/once"})
    assert (
        type(source.reader(StructType())).pushFilters is DataSourceReader.pushFilters
    )  # else Spark refuses the reader
    monkeypatch.setitem(sys.modules, PUSHDOWN_WORKER, sys)
    filters: list[Filter] = [EqualTo(("topic",), "T1")]
    for _ in range(2):
        assert source.reader(StructType()).pushFilters(filters) == filters
    assert (
        capsys.readouterr().err.count("/once: Spark filters rows of messages after the source has read them all") == 1
    )
