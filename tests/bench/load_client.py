"""Load client of brokers: `python -m tests.bench.load_client send ADDRESS`.

Closed-loop: each connection sends again as soon as it has its answer; `reports/studies/closed_loop.py` explains the
limits of such figures. Paced: each connection is due again after a fixed time, and a latency counts from the due time,
so a stall increases the latencies of all requests that it delays.
"""

import json
import socket
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from select import EPOLLIN, epoll
from time import perf_counter_ns
from typing import Annotated

import typer

from tornlog.reports.studies.closed_loop import Latency
from tornlog.store.formats.remoting.command import HeaderForm
from tornlog.store.real.sockets import split_address

from .exchanges import Exchange, Pulls, ResponseError, ResponseReader, Sends

_RECEIVE_BYTES = 1 << 18
_CONNECT_SECONDS = 10.0
_ANSWER_SECONDS_MAX = 30.0


@dataclass
class Load:
    """The result."""

    messages: int = 0
    busy: int = 0
    """Number of answers that the broker was too busy."""
    took_ns: int = 0
    latencies_ns: "array[int]" = field(default_factory=lambda: array("q"))

    @property
    def per_second(self) -> float:
        return self.messages / self.took_ns * 1e9


class _Client:
    def __init__(self, address: str, exchange: Exchange) -> None:
        self.socket = socket.create_connection(split_address(address), timeout=_CONNECT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.exchange = exchange
        self.reader = ResponseReader()
        self.due_ns = 0
        self.is_waiting = False

    def send(self, due_ns: int) -> None:
        self.due_ns = due_ns
        self.is_waiting = True
        self.socket.sendall(self.exchange.request())

    def receive(self, load: Load) -> bool:
        """Take received bytes, and add a complete answer to a load; return whether it is complete."""
        data = self.socket.recv(_RECEIVE_BYTES)
        if not data:
            raise ResponseError("the broker has closed the connection")
        frame = self.reader.add(data)
        if frame is None:
            return False
        load.latencies_ns.append(perf_counter_ns() - self.due_ns)
        self.is_waiting = False
        messages = self.exchange.response(frame)
        if messages is None:
            load.busy += 1
        else:
            load.messages += messages
        return True


def run_load(
    address: str, exchanges: Sequence[Exchange], seconds: float, interval_seconds: float | None = None
) -> Load:
    """Drive one connection per exchange for a while; with an interval, each is due again after it.

    ResponseError for a wrong or missing answer; OSError for a connection that breaks.
    """
    clients = [_Client(address, exchange) for exchange in exchanges]
    try:
        if interval_seconds is None:
            return _closed(clients, int(seconds * 1e9))
        return _paced(clients, int(seconds * 1e9), int(interval_seconds * 1e9))
    finally:
        for client in clients:
            client.socket.close()


def _closed(clients: Sequence[_Client], duration_ns: int) -> Load:
    load = Load()
    by_descriptor, poll = _watched(clients)
    begin_ns = perf_counter_ns()
    for client in clients:
        client.send(perf_counter_ns())
    waiting = len(clients)
    while waiting:
        ready = poll.poll(_ANSWER_SECONDS_MAX)
        if not ready:
            raise ResponseError(f"no answer in {_ANSWER_SECONDS_MAX:.0f} s")
        for descriptor, _ in ready:
            client = by_descriptor[descriptor]
            if not client.receive(load):
                continue
            now_ns = perf_counter_ns()
            if now_ns - begin_ns < duration_ns:
                client.send(now_ns)
            else:
                waiting -= 1
    load.took_ns = perf_counter_ns() - begin_ns
    return load


def _paced(clients: Sequence[_Client], duration_ns: int, interval_ns: int) -> Load:
    """Every client is due once per interval, one after another. A client that still waits for an answer sends late."""
    load = Load()
    by_descriptor, poll = _watched(clients)
    begin_ns = perf_counter_ns()
    due_ns = [begin_ns + interval_ns * number // len(clients) for number in range(len(clients))]
    turn, end_ns = 0, begin_ns + duration_ns
    while (now_ns := perf_counter_ns()) < end_ns or any(client.is_waiting for client in clients):
        if now_ns > end_ns + int(_ANSWER_SECONDS_MAX * 1e9):
            raise ResponseError(f"no answer in {_ANSWER_SECONDS_MAX:.0f} s")
        while due_ns[turn] <= now_ns < end_ns and not clients[turn].is_waiting:
            clients[turn].send(due_ns[turn])
            due_ns[turn] += interval_ns
            turn = (turn + 1) % len(clients)
        left_ns = due_ns[turn] - perf_counter_ns() if not clients[turn].is_waiting else interval_ns
        for descriptor, _ in poll.poll(max(left_ns, 0) / 1e9):
            by_descriptor[descriptor].receive(load)
    load.took_ns = perf_counter_ns() - begin_ns
    return load


def _watched(clients: Sequence[_Client]) -> tuple[dict[int, _Client], epoll]:
    poll = epoll()
    by_descriptor = {client.socket.fileno(): client for client in clients}
    for descriptor in by_descriptor:
        poll.register(descriptor, EPOLLIN)
    return by_descriptor, poll


class LoadKind(Enum):
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
    """Load a broker for a while, and print the result as JSON."""
    form = HeaderForm.ROCKETMQ if binary else HeaderForm.JSON
    exchanges: list[Exchange] = [
        Sends(body_bytes, number, number, form) if kind is LoadKind.SEND else Pulls(number)
        for number in range(connections)
    ]
    load = run_load(address, exchanges, seconds, interval_ms / 1_000 or None)
    answers, latency = len(load.latencies_ns), Latency.from_series([load.latencies_ns])
    counts = {"messages": load.messages, "busy": load.busy, "answers": answers, "per_second": load.per_second}
    typer.echo(json.dumps(counts | latency._asdict()))


if __name__ == "__main__":
    typer.run(main)
