"""Experiments in which RocketMQ 4.9.8 fails, and the right behaviour here.

A comment in each test describes what RocketMQ did. Segments of the log are 65536 bytes long, files of queues 50
entries, index files 100 slots and 400 entries; a record is 113 bytes.
"""

import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tornlog.faults.disk.image import FileImage, Image
from tornlog.store.config import StoreConfig
from tornlog.store.formats.consume_queue import ENTRY_BYTES, decode_entry, tags_code
from tornlog.store.formats.delay_level import SCHEDULE_TOPIC
from tornlog.store.formats.index import decode_entry as decode_index_entry
from tornlog.store.formats.index import decode_header, index_file_bytes
from tornlog.store.formats.messages import AppendMessageResult, GetMessageStatus, Message, PutMessageStatus
from tornlog.store.message_store import MessageStore
from tornlog.store.world import World

RECORD_BYTES = 113
LOG_BYTES = 65536
QUEUE_BYTES = 1000
GOLDEN = Path(__file__).parents[1] / "golden" / "4.9.8" / "killed.tar.gz"


def golden_geometry(root: str) -> StoreConfig:
    return StoreConfig(
        root,
        mapped_file_size_commit_log=LOG_BYTES,
        mapped_file_size_consume_queue=QUEUE_BYTES,
        max_hash_slot_num=100,
        max_index_num=400,
    )


CONFIG = golden_geometry("/store")


class Lives:
    """A store on a simulated disk that runs several lives. The test can change the disk between two lives."""

    def __init__(self, lab: Callable[..., Any]) -> None:
        self.image: Image | None = None
        self._lab = lab

    def load(self, body: Callable[[MessageStore], Any]) -> Any:
        """Load the store, run body, and close the store without starting it."""
        return self._live(body, starts=False, abruptly=True)

    def run(self, body: Callable[[MessageStore], Any], *, killed: bool = False) -> Any:
        """Load and start the store, run body until all is dispatched, and shut it down or kill it."""
        return self._live(body, starts=True, abruptly=killed)

    def _live(self, body: Callable[[MessageStore], Any], *, starts: bool, abruptly: bool) -> Any:
        bench = self._lab(self.image)

        def life(world: World) -> Any:
            store = MessageStore(world, CONFIG)
            store.load()
            if starts:
                store.start()
            result = body(store)
            while starts and store.dispatch_behind_bytes:
                world.tasks.sleep(1)
            if not abruptly:
                assert store.shutdown()
            return result

        result = bench.run(life)
        self.image = bench.switch_off(abruptly=abruptly)
        return result

    def write(self, path: str, content: bytes, at: int = 0) -> None:
        """Write to a file, which is created if missing."""
        assert self.image is not None
        old = self.image.files[path].content if path in self.image.files else b""
        new = old[:at] + content + old[at + len(content) :]
        directory, directories = path.rpartition("/")[0], set(self.image.directories)
        while directory:
            directories.add(directory)
            directory = directory.rpartition("/")[0]
        self.image = Image({**self.image.files, path: FileImage(new, 0)}, tuple(directories))

    def remove(self, directory: str) -> None:
        """Remove a directory and its content."""
        assert self.image is not None
        files = {path: file for path, file in self.image.files.items() if not path.startswith(f"{directory}/")}
        others = [path for path in self.image.directories if not f"{path}/".startswith(f"{directory}/")]
        self.image = Image(files, tuple(others))

    def below(self, directory: str) -> dict[str, bytes]:
        """Return the content of every file below a directory."""
        assert self.image is not None
        files = self.image.files.items()
        return {path: file.content for path, file in files if path.startswith(f"{directory}/")}


@pytest.fixture
def lives(lab: Callable[..., Any]) -> Lives:
    return Lives(lab)


def put(
    store: MessageStore, topic: str = "TT", key: str = "k1", body: bytes = b"body 1", **more: str
) -> AppendMessageResult:
    """Put one message. By default its record has 113 bytes."""
    result = store.put_message(Message.create(topic, body, tags="B", keys=key, properties=more))
    assert result.status is PutMessageStatus.PUT_OK
    assert result.append is not None
    assert more or result.append.wrote_bytes == RECORD_BYTES
    return result.append


