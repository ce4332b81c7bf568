"""A broker on a simulated machine, called without a network."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tornlog.store.broker.broker import Broker
from tornlog.store.broker.broker_config import BrokerConfig
from tornlog.store.broker.requests import RequestCode
from tornlog.store.broker.router import LateResponse
from tornlog.store.config import StoreConfig
from tornlog.store.formats.message import MessageRecord, decode_record
from tornlog.store.formats.properties import encode_properties
from tornlog.store.formats.remoting.command import RemotingCommand
from tornlog.store.formats.remoting.frame import encode_frame
from tornlog.store.world import World

VERSION = 409
GROUP = "billing"


def pull_fields(offset: int, topic: str = "Orders", **given: Any) -> dict[str, Any]:
    """Return the fields of a pull with a subscription, without long polling."""
    return {
        "consumerGroup": GROUP,
        "topic": topic,
        "queueId": 0,
        "queueOffset": offset,
        "maxMsgNums": 32,
        "sysFlag": 4,
        "commitOffset": 0,
        "suspendTimeoutMillis": 15_000,
        "subscription": "*",
        "subVersion": 0,
        "expressionType": "TAG",
        **given,
    }


class Client:
    """A client's connection. It records the commands that the broker sends."""

    def __init__(self, bench: "Bench", number: int) -> None:
        self.remote_address = f"10.0.0.{number}:50000"
        self.local_address = "127.0.0.1:10911"
        self.client_id = f"10.0.0.{number}@{number}"
        self.is_open = True
        self.language = 0
        self.got: list[RemotingCommand] = []
        """Requests from the broker, and answers to held pulls."""
        self._bench = bench

    def send(self, command: RemotingCommand) -> bool:
        encode_frame(command)
        if self.is_open:
            self.got.append(command)
        return self.is_open

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self._bench.broker.channel_closed(self)

    def codes(self) -> list[int]:
        return [command.code for command in self.got if not command.is_response]

    def ask(self, code: int, body: bytes = b"", version: int = VERSION, **fields: object) -> RemotingCommand | None:
        """Send a request. Return the answer, or None if the broker answers later."""
        return self._bench.ask(self, code, body, version, {name: str(value) for name, value in fields.items()})

    def answer(self, code: int, body: bytes = b"", **fields: object) -> RemotingCommand:
        """Send a request, check that the broker answers at once, and return the answer."""
        answer = self.ask(code, body, **dict[str, Any](fields))
        assert answer is not None
        return answer

    def send_message(self, body: bytes, topic: str = "Orders", **given: Any) -> RemotingCommand:
        """Send a message as current clients do. `given` has request fields by letter, and message properties."""
        properties = encode_properties(given.pop("properties", {}))
        fields: dict[str, Any] = {
            "a": "sellers",
            "b": topic,
            "c": "TBW102",
            "d": 4,
            "e": 0,
            "f": 0,
            "g": 1_600_000_000_000,
            "h": 0,
            "i": properties,
            **given,
        }
        answer = self.answer(RequestCode.SEND_MESSAGE_V2, body, **fields)
        self._bench.settle()
        return answer

    def pull(self, offset: int = 0, topic: str = "Orders", **given: Any) -> RemotingCommand | None:
        return self.ask(RequestCode.PULL_MESSAGE, **pull_fields(offset, topic, **given))

    def pulled(self, offset: int = 0, topic: str = "Orders", **given: Any) -> list[MessageRecord]:
        answer = self.pull(offset, topic, **given)
        assert answer is not None
        return records_of(answer)

    def heartbeat(self, group: str = GROUP, topic: str = "Orders", **given: Any) -> RemotingCommand:
        """Send the heartbeat of a consumer of one topic and a producer of `sellers`."""
        subscription = {
            "topic": topic,
            "subString": given.get("expression", "*"),
            "expressionType": given.get("kind", "TAG"),
            "subVersion": given.get("version", 1),
        }
        consumer = {
            "groupName": group,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            "subscriptionDataSet": [subscription],
            "unitMode": False,
        }
        body = {
            "clientID": self.client_id,
            "consumerDataSet": [consumer],
            "producerDataSet": [{"groupName": "sellers"}],
        }
        return self.answer(RequestCode.HEART_BEAT, json.dumps(body).encode())


def records_of(answer: RemotingCommand) -> list[MessageRecord]:
    records, at = [], 0
    while at < len(answer.body):
        records.append(decode_record(answer.body, at, file="body"))
        at += records[-1].size_bytes
    return records


class Bench:
    """One life of a broker."""

    def __init__(self, world: World, store: StoreConfig, config: BrokerConfig) -> None:
        self.world = world
        self.broker = Broker(world, store, config)
        self.broker.load()
        self.broker.start()
        self._routes = self.broker.routes()
        self._opaque = 0
        self._clients = 0

    def client(self) -> Client:
        self._clients += 1
        return Client(self, self._clients)

    def ask(
        self, client: Client, code: int, body: bytes, version: int, fields: dict[str, str]
    ) -> RemotingCommand | None:
        opaque = self._opaque = self._opaque + 1
        route = self._routes.get(code)
        assert route is not None, f"{code} is not supported"
        request = RemotingCommand(code, opaque, language=client.language, version=version, ext_fields=fields, body=body)
        answer = route.processor(request, client)
        while isinstance(answer, LateResponse):
            result = answer.poll(self.world.clock.monotonic_ns())
            if result is not None:
                answer = answer.respond(result)
            else:
                self.sleep(1)
        if answer is not None:
            assert (answer.opaque, answer.is_response) == (opaque, True)
            encode_frame(answer)
        return answer

    def settle(self) -> None:
        """Wait until all messages are dispatched."""
        while self.broker.store.dispatch_behind_bytes:
            self.sleep(1)

    def sleep(self, ms: int) -> None:
        self.world.tasks.sleep(ms)

    def stop(self) -> None:
        assert self.broker.shutdown()


@pytest.fixture
def live(lab: Callable[..., Any], small: Callable[..., StoreConfig]) -> Callable[..., Any]:
    """Run a body within one life of a broker, and return its result.

    `store` has settings of the store, `settings` has settings of the broker.
    """

    def run(
        body: Callable[[Bench], Any], bench: Any = None, store: dict[str, Any] | None = None, **settings: Any
    ) -> Any:
        sizes = {"mapped_file_size_commit_log": 32_768, **(store or {})}

        def life(world: World) -> Any:
            living = Bench(world, small(**sizes), BrokerConfig(**settings))
            found = body(living)
            living.stop()
            return found

        return (bench or lab()).run(life)

    return run


@pytest.fixture
def bench(live: Callable[..., Any]) -> Callable[..., Any]:
    """Run the test within one life of a broker. The argument is its `Bench`."""
    return live


@pytest.fixture
def client(bench: Callable[..., Any]) -> None:
    """Connect the first client of `bench`."""
