from collections.abc import Callable
from pathlib import Path
from struct import unpack
from threading import Event, Thread
from typing import Any

import pytest

from tornlog.reports.studies.latency.traffic import config_of
from tornlog.reports.studies.topics.here import RealGrowingFile
from tornlog.reports.studies.topics.partition_files import INDEX_EVERY_BYTES, GrowingFile, OpenFile
from tornlog.reports.studies.topics.partitioned_log import PartitionedLog
from tornlog.store.formats.message import decode_record
from tornlog.store.formats.messages import Message
from tornlog.store.formats.scan import scan_records
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import real_world


def opened_log(
    directory: Path, *, is_sync: bool = False, files: OpenFile = RealGrowingFile, **others: Any
) -> PartitionedLog:
    config = config_of("sync" if is_sync else "async", str(directory), others.pop("segment_bytes", 1 << 20), **others)
    log = PartitionedLog(real_world(), files, config, is_sync=is_sync)
    log.start()
    return log


class Watched:
    """Opens real files that count syncs, limit the bytes per write, and fail on demand."""

    def __init__(self, bytes_max: int = 1 << 30) -> None:
        self.bytes_max = bytes_max
        self.synced: list[str] = []
        self.fails = False
        self.on_sync: Callable[[], None] = lambda: None

    def __call__(self, path: str) -> "WatchedFile":
        return WatchedFile(path, RealGrowingFile(path), self)


class WatchedFile:
    def __init__(self, path: str, file: GrowingFile, watched: Watched) -> None:
        self._path, self._file, self._watched = path, file, watched
        self.read, self.close = file.read, file.close

    def write(self, at: int, data: bytes) -> int:
        return self._file.write(at, data[: self._watched.bytes_max])

    def sync(self) -> None:
        self._watched.on_sync()
        if self._watched.fails:
            raise OSError("the disk is gone")
        self._watched.synced.append(Path(self._path).name)
        self._file.sync()


def body(number: int) -> bytes:
    return f"{number:06d}".encode() * 100


def test_records_of_a_partition_are_consecutive(tmp_path: Path) -> None:
    log = opened_log(tmp_path)
    for number in range(30):
        log.put(Message.create(f"topic-{number % 3}", body(number), queue_id=number % 2))
    log.shutdown()

    for topic in range(3):
        for queue_id in range(2):
            path = tmp_path / f"topic-{topic}-{queue_id}" / f"{0:020d}.log"
            raw = memoryview(path.read_bytes())
            records = list(
                scan_records(raw, 0, len(raw), file=str(path), base_offset=0, check_crc=True)
            )  # the file of a partition can be scanned like a log
            mine = [number for number in range(30) if (number % 3, number % 2) == (topic, queue_id)]
            assert [record.queue_offset for record in records] == list(range(len(mine)))
            assert {(record.topic, record.queue_id) for record in records} == {(f"topic-{topic}", queue_id)}
            found = [
                decode_record(raw, record.physical_offset, file="", file_offset=record.physical_offset).body
                for record in records
            ]
            assert found == [body(number) for number in mine]


def test_a_record_has_the_same_bytes_as_in_the_shared_log(tmp_path: Path) -> None:
    message = Message.create("Orders", b"hello", tags="new", keys="order-1")
    log = opened_log(tmp_path / "partitions")
    log.put(message)
    log.shutdown()
    store = MessageStore(real_world(), config_of("async", str(tmp_path / "store"), 1 << 20))
    store.load()
    store.start()
    store.put_message(message)
    store.shutdown()
    mine = bytearray((tmp_path / "partitions" / "Orders-0" / f"{0:020d}.log").read_bytes())
    theirs = bytearray((tmp_path / "store" / "commitlog" / f"{0:020d}").read_bytes()[: len(mine)])
    for raw in (mine, theirs):
        raw[56:64] = bytes(8)  # the store time differs

    assert mine == theirs


def test_the_partition_index_has_one_entry_for_each_4_kib(tmp_path: Path) -> None:
    log = opened_log(tmp_path)
    for number in range(100):
        log.put(Message.create("T", body(number)))
    log.shutdown()
    raw = (tmp_path / "T-0" / f"{0:020d}.index").read_bytes()
    entries = [unpack(">ii", raw[at : at + 8]) for at in range(0, len(raw), 8)]
    size_bytes = (tmp_path / "T-0" / f"{0:020d}.log").stat().st_size // 100

    assert all(position == offset * size_bytes for offset, position in entries)
    gaps = [right[1] - left[1] for left, right in zip([(0, 0), *entries], entries, strict=False)]
    assert all(INDEX_EVERY_BYTES < gap <= INDEX_EVERY_BYTES + size_bytes for gap in gaps)
    assert len(entries) == 100 * size_bytes // (gaps[0])


