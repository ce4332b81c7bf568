"""A simulated broker: a store with consumer offsets and transactions."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.one_life import call_in_one_life
from tornlog.store.config import StoreConfig
from tornlog.store.formats.half_message import HALF_TOPIC, OP_TOPIC, EndTransaction, HalfMessage
from tornlog.store.formats.message import MessageRecord, decode_record
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.services.consumer_filter import ConsumerFilterManager
from tornlog.store.services.consumer_offsets import ConsumerOffsetManager
from tornlog.store.services.transaction_check import CHECK_GROUP, TransactionConfig
from tornlog.store.services.transaction_service import EndTransactionStatus, TransactionalMessageService
from tornlog.store.world import World

GROUP = "sellers"
DECIDED = EndTransactionStatus.DECIDED


class Broker:
    """One life of a broker."""

    def __init__(self, world: World, config: StoreConfig, **settings: Any) -> None:
        self.world = world
        self.store = MessageStore(world, config)
        self.store.load()
        self.offsets = ConsumerOffsetManager(world, config.config_directory)
        self.offsets.load()
        self.clamped = self.offsets.clamp_to_queues(self.store)
        self.store.start()
        self.transactions = TransactionalMessageService(world, self.store, self.offsets, TransactionConfig(**settings))
        self.asked: list[MessageRecord] = []
        self.transactions.on_check = self.asked.append

    def prepare(self, name: str, topic: str = "Orders", **properties: str) -> EndTransaction:
        given = {"TRAN_MSG": "true", "PGROUP": GROUP, "KEYS": name, **properties}
        message = Message.create(topic, name.encode(), queue_id=1, tags="A", properties=given)
        message.born_timestamp_ms = self.world.clock.now_ms()
        append = self.transactions.prepare(message).append
        assert append is not None
        self.settle()
        return EndTransaction(GROUP, append.queue_offset, append.wrote_offset)

    def commit(self, request: EndTransaction) -> None:
        assert self.transactions.commit(request).status is DECIDED

    def rollback(self, request: EndTransaction) -> None:
        assert self.transactions.rollback(request).status is DECIDED

    def settle(self) -> None:
        """Wait until all messages are dispatched."""
        while self.store.dispatch_behind_bytes:
            self.world.tasks.sleep(1)

    def flush(self) -> None:
        assert self.store.flush.flush_to(self.store.max_phy_offset)

    def check(self, after_ms: int = 10_000) -> list[str]:
        """Sleep, make one pass of the check, and return the messages about which the pass asked."""
        self.world.tasks.sleep(after_ms)
        self.settle()
        seen = len(self.asked)
        self.transactions.checker.check_half_messages()
        self.settle()
        return [record.body.decode() for record in self.asked[seen:]]

    def last_asked(self) -> EndTransaction:
        """Return the request that decides the half message of the last question."""
        return HalfMessage.from_record(self.asked[-1]).request

    def records(self, topic: str, queue_id: int = 0) -> list[MessageRecord]:
        """Return the records of a queue."""
        self.settle()
        found: list[MessageRecord] = []
        while True:
            raws = self.store.get_message(topic, queue_id, len(found)).records
            if not raws:
                return found
            found += [decode_record(raw, 0, file="") for raw in raws]

    def visible(self, topic: str = "Orders", queue_id: int = 1) -> list[str]:
        """Return the names of the visible messages."""
        return [record.body.decode() for record in self.records(topic, queue_id)]

    def progress(self) -> tuple[int, int]:
        """Return the published progress of the check in the half and op queues."""
        half, op = (self.offsets.query_offset(CHECK_GROUP, topic, 0) for topic in (HALF_TOPIC, OP_TOPIC))
        return half, op

    def stop(self) -> None:
        self.transactions.shutdown()
        self.offsets.shutdown()
        assert self.store.shutdown()


@pytest.fixture
def config(small: Callable[..., StoreConfig]) -> StoreConfig:
    return small(mapped_file_size_commit_log=16_384)


@pytest.fixture
def live(lab: Callable[..., Any], config: StoreConfig) -> Callable[..., Any]:
    """Run a body within one life of a broker, and return its result."""

    def run(body: Callable[[Broker], Any], bench: Any = None, **settings: Any) -> Any:
        return (bench or lab()).run(lambda world: body(Broker(world, config, **settings)))

    return run


@pytest.fixture
def broker(live: Callable[..., Any]) -> Callable[..., Any]:
    """Run the test within one life of a broker. The argument is its `Broker`."""
    return live


@pytest.fixture
def consumers(lab: Callable[..., Any]) -> Callable[..., None]:
    """Run the test with a `ConsumerFilterManager` and a list `times`, whose last element is the time."""

    def call(check: Callable[[ConsumerFilterManager, list[int]], None]) -> None:
        def body(world: World) -> None:
            times = [1_000]
            check(ConsumerFilterManager(world.tasks, lambda: times[-1]), times)

        lab().run(body)

    return call


@pytest.fixture
def times() -> None:
    """Placeholder for an argument that `consumers` sets."""


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    return call_in_one_life(pyfuncitem, ("broker",), ("consumers", "times"))
