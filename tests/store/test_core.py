"""The C core returns the same results as the Python code, also after damage."""

import random
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from tests.store.rigs import StandingClock
from tests.store.rigs import started as started_store
from tornlog.store.config import StoreConfig
from tornlog.store.errors import CorruptFileError
from tornlog.store.filters.message_filter import TagFilter
from tornlog.store.formats.batch import BatchUnit, encode_batch
from tornlog.store.formats.columns import NativeCore, Pulled
from tornlog.store.formats.consume_queue import ADDRESS_MAX, BLANK_ENTRY, ENTRY_BYTES, decode_entry, encode_entry
from tornlog.store.formats.host import Host
from tornlog.store.formats.index import ENTRY_BYTES as INDEX_ENTRY_BYTES
from tornlog.store.formats.index import HEADER_BYTES, SLOT, entries_position
from tornlog.store.formats.index import encode_entry as index_entry
from tornlog.store.formats.index_key import key_hash, keys_of
from tornlog.store.formats.message import BORN_HOST_V6, STORE_HOST_V6, MessageRecord, decode_record, place_records
from tornlog.store.formats.messages import AppendMessageResult, Message, MessageBatch
from tornlog.store.formats.properties import PROPERTY_INNER_MULTI_DISPATCH
from tornlog.store.index.key_query import KeyQuerier
from tornlog.store.log.put_encoder import EncodedPut, PutEncoder
from tornlog.store.message_store import MessageStore
from tornlog.store.queues.consume_queue import ConsumeQueue
from tornlog.store.queues.pull import QueuePuller
from tornlog.store.real.files import RealFiles
from tornlog.store.real.world import ThreadTasks, overlay_world, real_world
from tornlog.store.tools.geometry import Geometry
from tornlog.store.tools.verify import verify_directory
from tornlog.store.world import World

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = sorted(path.parent.name for path in GOLDEN.glob("*/manifest.json"))
DAMAGED = 20
"""Number of damaged copies of a log to recover."""


LOWEST = ADDRESS_MAX + 1
"""The lowest hash of a tag: that of `polygenelubricants`."""
PULLS = QUERIES = PUTS = 500
"""Numbers of pulls from damaged queues, of queries to damaged records, and of puts."""
KEYS = ("k40", "k80", "é", "a", "b", "a2", "k", "", "no such key", "\udcc3")
LIMITS: tuple[dict[str, Any], ...] = (
    {},
    {"max_transfer_count_on_message_in_memory": 3},
    {"max_transfer_bytes_on_message_in_memory": 700},
    {"physical_memory_bytes": 20_000, "max_transfer_count_on_message_in_disk": 5},
    {"access_message_in_memory_max_ratio": 0, "max_transfer_bytes_on_message_in_disk": 400},
)


class CountingCore:
    """A core that counts its uses."""

    def __init__(self, core: NativeCore) -> None:
        self.runs, self.place = core.runs, core.place
        self.encode, self.encode_batch = core.encode, core.encode_batch
        self.records = self.linked = self.stored = 0
        self._link, self._store = core.link, core.store
        self._scan, self._pull, self._find = core.scan, core.pull, core.find

    def scan(self, *arguments: Any) -> tuple[int, int, int]:
        found = self._scan(*arguments)
        self.records += found[0]
        return found

    def store(self, *arguments: Any) -> int:
        size_bytes = self._store(*arguments)
        self.stored += size_bytes > 0
        return size_bytes

    def link(self, keys: bytearray, begin: int, end: int, *others: Any) -> tuple[bytes, int]:
        self.linked += end - begin
        return self._link(keys, begin, end, *others)

    def pull(self, *arguments: Any) -> Pulled:
        found = self._pull(*arguments)
        self.records += len(found[0])
        return found

    def find(self, *arguments: Any) -> bool:
        are_plain = self._find(*arguments)
        self.records += are_plain and len(arguments[-1])
        return are_plain


