"""The remoting client against a real server."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from tornlog.store.broker import remoting_client
from tornlog.store.broker.acl.rules import make_signer
from tornlog.store.broker.limits import PoolLimits
from tornlog.store.broker.remoting_client import RemotingClient
from tornlog.store.broker.requests import ResponseCode, response_to
from tornlog.store.broker.router import Channel
from tornlog.store.broker.server_counts import ConnectionEnding
from tornlog.store.formats.remoting.command import ONE_WAY_FLAG, RemotingCommand
from tornlog.store.real.world import real_world

Serve = Callable[..., Any]
Connect = Callable[..., RemotingClient]


@pytest.fixture
def connect() -> Iterator[Connect]:
    clients: list[RemotingClient] = []

    def make(address: tuple[str, int], **options: Any) -> RemotingClient:
        clients.append(RemotingClient(real_world(), "{}:{}".format(*address), **options))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def test_each_invocation_gets_the_response_to_its_own_request(serve: Serve, connect: Connect) -> None:
    served = serve(pools=PoolLimits(2, 1_000))
    client = connect(served.address)
    commands = [RemotingCommand(served.ECHO, 0, body=b"%d" % n) for n in range(200)]

    under_way = [client.invoke_async(command) for command in commands]

    assert [one.wait(5_000).body for one in under_way] == [command.body for command in commands]


def test_several_tasks_may_share_a_remoting_client(served: Any, connect: Connect) -> None:
    client = connect(served.address)
    wrong: list[bytes] = []

    def work(name: bytes) -> None:
        for n in range(50):
            body = b"%s %d" % (name, n)
            if client.invoke(RemotingCommand(served.ECHO, 0, body=body), 5_000).body != body:
                wrong.append(body)

    threads = [threading.Thread(target=work, args=(b"%d" % n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert wrong == []
    assert served.server.counts.accepted == 1
    assert served.server.counts.requests == 200


def test_a_response_after_the_timeout_is_ignored(served: Any, connect: Connect) -> None:
    client = connect(served.address)

    with pytest.raises(TimeoutError, match="50 ms"):
        client.invoke(RemotingCommand(served.WAIT, 0), 50)
    served.gate.set()

    assert client.invoke(RemotingCommand(served.ECHO, 0, body=b"next"), 5_000).body == b"next"


def test_only_a_response_to_no_open_request_is_unmatched(served: Any, connect: Connect) -> None:
    unmatched: list[RemotingCommand] = []
    client = connect(served.address, on_unmatched=unmatched.append)
    with pytest.raises(TimeoutError):
        client.invoke(RemotingCommand(served.LATER, 0), 50)
    served.until(lambda: bool(served.held))
    request, channel = served.held[0]

    for body in (b"late", b"again"):
        channel.send(response_to(request, ResponseCode.SUCCESS, body=body))
    served.until(lambda: bool(unmatched))

    assert [response.body for response in unmatched] == [b"again"]


def test_only_the_newest_requests_without_a_response_are_remembered(
    served: Any, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remoting_client, "GIVEN_UP_MAX", 2)
    unmatched: list[RemotingCommand] = []
    client = connect(served.address, on_unmatched=unmatched.append)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            client.invoke(RemotingCommand(served.LATER, 0), 20)
    served.until(lambda: len(served.held) == 3)

    for number, (request, channel) in enumerate(served.held):
        channel.send(response_to(request, ResponseCode.SUCCESS, body=b"%d" % number))
    assert client.invoke(RemotingCommand(served.ECHO, 0), 5_000).is_response

    assert [response.body for response in unmatched] == [b"0"]


def test_a_broken_connection_ends_every_wait_and_the_next_request_reconnects(served: Any, connect: Connect) -> None:
    client = connect(served.address)
    under_way = client.invoke_async(RemotingCommand(served.LATER, 0))
    served.until(lambda: bool(served.held))

    served.held[0][1].close()

    with pytest.raises(ConnectionError, match="broke"):
        under_way.wait(5_000)
    assert client.invoke(RemotingCommand(served.ECHO, 0, body=b"again"), 5_000).body == b"again"
    assert served.server.counts.accepted == 2


def test_garbage_from_a_server_closes_the_connection(connect: Connect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = connect(listener.getsockname())
        under_way = client.invoke_async(RemotingCommand(1, 0))
        accepted, _ = listener.accept()
        with accepted:
            accepted.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            with pytest.raises(ConnectionError):
                under_way.wait(5_000)


def test_a_refused_connection_is_an_error_at_once(connect: Connect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()

    with pytest.raises(ConnectionRefusedError):
        connect(address).invoke(RemotingCommand(1, 0), 5_000)


def test_requests_that_wait_for_a_failing_connection_fail_with_it() -> None:
    attempts, has_begun, may_fail = [], threading.Event(), threading.Event()

    class Unreachable:
        def connect(self, address: str, timeout_ms: int) -> Any:
            attempts.append(address)
            has_begun.set()
            may_fail.wait(10)
            raise TimeoutError(f"{address}: no answer in time")

    client = RemotingClient(replace(real_world(), network=cast(Any, Unreachable())), "10.0.0.9:10911")
    errors: list[str] = []

    def ask() -> None:
        with pytest.raises(OSError, match=r"10\.0\.0\.9:10911: ") as caught:
            client.invoke(RemotingCommand(1, 0), 5_000)
        errors.append(type(caught.value).__name__)

    tasks = [threading.Thread(target=ask) for _ in range(4)]
    for task in tasks:
        task.start()
    assert has_begun.wait(10)
    time.sleep(0.2)  # the other requests wait for the lock by then
    may_fail.set()
    for task in tasks:
        task.join(10)
    assert sorted(errors) == ["ConnectionError"] * 3 + ["TimeoutError"]
    assert len(attempts) == 1
    with pytest.raises(TimeoutError):  # the next request tries again
        client.invoke(RemotingCommand(1, 0), 5_000)
    assert len(attempts) == 2


def test_one_way_requests_work_in_both_directions(served: Any, connect: Connect) -> None:
    told: list[RemotingCommand] = []
    client = connect(served.address, on_request=lambda request, _: told.append(request))

    client.invoke_one_way(RemotingCommand(served.LATER, 0))
    served.until(lambda: bool(served.held))
    command, channel = served.held[0]
    channel.send(RemotingCommand(40, 1, ONE_WAY_FLAG, ext_fields={"consumerGroup": "g"}))
    served.until(lambda: bool(told))

    assert command.is_one_way
    assert told[0].ext_fields == {"consumerGroup": "g"}


def test_a_client_answers_a_request_of_the_server_over_the_same_connection(served: Any, connect: Connect) -> None:
    answers: list[tuple[Channel, RemotingCommand]] = []
    served.server._on_response = lambda channel, response: answers.append((channel, response)) is None
    answer = RemotingCommand(0, 0, body=b"x")
    client = connect(served.address, on_request=lambda request, connection: connection.respond(request, answer))

    client.invoke_one_way(RemotingCommand(served.LATER, 0))
    served.until(lambda: bool(served.held))
    channel = served.held[0][1]
    channel.send(RemotingCommand(307, 77))
    served.until(lambda: bool(answers))

    [(answered, response)] = answers
    assert answered is channel
    assert (response.opaque, response.is_response, response.body) == (77, True, b"x")


def test_every_kind_of_request_is_signed(served: Any, connect: Connect) -> None:
    client = connect(served.address, sign=make_signer("RocketMQ", "12345678"))

    fields = client.invoke(RemotingCommand(served.ECHO, 0, ext_fields={"topic": "T"}), 5_000).ext_fields
    client.invoke_one_way(RemotingCommand(served.LATER, 0))
    served.until(lambda: bool(served.held))

    assert {"AccessKey", "Signature", "topic"} == set(fields)
    assert "Signature" in served.held[0][0].ext_fields


def test_a_closed_client_refuses_requests(served: Any, connect: Connect) -> None:
    client = connect(served.address)
    under_way = client.invoke_async(RemotingCommand(served.LATER, 0))
    served.until(lambda: bool(served.held))

    client.close()

    with pytest.raises(ConnectionError):
        under_way.wait(5_000)
    with pytest.raises(ConnectionError, match="closed"):
        client.invoke(RemotingCommand(served.ECHO, 0), 5_000)
    served.until_ended(ConnectionEnding.BY_CLIENT)


def test_closing_a_client_ends_the_tasks_of_a_connection_that_broke_before(served: Any, connect: Connect) -> None:
    entered, gate = threading.Event(), threading.Event()

    def hold_up(*_: object) -> None:
        entered.set()
        assert gate.wait(60)

    client = connect(served.address, on_request=hold_up)
    client.invoke_one_way(RemotingCommand(served.LATER, 0))
    served.until(lambda: bool(served.held))
    channel = served.held[0][1]
    channel.send(RemotingCommand(40, 1, ONE_WAY_FLAG))
    assert entered.wait(60)
    link = client._link
    assert link is not None
    link.close()  # as after a failed send
    assert client.invoke(RemotingCommand(served.ECHO, 0, body=b"again"), 5_000).body == b"again"

    threading.Timer(0.2, gate.set).start()
    client.close()

    assert gate.is_set()
    assert [each.name for each in threading.enumerate() if each.name == f"client of {client.address}"] == []
