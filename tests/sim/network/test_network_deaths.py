"""Results for peers when a machine dies and when a new machine gets its host name."""

from collections.abc import Callable

import pytest

from tests.one_life import in_rig
from tornlog.sim.choices import Choices
from tornlog.sim.errors import DeadlockError
from tornlog.sim.kernel import Kernel
from tornlog.sim.network.connection import SimConnection
from tornlog.sim.network.hosts import SimNetwork
from tornlog.sim.network.medium import LinkConditions
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.sim.trace import Trace

SERVER, CLIENT = "10.0.0.1", "10.0.0.2"
AT = f"{SERVER}:1"
S = 1_000_000_000


class Resetting(LinkConditions):
    """Processes that die reset their connections; after a power loss all data in flight is lost."""

    def is_reset_at_death(self, host: str) -> bool:
        return True

    def draw_lost_pieces(self, host: str, under_way: int) -> int:
        return under_way


class Rig:
    def __init__(self, conditions: LinkConditions | None = None, **network: int) -> None:
        self.kernel = Kernel(RandomWalk(Choices("deaths").stream("schedule"), 4), trace=Trace())
        self.network = SimNetwork(self.kernel, conditions, **network)
        self.client = self.kernel.create_machine("client")
        self.at_client = self.network.connect_machine(self.client, CLIENT)
        self.boot("life-0")

    def boot(self, name: str) -> None:
        self.server = self.kernel.create_machine(name)
        self.at_server = self.network.connect_machine(self.server, SERVER)
        self.listener = self.at_server.listen(AT)

    def die(self, *, silently: bool) -> None:
        self.at_server.dies_silently = silently
        self.kernel.kill(self.server)

    def pair(self) -> tuple[SimConnection, SimConnection]:
        connection = self.at_client.connect(AT, 1000)
        return connection, self.listener.accept(1000)

    def run(self, body: Callable[[], None]) -> None:
        self.kernel.run(self.client, body, time_limit_ns=10_000 * S)


@in_rig(Rig)
def test_peers_of_a_dying_process_receive_its_bytes_and_the_end(rig: Rig) -> None:
    client, server = rig.pair()
    server.send(b"last words", None)
    rig.die(silently=False)

    assert client.receive(100, None) == b"last words"
    assert client.receive(100, None) == b""
    client.send(b"?", None)
    rig.client.tasks.sleep(1)
    with pytest.raises(ConnectionResetError):
        client.receive(100, None)
    with pytest.raises(ConnectionRefusedError):
        rig.at_client.connect(AT, 1000)


@in_rig(Rig, Resetting())
def test_a_process_that_dies_may_reset_its_connections(rig: Rig) -> None:
    client, _ = rig.pair()
    rig.die(silently=False)
    with pytest.raises(ConnectionResetError):
        client.receive(100, None)


@in_rig(Rig, Resetting())
def test_a_machine_without_power_sends_nothing_and_accepts_no_connection(rig: Rig) -> None:
    client, server = rig.pair()
    server.send(b"goes down with it", None)
    rig.die(silently=True)
    with pytest.raises(TimeoutError):
        client.receive(100, 60_000)
    client.send(b"nobody reads this", None)
    before_ns = rig.kernel.now_ns
    with pytest.raises(TimeoutError):
        rig.at_client.connect(AT, 2_000)
    assert rig.kernel.now_ns - before_ns == 2 * S


