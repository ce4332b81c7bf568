"""`python -m tests.broker_clients.loads`: throughput of this broker and of RocketMQ's.

Each round starts both brokers again and warms them up for some seconds. RocketMQ's broker runs with both of Java's
compilers, which compile during that time. Both brokers have the same clients, in a separate process. RocketMQ's broker
listens on every interface, so run this command in a separate network namespace.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated, NamedTuple

import typer

from tests.bench.broker import LoadProcess, LoadResult
from tests.bench.exchanges import QUEUES
from tests.bench.load_client import LoadKind
from tests.broker_clients.conftest import REAL_BROKER_JARS, BrokerProcess, RealBrokerProcess
from tests.broker_clients.side_by_side import OF_A_NETWORK, REAL
from tests.conformance.maven import fetched_jars
from tornlog.reports.cli.console import OUT, plain_table, show_progress
from tornlog.store.config import FlushDiskType

WARM_UP_S = 4.0
LOADS = (
    (LoadKind.SEND, FlushDiskType.ASYNC_FLUSH),
    (LoadKind.SEND, FlushDiskType.SYNC_FLUSH),
    (LoadKind.PULL, FlushDiskType.ASYNC_FLUSH),
)


_SHORT = {FlushDiskType.ASYNC_FLUSH: "async", FlushDiskType.SYNC_FLUSH: "sync"}


class FastRealBroker(RealBrokerProcess):
    """RocketMQ's own broker with both of Java's compilers."""

    JAVA = ("java", "-Xms512m", "-Xmx1g")


class Round(NamedTuple):
    """Measurements of one broker in one round."""

    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    """Processor time of the broker per message."""
    refused: float
    """SYSTEM_BUSY answers per thousand requests. These requests do not count as messages."""


def _measured(
    kind: type[BrokerProcess], flush: FlushDiskType, load: LoadKind, connections: int, seconds: float
) -> Round:
    with _started_broker(kind, flush) as broker:
        if load is LoadKind.PULL:
            _load(broker, LoadKind.SEND, connections, WARM_UP_S)
        _load(broker, load, connections, WARM_UP_S)
        cpu_seconds = broker.cpu_seconds
        found = _load(broker, load, connections, seconds)
        cpu_us = (broker.cpu_seconds - cpu_seconds) / max(found.messages, 1) * 1e6
    refused = found.busy / found.answers * 1_000
    return Round(found.per_second, found.p50_us / 1_000, found.p99_us / 1_000, cpu_us, refused)


@contextmanager
def _started_broker(kind: type[BrokerProcess], flush: FlushDiskType) -> Iterator[BrokerProcess]:
    with TemporaryDirectory() as place:
        conf = {"flushDiskType": flush.value, "mapedFileSizeCommitLog": str(256 << 20)}
        conf["defaultTopicQueueNums"] = str(QUEUES)
        broker = kind(Path(place, "broker"), conf)
        try:
            broker.start()
            yield broker
        finally:
            broker.close()


def _load(broker: BrokerProcess, load: LoadKind, connections: int, seconds: float) -> LoadResult:
    options = ("--connections", str(connections), "--seconds", str(seconds))
    return LoadProcess(load.value, broker.address, *options).result()


def main(
    rounds: Annotated[int, typer.Option(min=1, help="The median counts.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long each round counts.")] = 5.0,
    connections: Annotated[int, typer.Option(min=1, help="Each waits for its answer before it asks again.")] = 16,
) -> None:
    """Measure both brokers: sends of 1 KiB under async and under sync flush, and pulls of 32 such messages."""
    if REAL_BROKER_JARS is None:
        jars = fetched_jars("real-broker-4.9.7", REAL)
        again = [sys.executable, "-m", "tests.broker_clients.loads", *sys.argv[1:]]
        environment = os.environ | {"ROCKETMQ_BROKER_JARS": str(jars)}
        raise SystemExit(subprocess.run([*OF_A_NETWORK, *again], env=environment, check=False).returncode)
    table = plain_table(
        f"messages of 1 KiB, {connections} connections: medians of {rounds} rounds",
        ("load", "flush", "broker"),
        ("messages/s", "p50, ms", "p99, ms", "CPU, µs", "refused, ‰", "÷ real", "from, to"),
    )
    with show_progress() as update:
        for load, flush in LOADS:
            ours, real = list[Round](), list[Round]()
            for number in range(1, rounds + 1):
                for kind, found in ((BrokerProcess, ours), (FastRealBroker, real)):
                    update(description=f"{load.value}, {flush.value}, round {number} of {rounds}, {kind.__name__}")
                    found.append(_measured(kind, flush, load, connections, seconds))
            ratios = [one.per_second / other.per_second for one, other in zip(ours, real, strict=True)]
            compared = (f"{median(ratios):.2f}", f"{min(ratios):.2f}, {max(ratios):.2f}")
            table.add_row(load.value, _SHORT[flush], "this", *_texts(ours), *compared)
            table.add_row("", "", "4.9.7", *_texts(real))
    OUT.print(table)


def _texts(found: list[Round]) -> tuple[str, ...]:
    per_second, p50_ms, p99_ms, cpu_us, refused = map(median, zip(*found, strict=True))
    return f"{per_second:,.0f}", f"{p50_ms:.1f}", f"{p99_ms:.1f}", f"{cpu_us:.0f}", f"{refused:.1f}"


if __name__ == "__main__":
    typer.run(main)
