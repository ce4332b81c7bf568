"""Shutdown of a server with slow requests, in virtual time."""

import pytest

from tornlog.store.broker.limits import PoolLimits, ServerLimits
from tornlog.store.broker.remoting_client import RemotingClient
from tornlog.store.broker.requests import ResponseCode, response_to
from tornlog.store.broker.router import Channel, Pool, RequestRoute
from tornlog.store.broker.server import DRAIN_MS, RemotingServer
from tornlog.store.formats.remoting.command import RemotingCommand
from tornlog.store.world import World

SEND = 310
ADDRESS = "10.0.0.1:10911"


@pytest.mark.parametrize("takes_ms", [DRAIN_MS - 1_000, DRAIN_MS + 1_000])
def test_stopping_a_server_waits_for_requests_in_progress(here: World, there: World, takes_ms: int) -> None:
    done: list[int] = []
    told: list[str] = []

    def process(command: RemotingCommand, _: Channel) -> RemotingCommand:
        here.tasks.sleep(takes_ms)
        done.append(command.opaque)
        return response_to(command, 0)

    limits = ServerLimits(pools={pool: PoolLimits(1, 10) for pool in Pool})
    server = RemotingServer(here, limits, told.append)
    server.listen([ADDRESS])
    server.start({SEND: RequestRoute(Pool.ADMIN, process)})
    answers: list[int] = []

    def ask() -> None:
        client = RemotingClient(there, ADDRESS)
        first, second = (client.invoke_async(RemotingCommand(SEND, 0)) for _ in range(2))
        for each in (second, first):
            try:
                answers.append(each.wait(60_000).code)
            except ConnectionError:
                answers.append(-1)
        client.close()

    asking = there.tasks.spawn("ask", ask)
    here.tasks.sleep(100)
    in_time = server.shutdown()
    were_done = len(done)
    asking.join(None)
    here.tasks.sleep(10 * takes_ms)

    assert not in_time
    assert were_done == len(done) == (2 if takes_ms < DRAIN_MS else 1)
    assert answers == [-1, 0] if takes_ms < DRAIN_MS else answers == [ResponseCode.SYSTEM_BUSY, -1]
    assert any("waiting for their end" in line for line in told)


def test_a_request_that_comes_after_the_end_of_its_tasks_no_longer_counts_as_pending(
    here: World, there: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def process(command: RemotingCommand, _: Channel) -> RemotingCommand:
        here.tasks.sleep(1_000)
        return response_to(command, 0)

    limits = ServerLimits(pools={pool: PoolLimits(1, 10) for pool in Pool})
    server = RemotingServer(here, limits)
    server.listen([ADDRESS])
    server.start({SEND: RequestRoute(Pool.ADMIN, process), SEND + 1: RequestRoute(Pool.HEARTBEAT, process)})
    monkeypatch.setattr(server.connections, "stop_receiving", lambda: None)  # as after a drain that timed out
    client = RemotingClient(there, ADDRESS)

    def ask() -> None:
        client.invoke_async(RemotingCommand(SEND, 0))
        there.tasks.sleep(500)
        client.invoke_async(RemotingCommand(SEND + 1, 0))

    there.tasks.spawn("ask", ask)
    here.tasks.sleep(100)
    (session,) = server.connections.sessions
    server.shutdown()
    client.close()

    assert server.counts.requests == 2
    assert session.pending_bytes == server.connections.held_bytes == 0
