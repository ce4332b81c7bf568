"""Every network fulfils the protocol in store/network.py.

NETWORKS has an entry for each network: the listening host, the connecting host, and how to run code on them.
"""

import errno
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

import pytest

from tornlog.faults.network import NetworkFaults
from tornlog.faults.plan import NetworkPlan
from tornlog.sim.choices import Choices
from tornlog.sim.errors import TaskFailedError
from tornlog.sim.kernel import Kernel
from tornlog.sim.network.hosts import SimNetwork
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.store.network import Connection, Listener, Network, Poller
from tornlog.store.real.network import RealNetwork
from tornlog.store.real.tls import TlsSettings, TlsTrust
from tornlog.store.real.world import ThreadTasks
from tornlog.store.world import Tasks

LONG_MS = 5_000
pytestmark = pytest.mark.usefixtures("inside")


class Closable(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=Closable)
Body = Callable[[], None]
Certificates = Callable[[], Path]


@dataclass
class Place:
    """Two hosts: one that listens at `listen_at`, another that connects."""

    server: Network
    client: Network
    server_tasks: Tasks
    client_tasks: Tasks
    listen_at: str
    execute: Callable[[Body], None]
    chunk_bytes: int
    """More bytes than fit into a buffer."""
    _opened: list[Closable] = field(default_factory=list)

    def run(self, body: Body) -> None:
        """Run a body, and close the connections that it made."""

        def closing() -> None:
            try:
                body()
            finally:
                while self._opened:
                    self._opened.pop().close()

        self.execute(closing)

    def listen(self, address: str | None = None) -> Listener:
        return self._keep(self.server.listen(address or self.listen_at))

    def connect(self, listener: Listener) -> Connection:
        return self._keep(self.client.connect(listener.address, LONG_MS))

    def accept(self, listener: Listener) -> Connection:
        return self._keep(listener.accept(LONG_MS))

    def poller(self) -> Poller:
        return self._keep(self.server.poller())

    def client_poller(self) -> Poller:
        return self._keep(self.client.poller())

    def pair(self) -> tuple[Connection, Connection]:
        """Return a connection's ends, the connecting one first."""
        listener = self.listen()
        made: list[Connection] = []
        task = self.client_tasks.spawn("connect", lambda: made.append(self.connect(listener)))
        accepted = self.accept(listener)
        while not task.join(5):
            with suppress(TimeoutError):
                assert not accepted.receive(1, 0)  # the receive makes the server's part of a handshake
        for end in (accepted, made[0]):  # finish the handshake
            with suppress(TimeoutError):
                assert not end.receive(1, 5)
        listener.close()
        return made[0], accepted

    def _keep(self, opened: T) -> T:
        self._opened.append(opened)
        return opened


def real(_: Certificates) -> Place:
    network, tasks = RealNetwork(), ThreadTasks()
    return Place(network, network, tasks, tasks, "127.0.0.1:0", lambda body: body(), 64 << 20)


def real_ipv6(_: Certificates) -> Place:
    try:
        RealNetwork().listen("[::1]:0").close()
    except OSError as error:
        pytest.skip(f"this machine has no IPv6: {error}")
    return replace(real(_), listen_at="[::1]:0")


def real_tls(certificates: Certificates) -> Place:
    directory = certificates()
    certificate, key = str(directory / "server.pem"), str(directory / "server.key")
    server = RealNetwork(tls=TlsSettings(certificate, key))
    client = RealNetwork(tls_trust=TlsTrust(authority_path=str(directory / "authority.pem")))
    return replace(real(certificates), server=server, client=client)


