import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import eq, gt, le
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tornlog.reports.pipeline.source import index_lookup, indexed
from tornlog.reports.pipeline.source.columns import Condition, RowConditions, is_in
from tornlog.reports.pipeline.source.directory import StoreDirectory
from tornlog.reports.pipeline.source.index_lookup import IndexedPart
from tornlog.reports.pipeline.source.log_ranges import log_ranges
from tornlog.reports.pipeline.source.messages import Messages
from tornlog.reports.pipeline.source.source_options import SourceOptions
from tornlog.reports.pipeline.source.stream import LogStream
from tornlog.scenarios.oracle.reader import key_hash
from tornlog.store.config import StoreConfig
from tornlog.store.formats.message import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import real_world

SEGMENT_BYTES = 16 << 10
SLOTS, ENTRIES = 50, 40
HEADER, ENTRY = struct.Struct(">qqqqii"), struct.Struct(">iqii")
ENTRIES_AT = HEADER.size + 4 * SLOTS
COLUMNS = (
    "file,position,physical_offset,size,topic,queue_id,queue_offset,sys_flag,properties,keys,body,is_proven,damage"
)
NO_HELP = {"useIndex": "false", "useQueues": "false"}
Row = dict[str, Any]


def rows_of(directory: StoreDirectory, filters: list[Condition], columns: str = COLUMNS, **options: str) -> list[Row]:
    table = Messages(SourceOptions.from_spark({"path": directory.root, "columns": columns, **options}))
    conditions = RowConditions(filters)
    return [
        row | {"file": Path(row["file"]).name}
        for part in table.partitions(directory, conditions)
        for batch in table.batches(directory, part, conditions)
        for row in batch.to_pylist()
    ]


def with_key(rows: list[Row], key: str, topics: tuple[str, ...] | None = None) -> list[Row]:
    """Return the expected rows of a query for a key."""
    return [
        row
        for row in rows
        if row["topic"] is not None
        and (topics is None or row["topic"] in topics)
        and (key in (row["keys"] or ()) or dict(row["properties"]).get("UNIQ_KEY") == key)
        and row["sys_flag"] & TRANSACTION_MASK != TRANSACTION_ROLLBACK
    ]


