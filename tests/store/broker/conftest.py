"""Fixtures: a server on real sockets with test processors, raw peers, and broker processes."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.one_life import call_in_one_life
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.network.hosts import SimNetwork
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.store.broker.limits import PoolLimits, ServerLimits
from tornlog.store.broker.remoting_client import RemotingClient
from tornlog.store.broker.requests import response_to
from tornlog.store.broker.router import Channel, Pool, RequestRoute, Routes
from tornlog.store.broker.server import AccessCheck, RemotingServer
from tornlog.store.broker.server_counts import ConnectionEnding, RequestRefusal
from tornlog.store.formats.remoting.command import RemotingCommand
from tornlog.store.formats.remoting.frame import FRAME_BYTES_MAX, CommandReader, encode_frame
from tornlog.store.real.world import real_world
from tornlog.store.world import World


class Peer:
    """A raw connection to a server."""

    def __init__(self, address: tuple[str, int], receive_bytes: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(60)
        self.socket.connect(address)
        self._commands = self._receive()

    def send(self, *commands: RemotingCommand) -> None:
        self.socket.sendall(b"".join(map(encode_frame, commands)))

    def receive(self) -> RemotingCommand:
        return next(self._commands)

    def ask(self, command: RemotingCommand) -> RemotingCommand:
        self.send(command)
        return self.receive()

    def is_ended(self) -> bool:
        """Wait until the server closes the connection. Return False on a timeout."""
        try:
            while self.socket.recv(1 << 16):
                pass
        except TimeoutError:
            return False
        except ConnectionError:
            pass
        return True

    def _receive(self) -> Iterator[RemotingCommand]:
        reader = CommandReader("server")
        while data := self.socket.recv(1 << 16):
            for command, _ in reader.commands(data):
                yield command


@dataclass
class Served:
    """A running server with test processors.

    FAIL raises an exception, WAIT waits for the gate, SIZED returns as many zeros as its field `bytes` says.
    """

    ECHO: ClassVar[int] = 1000
    FAIL: ClassVar[int] = 1001
    WAIT: ClassVar[int] = 1002
    SIZED: ClassVar[int] = 1003
    LATER: ClassVar[int] = 1004
    """Stores the request in `held` and does not answer."""

    server: RemotingServer
    address: tuple[str, int]
    gate: threading.Event = field(default_factory=threading.Event)
    closed: list[Channel] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    held: list[tuple[RemotingCommand, Channel]] = field(default_factory=list)
    begun: list[int] = field(default_factory=list)
    """Opaques of WAIT requests in progress."""
    peers: list[Peer] = field(default_factory=list)

    def connect(self, receive_bytes: int | None = None) -> Peer:
        self.peers.append(Peer(self.address, receive_bytes))
        return self.peers[-1]

    def until(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait until a condition is true."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, self.server.counts.counts_by_name()
            time.sleep(0.005)

    def until_ended(self, ending: ConnectionEnding, count: int = 1) -> None:
        self.until(lambda: self.server.counts.endings[ending] >= count)

    def until_refused(self, refusal: RequestRefusal, count: int = 1) -> None:
        self.until(lambda: self.server.counts.refusals[refusal] >= count)

    def routes(self) -> Routes:
        return {
            self.ECHO: RequestRoute(Pool.ADMIN, self._echo, FRAME_BYTES_MAX),
            self.FAIL: RequestRoute(Pool.ADMIN, self._fail),
            self.WAIT: RequestRoute(Pool.SEND_MESSAGE, self._wait, FRAME_BYTES_MAX),
            self.SIZED: RequestRoute(Pool.QUERY_MESSAGE, self._sized),
            self.LATER: RequestRoute(Pool.PULL_MESSAGE, self._later),
        }

    def _echo(self, command: RemotingCommand, _: Channel) -> RemotingCommand:
        return response_to(command, 0, "echo", command.ext_fields, command.body)

    def _fail(self, _: RemotingCommand, __: Channel) -> RemotingCommand:
        raise LookupError("no such thing")

    def _wait(self, command: RemotingCommand, _: Channel) -> RemotingCommand:
        self.begun.append(command.opaque)
        assert self.gate.wait(120)
        return response_to(command, 0)

    def _sized(self, command: RemotingCommand, _: Channel) -> RemotingCommand:
        return response_to(command, 0, body=bytes(int(command.ext_fields["bytes"])))

    def _later(self, command: RemotingCommand, channel: Channel) -> None:
        self.held.append((command, channel))


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Start servers. After the test, checks that no connection is open and no byte is held."""
    running: list[Served] = []

    def start(
        limits: ServerLimits | None = None, *, pools: PoolLimits | None = None, check: AccessCheck | None = None
    ) -> Served:
        all_pools = {pool: pools or PoolLimits(2, 100) for pool in Pool}
        told: list[str] = []
        server = RemotingServer(real_world(), replace(limits or ServerLimits(), pools=all_pools), emit=told.append)
        (address,) = server.listen(["127.0.0.1:0"])
        host, _, port = address.rpartition(":")
        served = Served(server, (host, int(port)), told=told)
        running.append(served)
        server.start(served.routes(), check=check, on_channel_closed=served.closed.append)
        return served

    yield start
    for served in running:
        served.gate.set()
        assert served.server.shutdown()
        for peer in served.peers:
            peer.socket.close()
        assert served.server.connections.count == 0
        assert served.server.connections.held_bytes == 0


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    """Start a server with default limits."""
    return serve()


