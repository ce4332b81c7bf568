"""REP, check by check, on stores without a network."""

import struct
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tornlog.faults.disk.disk import Disk
from tornlog.scenarios.oracle.invariants import quiescence, rep
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.oracle.put_entry import PutEntry
from tornlog.scenarios.oracle.recovered import read_store
from tornlog.scenarios.oracle.replicas import MasterHistory, Replicas, ReportedRange, common_bytes, log_bytes
from tornlog.store.config import FlushDiskType, StoreConfig
from tornlog.store.formats.message import encode_blank
from tornlog.store.formats.messages import Message, PutMessageResult
from tornlog.store.formats.replication import FrameHeader
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import real_world


class Stores:
    """A master with five messages, and slaves with some bytes of its log."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._made: list[MessageStore] = []
        self.master = self._open("master")
        self.results = [self.master.put_message(Message.create("T", b"x" * 100, keys=f"k{n}")) for n in range(5)]
        self.data = log_bytes(self.master.log, 0, self.master.log.max_offset)
        self.history = MasterHistory()
        self.history.extend(self.master.log)

    def _open(self, name: str) -> MessageStore:
        config = StoreConfig(str(self._directory / name), mapped_file_size_commit_log=4096, message_index_enable=False)
        store = MessageStore(real_world(), config)
        store.load()
        store.start()
        self._made.append(store)
        return store

    def slave(self, data: bytes, first: int = 0) -> MessageStore:
        """Return a store with that data in its log from an offset on."""
        store = self._open(f"slave-{len(self._made)}")
        assert not data or store.commit_log.append_replicated(first, data, 0)
        return store

    def end_of(self, number: int) -> int:
        append = self.results[number].append
        assert append is not None
        return append.wrote_offset + append.wrote_bytes

    def close(self) -> None:
        for store in self._made:
            store.shutdown()


@pytest.fixture
def stores(tmp_path: Path) -> "Stores":
    return Stores(tmp_path)


@pytest.fixture(autouse=True)
def _closed(stores: Stores) -> object:
    yield
    stores.close()


def entry(result: PutMessageResult, *, wait: bool = True) -> PutEntry:
    return PutEntry("m0", "T", 0, "", b"x" * 100, b"KEYS\1k0", wait, 0, 1, result.status)


def unconfirmed_offsets(stores: Stores, number: int, data: bytes | None, *, wait: bool = True) -> list[int]:
    """Return the log offsets of violations in the answer to a put. Slaves may have reported some data, or none."""
    replicas = Replicas() if data is None else Replicas(held={"s": ReportedRange(0, data)})
    result = stores.results[number]
    found = rep.check_slave_acknowledged(stores.master, stores.history, replicas, entry(result, wait=wait), result)
    return [violation.offset for violation in found]


def test_an_acknowledged_put_must_be_in_a_report_of_a_slave(stores: Stores) -> None:
    start = stores.end_of(3)
    assert unconfirmed_offsets(stores, 4, stores.data) == []
    assert unconfirmed_offsets(stores, 4, stores.data[:start]) == [start]
    assert unconfirmed_offsets(stores, 4, stores.data[:-1] + b"?") == [start]
    assert unconfirmed_offsets(stores, 4, None) == [start]
    assert unconfirmed_offsets(stores, 4, None, wait=False) == []


def test_a_slave_report_counts_even_if_the_slave_lost_the_bytes_later(stores: Stores) -> None:
    replicas = Replicas(held={"s": ReportedRange(0, stores.data)})
    replicas.record_slave_crash("s", keeps_all=False, flushed_where=0)

    assert replicas.held["s"].data == b""
    assert not rep.check_slave_acknowledged(
        stores.master, stores.history, replicas, entry(stores.results[0]), stores.results[0]
    )


def test_a_slave_report_counts_even_if_a_failed_sync_reverted_the_bytes_on_the_master(stores: Stores) -> None:
    start = stores.end_of(3)
    zeros = bytes(len(stores.data) - start)
    stores.master.log.segments[0].file.store(start, zeros)

    assert unconfirmed_offsets(stores, 4, stores.data) == []
    assert unconfirmed_offsets(stores, 4, stores.data[:start] + zeros) == [start]


def test_bytes_that_were_never_sent_are_not_confirmed_by_a_slave(stores: Stores) -> None:
    append = stores.results[4].append
    assert append is not None
    stores.results[4] = stores.results[4]._replace(append=append._replace(wrote_offset=stores.end_of(4)))

    assert unconfirmed_offsets(stores, 4, stores.data) == [len(stores.data)]


def test_a_put_that_retention_has_removed_needs_no_slave_report(stores: Stores) -> None:
    stores.master = stores.slave(stores.data, 4096)

    assert unconfirmed_offsets(stores, 0, None) == []


@pytest.mark.parametrize(("born", "stored", "size_bytes"), [(4, 4, 8), (16, 4, 20), (4, 16, 20), (16, 16, 32)])
def test_hosts_and_timestamps_zeroed_by_a_crash_count_as_equal(born: int, stored: int, size_bytes: int) -> None:
    flags = (0x10 if born > 4 else 0) | (0x20 if stored > 4 else 0)
    fixed = 84 + size_bytes - 8
    log = struct.pack(">iiiii", fixed, 0x0DAA320A7 - (1 << 32), 1, 1, 1) + b"\x02" * 16
    log += struct.pack(">i", flags) + b"\x03" * (fixed - 40)
    torn = log[:36] + bytes(fixed - 36)

    assert common_bytes(log, 0, torn) == fixed
    assert common_bytes(log + b"\x04", 0, torn + b"\0") == fixed


def test_a_slave_log_that_is_no_prefix_of_the_master_log_is_reported_at_the_first_difference(stores: Stores) -> None:
    good = stores.slave(stores.data[: stores.end_of(2)])
    bad = stores.slave(stores.data[:200] + b"?" + stores.data[201:])

    assert not list(rep.check_prefix("s", good, stores.history))
    (violation,) = rep.check_prefix("s", bad, stores.history)
    assert violation.offset == 200


@pytest.mark.parametrize(("field", "is_seen"), [(range(16, 20), False), (range(36, 84), False), (range(8, 12), True)])
def test_zeros_in_unchecked_fields_do_not_count_as_another_history(stores: Stores, field: range, is_seen: bool) -> None:
    log = bytearray(stores.data)
    log[16:20] = b"\xff" * 4  # the first record's flag
    history = MasterHistory()
    history.logs = [bytes(log)]
    log[field.start : field.stop] = bytes(len(field))

    assert (history.first_difference_offset(0, bytes(log)) is not None) is is_seen


def test_data_that_the_master_lost_is_part_of_its_earlier_history(stores: Stores) -> None:
    longer = stores.slave(stores.data)
    shorter = stores.slave(stores.data[: stores.end_of(1)])
    stores.history.begin(shorter.log)

    assert stores.history.logs == [stores.data, stores.data[: stores.end_of(1)]]
    assert not list(rep.check_prefix("s", longer, stores.history))


def test_a_slave_log_mixed_from_two_histories_is_a_violation(stores: Stores) -> None:
    cut = stores.end_of(1)
    stores.history.logs = [stores.data[:cut] + b"a" * 500, stores.data]
    spliced = stores.slave(stores.data[:cut] + b"a" * 10 + stores.data[cut + 10 :])

    (violation,) = rep.check_prefix("s", spliced, stores.history)
    assert violation.offset == cut + 10


def test_a_slave_must_still_have_the_data_that_it_reported(stores: Stores) -> None:
    cut = stores.end_of(3)
    slave = stores.slave(stores.data[:cut])

    assert not list(rep.check_reported_data_kept("s", slave, ReportedRange(0, stores.data[:cut])))
    assert not list(rep.check_reported_data_kept("s", slave, None))
    (violation,) = rep.check_reported_data_kept("s", slave, ReportedRange(0, stores.data))
    assert violation.found == f"up to {cut}"


def test_a_slave_may_lose_the_blank_record_at_the_end_of_its_log(stores: Stores) -> None:
    cut = stores.end_of(3)
    slave = stores.slave(stores.data[:cut])
    blank = encode_blank(50) + bytes(42)

    assert not list(rep.check_reported_data_kept("s", slave, ReportedRange(0, stores.data[:cut] + blank)))
    assert list(rep.check_reported_data_kept("s", slave, ReportedRange(0, stores.data[:cut] + blank[:-1])))


def test_a_slave_must_follow_if_its_log_equals_that_of_the_master_and_report_divergence_otherwise(
    stores: Stores,
) -> None:
    fits = stores.slave(stores.data[: stores.end_of(2)])
    differs = stores.slave(b"?" + stores.data[1:])

    assert not list(rep.check_slave_settled("s", fits, stores.master, None, is_logged=True))
    assert list(rep.check_slave_settled("s", fits, stores.master, "because", is_logged=True))
    assert not list(rep.check_slave_settled("s", differs, stores.master, "because", is_logged=True))
    assert list(rep.check_slave_settled("s", differs, stores.master, None, is_logged=True))


def test_a_slave_whose_next_data_was_removed_by_retention_must_report_it(stores: Stores) -> None:
    master, slave = stores.slave(stores.data, 4096), stores.slave(stores.data[: stores.end_of(2)])

    assert list(rep.check_slave_settled("s", slave, master, None, is_logged=True))
    assert not list(rep.check_slave_settled("s", slave, master, "because", is_logged=True))


def test_data_removed_by_retention_is_part_of_the_history_of_the_master(stores: Stores) -> None:
    master, slave = stores.slave(stores.data, 4096), stores.slave(stores.data)
    stores.history.begin(master.log)

    assert not list(rep.check_prefix("s", slave, stores.history))
    assert len(stores.history.logs) == 1


def test_an_acknowledged_put_must_be_on_a_slave(stores: Stores) -> None:
    has, has_not = stores.slave(stores.data), stores.slave(b"")
    ledger = Ledger()
    put = replace(entry(stores.results[0]), properties=read_store(has).records[0].record.properties)
    unanswered = replace(entry(stores.results[0]), name="other", properties=b"KEYS\1other", status=None)
    ledger.record_request(put)
    ledger.record_request(unanswered)

    assert not list(rep.check_takeover(ledger, [read_store(has_not), read_store(has)]))
    (violation,) = rep.check_takeover(ledger, [read_store(has_not)])
    assert violation.invariant == "DUR"
    put.physical_offset, ledger.expired_to = 0, 1
    assert not list(rep.check_takeover(ledger, [read_store(has_not)]))


# -- sent data -------------------------------------------------------------------------------------


def test_a_master_under_sync_flush_may_send_only_durable_data(store: MessageStore, disk: Disk) -> None:
    sizes = []
    for number in range(2):
        append = store.put_message(Message.create("T0", b"x" * 100, keys=f"k{number}")).append
        assert append is not None
        sizes.append(append.wrote_bytes)
    end = sum(sizes)
    store.log.segments[0].file.store(end, b"not synced")
    frames = [FrameHeader(0, end), FrameHeader(sizes[0], sizes[1]), FrameHeader(end, 1), FrameHeader(0, end + 1)]
    assert [[found.found for found in rep.check_sent_frame(store, disk, frame)] for frame in frames] == [
        [],
        [],
        ["before it"],
        ["before it"],
    ]


def test_heartbeats_and_removed_data_are_not_checked_before_sending(store: MessageStore, disk: Disk) -> None:
    store.put_message(Message.create("T0", b"x" * 100, keys="k0"))
    store.log.segments[0].file.store(1_000, b"not synced")
    frames = [FrameHeader(1_000, 0), FrameHeader(9 * 2048, 10)]
    assert [found.summary for frame in frames for found in rep.check_sent_frame(store, disk, frame)] == []


def test_a_master_under_async_flush_may_send_all_of_its_log(store: MessageStore, disk: Disk) -> None:
    store.put_message(Message.create("T0", b"x" * 100, keys="k0"))
    store.log.segments[0].file.store(1_000, b"not synced")
    under_sync = [found.summary for found in rep.check_sent_frame(store, disk, FrameHeader(1_000, 10))]
    assert under_sync == ["a master sends data that is not durable"]
    store.config = replace(store.config, flush_disk_type=FlushDiskType.ASYNC_FLUSH)
    assert [found.summary for found in rep.check_sent_frame(store, disk, FrameHeader(1_000, 10))] == []


def test_a_master_must_keep_the_durable_data_that_it_sent(stores: Stores) -> None:
    end = len(stores.data)

    assert not list(rep.check_sent_data_kept(stores.master, 0))
    assert not list(rep.check_sent_data_kept(stores.master, end))
    (violation,) = rep.check_sent_data_kept(stores.master, end + 8)
    assert (violation.invariant, violation.offset, violation.found) == ("REP", end, str(end))


def test_a_slave_without_expired_data_waits_for_the_next_record_of_a_master_without_records(stores: Stores) -> None:
    slave = stores.slave(stores.data)
    log = SimpleNamespace(min_offset=4096, max_offset=4096, segments=(), segment_bytes=4096)
    master: Any = SimpleNamespace(log=log)

    assert not list(rep.check_slave_settled("s", slave, master, None, is_logged=True))
    assert not list(quiescence.replication_cursors("ha", "s", slave, master, [slave.log.max_offset], 0))


def test_a_slave_with_data_must_notice_an_empty_master(stores: Stores) -> None:
    slave = stores.slave(stores.data)
    master: Any = SimpleNamespace(log=SimpleNamespace(min_offset=0, max_offset=0, segments=(), segment_bytes=4096))
    log, report = quiescence.replication_cursors("ha", "s", slave, master, [], 0)
    assert (log.is_lagging, report.is_lagging) == (True, True), "until the slave reports a divergence"


def test_a_slave_may_lack_the_blank_record_at_the_end_of_its_masters_log(stores: Stores) -> None:
    end = len(stores.data)
    whole = stores.data + encode_blank(4096 - end) + bytes(4096 - end - 8)
    master = stores.slave(whole)
    behind: list[list[int]] = []
    for data in (whole, stores.data, stores.data[: stores.end_of(3)]):
        slave = stores.slave(data)
        cursors = quiescence.replication_cursors("ha", "s", slave, master, [slave.log.max_offset], 0)
        behind.append([cursor.end for cursor in cursors if cursor.is_lagging])

    assert behind == [[], [], [end, end]]


def test_a_slave_with_a_full_disk_may_remove_the_start_of_what_it_reported() -> None:
    replicas = Replicas({"s": ReportedRange(0, b"abcdef")})
    replicas.record_slave_retention("s", 4)

    assert replicas.held["s"] == ReportedRange(4, b"ef")
    assert replicas.has_been_reported(0, b"abcdef")


def test_a_slave_must_not_have_the_blank_record_at_the_end_of_its_log(stores: Stores) -> None:
    end = len(stores.data)
    whole = stores.data + encode_blank(4096 - end) + bytes(4096 - end - 8)

    assert not list(rep.check_last_blank("s", stores.slave(stores.data)))
    assert [violation.offset for violation in rep.check_last_blank("s", stores.slave(whole))] == [4096]


def test_a_slave_must_have_the_whole_log_of_a_master_that_stopped(stores: Stores) -> None:
    slave, end = stores.slave(stores.data), len(stores.data)

    assert not list(rep.check_handover("s", slave, end))
    assert not list(rep.check_handover("s", slave, 4096)), "only the blank record can be missing"
    (violation,) = rep.check_handover("s", slave, end + 1)
    assert (violation.expected, violation.found) == (str(end + 1), str(end))


def test_a_sync_flush_slave_must_begin_its_stream_within_its_durable_data(stores: Stores) -> None:
    slave = stores.slave(stores.data)
    behind = slave.log.max_offset + 1

    assert not list(rep.check_first_request("s", slave, behind))  # an ASYNC_FLUSH slave promises only its page cache
    slave.config = replace(slave.config, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    (found,) = rep.check_first_request("s", slave, behind)
    assert (found.invariant, found.field, found.found) == ("REP", "report", str(behind))
    assert not list(rep.check_first_request("s", slave, 1))
    assert not list(rep.check_first_request("s", slave, 0))