def message_of(number: int, body_bytes: int) -> Message:
    """Return one of many messages: most have two keys, `Aa` and `BB` have one hash, some are in transactions."""
    topic = "Rare" if number % 20 == 7 else f"T{number % 2}"
    keys = [f"k{number % 60}", f"{'Aa' if number % 3 else 'BB'}{number % 8}", "all", "ключ"]
    properties = {"KEYS": " ".join(keys[: number % 5])} if number % 5 else {}
    if number % 7 == 0:
        properties["UNIQ_KEY"] = f"unique {number % 14}"
    message = Message.create(
        topic, f"{number}|".encode() * (body_bytes // 4), queue_id=number // 2 % 2, properties=properties
    )
    if number % 37 == 5:
        kind = TRANSACTION_PREPARED if number % 2 else TRANSACTION_ROLLBACK
        message = replace(message, sys_flag=kind)
    return message


def config_at(root: Path, **settings: int) -> StoreConfig:
    sizes = {"mapped_file_size_commit_log": SEGMENT_BYTES, "mapped_file_size_consume_queue": 600}
    return StoreConfig(str(root), **{**sizes, "max_hash_slot_num": SLOTS, "max_index_num": ENTRIES, **settings})


def opened_store(root: Path, **settings: int) -> MessageStore:
    store = MessageStore(real_world(), config_at(root, **settings))
    store.load()
    store.start()
    return store


def write_store(root: Path, messages: int = 240, body_bytes: int = 150, **settings: int) -> Path:
    store = opened_store(root, **settings)
    for number in range(messages):
        assert store.put_message(message_of(number, body_bytes)).status.name == "PUT_OK"
    store.shutdown()
    return root


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_store(tmp_path_factory.mktemp("base") / "store")


@pytest.fixture
def store(base: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(base, tmp_path / "store"))


@pytest.fixture(autouse=True)
def always_use_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make queries use the index and its slots even for small gains."""
    monkeypatch.setattr(indexed, "SHARE_MAX", 100.0)
    monkeypatch.setattr(index_lookup, "ASKING_BYTES", 1)


def index_files(root: Path) -> list[Path]:
    return sorted((root / "index").iterdir())


keys = st.one_of(
    st.integers(0, 61).map(lambda number: f"k{number}"),
    st.sampled_from(["Aa1", "BB1", "BB3", "all", "ключ", "unique 0", "unique 7", "nothing", "a\x01b"]),
)
topics = st.one_of(
    st.sampled_from([("T0",), ("T1",), ("Rare",), ("nobody",), ("T0", "T1"), ("T1", "Rare", "nobody"), ()])
)
splits = st.sampled_from(["0", "3000", "9999"])
places = st.integers(0, 1 << 20)


def damage_store(root: Path, kind: str, first: int, second: int) -> None:
    """Damage a store in one way."""
    if kind == "crashed":
        (root / "abort").write_bytes(b"")
        return
    is_log = kind.startswith("log")
    files = sorted((root / ("commitlog" if is_log else "index")).iterdir())
    if not files:
        return
    path = files[first % len(files)]
    raw = bytearray(path.read_bytes())
    if not raw:
        return
    at = second % len(raw)
    if kind == "missing":
        path.unlink()
        return
    if kind == "truncated":
        del raw[at:]
    elif kind == "without slots":
        raw[HEADER.size : ENTRIES_AT] = bytes(ENTRIES_AT - HEADER.size)
    elif kind == "without entries":  # zeros from a sector on, as in a page that was not written
        at = ENTRIES_AT + ENTRY.size * (second % ENTRIES)
        raw[at:] = bytes(len(raw) - at)
    elif kind == "header":
        raw[second % HEADER.size] ^= 1 << first % 8
    elif kind in ("flipped", "log"):
        raw[at] ^= 1 << first % 8
    elif kind == "log-zeros":
        raw[at : at + 600] = bytes(len(raw[at : at + 600]))
    elif kind == "log-end":
        raw[at:] = bytes(len(raw) - at)
        for later in files[first % len(files) + 1 :]:
            later.unlink()
    path.write_bytes(raw)


def entries_of(path: Path) -> list[tuple[int, int, int, int]]:
    raw = path.read_bytes()
    behind = len(raw) - (len(raw) - ENTRIES_AT) % ENTRY.size
    return list(ENTRY.iter_unpack(raw[ENTRIES_AT:behind])) if behind > ENTRIES_AT else []


def offsets_of_slot(path: Path, hashed: int) -> Iterator[int]:
    """Yield the log offsets that a slot of a file leads to."""
    entries, raw = entries_of(path), path.read_bytes()
    (number,) = struct.unpack_from(">i", raw, HEADER.size + 4 * (hashed % SLOTS))
    while 0 < number < len(entries):
        found, offset, _, previous = entries[number]
        if found == hashed:
            yield offset
        number = previous if previous < number else 0


def is_hidden_by_damage(root: Path, row: Row, key: str) -> bool:
    """Return whether damage has changed the only entry of a row, or the links to the entry."""
    place = key_hash(row["topic"], key.encode()), row["physical_offset"]
    return not any(
        place in [one[:2] for one in entries_of(path)] and place[1] in offsets_of_slot(path, place[0])
        for path in index_files(root)
    )


@pytest.mark.slow
@given(keys, topics, st.booleans(), splits, st.sampled_from([1, 1 << 20]))
@settings(max_examples=60)
def test_a_key_query_returns_the_rows_of_the_log(
    base: Path,
    opened_directory: Callable[..., StoreDirectory],
    key: str,
    names: tuple[str, ...],
    is_local: bool,
    split_bytes: str,
    asking_bytes: int,
) -> None:
    directory = opened_directory(base, is_local=is_local)
    expected = with_key(rows_of(directory, [], **NO_HELP), key, names)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_lookup, "ASKING_BYTES", asking_bytes)
        found = rows_of(
            directory, [Condition("topic", is_in, names)], key=key, splitBytes=split_bytes, hashSlots=str(SLOTS)
        )
    assert found == expected


SEEN = ["missing", "truncated", "without slots", "without entries", "header", "crashed", "log-zeros", "log-end"]
"""Damage that a lookup detects, so that no row is lost."""


@pytest.mark.slow
@given(
    keys,
    topics,
    st.lists(st.tuples(st.sampled_from([*SEEN, "flipped", "log"]), places, places), min_size=1, max_size=3),
    st.booleans(),
    splits,
)
@settings(max_examples=120)
def test_a_key_query_of_a_damaged_store_returns_the_rows_of_its_log(
    base: Path,
    opened_directory: Callable[..., StoreDirectory],
    key: str,
    names: tuple[str, ...],
    harms: list[tuple[str, int, int]],
    is_local: bool,
    split_bytes: str,
) -> None:
    with TemporaryDirectory() as place:
        root = Path(shutil.copytree(base, Path(place) / "store"))
        for one in harms:
            damage_store(root, *one)
        directory = opened_directory(root, is_local=is_local)
        options = {"splitBytes": split_bytes, "hashSlots": str(SLOTS)}
        rows = [row | {"is_proven": None} for row in rows_of(directory, [], **options, **NO_HELP)]
        expected = with_key(rows, key, names)
        found = rows_of(directory, [Condition("topic", is_in, names)], key=key, **options)
        found = [row | {"is_proven": None} for row in found]  # the truncation may be after damage
        hidden = [row for row in expected if row not in found]
        assert found == [row for row in expected if row not in hidden]
        is_seen = all(kind in SEEN for kind, *_ in harms)
        assert not hidden if is_seen else all(is_hidden_by_damage(root, row, key) for row in hidden)


@pytest.mark.parametrize("is_local", [True, False])
@pytest.mark.parametrize("asking_bytes", [1, 1 << 20])
def test_in_an_indexed_part_only_records_with_matching_entries_are_read(
    base: Path,
    opened_directory: Callable[..., StoreDirectory],
    monkeypatch: pytest.MonkeyPatch,
    is_local: bool,
    asking_bytes: int,
) -> None:
    monkeypatch.setattr(index_lookup, "ASKING_BYTES", asking_bytes)
    directory = opened_directory(base, is_local=is_local)
    options = SourceOptions.from_spark({"path": str(base), "key": "k33", "hashSlots": str(SLOTS)})
    conditions = RowConditions([Condition("topic", eq, "T1")])
    parts = [part for part in Messages(options).partitions(directory, conditions) if isinstance(part, IndexedPart)]
    assert len(parts) >= len(index_files(base)) - 1 > 5
    hashes = indexed.hashes_of(conditions, b"k33")
    assert all(indexed.ranges_of_part(directory, part, hashes, options).are_records for part in parts), (
        "an index file of a sound store was not believed"
    )


def damage_index_file(path: Path, kind: str) -> None:
    """Make a file inconsistent."""
    raw = bytearray(path.read_bytes())
    slot = next(slot for slot in range(SLOTS) if raw[HEADER.size + 4 * slot + 3])
    newest = raw[HEADER.size + 4 * slot + 3]
    entry_at = ENTRIES_AT + ENTRY.size * newest
    if kind == "a slot behind the file":
        raw[HEADER.size + 4 * slot] = 1
    elif kind == "a link to itself":
        raw[entry_at + 16 : entry_at + 20] = newest.to_bytes(4, "big")
    elif kind == "an entry of another slot":
        raw[entry_at + 3] ^= 1
    elif kind == "an entry behind the file's last":
        raw[entry_at + 4] = 1
    elif kind == "an entry in front of the file's first":
        raw[entry_at + 4 : entry_at + 12] = bytes(8)
    path.write_bytes(raw)


@pytest.mark.parametrize(
    "kind",
    [
        "a slot behind the file",
        "a link to itself",
        "an entry of another slot",
        "an entry behind the file's last",
        "an entry in front of the file's first",
    ],
)
@pytest.mark.parametrize("asking_bytes", [1, 1 << 20])
def test_the_part_of_an_inconsistent_index_file_is_read_completely(
    store: Path, monkeypatch: pytest.MonkeyPatch, kind: str, asking_bytes: int
) -> None:
    monkeypatch.setattr(index_lookup, "ASKING_BYTES", asking_bytes)
    path = index_files(store)[2]
    hashed = entries_of(path)
    raw = path.read_bytes()
    slot = next(slot for slot in range(SLOTS) if raw[HEADER.size + 4 * slot + 3])
    damage_index_file(path, kind)
    directory = StoreDirectory(str(store))
    everything = rows_of(directory, [], **NO_HELP)
    wanted = {
        (row["topic"], key)
        for row in everything
        for key in row["keys"] or ()
        if key_hash(row["topic"], key.encode()) % SLOTS == slot
        and (key_hash(row["topic"], key.encode()), row["physical_offset"]) in [one[:2] for one in hashed]
    }
    assert wanted
    for topic, key in sorted(wanted):
        found = rows_of(directory, [Condition("topic", eq, topic)], key=key, hashSlots=str(SLOTS))
        assert found == with_key(everything, key, (topic,))


def test_an_index_of_another_log_is_ignored(store: Path, tmp_path: Path) -> None:
    other = write_store(tmp_path / "other", body_bytes=310)
    shutil.rmtree(store / "index")
    shutil.copytree(other / "index", store / "index")
    directory = StoreDirectory(str(store))
    everything = rows_of(directory, [], **NO_HELP)
    for key in ("k1", "k33", "all", "unique 7"):
        expected = with_key(everything, key, ("T1",))
        assert rows_of(directory, [Condition("topic", eq, "T1")], key=key, hashSlots=str(SLOTS)) == expected
        assert expected


@pytest.mark.parametrize("kept", [[], [0], [-1], [1, 4], [0, 1, -2]])
def test_parts_of_the_log_without_an_index_file_are_read(store: Path, kept: list[int]) -> None:
    files = index_files(store)
    for path in set(files) - {files[one] for one in kept}:
        path.unlink()
    directory = StoreDirectory(str(store))
    everything = rows_of(directory, [], **NO_HELP)
    for key in ("k1", "k33", "all", "unique 7", "nothing"):
        expected = with_key(everything, key, ("T0", "T1"))
        assert rows_of(directory, [Condition("topic", is_in, ("T0", "T1"))], key=key, hashSlots=str(SLOTS)) == expected


def test_index_files_that_cover_the_same_part_of_the_log_are_ignored(store: Path) -> None:
    files = index_files(store)
    raw = files[1].read_bytes()
    header = HEADER.unpack_from(raw)
    files[1].write_bytes(HEADER.pack(header[0], header[1], 0, *header[3:]) + raw[HEADER.size :])
    directory = StoreDirectory(str(store))
    assert indexed.parts_of(directory, log_ranges(directory, 0)) is None


def test_index_entries_of_removed_segments_are_skipped(store: Path) -> None:
    for path in sorted((store / "commitlog").iterdir())[:2]:
        path.unlink()
    directory = StoreDirectory(str(store))
    everything = rows_of(directory, [], **NO_HELP)
    expected = with_key(everything, "all", ("T1",))
    assert rows_of(directory, [Condition("topic", eq, "T1")], key="all", hashSlots=str(SLOTS)) == expected
    parts = indexed.parts_of(directory, log_ranges(directory, 0))
    assert parts is not None
    assert len([one for one in parts if isinstance(one, IndexedPart)]) < len(index_files(store))


def test_outdated_index_slots_after_a_crash_hide_no_rows(store: Path) -> None:
    path = index_files(store)[3]
    raw = bytearray(path.read_bytes())
    offsets = [entry[1] for entry in entries_of(path)]
    (count,) = struct.unpack_from(">i", raw, 36)
    for slot in range(SLOTS):
        at = HEADER.size + 4 * slot
        (number,) = struct.unpack_from(">i", raw, at)
        if number > count // 2:  # like a page that was written at that time
            raw[at : at + 4] = raw[ENTRIES_AT + ENTRY.size * number + 16 :][:4]
    path.write_bytes(raw)
    (store / "checkpoint").write_bytes(bytes(4096))
    directory = StoreDirectory(str(store))
    everything = rows_of(directory, [], **NO_HELP)
    lost = 0
    indexed_here = [row for row in everything if row["physical_offset"] in offsets]
    for topic, key in sorted({(row["topic"], key) for row in indexed_here for key in row["keys"] or ()})[::3]:
        expected = with_key(everything, key, (topic,))
        wanted: list[Condition] = [Condition("topic", eq, topic)]
        lost += rows_of(directory, wanted, key=key, hashSlots=str(SLOTS)) != expected
        (store / "abort").write_bytes(b"")
        assert rows_of(directory, wanted, key=key, hashSlots=str(SLOTS)) == expected
        (store / "abort").unlink()
    assert lost, "slots were not what this is about"


def test_a_key_query_also_applies_other_conditions(base: Path, opened_directory: Callable[..., StoreDirectory]) -> None:
    directory = opened_directory(base, is_local=False)
    everything = rows_of(directory, [], **NO_HELP)
    all_of_it = with_key(everything, "all", ("T0",))
    middle = all_of_it[len(all_of_it) // 2]
    for column, compare in (("physical_offset", gt), ("physical_offset", le), ("queue_id", eq), ("queue_offset", gt)):
        filters: list[Condition] = [Condition("topic", eq, "T0"), Condition(column, compare, middle[column])]
        expected = [row for row in all_of_it if compare(row[column], middle[column])]
        assert rows_of(directory, filters, key="all", hashSlots=str(SLOTS)) == expected
        assert expected


@pytest.mark.parametrize("options", [{}, {"useIndex": "false"}, {"splitBytes": "3000"}])
def test_a_key_query_without_a_topic_reads_the_log(base: Path, options: dict[str, str]) -> None:
    directory = StoreDirectory(str(base))
    expected = with_key(rows_of(directory, [], **NO_HELP), "all")
    assert rows_of(directory, [], key="all", **options) == expected
    assert len({row["topic"] for row in expected}) > 1


def test_a_stream_with_a_key_returns_the_rows_with_the_key(base: Path) -> None:
    expected = with_key(rows_of(StoreDirectory(str(base)), [], **NO_HELP), "all")
    stream = LogStream(SourceOptions.from_spark({"path": str(base), "key": "all", "columns": COLUMNS}))
    begin = stream.initialOffset()
    parts = stream.partitions(begin, stream.latestOffset(begin, ReadAllAvailable()))
    found = [row for part in parts for batch in stream.read(part) for row in batch.to_pylist()]
    assert [row | {"file": Path(row["file"]).name} for row in found] == expected


def test_a_key_in_a_store_without_queues_is_found(store: Path) -> None:
    shutil.rmtree(store / "consumequeue")
    directory = StoreDirectory(str(store))
    expected = with_key(rows_of(directory, [], **NO_HELP), "k33", ("T1",))
    assert rows_of(directory, [Condition("topic", eq, "T1")], key="k33", hashSlots=str(SLOTS)) == expected


@pytest.mark.slow
def test_a_key_query_of_a_live_store_finds_each_message(tmp_path: Path) -> None:
    root = tmp_path / "store"
    sizes = {"mapped_file_size_commit_log": 1 << 20, "mapped_file_size_consume_queue": 20_000, "max_index_num": 2_000}
    store, put, done = opened_store(root, **sizes), list[int](), Event()

    def write() -> None:
        while not done.is_set():
            number = len(put)
            store.put_message(Message.create("T", b"x" * (number % 900), keys=f"k{number} all"))
            put.append(number)
            done.wait(0.0005)

    writer = Thread(target=write)
    writer.start()
    try:
        directory = StoreDirectory(str(root))
        for share in (0.1, 0.3, 0.5, 0.9, 1.0) * 2:
            while len(put) < 50:
                done.wait(0.01)
            number = int((len(put) - 1) * share)
            options = {"key": f"k{number}", "hashSlots": str(SLOTS), "columns": "file,queue_offset,damage"}
            found = rows_of(directory, [Condition("topic", eq, "T")], **options)
            assert [(row["queue_offset"], row["damage"]) for row in found] == [(number, None)]
    finally:
        done.set()
        writer.join()
        store.shutdown()
    assert len(index_files(root)) > 2


@pytest.mark.slow
def test_a_key_query_reads_less_than_a_hundredth_of_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counting_directory: Callable[[str], Any]
) -> None:
    monkeypatch.undo()
    sizes = {"max_hash_slot_num": 5_000, "max_index_num": 20_000, "mapped_file_size_consume_queue": 60_000}
    store = opened_store(tmp_path / "store", mapped_file_size_commit_log=64 << 20, **sizes)
    for number in range(12_000):
        store.put_message(Message.create(f"T{number % 2}", b"x" * 40_000, keys=f"k{number} {number // 2 % 5_000}"))
    store.shutdown()
    directory = counting_directory(str(tmp_path / "store"))
    log_bytes = sum(path.stat().st_size for path in (tmp_path / "store/commitlog").iterdir())
    for key, places in (("k5678", [2_839]), ("777", [777, 5_777]), ("nothing", [])):
        directory.read_bytes = 0
        wanted: list[Condition] = [Condition("topic", eq, "T0")]
        found = rows_of(directory, wanted, columns="file,queue_offset", key=key, hashSlots="5000")
        assert [row["queue_offset"] for row in found] == places
        assert directory.read_bytes < 0.01 * log_bytes
    everything = rows_of(directory, wanted, columns="file,queue_offset,keys", **NO_HELP)
    assert [row["queue_offset"] for row in everything if "777" in row["keys"]] == [777, 5_777]


@pytest.mark.parametrize(
    ("given", "said"),
    [({"key": ""}, "key: expected one"), ({"key": "k", "table": "queue_entries"}, "only messages have keys")],
)
def test_an_invalid_key_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        SourceOptions.from_spark({"path": "/", **given})
