"""Sockets: thousands of them, exhaustion of descriptors, and hostile TLS clients."""

import errno
import os
import resource
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tornlog.store.network import Connection, Listener, ListenOptions
from tornlog.store.real import network as real_network
from tornlog.store.real.network import OF_HOST_MAX, RealNetwork, SocketPoller
from tornlog.store.real.sockets import Deadline, find_addresses, join_address, split_address
from tornlog.store.real.tls import TlsSettings, TlsTrust

PATIENCE_MS = 30_000  # timeout of events that take no time on an idle machine
IDLE = 2_000


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def tls(certificates: Path) -> RealNetwork:
    return RealNetwork(tls=TlsSettings(str(certificates / "server.pem"), str(certificates / "server.key")))


def close_all(*things: Connection | Listener) -> None:
    for thing in things:
        thing.close()


def raw_client(listener: Listener) -> socket.socket:
    return socket.create_connection(split_address(listener.address), timeout=30)


def test_a_client_that_never_reads_uses_little_kernel_memory() -> None:
    listener = RealNetwork().listen("127.0.0.1:0")
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(split_address(listener.address))
    accepted = listener.accept(PATIENCE_MS)
    kept = 0
    with suppress(TimeoutError):
        while kept < 64 << 20:
            kept += accepted.send(bytes(1 << 16), 100)

    assert 0 < kept < 1 << 20
    close_all(accepted, listener)
    client.close()


def test_a_listener_has_the_backlog_and_the_buffers_of_its_options() -> None:
    listener = RealNetwork(options=ListenOptions(7, 20_000, 30_000)).listen("127.0.0.1:0")
    client = raw_client(listener)
    accepted = listener.accept(PATIENCE_MS)
    with listener.shared as listening, accepted.shared as served:
        info = listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        sizes = [served.getsockopt(socket.SOL_SOCKET, each) for each in (socket.SO_SNDBUF, socket.SO_RCVBUF)]

    assert struct.unpack_from("I", info, 28) == (7,)  # tcpi_sacked, the backlog of a listening socket
    assert sizes == [40_000, 60_000]  # Linux doubles them
    close_all(accepted, listener)
    client.close()


# Addresses


@pytest.mark.parametrize("address", ["127.0.0.1:80", "[::1]:80", "broker.example:0"])
def test_an_address_survives_splitting_and_joining(address: str) -> None:
    assert join_address(split_address(address)) == address


@pytest.mark.parametrize("address", ["", ":", "::1:80", "host", "host:", ":80", "host:٣", "host:99999", "host:1 "])
def test_an_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="address: expected"):
        split_address(address)


# Many


