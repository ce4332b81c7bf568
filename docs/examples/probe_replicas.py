"""A replicated log on loopback: n1 is the primary of n2 and n3, and answers when two of the three have a value.

    probe_replicas.py serve NAME sync|unsynced     one server; its log is in its working directory
    probe_replicas.py put COUNT                    prints each value that the primary has acknowledged

After a start the primary takes the longest log that it or a follower has. Ports are 7101, 7102
and 7103, unless the environment variable PORTS has three others, with commas.
"""

import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

PORTS = [int(port) for port in os.environ.get("PORTS", "7101,7102,7103").split(",")]
SECONDS = 20.0


def ask(port: int, request: Any, seconds: float = 2.0) -> Any:
    """Send a request, and return the answer. OSError, ValueError: there is none."""
    with socket.create_connection(("127.0.0.1", port), seconds) as connection, connection.makefile("rb") as lines:
        connection.sendall(json.dumps(request).encode() + b"\n")
        return json.loads(lines.readline())


def ask_until(port: int, request: Any, seconds: float = SECONDS) -> Any:
    """Ask until there is an answer other than null. Return null after the time limit."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(OSError, ValueError):
            if (answer := ask(port, request)) is not None:
                return answer
        time.sleep(0.05)
    return None


class Replica:
    """One server. The log is replaced as a whole by each change."""

    def __init__(self, name: str, is_synced: bool) -> None:
        self.is_synced = is_synced
        self.server = socket.create_server(("127.0.0.1", PORTS[int(name[1:]) - 1]))
        self.followers = PORTS[1:] if name == "n1" else []
        log = Path("log")
        self.values: list[str] = log.read_text().splitlines() if log.exists() else []

    def store(self, values: list[str]) -> bool:
        with open("log.new", "w") as file:
            file.writelines(f"{value}\n" for value in values)
            file.flush()
            if self.is_synced:
                os.fsync(file.fileno())
        os.replace("log.new", "log")
        if self.is_synced:
            directory = os.open(".", os.O_RDONLY)
            os.fsync(directory)
            os.close(directory)
        self.values = values
        return True

    def replicate(self) -> bool:
        """Send the log to the followers, and return whether one has it."""
        done = 0
        for port in self.followers:
            with suppress(OSError, ValueError):
                done += bool(ask(port, ["store", self.values], 0.5))
        return done > 0

    def recover(self) -> None:
        """Take the longest log of the primary and at least one follower."""
        found: list[list[str]] = []
        while not found:
            for port in self.followers:
                with suppress(OSError, ValueError):
                    found.append(ask(port, ["read"], 0.5))
        longest = max([self.values, *found], key=len)
        if longest != self.values:
            self.store(longest)

    def serve(self) -> None:
        while True:
            connection, _ = self.server.accept()
            with connection, connection.makefile("rb") as lines, suppress(OSError, ValueError):
                connection.settimeout(2.0)
                answer = self.answer(*json.loads(lines.readline()))
                connection.sendall(json.dumps(answer).encode() + b"\n")

    def answer(self, what: str, *values: Any) -> Any:
        if what == "read":
            return self.values
        if what == "store":
            return self.store(values[0])
        if values[0] not in self.values:
            self.store([*self.values, values[0]])
        return self.replicate() or None


def serve(name: str, how: str) -> None:
    replica = Replica(name, how == "sync")
    if replica.followers:
        replica.recover()
    replica.serve()


def put(count: str) -> None:
    for number in range(int(count)):
        if ask_until(PORTS[0], ["put", f"value {number}"]):
            print(f"value {number}", flush=True)


def check(directory: Path, acknowledged: list[str]) -> Iterator[str]:
    found = ask_until(PORTS[0], ["read"]) or []
    yield from (f"{value} is lost" for value in acknowledged if value not in found)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(*sys.argv[2:])
    else:
        put(*sys.argv[2:])
