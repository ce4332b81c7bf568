"""`python -m tests.bench.spark_tables DIR`: messages per second of Spark's tables, and of a pipeline without tornlog.

Each round counts the messages by topic four times: through Spark with all columns and with `topic` alone, and each time
the same with a pipeline as one writes it by hand: `struct` and numpy find the fields, pyarrow makes the columns, duckdb
counts. Both use two processes. Processor time is that of all processes. A first query of each kind is not counted.

DIR keeps a log of plain messages of 1 KiB with a key and a tag each, without queues, so a task reads a whole segment.
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
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from tornlog.reports.pipeline.spark.session import session
from tornlog.store.config import StoreConfig
from tornlog.store.formats.message import BLANK_MAGIC
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import real_world

_SEGMENT_BYTES = 256 << 20
_BODY_BYTES = 898
"""A record then has 1,024 bytes, with its key and tag."""
_TICKS = os.sysconf("SC_CLK_TCK")
FLOORS = {"all columns": 500_000.0, "topic": 1_400_000.0}
"""Messages per second on two quiet cores."""
RATIO_FLOOR = 1.2


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
        rows[:, 20:28] = order.astype(">i8").view(np.uint8).reshape(count, 8)
        rows[:, 28:36] = at.astype(">i8").view(np.uint8).reshape(count, 8)
        rows[:, digits[b"Topic"]] = ord("0") + order % 8
        for digit in range(8):
            rows[:, digits[b"order-"] + digit] = ord("0") + order // 10 ** (7 - digit) % 10
        with (directory / "commitlog" / f"{number * _SEGMENT_BYTES:020}").open("wb") as file:
            file.write(rows.data)
            if count == each:
                file.write(struct.pack(">ii", _SEGMENT_BYTES - count * len(record), BLANK_MAGIC))
            file.truncate(_SEGMENT_BYTES)


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


def by_hand(pool: ProcessPoolExecutor, directory: Path, *, only_topic: bool) -> int:
    """Return the number of messages in all segments."""
    segments = sorted((directory / "commitlog").iterdir())
    found = pool.map(partial(rows_by_hand, only_topic=only_topic), segments)
    return sum(count for rows in found for _, count in rows)


def cpu_seconds() -> float:
    """Return the processor time of this process and of all its descendants, including the ended ones."""
    stats = {}
    for one in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = one.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # the process has ended, and its parent has its time
        stats[int(one.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    family, grown = {os.getpid()}, 0
    while grown < len(family):
        grown = len(family)
        family |= {pid for pid, (parent, _) in stats.items() if parent in family}
    return sum(stats[pid][1] for pid in family) / _TICKS


def main(
    directory: Annotated[Path, typer.Argument(help="Where the log is kept.")],
    messages: Annotated[int, typer.Option(help="How many messages a new log gets.")] = 2_000_000,
    rounds: Annotated[int, typer.Option(help="How often each query is measured.")] = 3,
) -> None:
    """Measure the tables of Spark beside a pipeline of pyarrow and duckdb."""
    if not directory.exists():
        write_log(directory, messages)
    with session("local[2]") as spark, ProcessPoolExecutor(2) as pool:

        def in_spark(columns: dict[str, str]) -> int:
            table = spark.read.format("rocketmq").options(**columns).load(str(directory))
            return sum(row["count"] for row in table.groupBy("topic").count().collect())

        queries: dict[str, Callable[[], int]] = {
            "Spark, all columns": partial(in_spark, {}),
            "by hand, all columns": partial(by_hand, pool, directory, only_topic=False),
            "Spark, topic": partial(in_spark, {"columns": "topic"}),
            "by hand, topic": partial(by_hand, pool, directory, only_topic=True),
        }
        counts = {query() for query in queries.values()}
        assert len(counts) == 1, counts
        (count,) = counts
        rates, costs = ({name: list[float]() for name in queries} for _ in range(2))
        for _ in range(rounds):
            for name, query in queries.items():
                began, spent = perf_counter(), cpu_seconds()
                assert query() == count
                rates[name].append(count / (perf_counter() - began))
                costs[name].append((cpu_seconds() - spent) / count * 1e6)
                load = os.getloadavg()[0]
                print(f"{name:22} {rates[name][-1]:12,.0f}/s {costs[name][-1]:8.2f} µs of CPU  load {load:.1f}")
    figures = {
        kind: {
            "messages_per_second": median(rates[f"Spark, {kind}"]),
            "floor": floor,
            "cpu_us": median(costs[f"Spark, {kind}"]),
            "times_by_hand": median(_ratios(rates, kind)),
            "times_less_cpu": median(1 / one for one in _ratios(costs, kind)),
            "ratio_floor": RATIO_FLOOR,
        }
        for kind, floor in FLOORS.items()
    }
    print(json.dumps({"messages": count, "load_average": os.getloadavg()[0], **figures}, indent=1))


def _ratios(samples: dict[str, list[float]], kind: str) -> list[float]:
    """Return Spark's samples over those of the same round by hand."""
    pairs = zip(samples[f"Spark, {kind}"], samples[f"by hand, {kind}"], strict=True)
    return [spark / hand for spark, hand in pairs]


if __name__ == "__main__":
    typer.run(main)
