import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import eq, ge, gt, le, lt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tornlog.reports.pipeline.source import dispatched
from tornlog.reports.pipeline.source.columns import Condition, RowConditions, is_in
from tornlog.reports.pipeline.source.directory import StoreDirectory
from tornlog.reports.pipeline.source.dispatched import wanted_pieces
from tornlog.reports.pipeline.source.messages import Messages
from tornlog.reports.pipeline.source.source_options import SourceOptions
from tornlog.store.config import StoreConfig
from tornlog.store.formats.message import TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import real_world

pytestmark = pytest.mark.usefixtures("always_use_queues")

SEGMENT_BYTES = 16 << 10
ENTRY = struct.Struct(">qiq")
COLUMNS = "file,position,physical_offset,size,topic,queue_id,queue_offset,sys_flag,store_timestamp_ms,body,damage"
Row = dict[str, Any]


def rows_of(directory: StoreDirectory, filters: list[Condition], **options: str) -> list[Row]:
    table = Messages(SourceOptions.from_spark({"path": directory.root, "columns": COLUMNS, **options}))
    conditions = RowConditions(filters)
    return [
        row | {"file": Path(row["file"]).name}
        for part in table.partitions(directory, conditions)
        for batch in table.batches(directory, part, conditions)
        for row in batch.to_pylist()
    ]


def filtered(rows: list[Row], filters: list[Condition]) -> list[Row]:
    return [row for row in rows if row["topic"] is not None and all(_meets(row[one.column], one) for one in filters)]


def _meets(value: Any, condition: Condition) -> bool:
    if condition.compare is is_in:
        return value in condition.value
    return bool(condition.compare(value, condition.value))