def simulated(mean_quantum: int, plan: NetworkPlan) -> Callable[[Certificates], Place]:
    def place(_: Certificates) -> Place:
        choices = Choices("network conformance")
        kernel = Kernel(RandomWalk(choices.stream("schedule"), mean_quantum))
        network = SimNetwork(kernel, NetworkFaults(kernel, choices.stream("network"), plan), buffer_bytes=4096)
        server, client = kernel.create_machine("server"), kernel.create_machine("client")
        doors = network.connect_machine(server, "10.0.0.1"), network.connect_machine(client, "10.0.0.2")

        def run(body: Body) -> None:
            try:
                kernel.run(server, body, time_limit_ns=3600 * 10**9)
            except TaskFailedError as failed:
                raise failed.__cause__ or failed from None

        return Place(*doors, server.tasks, client.tasks, "10.0.0.1:0", run, 1 << 16)

    return place


FAIR = NetworkPlan()
ROUGH = NetworkPlan(latency_us_max=2_000, split_chance=0.5, late_chance=0.2, late_ms_max=20)
NETWORKS: dict[str, Callable[[Certificates], Place]] = {
    "real": real,
    "real, IPv6": real_ipv6,
    "real, TLS": real_tls,
    "simulated": simulated(8, FAIR),
    "simulated, a switch at every point": simulated(1, FAIR),
    "simulated, everything late and in pieces": simulated(4, ROUGH),
}
PLAIN = [name for name in NETWORKS if "TLS" not in name]


@pytest.fixture(params=list(NETWORKS))
def place(request: pytest.FixtureRequest) -> Place:
    return NETWORKS[request.param](lambda: request.getfixturevalue("certificates"))


@pytest.fixture(params=PLAIN)
def plain_place(request: pytest.FixtureRequest) -> Place:
    return NETWORKS[request.param](lambda: request.getfixturevalue("certificates"))


@pytest.fixture
def inside(request: pytest.FixtureRequest) -> Callable[[Body], None]:
    name = "plain_place" if "plain_place" in request.fixturenames else "place"
    run: Callable[[Body], None] = request.getfixturevalue(name).run
    return run


