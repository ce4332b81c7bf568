"""`python -m tests.bench.zero_copy`: processor time of ways to send and to write records without copies.

Sending, from the page cache to a socket: `read` and `send` copy each byte twice (page cache to buffer, buffer to
socket); `send` from a map, as RocketMQ does, copies it once; `sendfile`, as Kafka does, hands pages over. Writing: a
store through a map copies once, as `pwrite` does, but needs no call of the kernel for each record; a store to plain
memory is the lower bound.

All ways take turns, so that slow phases of the machine affect all alike. Figures are processor time of the sending
thread only. A ratio is the median over turns, with the interval of the sign test.
"""

import mmap
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from tornlog.__main__ import run
from tornlog.command_line import application_of
from tornlog.reports.cli.console import OUT, plain_table
from tornlog.reports.cli.options import EXIT_HELD
from tornlog.reports.quantities import median_interval

_FILE_BYTES = 64 << 20
_BYTES_A_TURN = 16 << 20
SIZES = (1 << 10, 32 << 10, 256 << 10)
"""Bytes of one call: a message, a pull of 32 messages, and the largest pull (maxTransferBytesOnMessageInMemory)."""
Way = Callable[[int, int], object]
"""Called with an offset and a number of bytes."""


class OpenFile:
    """A file in the page cache with a map, and a connection whose other end is drained."""

    def __init__(self, path: Path, sending: socket.socket) -> None:
        path.write_bytes(bytes(_FILE_BYTES))
        self._descriptor = os.open(path, os.O_RDWR)
        self._map = mmap.mmap(self._descriptor, _FILE_BYTES)
        self._view = memoryview(self._map)
        self._sending = sending
        self.record = memoryview(bytearray(SIZES[-1]))
        self._memory = memoryview(bytearray(_FILE_BYTES))

    def ways(self) -> dict[str, dict[str, Way]]:
        """Return the ways of each kind. The others are compared with the first, RocketMQ's."""
        send, descriptor, view = self._sending.sendall, self._descriptor, self._view
        record, memory = self.record, self._memory
        return {
            "send": {
                "send from a map": lambda at, size: send(view[at : at + size]),
                "read, send": lambda at, size: send(os.pread(descriptor, size, at)),
                "sendfile": self._send_file,
            },
            "write": {
                "store to a map": lambda at, size: view.__setitem__(slice(at, at + size), record[:size]),
                "pwrite": lambda at, size: os.pwrite(descriptor, record[:size], at),
                "store to memory": lambda at, size: memory.__setitem__(slice(at, at + size), record[:size]),
            },
        }

    def _send_file(self, at: int, size: int) -> None:
        end = at + size
        while at < end:
            at += os.sendfile(self._sending.fileno(), self._descriptor, at, end - at)

    def close(self) -> None:
        self._view.release()
        self._map.close()
        os.close(self._descriptor)


@contextmanager
def drained_connection() -> Iterator[socket.socket]:
    """Yield a TCP connection over loopback, whose other end is read in a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        drain = os.fork()
        if not drain:
            with socket.create_connection(server.getsockname()) as reading:
                buffer = bytearray(1 << 20)
                while reading.recv_into(buffer):
                    pass
            os._exit(0)
        sending, _ = server.accept()
    try:
        with sending:
            yield sending
    finally:
        os.waitpid(drain, 0)


def cpu_us_per_mib(way: Way, size: int) -> float:
    """Return the processor time of this thread for records of a size, in order."""
    begun_ns = time.thread_time_ns()
    for at in range(0, _BYTES_A_TURN, size):
        way(at, size)
    return (time.thread_time_ns() - begun_ns) / 1_000 / (_BYTES_A_TURN / (1 << 20))


def zero_copy(turns: Annotated[int, typer.Option(min=6, help="Turns of all ways.")] = 20) -> None:
    """Measure the processor time of sending and writing records, with copies and without."""
    with TemporaryDirectory(prefix="tornlog-zero-copy-") as place, drained_connection() as sending:
        file = OpenFile(Path(place) / "log", sending)
        found: dict[tuple[str, int, str], list[float]] = {}
        for _ in range(turns):
            for kind, ways in file.ways().items():
                for size in SIZES:
                    for name, way in ways.items():
                        found.setdefault((kind, size, name), []).append(cpu_us_per_mib(way, size))
        table = plain_table("processor time", ("records of", "way"), ("µs/MiB", "ratio", "95 %"))
        for kind, ways in file.ways().items():
            for size in SIZES:
                first = found[kind, size, next(iter(ways))]
                for name in ways:
                    mine = found[kind, size, name]
                    ratios = [one / other for one, other in zip(mine, first, strict=True)]
                    low, high = median_interval(ratios)
                    figures = f"{median(mine):,.0f}", f"{median(ratios):.2f}", f"{low:.2f} to {high:.2f}"
                    table.add_row(f"{size >> 10} KiB", name, *figures)
        file.close()
    OUT.print(table)
    OUT.print(f"load average {os.getloadavg()[0]:.1f}")
    raise typer.Exit(EXIT_HELD)


if __name__ == "__main__":
    run(lambda: application_of("zero-copy", zero_copy))
