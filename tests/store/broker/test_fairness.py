"""Latency of an honest client among sixty pipelining ones, on one simulated processor."""

from collections.abc import Callable
from functools import partial

import pytest

from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.machine import SimProcessor
from tornlog.sim.network.hosts import SimNetwork
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.store.broker.connections import ACCEPTS_MAX, ACCEPTS_PAUSE_MS
from tornlog.store.broker.fair_queue import HostFairQueue
from tornlog.store.broker.limits import PoolLimits, ServerLimits
from tornlog.store.broker.remoting_client import RemotingClient
from tornlog.store.broker.requests import response_to
from tornlog.store.broker.router import Channel, Pool, RequestRoute
from tornlog.store.broker.server import RemotingServer
from tornlog.store.broker.session import Session
from tornlog.store.formats.remoting.command import RemotingCommand
from tornlog.store.formats.remoting.frame import encode_frame
from tornlog.store.world import World

Run = Callable[[Callable[[World, World], None]], None]
SEND = 310
ADDRESS = "10.0.0.1:10911"
SEND_MS = 1
HOSTILE = 60
ASKED = 30
SEND_LIMITS = ServerLimits().pools[Pool.SEND_MESSAGE]


def honest_latencies_ms(
    hostile_host: str, honest_host: str, *, pipelines: bool = True, send_limits: PoolLimits = SEND_LIMITS
) -> list[float]:
    """Return the latencies of an honest client's sends. The hostile clients pipeline or wait for each answer."""
    choices = Choices("fairness")
    kernel = Kernel(RandomWalk(choices.stream("schedule"), 8))
    network = SimNetwork(kernel, buffer_bytes=4_096)
    worlds = {
        host: World(machine.clock, machine.tasks, None, network.connect_machine(machine, host))  # type: ignore[arg-type]
        for host in sorted({"10.0.0.1", hostile_host, honest_host})
        for machine in (kernel.create_machine(host),)
    }
    processor = SimProcessor(kernel)

    def store(command: RemotingCommand, _: Channel) -> RemotingCommand:
        processor.compute(SEND_MS * 1_000_000)
        return response_to(command, 0)

    def flood() -> None:
        call = worlds[hostile_host].network
        assert call is not None
        connection = call.connect(ADDRESS, 1_000)
        frames = encode_frame(RemotingCommand(SEND, 1, body=bytes(50))) * 100
        at = 0
        while True:
            at = (at + connection.send(frames[at:], None)) % len(frames)

    def ask_on_and_on() -> None:
        client = RemotingClient(worlds[hostile_host], ADDRESS)
        while True:
            client.invoke(RemotingCommand(SEND, 1), 60_000)

    def honest() -> list[float]:
        limits = ServerLimits(pools={pool: PoolLimits(16, 10_000) for pool in Pool})
        limits = limits.with_pool(Pool.SEND_MESSAGE, send_limits)
        server = RemotingServer(worlds["10.0.0.1"], limits)
        server.listen([ADDRESS])
        server.start({SEND: RequestRoute(Pool.SEND_MESSAGE, store)})
        for number in range(HOSTILE):
            worlds[hostile_host].tasks.spawn(f"hostile {number}", flood if pipelines else ask_on_and_on)
        world = worlds[honest_host]
        world.tasks.sleep(100)
        client = RemotingClient(world, ADDRESS)
        took = []
        busy_ns, first_ns = processor.busy_ns, world.clock.monotonic_ns()
        for number in range(ASKED):
            begin_ns = world.clock.monotonic_ns()
            client.invoke(RemotingCommand(SEND, number), 60_000)
            took.append((world.clock.monotonic_ns() - begin_ns) / 1e6)
            world.tasks.sleep(7)
        passed_ns = world.clock.monotonic_ns() - first_ns
        assert processor.busy_ns - busy_ns > 0.9 * passed_ns, "the others keep the processor busy"
        return took

    found: list[float] = []
    try:
        main = kernel.create_machine("main")
        machine = worlds[honest_host]
        kernel.run(main, lambda: found.extend(run_on_machine(machine, honest)), time_limit_ns=3600 * 10**9)
    finally:
        kernel.close()
    return found