def load_result(config: StoreConfig, core: NativeCore | None, *, clean_exit: bool) -> dict[str, Any]:
    """Return the result of a load, or the error that refused it. The directory does not change."""
    store = MessageStore(replace(overlay_world(), core=core), config)
    try:
        try:
            report = store.load(clean_exit=clean_exit)
        except CorruptFileError as error:
            return {"refused": str(error)}
        index = store.index
        assert index is not None
        rows = [store.log, *(queue.queue for queue in store.queues.all_queues())]
        return {
            "report": (
                report.start_offset,
                report.end_offset,
                report.records,
                report.last_store_timestamp_ms,
                report.changed_entries,
                list(map(str, report.findings)),
                str(report.cut_at),
            ),
            "queues": [
                (queue.topic, queue.queue_id, queue.min_offset, queue.max_offset, queue.max_physical_offset)
                for queue in store.queues.all_queues()
            ],
            "segments": [
                (segment.file.path, segment.wrote.get(), bytes(segment.file.view(0, segment.size_bytes)))
                for row in rows
                for segment in row.segments
            ],
            "index": [bytes(file.view) for file in index.table.files],  # their names are the time of the test
            "next": sorted(store.commit_log.topic_queue_table.items()),
        }
    finally:
        store.close()


def assert_same(config: StoreConfig, core: NativeCore) -> int:
    """Compare recoveries and verifications with and without the core; return the number of records read by the core."""
    counting = CountingCore(core)
    for clean_exit in (True, False):
        by_core = load_result(config, counting, clean_exit=clean_exit)
        by_python = load_result(config, None, clean_exit=clean_exit)
        assert by_core.keys() == by_python.keys()
        for part, expected in by_python.items():
            assert by_core[part] == expected, (part, clean_exit)
    return counting.records + count_equal_verifications(config.store_path_root_dir, core)


def count_equal_verifications(root: str, core: NativeCore) -> int:
    """Compare both verifications of a directory; return the number of records read by the core."""
    counting = CountingCore(core)
    fields = [
        verify_directory(overlay_world().files, root, Geometry(), lambda read_bytes: None, each).fields()
        for each in (counting, None)
    ]
    assert fields[0] == fields[1]
    return counting.records


@pytest.mark.parametrize("case", CASES)
def test_golden_stores_are_read_with_the_same_result_with_and_without_core(
    core: NativeCore, golden: Callable[[str], Any], case: str
) -> None:
    written = golden(case)
    assert_same(written.config(written.before), core)
    shutil.rmtree(written.before / "consumequeue", ignore_errors=True)
    assert_same(written.config(written.before), core)


@pytest.fixture
def mixed(tmp_path: Path, started: Callable[..., MessageStore]) -> StoreConfig:
    """The settings of a stopped store with messages of several queues, tags and keys, some delayed."""
    config = StoreConfig(
        str(tmp_path / "mixed"),
        mapped_file_size_commit_log=16_384,
        mapped_file_size_consume_queue=2_000,
        max_hash_slot_num=50,
        max_index_num=150,
    )
    store = started(config)
    for number in range(400):
        properties = {"DELAY": "3"} if number % 50 == 7 else {"UNIQ_KEY": f"u{number}"} if number % 3 == 1 else {}
        tags, keys = ("TagA", "é", "")[number % 3], (f"k{number}", "", f"a{number} b", "é")[number % 4]
        message = Message.create(
            f"T{number % 3}", b"%d" % number * 9, queue_id=number % 2, tags=tags, keys=keys, properties=properties
        )
        assert store.put_message(message).append is not None
    assert store.shutdown()
    return config


@pytest.mark.parametrize("missing", ["nothing", "consumequeue", "index", "checkpoint"])
def test_a_store_with_every_kind_of_message_is_read_with_the_same_result(
    core: NativeCore, mixed: StoreConfig, missing: str
) -> None:
    gone = Path(mixed.store_path_root_dir, missing)
    if gone.is_dir():
        shutil.rmtree(gone)
    elif gone.exists():
        gone.unlink()
    assert assert_same(mixed, core) > 200


