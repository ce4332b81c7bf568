"""The pages about probing: their commands print the shown output, and the examples have their findings.

`python THIS_FILE` updates the outputs.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.ci

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE, ANY_PROGRAM = DOCS / "your-python-program.md", DOCS / "any-program.md"
DISKS = ("process-kill", "os-crash", "ext4-data", "ext4-ordered", "btrfs", "xfs", "strict-posix")
POWER_CUTS = set(DISKS) - {"process-kill"}
_CONSOLE = re.compile(r"^```console\n\$ tornlog (?P<command>[^\n]*)\n.*?^```$", re.MULTILINE | re.DOTALL)
_PYTHON = re.compile(r"^```python\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def run(arguments: str, directory: Path) -> tuple[int, str]:
    """Run a command of a page; return its exit code and output."""
    done = subprocess.run(
        [sys.executable, "-m", "tornlog", *arguments.split()],
        cwd=directory,
        env={**os.environ, "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def examples(directory: Path) -> Path:
    """Copy the examples, to keep their folder clean."""
    return Path(shutil.copytree(DOCS / "examples", directory / "examples"))


def run_page(page: str, directory: Path) -> str:
    """Return a page with the actual outputs of its commands."""

    def rerun(block: re.Match[str]) -> str:
        command = block["command"]
        lines = "\n".join(line.rstrip() for line in run(command, directory)[1].splitlines())
        return f"```console\n$ tornlog {command}\n{lines}\n```"

    return _CONSOLE.sub(rerun, page)


def steady(page: str) -> str:
    """Return a page without the values that differ between runs or versions of Python."""
    return re.sub(r"(?<=dumb\.py:)\d+", "N", re.sub(r"in \d+\.\d s", "in N s", page))


@pytest.mark.parametrize(("file", "commands"), [(PAGE, 5), (ANY_PROGRAM, 2)], ids=["Python", "any"])
def test_every_command_prints_the_output_on_the_page(tmp_path: Path, file: Path, commands: int) -> None:
    page = file.read_text()

    assert len(_CONSOLE.findall(page)) == commands
    assert steady(run_page(page, examples(tmp_path))) == steady(page)


def test_a_wrong_output_is_noticed(tmp_path: Path) -> None:
    mended = PAGE.read_text().partition("## Mended")[2].partition("## Disks")[0]
    spoilt = mended.replace("3 promises", "4 promises")

    assert spoilt != mended
    assert steady(run_page(spoilt, examples(tmp_path))) == steady(mended)


def test_the_check_on_the_page_is_the_one_that_runs() -> None:
    blocks: dict[str, Any] = {}
    for block in _PYTHON.finditer(PAGE.read_text()):
        exec(compile(block["text"], PAGE.name, "exec"), blocks)
    source = (DOCS / "examples" / "probe_atomic_writer_check.py").read_text()
    shown = next(block["text"] for block in _PYTHON.finditer(PAGE.read_text()) if "def check" in block["text"])
    told = [line for line in shown.split("def check")[1].splitlines()[1:] if line.strip()]

    assert "\n".join(told) in source
    assert callable(blocks["check"])


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """Return a function that probes an example on every disk."""
    directory = examples(tmp_path_factory.mktemp("probed"))

    def probed(name: str, *arguments: str) -> dict[str, Any]:
        disks = " ".join(f"--disk {disk}" for disk in DISKS)
        kept = directory / f"{name}{''.join(arguments)}.json"
        command = f"probe --json {kept} {disks} --check probe_{name}_check.py -- probe_{name}.py"
        code, printed = run(" ".join([command, *arguments]), directory)
        document: dict[str, Any] = json.loads(kept.read_text())
        assert code == (1 if document["breaches"] else 0), printed
        return document

    return probed


def breaches(document: dict[str, Any]) -> dict[str, set[str]]:
    """Return the disks of each kind of breach."""
    return {breach["signature"]: set(breach["disks"]) for breach in document["breaches"]}


def test_the_writer_with_both_syncs_holds_on_every_disk(probed: Callable[..., dict[str, Any]]) -> None:
    document = probed("atomic_writer")

    assert breaches(document) == {}
    assert document["acknowledged"] == 3
    assert all(disk["exhausted"] == disk["crashes"] for disk in document["disks"])
    assert document["judged"] > 20


@pytest.mark.parametrize(
    ("left_out", "signature", "loss"),
    [
        ("no-file-sync", "the settings are not whole", "size of settings.new lost|page 0 of settings"),
        (
            "no-directory-sync",
            "version # was promised, found none",
            "rename of settings.new to settings undone",
        ),
    ],
)
def test_the_writer_without_one_sync_is_caught(
    probed: Callable[..., dict[str, Any]], left_out: str, signature: str, loss: str
) -> None:
    document = probed("atomic_writer", left_out)
    found = breaches(document)
    smallest = next(one["smallest"] for one in document["breaches"] if one["signature"] == signature)

    assert "strict-posix" in found[signature]
    assert "process-kill" not in set().union(*found.values())
    assert len(smallest["losses"]) == 1
    assert re.search(loss, smallest["losses"][0]["what"])
    assert "probe_atomic_writer.py:" in smallest["losses"][0]["by"]


def test_ext4_keeps_the_order_that_saves_a_writer_without_file_sync(
    probed: Callable[..., dict[str, Any]],
) -> None:
    found = breaches(probed("atomic_writer", "no-file-sync"))

    assert found["the settings are not whole"].isdisjoint({"ext4-ordered", "ext4-data"})


@pytest.mark.parametrize(
    ("name", "lost"), [("dbm_dumb", "synced entry '…' is lost"), ("shelve", "synced object '…' is lost")]
)
def test_dbm_dumb_loses_synced_entries_at_a_process_kill(
    probed: Callable[..., dict[str, Any]], name: str, lost: str
) -> None:
    document = probed(name)
    found = breaches(document)
    smallest = next(one["smallest"] for one in document["breaches"] if one["signature"] == lost)

    assert found[lost] == set(DISKS)
    assert (smallest["disk"], smallest["losses"]) == ("process-kill", [])
    assert re.search(
        r"rename \w+\.dir -> \w+\.bak  probe_\w+\.py:\d+ \(dbm/dumb\.py:\d+ _commit\)", smallest["story"][-1]
    )
    assert any("cannot be read" in one for one in found)


def test_persist_queue_survives_kills_but_no_power_cut(
    probed: Callable[..., dict[str, Any]],
) -> None:
    document = probed("persist_queue")
    found = breaches(document)

    assert "process-kill" not in set().union(*found.values())
    assert found["messages that were put are lost: [#, …]"] == POWER_CUTS
    assert found["messages that were done are back: [#, …]"] == POWER_CUTS


SYNCS = re.compile(r"\b(fsync|fdatasync)\b")


def test_the_libraries_call_no_fsync_there() -> None:
    import dbm.dumb
    import inspect
    import shelve

    import persistqueue.queue

    assert SYNCS.search(inspect.getsource(dbm.dumb)) is None
    assert SYNCS.search(inspect.getsource(shelve)) is None
    assert "_bakfile" not in inspect.getsource(dbm.dumb._Database._update)  # type: ignore[attr-defined]
    assert len(SYNCS.findall(inspect.getsource(persistqueue.queue))) == 1
    assert SYNCS.search(inspect.getsource(persistqueue.queue.Queue._saveinfo)) is None


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        for shown in (PAGE, ANY_PROGRAM):
            shown.write_text(run_page(shown.read_text(), examples(Path(scratch, shown.stem))))
