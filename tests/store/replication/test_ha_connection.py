"""A master with slaves that send false, malformed or no reports."""

import threading
from collections.abc import Callable

import pytest

from tornlog.store.config import BrokerRole
from tornlog.store.formats.replication import FRAME_HEADER_BYTES, FrameHeader, decode_frame_header, encode_report
from tornlog.store.network import Connection
from tornlog.store.replication import ha_service

from .conftest import SEGMENT_BYTES, Connect, Node, eventually, log_bytes, put_all

Start = Callable[..., Node]


def receive(connection: Connection, size_bytes: int) -> bytes:
    received = b""
    while len(received) < size_bytes:
        more = connection.receive(size_bytes - len(received), 5000)
        assert more, "the master ended it"
        received += more
    return received


def next_header(connection: Connection) -> FrameHeader:
    raw = receive(connection, FRAME_HEADER_BYTES)
    return decode_frame_header(raw, SEGMENT_BYTES, stream="s", position=0)


@pytest.fixture
def master(node: Start) -> Node:
    master = node("master", BrokerRole.ASYNC_MASTER, ha_transfer_batch_size=500)
    put_all(master.store, range(20))
    return master


def test_a_slave_that_reports_0_receives_the_last_segment(master: Node, connect: Connect) -> None:
    last = master.store.log.segments[-1].base_offset
    for report, begin in ((0, last), (100, 100), (last + 7, last + 7)):
        connection = connect(master)
        connection.send(encode_report(report), 30_000)
        header = next_header(connection)
        data = receive(connection, header.size_bytes)

        assert header.log_offset == begin
        assert data == log_bytes(master.store)[begin : begin + header.size_bytes]


def test_a_transfer_frame_has_at_most_the_batch_size_and_bytes_of_one_segment(master: Node, connect: Connect) -> None:
    connection = connect(master)
    connection.send(encode_report(SEGMENT_BYTES - 700), 30_000)
    headers = []
    for _ in range(3):
        headers.append(next_header(connection))
        receive(connection, headers[-1].size_bytes)

    assert headers == [
        FrameHeader(SEGMENT_BYTES - 700, 500),
        FrameHeader(SEGMENT_BYTES - 200, 200),
        FrameHeader(SEGMENT_BYTES, 500),
    ]


def test_a_slave_ahead_of_the_master_gets_the_end_of_the_log_and_is_disconnected(
    master: Node, connect: Connect
) -> None:
    end = master.store.log.max_offset
    connection = connect(master)
    connection.send(encode_report(end + 1), 30_000)

    assert next_header(connection) == FrameHeader(end, 0)
    assert connection.receive(1, 60_000) == b""
    eventually(lambda: not master.ha.connections, "the end of the connection")
    assert f"requested offset {end + 1}, but the log covers 0 to {end}" in master.ha.last_closed


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (1 << 40, "but was sent only the log up to"),
        (99, "reported 99 after 100"),
        ((1 << 64) - 1, "slave_offset: expected 0 or more, found -1"),
    ],
)
def test_an_impossible_slave_report_closes_the_connection(
    master: Node, connect: Connect, second: int, reason: str
) -> None:
    connection = connect(master)
    connection.send(encode_report(100), 30_000)
    connection.send(second.to_bytes(8, "big"), 30_000)
    eventually(lambda: reason in master.ha.last_closed, reason)


def test_a_silent_slave_is_closed(node: Start, connect: Connect) -> None:
    master = node("quiet", BrokerRole.ASYNC_MASTER, ha_housekeeping_interval_ms=50)
    connection = connect(master)

    assert connection.receive(1, 60_000) == b""
    eventually(lambda: "no report for 50 ms" in master.ha.last_closed, "the reason")


def test_an_idle_master_sends_heartbeats(node: Start, connect: Connect) -> None:
    master = node("idle", BrokerRole.ASYNC_MASTER, ha_send_heartbeat_interval_ms=20)
    connection = connect(master)
    connection.send(encode_report(0), 30_000)

    assert [next_header(connection) for _ in range(3)] == [FrameHeader(0, 0)] * 3


@pytest.mark.ci
def test_a_slave_that_never_reads_does_not_delay_others(node: Start, connect: Connect) -> None:
    master = node("master", BrokerRole.SYNC_MASTER, ha_housekeeping_interval_ms=2_000)
    deaf = connect(master)
    deaf.send(encode_report(0), 30_000)
    slave = node("slave", BrokerRole.SLAVE, master, ha_send_heartbeat_interval_ms=20)
    eventually(lambda: slave.client_state == "following", "following")
    put_all(master.store, range(30))
    eventually(lambda: log_bytes(slave.store) == log_bytes(master.store), "the same log")
    eventually(lambda: len(master.ha.connections) == 1, "the end of the deaf one")


def test_the_number_of_slaves_is_limited(node: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ha_service, "CONNECTIONS_MAX", 2)
    master = node("master", BrokerRole.ASYNC_MASTER)
    for _ in range(2):
        connect(master)
    eventually(lambda: len(master.ha.connections) == 2, "two slaves")
    third = connect(master)

    assert third.receive(1, 60_000) == b""


def test_joining_the_connections_waits_for_tasks_started_meanwhile(master: Node, connect: Connect) -> None:
    connect(master)
    eventually(lambda: len(master.ha.connections) == 1, "the slave")
    (connection,) = master.ha.connections
    eventually(lambda: len(connection._tasks) == 1, "its reader")
    joined: list[str] = []

    class Writer:
        def join(self, timeout_ms: int | None) -> bool:
            joined.append("writer")
            return True

    class Reader:
        def join(self, timeout_ms: int | None) -> bool:
            connection._tasks.append(Writer())  # type: ignore[arg-type]
            return True

    connection._tasks.append(Reader())  # type: ignore[arg-type]
    connection.close("test")
    connection.join()

    assert joined == ["writer"]
    del connection._tasks[1:]


def test_wake_ups_without_data_do_not_delay_heartbeats(node: Start, connect: Connect) -> None:
    master = node("master", BrokerRole.ASYNC_MASTER, ha_send_heartbeat_interval_ms=200)
    put_all(master.store, range(1))
    end, over = master.store.log.max_offset, threading.Event()

    def wake() -> None:
        while not over.wait(0.01):
            master.ha._wake_connections()

    waking = threading.Thread(target=wake)
    waking.start()
    try:
        connection = connect(master)
        connection.send(encode_report(end), 30_000)
        assert next_header(connection) == FrameHeader(end, 0)
    finally:
        over.set()
        waking.join()
