"""Pieces of a log stream: a slave appends valid pieces and refuses all others."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tornlog.store.config import BrokerRole, StoreConfig
from tornlog.store.errors import DivergedError
from tornlog.store.formats.messages import Message
from tornlog.store.formats.replication import TransferPiece
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import real_world
from tornlog.store.replication.replica_log import ReplicaLog, last_record_offset

from .conftest import SEGMENT_BYTES, log_bytes, put

Opened = Callable[[str, BrokerRole], MessageStore]
EVERYTHING = 1 << 62
"""Durable end with which a slave never has to request an earlier position."""


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    stores: list[MessageStore] = []

    def open_(name: str, role: BrokerRole) -> MessageStore:
        config = StoreConfig(
            str(tmp_path / name),
            broker_role=role,
            mapped_file_size_commit_log=SEGMENT_BYTES,
            max_message_size=2048,
            message_index_enable=False,
        )
        store = MessageStore(real_world(), config)
        store.load()
        store.start()
        stores.append(store)
        return store

    yield open_
    for store in stores:
        store.shutdown()


@pytest.fixture
def master(opened: Opened) -> MessageStore:
    store = opened("master", BrokerRole.ASYNC_MASTER)
    for number in range(12):
        put(store, number)
    return store


@pytest.fixture
def slave(opened: Opened) -> MessageStore:
    return opened("slave", BrokerRole.SLAVE)


def transfer_bytes(log: ReplicaLog, data: bytes, begin: int, end: int, step: int = SEGMENT_BYTES) -> None:
    """Pass bytes of a log to a slave as a master does: in order, with bytes of only one file per piece."""
    while begin < end:
        room = SEGMENT_BYTES - begin % SEGMENT_BYTES
        cut = min(begin + min(step, room), end)
        log.compare_or_append(TransferPiece(begin, memoryview(data)[begin:cut]))
        begin = cut


@pytest.mark.parametrize("step", [1, 97, 1000, SEGMENT_BYTES])
def test_replicated_bytes_in_pieces_of_any_size_become_the_same_log(
    master: MessageStore, slave: MessageStore, step: int
) -> None:
    data, log = log_bytes(master), ReplicaLog(slave.commit_log)
    assert log.start_stream(EVERYTHING) == 0
    transfer_bytes(log, data, 0, len(data), step)

    assert log_bytes(slave) == data
    assert log.is_verified


def test_only_complete_records_are_appended(master: MessageStore, slave: MessageStore) -> None:
    data, log = log_bytes(master), ReplicaLog(slave.commit_log)
    first_bytes = int.from_bytes(data[:4], "big")
    log.start_stream(EVERYTHING)
    transfer_bytes(log, data, 0, first_bytes + 50)

    assert slave.log.max_offset == first_bytes
    transfer_bytes(log, data, first_bytes + 50, 2 * first_bytes + 10)
    assert slave.log.max_offset > first_bytes


def test_a_blank_record_is_appended_only_with_the_next_record(
    master: MessageStore, slave: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, log = log_bytes(master), ReplicaLog(slave.commit_log)
    closed, end = master.log.segments[0].blank_from, SEGMENT_BYTES
    following = end + int.from_bytes(data[end : end + 4], "big")
    log.start_stream(EVERYTHING)
    transfer_bytes(log, data, 0, following - 1, 100)
    assert slave.log.max_offset == closed < end

    with monkeypatch.context() as full:
        forbid_new_segments(slave, full)
        with pytest.raises(OSError, match="no segment"):
            transfer_bytes(log, data, following - 1, following)
    assert slave.log.max_offset == closed, "not even the blank record"
    transfer_bytes(log, data, log.start_stream(EVERYTHING), len(data), 100)
    assert log_bytes(slave) == data


def test_a_partial_record_is_dropped_and_requested_again(master: MessageStore, slave: MessageStore) -> None:
    data, log = log_bytes(master), ReplicaLog(slave.commit_log)
    second = int.from_bytes(data[:4], "big")
    log.start_stream(EVERYTHING)
    transfer_bytes(log, data, 0, second + 50)

    assert log.start_stream(EVERYTHING) == 1, (
        "of the record at 0 from its second byte on: 0 would mean that there is none"
    )
    transfer_bytes(log, data, 1, len(data))
    assert log_bytes(slave) == data


def test_a_slave_requests_its_last_record_again(master: MessageStore, slave: MessageStore) -> None:
    data, log = log_bytes(master), ReplicaLog(slave.commit_log)
    log.start_stream(EVERYTHING)
    transfer_bytes(log, data, 0, len(data))
    begin = ReplicaLog(slave.commit_log).start_stream(EVERYTHING)

    assert begin == last_record_offset(slave.log) == last_record_offset(master.log)
    assert 0 < begin < len(data)
    assert log.start_stream(EVERYTHING) == begin
    assert not log.is_verified


def test_a_slave_requests_no_more_than_its_durable_end(master: MessageStore, slave: MessageStore) -> None:
    data, log = log_bytes(master), ReplicaLog(slave.commit_log)
    assert log.start_stream(0) == 0
    transfer_bytes(log, data, 0, len(data))
    second = int.from_bytes(data[:4], "big")

    assert log.start_stream(0) == 1
    assert log.start_stream(second) == second
    transfer_bytes(log, data, second, len(data), 1000)
    assert log.is_verified
    assert log_bytes(slave) == data


@pytest.mark.parametrize("is_sector_end", [False, True])
def test_replicated_records_are_checked_for_torn_sectors_by_file_position(
    master: MessageStore, slave: MessageStore, *, is_sector_end: bool
) -> None:
    begin = master.log.max_offset
    master.put_message(Message.create("T", b"body", properties={"KEYS": "k" * 1_200}))
    data = bytearray(log_bytes(master))
    log = ReplicaLog(slave.commit_log)
    log.start_stream(EVERYTHING)
    transfer_bytes(log, bytes(data), 0, begin)
    again = log.start_stream(EVERYTHING)
    assert again % 512 != begin % 512

    key = data.index(b"k" * 1_200)
    # The byte before the end of a sector, and the byte where it would be if sectors began at the compared record.
    data[next(at for at in range(key, len(data)) if (at + 1 + (0 if is_sector_end else again - begin)) % 512 == 0)] = 0
    if is_sector_end:
        with pytest.raises(DivergedError, match="properties"):
            transfer_bytes(log, bytes(data), again, len(data))
    else:
        transfer_bytes(log, bytes(data), again, len(data))
        assert log_bytes(slave) == data


def begun_log(slave: MessageStore, data: bytes, end: int) -> tuple[ReplicaLog, int]:
    """Return a slave's log with the records before `end`, at the start of a new stream."""
    log = ReplicaLog(slave.commit_log)
    log.start_stream(EVERYTHING)
    transfer_bytes(log, data, 0, end)
    return log, log.start_stream(EVERYTHING)


