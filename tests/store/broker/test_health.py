"""Health of `tornlog serve`: /healthz, /readyz, systemd, and the end of a process whose store has failed."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.broker_clients.conftest import free_port
from tornlog.store.broker.requests import RequestCode

from .conftest import ServeProcess
from .test_served_processes import SMALL, send, wait_until

pytestmark = pytest.mark.ci


@pytest.fixture
def conf(tmp_path: Path) -> str:
    path = tmp_path / "broker.conf"
    path.write_text(SMALL)
    return str(path)


def ask(url: str) -> tuple[int, dict[str, str]]:
    """Return the status and the lines of a page by the text before their colon."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            status, text = answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            status, text = error.code, error.read().decode()
    return status, {name: rest.strip() for name, _, rest in (line.partition(":") for line in text.splitlines())}


def ready(process: ServeProcess) -> tuple[int, dict[str, str]]:
    return ask(process.ready["health"])


def is_ready(process: ServeProcess) -> bool:
    return ready(process)[0] == 200


def test_a_master_is_ready_and_its_metrics_port_answers_health_too(
    start: Callable[..., ServeProcess], conf: str
) -> None:
    broker = start("store", "--port", "0", "--config", conf, "--health", "0", "--metrics", "0")
    passed = {"recovered": "ok", "serving": "ok", "writable": "ok"}
    base = broker.ready["metrics"].removesuffix("/metrics")
    assert ready(broker) == ask(f"{base}/readyz") == (200, passed)
    assert ask(f"{base}/healthz") == (200, {"alive": ""})
    assert ask(f"{base}/")[0] == 404
    assert ask(broker.ready["health"].replace("readyz", "metrics"))[0] == 404
    assert broker.end() == 0


@pytest.mark.slow
def test_a_pair_is_ready_while_its_slave_follows_its_master(start: Callable[..., ServeProcess], conf: str) -> None:
    names = start("names", "--name-server", "--port", "0", "--health", "0")
    assert ready(names) == (200, {"serving": "ok"})
    Path(conf).write_text(f"{SMALL}namesrvAddr={names.address}\n")
    port = free_port()
    options = ("--config", conf, "--health", "0", "--no-vip-port")
    master = start("master", "--port", str(port), "--role", "sync-master", *options)
    wait_until(lambda: ready(master)[1]["registered"] == "ok")
    passed = dict.fromkeys(("recovered", "serving", "writable", "registered"), "ok")
    assert ready(master) == (503, passed | {"replicated": "no slave is connected, or every slave is too far behind"})

    slave = start("slave", "--port", "0", "--role", "slave", "--master", master.address, *options)
    assert ready(slave)[1]["tables"] in ("not copied yet", "ok")
    wait_until(lambda: is_ready(slave) and is_ready(master))
    checks = {"recovered", "serving", "writable", "registered", "following", "tables"}
    assert set(ready(slave)[1]) == checks

    assert master.end(signal.SIGKILL) == -signal.SIGKILL
    wait_until(lambda: ready(slave)[1]["following"] != "ok")
    status, found = ready(slave)
    assert (status, found["following"].partition(":")[0]) == (503, "not connected")
    assert names.end() == 0
    wait_until(lambda: names.address in ready(slave)[1]["registered"])


@pytest.mark.slow
def test_a_slave_whose_log_differs_from_its_masters_is_alive_but_not_ready(
    start: Callable[..., ServeProcess], conf: str
) -> None:
    port = free_port()
    options = ("--config", conf, "--no-vip-port")
    for name in ("one", "other"):
        broker = start(name, "--port", "0", *options)
        send(broker, f"Topic-{name}", 2)
        assert broker.end() == 0
    start("one", "--port", str(port), *options)
    slave = start("other", "--port", "0", "--role", "slave", "--master", f"127.0.0.1:{port}", "--health", "0", *options)
    wait_until(lambda: ready(slave)[1]["following"].startswith("diverged"))
    assert ask(slave.ready["health"].replace("readyz", "healthz"))[0] == 200


def test_a_recovering_broker_is_alive_but_not_ready(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "slow.py").write_text(
        "import time\n"
        "from tornlog.__main__ import main\n"
        "from tornlog.store.message_store import MessageStore\n"
        "load = MessageStore.load\n"
        "MessageStore.load = lambda self, **given: (time.sleep(120), load(self, **given))[1]\n"
        "main()\n"
    )
    command = [sys.executable, str(tmp_path / "slow.py"), "serve", str(tmp_path / "store"), "--port", "0"]
    with subprocess.Popen([*command, "--metrics", str(port)], stdout=subprocess.DEVNULL) as process:
        base = f"http://127.0.0.1:{port}"

        def answers() -> bool:
            with contextlib.suppress(urllib.error.URLError):
                return ask(f"{base}/healthz")[0] == 200
            return False

        wait_until(answers)
        assert ask(f"{base}/readyz") == (503, {"recovered": "the store is still recovering"})
        with urllib.request.urlopen(f"{base}/metrics", timeout=30) as answer:
            assert 'tornlog_ready{check="recovered"} 0.0' in answer.read().decode()
        process.kill()


