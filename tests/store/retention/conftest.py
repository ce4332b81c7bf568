"""Small stores with many segments: two messages per log segment, ten entries per queue file."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.store.conftest import OwnedStore
from tornlog.store.config import StoreConfig
from tornlog.store.formats.messages import Message, PutMessageStatus
from tornlog.store.real.world import RealClock
from tornlog.store.world import World

HOUR_MS = 3_600_000
SEGMENT_BYTES = 1024
BODY_WORDS = 95


def body_of(number: int) -> bytes:
    return f"{number:04d}".encode() * BODY_WORDS


class Shop:
    """One store in a world, with functions for tests of retention."""

    def __init__(self, world: World, config: StoreConfig) -> None:
        self.world = world
        self.store = OwnedStore(world, config)
        self.report = self.store.load()

    def start(self) -> "Shop":
        self.store.start()
        return self

    def put(self, numbers: range, topic: str = "T") -> "Shop":
        """Put messages, each with its number as key, and check that they are accepted."""
        for number in numbers:
            message = Message.create(topic, body_of(number), tags="A", keys=f"k{number}")
            assert self.store.put_message(message).status is PutMessageStatus.PUT_OK
        return self

    def settle(self) -> "Shop":
        """Dispatch all messages and make their queue entries durable."""
        self.world.tasks.sleep(100)
        self.store.flush.flush_to(self.store.max_phy_offset)
        self.store.flush_queues.request_full_flush()
        self.world.tasks.sleep(100)
        return self

    def age(self, hours: float, count: int, first: int = 0) -> "Shop":
        """Set the mtime of some log segments back by some hours."""
        long_ago_ms = self.world.clock.now_ms() - int(hours * HOUR_MS)
        for segment in self.store.log.segments[first : first + count]:
            self.world.files.set_mtime_ms(segment.file.path, long_ago_ms)
        return self

    def clean(self, ms: int = 5_000) -> "Shop":
        """Request a pass, and sleep until it is done."""
        self.store.execute_delete_files_manually()
        self.world.tasks.sleep(ms)
        return self

    def log_bases(self) -> list[int]:
        """Return the numbers of the log's segments on disk."""
        return self.bases("/store/commitlog")

    def queue_bases(self, topic: str = "T") -> list[int]:
        """Return the first queue offsets of a queue's segments on disk."""
        directory = f"/store/consumequeue/{topic}/0"
        return [int(name) // 20 for name in self.world.files.list_directory(directory)]

    def bases(self, directory: str) -> list[int]:
        return [int(name) // SEGMENT_BYTES for name in self.world.files.list_directory(directory)]

    def bodies(self, first: int, topic: str = "T") -> list[int]:
        """Return the numbers of the messages from a queue offset on."""
        found: list[int] = []
        while first < self.store.get_max_offset_in_queue(topic, 0):
            result = self.store.get_message(topic, 0, first)
            for raw in result.records:
                at = raw.index((4 * BODY_WORDS).to_bytes(4, "big")) + 4
                found.append(int(raw[at : at + 4]))
            assert result.next_begin_offset > first, result
            first = result.next_begin_offset
        return found


@pytest.fixture
def shop(short: Callable[..., StoreConfig]) -> Iterator[Callable[..., Shop]]:
    """Make a store and load it, with a config or with settings for `short`; `start` starts it.

    A store that a failed test leaves running on threads is stopped at the end.
    """
    shops: list[Shop] = []

    def make(world: World, config: StoreConfig | None = None, **settings: Any) -> Shop:
        shops.append(Shop(world, config or short(**settings)))
        return shops[-1]

    yield make
    for each in shops:
        if each.store.runs and isinstance(each.world.clock, RealClock):
            each.store.shutdown()


@pytest.fixture
def short(small: Callable[..., StoreConfig]) -> Callable[..., StoreConfig]:
    """Make settings with one hour of retention. Only a test requests deletions."""

    def config(**settings: Any) -> StoreConfig:
        return small(**{"file_reserved_time_hours": 1, "delete_when": "00", **settings})

    return config
