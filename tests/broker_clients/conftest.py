"""Broker processes, and official clients of them.

The tests can also run against RocketMQ's own broker: set ROCKETMQ_BROKER_JARS to a directory with the jars of
`rocketmq-broker` and `rocketmq-namesrv` 4.9. That broker listens on every interface, so run it in a separate network
namespace: `unshare --net sh -c 'ip link set lo up; ROCKETMQ_BROKER_JARS=DIR pytest tests/broker_clients'`.

The client is RocketMQ's Java client 4.9.8, or the one that ROCKETMQ_CLIENT starts (a command of `programs.py` as JSON).
"""

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.broker_clients.client import Client, Driver
from tests.broker_clients.programs import PROGRAMS
from tests.command_line import tornlog

REAL_BROKER_JARS = os.environ.get("ROCKETMQ_BROKER_JARS")
CLIENT_COMMAND = os.environ.get("ROCKETMQ_CLIENT")
REAL_BROKER = (
    *("-cp", f"{REAL_BROKER_JARS}/*"),
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.nio", "sun.nio.ch", "jdk.internal.ref")),
)
QUEUES = 4
CONF = {
    "brokerName": "tornlog",
    "enablePropertyFilter": "true",
    "transactionTimeOut": "1000",
    "transactionCheckInterval": "1000",
    "defaultTopicQueueNums": str(QUEUES),
    "mapedFileSizeCommitLog": str(16 << 20),
}
PATIENT = {"waitTimeMillsInSendQueue": "5000"}
"""By default a broker on a busy machine refuses a send after 200 ms."""


def _eventually(found: Callable[[], Any], *, within_s: float = 45.0) -> Any:
    """Call `found` until it returns a true value, and return that value. Fail with the last value after a timeout."""
    end_s = time.monotonic() + within_s
    while not (last := found()):
        assert time.monotonic() < end_s, f"not within {within_s} s; last seen: {last!r}"
        time.sleep(0.05)
    return last


@pytest.fixture(scope="session")
def eventually() -> Callable[..., Any]:
    """Return the polling function."""
    return _eventually


def free_port() -> int:
    """Return a free port whose neighbour ports for HA and VIP are also free.

    The ports are below the ephemeral range. Otherwise the socket of a reconnecting client could use the port while the
    broker is down.
    """
    while True:
        # `SystemRandom`, because parallel workers of a test run share the seed of `random`.
        port = random.SystemRandom().randrange(20_000, 32_000, 4)
        if all(map(_is_free, (port, port + 1, port - 2))):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


class BrokerProcess:
    """`tornlog serve` on one directory. After a restart it listens on the same port."""

    def __init__(self, place: Path, conf: dict[str, str], options: tuple[str, ...] = ()) -> None:
        self.store = place / "store"
        self.store.mkdir(parents=True)
        self.conf = place / "broker.conf"
        self.conf.write_text("".join(f"{key}={value}\n" for key, value in (CONF | conf).items()))
        self.address = self.namesrv = f"127.0.0.1:{free_port()}"
        host, _, port = self.address.rpartition(":")
        self.slaves_connect_to = f"{host}:{int(port) + 1}"
        self._options = options
        self._complaints = place / "stderr"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        host, _, port = self.address.rpartition(":")
        command = [sys.executable, "-m", "tornlog", "serve", str(self.store), "--host", host, "--port", port]
        with self._complaints.open("a") as complaints:
            self._process = subprocess.Popen(
                [*command, "--config", str(self.conf), "--json", *self._options],
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
            )
        assert self._process.stdout is not None
        ready = self._process.stdout.readline()
        assert ready, f"serve ended: {self._complaints.read_text()[-2000:]}"

    def _end(self, number: int) -> int:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.send_signal(number)
        code = self._process.wait(30)
        self._process.stdout.close()
        self._process = None
        return code

    def kill(self) -> None:
        """Kill the process."""
        assert self._end(signal.SIGKILL) == -signal.SIGKILL

    @property
    def cpu_seconds(self) -> float:
        """Return the processor time of the process since its start."""
        assert self._process is not None
        stat = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """Stop the broker with a signal, as an operator does. The store must be clean and valid afterwards."""
        assert self._end(signal.SIGTERM) == 0, self._complaints.read_text()[-2000:]
        assert not (self.store / "abort").exists()
        verified = tornlog("verify", str(self.store), "--config", str(self.conf))
        assert verified.exit_code == 0, verified.output

    def close(self) -> None:
        if self._process is not None:
            self.stop()


