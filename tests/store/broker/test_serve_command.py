"""`tornlog serve` as a process."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.broker_clients.conftest import free_port
from tests.command_line import tornlog
from tornlog.store.broker.acl.rules import make_signer
from tornlog.store.broker.remoting_client import RemotingClient
from tornlog.store.formats.remoting.command import RemotingCommand
from tornlog.store.real.network import RealNetwork
from tornlog.store.real.tls import TlsTrust
from tornlog.store.real.world import real_world
from tornlog.store.world import World

from .conftest import ServeProcess

SMALL = "mapedFileSizeCommitLog=1048576\nmaxHashSlotNum=1000\nmaxIndexNum=4000\n"
ACL = """accounts:
- accessKey: RocketMQ
  secretKey: 12345678
  defaultTopicPerm: PUB
"""


@pytest.fixture
def serve_store(start: Callable[..., ServeProcess], tmp_path: Path) -> Callable[..., ServeProcess]:
    """Start a broker on the directory `store` with small files."""
    conf = tmp_path / "broker.conf"
    conf.write_text(SMALL)
    return lambda *options: start("store", "--config", str(conf), "--port", "0", *options)


def send_to(broker: ServeProcess, world: World | None = None, **options: Any) -> RemotingCommand:
    """Send a message, and return the answer."""
    fields = {"a": "group", "b": "Orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "0", "h": "0"}
    command = RemotingCommand(310, 0, ext_fields={**fields, "i": "", "j": "0", "k": "false"}, body=b"hello")
    with closing(RemotingClient(world or real_world(), broker.address, **options)) as client:
        return client.invoke(command, 5_000)


def usage_error(*arguments: str) -> str:
    result = tornlog("serve", *arguments, columns=200)
    assert result.exit_code == 2, result.output
    return result.output


@pytest.mark.ci
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_runs_until_a_signal_and_stops_cleanly(
    serve_store: Callable[..., ServeProcess], tmp_path: Path, number: int
) -> None:
    broker = serve_store()
    responses = [send_to(broker) for _ in range(3)]
    marker = tmp_path / "store" / "abort"
    assert marker.exists()

    stopped = broker.stop(number)

    assert [response.code for response in responses] == [0, 0, 0]
    assert [response.ext_fields["queueOffset"] for response in responses] == ["0", "1", "2"]
    assert stopped["clean"] is True
    assert stopped["counts"]["requests"] == 3
    assert not marker.exists()


def test_by_default_all_threads_of_serve_are_pinned_to_one_processor(serve_store: Callable[..., ServeProcess]) -> None:
    def processors(broker: ServeProcess) -> set[frozenset[int]]:
        threads = os.listdir(f"/proc/{broker.process.pid}/task")
        assert len(threads) > 10
        return {frozenset(os.sched_getaffinity(int(thread))) for thread in threads}

    allowed = os.sched_getaffinity(0)
    broker = serve_store()
    assert processors(broker) == {frozenset({broker.ready["processor"]})}
    assert broker.ready["processor"] in allowed
    broker.stop()

    anywhere = serve_store("--no-pin")
    assert "processor" not in anywhere.ready
    assert processors(anywhere) == {frozenset(allowed)}


@pytest.mark.ci
def test_acknowledged_messages_survive_a_kill_of_serve(serve_store: Callable[..., ServeProcess]) -> None:
    first = serve_store()
    assert send_to(first).code == 0
    first.end(signal.SIGKILL)

    second = serve_store()
    assert send_to(second).ext_fields["queueOffset"] == "1"
    second.stop()


def test_two_signals_at_once_end_the_process(serve_store: Callable[..., ServeProcess]) -> None:
    broker = serve_store()
    broker.process.send_signal(signal.SIGSTOP)  # so that both requests are ready at once
    broker.process.send_signal(signal.SIGTERM)
    broker.process.send_signal(signal.SIGINT)
    broker.process.send_signal(signal.SIGCONT)

    both = (signal.SIGTERM, signal.SIGINT)
    assert broker.process.wait(120) in (0, *(128 + number for number in both), *(-number for number in both))


def test_serve_enforces_access_control(serve_store: Callable[..., ServeProcess], tmp_path: Path) -> None:
    acl = tmp_path / "plain_acl.yml"
    acl.write_text(ACL)
    broker = serve_store("--acl", str(acl))
    signs = (None, make_signer("RocketMQ", "87654321"), make_signer("RocketMQ", "12345678"))

    answers = [send_to(broker, sign=sign) for sign in signs]

    assert [answer.code for answer in answers] == [1, 1, 0]
    assert "No accessKey is configured" in (answers[0].remark or "")
    assert "Check signature failed for accessKey=RocketMQ" in (answers[1].remark or "")
    assert broker.stop()["counts"]["refusals"] == {"ACCESS": 2}


@pytest.mark.ci
def test_one_port_accepts_tls_and_plain_text_unless_tls_is_required(
    serve_store: Callable[..., ServeProcess], certificates: Path
) -> None:
    files = ("--tls-cert", str(certificates / "server.pem"), "--tls-key", str(certificates / "server.key"))
    secret = real_world(RealNetwork(tls_trust=TlsTrust(None)))

    broker = serve_store(*files)
    for world in (secret, real_world()):
        assert send_to(broker, world).code == 0
    broker.stop()

    broker = serve_store(*files, "--tls-only")
    assert send_to(broker, secret).code == 0
    with pytest.raises(ConnectionError):
        send_to(broker)
    broker.stop()


def test_a_garbage_client_is_logged(serve_store: Callable[..., ServeProcess]) -> None:
    broker = serve_store()
    host, _, port = broker.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as garbage:
        garbage.sendall(b"\xff" * 64)
        assert garbage.recv(1) == b""

    assert broker.stop()["counts"]["endings"] == {"BAD_LENGTH": 1}
    assert broker.has_logged("length: expected 4 to 16777212")


def test_additional_listen_ports_serve_the_same_broker(serve_store: Callable[..., ServeProcess]) -> None:
    broker = serve_store("--namesrv-port", "0")
    assert len(broker.ready["addresses"]) == 2

    for address in broker.ready["addresses"]:
        client = RemotingClient(real_world(), address)
        assert client.invoke(RemotingCommand(105, 0, ext_fields={"topic": "TBW102"}), 5_000).code == 0
        client.close()
    broker.stop()


@pytest.mark.ci
def test_a_port_or_directory_in_use_is_a_usage_error(serve_store: Callable[..., ServeProcess], tmp_path: Path) -> None:
    broker = serve_store()
    port = broker.address.rpartition(":")[2]

    assert "in use" in usage_error(str(tmp_path / "other"), "--port", port)
    assert not (tmp_path / "other").exists()
    assert "locked by another running store" in usage_error(str(tmp_path / "store"), "--port", "0")
    broker.stop()


@pytest.mark.ci
def test_the_vip_port_is_bound_by_default(serve_store: Callable[..., ServeProcess]) -> None:
    port = free_port()
    broker = serve_store("--port", str(port))
    assert broker.ready["addresses"] == [f"127.0.0.1:{port}", f"127.0.0.1:{port - 2}"]
    client = RemotingClient(real_world(), f"127.0.0.1:{port - 2}")
    assert client.invoke(RemotingCommand(21, 0), 5_000).code == 0
    client.close()
    broker.stop()

    broker = serve_store("--port", str(port), "--no-vip-port")
    assert broker.ready["addresses"] == [f"127.0.0.1:{port}"]
    broker.stop()

    assert len(serve_store().ready["addresses"]) == 1, "of a port of the system's choice nobody can guess another"


def test_a_vip_port_in_use_is_logged_or_refused_if_requested(
    serve_store: Callable[..., ServeProcess], tmp_path: Path
) -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port - 2)):
        assert "in use" in usage_error(str(tmp_path / "other"), "--port", str(port), "--vip-port")
        broker = serve_store("--port", str(port))
        assert broker.ready["addresses"] == [f"127.0.0.1:{port}"]
        broker.stop()
    assert broker.has_logged(f"cannot listen on 127.0.0.1:{port - 2}")
    assert broker.has_logged("--no-vip-port")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--host", "0.0.0.0"], "--listen-to-everyone-without-access-control"),
        (["--host", "::"], "--listen-to-everyone-without-access-control"),
        (["--host", "192.0.2.1"], "--listen-to-everyone-without-access-control"),
        (["--host", "host.example"], "--listen-to-everyone-without-access-control"),
        (["--host", "0.0.0.0", "--listen-to-everyone-without-access-control"], "--advertise"),
        (["--tls-only"], "--tls-cert"),
        (["--role", "slave"], "--master"),
        (["--role", "slave", "--master", "nowhere"], "HOST:PORT"),
        (["--role", "slave", "--master", "::1:10911"], "in brackets"),
        (["--role", "slave", "--master", "host:65535"], "--master"),
        (["--master", "host:\u0661"], "--master"),
        (["--port", "2", "--vip-port"], "--vip-port"),
        (["--name", ""], "brokerName"),
    ],
)
def test_contradictory_serve_options_are_usage_errors(tmp_path: Path, options: list[str], says: str) -> None:
    assert says in usage_error(str(tmp_path / "store"), *options)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("conf", "says"),
    [
        ("sendMessageThreadPoolNums=0\n", "sendMessageThreadPoolNums"),
        ("nosuchkey=1\n", "nosuchkey"),
        ("masterAddr=nowhere\n", "masterAddr"),
        ("listenPort=70000\n", "listenPort"),
    ],
)
def test_an_invalid_broker_conf_is_a_usage_error(tmp_path: Path, conf: str, says: str) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(conf)

    said = usage_error(str(tmp_path / "store"), "--config", str(file))
    assert says in said
    assert file.name in said, "which of several files it is"


def test_an_error_of_an_option_does_not_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(SMALL)

    assert file.name not in usage_error(str(tmp_path / "store"), "--config", str(file), "--name", "")


def test_an_invalid_acl_file_is_a_usage_error_that_names_its_line(tmp_path: Path) -> None:
    file = tmp_path / "plain_acl.yml"
    file.write_text(ACL + "  admin: perhaps\n")

    assert "line 5: admin" in usage_error(str(tmp_path / "store"), "--acl", str(file))


def test_a_directory_without_a_store_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "checkpoint").mkdir()

    result = tornlog("serve", str(tmp_path / "store"), "--port", "0")

    assert result.exit_code in (1, 2), result.output


FAILING = """
import sys
from tornlog.__main__ import main
from tornlog.store.broker.{module} import {owner}