def test_a_different_last_record_is_a_divergence(master: MessageStore, slave: MessageStore) -> None:
    data = log_bytes(master)
    log, begin = begun_log(slave, data, len(data))
    other = bytearray(data)
    other[begin + 56] ^= 1  # a bit of the store time

    with pytest.raises(DivergedError, match=f"log offset {begin + 56}: expected 0x.., as in this log, found 0x"):
        transfer_bytes(log, bytes(other), begin, len(data))
    assert log_bytes(slave) == data


def test_a_gap_in_the_stream_is_a_divergence(master: MessageStore, slave: MessageStore) -> None:
    data = log_bytes(master)
    log, begin = begun_log(slave, data, len(data))

    with pytest.raises(DivergedError, match=f"log offset {begin}: expected the next bytes of the master's log"):
        log.compare_or_append(TransferPiece(begin - 1, memoryview(b"")))


def test_idle_heartbeats_before_the_end_of_the_slave_log_mean_a_shorter_master(
    master: MessageStore, slave: MessageStore
) -> None:
    data = log_bytes(master)
    log, begin = begun_log(slave, data, len(data))
    log.compare_or_append(TransferPiece(begin, memoryview(b"")))

    with pytest.raises(DivergedError, match="the master's log is shorter, or begins later"):
        log.compare_or_append(TransferPiece(begin, memoryview(b"")))