def put_all(*topics: str) -> Callable[[MessageStore], list[AppendMessageResult]]:
    return lambda store: [put(store, topic, f"k{number % 10}") for number, topic in enumerate(topics)]


def bodies(store: MessageStore, topic: str = "TT") -> list[bytes]:
    """Return the six bytes of body of every message of a queue."""
    pulled = store.get_message(topic, 0, store.get_min_offset_in_queue(topic, 0))
    return [raw[88:94] for raw in pulled.records]


def queue_bounds(store: MessageStore, topic: str) -> tuple[int, int]:
    return store.get_min_offset_in_queue(topic, 0), store.get_max_offset_in_queue(topic, 0)


def test_a_record_that_no_segment_can_hold_is_refused(lives: Lives) -> None:
    # RocketMQ: PUT_OK with the append status END_OF_FILE, two segments used, no message stored.
    def body(store: MessageStore) -> None:
        put(store)
        refused = store.put_message(Message.create("TT", bytes(70 * 1024)))

        assert refused.status is PutMessageStatus.MESSAGE_ILLEGAL
        assert store.max_phy_offset == RECORD_BYTES
        assert put(store).wrote_offset == RECORD_BYTES

    lives.run(body)


def test_rebuilt_delay_queue_entries_have_delivery_times(lives: Lives) -> None:
    # RocketMQ: the entry's code is the hash of the tags, 66.
    stored_ms = lives.run(lambda store: put(store, DELAY="5").store_timestamp_ms, killed=True)
    lives.remove("/store/consumequeue")

    def body(store: MessageStore) -> None:
        assert queue_bounds(store, "TT") == (-1, 0)
        queue = store.queues.find(SCHEDULE_TOPIC, 4)
        assert queue is not None
        assert queue.max_offset == 1

    lives.load(body)
    [content] = lives.below(f"/store/consumequeue/{SCHEDULE_TOPIC}/4").values()

    assert tags_code("B") == 66
    assert decode_entry(memoryview(content), 0).tags_code == stored_ms + 60_000


def test_a_queue_file_of_zeros_contains_no_message(lives: Lives) -> None:
    # RocketMQ: the queue's max is 1 after the load, the two puts get 1 and 2, and a pull from 0 finds 3 messages.
    lives.run(put_all("TT", "TT", "TT"))
    lives.write("/store/consumequeue/ZZ/0/00000000000000000000", bytes(QUEUE_BYTES))

    def body(store: MessageStore) -> list[int]:
        assert store.get_max_offset_in_queue("ZZ", 0) == 0
        return [put(store, "ZZ").queue_offset, put(store, "ZZ").queue_offset]

    assert lives.run(body) == [0, 1]
    pulled = lives.load(lambda store: store.get_message("ZZ", 0, 0))
    assert (pulled.status, len(pulled.records)) == (GetMessageStatus.FOUND, 2)
    assert pulled.buffer_total_bytes == 2 * RECORD_BYTES


def test_records_after_a_truncation_by_recovery_do_not_reappear(lives: Lives) -> None:
    # RocketMQ: the log ends at 113 after the first load, at 452 after the second: records 3 and 4 are back.
    lives.run(put_all("TT", "TT", "TT", "TT"), killed=True)
    lives.write("/store/commitlog/00000000000000000000", bytes(4), at=RECORD_BYTES + 4)

    def body(store: MessageStore) -> None:
        assert store.max_phy_offset == RECORD_BYTES
        assert put(store, body=b"body 2").wrote_offset == RECORD_BYTES

    lives.run(body, killed=True)

    def after(store: MessageStore) -> None:
        assert store.max_phy_offset == 2 * RECORD_BYTES
        assert queue_bounds(store, "TT") == (0, 2)
        assert bodies(store) == [b"body 1", b"body 2"]

    lives.load(after)


