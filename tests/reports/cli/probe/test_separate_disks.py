"""`tornlog probe --disk-of` and `--machine` without `--restart`: several disks lose data in one crash."""

import json
from functools import partial
from pathlib import Path
from textwrap import dedent

import pytest

from tests.command_line import tornlog, usage_error

STORE = """
    import os
    for directory in ("log", "data"):
        os.makedirs(directory, exist_ok=True)
    log = os.open("log/wal", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    data = os.open("data/table", os.O_CREAT | os.O_WRONLY)
    for number in range(2):
        os.write(log, b"put %d\\n" % number)
        os.pwrite(data, b"%d" % number, 0)
        os.fsync(data)
        print(f"put {number}")
    """
CHECK = """
    def check(directory, acknowledged):
        log = directory / "log" / "wal"
        found = log.read_text().splitlines() if log.exists() else []
        yield from (f"{promise!r} is not in the log" for promise in acknowledged if promise not in found)
    """
ORDERED = ["--disk", "ext4-ordered"]
LOST = "'…' is not in the log"


invoke = partial(tornlog, "probe", columns=160)


@pytest.fixture
def store(tmp_path: Path) -> list[str]:
    """Arguments to probe a program whose sync of the data makes the log durable only on the same file system."""
    (tmp_path / "store.py").write_text(dedent(STORE))
    (tmp_path / "check.py").write_text(dedent(CHECK))
    return ["--check", str(tmp_path / "check.py"), "--jobs", "0", "--", str(tmp_path / "store.py")]


def test_a_log_on_a_disk_of_its_own_is_not_synced_with_the_data(store: list[str], tmp_path: Path) -> None:
    file, out = tmp_path / "probe.json", tmp_path / "out"
    on_one_disk = invoke(*ORDERED, *store)
    result = invoke(*ORDERED, "--disk-of", "log=ext4-ordered", "--json", str(file), "--out", str(out), *store)

    assert on_one_disk.exit_code == 0, on_one_disk.output
    assert result.exit_code == 1, result.output
    found = json.loads(file.read_text())
    assert [breach["signature"] for breach in found["breaches"]] == [LOST]
    (breach,) = found["breaches"]
    assert all("log/wal" in loss["what"] for loss in breach["smallest"]["losses"])
    assert found["separate_disks"] == {"log": "ext4-ordered"}
    assert 0 < found["combinations"]["tried"] <= found["combinations"]["possible"]
    assert "separate disks: log (ext4-ordered), and one with all other files; " in result.stdout
    replayed = invoke("--replay", breach["file"])
    assert replayed.exit_code == 1, replayed.output
    assert LOST.replace("'…'", "'put 0'") in replayed.stdout


def test_machines_are_cut_at_one_moment_each_with_its_own_image(store: list[str]) -> None:
    result = invoke(*ORDERED, "--machine", "n1=log", "--machine", "n2=data", *store)

    assert result.exit_code == 1, result.output
    assert f"broken: {LOST}" in result.stdout
    assert "separate disks: log, data, and one with all other files" in result.stdout


def test_no_disk_loses_data_in_a_process_kill(store: list[str]) -> None:
    result = invoke("--disk", "process-kill", "--disk-of", "log=strict-posix", *store)

    assert result.exit_code == 0, result.output


def test_the_limit_bounds_the_combinations_and_is_told(store: list[str], tmp_path: Path) -> None:
    file = tmp_path / "probe.json"
    separate_disks = ["--disk-of", "log=strict-posix", "--disk-of", "data=strict-posix"]
    result = invoke("--disk", "strict-posix", "--limit", "8", *separate_disks, "--json", str(file), *store)

    found = json.loads(file.read_text())
    assert result.exit_code == 1, result.output
    assert found["combinations"]["tried"] < found["combinations"]["possible"]
    (disk,) = found["disks"]
    assert disk["cut"] > 0
    assert disk["states"] <= 8 * disk["crashes"]


def test_faults_and_crashes_in_recovery_use_the_same_disks(store: list[str], tmp_path: Path) -> None:
    file = tmp_path / "probe.json"
    options = ["--faults", "failed-sync", "--recovery-crashes", "1", "--json", str(file)]
    result = invoke(*ORDERED, "--disk-of", "data=ext4-ordered", "--disk-of", "log=ext4-ordered", *options, *store)

    assert result.exit_code == 1, result.output
    assert json.loads(file.read_text())["reruns"]["injected"] == {"failed sync": 2}


def test_a_rename_from_one_disk_to_another_is_refused(tmp_path: Path) -> None:
    mover = tmp_path / "mover.py"
    mover.write_text("import os\nopen('new', 'w').close()\nos.rename('new', 'log/new')\n")
    (tmp_path / "check.py").write_text(dedent(CHECK))
    result = invoke("--disk-of", "log=ext4", "--check", str(tmp_path / "check.py"), "--", str(mover))

    assert result.exit_code == 2
    told = " ".join(result.stderr.replace("│", " ").split())
    assert "step 2, rename new -> log/new: the names are on two disks, where this call fails with EXDEV" in told


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--disk-of", "log"], "expected DIR=KIND, such as log=ext4, found log"),
        (["--disk-of", "log=floppy"], "expected a kind of crash: "),
        (["--disk-of", "../log=ext4"], "expected a directory below the program's own"),
        (["--disk-of", "log=ext4", "--disk-of", "log/new=ext4"], "separate directories, found log and log/new"),
        (["--machine", "n1=log", "--disk-of", "log=ext4"], "expected separate directories, found log and log"),
        (["--disk-of", "log=ext4", "--disk", "bit-flip"], "expected only kinds of crash"),
    ],
)
def test_wrong_disks_are_refused_with_a_reason(options: list[str], problem: str, store: list[str]) -> None:
    assert problem in usage_error(*options, *store, run=invoke)
