"""A load client as a process: `python -m tornlog.reports.bench.broker_load send 127.0.0.1:10911 --seconds 5`."""

import json
from enum import Enum
from typing import Annotated

import typer

from ....store.formats.remoting.command import HeaderForm
from ..figure import Latency
from .exchanges import Exchange, Pulls, Sends
from .frames import SendFrames
from .load import run_load


class LoadKind(Enum):
    """What clients do."""

    SEND = "send"
    PULL = "pull"


def main(
    kind: LoadKind,
    address: str,
    connections: Annotated[int, typer.Option(min=1)] = 8,
    seconds: Annotated[float, typer.Option(min=0.01)] = 1.0,
    body_bytes: Annotated[int, typer.Option(min=0)] = 1024,
    interval_ms: Annotated[float, typer.Option(min=0.0, help="Between two requests of one; 0: none.")] = 0.0,
    binary: Annotated[bool, typer.Option("--binary", help="Headers in binary form.")] = False,
) -> None:
    """Load a broker for a while and print what came of it as JSON."""
    form = HeaderForm.ROCKETMQ if binary else HeaderForm.JSON
    exchanges: list[Exchange] = [
        Sends(SendFrames(body_bytes, number, number, form)) if kind is LoadKind.SEND else Pulls(number)
        for number in range(connections)
    ]
    load = run_load(address, exchanges, seconds, interval_ms / 1_000 or None)
    latency = Latency.of([load.latencies_ns])
    typer.echo(
        json.dumps(
            {
                "messages": load.messages,
                "busy": load.busy,
                "per_second": load.per_second,
                "answers": len(load.latencies_ns),
            }
            | latency._asdict()
        )
    )


if __name__ == "__main__":
    typer.run(main)