def test_entries_lost_in_the_middle_of_a_queue_are_rebuilt(lives: Lives) -> None:
    # RocketMQ: records 2 and 3 never reappear in the queue, and the new one gets queue offset 1.
    lives.run(put_all("TA", "TA", "TA", "TB"))
    lives.write("/store/consumequeue/TA/0/00000000000000000000", bytes(2 * ENTRY_BYTES), at=ENTRY_BYTES)

    assert lives.run(lambda store: put(store, "TA", "k4").queue_offset) == 3

    def after(store: MessageStore) -> None:
        pulled = store.get_message("TA", 0, 0)
        assert pulled.queue_offsets == [0, 1, 2, 3]
        assert pulled.physical_offsets == [0, 113, 226, 452]
        now_ms = store.world.clock.now_ms()
        for key, at in (("k0", 0), ("k1", 113), ("k2", 226), ("k4", 452)):
            assert store.query_message("TA", key, 32, 0, now_ms).physical_offsets == [at]

    lives.load(after)


@pytest.mark.parametrize("killed", [False, True])
def test_blank_entries_without_a_record_are_dropped_if_the_log_is_complete(lives: Lives, killed: bool) -> None:
    # RocketMQ: the puts get queue offsets 5 and 6 and are never dispatched; a pull answers MESSAGE_WAS_REMOVING.
    lives.run(put_all("TT"))
    blank = bytes(8) + b"\x7f\xff\xff\xff" + bytes(8)
    lives.write("/store/consumequeue/ZB/0/00000000000000000000", (5 * blank).ljust(QUEUE_BYTES, b"\0"))

    assert [one.queue_offset for one in lives.run(put_all("ZB", "ZB"), killed=killed)] == [0, 1]

    def after(store: MessageStore) -> None:
        assert queue_bounds(store, "ZB") == (0, 2)
        assert store.get_message("ZB", 0, 0).queue_offsets == [0, 1]

    lives.load(after)


def test_a_store_loads_with_an_empty_file_at_the_end_of_its_log(lives: Lives) -> None:
    # RocketMQ: the load fails.
    lives.run(put_all("TT"))
    lives.write("/store/commitlog/00000000000000065536", b"")
    assert lives.run(lambda store: put(store).queue_offset) == 1
    assert all(len(content) == LOG_BYTES for content in lives.below("/store/commitlog").values())


def test_undamaged_queues_are_not_changed_after_a_kill(lives: Lives) -> None:
    # RocketMQ: the load fails too.
    lives.run(put_all(*["TT"] * 60, "TB"), killed=True)
    left = lives.below("/store/consumequeue")
    assert lives.load(lambda store: store.get_max_offset_in_queue("TT", 0)) == 60
    assert lives.below("/store/consumequeue") == left
    assert len(left) == 3


def test_the_last_record_of_a_full_index_file_is_not_indexed_again(
    tmp_path: Path, loaded: Callable[..., MessageStore]
) -> None:
    # RocketMQ: the second file is deleted and rebuilt with the seven keys of the record at 8712: 43 instead of 36.
    with tarfile.open(GOLDEN) as tar:
        tar.extractall(tmp_path, filter="data")
    index = tmp_path / "gkill" / "index"
    full, partial = sorted(index.iterdir())
    of_full, of_partial = full.read_bytes(), partial.read_bytes()
    loaded(golden_geometry(str(tmp_path / "gkill")))
    kept, rebuilt = sorted(index.iterdir())

    assert (kept.name, kept.read_bytes()) == (full.name, of_full)
    assert decode_header(memoryview(of_full)).end_physical_offset == 8712
    assert decode_header(memoryview(rebuilt.read_bytes())).next_entry == 36
    assert keys_of(rebuilt.read_bytes()) == keys_of(of_partial)
    assert 8712 not in [physical_offset for _, physical_offset in keys_of(rebuilt.read_bytes())]


def keys_of(content: bytes) -> list[tuple[int, int]]:
    """Return hash and record of every entry of an index file."""
    view = memoryview(content)
    entries = range(1, decode_header(view).next_entry)
    return [decode_index_entry(view, index_file_bytes(100, number))[:2] for number in entries]
