"""Three etcd servers: the command of one server, the client, and the check.

    etcd_cluster.py serve NAME SERVER PORT    becomes the server n1, n2 or n3; its data is in its working directory
    etcd_cluster.py put PORT COUNT            prints each key that the cluster has acknowledged

The client uses the JSON interface. A read is linearizable, as is etcd's default.
"""

import base64
import json
import os
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

NODES = (1, 2, 3)
PEERS = 10  # a server's port for the others is its client port + this
ANSWER_SECONDS = 5.0


def serve(name: str, server: str, first_port: str) -> None:
    port = int(first_port)
    own = port + int(name[1:])
    peers = ",".join(f"n{node}=http://127.0.0.1:{port + PEERS + node}" for node in NODES)
    client, peer = f"http://127.0.0.1:{own}", f"http://127.0.0.1:{own + PEERS}"
    options = {
        "name": name,
        "data-dir": "data",
        "initial-cluster": peers,
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
    }
    os.execv(server, [server, *(f"--{option}={value}" for option, value in options.items())])


def ask(port: int, call: str, request: dict[str, str]) -> Any:
    """Send a request to one server, and return its answer. OSError, ValueError: there is none."""
    url = f"http://127.0.0.1:{port}/v3/kv/{call}"
    with urllib.request.urlopen(url, json.dumps(request).encode(), ANSWER_SECONDS) as answer:
        return json.load(answer)


def ask_until(first_port: int, call: str, request: dict[str, str], end: float) -> Any:
    """Ask the servers in turn. Return None after the deadline."""
    while time.monotonic() < end:
        for node in NODES:
            with suppress(OSError, ValueError):
                return ask(first_port + node, call, request)
        time.sleep(0.1)
    return None


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def put(first_port: str, count: str) -> None:
    for number in range(int(count)):
        request = {"key": encoded(f"key {number}"), "value": encoded(f"value {number}")}
        if ask_until(int(first_port), "put", request, time.monotonic() + 30):
            print(f"key {number}", flush=True)


def check(directory: Path, acknowledged: list[str]) -> Iterator[str]:
    request = {"key": encoded("key"), "range_end": encoded("kez")}
    answer = ask_until(int(os.environ["ETCD_PORT"]), "range", request, time.monotonic() + 45)
    if answer is None:
        yield "the cluster has not answered"
        return
    found = {base64.b64decode(one["key"]).decode() for one in answer.get("kvs", [])}
    yield from (f"{key!r} is lost" for key in acknowledged if key not in found)


if __name__ == "__main__":
    {"serve": serve, "put": put}[sys.argv[1]](*sys.argv[2:])
