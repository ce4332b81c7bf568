"""RocketMQ 4.9.8 as a slave of tornlog's master, and as a master of tornlog's slave."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.broker_clients.line_process import LineProcess
from tests.conformance.maven import JavaProgram, java_program
from tornlog.store.config import BrokerRole, FlushDiskType
from tornlog.store.formats.messages import PutMessageStatus

from .conftest import SEGMENT_BYTES, Node, eventually, log_bytes, put, put_all

pytestmark = pytest.mark.ci

Start = Callable[..., Node]
_STORE = "org.apache.rocketmq:rocketmq-store:4.9.8"
_PATIENCE_S = 60
_OPEN = ("--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED")
"""Options with which RocketMQ's store can unmap its files on a current Java."""


@pytest.fixture(scope="module")
def program(fetched: Callable[[Callable[[], JavaProgram]], JavaProgram]) -> JavaProgram:
    source = Path(__file__).parent / "java" / "Replica.java"
    return fetched(lambda: java_program("replica", [_STORE], {source.name: source.read_text("utf-8")}))


class RealNode:
    """RocketMQ's store in a separate process, controlled by command lines."""

    def __init__(self, program: JavaProgram, root: Path, role: BrokerRole, master: str, port: int) -> None:
        self.root = root
        self.address = f"127.0.0.1:{port}"
        root.mkdir(exist_ok=True)
        arguments = [str(root), role.value, "ASYNC_FLUSH", str(port), master, str(SEGMENT_BYTES)]
        home = f"-Duser.home={root}"  # RocketMQ writes its own log files there
        command = [program.java, *_OPEN, "-Xmx256m", home, "-cp", program.class_path, "Replica", *arguments]
        self._process = LineProcess(command, root.with_suffix(".stderr"), prefix="= ")
        self.runs = True
        assert self._process.answer(_PATIENCE_S) == "ready"

    def ask(self, command: str) -> str:
        return self._process.ask(command, _PATIENCE_S)

    @property
    def end(self) -> int:
        return int(self.ask("end"))

    def log_bytes(self, end: int) -> bytes:
        """Return the bytes of its log up to a log offset."""
        paths = sorted((self.root / "commitlog").iterdir())
        first = int(paths[0].name)
        return b"".join(path.read_bytes() for path in paths)[: end - first]

    def kill(self) -> None:
        self.runs = False
        self._process.kill()


@pytest.fixture
def real(program: JavaProgram, tmp_path: Path) -> Iterator[Callable[..., RealNode]]:
    made: list[RealNode] = []

    def start(name: str, role: BrokerRole, master: str = "-") -> RealNode:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        made.append(RealNode(program, tmp_path / name, role, master, port))
        return made[-1]

    yield start
    for node in made:
        if node.runs:
            node.kill()


def test_a_real_slave_has_the_bytes_of_our_master_and_answers_its_puts(
    node: Start, real: Callable[..., RealNode]
) -> None:
    master = node("master", BrokerRole.SYNC_MASTER, slave_timeout_ms=20_000)
    slave = real("slave", BrokerRole.SLAVE, master.ha.address)
    eventually(lambda: bool(master.ha.connections), "a slave", _PATIENCE_S)
    eventually(lambda: master.ha.connections[0].reported_offset >= 0, "its report", _PATIENCE_S)
    results = [put(master.store, number) for number in range(60)]
    end = master.store.log.max_offset

    assert {result.status for result in results} == {PutMessageStatus.PUT_OK}
    eventually(lambda: slave.end == end, "the end", _PATIENCE_S)
    assert slave.log_bytes(end) == log_bytes(master.store)


