"""RocketMQ's Go client in a separate process. The tests are skipped if no Go toolchain is installed."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker_clients.line_process import LineProcess

DRIVER = Path(__file__).with_name("driver")
BUILD_S = 600
ANSWER_S = 90
QUEUES = 4


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled driver."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("there is no Go toolchain here, so the Go client has not been tried")
    sources = shutil.copytree(DRIVER, tmp_path_factory.mktemp("go") / "driver")
    env = os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -buildvcs=false"}
    fetched = subprocess.run(
        [go, "mod", "download"], cwd=sources, env=env, capture_output=True, text=True, timeout=BUILD_S
    )
    if fetched.returncode:
        pytest.skip(f"the Go client is out of reach, so it has not been tried: {fetched.stderr[-300:]}")
    subprocess.run([go, "build", "-o", "driver", "."], cwd=sources, env=env, check=True, timeout=BUILD_S)
    return sources / "driver"


class GoClient:
    """The driver process, which answers each command once."""

    def __init__(self, program: Path, place: Path, broker: Any, eventually: Callable[..., Any]) -> None:
        # Broadcasting consumers store their offsets in HOME.
        self._process = LineProcess([program], place / "stderr", env=os.environ | {"HOME": str(place)})
        self._broker = broker
        self._eventually = eventually
        self._names = iter(range(1_000_000))

    def ask(self, do: str, **given: Any) -> Any:
        places = {"namesrv": self._broker.namesrv, "broker": self._broker.address}
        named = {"name": f"go-{next(self._names)}"}
        answer = json.loads(self._process.ask(json.dumps({"do": do} | places | named | given), ANSWER_S))
        assert "error" not in answer, answer["error"]
        return answer["is"]

    def send(self, topic: str, *bodies: str, **given: Any) -> Any:
        return self.ask("send", topic=topic, bodies=bodies, **given)

    def consume(self, topic: str, group: str, **given: Any) -> str:
        name = f"consumer-{next(self._names)}"
        self.ask("consumer.start", name=name, topic=topic, group=group, **{"expression": "*"} | given)
        return name

    def received(self, consumer: str, count: int) -> list[dict[str, Any]]:
        """Wait until a consumer has received `count` messages, and return the messages."""

        def enough() -> list[dict[str, Any]] | None:
            messages: list[dict[str, Any]] = self.ask("consumer.received", name=consumer)
            return messages if len(messages) >= count else None

        messages: list[dict[str, Any]] = self._eventually(enough, within_s=60.0)
        assert len(messages) == count, [message["body"] for message in messages]
        return messages

    def close(self) -> None:
        self._process.close(ANSWER_S)


@pytest.fixture(scope="module")
def client(
    program: Path, broker: Any, eventually: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GoClient]:
    """A client of the module's broker."""
    started = GoClient(program, tmp_path_factory.mktemp("go-client"), broker, eventually)
    yield started
    started.close()


@pytest.fixture
def topic(client: GoClient, request: pytest.FixtureRequest) -> str:
    """A topic of this test, with four queues."""
    name = request.node.name.replace("[", "-").replace("]", "")[-100:]
    client.ask("topic.create", topic=name, queues=QUEUES)
    return str(name)