@pytest.mark.parametrize("receives", [True, False])
@in_rig(Rig, Resetting(latency_ns=S // 4), buffer_bytes=4)
def test_a_poll_for_sending_wakes_when_the_connection_breaks(rig: Rig, receives: bool) -> None:
    client, _ = rig.pair()
    assert client.send(b"full", None) == 4
    rig.die(silently=False)
    begin_ns = rig.kernel.now_ns
    poller = rig.at_client.poller()
    poller.watch(client, receives=receives, sends=True)

    assert list(poller.wait(60_000)) == [(client, receives, True)]
    assert rig.kernel.now_ns == begin_ns + S // 4
    assert list(poller.wait(60_000)) == [(client, receives, True)], "it stays ready"
    assert rig.kernel.now_ns == begin_ns + S // 4


@in_rig(Rig, buffer_bytes=4)
def test_a_poll_for_sending_ignores_received_bytes(rig: Rig) -> None:
    client, server = rig.pair()
    assert client.send(b"full", None) == 4
    server.send(b"here", None)
    rig.client.tasks.sleep(1)
    poller = rig.at_client.poller()
    poller.watch(client, receives=False, sends=True)
    assert list(poller.wait(60_000)) == []


class _Counting(Resetting):
    resets = 0

    def is_reset_at_death(self, host: str) -> bool:
        self.resets += 1
        return True


def test_a_dying_process_sends_no_reset_over_a_lost_connection() -> None:
    conditions = _Counting()
    rig = Rig(conditions)

    def body() -> None:
        client, server = rig.pair()
        client.is_lost = server.is_lost = True
        rig.die(silently=False)

        assert conditions.resets == 0
        with pytest.raises(TimeoutError):
            client.receive(100, 60_000)

    rig.run(body)


@in_rig(Rig)
def test_a_closed_listener_sends_no_reset_over_a_lost_connection(rig: Rig) -> None:
    client = rig.at_client.connect(AT, 1000)
    client.is_lost = client.peer.is_lost = True
    rig.listener.close()
    with pytest.raises(TimeoutError):
        client.receive(100, 60_000)


@in_rig(Rig, Resetting())
def test_bytes_that_arrived_before_a_power_loss_can_be_read(rig: Rig) -> None:
    client, server = rig.pair()
    server.send(b"here", None)
    rig.client.tasks.sleep(1)
    server.send(b"not here", None)
    rig.die(silently=True)
    assert client.receive(100, None) == b"here"
    with pytest.raises(TimeoutError):
        client.receive(100, 1_000)


@pytest.mark.parametrize("sends_before", [True, False])
@in_rig(Rig)
def test_the_next_machine_with_a_name_resets_unknown_connections(rig: Rig, sends_before: bool) -> None:
    client, _ = rig.pair()
    rig.die(silently=True)
    if sends_before:
        client.send(b"into the dark", None)
    rig.client.tasks.sleep(5_000)
    rig.boot("life-1")
    if not sends_before:
        with pytest.raises(TimeoutError):
            client.receive(1, 60_000)
        client.send(b"are you there?", None)
    with pytest.raises(ConnectionResetError):
        client.receive(1, None)
    assert rig.kernel.now_ns < 70 * S
    again, accepted = rig.pair()
    again.send(b"new", None)
    assert accepted.receive(10, None) == b"new"


@in_rig(Rig)
def test_connections_that_were_not_accepted_end_with_their_listener(rig: Rig) -> None:
    waiting = rig.at_client.connect(AT, 1000)
    rig.listener.close()
    with pytest.raises(ConnectionResetError):
        waiting.receive(1, None)
    with pytest.raises(ConnectionRefusedError):
        rig.at_client.connect(AT, 1000)


@in_rig(Rig)
def test_a_listener_with_a_full_accept_queue_lets_other_clients_wait(rig: Rig) -> None:
    for _ in range(128):
        rig.at_client.connect(AT, 1000)
    with pytest.raises(TimeoutError):
        rig.at_client.connect(AT, 1000)
    rig.listener.accept(0)
    rig.at_client.connect(AT, 1000)


@in_rig(Rig, LinkConditions(latency_ns=20000000))
def test_a_connect_that_timed_out_is_a_reset_for_the_accepting_side(rig: Rig) -> None:
    with pytest.raises(TimeoutError):
        rig.at_client.connect(AT, 30)
    accepted = rig.listener.accept(0)
    with pytest.raises(ConnectionResetError):
        accepted.receive(1, None)


def test_tasks_of_a_dead_machine_do_not_continue() -> None:
    rig = Rig()
    after: list[str] = []

    def serve() -> None:
        connection = rig.listener.accept(None)
        try:
            connection.receive(10, None)
        finally:
            after.append("unwound")
            connection.close()
            after.append("closed")

    def body() -> None:
        rig.server.tasks.spawn("serve", serve)
        rig.at_client.connect(AT, 1000)
        rig.client.tasks.sleep(10)
        rig.kernel.kill(rig.server)
        rig.client.tasks.sleep(10)

    rig.run(body)
    assert after == ["unwound"]


def test_a_receiver_without_a_sender_is_named_in_a_deadlock() -> None:
    rig = Rig()

    def body() -> None:
        client, _ = rig.pair()
        client.receive(1, None)

    with pytest.raises(DeadlockError, match=r"network 10\.0\.0\.2:40000>10\.0\.0\.1:1"):
        rig.run(body)


def test_only_one_running_machine_has_a_host_name() -> None:
    rig = Rig()
    with pytest.raises(ValueError, match="is on"):
        rig.network.connect_machine(rig.kernel.create_machine("another"), SERVER)


@in_rig(Rig)
def test_a_host_listens_only_at_its_own_addresses_and_loopback_only_for_itself(rig: Rig) -> None:
    with pytest.raises(OSError, match="Cannot assign"):
        rig.at_server.listen(f"{CLIENT}:1")
    inside = rig.at_server.listen("127.0.0.1:5")
    with pytest.raises(ConnectionRefusedError):
        rig.at_client.connect(f"{SERVER}:5", 1000)
    made = rig.at_server.connect("127.0.0.1:5", 1000)
    assert inside.accept(0).remote_address == made.local_address
    anywhere = rig.at_server.listen("0.0.0.0:6")
    assert anywhere.address == "0.0.0.0:6"
    assert rig.at_client.connect(f"{SERVER}:6", 1000)
    with pytest.raises(OSError, match="No route"):
        rig.at_client.connect("10.9.9.9:1", 1000)


def test_the_digest_and_the_trace_cover_sent_and_received_bytes() -> None:
    def talk(word: bytes) -> tuple[str, list[str]]:
        rig = Rig()

        def body() -> None:
            client, server = rig.pair()
            client.send(word, None)
            server.receive(10, None)

        rig.run(body)
        assert rig.kernel.trace is not None
        return rig.kernel.digest(), [f"{event.kind} {event.text}" for event in rig.kernel.trace]

    first, told = talk(b"one")
    assert talk(b"one")[0] == first != talk(b"two")[0]
    stream = f"{CLIENT}:40000>{AT}"
    for expected in (f"connect {stream}", f"accept {AT}>{CLIENT}:40000", f"send {stream}, 3 bytes"):
        assert expected in told
    assert f"receive {AT}>{CLIENT}:40000, 3 bytes" in told
