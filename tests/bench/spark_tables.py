"""`python -m tests.bench.spark_tables DIR`: cost of queries on Spark's tables, and of a pipeline without tornlog.

Each round runs every query on two logs, of one segment and of several. The line through both costs separates a query's
fixed cost from the cost of a message. The counts by topic also run in a pipeline as one writes it by hand: `struct` and
numpy find the fields, pyarrow makes the columns, duckdb counts. Both use two processes. Processor time is that of all
processes. The first runs are not counted, because Java is still compiling.

DIR keeps logs of plain messages of 1 KiB with a key and a tag each, in seven topics with a queue each.
"""

import json
import os
import struct
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated, Any, NamedTuple

import numpy as np
import pyarrow as pa
import typer
from pyspark.sql import DataFrame, SparkSession

from tornlog.reports.pipeline.source.queue_array import ENTRY
from tornlog.reports.pipeline.spark.session import session
from tornlog.store.config import StoreConfig
from tornlog.store.formats.java_hash import java_hash
from tornlog.store.formats.message import BLANK_MAGIC
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import real_world

_SEGMENT_BYTES = 256 << 20
_TOPICS = 7
"""Divides the messages of a full segment, so that all queues are equally long."""
_BODY_BYTES = 898
"""A record then has 1,024 bytes, with its key and tag."""
_RECORD_BYTES = 1024
_WARMING_ROUNDS = 3
_TICKS = os.sysconf("SC_CLK_TCK")
FLOORS = {"all columns": 500_000.0, "topic": 1_400_000.0}
"""Messages per second on two quiet cores."""
RATIO_FLOOR = 1.2
_BY_HAND = ", by hand"


