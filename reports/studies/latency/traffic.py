"""Open-loop traffic: makes puts arrive independently of the answers to earlier puts.

Arrivals are a Poisson process, split evenly between producers. A put that arrives while its producer is busy waits, and
its latency includes this wait. So the latency of each put that arrives during a stall includes the rest of the stall,
without coordinated omission (G. Tene's term for clients that stop sending while a server stalls). If a producer wakes
up late from its sleep, the store is not the cause: the put is timed from the wake-up, and later arrivals are delayed by
the same time.
"""

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import log
from typing import Any

from ....sim.choices import Choices
from ....store.config import FlushDiskType, StoreConfig
from ....store.formats.messages import Message, PutMessageStatus
from ....store.message_store import MessageStore

_MIB = 1 << 20

FLUSHES = ("sync", "async", "pool")
"""SYNC_FLUSH, ASYNC_FLUSH, and ASYNC_FLUSH with the transient pool."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The parameters of one series of puts."""

    flush: str
    """One of FLUSHES."""
    producers: int
    rate: float
    """Offered puts per second of all producers together."""
    puts: int
    """Puts of all producers together."""
    body_bytes: int = 1024
    segment_bytes: int = 16 * _MIB
    warm: bool = False
    """Whether segments are touched page by page and locked in memory before use."""
    seed: int = 0

    def config(self, directory: str) -> StoreConfig:
        return config_of(self.flush, directory, self.segment_bytes, warm_mapped_file_enable=self.warm)


def config_of(flush: str, directory: str, segment_bytes: int, **others: Any) -> StoreConfig:
    """Raises ValueError for an unknown flush mode."""
    if flush not in FLUSHES:
        raise ValueError(f"flush: expected one of {', '.join(FLUSHES)}, found {flush}")
    return StoreConfig(
        directory,
        flush_disk_type=FlushDiskType.SYNC_FLUSH if flush == "sync" else FlushDiskType.ASYNC_FLUSH,
        transient_store_pool_enable=flush == "pool",
        mapped_file_size_commit_log=segment_bytes,
        mapped_file_size_consume_queue=_MIB,
        message_index_enable=False,
        **others,
    )


def arrivals(setup: Setup) -> list["array[int]"]:
    """Return the ns between arrivals, by producer. Equal setups give equal arrivals."""
    choices = Choices(f"arrivals/{setup.seed}")
    mean_ns = setup.producers / setup.rate * 1e9
    found = []
    for producer in range(setup.producers):
        draw = choices.stream(f"producer-{producer}").raw_random
        count = setup.puts // setup.producers + (producer < setup.puts % setup.producers)
        found.append(array("q", (round(-log(1.0 - draw()) * mean_ns) for _ in range(count))))
    assert sum(map(len, found)) == setup.puts, "every put has its arrival"
    return found


def produce(
    gaps_ns: Iterable[int], now_ns: Callable[[], int], sleep_ns: Callable[[int], None], put: Callable[[], None]
) -> "array[int]":
    """Call `put` at each arrival time; return the latencies in ns."""
    latencies = array("q")
    begun_ns = now_ns()
    for gap_ns in gaps_ns:
        assert gap_ns >= 0, "arrivals are in order"
        due_ns = begun_ns + gap_ns
        early_ns = due_ns - now_ns()
        if early_ns > 0:
            sleep_ns(early_ns)
            due_ns = now_ns()
        begun_ns = due_ns
        put()
        latencies.append(now_ns() - begun_ns)
    return latencies


def message_of(setup: Setup) -> Message:
    return Message.create("Latency", bytes(setup.body_bytes))


def checked_put(store: MessageStore, message: Message) -> Callable[[], None]:
    """Return a function that puts the message, and raises RuntimeError unless the answer is PUT_OK."""

    def put() -> None:
        status = store.put_message(message).status
        if status is not PutMessageStatus.PUT_OK:
            raise RuntimeError(f"a put was answered {status.name}")

    return put