def send_all(connection: Connection, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[connection.send(view, LONG_MS) :]


def receive_bytes(connection: Connection, count: int) -> bytes:
    found = b""
    while len(found) < count:
        some = connection.receive(count - len(found), LONG_MS)
        assert some, f"ended after {len(found)} of {count} bytes"
        found += some
    return found


def receive_rest(connection: Connection) -> bytes:
    found = bytearray()
    while some := connection.receive(1 << 16, LONG_MS):
        found += some
    return bytes(found)


PIECE = bytes(1 << 16)


def fill_send_buffer(connection: Connection, most_bytes: int) -> int:
    """Send until the buffer is full; return the number of bytes."""
    taken = 0
    with suppress(TimeoutError):
        while taken < most_bytes:
            taken += connection.send(PIECE, 20)
    return taken


# Connecting


def test_both_ends_of_a_connection_report_matching_addresses(place: Place) -> None:
    client, server = place.pair()
    assert client.local_address == server.remote_address
    assert client.remote_address == server.local_address
    assert server.local_address.rpartition(":")[0] == place.listen_at.rpartition(":")[0]


def test_listening_at_port_0_gives_a_different_free_port_each_time(place: Place) -> None:
    first, second = place.listen(), place.listen()
    ports = {listener.address.rpartition(":")[2] for listener in (first, second)}
    assert len(ports) == 2
    assert "0" not in ports


def test_an_address_in_use_is_refused_until_its_listener_closes(place: Place) -> None:
    listener = place.listen()
    with pytest.raises(OSError) as refused:  # noqa: PT011 the number says it
        place.listen(listener.address)
    assert refused.value.errno == errno.EADDRINUSE
    listener.close()
    again = place.listen(listener.address)
    assert again.address == listener.address


@pytest.mark.parametrize("address", ["nowhere", "10.0.0.1:", ":1", "10.0.0.1:65536", "10.0.0.1:x", "10.0.0.1:-1"])
def test_an_invalid_address_raises_a_value_error(place: Place, address: str) -> None:
    with pytest.raises(ValueError, match="expected host:port"):
        place.client.connect(address, LONG_MS)
    with pytest.raises(ValueError, match="expected host:port"):
        place.server.listen(address)


def test_a_connection_to_a_closed_port_is_refused(place: Place) -> None:
    listener = place.listen()
    listener.close()
    with pytest.raises(ConnectionRefusedError):
        place.connect(listener)


def test_connect_returns_before_accept(plain_place: Place) -> None:
    place = plain_place
    listener = place.listen()
    first = place.connect(listener)
    second = place.connect(listener)
    send_all(first, b"early")
    accepted = place.accept(listener)
    assert accepted.remote_address == first.local_address
    assert receive_bytes(accepted, 5) == b"early"
    assert place.accept(listener).remote_address == second.local_address


def test_accept_times_out(place: Place) -> None:
    listener = place.listen()
    for timeout_ms in (0, 30):
        with pytest.raises(TimeoutError):
            listener.accept(timeout_ms)


def test_closing_a_listener_ends_a_waiting_accept(place: Place) -> None:
    listener = place.listen()
    seen: list[Exception] = []

    def accept() -> None:
        try:
            listener.accept(None)
        except ConnectionError as error:
            seen.append(error)

    task = place.server_tasks.spawn("accept", accept)
    place.server_tasks.sleep(20)
    listener.close()
    listener.close()

    assert task.join(LONG_MS)
    assert len(seen) == 1
    with pytest.raises(ConnectionError):
        listener.accept(0)


# Streams


def test_bytes_of_any_number_arrive_in_order(place: Place) -> None:
    client, server = place.pair()
    data = bytes(range(256)) * 1024  # far more than fits into a simulated buffer

    def send() -> None:
        send_all(client, data)
        client.close()

    place.client_tasks.spawn("send", send)

    assert receive_rest(server) == data


def test_the_two_directions_of_a_connection_are_independent(place: Place) -> None:
    client, server = place.pair()
    send_all(client, b"question")
    send_all(server, b"answer")
    assert receive_bytes(client, 6) == b"answer"
    assert receive_bytes(server, 8) == b"question"


def test_bytes_bytearray_and_memoryview_can_be_sent(place: Place) -> None:
    client, server = place.pair()
    for kind in (bytes, bytearray, memoryview):
        assert client.send(kind(b"abc"), LONG_MS) == 3
    assert receive_bytes(server, 9) == b"abcabcabc"


def test_receiving_fewer_bytes_keeps_the_rest(place: Place) -> None:
    client, server = place.pair()
    send_all(client, b"0123456789")
    found = [receive_bytes(server, 1) for _ in range(10)]
    assert b"".join(found) == b"0123456789"


def test_receive_times_out_and_later_bytes_still_arrive(place: Place) -> None:
    client, server = place.pair()
    for timeout_ms in (0, 30):
        with pytest.raises(TimeoutError):
            server.receive(10, timeout_ms)
    send_all(client, b"late")
    assert receive_bytes(server, 4) == b"late"


def test_arriving_bytes_wake_a_waiting_receiver(place: Place) -> None:
    client, server = place.pair()
    found: list[bytes] = []
    task = place.server_tasks.spawn("receive", lambda: found.append(server.receive(10, None)))
    place.server_tasks.sleep(20)
    client.send(b"x", LONG_MS)
    assert task.join(LONG_MS)
    assert found == [b"x"]


def test_a_sender_stalls_until_its_peer_reads(place: Place) -> None:
    client, server = place.pair()
    taken = fill_send_buffer(client, place.chunk_bytes)
    assert 0 < taken < place.chunk_bytes
    with pytest.raises(TimeoutError):
        client.send(PIECE, 0)
    receive_bytes(server, taken)
    task = place.client_tasks.spawn("send", lambda: send_all(client, PIECE + b"more"))
    assert receive_bytes(server, len(PIECE) + 4) == PIECE + b"more"
    assert task.join(LONG_MS)


def test_a_read_wakes_a_sender_that_waits_for_buffer_space(place: Place) -> None:
    client, server = place.pair()
    taken = fill_send_buffer(client, place.chunk_bytes)
    task = place.client_tasks.spawn("send", lambda: send_all(client, PIECE + b"waited"))
    place.server_tasks.sleep(20)
    found = receive_bytes(server, taken + len(PIECE) + 6)
    assert task.join(LONG_MS)
    assert found.endswith(b"waited")


# Ends


def test_sent_bytes_arrive_before_the_end_of_the_stream(place: Place) -> None:
    client, server = place.pair()
    send_all(client, b"last words")
    client.close()
    assert receive_rest(server) == b"last words"
    assert server.receive(10, 0) == b""  # the end of the stream is reported again


def test_closing_with_unread_input_still_delivers_sent_bytes(place: Place) -> None:
    client, server = place.pair()
    send_all(server, b"unread")
    place.server_tasks.sleep(50)
    send_all(client, b"last words")
    client.close()
    assert receive_rest(server) == b"last words"


def test_after_close_every_call_except_close_raises(place: Place) -> None:
    client, _ = place.pair()
    client.close()
    client.close()
    with pytest.raises(ConnectionError):
        client.receive(1, LONG_MS)
    with pytest.raises(ConnectionError):
        client.send(b"x", LONG_MS)


@pytest.mark.parametrize("sends", [False, True])
def test_closing_a_connection_ends_a_waiting_receive_or_send(place: Place, sends: bool) -> None:
    client, _server = place.pair()
    seen: list[Exception] = []
    if sends:
        fill_send_buffer(client, place.chunk_bytes)

    def use() -> None:
        try:
            send_all(client, bytes(1 << 20)) if sends else client.receive(1, None)
        except ConnectionError as error:
            seen.append(error)

    task = place.client_tasks.spawn("use", use)
    place.server_tasks.sleep(20)
    client.close()
    assert task.join(LONG_MS)
    assert len(seen) == 1


def test_sending_to_a_closed_peer_raises_an_error(place: Place) -> None:
    client, server = place.pair()
    client.close()
    place.server_tasks.sleep(50)

    def ask_on() -> None:
        for _ in range(100):
            server.send(b"is anybody there?", LONG_MS)
            place.server_tasks.sleep(5)

    with pytest.raises(ConnectionError):
        ask_on()


# Pollers


def named_events(ready: object, **known: object) -> list[tuple[str, bool, bool]]:
    by_identity = {id(what): name for name, what in known.items()}
    return [(by_identity[id(what)], receives, sends) for what, receives, sends in ready]  # type: ignore[attr-defined]


def test_a_poller_reports_connections_in_the_order_of_first_watching(place: Place) -> None:
    poller = place.poller()
    ends = [place.pair() for _ in range(3)]
    for _, server in ends:
        poller.watch(server, receives=True, sends=False)
    poller.watch(ends[0][1], receives=True, sends=False)  # a second watch does not change the order
    for client, _ in reversed(ends):
        send_all(client, b"x")
    place.server_tasks.sleep(100)

    ready = poller.wait(LONG_MS)
    assert [what for what, _, _ in ready] == [server for _, server in ends]
    assert all((receives, sends) == (True, False) for _, receives, sends in ready)
    assert len(poller.wait(LONG_MS)) == 3, "what was not received is still there"
    for _, server in ends:
        assert server.receive(10, 0) == b"x"
    assert list(poller.wait(0)) == []


def test_a_poller_wait_ends_at_its_timeout_or_the_first_event(place: Place) -> None:
    client, server = place.pair()
    poller = place.poller()
    poller.watch(server, receives=True, sends=False)
    assert list(poller.wait(0)) == []
    assert list(poller.wait(30)) == []

    def send() -> None:
        place.client_tasks.sleep(20)
        client.send(b"x", LONG_MS)

    place.client_tasks.spawn("send", send)
    assert named_events(poller.wait(None), server=server) == [("server", True, False)]


def test_a_poller_reports_send_space_only_if_watched_for_it(place: Place) -> None:
    client, server = place.pair()
    poller = place.client_poller()
    poller.watch(client, receives=True, sends=True)
    assert named_events(poller.wait(LONG_MS), client=client) == [("client", False, True)]

    taken = fill_send_buffer(client, place.chunk_bytes)
    assert list(poller.wait(0)) == []
    receive_bytes(server, taken)
    assert named_events(poller.wait(LONG_MS), client=client) == [("client", False, True)]

    poller.watch(client, receives=True, sends=False)
    assert list(poller.wait(0)) == []
    poller.watch(client, receives=False, sends=False)
    send_all(server, b"x")
    assert list(poller.wait(30)) == []
    poller.watch(client, receives=True, sends=False)
    assert named_events(poller.wait(LONG_MS), client=client) == [("client", True, False)]


def test_a_poller_reports_a_new_connection(plain_place: Place) -> None:
    place = plain_place
    listener, poller = place.listen(), place.poller()
    poller.watch(listener, receives=True, sends=False)
    assert list(poller.wait(0)) == []
    connection = place.connect(listener)
    assert named_events(poller.wait(LONG_MS), listener=listener) == [("listener", True, False)]
    assert place.accept(listener).remote_address == connection.local_address
    assert list(poller.wait(0)) == []


def test_a_poller_reports_the_end_of_a_stream(place: Place) -> None:
    client, server = place.pair()
    poller = place.poller()
    poller.watch(server, receives=True, sends=False)
    client.close()
    assert named_events(poller.wait(LONG_MS), server=server) == [("server", True, False)]
    assert server.receive(1, 0) == b""


def test_a_poller_reports_a_closed_connection_until_it_is_forgotten(place: Place) -> None:
    _, server = place.pair()
    poller = place.poller()
    poller.watch(server, receives=True, sends=False)

    def close() -> None:
        place.server_tasks.sleep(20)
        server.close()

    place.server_tasks.spawn("close", close)
    assert named_events(poller.wait(LONG_MS), server=server) == [("server", True, False)]
    with pytest.raises(ConnectionError):
        server.receive(1, 0)
    assert len(poller.wait(0)) == 1
    poller.forget(server)
    poller.forget(server)
    assert list(poller.wait(0)) == []

    poller.watch(server, receives=True, sends=False)
    assert named_events(poller.wait(LONG_MS), server=server) == [("server", True, False)]
    poller.forget(server)


def test_a_connection_forgotten_and_watched_again_is_reported_last(place: Place) -> None:
    (first_client, first), (second_client, second) = place.pair(), place.pair()
    poller = place.poller()
    for end in (first, second):
        poller.watch(end, receives=True, sends=False)
    poller.forget(first)
    poller.watch(first, receives=True, sends=False)
    send_all(first_client, b"x")
    send_all(second_client, b"x")
    place.server_tasks.sleep(100)

    assert [what for what, _, _ in poller.wait(LONG_MS)] == [second, first]


def test_waking_a_poller_ends_its_current_wait(place: Place) -> None:
    poller = place.poller()

    def wake() -> None:
        place.server_tasks.sleep(20)
        poller.wake()

    place.server_tasks.spawn("wake", wake)
    assert list(poller.wait(None)) == []
    assert list(poller.wait(10)) == []


def test_waking_a_poller_before_its_wait_ends_one_wait(place: Place) -> None:
    poller: Poller = place.poller()
    for _ in range(3):
        poller.wake()
    assert list(poller.wait(None)) == []
    assert list(poller.wait(10)) == []


def test_closing_a_poller_leaves_its_connections_open(place: Place) -> None:
    client, server = place.pair()
    poller = place.poller()
    poller.watch(server, receives=True, sends=True)
    poller.close()
    send_all(client, b"still here")
    assert receive_bytes(server, 10) == b"still here"
