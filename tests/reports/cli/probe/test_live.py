"""`tornlog probe --restart`: live runs of a replicated log."""

import json
import shlex
import socket
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.command_line import tornlog, usage_error

REPLICAS = Path(__file__).parents[4] / "docs" / "examples" / "probe_replicas.py"
MACHINES = [word for name in ("n1", "n2", "n3") for word in ("--machine", f"{name}={name}")]


invoke = partial(tornlog, "probe", columns=200)


@pytest.fixture(autouse=True)
def ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three ports that were free a moment ago, for the program's environment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    found = ",".join(str(one.getsockname()[1]) for one in sockets)
    for one in sockets:
        one.close()
    monkeypatch.setenv("PORTS", found)


def arguments(how: str, *more: str) -> list[str]:
    restart = f"{REPLICAS} serve {{machine}} {how}"
    options = ["--restart", restart, "--disk", "ext4-ordered", "--check", str(REPLICAS), "--seconds", "30"]
    return [*MACHINES, *options, *more, "--", str(REPLICAS), "put", "6"]


@pytest.mark.slow
def test_a_lost_value_is_reported_with_its_cut_images_and_seed(tmp_path: Path) -> None:
    out, file = tmp_path / "out", tmp_path / "live.json"
    junit = tmp_path / "live.xml"
    options = ["--seeds", "12", "--stop-at-first", "--out", str(out), "--json", str(file), "--junit", str(junit)]
    result = invoke(*arguments("unsynced", *options))

    assert result.exit_code == 1, result.output
    assert "broken: value # is lost" in result.stdout
    assert "power cut, on ext4-ordered" in result.stdout
    found = json.loads(file.read_text())
    (breach,) = found["breaches"]
    assert found["cuts"] >= found["cuts_with_losses"] > 0
    assert sum(found["machines_cut"].values()) >= found["cuts"]
    assert f"--first-seed {breach['seed']} --seeds 1 -- " in breach["again"]
    assert shlex.split(breach["again"])[-2:] == ["put", "6"]
    kept = Path(breach["directory"])
    assert json.loads((kept / "run.json").read_text())["seed"] == breach["seed"]
    machines = [name for event in breach["events"] if event["kind"] == "cut" for name in event["losses"]]
    assert len(list((kept / "images").iterdir())) == len(machines)
    assert {log.name for log in (kept / "logs").iterdir()} == {"n1.log", "n2.log", "n3.log", "program.log"}
    assert ElementTree.parse(junit).getroot().find(".//failure") is not None
    assert (out / "report.html").exists()


@pytest.mark.slow
def test_a_quorum_with_syncs_keeps_every_promise() -> None:
    result = invoke(*arguments("sync", "--seeds", "3", "--events", "1"))

    assert result.exit_code == 0, result.output
    assert "3 live runs, 3 power cuts: every promise held" in result.stdout


@pytest.mark.ci
def test_a_run_without_a_verdict_is_no_success(tmp_path: Path) -> None:
    given_up = tmp_path / "given_up.py"
    given_up.write_text(
        f"import os, subprocess, sys\nsubprocess.run([sys.executable, {str(REPLICAS)!r}, *sys.argv[1:]], check=True)\n"
        f"sys.exit(os.path.exists({str(tmp_path / 'second')!r}))\n"
    )
    words = arguments("sync", "--seeds", "1")
    words[words.index("--") + 1] = str(given_up)
    words[words.index("--check") + 1] = str(tmp_path / "check.py")
    (tmp_path / "check.py").write_text(
        f"import pathlib\ndef check(directory, acknowledged):\n    pathlib.Path({str(tmp_path / 'second')!r}).touch()\n"
    )
    result = invoke(*words)

    assert result.exit_code == 3, result.output
    assert "seed 0 has no verdict: the program has ended with 1" in result.stdout
    assert "no promise was broken, but 1 gap" in result.stdout


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--restart", "true"], "expected at least one --machine NAME=DIR"),
        (["--machine", "n1", "--restart", "true"], "expected NAME=DIR"),
        (["--machine", "n1=a", "--machine", "n1=b", "--restart", "true"], "found n1 twice"),
        (["--machine", "n1=a", "--machine", "n2=a/b", "--restart", "true"], "expected separate directories"),
        (["--machine", "n1=/a", "--restart", "true"], "expected a directory below the program's own"),
        (["--machine", "n1=a", "--restart", "no-such-command"], "no-such-command: expected a program"),
        (["--machine", "n1=a", "--restart", "true", "--points", "3"], "not allowed with --restart"),
        (["--machine", "n1=a", "--restart", "true"], "has no verdict: n1 (power not cut) has ended"),
    ],
)
def test_wrong_options_are_refused_with_a_reason(options: list[str], problem: str, tmp_path: Path) -> None:
    check = tmp_path / "check.py"
    check.write_text("def check(directory, acknowledged):\n    return []\n")
    assert problem in usage_error(*options, "--check", str(check), "--", "sleep", "1", run=invoke)