def run_on_machine(world: World, body: Callable[[], list[float]]) -> list[float]:
    """Run a body as a task of a machine, and return its result."""
    found: list[float] = []
    world.tasks.spawn("body", lambda: found.extend(body())).join(None)
    return found


HOSTS = [("10.0.0.2", "10.0.0.2"), ("10.0.0.3", "10.0.0.2")]


@pytest.mark.parametrize(("hostile", "honest"), HOSTS, ids=["same host", "another host"])
def test_an_honest_client_waits_for_few_pipelined_requests_of_others(hostile: str, honest: str) -> None:
    took = honest_latencies_ms(hostile, honest)

    assert len(took) == ASKED
    assert max(took) <= 5 * SEND_MS, took


@pytest.mark.ci
def test_an_honest_client_waits_at_most_one_round_of_another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """All clients of one host together have one share of the tasks, even if each of them waits for its answers."""
    fair = max(honest_latencies_ms("10.0.0.3", "10.0.0.2", pipelines=False))
    put = HostFairQueue.put
    monkeypatch.setattr(HostFairQueue, "put", lambda queue, _, owner, item: put(queue, "all", owner, item))
    by_connection = max(honest_latencies_ms("10.0.0.3", "10.0.0.2", pipelines=False))

    assert fair <= 40 * SEND_MS
    assert by_connection >= 1.5 * fair


@pytest.mark.parametrize(("hostile", "honest"), HOSTS, ids=["same host", "another host"])
def test_without_fair_queues_the_same_load_overwhelms_the_server(
    monkeypatch: pytest.MonkeyPatch, hostile: str, honest: str
) -> None:
    monkeypatch.setattr(Session, "is_pipelining", False)

    assert max(honest_latencies_ms(hostile, honest, send_limits=PoolLimits(16, 10_000))) > 15 * SEND_MS


def test_requests_of_one_host_leave_tasks_free_for_another_host(here: World, there: World) -> None:
    """Administrators' requests wait for other clients, which may never answer."""

    def wait(command: RemotingCommand, channel: Channel) -> RemotingCommand:
        if not channel.remote_address.startswith("10.0.0.1"):
            here.tasks.sleep(5_000)
        return response_to(command, 0)

    server = RemotingServer(here)
    server.listen([ADDRESS])
    server.start({SEND: RequestRoute(Pool.ADMIN, wait)})
    done: list[int] = []

    def ask(number: int) -> None:
        client = RemotingClient(there, ADDRESS)
        done.append(client.invoke(RemotingCommand(SEND, number), 60_000).opaque)
        client.close()

    asking = [there.tasks.spawn(f"ask {number}", partial(ask, number)) for number in range(8)]
    here.tasks.sleep(100)
    honest = RemotingClient(here, ADDRESS)
    begin_ns = here.clock.monotonic_ns()
    honest.invoke(RemotingCommand(SEND, 100), 60_000)
    took_ms = (here.clock.monotonic_ns() - begin_ns) / 1e6
    honest.close()
    for task in asking:
        task.join(None)
    server.shutdown()
    assert took_ms < 100
    assert len(done) == 8


def test_a_burst_of_connections_is_accepted_with_pauses(run: Run) -> None:
    crowd = 64

    def body(here: World, there: World) -> None:
        server = RemotingServer(here)
        server.listen([ADDRESS])
        assert there.network is not None
        connections = [there.network.connect(ADDRESS, 1_000) for _ in range(crowd)]
        server.start({})
        begin_ns = here.clock.monotonic_ns()
        while server.connections.count < crowd:
            here.tasks.sleep(1)
        took_ms = (here.clock.monotonic_ns() - begin_ns) / 1e6
        for connection in connections:
            connection.close()
        server.shutdown()
        assert (crowd // ACCEPTS_MAX - 2) * ACCEPTS_PAUSE_MS <= took_ms <= crowd * ACCEPTS_PAUSE_MS

    run(body)