def test_our_slave_has_the_bytes_of_a_real_master_and_answers_its_puts(
    node: Start, real: Callable[..., RealNode]
) -> None:
    master = real("master", BrokerRole.SYNC_MASTER)
    slave = node("slave", BrokerRole.SLAVE, ha_master_address=master.address, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    eventually(lambda: slave.client_state != "not connected", "a connection", _PATIENCE_S)
    statuses = [master.ask(f"put {number} 300") for number in range(60)]
    end = master.end

    assert statuses[-40:] == ["PUT_OK"] * 40
    eventually(lambda: slave.store.log.max_offset == end, "the end", _PATIENCE_S)
    first = slave.store.min_phy_offset
    assert log_bytes(slave.store) == master.log_bytes(end)[first:]
    eventually(lambda: slave.store.get_max_offset_in_queue("T", 0) == 60, "dispatch", _PATIENCE_S)


def test_our_restarted_slave_continues_with_a_real_master(node: Start, real: Callable[..., RealNode]) -> None:
    master = real("master", BrokerRole.ASYNC_MASTER)
    slave = node("slave", BrokerRole.SLAVE, ha_master_address=master.address)
    for number in range(20):
        master.ask(f"put {number} 300")
    eventually(lambda: slave.store.log.max_offset == master.end, "the end", _PATIENCE_S)
    slave.stop()
    for number in range(20, 40):
        master.ask(f"put {number} 300")
    again = node("slave", BrokerRole.SLAVE, ha_master_address=master.address)
    eventually(lambda: again.store.log.max_offset == master.end, again.client_state, _PATIENCE_S)

    assert log_bytes(again.store) == master.log_bytes(master.end)[max(again.store.min_phy_offset, 0) :]
    assert again.client_state == "following"


def test_our_slave_diverges_from_another_real_master(node: Start, real: Callable[..., RealNode]) -> None:
    master = node("master", BrokerRole.ASYNC_MASTER)
    slave = node("slave", BrokerRole.SLAVE, master)
    eventually(lambda: bool(master.ha.connections), "a slave", _PATIENCE_S)
    put_all(master.store, range(5))
    eventually(lambda: slave.store.log.max_offset == master.store.log.max_offset, "the end", _PATIENCE_S)
    before = log_bytes(slave.store)
    other = real("other", BrokerRole.ASYNC_MASTER)
    other.ask("put 0 300")
    slave.ha.update_master_address(other.address)
    eventually(lambda: slave.client_state.startswith("diverged"), "divergence", _PATIENCE_S)

    assert "the master's log is shorter" in slave.client_state
    for number in range(1, 10):
        other.ask(f"put {number} 301")
    slave.ha.update_master_address(master.ha.address)
    slave.ha.update_master_address(other.address)
    eventually(lambda: slave.client_state.startswith("diverged"), "divergence", _PATIENCE_S)
    assert "as in this log" in slave.client_state
    assert log_bytes(slave.store) == before


def test_a_killed_real_slave_catches_up(node: Start, real: Callable[..., RealNode]) -> None:
    master = node("master", BrokerRole.SYNC_MASTER, slave_timeout_ms=20_000)
    slave = real("slave", BrokerRole.SLAVE, master.ha.address)
    eventually(lambda: bool(master.ha.connections), "a slave", _PATIENCE_S)
    eventually(lambda: master.ha.connections[0].reported_offset >= 0, "its report", _PATIENCE_S)
    put_all(master.store, range(20))
    eventually(lambda: slave.end == master.store.log.max_offset, "the end", _PATIENCE_S)
    slave.kill()
    eventually(lambda: not master.ha.connections, "its end", _PATIENCE_S)
    assert put(master.store, 20).status is PutMessageStatus.SLAVE_NOT_AVAILABLE
    again = real("slave", BrokerRole.SLAVE, master.ha.address)
    eventually(lambda: again.end == master.store.log.max_offset, "the end", _PATIENCE_S)

    assert put(master.store, 21).status is PutMessageStatus.PUT_OK
    eventually(lambda: again.end == master.store.log.max_offset, "the end", _PATIENCE_S)
    end = master.store.log.max_offset
    assert again.log_bytes(end) == log_bytes(master.store)