def test_idle_connections_do_not_slow_down_a_poller(opened: ExitStack) -> None:
    wanted = 2 * IDLE + 200
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
        opened.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
    network = RealNetwork()
    listener, poller = network.listen("127.0.0.1:0"), network.poller()
    opened.callback(listener.close)
    opened.callback(poller.close)
    ends: list[tuple[Connection, Connection]] = []

    def connect() -> None:
        client = network.connect(listener.address, PATIENCE_MS)
        server = listener.accept(PATIENCE_MS)
        opened.callback(close_all, client, server)
        poller.watch(server, receives=True, sends=False)
        ends.append((client, server))

    def spent_seconds() -> float:
        client, server = ends[len(ends) // 2]
        began = time.thread_time()  # of this thread only, without others of the process
        for _ in range(200):
            client.send(b"x", None)
            assert [what for what, _, _ in poller.wait(PATIENCE_MS)] == [server]
            server.receive(1, 0)
        return time.thread_time() - began

    connect()
    of_one = min(spent_seconds() for _ in range(5))
    for _ in range(IDLE - 1):
        connect()
    assert min(spent_seconds() for _ in range(5)) < 2 * of_one


def test_a_poller_reports_many_connections_of_one_host_in_parts_and_another_host_at_once(opened: ExitStack) -> None:
    network = RealNetwork()
    listener, poller = network.listen("127.0.0.1:0"), network.poller()
    opened.callback(listener.close)
    opened.callback(poller.close)
    crowd: set[Connection] = set()

    def connect(host: str) -> Connection:
        client = socket.create_connection(split_address(listener.address), 30, (host, 0))
        server = listener.accept(PATIENCE_MS)
        opened.callback(close_all, server)
        opened.callback(client.close)
        poller.watch(server, receives=True, sends=False)
        client.send(b"x")
        return server

    for _ in range(8 * OF_HOST_MAX):
        crowd.add(connect("127.0.0.2"))
    other = connect("127.0.0.3")
    told = [what for what, _, _ in poller.wait(PATIENCE_MS)]

    assert len(told) == 2 * OF_HOST_MAX + 1, "those with an entry of their own, some of those that share one, the other"
    assert other in told
    seen = set(told)
    for _ in range(6):
        seen |= {what for what, _, _ in poller.wait(PATIENCE_MS)}
    assert seen == crowd | {other}

    for what in crowd:
        poller.forget(what)
    assert list(poller._hosts) == ["127.0.0.3"]
    assert not poller._crowds
    assert [what for what, _, _ in poller.wait(PATIENCE_MS)] == [other]


def test_without_free_descriptors_only_new_connections_fail(opened: ExitStack) -> None:
    network = RealNetwork()
    listener = network.listen("127.0.0.1:0")
    opened.callback(listener.close)
    client = network.connect(listener.address, PATIENCE_MS)
    server = listener.accept(PATIENCE_MS)
    opened.callback(close_all, client, server)
    refused = [raw_client(listener) for _ in range(3)]
    for one in refused:
        opened.callback(one.close)

    with exhausted_descriptors():
        for _ in refused:
            with pytest.raises(OSError, match="Too many open files"):
                listener.accept(PATIENCE_MS)
        with pytest.raises(TimeoutError):
            listener.accept(50)
        client.send(b"still here", None)
        assert server.receive(100, PATIENCE_MS) == b"still here"
    for one in refused:
        with suppress(ConnectionResetError):
            assert one.recv(1) == b""
    late = network.connect(listener.address, PATIENCE_MS)
    opened.callback(close_all, late, listener.accept(PATIENCE_MS))


class exhausted_descriptors:  # noqa: N801 reads as what it does
    """Leaves no descriptor free inside its block."""

    def __enter__(self) -> None:
        self._limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        highest = max(int(name) for name in os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, self._limits[1]))
        self._taken = []
        with suppress(OSError):
            while True:
                self._taken.append(os.open(os.devnull, os.O_RDONLY))

    def __exit__(self, *_: object) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, self._limits)
        for descriptor in self._taken:
            os.close(descriptor)


def test_connections_aborted_before_accept_cause_no_error(opened: ExitStack) -> None:
    network = RealNetwork()
    listener = network.listen("127.0.0.1:0")
    opened.callback(listener.close)
    for _ in range(5):
        aborted = raw_client(listener)
        aborted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        aborted.close()
    honest = network.connect(listener.address, PATIENCE_MS)
    opened.callback(honest.close)
    while True:
        accepted = listener.accept(PATIENCE_MS)
        opened.callback(accepted.close)
        if accepted.remote_address == honest.local_address:
            return


def test_a_tcp_self_connect_is_reported_as_refused() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for _ in range(50):
        with pytest.raises(ConnectionRefusedError):
            RealNetwork().connect(f"127.0.0.1:{port}", PATIENCE_MS)