def test_heartbeats_after_the_comparison_are_ignored(master: MessageStore, slave: MessageStore) -> None:
    data = log_bytes(master)
    log, begin = begun_log(slave, data, len(data))
    transfer_bytes(log, data, begin, len(data))
    for _ in range(5):
        assert not log.compare_or_append(TransferPiece(len(data), memoryview(b"")))


@pytest.mark.parametrize(
    ("at", "value", "expected"),
    [
        (4, 0x00, "a record's size and magic"),
        (0, 0x7F, "a record's size and magic"),
        (3, 0xFF, "."),
        (30, 0x01, "physicalOffset"),
        (9, 0xFF, "bodyCRC"),
        (300, 0x00, "bodyCRC"),
    ],
)
def test_an_invalid_record_is_never_appended(
    master: MessageStore, slave: MessageStore, at: int, value: int, expected: str
) -> None:
    data = bytearray(log_bytes(master))
    second = int.from_bytes(data[:4], "big")
    data[second + at] = value
    log = ReplicaLog(slave.commit_log)
    log.start_stream(EVERYTHING)
    transfer_bytes(log, bytes(data), 0, second)

    with pytest.raises(DivergedError, match=expected):
        transfer_bytes(log, bytes(data), second, len(data))
    assert slave.log.max_offset == second
    assert log_bytes(slave) == data[:second]


def test_an_empty_slave_starts_only_at_the_start_of_a_segment(slave: MessageStore) -> None:
    log = ReplicaLog(slave.commit_log)
    log.start_stream(EVERYTHING)

    with pytest.raises(DivergedError, match="a segment that begins here"):
        log.compare_or_append(TransferPiece(100, memoryview(b"x")))


def test_an_empty_log_has_no_last_record(slave: MessageStore) -> None:
    assert last_record_offset(slave.log) is None


def test_a_closed_log_is_not_appended_to(master: MessageStore, slave: MessageStore) -> None:
    data, log = log_bytes(master), ReplicaLog(slave.commit_log)
    log.start_stream(EVERYTHING)
    slave.commit_log.close()

    with pytest.raises(OSError, match="log offset 0: the log is closed, or no segment can be created"):
        transfer_bytes(log, data, 0, len(data))


def forbid_new_segments(store: MessageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store.commit_log.allocate, "take_segment", lambda *_: None)


@pytest.mark.parametrize("records", [1, 3])
def test_a_slave_that_cannot_create_a_segment_continues_later_at_the_same_record(
    master: MessageStore, slave: MessageStore, monkeypatch: pytest.MonkeyPatch, records: int
) -> None:
    data, log = log_bytes(master), ReplicaLog(slave.commit_log)
    log.start_stream(EVERYTHING)
    transfer_bytes(log, data, 0, SEGMENT_BYTES)
    last = log.start_stream(EVERYTHING)
    end = SEGMENT_BYTES
    for _ in range(records):
        end += int.from_bytes(data[end : end + 4], "big")

    with monkeypatch.context() as full:
        forbid_new_segments(slave, full)
        with pytest.raises(OSError, match="no segment"):
            transfer_bytes(log, data, last, end)

    assert log.start_stream(EVERYTHING) == last == last_record_offset(slave.log)
    transfer_bytes(log, data, last, len(data))
    assert log_bytes(slave) == data


def test_a_corrupt_record_before_the_last_record_is_a_divergence(master: MessageStore, slave: MessageStore) -> None:
    data, log = log_bytes(master), ReplicaLog(slave.commit_log)
    log.start_stream(EVERYTHING)
    transfer_bytes(log, data, 0, len(data))
    segment = slave.log.segments[-1]
    segment.file.store(4, bytes(4))  # clears the magic of the first record

    with pytest.raises(DivergedError, match=r"damage here: .*magicCode"):
        ReplicaLog(slave.commit_log).start_stream(EVERYTHING)
