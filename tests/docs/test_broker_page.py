"""docs/broker*.md and docs/store.md: each `tornlog serve` is started, the access list is read, the examples run."""

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tornlog.store.broker.limits import ServerLimits
from tornlog.store.broker.remoting_client import RemotingClient
from tornlog.store.broker.router import Pool
from tornlog.store.config import KIB, MIB
from tornlog.store.formats.remoting.command import RemotingCommand
from tornlog.store.formats.remoting.frame import FRAME_BYTES_MAX
from tornlog.store.real.world import real_world

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "broker-reference.md").read_text()
PAGES = PAGE + (DOCS / "broker.md").read_text()
COMMANDS = [match[1] for match in re.finditer(r"^    tornlog (serve .+)$", PAGES, re.MULTILINE)]


@pytest.fixture
def workplace(tmp_path: Path, certificates: Path) -> Path:
    """A directory with all files of the page."""
    (access_list,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "plain_acl.yml").write_text(access_list)
    (tmp_path / "broker.conf").write_text("flushDiskType=SYNC_FLUSH\nenablePropertyFilter=true\n")
    shutil.copy(certificates / "server.pem", tmp_path / "certificate.pem")
    shutil.copy(certificates / "server.key", tmp_path / "key.pem")
    return tmp_path


def example_of(page: str) -> str:
    """Return the page's example, with a store of small files."""
    (example,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    small = "mapped_file_size_commit_log=1 << 20, max_hash_slot_num=100, max_index_num=400, "
    smaller = str(example).replace('StoreConfig("mq", ', f'StoreConfig("mq", {small}')
    assert smaller != example
    return smaller


def test_the_broker_page_lists_the_limits_of_the_server() -> None:
    limits = ServerLimits()
    send = limits.pools[Pool.SEND_MESSAGE]
    for figure in (
        f"{FRAME_BYTES_MAX // MIB} MiB",
        f"{limits.frame_ms_max // 1000} s",
        f"{limits.idle_ms_max // 1000} s",
        f"{limits.connections_max:,}",
        f"{limits.connections_per_host_max:,}",
        f"{limits.output_pause_bytes // KIB} KiB",
        f"{limits.output_bytes_max // MIB} MiB, or {limits.output_ms_max // 1000} s",
        f"{limits.requests_bytes_max // limits.request_bytes_least}, and {limits.requests_bytes_max // MIB} MiB",
        f"{limits.requests_of_host_bytes_max // limits.request_bytes_least}, and "
        f"{limits.requests_of_host_bytes_max // MIB} MiB",
        f"{limits.held_bytes_max // MIB} MiB",
        f"{send.queue_capacity:,}",
        f"{send.wait_ms_max} ms",
    ):
        assert re.search(rf"(?<![\d,]){figure}(?![\d,]\d)", PAGE), figure


def test_the_broker_page_lists_the_options_of_serve() -> None:
    assert len(COMMANDS) >= 4


@pytest.mark.parametrize("command", COMMANDS)
def test_the_serve_example_of_the_broker_page_runs(command: str, workplace: Path) -> None:
    words = shlex.split(command)
    if "--port" in words:
        at = words.index("--port")
        del words[at : at + 2]
    words = ["0" if word in ("9100", "9101") else word for word in words]
    if "--json" not in words:
        words.append("--json")
    words += ["--port", "0"]
    with subprocess.Popen(
        [sys.executable, "-m", "tornlog", *words],
        cwd=workplace,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as serving:
        assert serving.stdout is not None
        assert serving.stderr is not None
        said = serving.stdout.readline()
        serving.send_signal(signal.SIGTERM)
        complaints = serving.stderr.read()
        assert serving.wait(30) == 0, complaints
    ready = json.loads(said)
    assert (ready["format"], ready["event"]) == ("tornlog-serve/1", "serving")
    assert ready["addresses"][0].startswith("127.0.0.1:")
    assert not (workplace / words[1] / "abort").exists()


def test_the_hooks_example_of_the_broker_page_runs(tmp_path: Path) -> None:
    send = {"a": "sellers", "b": "Orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "0", "h": "0", "i": ""}
    pull = {"consumerGroup": "billing", "topic": "Orders", "queueId": "0", "queueOffset": "0", "maxMsgNums": "1"}
    pull |= {"sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0"}
    with subprocess.Popen(
        [sys.executable, "-c", example_of(PAGE)], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        client = RemotingClient(real_world(), process.stdout.readline().split()[1])
        client.invoke(RemotingCommand(310, 0, ext_fields=send, body=b"hello"), 30_000)
        said = [process.stdout.readline()]
        while not (pulled := client.invoke(RemotingCommand(11, 0, ext_fields=pull), 30_000)).body:
            process.stdout.readline()  # the message is not dispatched yet
        said.append(process.stdout.readline())
        client.close()
        process.communicate("\n", timeout=60)
    assert said == ["sent Orders 0 0 0\n", "pulled billing Orders 0 0\n"]
    assert b"audited\x01yes" in pulled.body
    assert process.returncode == 0


def test_the_library_example_of_the_broker_page_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-c", example_of((DOCS / "store.md").read_text())]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    printed = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert (printed[0], printed[-1], len(printed)) == ("PutMessageStatus.PUT_OK", "True", 5)
    assert "[]" not in printed
