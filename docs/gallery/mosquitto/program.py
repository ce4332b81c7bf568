"""Mosquitto: a retained message is a transaction, saved at a signal, after each change, or by the server's timer.

With `signal` a message is promised when SIGUSR1 has brought a new file of all messages. With `changes`, which saves
after each, and `later`, with the default interval of half an hour, it is promised when it is answered.
"""

import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import paho.mqtt.client as mqtt
from transactions import NUMBERS, Wrong, installed, main, promise, rows_in, value_of

_FILE = "mosquitto.db"
_SETTINGS = {"signal": "", "later": "", "changes": "autosave_on_changes true\nautosave_interval 1\n"}
_SECONDS_MAX, _POLL_SECONDS = 8.0, 0.002


class Client:
    """A connection that waits for each answer."""

    def __init__(self, port: int) -> None:
        self._client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        self._client.connect("127.0.0.1", port)
        self._found: dict[str, bytes] = {}
        self._client.on_message = lambda _client, _data, message: self._found.update({message.topic: message.payload})
        self._wait(self._client.is_connected, "connection")

    def _wait(self, done: Callable[[], bool], what: str) -> None:
        end = monotonic() + _SECONDS_MAX
        while not done():
            if self._client.loop(_POLL_SECONDS) != mqtt.MQTT_ERR_SUCCESS or monotonic() > end:
                raise RuntimeError(f"no {what}")

    def put(self, name: str, value: bytes) -> None:
        """Publish a retained message, and wait for its answer."""
        self._wait(self._client.publish(f"kept/{name}", value, qos=1, retain=True).is_published, "answer to a message")

    def all(self) -> dict[str, bytes]:
        """Publish one more message, and return all by their names: retained ones come before it."""
        self._client.subscribe("kept/#", qos=1)
        self.put("more", b"more")
        self._wait(lambda: "kept/more" in self._found, "message of ours")
        return {topic.removeprefix("kept/"): value for topic, value in self._found.items()}


@contextmanager
def running(directory: Path, setting: str = "later") -> Iterator[tuple[Client, subprocess.Popen[str]]]:
    """Start a server, wait until it answers, and kill it in the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = f"listener {port} 127.0.0.1\nallow_anonymous true\nuser root\nlog_dest stdout\nlog_type error\n"
    config += f"persistence true\npersistence_location {directory.resolve()}/\n{_SETTINGS[setting]}"
    pipe = subprocess.PIPE
    command = ["mosquitto", "-c", "/dev/stdin"]
    server = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True)
    assert server.stdin is not None
    server.stdin.write(config)
    server.stdin.close()
    try:
        yield _client(server, port), server
    finally:
        server.kill()
        server.wait()


def _client(server: subprocess.Popen[str], port: int) -> Client:
    end = monotonic() + _SECONDS_MAX
    while monotonic() < end and server.poll() is None:
        try:
            return Client(port)
        except ConnectionRefusedError:
            sleep(_POLL_SECONDS)
    server.kill()
    assert server.stdout is not None
    said = server.stdout.read().splitlines()
    raise RuntimeError(f"the server does not start: {said[-1].partition(': ')[2] if said else 'no answer'}")


def save(server: subprocess.Popen[str]) -> None:
    """Make the server save all messages, and wait until the file is replaced."""
    before = _file()
    server.send_signal(signal.SIGUSR1)
    end = monotonic() + _SECONDS_MAX
    while _file() == before:
        if monotonic() > end:
            raise RuntimeError("nothing is saved")
        sleep(_POLL_SECONDS)


def _file() -> tuple[int, int] | None:
    try:
        found = Path(_FILE).stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def make(setting: str) -> None:
    """Make it, with a message."""
    with running(Path(), setting) as (client, server):
        client.put("made", b"made")
        save(server)


def write(setting: str) -> None:
    """Publish, save if the setting says so, and stop in good order, when the server saves once more."""
    with running(Path(), setting) as (client, server):
        for number in NUMBERS:
            client.put(str(number), value_of(number))
            if setting == "signal":
                save(server)
            promise(number)
        server.terminate()
        server.wait()


def count(directory: Path) -> Sequence[int]:
    """Start it as the next user would, and publish one message more."""
    with running(directory) as (client, _):
        found = client.all()
    unknown = found.keys() - {"made", "more", *map(str, NUMBERS)}
    if unknown:
        raise Wrong(f"messages that nobody sent: {sorted(unknown)}")
    return [rows_in(found.get(str(number)), number) for number in NUMBERS]


def version() -> str:
    """Ask it."""
    said = subprocess.run(["mosquitto", "-h"], capture_output=True, text=True, check=False).stdout
    return f"Mosquitto {said.split()[2]} ({installed('paho-mqtt')})"


main(write, count, version, make)
