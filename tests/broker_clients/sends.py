"""`python -m tests.broker_clients.sends`: what sends to this broker and to the real one come to, by turns.

Each round starts both anew, and sends for some seconds before it counts: the real one has all that makes Java fast, and
compiles what it runs in these. The clients are the same, in a process of their own. The real broker listens on every
interface, so all of this is done in a network of its own.
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

from tests.broker_clients.conftest import REAL_BROKER_JARS, BrokerProcess, RealBrokerProcess
from tests.broker_clients.mqadmin.test_side_by_side import OF_A_NETWORK, REAL
from tornlog.reports.bench.broker import LoadProcess
from tornlog.reports.bench.exchanges import QUEUES
from tornlog.reports.cli.console import OUT, plain_table, progress_shown
from tornlog.scenarios.conformance.maven import fetched_jars
from tornlog.store.config import FlushDiskType

WARM_UP_S = 4.0


class FastRealBroker(RealBrokerProcess):
    """The real broker with both of Java's compilers."""

    JAVA = ("java", "-Xms512m", "-Xmx1g")


class Sends(NamedTuple):
    """One round of one broker."""

    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    """Processor time of the broker for one of them."""


def _measured(kind: type[BrokerProcess], flush: FlushDiskType, connections: int, seconds: float) -> Sends:
    with _started(kind, flush) as broker:
        _load(broker, connections, WARM_UP_S)
        cpu_seconds = broker.cpu_seconds
        per_second, messages, p50_us, p99_us = _load(broker, connections, seconds)
        cpu_us = (broker.cpu_seconds - cpu_seconds) / messages * 1e6
    return Sends(per_second, p50_us / 1_000, p99_us / 1_000, cpu_us)


@contextmanager
def _started(kind: type[BrokerProcess], flush: FlushDiskType) -> Iterator[BrokerProcess]:
    with TemporaryDirectory() as place:
        conf = {"flushDiskType": flush.value, "mapedFileSizeCommitLog": str(256 << 20)}
        conf["defaultTopicQueueNums"] = str(QUEUES)
        broker = kind(Path(place, "broker"), conf)
        try:
            broker.start()
            yield broker
        finally:
            broker.close()


def _load(broker: BrokerProcess, connections: int, seconds: float) -> tuple[float, int, float, float]:
    options = ("--connections", str(connections), "--seconds", str(seconds))
    found = LoadProcess("send", broker.address, *options).result()
    assert not found.busy, f"{found.busy} of {found.answers} requests were refused"
    return found.per_second, found.messages, found.p50_us, found.p99_us


def main(
    rounds: Annotated[int, typer.Option(min=1, help="The median counts.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long each round sends.")] = 5.0,
    connections: Annotated[int, typer.Option(min=1, help="Each waits for its answer before it sends again.")] = 16,
) -> None:
    """Measure sends of 1 KiB to both brokers, under async and sync flush."""
    if REAL_BROKER_JARS is None:
        jars = fetched_jars("real-broker-4.9.7", REAL)
        again = [sys.executable, "-m", "tests.broker_clients.sends", *sys.argv[1:]]
        environment = os.environ | {"ROCKETMQ_BROKER_JARS": str(jars)}
        raise SystemExit(subprocess.run([*OF_A_NETWORK, *again], env=environment, check=False).returncode)
    table = plain_table(
        f"sends of 1 KiB, {connections} connections: medians of {rounds} rounds",
        ("flush", "broker"),
        ("sends/s", "p50, ms", "p99, ms", "CPU, µs", "this ÷ real", "least", "most"),
    )
    with progress_shown() as update:
        for flush in FlushDiskType:
            ours, real = list[Sends](), list[Sends]()
            for number in range(1, rounds + 1):
                for kind, found in ((BrokerProcess, ours), (FastRealBroker, real)):
                    update(description=f"{flush.value}, round {number} of {rounds}, {kind.__name__}")
                    found.append(_measured(kind, flush, connections, seconds))
            ratios = [one.per_second / other.per_second for one, other in zip(ours, real, strict=True)]
            compared = (f"{median(ratios):.2f}", f"{min(ratios):.2f}", f"{max(ratios):.2f}")
            table.add_row(flush.value, "this", *_texts(ours), *compared)
            table.add_row("", "real, 4.9.7", *_texts(real))
    OUT.print(table)


def _texts(found: list[Sends]) -> tuple[str, ...]:
    per_second, p50_ms, p99_ms, cpu_us = map(median, zip(*found, strict=True))
    return f"{per_second:,.0f}", f"{p50_ms:.1f}", f"{p99_ms:.1f}", f"{cpu_us:.0f}"


if __name__ == "__main__":
    typer.run(main)
