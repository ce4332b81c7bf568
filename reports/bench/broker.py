"""A broker over loopback: `tornlog serve` in one process, load clients in another, as clients and brokers are."""

from collections.abc import Iterator
from contextlib import contextmanager

from ...store.config import FlushDiskType
from .broker_load.broker_process import BrokerProcess, LoadProcess, LoadResult
from .broker_load.frames import QUEUES
from .figure import Latency, Sample
from .workplace import Workplace

_FILL_CONNECTIONS = QUEUES
_WARM_UP_SECONDS = 0.5
"""In which a new broker makes its first files, and knows its topic."""


def broker_sends(place: Workplace, flush: FlushDiskType, connections: int) -> Sample:
    """Measure sends of 1 KiB per second, each connection waiting for its answer before it sends again."""
    with _broker(place, flush) as broker:
        _load(broker, "send", connections, _WARM_UP_SECONDS)
        return _sample(_load(broker, "send", connections, place.settings.seconds))


def broker_pulls(place: Workplace, connections: int) -> Sample:
    """Measure messages of 1 KiB that are pulled per second, 32 at a time; latencies are a pull's."""
    with _broker(place, FlushDiskType.ASYNC_FLUSH) as broker:
        _load(broker, "send", _FILL_CONNECTIONS, place.settings.seconds)
        return _sample(_load(broker, "pull", connections, place.settings.seconds))


@contextmanager
def _broker(place: Workplace, flush: FlushDiskType) -> Iterator[BrokerProcess]:
    with place.directory() as directory:
        settings = (
            f"mapedFileSizeCommitLog={place.settings.segment_bytes}",
            f"flushDiskType={flush.value}",
        )
        with BrokerProcess(directory, settings) as broker:
            yield broker


def _load(broker: BrokerProcess, kind: str, connections: int, seconds: float) -> LoadResult:
    found = LoadProcess(
        kind, broker.address, "--connections", str(connections), "--seconds", str(seconds)
    ).result()
    if found.busy:
        raise RuntimeError(f"{found.busy} of {found.answers} requests were refused")
    return found


def _sample(found: LoadResult) -> Sample:
    return Sample(found.per_second, Latency(found.p50_us, found.p99_us, found.max_us))
