"""Official clients of RocketMQ: each runs in a process that answers commands, one line each.

All drivers have the same commands. A driver refuses a command, or an option of it, that its client does not offer; the
test is then skipped.
"""

import json
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from typing import Any

import pytest

from tests.broker_clients.line_process import LineProcess
from tornlog.store.broker.requests import RequestCode, ResponseCode
from tornlog.store.formats.remoting.command import RemotingCommand
from tornlog.store.formats.remoting.frame import CommandReader, encode_frame

ANSWER_S = 60
SEND_MS = 15_000  # by default a send fails after 3 s, which the first one may need on a busy machine
QUEUES = 4
NOT_OFFERED = {"UnsupportedOperationException", "NotOffered"}


class ClientError(RuntimeError):
    """An exception of the client, with its class name and the broker's response code if there is one."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__(f"{answer['error']}: {answer['message']}")
        self.kind: str = answer["error"]
        self.code: int | None = answer.get("code")


class Driver:
    """A client's process, which answers each command once."""

    def __init__(self, command: Sequence[str], logs: Path, header_form: str) -> None:
        """In the command, `{logs}` stands for a new directory, `{header_form}` for JSON or ROCKETMQ."""
        logs.mkdir()
        words = [word.replace("{logs}", str(logs)).replace("{header_form}", header_form) for word in command]
        # The Go and C++ clients write logs and the offsets of broadcasting consumers into HOME.
        self._process = LineProcess(words, logs / "stderr", env=os.environ | {"HOME": str(logs)}, prefix="> ")
        self.is_usable = True
        """False after a command without an answer, because the process answers one command at a time."""

    def ask(self, do: str, **given: Any) -> Any:
        try:
            answer = json.loads(self._process.ask(json.dumps({"do": do} | given), ANSWER_S))
        except Empty:
            self.is_usable = False
            raise AssertionError(f"{do}: no answer within {ANSWER_S} s") from None
        if answer.get("error") in NOT_OFFERED:
            pytest.skip(f"not offered: {answer['message']}")
        if "error" in answer:
            raise ClientError(answer)
        return answer["is"]

    def close(self) -> None:
        if self.is_usable:
            self._process.close(ANSWER_S)
        else:
            self._process.kill()


class ProducerAnswer(dict[str, Any]):
    """An answer to a producer. The test is skipped if it needs a member that the client does not return."""

    def __missing__(self, member: str) -> Any:
        pytest.skip(f"not offered: {member} of {sorted(self)}")


@dataclass(frozen=True)
class Producer:
    """A producer in the driver."""

    client: "Client"
    name: str

    def ask(self, do: str, **given: Any) -> Any:
        answer = self.client.ask(do, producer=self.name, **given)
        return ProducerAnswer(answer) if isinstance(answer, dict) else answer

    def send(self, topic: str, body: str, how: str = "send", **given: Any) -> Any:
        return self.ask(how, topic=topic, body=body, **given)


@dataclass(frozen=True)
class Consumer:
    """A push consumer in the driver."""

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
    """The clients that a test starts in the driver. They are stopped after the test."""

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
        return Producer(self, self.start("producer", group=group, **{"timeoutMs": SEND_MS} | given))

    def consumer(self, topic: str, group: str, **given: Any) -> Consumer:
        return Consumer(self, self.start("consumer", topic=topic, group=group, **given))

    def admin(self, **given: Any) -> Callable[..., Any]:
        """Start an admin client, and return its call function."""
        name = self.start("admin", **given)
        return lambda do, **what: self.ask(f"admin.{do}", admin=name, broker=self.broker.address, **what)

    def create_topic(self, name: str, queues: int = QUEUES) -> None:
        """Create a topic without the client, because not every client can."""
        counts = {"readQueueNums": str(queues), "writeQueueNums": str(queues)}
        kept = {"defaultTopic": "TBW102", "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0"}
        fields = {"topic": name, "order": "false"} | counts | kept
        created = ask_server(self.broker.address, RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
        assert created.code == ResponseCode.SUCCESS, created.remark
        self.wait_for_route(name)

    def wait_for_route(self, topic: str) -> None:
        """Wait until the name server has a route to a topic."""

        def has_route() -> bool:
            asked = ask_server(self.broker.namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
            return asked.code == ResponseCode.SUCCESS

        self.eventually(has_route)

    def pull(self, do: str, **given: Any) -> Any:
        """Send a command to the driver's old pull consumer."""
        return self.ask(f"pull.{do}", name=f"pull-{next(self._numbers)}", **given)

    def close(self) -> None:
        for stop, name in reversed(self._running):
            if self._driver.is_usable:
                self._driver.ask(stop, **{stop.partition(".")[0]: name})
        self._running.clear()


def ask_server(address: str, code: int, fields: dict[str, str]) -> RemotingCommand:
    """Send one request to a broker or name server, and return the response."""
    host, _, port = address.rpartition(":")
    reader = CommandReader(address)
    with socket.create_connection((host, int(port)), ANSWER_S) as connection:
        connection.sendall(encode_frame(RemotingCommand(code, 1, version=409, ext_fields=fields)))
        while (taken := reader.take()) is None:
            received = connection.recv(1 << 16)
            assert received, f"{address} closed the connection"
            reader.add(received)
    return taken[0]
