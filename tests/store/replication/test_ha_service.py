"""Replication over real sockets: data, answers to puts, failures and recovery."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tornlog.store.config import BrokerRole, FlushDiskType
from tornlog.store.errors import DivergedError
from tornlog.store.formats.messages import GetMessageStatus, PutMessageStatus
from tornlog.store.replication.ha_client import HAClient
from tornlog.store.replication.ha_service import HAConnection, HAService

from .conftest import SEGMENT_BYTES, Connect, Node, eventually, log_bytes, put, put_all

Start = Callable[..., Node]


def wait_until_caught_up(slave: Node, master: Node) -> None:
    end = master.store.log.max_offset
    eventually(lambda: slave.store.log.max_offset == end, f"{end}: {slave.client_state}")


def started_slave(node: Start, master: Node, name: str = "slave", **settings: object) -> Node:
    """Start a slave and wait for its connection to the master."""
    known = len(master.ha.connections)
    slave = node(name, BrokerRole.SLAVE, master, **settings)
    eventually(lambda: [each.reported_offset >= 0 for each in master.ha.connections][known:] == [True], "a report")
    return slave


def test_a_slave_receives_the_whole_log_in_the_same_segments(node: Start, master: Node) -> None:
    slave = started_slave(node, master)
    put_all(master.store, range(60))
    wait_until_caught_up(slave, master)

    assert len(master.store.log.segments) > 3
    assert log_bytes(slave.store) == log_bytes(master.store)
    assert [each.base_offset for each in slave.store.log.segments] == [
        each.base_offset for each in master.store.log.segments
    ]


def test_a_slave_answers_pulls_and_queries_and_refuses_puts(node: Start, master: Node) -> None:
    slave = started_slave(node, master)
    put_all(master.store, range(20))
    wait_until_caught_up(slave, master)
    eventually(lambda: slave.store.get_max_offset_in_queue("T", 0) == 20, "dispatch")
    found = slave.store.get_message("T", 0, 0, 20)

    assert found.status is GetMessageStatus.FOUND
    assert found.records == master.store.get_message("T", 0, 0, 20).records
    assert len(slave.store.query_message("T", "k7", 32, 0, 1 << 62).records) == 1
    assert put(slave.store, 0).status is PutMessageStatus.SERVICE_NOT_AVAILABLE


def test_a_put_on_a_sync_master_waits_for_the_slave(node: Start, sync_master: Node) -> None:
    slave = started_slave(node, sync_master)
    results = [put(sync_master.store, number) for number in range(10)]

    assert [result.status for result in results] == [PutMessageStatus.PUT_OK] * 10
    assert log_bytes(slave.store) == log_bytes(sync_master.store)


def test_a_sync_master_without_a_slave_stores_the_message(sync_master: Node) -> None:
    result = put(sync_master.store, 0)

    assert result.status is PutMessageStatus.SLAVE_NOT_AVAILABLE
    assert result.is_stored
    assert put(sync_master.store, 1, wait=False).status is PutMessageStatus.PUT_OK


TIMEOUT, UNAVAILABLE = PutMessageStatus.FLUSH_SLAVE_TIMEOUT, PutMessageStatus.SLAVE_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"flush_disk_type": FlushDiskType.ASYNC_FLUSH}, [TIMEOUT, TIMEOUT]),
        ({"flush_disk_type": FlushDiskType.SYNC_FLUSH}, [TIMEOUT, TIMEOUT]),
        ({"ha_slave_fallbehind_max": 1000}, [TIMEOUT, UNAVAILABLE]),
    ],
)
def test_a_put_waits_for_an_unresponsive_slave_until_timeout_or_limit(
    node: Start, connect: Connect, settings: dict[str, object], expected: list[PutMessageStatus]
) -> None:
    master = node("master", BrokerRole.SYNC_MASTER, slave_timeout_ms=50, **settings)
    connect(master).send(bytes(8), 30_000)
    eventually(lambda: any(each.reported_offset == 0 for each in master.ha.connections), "a report")
    results = [put(master.store, number, 600) for number in range(2)]

    assert [result.status for result in results] == expected
    assert all(result.is_stored for result in results)


def test_an_empty_slave_starts_at_the_last_segment(node: Start, master: Node) -> None:
    put_all(master.store, range(60))
    slave = node("slave", BrokerRole.SLAVE, master)
    wait_until_caught_up(slave, master)
    last = master.store.log.segments[-1]

    assert slave.store.min_phy_offset == last.base_offset > 0
    assert log_bytes(slave.store) == bytes(last.file.view(0, last.readable.get()))
    for each in (master, slave):
        eventually(lambda store=each.store: store.get_max_offset_in_queue("T", 0) == 60, "dispatch")
    found = slave.store.get_message("T", 0, slave.store.get_min_offset_in_queue("T", 0), 32)
    assert found.records == master.store.get_message("T", 0, found.queue_offsets[0], 32).records
    slave.stop()

    again = node("slave", BrokerRole.SLAVE, master)
    put(master.store, 60)
    wait_until_caught_up(again, master)
    assert again.store.min_phy_offset == last.base_offset


def test_an_empty_slave_gets_the_last_segment_even_if_it_ends_in_a_blank_record(node: Start, master: Node) -> None:
    put_all(master.store, range(30))
    directory, last = Path(master.config.commit_log_directory), master.store.log.segments[-1].base_offset
    assert master.stop()
    for path in directory.iterdir():
        if int(path.name) >= last:
            path.write_bytes(bytes(SEGMENT_BYTES))
    again = node("master", BrokerRole.ASYNC_MASTER)
    assert again.store.log.max_offset == last
    slave = node("slave", BrokerRole.SLAVE, again)
    (file,) = [each for each in again.store.log.segments if each.end_offset == last]

    eventually(lambda: file.base_offset < slave.store.log.max_offset < last, slave.client_state)
    assert slave.store.min_phy_offset == file.base_offset > 0
    put(again.store, 30)
    wait_until_caught_up(slave, again)


def test_a_restarted_slave_continues(node: Start, master: Node) -> None:
    slave = started_slave(node, master)
    put_all(master.store, range(20))
    wait_until_caught_up(slave, master)
    assert slave.stop()
    put_all(master.store, range(20, 40))
    again = node("slave", BrokerRole.SLAVE, master)
    wait_until_caught_up(again, master)

    assert log_bytes(again.store) == log_bytes(master.store)
    eventually(lambda: again.client_state == "following", "following")


def test_a_slave_follows_a_restarted_master(node: Start, master: Node) -> None:
    slave = node("slave", BrokerRole.SLAVE, master)
    put(master.store, 0)
    wait_until_caught_up(slave, master)
    assert master.stop()
    back = node("master", BrokerRole.ASYNC_MASTER)
    put(back.store, 1)
    slave.ha.update_master_address(back.ha.address)
    wait_until_caught_up(slave, back)

    assert log_bytes(slave.store) == log_bytes(back.store)


def test_a_blank_record_is_sent_only_with_the_next_record(
    node: Start, master: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    slave = node("slave", BrokerRole.SLAVE, master, ha_send_heartbeat_interval_ms=20)
    put(master.store, 0, 2000)
    wait_until_caught_up(slave, master)
    end = slave.store.log.max_offset
    with monkeypatch.context() as without_room:
        without_room.setattr(master.store.commit_log.allocate, "take_segment", lambda base_offset: None)
        refused = put(master.store, 1, 2000)
    assert refused.status is PutMessageStatus.CREATE_MAPEDFILE_FAILED
    assert master.store.log.max_offset == SEGMENT_BYTES
    assert master.stop()

    back = node("master", BrokerRole.ASYNC_MASTER)
    assert back.store.log.max_offset == end, "recovery cuts the blank"
    assert slave.store.log.max_offset == end, "the slave has never had it"
    put(back.store, 2)  # at the position of the blank
    put(back.store, 3, 2000)
    slave.ha.update_master_address(back.ha.address)
    wait_until_caught_up(slave, back)
    assert log_bytes(slave.store) == log_bytes(back.store)


def test_a_slave_that_lost_all_records_of_its_last_segment_drops_the_blank_record_before_it(
    node: Start, master: Node
) -> None:
    slave = started_slave(node, master)
    put(master.store, 0, 2000)
    put(master.store, 1, 2000)
    wait_until_caught_up(slave, master)
    end = slave.store.log.segments[0].blank_from
    assert slave.stop()
    (Path(slave.config.commit_log_directory) / f"{SEGMENT_BYTES:020}").write_bytes(bytes(SEGMENT_BYTES))

    again = node("slave", BrokerRole.SLAVE, master)
    assert 0 < end < SEGMENT_BYTES
    assert again.store.last_recovery is not None
    assert again.store.last_recovery.end_offset == end
    wait_until_caught_up(again, master)
    assert log_bytes(again.store) == log_bytes(master.store)


def test_the_batch_size_may_split_records_anywhere(node: Start) -> None:
    master = node("master", BrokerRole.SYNC_MASTER, ha_transfer_batch_size=7)
    slave = started_slave(node, master)
    statuses = {put(master.store, number).status for number in range(30)}

    assert statuses == {PutMessageStatus.PUT_OK}
    assert log_bytes(slave.store) == log_bytes(master.store)


def test_a_sync_flush_slave_reports_durable_offsets(node: Start) -> None:
    master = node("master", BrokerRole.SYNC_MASTER, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    slave = started_slave(node, master, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    for number in range(10):
        result = put(master.store, number)
        assert result.status is PutMessageStatus.PUT_OK
        assert result.append is not None
        end = result.append.wrote_offset + result.append.wrote_bytes
        assert slave.store.log.flushed_where.get() >= end


def test_a_slave_ahead_of_the_master_diverges_and_is_not_counted(node: Start, master: Node) -> None:
    slave = started_slave(node, master)
    put_all(master.store, range(8))
    wait_until_caught_up(slave, master)
    slave.stop()
    other = node("other", BrokerRole.SYNC_MASTER)
    put(other.store, 0)
    longer = node("slave", BrokerRole.SLAVE, other)
    eventually(lambda: longer.client_state.startswith("diverged"), "divergence")
    before = log_bytes(longer.store)

    assert put(other.store, 1).status is PutMessageStatus.SLAVE_NOT_AVAILABLE
    assert log_bytes(longer.store) == before
    assert "bytes from offset" in longer.client_state


def test_a_slave_with_another_history_diverges(node: Start, master: Node) -> None:
    slave = started_slave(node, master)
    put_all(master.store, range(3))
    wait_until_caught_up(slave, master)
    slave.stop()
    other = node("other", BrokerRole.SYNC_MASTER)
    put_all(other.store, range(100, 110))
    diverged = node("slave", BrokerRole.SLAVE, other)
    eventually(lambda: diverged.client_state.startswith("diverged"), "divergence")

    assert "as in this log" in diverged.client_state
    diverged.ha.update_master_address(master.ha.address)
    put(master.store, 3)
    wait_until_caught_up(diverged, master)
    assert log_bytes(diverged.store) == log_bytes(master.store)


def test_waiting_puts_are_answered_when_replication_stops(node: Start, sync_master: Node) -> None:
    slave = started_slave(node, sync_master)
    slave.ha.shutdown()
    eventually(lambda: not sync_master.ha.connections, "the end of the connection")
    assert slave.store.shutdown()
    slave.runs = False

    assert put(sync_master.store, 0).status is PutMessageStatus.SLAVE_NOT_AVAILABLE


def test_runtime_info_has_slaves_and_replication_client_state(node: Start, master: Node) -> None:
    slave = node("slave", BrokerRole.SLAVE, master)
    put(master.store, 0)
    wait_until_caught_up(slave, master)
    end = master.store.log.max_offset
    eventually(lambda: master.ha.connections[0].reported_offset == end, "the report")
    (told,) = [value for key, value in master.ha.runtime_info().items() if key.startswith("haSlave_")]

    assert told == f"{end},{end}"
    assert slave.ha.runtime_info()["haClientState"] == "following"
    assert slave.ha.runtime_info()["haMasterAddress"] == master.ha.address


def test_another_segment_size_is_reported_as_divergence(node: Start, master: Node) -> None:
    put_all(master.store, range(60))
    slave = node("slave", BrokerRole.SLAVE, master, mapped_file_size_commit_log=16_384)
    eventually(lambda: slave.client_state.startswith("diverged"), "divergence")

    assert slave.store.log.max_offset == 0


def test_two_slaves_follow_one_master(node: Start, sync_master: Node) -> None:
    slaves = [started_slave(node, sync_master, name) for name in ("one", "two")]
    put_all(sync_master.store, range(20))
    for slave in slaves:
        wait_until_caught_up(slave, sync_master)
        assert log_bytes(slave.store) == log_bytes(sync_master.store)


def test_committed_buffers_of_a_transient_pool_are_replicated(node: Start) -> None:
    master = node(
        "master",
        BrokerRole.SYNC_MASTER,
        transient_store_pool_enable=True,
        transient_store_pool_size=3,
        commit_interval_commit_log_ms=10,
        commit_commit_log_least_pages=0,
    )
    slave = started_slave(node, master)

    assert {put(master.store, number).status for number in range(5)} == {PutMessageStatus.PUT_OK}
    assert log_bytes(slave.store) == log_bytes(master.store)
    assert replace(master.config).is_transient_store_pool_effective


def test_an_invalid_master_address_does_not_end_the_replication_client(node: Start, master: Node) -> None:
    slave = node("slave", BrokerRole.SLAVE, ha_master_address="nonsense")
    eventually(lambda: "expected host:port" in slave.client_state, "the reason")
    slave.ha.update_master_address(master.ha.address)
    put(master.store, 0)
    wait_until_caught_up(slave, master)


def test_a_slave_with_an_unused_segment_starts_at_the_last_segment(node: Start) -> None:
    empty = node("empty", BrokerRole.ASYNC_MASTER)
    slave = node("slave", BrokerRole.SLAVE, empty)
    assert slave.store.commit_log.append_replicated(0, b"", 0)
    master = node("master", BrokerRole.ASYNC_MASTER)
    put_all(master.store, range(40))
    slave.ha.update_master_address(master.ha.address)
    wait_until_caught_up(slave, master)

    assert slave.store.min_phy_offset == master.store.log.segments[-1].base_offset > 0
    assert slave.stop()
    again = node("slave", BrokerRole.SLAVE, master)
    wait_until_caught_up(again, master)


def test_a_stop_waits_for_the_tasks_of_an_ending_connection(node: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    on_closed, ending = HAService._on_closed, threading.Event()

    def on_closed_slowly(self: HAService, connection: HAConnection) -> None:
        ending.set()
        time.sleep(0.3)
        on_closed(self, connection)

    monkeypatch.setattr(HAService, "_on_closed", on_closed_slowly)
    master = node("master", BrokerRole.ASYNC_MASTER)
    slave = started_slave(node, master)
    (connection,) = master.ha.connections
    slave.ha.shutdown()
    assert ending.wait(60)
    master.ha.shutdown()

    assert [task.join(0) for task in connection._tasks] == [True, True]


def test_a_slave_has_the_whole_log_after_a_stop_under_load(node: Start, master: Node) -> None:
    slave, is_loaded = started_slave(node, master), threading.Event()

    def put_until_refused() -> None:
        number = 0
        while put(master.store, number).is_stored:
            number += 1
            if number == 50:
                is_loaded.set()

    producer = threading.Thread(target=put_until_refused)
    producer.start()
    assert is_loaded.wait(60)
    assert master.stop()
    producer.join(60)

    assert slave.store.log.max_offset == master.store.log.put_offset


def test_a_stop_does_not_wait_for_a_slave_that_reports_nothing(
    node: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tornlog.store.replication.ha_service.HANDOVER_MS_MAX", 50)
    master = node("master", BrokerRole.ASYNC_MASTER)
    put(master.store, 0)
    connect(master).send(bytes(8), 30_000)
    eventually(lambda: any(each.reported_offset == 0 for each in master.ha.connections), "a report")

    assert master.stop()


class OldConnection:
    remote_address = "old:1"

    def close(self) -> None: ...


def test_divergence_from_an_old_master_does_not_affect_the_new_one(
    node: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    slave = node("slave", BrokerRole.SLAVE)
    client = HAClient(slave.store)
    client.master_address = "old:1"

    def changed_meanwhile(*_: object) -> None:
        client.update_master_address("new:1")
        raise DivergedError(1, "this", "that")

    monkeypatch.setattr(client, "_receive_stream", changed_meanwhile)
    client._replicate_from(OldConnection(), None, "old:1")
    assert client.diverged is None

    client.update_master_address("old:1")
    monkeypatch.setattr(client, "_receive_stream", lambda *_: (_ for _ in ()).throw(DivergedError(1, "this", "that")))
    client._replicate_from(OldConnection(), None, "old:1")
    assert client.diverged is not None
