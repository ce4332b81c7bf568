"""A master and its slaves on real sockets and files, and polling for other threads."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tornlog.store.config import BrokerRole, StoreConfig
from tornlog.store.formats.messages import Message, PutMessageResult
from tornlog.store.message_store import MessageStore
from tornlog.store.network import Connection
from tornlog.store.real.world import real_world
from tornlog.store.replication.ha_service import HAService

SEGMENT_BYTES = 4096
Connect = Callable[["Node"], Connection]


def eventually(holds: Callable[[], bool], what: str, patience_s: float = 120) -> None:
    """Poll until a condition holds."""
    pause, due = threading.Event(), time.monotonic() + patience_s
    while time.monotonic() < due:
        if holds():
            return
        pause.wait(0.005)
    pytest.fail(f"never came: {what}")


def log_bytes(store: MessageStore) -> bytes:
    """Return all bytes of the log."""
    return b"".join(bytes(each.file.view(0, each.readable.get())) for each in store.log.segments)


def put(store: MessageStore, number: int, body_bytes: int = 300, *, wait: bool = True) -> PutMessageResult:
    """Put one message with a unique body."""
    body = f"{number}|".encode().ljust(body_bytes, b"x")
    return store.put_message(replace(Message.create("T", body, keys=f"k{number}"), wait_store_ok=wait))


def put_all(store: MessageStore, numbers: Iterable[int]) -> None:
    for number in numbers:
        put(store, number)


class Node:
    """One store with its replication, in a persistent directory."""

    def __init__(self, config: StoreConfig) -> None:
        self.config = config
        self.store = MessageStore(real_world(), config)
        self.store.load()
        self.store.start()
        self.ha = HAService(self.store)
        self.ha.start()
        self.runs = True

    def stop(self) -> bool:
        """Stop replication and the store. Return whether the shutdown was clean."""
        self.runs = False
        self.ha.shutdown()
        return self.store.shutdown()

    @property
    def client_state(self) -> str:
        assert self.ha.client is not None
        return self.ha.client.state_and_reason


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    """Start stores with replication by name. They are stopped after the test."""
    nodes: list[Node] = []

    def start(name: str, role: BrokerRole, master: Node | None = None, **settings: object) -> Node:
        config = StoreConfig(
            str(tmp_path / name),
            broker_role=role,
            mapped_file_size_commit_log=SEGMENT_BYTES,
            mapped_file_size_consume_queue=200,
            max_message_size=2048,
            max_hash_slot_num=50,
            max_index_num=200,
            ha_listen_port=0,
            ha_master_address="" if master is None else master.ha.address,
        )
        nodes.append(Node(replace(config, **settings)))  # type: ignore[arg-type]
        return nodes[-1]

    yield start
    for each in nodes:
        if each.runs:
            each.stop()


@pytest.fixture
def master(node: Callable[..., Node]) -> Node:
    return node("master", BrokerRole.ASYNC_MASTER)


@pytest.fixture
def sync_master(node: Callable[..., Node]) -> Node:
    return node("master", BrokerRole.SYNC_MASTER)


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Connect to a master as a slave does. The connection is closed after the test."""
    made: list[Connection] = []

    def to(master: Node) -> Connection:
        network = master.store.world.network
        assert network is not None
        made.append(network.connect(master.ha.address, 30_000))
        return made[-1]

    yield to
    for connection in made:
        connection.close()
