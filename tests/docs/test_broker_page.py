"""What docs/broker.md says is done: each `tornlog serve` on it is started, and the access list on it is read."""

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "broker.md").read_text()
COMMANDS = [match[1] for match in re.finditer(r"^    tornlog (serve .+)$", PAGE, re.MULTILINE)]


@pytest.fixture
def workplace(tmp_path: Path, certificates: Path) -> Path:
    """A directory with all the files that the page speaks of."""
    (access_list,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "plain_acl.yml").write_text(access_list)
    (tmp_path / "broker.conf").write_text("flushDiskType=SYNC_FLUSH\nenablePropertyFilter=true\n")
    shutil.copy(certificates / "server.pem", tmp_path / "certificate.pem")
    shutil.copy(certificates / "server.key", tmp_path / "key.pem")
    return tmp_path


def test_the_page_shows_how_to_serve() -> None:
    assert len(COMMANDS) >= 4


@pytest.mark.parametrize("command", COMMANDS)
def test_a_broker_is_served_as_the_page_says(command: str, workplace: Path) -> None:
    words = [word.replace("10911", "0") for word in shlex.split(command)]
    if "--port" not in words:
        words += ["--port", "0"]
    if "--json" not in words:
        words.append("--json")
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
    assert not (workplace / "store" / "abort").exists()