def test_reads_start_at_any_offset_and_stop_at_the_limit_or_the_end(tmp_path: Path) -> None:
    log = opened_log(tmp_path)
    for number in range(200):
        log.put(Message.create("T", body(number)))

    def read(offset: int, most: int) -> list[bytes]:
        return [decode_record(raw, 0, file="", file_offset=0).body for raw in log.read("T", 0, offset, most)]

    for offset in (0, 1, 6, 7, 8, 99, 198, 199):
        assert read(offset, 32) == [body(number) for number in range(offset, min(offset + 32, 200))]
    assert read(200, 32) == []
    assert read(5, 1) == [body(5)]
    assert log.read("nobody", 3, 0, 32) == []
    log.shutdown()


def test_partitions_roll_over_and_are_read_across_segments(tmp_path: Path) -> None:
    log = opened_log(tmp_path, segment_bytes=5_000)
    for number in range(50):
        log.put(Message.create("T", body(number)))
    found: list[bytes] = []
    while records := log.read("T", 0, len(found), 32):
        found += [decode_record(raw, 0, file="", file_offset=0).body for raw in records]
    log.shutdown()
    names = sorted(path.name for path in (tmp_path / "T-0").glob("*.log"))

    assert found == [body(number) for number in range(50)]
    assert len(names) > 5
    assert all(path.stat().st_size <= 5_000 for path in (tmp_path / "T-0").glob("*.log"))
    assert names[1] == f"{int(names[1][:20]):020d}.log"
    assert int(names[1][:20]) == 5_000 // (600 + 91 + 1)


def test_a_record_larger_than_a_chunk_is_read_whole(tmp_path: Path) -> None:
    log = opened_log(tmp_path)
    large = bytes(range(256)) * 400
    for payload in (b"a", large, b"z"):
        log.put(Message.create("T", payload))

    bodies = [decode_record(raw, 0, file="", file_offset=0).body for raw in log.read("T", 0, 0, 32)]
    log.shutdown()
    assert bodies == [b"a", large, b"z"]


def test_short_writes_of_a_partition_are_continued(tmp_path: Path) -> None:
    log = opened_log(tmp_path, files=Watched(bytes_max=7))
    for number in range(20):
        log.put(Message.create("T", body(number)))

    bodies = [decode_record(raw, 0, file="", file_offset=0).body for raw in log.read("T", 0, 0, 32)]
    log.shutdown()
    assert bodies == [body(number) for number in range(20)]


def test_a_put_under_sync_flush_is_synced_before_it_returns(tmp_path: Path) -> None:
    files = Watched()
    log = opened_log(tmp_path, is_sync=True, files=files)
    for number in range(3):
        log.put(Message.create("T", body(number)))
        assert len(files.synced) == number + 1
        assert log.partition("T", 0).durable_bytes == log.partition("T", 0).end_bytes
    log.shutdown()
    assert set(files.synced) == {f"{0:020d}.log"}


def test_puts_into_one_partition_share_a_sync(tmp_path: Path) -> None:
    files, may_go_on = Watched(), Event()
    files.on_sync = lambda: None if may_go_on.wait(10) else pytest.fail("nobody let it go on")
    log = opened_log(tmp_path, is_sync=True, files=files)
    threads = [Thread(target=log.put, args=(Message.create("T", body(number)),)) for number in range(8)]
    for thread in threads:
        thread.start()
    partition = log.partition("T", 0)
    while not partition.segments or partition.segments[-1].next_offset < 8:
        pass
    may_go_on.set()
    for thread in threads:
        thread.join()
    log.shutdown()

    assert len(files.synced) <= 3  # one sync for the first put, and one or two shared by the others


def test_after_a_failed_sync_no_put_succeeds(tmp_path: Path) -> None:
    files = Watched()
    log = opened_log(tmp_path, is_sync=True, files=files)
    log.put(Message.create("T", body(0)))
    files.fails = True
    with pytest.raises(OSError, match="the disk is gone"):
        log.put(Message.create("T", body(1)))
    files.fails = False
    with pytest.raises(OSError, match="the durable end is unknown"):
        log.put(Message.create("T", body(2)))
    log.put(Message.create("Other", body(3)))
    log.shutdown()

    assert log.partition("T", 0).durable_bytes < log.partition("T", 0).end_bytes


def test_async_flush_syncs_partitions_with_many_dirty_pages_and_sometimes_all(tmp_path: Path) -> None:
    files = Watched()
    log = opened_log(tmp_path, files=files, flush_interval_commit_log_ms=100_000)
    for _ in range(40):
        log.put(Message.create("Busy", body(0)))
    log.put(Message.create("Idle", body(0)))

    log._flusher.flush(4)
    assert len(files.synced) == 1  # 40 records are 6 pages
    log._flusher.flush(0)
    assert len(files.synced) == 2
    log._flusher.flush(0)
    assert len(files.synced) == 2
    log.put(Message.create("Idle", body(0)))
    log.shutdown()
    assert len(files.synced) == 3