def write_log(directory: Path, messages: int) -> None:
    """Write a log of copies of one record; topic, key and offsets differ."""
    with TemporaryDirectory() as aside:
        store = MessageStore(real_world(), StoreConfig(aside, mapped_file_size_commit_log=1 << 20))
        store.load()
        store.start()
        body = (b"The quick brown fox jumps over the lazy dog. " * 20)[:_BODY_BYTES]
        store.put_message(Message.create("Topic0", body, queue_id=0, tags="TagA", keys="order-00000000"))
        store.shutdown()
        (segment,) = Path(aside, "commitlog").iterdir()
        raw = segment.read_bytes()
    record = np.frombuffer(raw[: int.from_bytes(raw[:4], "big")], np.uint8)
    digits = {name: raw.index(name) + len(name) for name in (b"Topic", b"order-")}
    each = (_SEGMENT_BYTES - 8) // len(record)
    (directory / "commitlog").mkdir(parents=True)
    for number, first in enumerate(range(0, messages, each)):
        count = min(each, messages - first)
        rows = np.tile(record, (count, 1))
        order = np.arange(first, first + count)
        at = number * _SEGMENT_BYTES + np.arange(count) * len(record)
        rows[:, 20:28] = (order // _TOPICS).astype(">i8").view(np.uint8).reshape(count, 8)
        rows[:, 28:36] = at.astype(">i8").view(np.uint8).reshape(count, 8)
        rows[:, digits[b"Topic"]] = ord("0") + order % _TOPICS
        for digit in range(8):
            rows[:, digits[b"order-"] + digit] = ord("0") + order // 10 ** (7 - digit) % 10
        with (directory / "commitlog" / f"{number * _SEGMENT_BYTES:020}").open("wb") as file:
            file.write(rows.data)
            if count == each:
                file.write(struct.pack(">ii", _SEGMENT_BYTES - count * len(record), BLANK_MAGIC))
            file.truncate(_SEGMENT_BYTES)
        for topic in range(_TOPICS):
            _append_entries(directory / f"consumequeue/Topic{topic}/0", at[order % _TOPICS == topic], len(record))


def _append_entries(queue: Path, offsets: "np.ndarray[Any, Any]", record_bytes: int) -> None:
    queue.mkdir(parents=True, exist_ok=True)
    entries = np.zeros(len(offsets), ENTRY)
    entries["physical_offset"], entries["size"], entries["tags_code"] = offsets, record_bytes, java_hash("TagA")
    with (queue / f"{0:020}").open("ab") as file:
        file.write(entries.tobytes())


def rows_by_hand(segment: Path, *, only_topic: bool) -> list[tuple[str, int]]:
    """Return the messages by topic of one segment, without code of tornlog."""
    import duckdb

    view = memoryview(pa.memory_map(str(segment)).read_buffer()).cast("B")
    head, starts, at = struct.Struct(">ii"), list[int](), 0
    while at + 8 <= len(view):
        size, magic = head.unpack_from(view, at)
        if not size or magic == BLANK_MAGIC:
            break
        starts.append(at)
        at += size
    places = np.array(starts, np.int64)

    def number(offsets: "np.ndarray[Any, Any]", kind: str) -> Any:
        cell = np.dtype(kind)
        cells = np.ndarray((len(view) - cell.itemsize + 1,), cell, view, strides=(1,))
        return cells[offsets].astype(cell.newbyteorder("="))

    topics_at = places + 88 + number(places + 84, ">i4")
    lengths = number(topics_at, "u1").tolist()
    begins = [begin + 1 for begin in topics_at.tolist()]
    ends = [begin + length for begin, length in zip(begins, lengths, strict=True)]
    columns: dict[str, Any] = {"topic": [str(view[b:e], "utf-8") for b, e in zip(begins, ends, strict=True)]}
    if not only_topic:
        fixed = {"size": (0, ">i4"), "body_crc": (8, ">u4"), "queue_id": (12, ">i4"), "flag": (16, ">i4")}
        fixed |= {"queue_offset": (20, ">i8"), "physical_offset": (28, ">i8"), "sys_flag": (36, ">i4")}
        fixed |= {"born_timestamp_ms": (40, ">i8"), "store_timestamp_ms": (56, ">i8"), "reconsume": (72, ">i4")}
        fixed |= {"prepared_transaction_offset": (76, ">i8")}
        columns |= {name: number(places + offset, kind) for name, (offset, kind) in fixed.items()}
        for name, offset in (("born_host", 48), ("store_host", 64)):
            raw = [view[one + offset : one + offset + 8] for one in starts]
            columns[name] = [f"{h[0]}.{h[1]}.{h[2]}.{h[3]}:{int.from_bytes(h[4:], 'big')}" for h in raw]
        columns["body"] = [bytes(view[one + 88 : top]) for one, top in zip(starts, topics_at.tolist(), strict=True)]
        sizes = number(np.array(ends), ">u2").tolist()
        texts = [str(view[e + 2 : e + 2 + size], "utf-8") for e, size in zip(ends, sizes, strict=True)]
        splits = [[one.partition("\x01") for one in text.split("\x02") if one] for text in texts]
        pairs = [[(key, value) for key, _, value in some] for some in splits]
        columns["properties"] = pa.array(pairs, pa.map_(pa.string(), pa.string()))
        columns["tags"] = [dict(some).get("TAGS") for some in pairs]
        columns["keys"] = [dict(some).get("KEYS", "").split() for some in pairs]
    messages = pa.table(columns)  # duckdb finds the table by the name of this variable
    assert messages.num_rows == len(starts)
    rows: list[tuple[str, int]] = duckdb.sql("SELECT topic, count(*) FROM messages GROUP BY topic").fetchall()
    return rows


def by_hand(pool: ProcessPoolExecutor, log: Path, *, only_topic: bool) -> int:
    """Return the number of messages in all segments."""
    segments = sorted((log / "commitlog").iterdir())
    found = pool.map(partial(rows_by_hand, only_topic=only_topic), segments)
    return sum(count for rows in found for _, count in rows)


def queries(spark: SparkSession, pool: ProcessPoolExecutor) -> dict[str, Callable[[Path], int]]:
    """Return queries by name. Each returns the number of messages that it found in a log."""

    def table(log: Path, **options: str) -> DataFrame:
        return spark.read.format("rocketmq").options(**options).load(str(log))

    def by_topic(found: DataFrame) -> int:
        return sum(row["count"] for row in found.groupBy("topic").count().collect())

    one_queue = "topic = 'Topic3' and queue_id = 0"
    return {
        "all columns": lambda log: by_topic(table(log)),
        "all columns" + _BY_HAND: partial(by_hand, pool, only_topic=False),
        "topic": lambda log: by_topic(table(log, columns="topic")),
        "topic" + _BY_HAND: partial(by_hand, pool, only_topic=True),
        "a selected column": lambda log: by_topic(table(log).select("topic")),
        "count()": lambda log: table(log).count(),
        "count(), one column": lambda log: table(log, columns="physical_offset").count(),
        "one queue": lambda log: by_topic(table(log, where=one_queue)) * _TOPICS,
    }


def cpu_ticks() -> dict[int, int]:
    """Return the processor time of this process and of its living descendants, by process id."""
    stats = {}
    for one in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = one.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # the process has ended
        stats[int(one.parent.name)] = int(fields[1]), sum(map(int, fields[11:13]))
    family, grown = {os.getpid()}, 0
    while grown < len(family):
        grown = len(family)
        family |= {pid for pid, (parent, _) in stats.items() if parent in family}
    return {pid: stats[pid][1] for pid in family}


def cpu_seconds_since(before: dict[int, int]) -> float:
    """Return the processor time since `before` of all processes that have not ended.

    Spark's daemon ignores ended workers, so no total of the system includes their time.
    """
    return sum(ticks - before.get(pid, 0) for pid, ticks in cpu_ticks().items()) / _TICKS


class Cost(NamedTuple):
    """One run of a query."""

    seconds: float
    cpu_seconds: float


def measured(query: Callable[[Path], int], log: Path, messages: int) -> Cost:
    before, began = cpu_ticks(), perf_counter()
    found = query(log)
    cost = Cost(perf_counter() - began, cpu_seconds_since(before))
    assert found == messages, (found, messages)
    return cost


class Line(NamedTuple):
    """The processor time of a query as a line over the number of messages."""

    fixed_seconds: float
    message_us: float


def line_through(fewer: int, cost: float, more: int, higher_cost: float) -> Line:
    slope = (higher_cost - cost) / (more - fewer)
    return Line(cost - slope * fewer, slope * 1e6)


def main(
    directory: Annotated[Path, typer.Argument(help="Where the logs are kept.")],
    segments: Annotated[int, typer.Option(help="Segments of the longer log, of 256 MiB each.", min=2)] = 4,
    rounds: Annotated[int, typer.Option(help="How often each query is measured.")] = 3,
    only: Annotated[str, typer.Option(help="Measure only queries whose names contain this.")] = "",
) -> None:
    """Measure queries of Spark's tables beside a pipeline of pyarrow and duckdb."""
    each = (_SEGMENT_BYTES - 8) // _RECORD_BYTES
    logs = {each * count: directory / f"{count}-segments" for count in (1, segments)}
    for messages, log in logs.items():
        if not log.exists():
            write_log(log, messages)
    with session("local[2]") as spark, ProcessPoolExecutor(2) as pool:
        chosen = {name: query for name, query in queries(spark, pool).items() if only in name}
        costs = {(name, messages): list[Cost]() for name in chosen for messages in logs}
        for number in range(-_WARMING_ROUNDS, rounds):
            for (name, messages), found in costs.items():
                if number < 0 and name.endswith(_BY_HAND):
                    continue  # nothing is compiled
                cost = measured(chosen[name], logs[messages], messages)
                if number >= 0:
                    found.append(cost)
                load = os.getloadavg()[0]
                print(
                    f"{name:24} {messages:10,} {cost.seconds:8.2f} s {cost.cpu_seconds:8.2f} s of CPU  load {load:.1f}"
                )
    print(json.dumps({"load_average": os.getloadavg()[0], **_figures(costs, *logs)}, indent=1))


def _figures(costs: dict[tuple[str, int], list[Cost]], fewer: int, more: int) -> dict[str, dict[str, float]]:
    figures = {}
    for name in dict.fromkeys(name for name, _ in costs):
        few, many = (costs[name, messages] for messages in (fewer, more))
        cpu_seconds = median(one.cpu_seconds for one in many)
        line = line_through(fewer, median(one.cpu_seconds for one in few), more, cpu_seconds)
        figures[name] = {
            "messages_per_second": more / median(one.seconds for one in many),
            "cpu_us": cpu_seconds / more * 1e6,
            **line._asdict(),
        }
        hand = costs.get((name + _BY_HAND, more))
        if name in FLOORS and hand:
            figures[name] |= {
                "floor": FLOORS[name],
                "times_by_hand": median(other.seconds / one.seconds for one, other in zip(many, hand, strict=True)),
                "times_less_cpu": median(
                    other.cpu_seconds / one.cpu_seconds for one, other in zip(many, hand, strict=True)
                ),
                "ratio_floor": RATIO_FLOOR,
            }
    return figures


if __name__ == "__main__":
    typer.run(main)
