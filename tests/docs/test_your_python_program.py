"""The examples about probing: each has the findings that docs/your-python-program.md claims."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.docs.test_pages import DOCS, examples, run_command, text_of

pytestmark = pytest.mark.ci

DISKS = ("process-kill", "os-crash", "ext4-data", "ext4-ordered", "btrfs", "xfs", "strict-posix")
POWER_CUTS = set(DISKS) - {"process-kill"}
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_example_check_on_the_page_is_the_one_that_is_tested() -> None:
    (shown,) = (block for block in _PYTHON.findall(text_of("your-python-program")) if "def check" in block)
    body = [line for line in shown.split("def check")[1].splitlines()[1:] if line.strip()]
    names: dict[str, Any] = {}
    exec(compile(shown, "page", "exec"), names)

    assert "\n".join(body) in (DOCS / "examples" / "probe_atomic_writer_check.py").read_text()
    assert callable(names["check"])


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """Return a function that probes an example on every disk."""
    directory = examples(tmp_path_factory.mktemp("probed"))

    def probed(name: str, *arguments: str) -> dict[str, Any]:
        disks = " ".join(f"--disk {disk}" for disk in DISKS)
        kept = directory / f"{name}{''.join(arguments)}.json"
        command = f"probe --json {kept} {disks} --check probe_{name}_check.py -- probe_{name}.py"
        code, printed = run_command(" ".join(["tornlog", command, *arguments]), directory)
        document: dict[str, Any] = json.loads(kept.read_text())
        assert code == (1 if document["breaches"] else 0), printed
        return document

    return probed


def breaches(document: dict[str, Any]) -> dict[str, set[str]]:
    """Return the disks of each kind of breach."""
    return {breach["signature"]: set(breach["disks"]) for breach in document["breaches"]}


def test_the_example_writer_with_both_fsyncs_passes_on_every_disk(probed: Callable[..., dict[str, Any]]) -> None:
    document = probed("atomic_writer")

    assert breaches(document) == {}
    assert document["acknowledged"] == 3
    assert all(disk["exhausted"] == disk["crashes"] for disk in document["disks"])
    assert document["judged"] > 20


@pytest.mark.parametrize(
    ("left_out", "signature", "loss"),
    [
        ("no-file-sync", "the settings are not whole", "size of settings.new lost|page 0 of settings"),
        ("no-directory-sync", "version # was promised, found none", "rename of settings.new to settings undone"),
    ],
)
def test_the_example_writer_without_one_fsync_fails(
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


def test_the_example_writer_without_file_fsync_passes_on_ext4(probed: Callable[..., dict[str, Any]]) -> None:
    found = breaches(probed("atomic_writer", "no-file-sync"))

    assert found["the settings are not whole"].isdisjoint({"ext4-ordered", "ext4-data"})


@pytest.mark.parametrize(
    ("name", "lost"), [("dbm_dumb", "synced entry '…' is lost"), ("shelve", "synced object '…' is lost")]
)
def test_dbm_dumb_loses_synced_entries_in_a_process_kill(
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


def test_persist_queue_loses_data_in_a_power_cut_but_not_in_a_process_kill(
    probed: Callable[..., dict[str, Any]],
) -> None:
    document = probed("persist_queue")
    found = breaches(document)

    assert "process-kill" not in set().union(*found.values())
    assert found["messages that were put are lost: [#, …]"] == POWER_CUTS
    assert found["messages that were done are back: [#, …]"] == POWER_CUTS


SYNCS = re.compile(r"\b(fsync|fdatasync)\b")


def test_the_libraries_call_fsync_only_where_the_page_says() -> None:
    import dbm.dumb
    import inspect
    import shelve

    import persistqueue.queue

    assert SYNCS.search(inspect.getsource(dbm.dumb)) is None
    assert SYNCS.search(inspect.getsource(shelve)) is None
    assert "_bakfile" not in inspect.getsource(dbm.dumb._Database._update)  # type: ignore[attr-defined]
    assert len(SYNCS.findall(inspect.getsource(persistqueue.queue))) == 1
    assert SYNCS.search(inspect.getsource(persistqueue.queue.Queue._saveinfo)) is None