def test_a_damaged_log_is_read_with_the_same_result_with_and_without_core(core: NativeCore, mixed: StoreConfig) -> None:
    files = sorted(Path(mixed.store_path_root_dir, "commitlog").iterdir())
    dice = random.Random("damaged log")
    taken = 0
    for _ in range(DAMAGED):
        file = dice.choice(files)
        whole = file.read_bytes()
        at = dice.randrange(len(whole))
        damage = dice.choice([bytes([whole[at] ^ 1 << dice.randrange(8)]), bytes(dice.randrange(1, 600)), b"\xff" * 4])
        file.write_bytes(whole[:at] + damage[: len(whole) - at] + whole[at + len(damage) :])
        taken += assert_same(mixed, core)
        file.write_bytes(whole)

    assert taken > 100 * DAMAGED


def test_pulls_over_any_entries_return_the_same_with_and_without_core(core: NativeCore, mixed: StoreConfig) -> None:
    dice = random.Random("damaged queues")
    store = MessageStore(replace(overlay_world(), core=None), mixed)
    store.load()
    queues, log_end, counting = store.queues.all_queues(), store.max_phy_offset, CountingCore(core)
    try:
        for _ in range(PULLS):
            queue = dice.choice(queues)
            segment = dice.choice(queue.queue.segments)
            at = dice.randrange(segment.wrote.get() // ENTRY_BYTES) * ENTRY_BYTES
            whole = bytes(segment.file.view(at, at + ENTRY_BYTES))
            offset, size_bytes, tags_code = decode_entry(whole, 0)
            end = offset + size_bytes
            offset = dice.choice((offset, offset, -1, 0, log_end - 10, log_end + 5_000, 1 << 62, -(1 << 63)))
            size_bytes = dice.choice((size_bytes, size_bytes, 0, -1, 1, 20_000, 0x7FFFFFFE, BLANK_ENTRY.size_bytes))
            tags_code = dice.choice((tags_code, tags_code, ADDRESS_MAX, LOWEST, -(1 << 63), (1 << 63) - 1))
            segment.file.store(at, encode_entry(offset, size_bytes, tags_code))
            config = replace(mixed, **dice.choice(LIMITS))
            limit = dice.choice((log_end, log_end, log_end // 2, 0, end, end - 1))
            begin = max(queue.min_offset, (segment.base_offset + at) // ENTRY_BYTES - dice.randrange(6))
            tags = TagFilter.parse(dice.choice(("*", "TagA", "TagA || é", "polygenelubricants")))
            answers = [
                QueuePuller(config, store.commit_log, lambda limit=limit: limit, each).get_message(
                    queue, begin, most, tags
                )
                for most in [dice.choice((1, 2, 32))]
                for each in (None, counting)
            ]
            assert answers[0] == answers[1], (config, begin, tags, offset, size_bytes, tags_code)
            segment.file.store(at, whole)
    finally:
        store.close()
    assert counting.records > 100


def test_queries_over_any_records_return_the_same_with_and_without_core(core: NativeCore, mixed: StoreConfig) -> None:
    dice = random.Random("damaged records")
    store = MessageStore(replace(overlay_world(), core=None), mixed)
    store.load()
    index, log_end, counting, found = store.index, store.max_phy_offset, CountingCore(core), 0
    assert index is not None
    by_core, by_python = (KeyQuerier(store.commit_log, each) for each in (counting, None))
    records = [record for queue in store.queues.all_queues() for record in records_of(store, queue)]
    try:
        for _ in range(QUERIES):
            record = dice.choice(records)
            segment = store.log.find(record.physical_offset)
            assert segment is not None
            begin = record.physical_offset - segment.base_offset
            end = begin + record.size_bytes
            whole = bytes(segment.file.view(begin, end))
            at = dice.choice((dice.randrange(len(whole)), len(whole) - 1 - dice.randrange(20)))
            damage = bytes([dice.choice((0, 1, 2, 32, 0xFF, whole[at] ^ 1 << dice.randrange(8)))])
            segment.file.store(begin + at, dice.choice((whole[at : at + 1], damage)))
            keys = [key.decode() for key in keys_of(record.properties.encode())]
            key = dice.choice((dice.choice(KEYS), dice.choice(keys or KEYS)))
            topic = dice.choice((record.topic, record.topic, "T0", "T", "é", "\ud800"))
            stored_ms = record.store_timestamp_ms
            begin_ms = dice.choice((0, stored_ms, stored_ms + 1))
            limit = dice.choice((log_end, log_end, record.physical_offset + record.size_bytes - dice.randrange(2)))
            asked = (topic, key, dice.choice((1, 32)), begin_ms, dice.choice((stored_ms, 1 << 62)), limit)
            file = dice.choice(index.table.files)
            used_bytes = entries_position(index.table.slots) + INDEX_ENTRY_BYTES * file.count.get() - HEADER_BYTES
            index_at = HEADER_BYTES + dice.randrange(used_bytes)
            index_byte = bytes(file.view[index_at : index_at + 1])
            file.file.store(index_at, dice.choice((index_byte, index_byte, bytes([dice.randrange(256)]))))
            answers = [each.query_message(index, *asked) for each in (by_core, by_python)]
            assert answers[0] == answers[1], (asked, at, damage, index_at)
            found += len(answers[0].records)
            file.file.store(index_at, index_byte)
            segment.file.store(begin, whole)
    finally:
        store.close()
    assert found > 100
    assert counting.records > found / 2


def records_of(store: MessageStore, queue: ConsumeQueue) -> list[MessageRecord]:
    offsets = range(queue.min_offset, queue.max_offset)
    pulls = [store.get_message(queue.topic, queue.queue_id, offset, 1) for offset in offsets]
    return [decode_record(pulled.records[0], 0, file="commitlog") for pulled in pulls]


class OneSegment:
    """A log of one segment with one record, and an index file whose only slot leads to entries of that record."""

    def __init__(self, record: bytes, entries: Sequence[bytes], *, readable_bytes: int | None = None) -> None:
        self.file = self
        self.readable = memoryview(record[:readable_bytes])
        self.size_bytes = len(self.readable)
        self.limit = len(record)
        self.index = memoryview(bytes(HEADER_BYTES) + SLOT.pack(len(entries)) + bytes(ENTRY_BYTES) + b"".join(entries))

    def view(self, start: int, end: int) -> memoryview:
        return self.readable[start:end]

    def find(self, core: NativeCore, topic: str, key: str, begin_ms: int, **others: Any) -> list[bytes] | None:
        """Return the found records; None if the core leaves the query to Python."""
        found: list[bytes] = []
        asked = {"slots": 1, "next_entry": 1 << 20, "end_ms": 1 << 60, "count_max": 9, "limit": self.limit} | others
        is_whole = core.find(
            *(self.index, asked["slots"], asked["next_entry"], 1000, topic, key, begin_ms, asked["end_ms"]),
            *(asked["count_max"], (self,), 1 << 20, 0, asked["limit"], [], found),  # type: ignore[arg-type]
        )
        return found if is_whole else None


def one_record() -> bytes:
    message = Message.create("T", b"body", keys="a  b ", properties={"UNIQ_KEY": "unique"})
    encoded = PutEncoder(StoreConfig("/store"), None).encode(message)
    assert isinstance(encoded, EncodedPut)
    place_records(encoded.buffer, encoded.starts, 0, 0, 1000, encoded.born_host_v6)
    return bytes(encoded.buffer)


@pytest.mark.parametrize(
    ("topic", "key", "begin_ms", "is_found"),
    [
        ("T", "a", 1000, True),
        ("T", "unique", 1000, True),
        ("T", "b", 1001, False),
        ("T", "a b", 0, False),
        ("T", "", 0, False),
        ("T", "uniqu", 0, False),
        ("U", "a", 0, False),
        ("TT", "a", 0, False),
        ("", "a", 0, False),
    ],
)
def test_the_core_finds_a_record_by_topic_key_and_time(
    core: NativeCore, topic: str, key: str, begin_ms: int, is_found: bool
) -> None:
    record = one_record()
    entry = index_entry(key_hash(topic, key.encode()), 0, 0, 0)
    log = OneSegment(record, [entry])
    assert log.find(core, topic, key, begin_ms) == ([record] if is_found else [])
    assert log.find(core, topic, key, begin_ms, limit=0) == [], "the record is after the limit"
    assert log.find(core, topic, key, 0, limit=len(record) - 1) is None, "a part of the record is after the limit"
    assert OneSegment(record, [entry], readable_bytes=60).find(core, topic, key, 0) is None


@pytest.mark.parametrize("offset", [-1, 1 << 20, (1 << 63) - 1, -(1 << 63)])
def test_the_core_ignores_an_index_entry_outside_of_the_log(core: NativeCore, offset: int) -> None:
    record = one_record()
    hashed = key_hash("T", b"a")
    log = OneSegment(record, [index_entry(hashed, 0, 0, 0), index_entry(hashed, offset, 0, 1)])
    assert log.find(core, "T", "a", 0) == [record]
    assert log.find(core, "T", "a", 0, limit=(1 << 63) - 1) is None, "the segment is too short"


@pytest.mark.parametrize("previous", [2, 3, 1 << 30, -1, 0])
def test_a_walk_of_the_core_ends_at_an_invalid_link(core: NativeCore, previous: int) -> None:
    hashed = key_hash("T", b"a")
    log = OneSegment(one_record(), [index_entry(hashed, 0, 0, 0), index_entry(hashed + 1, 0, 0, previous)])
    assert log.find(core, "T", "a", 0) == []


@pytest.mark.parametrize(
    ("others", "expected"),
    [({"next_entry": 0}, []), ({"count_max": 0}, []), ({"end_ms": 999}, []), ({"end_ms": 1 << 63}, None)],
    ids=str,
)
def test_the_core_keeps_the_limits_of_a_query(core: NativeCore, others: dict[str, int], expected: Any) -> None:
    log = OneSegment(one_record(), [index_entry(key_hash("T", b"a"), 0, 0, 0)])
    assert log.find(core, "T", "a", 0, **others) == expected
    assert log.find(core, "\ud800", "a", 0) is None


@pytest.mark.parametrize("slots", [0, -1, 7])
def test_the_core_refuses_more_slots_than_an_index_file_has(core: NativeCore, slots: int) -> None:
    with pytest.raises(ValueError, match="slots or log is out of range, or a result is no list"):
        OneSegment(b"", []).find(core, "T", "a", 0, slots=slots)


@pytest.mark.parametrize(("base_offset", "codes"), [(-1, None), (0, {1}), (0, [1])], ids=["offset", "set", "list"])
def test_the_core_refuses_invalid_arguments_of_a_pull(c_core: NativeCore, base_offset: int, codes: Any) -> None:
    with pytest.raises(ValueError, match="base_offset is below 0, or codes is no frozenset"):
        c_core.pull(memoryview(bytes(ENTRY_BYTES)), memoryview(b""), base_offset, 0, codes, 1, 1)


@pytest.mark.parametrize(("readable", "taken"), [(30, [b"b" * 20, b"c" * 10]), (29, [b"b" * 20]), (19, [])])
def test_a_pull_ends_before_a_partly_readable_record(core: NativeCore, readable: int, taken: list[bytes]) -> None:
    log = memoryview(b"b" * 20 + b"c" * 10)
    entries = memoryview(encode_entry(100, 20, 0) + encode_entry(120, 10, 0))
    records, offsets, places, scanned, total, last = core.pull(entries, log[:readable], 100, 0, None, 9, 99)
    assert records == taken
    assert offsets == [100, 120][: len(taken)]
    assert places == list(range(scanned)) == list(range(len(taken)))
    assert (total, last) == (sum(map(len, taken)), [0, 100, 120][len(taken)])


@pytest.mark.parametrize(
    "settings",
    [{}, {"enable_consume_queue_ext": True}, {"enable_multi_dispatch": True, "enable_lmq": True}],
    ids=["plain", "extended", "light"],
)
def test_dispatch_fills_the_same_queues_with_and_without_core(
    core: NativeCore, settings: dict[str, Any], tmp_path: Path
) -> None:
    counting = CountingCore(core)
    left = [queues_dispatched(tmp_path / name, each, settings) for name, each in (("c", counting), ("py", None))]
    assert left[0] == left[1]
    assert counting.linked > 100


def test_an_entry_added_during_a_lookup_hides_no_older_entry(
    core: NativeCore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = StoreConfig(str(tmp_path), mapped_file_size_commit_log=1 << 16, max_hash_slot_num=1, max_index_num=9)
    store = MessageStore(replace(real_world(), core=core), config)
    store.load()
    store.start()
    for number in range(4):
        store.put_message(Message.create("T", b"", keys=f"k{number}"))
    store.shutdown()
    store = MessageStore(replace(real_world(), core=core), config)
    store.load()
    assert store.index is not None
    (file,) = store.index.table.files
    count = file.count.get()

    class CountOfLongAgo:
        times = 0

        def get(self) -> int:
            self.times += 1
            return count - 2 if self.times == 1 else count

    try:
        monkeypatch.setattr(file, "count", CountOfLongAgo())
        assert len(store.query_message("T", "k0", 9, 0, 1 << 60).records) == 1
    finally:
        store.close()


def queues_dispatched(
    root: Path, core: NativeCore | None, settings: dict[str, Any]
) -> list[tuple[str, int, list[bytes]]]:
    """Dispatch a log with several queues. Return the entries of each queue, and the number of keys found."""
    config = StoreConfig(str(root), mapped_file_size_commit_log=1 << 16, **settings)
    store = MessageStore(replace(real_world(), core=core), config)
    store.load()
    store.start()
    gate = Event()
    store.dispatchers.insert(0, lambda record: bool(gate.wait()))
    for number in range(300):
        lights = {PROPERTY_INNER_MULTI_DISPATCH: "%LMQ%a,%LMQ%b"} if number % 7 == 0 and config.enable_lmq else {}
        store.put_message(Message.create("T", b"x" * number, queue_id=number % 3, keys=f"k{number}", properties=lights))
    gate.set()
    store.shutdown()
    again = MessageStore(overlay_world(), config)
    again.load()
    try:
        keys = sum(len(again.query_message("T", f"k{number}", 9, 0, 1 << 60).records) for number in range(300))
        found = [("keys", keys, list[bytes]())]
        for queue in again.queues.all_queues():
            files = [bytes(segment.file.view(0, segment.wrote.get())) for segment in queue.queue.segments]
            found.append((queue.topic, queue.queue_id, files))
        return found
    finally:
        again.close()


def random_message(dice: random.Random) -> Message | MessageBatch:
    """Return a plain message, or one with a field that only the Python code accepts or refuses."""
    topic = dice.choice(("T0", "T1", "é", "t" * 127))
    properties = dice.choice(("", "TAGS\x01A", "KEYS\x01é k", "p" * 32_767))
    host = Host(bytes(dice.randrange(256) for _ in range(4)), dice.randrange(65_536))
    message = Message(
        topic,
        dice.randbytes(dice.choice((0, 1, 500, 3_000))),
        dice.randrange(3),
        properties,
        flag=dice.choice((0, -1, 7)),
        sys_flag=dice.choice((0, 0, 1, 8, BORN_HOST_V6, STORE_HOST_V6)),
        born_timestamp_ms=dice.randrange(-1, 1 << 40),
        born_host=host,
        reconsume_times=dice.randrange(3),
        prepared_transaction_offset=dice.randrange(1 << 40),
    )
    if dice.random() < 0.1:
        return MessageBatch(message, encode_batch([BatchUnit(1, b"body", b"TAGS\x01B")] * 3))
    odd: dict[str, Any] = dice.choice(ODD) if dice.random() < 0.4 else {}
    return replace(message, **odd)


V6 = Host(bytes(range(16)), 1)
ODD: tuple[dict[str, Any], ...] = (
    *({"topic": topic} for topic in ("", ".", "..", "a/b", "a\0", "é" * 64, "t" * 128, "\ud800")),
    *({"properties": text} for text in ("p" * 32_768, "é" * 16_384, "a\0b", "DELAY\x013", "\ud800", "DELAY\x0199")),
    *({"body": body} for body in (bytearray(b"body"), b"x" * 20_000, b"x" * 70_000)),
    *({"queue_id": number} for number in (-1, 1 << 31, (1 << 31) - 1)),
    *({"flag": number} for number in (1 << 31, -(1 << 70))),
    *({"sys_flag": number} for number in (4, 12, 1 << 31)),
    *({"born_host": V6}, {"store_host": V6}, {"born_host": Host(b"12345", 1)}, {"store_host": Host(b"1234", 1 << 31)}),
    *({"reconsume_times": 1 << 31}, {"born_timestamp_ms": 1 << 63}, {"prepared_transaction_offset": -(1 << 64)}),
    *({"honour_delay": False, "properties": "DELAY\x011"}, {"wait_store_ok": False}),
)


def log_after_puts(config: StoreConfig, core: NativeCore | None, puts: list[Message | MessageBatch]) -> dict[str, Any]:
    """Put all messages, at one time of the clock. Return the results, the files of the log, and the counters."""
    store = started_store(World(StandingClock(1_700_000_000_000), ThreadTasks(), RealFiles(), core=core), config)
    log = store.commit_log
    results = [log.begin_put(put) for put in puts]
    ends = [(segment.wrote.get(), segment.store_timestamp_ms) for segment in store.log.segments]
    assert store.shutdown()
    return {
        "results": results,
        "ends": ends,
        "files": [path.read_bytes() for path in sorted(Path(config.commit_log_directory).iterdir())],
        "next": log.topic_queue_table,
        "totals": log.topic_put_totals,
        "others": (log.last_store_timestamp_ms, log.puts_failed, log.begin_time_in_lock_ms),
    }


@pytest.mark.parametrize(
    ("settings", "stored"),
    [
        ({}, range(PUTS // 3, PUTS)),
        ({"enable_multi_dispatch": True}, range(1)),
        ({"transient_store_pool_enable": True}, range(PUTS)),  # segments that find no buffer in the pool
    ],
    ids=["plain", "light", "pool"],
)
def test_puts_of_any_messages_write_the_same_log_with_and_without_core(
    core: NativeCore, settings: dict[str, Any], stored: range, tmp_path: Path
) -> None:
    dice, counting = random.Random("puts"), CountingCore(core)
    puts = [random_message(dice) for _ in range(PUTS)]
    found, expected = (
        log_after_puts(
            StoreConfig(str(tmp_path / name), mapped_file_size_commit_log=1 << 16, max_message_size=10_000, **settings),
            each,
            puts,
        )
        for name, each in (("core", counting), ("python", None))
    )
    for part in expected:
        assert found[part] == expected[part], part
    assert len(expected["files"]) > 10
    assert counting.stored in stored


def test_puts_of_several_threads_get_adjacent_places_with_the_core(core: NativeCore, tmp_path: Path) -> None:
    config = StoreConfig(str(tmp_path), mapped_file_size_commit_log=1 << 16)
    store = started_store(replace(real_world(), core=core), config)
    odd = {"properties": "DELAY\x010"}  # stored by the Python code, without a delay
    results: list[list[AppendMessageResult]] = [[] for _ in range(4)]

    def put_all(number: int) -> None:
        for each in range(500):
            message = Message("T", b"x" * each, **(odd if each % 3 == number % 3 else {}))
            append = store.put_message(message).append
            assert append is not None
            results[number].append(append)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [Thread(target=put_all, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    ordered = sorted(append for each in results for append in each)
    assert [append.queue_offset for append in ordered] == list(range(2_000))
    assert store.stats.topic_put_totals("T").messages == 2_000
    for append in ordered:
        record = store.commit_log.record_at(append.wrote_offset, store.log.max_offset)
        assert record is not None
        assert (record.size_bytes, record.queue_offset) == (append.wrote_bytes, append.queue_offset)
    assert store.shutdown()
