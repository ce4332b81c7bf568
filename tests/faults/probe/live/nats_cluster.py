"""Three NATS servers with JetStream: the command of one server, the client, and the check.

    nats_cluster.py serve NAME SERVER SYNC_INTERVAL PORT    becomes the server n1, n2 or n3
    nats_cluster.py publish PORT COUNT                      prints each message that the cluster has acknowledged

The client speaks NATS's text protocol. Each message has a subject of its own, so that one request lists all of them.
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

NODES = (1, 2, 3)
STREAM = "ORDERS"
ROUTES = 10  # a server's cluster port is its client port + this
ANSWER_SECONDS = 5.0
WAITS_SECONDS = 15.0  # the last part of the check's time, in which an answer must come


def serve(name: str, server: str, sync_interval: str, first_port: str) -> None:
    port = int(first_port)
    routes = ", ".join(f'"nats://127.0.0.1:{port + ROUTES + node}"' for node in NODES)
    own = port + int(name[1:])
    config = Path(os.environ["TMPDIR"], "nats.conf")
    config.write_text(
        f"""
        server_name: {name}
        listen: "127.0.0.1:{own}"
        jetstream {{ store_dir: "{Path.cwd()}", sync_interval: {sync_interval} }}
        cluster {{ name: test, listen: "127.0.0.1:{own + ROUTES}", routes: [{routes}] }}
        """
    )
    os.execv(server, [server, "-c", str(config)])


class Connection:
    """A connection to one server."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS)
        self._lines = self._socket.makefile("rb")
        self._requests = 0
        self._lines.readline()  # INFO
        self._socket.sendall(b'CONNECT {"verbose":false}\r\nSUB answers.* 1\r\n')

    def ask(self, subject: str, body: str) -> Any:
        """Send a request, and return the JSON of the answer. OSError, ValueError: there is none."""
        self._requests += 1
        answers = f"answers.{self._requests}"
        self._socket.sendall(f"PUB {subject} {answers} {len(body)}\r\n{body}\r\n".encode())
        while line := self._lines.readline():
            words = line.split()
            if words[0] == b"PING":
                self._socket.sendall(b"PONG\r\n")
            elif words[0] == b"MSG":
                data = self._lines.read(int(words[-1]) + 2)
                if words[1].decode() == answers:
                    return json.loads(data)
        raise ConnectionResetError("the server has closed the connection")

    def close(self) -> None:
        self._lines.close()
        self._socket.close()


class Cluster:
    """Sends each request to the servers in turn, until one of them answers."""

    def __init__(self, first_port: int) -> None:
        self._port = first_port
        self._node = 0
        self._connection: Connection | None = None
        self.last_error = "no connection"

    def ask(self, subject: str, body: str, end: float) -> Any:
        """Return the first answer without an error, or None after the deadline."""
        while time.monotonic() < end:
            with suppress(OSError, ValueError):
                if self._connection is None:
                    self._connection = Connection(self._port + NODES[self._node])
                answer = self._connection.ask(subject, body)
                if "error" not in answer:
                    return answer
                self.last_error = answer["error"]["description"]
            self.close()
            self._node = (self._node + 1) % len(NODES)
            time.sleep(0.1)
        return None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def publish(first_port: str, count: str) -> None:
    cluster = Cluster(int(first_port))
    config = json.dumps({"name": STREAM, "subjects": [f"{STREAM}.*"], "num_replicas": 3, "storage": "file"})
    assert cluster.ask(f"$JS.API.STREAM.CREATE.{STREAM}", config, time.monotonic() + 60), "there is no cluster"
    for number in range(int(count)):
        if cluster.ask(f"{STREAM}.{number}", f"order {number}", time.monotonic() + 30):
            print(number, flush=True)


def check(directory: Path, acknowledged: list[str]) -> Iterator[str]:
    first_port = int(os.environ["NATS_PORT"])
    cluster = Cluster(first_port)
    end = time.monotonic() + 45
    missing = list(acknowledged)
    while missing and (answer := cluster.ask(f"$JS.API.STREAM.INFO.{STREAM}", '{"subjects_filter":">"}', end)):
        found = answer["state"].get("subjects") or ()
        missing = [number for number in acknowledged if f"{STREAM}.{number}" not in found]
        time.sleep(0.2)
        if missing and time.monotonic() > end - WAITS_SECONDS:
            break
    else:
        if missing:
            yield f"the cluster has not answered: {cluster.last_error}"
            return
    yield from (f"order {number} is lost" for number in missing)


if __name__ == "__main__":
    {"serve": serve, "publish": publish}[sys.argv[1]](*sys.argv[2:])
