"""A Redis server on a directory, and a client of it, for all rows of Redis."""

import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic, sleep

from transactions import NUMBERS, ROWS, rows_of

_SECONDS_MAX = 8.0
POLL_SECONDS = 0.005


class Client:
    """A connection that waits for each answer."""

    def __init__(self, port: int) -> None:
        self._stream = socket.create_connection(("127.0.0.1", port)).makefile("rwb")

    def ask(self, *words: bytes) -> bytes:
        """Send a command; return its answer, or the content of a bulk answer."""
        self._stream.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words))
        self._stream.flush()
        return self._answer()

    def _answer(self) -> bytes:
        line = self._stream.readline().strip()
        kind, rest = line[:1], line[1:]
        if kind == b"$" and int(rest) >= 0:
            return self._stream.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return b" ".join(self._answer() for _ in range(int(rest)))
        return line


@contextmanager
def running(directory: str, *settings: str) -> Iterator[Client]:
    """Start a server, wait until it answers, and kill it in the end. settings: as on its command line."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", directory, *settings]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield _client(server, port)
    finally:
        server.kill()
        server.wait()


def _client(server: subprocess.Popen[str], port: int) -> Client:
    end = monotonic() + _SECONDS_MAX
    while monotonic() < end and server.poll() is None:
        try:
            client = Client(port)
            while (answer := client.ask(b"PING")) != b"+PONG":
                if not answer:
                    raise ConnectionError("the server has closed it")
                sleep(POLL_SECONDS)
        except OSError:
            sleep(POLL_SECONDS)
        else:
            return client
    server.kill()
    said = server.communicate()[0].splitlines()
    raise RuntimeError(f"the server does not start: {said[-1].split('# ')[-1] if said else 'no answer'}")


def put(client: Client, number: int) -> bool:
    """Have the rows of a transaction set at once; return whether it was answered OK."""
    client.ask(b"MULTI")
    for key, value in rows_of(number).items():
        client.ask(b"SET", key, value)
    return client.ask(b"EXEC") == b" ".join([b"+OK"] * ROWS)


def count_in(client: Client) -> Sequence[int]:
    """Return how many rows of each transaction are there, and write one more."""
    found = [sum(client.ask(b"GET", key) == value for key, value in rows_of(n).items()) for n in NUMBERS]
    if client.ask(b"SET", b"more", b"") != b"+OK":
        raise RuntimeError("the server takes no writes")
    return found


def version() -> str:
    """Ask the server."""
    said = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True).stdout
    return "Redis " + said.partition("v=")[2].split()[0]