def test_connect_tries_the_next_address_after_a_failed_one(opened: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = RealNetwork().listen("127.0.0.1:0")
    opened.callback(listener.close)
    (good,) = find_addresses(listener.address)
    dead = (good[0], ("127.0.0.1", 1))
    monkeypatch.setattr(real_network, "find_addresses", lambda address: [dead, good])
    connect = real_network._connect_socket

    def gives_up(opened: socket.socket, place: tuple[object, ...], address: str, deadline: Deadline) -> None:
        if place == dead[1]:
            raise OSError(errno.ETIMEDOUT, "the system's own time is up")
        connect(opened, place, address, deadline)

    monkeypatch.setattr(real_network, "_connect_socket", gives_up)
    opened.callback(RealNetwork().connect(listener.address, PATIENCE_MS).close)


def test_a_connect_to_a_silent_host_waits_for_the_given_timeout() -> None:
    # A listening socket with a full queue drops packets, like a host that is off.
    with socket.socket() as full, ExitStack() as opened:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = join_address(full.getsockname())
        began = time.monotonic()

        def crowd() -> None:
            for _ in range(5):
                opened.callback(RealNetwork().connect(address, 200).close)

        with pytest.raises(TimeoutError):
            crowd()
        assert time.monotonic() - began < 60  # a kernel gives up after two minutes


# Threads


def test_closing_a_connection_wakes_all_its_waiting_tasks() -> None:
    network = RealNetwork()
    listener = network.listen("127.0.0.1:0")
    for round_number in range(100):
        client = network.connect(listener.address, PATIENCE_MS)
        server = listener.accept(PATIENCE_MS)
        outcomes: list[str] = []

        def receive(end: Connection = server, outcomes: list[str] = outcomes) -> None:
            try:
                outcomes.append(f"received {end.receive(1, 10 * PATIENCE_MS)!r}")
            except ConnectionError:
                outcomes.append("closed")

        waiting = [threading.Thread(target=receive) for _ in range(3)]
        for thread in waiting:
            thread.start()
        if round_number % 2:
            time.sleep(0.001)
        server.close()
        for thread in waiting:
            thread.join(30)
        assert outcomes == ["closed"] * 3
        client.close()
    listener.close()


def test_a_descriptor_stays_open_while_a_poller_watches_it(opened: ExitStack) -> None:
    network = RealNetwork()
    listener, poller = network.listen("127.0.0.1:0"), network.poller()
    opened.callback(listener.close)
    opened.callback(poller.close)
    client, server = network.connect(listener.address, PATIENCE_MS), listener.accept(PATIENCE_MS)
    opened.callback(client.close)
    poller.watch(server, receives=True, sends=False)
    server.close()
    fresh = network.connect(listener.address, PATIENCE_MS)
    opened.callback(close_all, fresh, listener.accept(PATIENCE_MS))

    assert fresh.shared.descriptor != server.shared.descriptor
    assert [what for what, _, _ in poller.wait(PATIENCE_MS)] == [server]
    poller.forget(server)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(server.shared.descriptor)


def test_waking_a_closed_poller_raises_no_error() -> None:
    poller = RealNetwork().poller()
    poller.close()
    poller.wake()


def test_a_poller_keeps_no_reference_to_a_forgotten_connection(opened: ExitStack) -> None:
    network = RealNetwork()
    listener, poller = network.listen("127.0.0.1:0"), network.poller()
    opened.callback(poller.close)
    listener.close()
    poller.watch(listener, receives=True, sends=False)  # always ready, without epoll
    entry = poller._watched[listener]
    poller.forget(listener)

    poller._update_watched_events(entry)  # a wait that found the connection ready calls this

    assert not poller._hidden


# TLS


def pump(poller: SocketPoller, listener: Listener, stop: threading.Event, hook: Callable[[], None]) -> None:
    """Echo to all clients, in one thread, without blocking."""
    poller.watch(listener, receives=True, sends=False)
    made: list[Connection] = []
    try:
        while not stop.is_set():
            for what, _, _ in poller.wait(20):
                hook()
                if what is listener:
                    made.append(listener.accept(0))
                    poller.watch(made[-1], receives=True, sends=False)
                    continue
                assert not isinstance(what, type(listener))
                try:
                    data = what.receive(1000, 0)  # type: ignore[union-attr]
                except TimeoutError:
                    continue
                except ConnectionError:
                    data = b""
                if data:
                    what.send(data, PATIENCE_MS)  # type: ignore[union-attr]
                else:
                    poller.forget(what)
                    what.close()
    finally:
        for connection in made:
            poller.forget(connection)
            connection.close()


@pytest.fixture
def echo_server(tls: RealNetwork) -> Iterator[tuple[Listener, list[int]]]:
    """A listener that echoes TLS and plain text, and how often its thread woke up."""
    listener, poller, stop = tls.listen("127.0.0.1:0"), tls.poller(), threading.Event()
    turns: list[int] = [0]

    def count() -> None:
        turns[0] += 1

    thread = threading.Thread(target=pump, args=(poller, listener, stop, count))
    thread.start()
    yield listener, turns
    stop.set()
    thread.join(30)
    close_all(listener)
    poller.close()


def echoed(network: RealNetwork, listener: Listener, data: bytes) -> bytes:
    connection = network.connect(listener.address, 5 * PATIENCE_MS)
    try:
        view, found = memoryview(data), b""
        while view:
            view = view[connection.send(view[:5000], 5 * PATIENCE_MS) :]
            while len(found) < len(data) - len(view):
                found += connection.receive(1 << 16, 5 * PATIENCE_MS)
        return found
    finally:
        connection.close()


def test_plain_text_and_tls_share_a_port(echo_server: tuple[Listener, list[int]], certificates: Path) -> None:
    listener, _ = echo_server
    data = bytes(range(256)) * 100
    trusting = RealNetwork(tls_trust=TlsTrust(str(certificates / "authority.pem")))
    careless = RealNetwork(tls_trust=TlsTrust(None))
    for network in (RealNetwork(), trusting, careless):
        assert echoed(network, listener, data) == data


def test_decrypted_bytes_that_were_not_read_count_as_ready(
    echo_server: tuple[Listener, list[int]], certificates: Path
) -> None:
    listener, _ = echo_server  # it receives 1000 bytes at a time, of records of up to 16,384
    network = RealNetwork(tls_trust=TlsTrust(str(certificates / "authority.pem")))
    connection = network.connect(listener.address, 5 * PATIENCE_MS)
    connection.send(bytes(16_000), PATIENCE_MS)
    found = 0
    while found < 16_000:
        found += len(connection.receive(1 << 16, 5 * PATIENCE_MS))
    connection.close()


def test_an_unfinished_handshake_blocks_no_client_and_uses_no_cpu(echo_server: tuple[Listener, list[int]]) -> None:
    listener, turns = echo_server
    with ExitStack() as opened:
        for beginning in (b"\x16", b"\x16\x03\x01", b"\x16\x03\x01\x02\x00\x01\x00"):
            one = opened.enter_context(raw_client(listener))
            one.sendall(beginning)
        assert echoed(RealNetwork(), listener, b"hello") == b"hello"
        time.sleep(0.1)
        before = turns[0]
        time.sleep(0.3)
        assert turns[0] == before


def test_garbage_in_a_tls_handshake_ends_only_that_connection(echo_server: tuple[Listener, list[int]]) -> None:
    listener, _ = echo_server
    with raw_client(listener) as hostile:
        hostile.sendall(b"\x16" + os.urandom(2000))
        while hostile.recv(1000):
            pass  # an alert, if any, and the end
    assert echoed(RealNetwork(), listener, b"hello") == b"hello"


def test_a_plain_text_connection_is_closed_if_tls_is_required(certificates: Path, opened: ExitStack) -> None:
    settings = TlsSettings(str(certificates / "server.pem"), str(certificates / "server.key"), is_required=True)
    network = RealNetwork(tls=settings)
    listener = network.listen("127.0.0.1:0")
    opened.callback(listener.close)
    plain = RealNetwork().connect(listener.address, PATIENCE_MS)
    accepted = listener.accept(PATIENCE_MS)
    opened.callback(close_all, plain, accepted)
    plain.send(b"\0\0\0\x10 a frame in plain text", None)

    with pytest.raises(ConnectionError, match="TLS"):
        accepted.receive(100, PATIENCE_MS)


def test_a_tls_client_refuses_a_certificate_of_another_authority(echo_server: tuple[Listener, list[int]]) -> None:
    listener, _ = echo_server
    suspicious = RealNetwork(tls_trust=TlsTrust(ssl.get_default_verify_paths().cafile or os.devnull))
    with pytest.raises(ConnectionError, match=r"TLS: .*CERTIFICATE"):
        suspicious.connect(listener.address, PATIENCE_MS)


def test_a_tls_connect_to_a_plain_server_fails_within_the_timeout(opened: ExitStack) -> None:
    network = RealNetwork()
    listener = network.listen("127.0.0.1:0")
    opened.callback(listener.close)
    with pytest.raises(TimeoutError):
        RealNetwork(tls_trust=TlsTrust(None)).connect(listener.address, 200)


def test_invalid_certificate_files_are_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "not.pem").write_text("not a certificate")
    for path in (tmp_path / "not.pem", tmp_path / "missing.pem"):
        with pytest.raises(OSError):  # noqa: PT011 ssl.SSLError or FileNotFoundError
            RealNetwork(tls=TlsSettings(str(path), str(path)))