class RealBrokerProcess(BrokerProcess):
    """RocketMQ's own broker and its name server."""

    JAVA: tuple[str, ...] = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx384m")
    """Java options for a fast start."""
    _LOGGING = "<configuration><root level='OFF'/></configuration>"

    def __init__(self, place: Path, conf: dict[str, str], options: tuple[str, ...] = ()) -> None:
        super().__init__(place, conf)
        own_name_server = f"127.0.0.1:{free_port()}"
        self.namesrv = conf.get("namesrvAddr", own_name_server)
        self._home = place / "home" / "conf"
        self._home.mkdir(parents=True)
        for name in ("namesrv", "broker"):
            (self._home / f"logback_{name}.xml").write_text(self._LOGGING)
        (self._home / "namesrv.conf").write_text(f"listenPort={own_name_server.rpartition(':')[2]}\n")
        if "--acl" in options:
            shutil.copy(options[options.index("--acl") + 1], self._home / "plain_acl.yml")
        more = {
            "brokerClusterName": "DefaultCluster",
            "brokerIP1": "127.0.0.1",
            "listenPort": self.address.rpartition(":")[2],
            "haListenPort": self.slaves_connect_to.rpartition(":")[2],
            "storePathRootDir": str(self.store),
            "storePathCommitLog": str(self.store / "commitlog"),
            "aclEnable": str("--acl" in options).lower(),
            "namesrvAddr": self.namesrv,
        }
        with self.conf.open("a") as conf_file:
            conf_file.writelines(f"{key}={value}\n" for key, value in (more | conf).items())
        self._name_server = self._java(
            "namesrv.NamesrvStartup", self._home / "namesrv.conf", "Name Server boot success"
        )

    def _java(self, main: str, conf: Path, ready: str) -> "subprocess.Popen[str]":
        with self._complaints.open("a") as complaints:
            process = subprocess.Popen(
                [
                    *(*self.JAVA, *REAL_BROKER, f"-Duser.home={self._home}"),
                    *(f"org.apache.rocketmq.{main}", "-c", str(conf)),
                ],
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
                env=os.environ | {"ROCKETMQ_HOME": str(self._home.parent)},
            )
        assert process.stdout is not None
        said: list[str] = []
        for line in process.stdout:
            said.append(line)
            if ready in line:
                return process
        return pytest.fail(f"{main} ended: {''.join(said)[-2000:]}{self._complaints.read_text()[-2000:]}")

    def start(self) -> None:
        self._process = self._java("broker.BrokerStartup", self.conf, "boot success")

    def stop(self) -> None:
        self._end(signal.SIGTERM)
        assert not (self.store / "abort").exists()

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._name_server.kill()
            self._name_server.wait()
            assert self._name_server.stdout is not None
            self._name_server.stdout.close()


Serve = Callable[..., BrokerProcess]


def _start_brokers(place: Path, stack: ExitStack) -> Serve:
    def serve(*options: str, **conf: str) -> BrokerProcess:
        kind = BrokerProcess if REAL_BROKER_JARS is None else RealBrokerProcess
        served = kind(place / f"broker-{len(list(place.iterdir()))}", PATIENT | conf, options)
        stack.callback(served.close)
        served.start()
        return served

    return serve


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start brokers with options and broker.conf keys. At the end they must stop cleanly."""
    with ExitStack() as stack:
        yield _start_brokers(tmp_path, stack)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker shared by the tests of a module. Each test has its own topics."""
    with ExitStack() as stack:
        yield _start_brokers(tmp_path_factory.mktemp("brokers"), stack)()


@pytest.fixture(scope="session")
def command(fetched: Callable[..., list[str]], tmp_path_factory: pytest.TempPathFactory) -> Sequence[str]:
    """The command that starts the client's driver."""
    if CLIENT_COMMAND is not None:
        given: list[str] = json.loads(CLIENT_COMMAND)
        return given
    return fetched(lambda: PROGRAMS["Java 4.9.8"](tmp_path_factory.mktemp("client")))


@pytest.fixture(scope="session")
def drivers(command: Sequence[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Driver]]:
    """One process for each header format of the client, replaced if it does not answer."""
    started: dict[str, Driver] = {}

    with ExitStack() as stack:

        def driver(header_form: str) -> Driver:
            if header_form not in started or not started[header_form].is_usable:
                logs = tmp_path_factory.mktemp("client-logs") / header_form
                started[header_form] = Driver(command, logs, header_form)
                stack.callback(started[header_form].close)
            return started[header_form]

        yield driver


@pytest.fixture
def header_form() -> str:
    """The header format of the client. Tests of both formats override this fixture by parameters."""
    return "JSON"


@pytest.fixture
def connect(
    drivers: Callable[[str], Driver], header_form: str, eventually: Callable[..., Any]
) -> Iterator[Callable[[Any], Client]]:
    clients: list[Client] = []

    def client_of(broker: Any) -> Client:
        clients.append(Client(drivers(header_form), broker, eventually))
        return clients[-1]

    yield client_of
    for client in clients:
        client.close()


@pytest.fixture
def client(connect: Callable[[Any], Client], broker: Any) -> Client:
    """A client of the module's broker."""
    return connect(broker)


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    """A consumer group of this test."""
    return re.sub(r"\W+", "-", request.node.name)[-100:].strip("-")


@pytest.fixture
def topic(client: Client, group: str) -> str:
    """A topic of this test, with four queues."""
    client.create_topic(f"topic-{group}")
    return f"topic-{group}"