original = {owner}.{method}

def failing(self, *given, **named):
    if {condition}:
        raise RuntimeError("planted")
    return original(self, *given, **named)

{owner}.{method} = failing
main()
"""
ENDS = {
    "connections": ("connections", "Connections", "_handle_events", "True"),
    "late answers": ("late_answers", "LateAnswerService", "run_once", "True"),
    "closed channels": ("server", "ClosedChannelService", "finish_remaining_work", "True"),
    "send message": ("request_pool", "RequestPool", "_take_next_request", "self._pool.name == 'SEND_MESSAGE'"),
    "pull request hold": ("long_polling", "PullRequestHoldService", "run_once", "True"),
    "access control": ("acl.plain_acl", "AccessControl", "run_once", "True"),
}
OF_BROKERS = ("send message", "pull request hold")


@pytest.mark.parametrize(
    ("name", "is_name_server"),
    [*((name, False) for name in ENDS), *((name, True) for name in ENDS if name not in OF_BROKERS)],
)
def test_serve_exits_with_the_reason_if_a_necessary_task_ends(tmp_path: Path, name: str, is_name_server: bool) -> None:
    module, owner, method, condition = ENDS[name]
    script = FAILING.format(module=module, owner=owner, method=method, condition=condition)
    (tmp_path / "acl.yml").write_text(ACL)
    (tmp_path / "broker.conf").write_text(SMALL)
    options = ["--name-server"] if is_name_server else ["--config", str(tmp_path / "broker.conf")]
    command = ["serve", str(tmp_path / "store"), "--port", "0", "--acl", str(tmp_path / "acl.yml"), "--json", *options]
    complaints = tmp_path / "stderr"
    with (
        complaints.open("w") as stderr,
        subprocess.Popen(
            [sys.executable, "-c", script, *command], stdout=subprocess.PIPE, stderr=stderr, text=True
        ) as process,
    ):
        assert process.stdout is not None
        host, port = json.loads(process.stdout.readline())["addresses"][0].split(":")
        with contextlib.suppress(OSError):
            socket.create_connection((host, int(port)), timeout=5).close()
        process.wait(60)
        stopped = json.loads(process.stdout.readline())
    assert process.returncode == 1
    assert stopped["event"] == "stopped"
    reason = f"{name} has ended: RuntimeError: planted; the server cannot work without it, so the process ends"
    assert f"ERROR {reason}" in complaints.read_text()
