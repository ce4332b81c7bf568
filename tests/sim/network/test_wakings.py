"""Waiters on a connection wake up at the arrival time, not earlier."""

from collections.abc import Callable

import pytest

from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.machine import SimTask
from tornlog.sim.network.connection import SimConnection
from tornlog.sim.network.hosts import SimNetwork
from tornlog.sim.network.medium import LinkConditions
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.sim.trace import Trace

SERVER, CLIENT = "10.0.0.1", "10.0.0.2"
AT = f"{SERVER}:1"
MS = 1_000_000
LATENCY_NS = 5 * MS


class Wakings(Trace):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, str]] = []

    def on_ready(self, task: SimTask) -> None:
        self.seen.append((task.machine.kernel.now_ns, task.name.rpartition("/")[2]))

    def of(self, name: str) -> list[int]:
        return [moment_ns for moment_ns, woken in self.seen if woken == name]


class Rig:
    def __init__(self, buffer_bytes: int = 4096) -> None:
        self.wakings = Wakings()
        self.kernel = Kernel(RandomWalk(Choices("wakings").stream("schedule"), 4), trace=self.wakings)
        network = SimNetwork(self.kernel, LinkConditions(LATENCY_NS), buffer_bytes=buffer_bytes)
        self.client, self.server = self.kernel.create_machine("client"), self.kernel.create_machine("server")
        self.at_client, self.at_server = (
            network.connect_machine(self.client, CLIENT),
            network.connect_machine(self.server, SERVER),
        )
        self.listener = self.at_server.listen(AT)

    def run(self, body: Callable[[SimConnection, SimConnection], None]) -> None:
        """Run a body at the client, with the client's end of a connection and the server's."""

        def main() -> None:
            near = self.at_client.connect(AT, 1000)
            body(near, self.listener.accept(1000))

        self.kernel.run(self.client, main, time_limit_ns=10_000 * MS)


@pytest.mark.parametrize("polls", [False, True])
@pytest.mark.parametrize("timeout_ms", [None, 3, 900])
def test_a_receiver_is_woken_by_an_arrival_or_its_timeout(polls: bool, timeout_ms: int | None) -> None:
    rig = Rig()

    def something_comes(end: SimConnection) -> bool:
        if polls:
            poller = rig.at_server.poller()
            poller.watch(end, receives=True, sends=False)
            return bool(poller.wait(timeout_ms))
        try:
            return bool(end.receive(100, timeout_ms))
        except TimeoutError:
            return False

    def body(near: SimConnection, far: SimConnection) -> None:
        found: list[bool] = []
        waiting = rig.server.tasks.spawn("waits", lambda: found.append(something_comes(far)))
        rig.client.tasks.sleep(1)
        sent_ns = rig.kernel.now_ns
        for _ in range(3):
            near.send(b"x", None)
        waiting.join(None)
        is_in_time = timeout_ms is None or timeout_ms > 5
        assert found == [is_in_time]
        assert rig.wakings.of("waits") == [sent_ns + LATENCY_NS if is_in_time else sent_ns - MS + 3 * MS]

    rig.run(body)


def test_a_sender_without_buffer_space_is_woken_by_a_read() -> None:
    rig = Rig(buffer_bytes=4)

    def body(near: SimConnection, far: SimConnection) -> None:
        sending = rig.client.tasks.spawn("sends", lambda: [near.send(b"abcd", None) for _ in range(3)])
        for _ in range(3):
            rig.client.tasks.sleep(20)
            assert far.receive(2, None) == b"ab"
            assert far.receive(2, None) == b"cd"
        sending.join(None)

    rig.run(body)
    assert len(rig.wakings.of("sends")) == 2


def test_a_receiver_is_not_woken_when_the_other_end_reads() -> None:
    rig = Rig()

    def body(near: SimConnection, far: SimConnection) -> None:
        waiting = rig.client.tasks.spawn("waits", lambda: near.receive(100, None))
        near.send(b"to be read", None)
        assert far.receive(100, None) == b"to be read"
        rig.client.tasks.sleep(1)
        assert rig.wakings.of("waits") == []
        far.send(b"now", None)
        waiting.join(None)

    rig.run(body)
    assert len(rig.wakings.of("waits")) == 1