def write_store(root: Path, messages: int = 240, segment_bytes: int = SEGMENT_BYTES, body_bytes: int = 150) -> Path:
    """Write a store: two topics, one of them rare, prepared messages in the old format, a delayed one."""
    config = StoreConfig(
        str(root),
        mapped_file_size_commit_log=segment_bytes,
        mapped_file_size_consume_queue=600,
        max_hash_slot_num=50,
        max_index_num=40,
    )
    store = MessageStore(real_world(), config)
    store.load()
    store.start()
    for number in range(messages):
        topic = "Rare" if number % 20 == 7 else f"T{number % 2}"
        message = Message.create(topic, f"{number}|".encode() * (body_bytes // 4), queue_id=number // 2 % 2)
        if number % 37 == 5:
            kind = TRANSACTION_PREPARED if number % 2 else TRANSACTION_ROLLBACK
            message = replace(message, sys_flag=kind, topic="Rare")
        if number == 100:
            message = Message.create("Rare", b"later", properties={"DELAY": "3"})
        assert store.put_message(message).status.name == "PUT_OK"
    store.shutdown()
    return root


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_store(tmp_path_factory.mktemp("base") / "store")


def queue_files(root: Path) -> list[Path]:
    return sorted((root / "consumequeue").glob("*/*/*"))


def entries_of(root: Path) -> Iterator[tuple[tuple[str, int], int, int]]:
    for path in queue_files(root):
        raw = path.read_bytes()
        for offset, size, _ in ENTRY.iter_unpack(raw[: len(raw) // ENTRY.size * ENTRY.size]):
            yield (path.parts[-3], int(path.parts[-2])), offset, size


def is_hidden_by_another_queue(root: Path, row: Row) -> bool:
    """Return whether a record has no entry in its own queue, and one of another queue covers it."""
    begin, end = row["physical_offset"], row["physical_offset"] + row["size"]
    own = row["topic"], row["queue_id"]
    entries = list(entries_of(root))
    return (own, begin, row["size"]) not in entries and any(
        queue != own and offset < end and offset + size > begin for queue, offset, size in entries
    )


names = st.sampled_from(["T0", "T1", "Rare", "nobody", "SCHEDULE_TOPIC_XXXX"])
numbers = st.integers(-1, 70)
ranges = st.sampled_from([eq, gt, ge, lt, le])
topics = st.one_of(
    names.map(lambda name: Condition("topic", eq, name)),
    st.lists(names, max_size=3).map(lambda some: Condition("topic", is_in, tuple(some))),
)
others = st.one_of(
    st.builds(lambda kind, value: Condition("queue_id", kind, value), ranges, st.integers(0, 2)),
    st.builds(lambda kind, value: Condition("queue_offset", kind, value), ranges, numbers),
    st.lists(numbers, max_size=4).map(lambda some: Condition("queue_offset", is_in, tuple(some))),
    st.builds(lambda kind, value: Condition("physical_offset", kind, value), ranges, st.integers(-5, 80_000)),
    st.builds(lambda kind, value: Condition("sys_flag", kind, value), ranges, st.sampled_from([0, 4, 12])),
)
filters = st.builds(lambda topic, some: [topic, *some], topics, st.lists(others, max_size=3))
places = st.builds(
    lambda topic, queue_id, place: [
        Condition("topic", eq, topic),
        Condition("queue_id", eq, queue_id),
        Condition("queue_offset", eq, place),
    ],
    names,
    st.integers(0, 1),
    numbers,
)
damages = st.lists(
    st.tuples(
        st.sampled_from(
            ["truncated", "zeroed", "moved", "resized", "missing", "extended", "flipped", "behind", "log", "log-bytes"]
        ),
        st.integers(0, 1 << 20),
        st.integers(0, 1 << 20),
    ),
    max_size=3,
)


def damage_store(root: Path, kind: str, first: int, second: int) -> None:
    """Damage a store in one way."""
    if kind == "behind":
        for queue in {path.parent for path in queue_files(root)}:
            for path in sorted(queue.iterdir())[first % 3 :]:
                path.write_bytes(bytes(path.stat().st_size))
        return
    is_log = kind.startswith("log")
    files = sorted((root / "commitlog").iterdir()) if is_log else queue_files(root)
    if not files:
        return
    path = files[first % len(files)]
    raw = bytearray(path.read_bytes())
    if not raw:
        return
    at = second % len(raw)
    entry_at = at // ENTRY.size * ENTRY.size
    if kind == "missing":
        path.unlink()
        return
    if kind == "truncated":
        del raw[at:]
    elif kind == "extended":
        raw += b"\x07" * (second % 50)
    elif kind == "zeroed":
        raw[entry_at : entry_at + ENTRY.size] = bytes(ENTRY.size)
    elif kind in ("flipped", "log"):
        raw[at] ^= 1 << first % 8
    elif kind == "log-bytes":
        raw[at : at + 30] = bytes([first % 256]) * len(raw[at : at + 30])
    elif entry_at + ENTRY.size <= len(raw):
        offset, size, code = ENTRY.unpack_from(raw, entry_at)
        change = first % 5 * 97 - 200
        moved = (offset + change, size) if kind == "moved" else (offset, size + change)
        ENTRY.pack_into(raw, entry_at, *moved, code)
    path.write_bytes(raw)


def assert_same(root: Path, directory: StoreDirectory, wanted: list[Condition], **options: str) -> None:
    """Assert that a query returns the rows of the log, except those known to be hidden by queues."""
    everything = rows_of(directory, [], useQueues="false", **options)
    expected, found = filtered(everything, wanted), rows_of(directory, wanted, **options)
    assert [row for row in found if row not in expected] == []
    kept = iter(found)
    assert all(row in kept for row in found and [row for row in expected if row in found]), "another order"
    for row in expected:
        if row not in found:
            place = row["topic"], row["queue_id"], row["queue_offset"]
            is_second = place in [(one["topic"], one["queue_id"], one["queue_offset"]) for one in found]
            assert is_second or is_hidden_by_another_queue(root, row), row


@pytest.mark.slow
@given(filters | places, st.booleans(), st.sampled_from(["0", "3000", "9999"]))
@settings(max_examples=60)
def test_a_query_of_an_undamaged_store_returns_the_rows_of_its_log(
    base: Path,
    opened_directory: Callable[..., StoreDirectory],
    wanted: list[Condition],
    is_local: bool,
    split_bytes: str,
) -> None:
    directory = opened_directory(base, is_local=is_local)
    everything = rows_of(directory, [], useQueues="false")
    assert rows_of(directory, wanted, splitBytes=split_bytes) == filtered(everything, wanted)


@pytest.mark.slow
@given(filters | places, damages, st.booleans(), st.sampled_from(["0", "3000", "9999"]))
@settings(max_examples=120)
def test_a_query_of_a_damaged_store_returns_the_rows_of_its_log(
    base: Path,
    opened_directory: Callable[..., StoreDirectory],
    wanted: list[Condition],
    harms: list[tuple[str, int, int]],
    is_local: bool,
    split_bytes: str,
) -> None:
    with TemporaryDirectory() as place:
        root = Path(place) / "store"
        shutil.copytree(base, root)
        for one in harms:
            damage_store(root, *one)
        assert_same(root, opened_directory(root, is_local=is_local), wanted, splitBytes=split_bytes)


def test_the_queues_of_an_undamaged_store_cover_every_range(
    base: Path, opened_directory: Callable[..., StoreDirectory]
) -> None:
    conditions = RowConditions([Condition("topic", eq, "Rare")])
    for is_local in (True, False):
        directory = opened_directory(base, is_local=is_local)
        parts = Messages(SourceOptions.from_spark({"path": str(base), "splitBytes": "3000"})).partitions(
            directory, conditions
        )
        found = [wanted_pieces(directory, part, conditions) for part in parts]
        assert len(found) > 10
        assert None not in found
        rows = sum(len(piece) for pieces in found for piece in pieces or ())
        assert 12 <= rows < 60, "others' records were read"


def test_a_range_with_an_entry_that_contradicts_the_log_is_read_completely(
    base: Path, tmp_path: Path, opened_directory: Callable[..., StoreDirectory]
) -> None:
    shutil.copytree(base, tmp_path / "store")
    path = tmp_path / f"store/consumequeue/T0/1/{0:020}"
    raw = bytearray(path.read_bytes())
    raw[11] ^= 1  # a size
    path.write_bytes(raw)
    directory = opened_directory(tmp_path / "store", is_local=True)
    conditions = RowConditions([Condition("topic", eq, "Rare")])
    first, *others = Messages(SourceOptions.from_spark({"path": str(base)})).partitions(directory, conditions)
    assert wanted_pieces(directory, first, conditions) is None
    assert all(wanted_pieces(directory, one, conditions) is not None for one in others)


@pytest.mark.parametrize("kind", ["without queues", "without one topic's", "useQueues=false"])
def test_conditions_that_queues_cannot_answer_read_the_log(
    base: Path, tmp_path: Path, opened_directory: Callable[..., StoreDirectory], kind: str
) -> None:
    root = tmp_path / "store"
    shutil.copytree(base, root)
    if kind != "useQueues=false":
        shutil.rmtree(root / "consumequeue" / ("" if kind == "without queues" else "Rare"))
    options = {"useQueues": "false"} if kind == "useQueues=false" else {}
    directory = opened_directory(root, is_local=True)
    wanted: list[Condition] = [Condition("topic", eq, "Rare"), Condition("queue_offset", gt, 2)]
    expected = filtered(rows_of(directory, [], useQueues="false"), wanted)
    assert expected
    assert rows_of(directory, wanted, **options) == expected


def test_of_two_records_with_one_queue_offset_the_query_returns_the_one_in_the_queue(
    base: Path, tmp_path: Path, opened_directory: Callable[..., StoreDirectory]
) -> None:
    root = tmp_path / "store"
    shutil.copytree(base, root)
    directory = opened_directory(root, is_local=True)
    first, second = filtered(rows_of(directory, []), [Condition("topic", eq, "T0"), Condition("queue_id", eq, 0)])[3:5]
    segment = root / "commitlog" / second["file"]
    raw = bytearray(segment.read_bytes())
    raw[second["position"] + 20 : second["position"] + 28] = first["queue_offset"].to_bytes(8, "big")
    segment.write_bytes(raw)
    wanted: list[Condition] = [
        Condition("topic", eq, "T0"),
        Condition("queue_id", eq, 0),
        Condition("queue_offset", eq, first["queue_offset"]),
    ]
    assert rows_of(directory, wanted) == [first]
    assert len(rows_of(directory, wanted, useQueues="false")) == 2


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of 4 KiB messages in six segments of 1 MiB."""
    return write_store(tmp_path_factory.mktemp("large") / "store", 1_445, 1 << 20, 4_000)


@pytest.mark.parametrize(
    ("wanted", "share"),
    [
        ([Condition("topic", eq, "T1"), Condition("queue_id", eq, 1), Condition("queue_offset", eq, 250)], 0.01),
        ([Condition("topic", eq, "Rare"), Condition("queue_id", eq, 1), Condition("queue_offset", eq, 9_000)], 0.2),
        ([Condition("topic", eq, "Rare")], 0.2),
    ],
)
def test_a_query_of_several_segments_reads_at_most_the_expected_share(
    large: Path,
    monkeypatch: pytest.MonkeyPatch,
    counting_directory: Callable[[str], Any],
    wanted: list[Condition],
    share: float,
) -> None:
    monkeypatch.setattr(dispatched, "SHARE_MAX", 0.25)
    log_bytes = sum(path.stat().st_size for path in (large / "commitlog").iterdir())
    directory = counting_directory(str(large))
    expected = filtered(rows_of(directory, [], useQueues="false"), wanted)
    directory.read_bytes = 0
    assert rows_of(directory, wanted) == expected
    assert directory.read_bytes < share * log_bytes


def test_a_condition_on_the_physical_offset_reads_only_that_part_of_the_log(
    large: Path, counting_directory: Callable[[str], Any]
) -> None:
    directory = counting_directory(str(large))
    everything = rows_of(directory, [])
    one = everything[700]
    directory.read_bytes = 0
    found = rows_of(directory, [Condition("physical_offset", eq, one["physical_offset"])])
    assert found == [one]


def interleaved(root: Path, topics: int, body_bytes: int, segment_bytes: int) -> Path:
    """Write a store of two full segments with alternating topics."""
    messages = 2 * segment_bytes // (body_bytes + 100)
    config = StoreConfig(
        str(root),
        mapped_file_size_commit_log=segment_bytes,
        mapped_file_size_consume_queue=20 * (messages // topics + 1),
    )
    store = MessageStore(real_world(), config)
    store.load()
    store.start()
    for number in range(messages):
        message = Message.create(f"T{number % topics}", bytes(body_bytes), queue_id=0)
        assert store.put_message(message).status.name == "PUT_OK"
    store.shutdown()
    return root


@pytest.mark.parametrize(
    ("topics", "body_bytes", "segment_bytes", "bytes_share", "reads_share"),
    [
        pytest.param(20, 1_000, 8 << 20, 1.02, 3, id="near each other"),
        pytest.param(20, 4_000, 8 << 20, 1.02, 3, id="almost near each other"),
        pytest.param(100, 8_000, 32 << 20, 0.3, 100, id="far from each other"),
    ],
)
def test_reading_one_of_many_topics_costs_no_more_than_reading_the_log(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    counting_directory: Callable[[str], Any],
    topics: int,
    body_bytes: int,
    segment_bytes: int,
    bytes_share: float,
    reads_share: float,
) -> None:
    monkeypatch.undo()
    root = interleaved(tmp_path / "store", topics, body_bytes, segment_bytes)
    directory, wanted = counting_directory(str(root)), [Condition("topic", eq, "T7")]

    expected = rows_of(directory, wanted, useQueues="false")
    log_bytes, log_reads = directory.read_bytes, directory.reads
    directory.read_bytes = directory.reads = 0
    found = rows_of(directory, wanted)

    assert found == expected
    assert directory.read_bytes <= bytes_share * log_bytes
    assert directory.reads <= reads_share * log_reads