@pytest.fixture
def peer(served: Served) -> Peer:
    return served.connect()


class ServeProcess:
    """A `tornlog serve` process with its log file."""

    def __init__(self, place: Path, name: str, *options: str) -> None:
        self.log = place / f"{name}.log"
        command = [sys.executable, "-m", "tornlog", "serve", str(place / name), "--json", *options]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log.read_text()
        self.ready: dict[str, Any] = json.loads(line)
        self.address: str = self.ready["addresses"][0]
        self.last_line = ""

    def ask(self, code: int, body: bytes = b"", **fields: str) -> RemotingCommand:
        with closing(RemotingClient(real_world(), self.address)) as client:
            return client.invoke(RemotingCommand(code, 0, version=409, ext_fields=fields, body=body), 10_000)

    def has_logged(self, text: str) -> bool:
        return text in self.log.read_text()

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal to the process, and wait until it ends. Return its exit status."""
        self.process.send_signal(number)
        self.last_line, _ = self.process.communicate(timeout=120)
        return self.process.returncode

    def stop(self, number: int = signal.SIGTERM) -> dict[str, Any]:
        """Stop the process, check that it ends cleanly, and return its last line."""
        assert self.end(number) == 0, (self.last_line, self.log.read_text())
        stopped: dict[str, Any] = json.loads(self.last_line)
        return stopped


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., ServeProcess]]:
    """Start processes by name and options. They are stopped after the test."""
    running: list[ServeProcess] = []

    def make(name: str, *options: str) -> ServeProcess:
        running.append(ServeProcess(tmp_path, name, *options))
        return running[-1]

    yield make
    for one in running:
        one.process.kill()
        one.process.wait()
        assert one.process.stdout is not None
        one.process.stdout.close()


@pytest.fixture
def run() -> Iterator[Callable[[Callable[[World, World], None]], None]]:
    """Run a body with two simulated machines. The first can listen, and the second can connect to it."""
    kernel = Kernel(RandomWalk(Choices("a server's end").stream("schedule"), 8))
    network = SimNetwork(kernel)
    here, there = kernel.create_machine("here"), kernel.create_machine("there")
    worlds = [
        World(machine.clock, machine.tasks, None, network.connect_machine(machine, host))  # type: ignore[arg-type]
        for machine, host in ((here, "10.0.0.1"), (there, "10.0.0.2"))
    ]

    def run_it(body: Callable[[World, World], None]) -> None:
        kernel.run(here, lambda: body(worlds[0], worlds[1]), time_limit_ns=3600 * 10**9)

    yield run_it
    kernel.close()


@pytest.fixture
def here(run: Callable[..., None]) -> Callable[..., None]:
    """Run the test on the first of two machines. Its arguments `here` and `there` are the worlds of both."""
    return run


@pytest.fixture
def there() -> None:
    """Placeholder for an argument that `here` sets."""


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    client = {"client": lambda bench: bench.client()}
    return call_in_one_life(pyfuncitem, ("bench",), ("here", "there"), more=client)
