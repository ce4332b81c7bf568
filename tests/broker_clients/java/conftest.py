"""RocketMQ's Java client in a separate JVM."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.broker_clients.line_process import LineProcess
from tests.conformance.maven import JavaProgram, java_program

DRIVER = Path(__file__).with_name("driver")
ARTIFACTS = [f"org.apache.rocketmq:rocketmq-{name}:4.9.8" for name in ("client", "acl", "tools")]
JVM_OPTIONS = (
    *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx384m"),
    "-Drocketmq.client.rebalance.waitInterval=1000",  # by default a consumer finds a new queue after 20 s
)
ANSWER_S = 60
QUEUES = 4


@pytest.fixture(scope="session")
def program(fetched: Callable[[Callable[[], JavaProgram]], JavaProgram]) -> JavaProgram:
    """The compiled driver and its jars."""
    sources = {path.name: path.read_text() for path in DRIVER.glob("*.java")}
    return fetched(lambda: java_program("client-driver", ARTIFACTS, sources))


class ClientError(RuntimeError):
    """An exception of the client, with its class name and the broker's response code if there is one."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__(f"{answer['error']}: {answer['message']}")
        self.kind: str = answer["error"]
        self.code: int | None = answer.get("code")


class Driver:
    """The JVM, which answers each command once."""

    def __init__(self, program: JavaProgram, logs: Path, *properties: str) -> None:
        logs.mkdir()
        places = (f"-Drocketmq.client.logRoot={logs}", f"-Drocketmq.client.localOffsetStoreDir={logs / 'offsets'}")
        command = [program.java, *JVM_OPTIONS, *places, *properties, "-cp", program.class_path, "Driver"]
        self._process = LineProcess(command, logs / "stderr")

    def ask(self, do: str, **given: Any) -> Any:
        answer = json.loads(self._process.ask(json.dumps({"do": do} | given), ANSWER_S))
        if "error" in answer:
            raise ClientError(answer)
        return answer["is"]

    def close(self) -> None:
        self._process.close(ANSWER_S)


@dataclass(frozen=True)
class Producer:
    """A producer in the JVM."""

    client: "Client"
    name: str

    def ask(self, do: str, **given: Any) -> Any:
        return self.client.ask(do, producer=self.name, **given)

    def send(self, topic: str, body: str, how: str = "send", **given: Any) -> Any:
        return self.ask(how, topic=topic, body=body, **given)


@dataclass(frozen=True)
class Consumer:
    """A push consumer in the JVM."""

    client: "Client"
    name: str

    def received(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.client.ask("consumer.received", consumer=self.name)
        return messages

    def bodies(self) -> list[str]:
        return [message["body"] for message in self.received()]

    def wait_for(self, count: int, *, within_s: float = 45.0) -> list[dict[str, Any]]:
        """Wait until `count` messages are received, and return the messages."""

        def enough() -> list[dict[str, Any]] | None:
            messages = self.received()
            return messages if len(messages) >= count else None

        messages: list[dict[str, Any]] = self.client.eventually(enough, within_s=within_s)
        assert len(messages) == count, [message["body"] for message in messages]
        return messages

    def queues(self, topic: str) -> list[int]:
        queues: list[int] = self.client.ask("consumer.queues", consumer=self.name, topic=topic)
        return queues

    def stop(self) -> list[dict[str, Any]]:
        self.client.forget("consumer.stop", self.name)
        messages: list[dict[str, Any]] = self.client.ask("consumer.stop", consumer=self.name)
        return messages


class Client:
    """The clients that a test starts in the JVM. They are stopped after the test."""

    _numbers = iter(range(1_000_000))

    def __init__(self, driver: Driver, broker: Any, eventually: Callable[..., Any]) -> None:
        self._driver = driver
        self.broker = broker
        self.eventually = eventually
        self._running: list[tuple[str, str]] = []

    def ask(self, do: str, **given: Any) -> Any:
        return self._driver.ask(do, namesrv=self.broker.namesrv, **given)

    def start(self, kind: str, **given: Any) -> str:
        name = f"{kind}-{next(self._numbers)}"
        self.ask(f"{kind}.start", name=name, **given)
        self._running.append((f"{kind}.stop", name))
        return name

    def forget(self, stop: str, name: str) -> None:
        self._running.remove((stop, name))

    def producer(self, group: str = "producers", **given: Any) -> Producer:
        return Producer(self, self.start("producer", group=group, **given))

    def consumer(self, topic: str, group: str, **given: Any) -> Consumer:
        return Consumer(self, self.start("consumer", topic=topic, group=group, **given))

    def admin(self, **given: Any) -> Callable[..., Any]:
        """Start an admin client, and return its call function."""
        name = self.start("admin", **given)
        return lambda do, **what: self.ask(f"admin.{do}", admin=name, broker=self.broker.address, **what)

    def pull(self, do: str, **given: Any) -> Any:
        """Send a command to the driver's old pull consumer."""
        return self.ask(f"pull.{do}", name=f"pull-{next(self._numbers)}", **given)

    def close(self) -> None:
        for stop, name in reversed(self._running):
            self._driver.ask(stop, **{stop.partition(".")[0]: name})
        self._running.clear()


@pytest.fixture(scope="session")
def drivers(program: JavaProgram, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Driver]]:
    """One JVM for each header format of the client."""
    started: dict[str, Driver] = {}

    def driver(header_form: str) -> Driver:
        if header_form not in started:
            logs = tmp_path_factory.mktemp("client-logs") / header_form
            started[header_form] = Driver(program, logs, f"-Drocketmq.serialize.type={header_form}")
        return started[header_form]

    yield driver
    for running in started.values():
        running.close()


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
    client.admin()("createTopic", topic=f"topic-{group}", queues=QUEUES)
    return f"topic-{group}"