STUCK = """
import threading
from tornlog.__main__ import main
from tornlog.store.broker import health
from tornlog.store.broker.connections import Connections

health.TURN_MS_MAX = 200

def accept(self, *given):
    threading.Event().wait()

Connections._accept_connections = accept
main()
"""
FAILING = """
import errno
from tornlog.__main__ import main
from tornlog.store.{module} import {owner}

original = {owner}.{method}

def failing(self, *given, **named):
    if {condition}:
        raise {error}
    return original(self, *given, **named)

{owner}.{method} = failing
main()
"""
FAILURES = {
    "a failed sync": ("log.segment_queue", "SegmentQueue", "flush", "self.max_offset", "OSError(errno.EIO, 'planted')"),
    "a failed service": (
        "queues.flush_queues",
        "FlushConsumeQueueService",
        "run_once",
        "True",
        "LookupError('planted')",
    ),
}


@contextlib.contextmanager
def serving(script: str, tmp_path: Path, *options: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Run a script that serves. Its stderr goes to the file `stderr`."""
    (tmp_path / "broker.conf").write_text(SMALL)
    command = ["serve", str(tmp_path / "store"), "--port", "0", "--config", str(tmp_path / "broker.conf"), "--json"]
    with (
        (tmp_path / "stderr").open("w") as stderr,
        subprocess.Popen(
            [sys.executable, "-c", script, *command, *options],
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def test_a_process_whose_poller_task_is_stuck_is_not_alive(tmp_path: Path) -> None:
    with serving(STUCK, tmp_path, "--health", "0") as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        url = said["health"].replace("readyz", "healthz")
        assert ask(url)[0] == 200
        host, _, port = said["addresses"][0].rpartition(":")
        with socket.create_connection((host, int(port)), timeout=5):
            wait_until(lambda: ask(url)[0] == 503)


@pytest.mark.parametrize("failure", FAILURES)
def test_a_process_whose_store_has_failed_ends_with_its_own_code_and_the_cause(failure: str, tmp_path: Path) -> None:
    module, owner, method, condition, error = FAILURES[failure]
    script = FAILING.format(module=module, owner=owner, method=method, condition=condition, error=error)
    with serving(script, tmp_path) as process:
        assert process.stdout is not None
        host, _, port = json.loads(process.stdout.readline())["addresses"][0].rpartition(":")
        if failure == "a failed sync":
            with contextlib.suppress(OSError):
                broker = ServeProcess.__new__(ServeProcess)
                broker.address = f"{host}:{port}"
                letters = {"a": "sellers", "b": "Orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "0"}
                broker.ask(RequestCode.SEND_MESSAGE_V2, b"m", **letters, h="0", i="", j="0", k="false")
        assert process.wait(60) == 3
        stopped = json.loads(process.stdout.readline())
    assert (stopped["event"], stopped["clean"]) == ("stopped", False)
    assert "planted" in stopped["failure"]
    assert "the store cannot be trusted until a restart" in stopped["failure"]
    last = (tmp_path / "stderr").read_text().splitlines()[-1]
    assert "planted" in last
    assert (tmp_path / "store" / "abort").exists(), "the next start must recover"


def test_systemd_learns_of_the_start_the_stop_and_that_the_process_is_alive(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(address)
        systemd.settimeout(60)
        script = "from tornlog.__main__ import main; main()"
        with serving(script, tmp_path, NOTIFY_SOCKET=address, WATCHDOG_USEC="200000") as process:
            assert systemd.recv(100) == b"READY=1"
            assert {systemd.recv(100) for _ in range(3)} == {b"WATCHDOG=1"}
            process.send_signal(signal.SIGTERM)
            while (state := systemd.recv(100)) == b"WATCHDOG=1":
                pass
            assert state == b"STOPPING=1"
            assert process.wait(60) == 0


def test_the_watchdog_gets_no_message_while_the_process_is_stuck(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(f"\0{tmp_path}")
        with serving(STUCK, tmp_path, NOTIFY_SOCKET=f"@{tmp_path}", WATCHDOG_USEC="100000") as process:
            assert process.stdout is not None
            host, _, port = json.loads(process.stdout.readline())["addresses"][0].rpartition(":")
            with socket.create_connection((host, int(port)), timeout=5):
                systemd.settimeout(5)
                with contextlib.suppress(TimeoutError):
                    for _ in range(200):
                        systemd.recv(100)
                    pytest.fail("the watchdog still gets messages")


def test_an_idle_scraper_is_closed_and_the_next_one_answered(tmp_path: Path) -> None:
    script = "import tornlog.reports.cli.monitoring as m; m.CONNECTION_S_MAX = 0.2; m.CONNECTIONS_MAX = 2\n"
    script += "from tornlog.__main__ import main; main()"
    with serving(script, tmp_path, "--health", "0") as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["health"]
        host, _, port = url.removeprefix("http://").partition("/")[0].rpartition(":")
        with contextlib.ExitStack() as stack:
            idle = [stack.enter_context(socket.create_connection((host, int(port)), timeout=30)) for _ in range(2)]
            idle[0].sendall(b"GET /readyz HTTP/1.1\r\n")
            refused = stack.enter_context(contextlib.closing(http.client.HTTPConnection(host, int(port), timeout=30)))
            refused.connect()
            assert refused.sock.recv(1) == b""
            assert [one.recv(1) for one in idle] == [b"", b""]
        assert ask(url)[0] == 200
