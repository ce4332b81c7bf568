"""Real clusters in live runs: NATS JetStream 2.12.1 by its setting of syncs, and etcd."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.command_line import tornlog
from tests.faults.probe.live.test_live_runs import NAMES, free_ports

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]
HERE = Path(__file__).parent
NATS = "github.com/nats-io/nats-server/v2@v2.12.1"
ETCD = "go.etcd.io/etcd/server/v3"
ETCD_MAIN = f'package main\n\nimport (\n\t"os"\n\n\t"{ETCD}/etcdmain"\n)\n\nfunc main() {{ etcdmain.Main(os.Args) }}\n'


@pytest.fixture(scope="session")
def go() -> str:
    found = shutil.which("go")
    if found is None:
        pytest.skip("the servers are built with go, which is not installed")
    return found


@pytest.fixture(scope="session")
def nats_server(go: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("nats")
    subprocess.run([go, "install", NATS], env={**os.environ, "GOBIN": str(place)}, check=True)
    return place / "nats-server"


@pytest.fixture(scope="session")
def etcd_server(go: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The newest etcd. Its module cannot be installed by name, because it replaces others."""
    place = tmp_path_factory.mktemp("etcd")
    (place / "main.go").write_text(ETCD_MAIN)
    for arguments in (["mod", "init", "server"], ["get", f"{ETCD}@latest"], ["mod", "tidy"], ["build", "-o", "etcd"]):
        subprocess.run([go, *arguments], cwd=place, check=True)
    return place / "etcd"


def first_free_port() -> int:
    """Return a port before about 20 that are probably free."""
    return free_ports(1)[0]


def probe(script: Path, serve: str, client: list[str], seeds: int, tmp_path: Path) -> dict[str, object]:
    """Run a cluster live, and return the JSON of the result."""
    file = tmp_path / "live.json"
    machines = [word for name in NAMES for word in ("--machine", f"{name}={name}")]
    options = ["--restart", f"{script} {serve}", "--disk", "ext4-ordered", "--check", str(script), "--seconds", "60"]
    more = ["--seeds", str(seeds), "--stop-at-first", "--json", str(file), "--out", str(tmp_path / "out")]
    result = tornlog("probe", *machines, *options, *more, "--", script, *client)
    assert result.exit_code in (0, 1), result.output
    found: dict[str, object] = json.loads(file.read_text())
    return found


@pytest.mark.parametrize(("sync_interval", "is_lost"), [("2m", True), ("always", False)])
def test_jetstream_loses_acknowledged_messages_unless_it_always_syncs(
    sync_interval: str, is_lost: bool, nats_server: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = first_free_port()
    monkeypatch.setenv("NATS_PORT", str(port))
    serve = f"serve {{machine}} {nats_server} {sync_interval} {port}"
    found = probe(HERE / "nats_cluster.py", serve, ["publish", str(port), "30"], 50, tmp_path)

    breaches = found["breaches"]
    assert isinstance(breaches, list)
    assert [breach["signature"] for breach in breaches] == (["order # is lost"] if is_lost else [])
    assert is_lost or found["runs"] == 50
    assert not found["without_cut"]


def test_etcd_keeps_every_acknowledged_key(etcd_server: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = first_free_port()
    monkeypatch.setenv("ETCD_PORT", str(port))
    serve = f"serve {{machine}} {etcd_server} {port}"
    found = probe(HERE / "etcd_cluster.py", serve, ["put", str(port), "30"], 20, tmp_path)

    assert found["breaches"] == []
    assert found["runs"] == 20
    assert found["cuts_with_losses"]
