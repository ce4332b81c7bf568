import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

WRITER = """\
import os
for number in range(4):
    fd = os.open("log", os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o644)
    os.write(fd, bytes([65 + number]) * 3000)
    if number % 2:
        os.fsync(fd)
    os.close(fd)
    print(number, flush=True)
"""
CHECK = """\
#!/bin/sh
echo "$0" >> PLACE/ran
. "$(dirname "$0")/judge.sh"
"""
JUDGE = """\
test "$NO_INTERPRETER" && { echo "no interpreter"; exit 1; }
while read number; do
    test -f log || { echo "log is lost after $number"; exit 1; }
done
"""
MASTER = "local-cluster[2,1,1024]"


def probe(place: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tornlog", "probe", "--check", "judging/check.sh", *options, "--", "writer.py"]
    return subprocess.run(
        command,
        cwd=place,
        env=os.environ | {"COLUMNS": "400"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with the writer, and a check of two files that notes where it ran."""
    (tmp_path / "writer.py").write_text(WRITER)
    (tmp_path / "judging").mkdir()
    check = tmp_path / "judging" / "check.sh"
    check.write_text(CHECK.replace("PLACE", str(tmp_path)))
    check.chmod(0o755)
    (tmp_path / "judging" / "judge.sh").write_text(JUDGE)
    return tmp_path


def result(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text())
    del found["seconds"], found["states_per_second"]
    return found


def test_a_shipped_check_on_two_executors_gives_the_result_of_this_process(place: Path) -> None:
    assert probe(place, "--json", "here.json").returncode == 1
    assert set((place / "ran").read_text().split()) == {str(place / "judging" / "check.sh")}
    (place / "ran").unlink()

    done = probe(place, "--json", "there.json", "--master", MASTER, "--ship", "judging")

    assert done.returncode == 1, done.stderr
    assert result(place / "there.json") == result(place / "here.json")
    ran = set((place / "ran").read_text().split()) - {str(place / "judging" / "check.sh")}
    assert len(ran) == 2, "each executor has a copy of its own"


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("spark.executorEnv.NO_INTERPRETER=1", "expected the verdict of the driver, held, found no interpreter"),
        ("spark.pyspark.python=/nowhere/python", 'Cannot run program "/nowhere/python"'),
    ],
)
def test_an_executor_that_cannot_check_ends_the_probe_with_a_sentence(place: Path, setting: str, problem: str) -> None:
    done = probe(place, "--master", MASTER, "--conf", setting)

    assert done.returncode == 2
    assert problem in done.stderr
    assert "Traceback" not in done.stderr
