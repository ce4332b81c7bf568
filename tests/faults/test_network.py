"""Effects of each network fault on the hosts."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

import pytest

from tests.one_life import in_rig
from tornlog.faults.kinds import FaultKind
from tornlog.faults.network import NetworkFaults
from tornlog.faults.plan import NetworkPlan, enabled_kinds
from tornlog.sim.choices import Choices, Decision
from tornlog.sim.kernel import Kernel
from tornlog.sim.network.connection import SimConnection
from tornlog.sim.network.hosts import SimNetwork
from tornlog.sim.policies.random_walk import RandomWalk

SERVER, CLIENT, OTHER = "10.0.0.1", "10.0.0.2", "10.0.0.3"
AT = f"{SERVER}:10911"
S = 1_000_000_000
DAY_NS = 86_400 * S


class Rig:
    """A listening server, a client, and a third host, on a network with a plan."""

    def __init__(self, plan: NetworkPlan, seed: str = "0", choices: Choices | None = None, **network: Any) -> None:
        self.choices = choices or Choices(seed)
        self.kernel = Kernel(RandomWalk(self.choices.stream("schedule"), 4))
        self.faults = NetworkFaults(self.kernel, self.choices.stream("network"), plan)
        self.network = SimNetwork(self.kernel, self.faults, **network)
        self.machines = {host: self.kernel.create_machine(host) for host in (SERVER, CLIENT, OTHER)}
        self.doors = {host: self.network.connect_machine(machine, host) for host, machine in self.machines.items()}
        self.listener = self.doors[SERVER].listen(AT)

    def run(self, body: Callable[[], None]) -> None:
        self.kernel.run(self.machines[CLIENT], body, time_limit_ns=DAY_NS)

    def pair(self, client: str = CLIENT) -> tuple[SimConnection, SimConnection]:
        connection = self.doors[client].connect(AT, 600_000)
        return connection, self.listener.accept(600_000)

    def begin(self, **faults: Any) -> None:
        """Change the plan from now on."""
        self.faults.set_plan(replace(self.faults._plan, **faults))

    @property
    def now_ns(self) -> int:
        return self.kernel.now_ns


def receive_all(connection: SimConnection, count: int) -> bytes:
    found = b""
    while len(found) < count:
        some = connection.receive(count - len(found), None)
        assert some, f"ended after {len(found)} bytes"
        found += some
    return found


@in_rig(Rig, NetworkPlan(latency_us_min=300, latency_us_max=300))
def test_without_faults_data_arrives_after_the_latency(rig: Rig) -> None:
    client, server = rig.pair()
    assert rig.now_ns == 600_000, "one way to ask, one way to be answered"
    client.send(b"x", None)
    assert server.receive(10, None) == b"x"
    assert rig.now_ns == 900_000
    assert not rig.faults.injected


@in_rig(Rig, NetworkPlan(latency_us_min=300, latency_us_max=300))
def test_the_latest_delivery_time_is_known_per_host(rig: Rig) -> None:
    client, server = rig.pair()
    client.send(b"x", None)
    assert server.receive(1, None) == b"x"
    assert rig.faults.late_until_ns(CLIENT) == 0, "that is how long a link takes"
    rig.begin(late_chance=1.0, late_ms_max=3_000)
    server.send(b"y", None)
    assert client.receive(1, None) == b"y"
    assert rig.faults.late_until_ns(CLIENT) == rig.faults.late_until_ns(SERVER) == rig.now_ns
    assert rig.faults.late_until_ns(OTHER) == 0


@in_rig(Rig, NetworkPlan())
def test_a_partition_delays_data_and_refuses_connections(rig: Rig) -> None:
    client, server = rig.pair()
    rig.begin(partition_chance=1.0, partition_ms_max=100)  # 100 ms is the minimum
    client.send(b"late", None)
    rig.begin(partition_chance=0.0)
    server.send(b"too", None)
    with pytest.raises(TimeoutError):
        rig.doors[CLIENT].connect(AT, 90)
    assert rig.now_ns < 100_000_000
    with pytest.raises(TimeoutError):
        server.receive(10, 1)

    assert server.receive(10, None) == b"late"
    assert client.receive(10, None) == b"too"
    assert 100_000_000 <= rig.now_ns < 201_000_000
    assert rig.pair()
    assert rig.faults.injected == {"partition": 1}


@in_rig(Rig, NetworkPlan())
def test_a_partition_affects_only_two_hosts(rig: Rig) -> None:
    client, _ = rig.pair()
    other, server = rig.pair(OTHER)
    rig.begin(partition_chance=1.0)
    client.send(b"x", None)
    rig.begin(partition_chance=0.0)
    before_ns = rig.now_ns
    other.send(b"y", None)
    assert server.receive(1, None) == b"y"
    assert rig.now_ns - before_ns == 50_000


@in_rig(Rig, NetworkPlan())
def test_a_one_way_partition_lets_the_other_direction_work(rig: Rig) -> None:
    client, server = rig.pair()
    rig.begin(one_way_chance=1.0, partition_ms_max=100)
    client.send(b"lost for now", None)
    rig.begin(one_way_chance=0.0)
    before_ns = rig.now_ns
    server.send(b"heard", None)
    assert client.receive(10, None) == b"heard"
    assert rig.now_ns - before_ns == 50_000
    assert server.receive(20, None) == b"lost for now"
    assert rig.now_ns - before_ns >= 100_000_000
    assert rig.faults.injected == {"one-way link": 1}


@in_rig(Rig, NetworkPlan(slow_link_ms_max=60_000, slow_link_bytes_per_s=1000))
def test_a_slow_link_limits_the_bytes_per_second(rig: Rig) -> None:
    client, server = rig.pair()
    rig.begin(slow_link_chance=1.0)
    before_ns = rig.now_ns
    for _ in range(3):
        client.send(bytes(500), None)
    receive_all(server, 1500)
    assert rig.now_ns - before_ns == 1_500_000_000 + 50_000
    assert rig.faults.injected["slow link"] >= 1


@in_rig(Rig, NetworkPlan())
def test_a_late_delivery_delays_only_its_own_stream(rig: Rig) -> None:
    (first, at_first), (second, at_second) = rig.pair(), rig.pair()
    rig.begin(late_chance=1.0)
    first.send(b"1", None)
    rig.begin(late_chance=0.0)
    first.send(b"2", None)
    second.send(b"3", None)
    assert at_second.receive(1, None) == b"3"
    with pytest.raises(TimeoutError):
        at_first.receive(1, 0)
    assert receive_all(at_first, 2) == b"12"
    assert rig.faults.injected == {"late delivery": 1}


@in_rig(Rig, NetworkPlan(latency_us_max=5_000, split_chance=1.0))
def test_bytes_delivered_in_pieces_arrive_completely(rig: Rig) -> None:
    client, server = rig.pair()
    client.send(b"0123456789", None)
    first = server.receive(100, None)
    assert 0 < len(first) < 10
    assert first + receive_all(server, 10 - len(first)) == b"0123456789"
    assert rig.faults.injected == {"split delivery": 1}


@in_rig(Rig, NetworkPlan(latency_us_max=100))
def test_a_broken_connection_is_reset_at_both_ends(rig: Rig) -> None:
    client, server = rig.pair()
    rig.begin(broken_chance=1.0)
    client.send(b"x", None)
    with suppress(TimeoutError):
        assert server.receive(10, 10) == b"x", "what came before the reset is still there to be read"
    for end in (client, server):
        with pytest.raises(ConnectionResetError):
            end.receive(10, 1_000)
        with pytest.raises(ConnectionResetError):
            end.send(b"y", 1_000)
    assert rig.faults.injected == {"broken connection": 1}


@in_rig(Rig, NetworkPlan(), buffer_bytes=100)
def test_a_half_open_connection_fails_after_a_timeout(rig: Rig) -> None:
    client, server = rig.pair()
    rig.begin(half_open_chance=1.0)
    assert client.send(bytes(80), None) == 80
    assert client.send(bytes(80), None) == 20
    with pytest.raises(TimeoutError):
        client.send(b"x", 60_000)
    with pytest.raises(TimeoutError):
        server.receive(1, 60_000)
    with pytest.raises(ConnectionResetError):
        client.send(b"x", None)
    assert 924 * S <= rig.now_ns < 925 * S
    with pytest.raises(TimeoutError):
        server.receive(1, 1_000_000)
    assert rig.faults.injected == {"half-open connection": 1}


@in_rig(Rig, NetworkPlan(refused_chance=1.0))
def test_a_waiting_connect_can_be_refused_by_a_fault(rig: Rig) -> None:
    with pytest.raises(ConnectionRefusedError):
        rig.pair()
    rig.begin(refused_chance=0.0)
    assert rig.pair()
    assert rig.faults.injected == {"refused connection": 1}


def test_connections_of_a_host_to_itself_have_no_faults() -> None:
    everything = {
        field.name: 1.0
        for field in fields(NetworkPlan)
        if field.name.endswith("_chance") and "death" not in field.name and "accept" not in field.name
    }
    rig = Rig(NetworkPlan(**everything))

    def body() -> None:
        inside = rig.doors[SERVER].connect("127.0.0.1:10911", 1_000)
        accepted = rig.listener.accept(1_000)
        inside.send(b"hello", None)
        assert accepted.receive(10, None) == b"hello"

    rig.run(body)
    assert not rig.faults.injected


@in_rig(Rig, NetworkPlan())
def test_healing_the_network_ends_outages_and_resets_lost_connections(rig: Rig) -> None:
    (cut_off, at_cut_off), (lost, at_lost) = rig.pair(), rig.pair()
    rig.begin(half_open_chance=1.0)
    lost.send(b"x", None)
    rig.begin(half_open_chance=0.0, partition_chance=1.0, partition_ms_max=1_000_000)
    cut_off.send(b"late", None)
    rig.network.heal()

    assert at_cut_off.receive(10, None) == b"late"
    for end in (lost, at_lost):
        with pytest.raises(ConnectionResetError):
            end.receive(1, None)
    assert rig.pair()
    assert rig.now_ns < 10_000_000


@in_rig(Rig, NetworkPlan())
def test_two_hosts_that_are_cut_off_hear_of_each_other_after_the_network_has_healed(rig: Rig) -> None:
    client, server = rig.pair()
    rig.faults.cut(client.local_address.partition(":")[0], SERVER)
    client.send(b"late", None)
    with pytest.raises(TimeoutError):
        server.receive(10, 3_600_000)
    rig.network.heal()

    assert server.receive(10, 1_000) == b"late"
    assert rig.faults.injected == {"partition": 1}


def echo_over_network(plan: NetworkPlan, choices: Choices) -> tuple[Rig, bytes]:
    """Let a client send a stream that a server echoes, and return the echoed bytes."""
    rig = Rig(plan, choices=choices, buffer_bytes=64)
    echoed = bytearray()

    def echo() -> None:
        connection = rig.listener.accept(None)
        while data := connection.receive(50, None):
            view = memoryview(data)
            while view:
                view = view[connection.send(view, None) :]
        connection.close()

    def body() -> None:
        rig.machines[SERVER].tasks.spawn("echo", echo)
        connection = rig.doors[CLIENT].connect(AT, 10_000_000)
        receiver = rig.machines[CLIENT].tasks.spawn("receive", lambda: echoed.extend(receive_all(connection, 400)))
        data = memoryview(bytes(range(200)) * 2)
        while data:
            data = data[connection.send(data, None) :]
        receiver.join(None)

    rig.run(body)
    return rig, bytes(echoed)


ROUGH = NetworkPlan(
    latency_us_max=3_000,
    split_chance=0.3,
    late_chance=0.1,
    partition_chance=0.02,
    one_way_chance=0.02,
    slow_link_chance=0.05,
)


@pytest.mark.parametrize("seed", range(20))
def test_a_connection_keeps_byte_order_under_any_faults(seed: int) -> None:
    rig, echoed = echo_over_network(ROUGH, Choices(str(seed)))

    assert echoed == bytes(range(200)) * 2
    assert sum(rig.faults.injected.values()) > 0


def test_a_seed_repeats_its_network_faults() -> None:
    digests = [echo_over_network(ROUGH, Choices(seed))[0].kernel.digest() for seed in ("1", "1", "2")]

    assert digests[0] == digests[1] != digests[2]


def test_replayed_draws_repeat_the_network_faults() -> None:
    rig, _ = echo_over_network(ROUGH, Choices("7"))
    network: list[Decision] = [draw for draw in rig.choices.decisions() if draw.stream == "network"]
    again = Choices("7")
    again._streams["network"] = Choices.for_replay(network).stream("network")

    repeated, _ = echo_over_network(ROUGH, again)

    assert repeated.kernel.digest() == rig.kernel.digest()
    assert repeated.faults.injected == rig.faults.injected


def test_each_network_chance_enables_its_own_kind() -> None:
    chances = [field.name for field in fields(NetworkPlan) if field.name.endswith("_chance")]
    switched_on = [list(enabled_kinds(NetworkPlan(**{name: 0.5}))) for name in chances]

    assert sorted(switched_on) == sorted([kind] for kind in FaultKind if kind.row.group == "network")
    assert list(enabled_kinds(NetworkPlan(latency_us_max=999))) == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"latency_us_min": 0}, "latency_us"),
        ({"latency_us_min": 9, "latency_us_max": 8}, "latency_us"),
        ({"slow_link_bytes_per_s": 0}, "slow_link_bytes_per_s"),
    ],
)
def test_an_impossible_network_plan_is_refused(wrong: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NetworkPlan(**wrong)  # type: ignore[arg-type]
