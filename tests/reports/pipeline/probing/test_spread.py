import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import tornlog
from tornlog.reports.pipeline.probing import judging, spread
from tornlog.reports.pipeline.spark.engine import Engine, ExecutorError, InProcessEngine

pytestmark = pytest.mark.ci

WRITER = """\
import os, sys
os.makedirs("own", exist_ok=True)
for number in range(5):
    fd = os.open("own/log1" if number % 2 else "log0", os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o644)
    os.write(fd, bytes([65 + number]) * 3000)
    if number != 3:
        os.fsync(fd)
    os.close(fd)
    print(f"stored {number}", flush=True)
"""
CHECK = """\
def check(directory, acknowledged):
    found = b"".join(path.read_bytes() for path in sorted(directory.rglob("log*")))
    if b"A" in found and found.count(b"B") not in (0, 3000):
        yield "B is torn"
    for line in acknowledged:
        if found.count(bytes([65 + int(line.split()[1])])) != 3000:
            yield f"{line} is lost"
"""
HANGS = """\
from time import sleep
def check(directory, acknowledged):
    if len(acknowledged) == 3 and (directory / "own/log1").stat().st_size > 3000:
        sleep(60)
    if len(acknowledged) == 4:
        yield f"broken after {acknowledged[3]}"
"""
RECOVERS = """\
import os
def check(directory, acknowledged):
    with open(directory / "recovered", "ab") as file:
        file.write(b"again")
        os.fsync(file.fileno())
    yield from () if (directory / "log0").exists() or not acknowledged else ["log0 is lost"]
"""
LOADS_ONCE = """\
from pathlib import Path
model = Path(__file__).with_name("model")
if model.exists():
    raise FileNotFoundError("no model")
model.touch()
def check(directory, acknowledged):
    pass
"""
DIFFERS = """\
from pathlib import Path
model = Path(__file__).with_name("model")
is_driver = not model.exists()
model.touch()
def check(directory, acknowledged):
    if not is_driver:
        yield "no interpreter"
"""
Probe = Callable[..., dict[str, Any]]


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Probe]:
    """Probe the writer here, or on an engine that has no Spark. Return the JSON without times."""

    @contextmanager
    def engine(master: str, ship: Sequence[str], conf: Sequence[str]) -> Iterator[Engine]:
        yield InProcessEngine()

    monkeypatch.setattr(spread, "engine_for", engine)
    monkeypatch.chdir(tmp_path)
    Path("writer.py").write_text(WRITER)

    def run(check: str, *options: object) -> dict[str, Any]:
        Path("check.py").write_text(check)
        words = ["probe", "--check", "check.py", "--json", "found.json", *map(str, options), "--", "writer.py"]
        done = tornlog(*words)
        assert done.exit_code in (0, 1, 3), done.output
        found: dict[str, Any] = json.loads(Path("found.json").read_text())
        del found["seconds"], found["states_per_second"]
        return found

    yield run
    judging.close_check()


@pytest.fixture
def packs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the packs that the engine has judged."""
    sizes: list[int] = []
    judge = judging.PackJudge.__call__

    def noted(self: judging.PackJudge, places: Sequence[judging.StatePlace]) -> judging.PackAnswer:
        sizes.append(len(places))
        return judge(self, places)

    monkeypatch.setattr(judging.PackJudge, "__call__", noted)
    return sizes


@pytest.mark.parametrize(
    ("check", "options"),
    [
        (CHECK, []),
        (CHECK, ["--stop-at-first"]),
        (CHECK, ["--stop-at-first", "--jobs", 3]),
        (CHECK, ["--points", 9, "--jobs", 2]),
        (CHECK, ["--disk", "bit-flip", "--disk", "torn-sectors"]),
        (CHECK, ["--faults", "failed-write", "--fault-runs", 2, "--seeds", 1]),
        (CHECK, ["--inject", "cut at sync log0"]),
        (CHECK, ["--disk-of", "own=ext4-ordered", "--limit", 40]),
        (RECOVERS, ["--recovery-crashes", 1, "--points", 3, "--disk", "strict-posix", "--limit", 8]),
        (HANGS, ["--seconds", 1.5, "--disk", "process-kill"]),
    ],
)
def test_an_engine_gives_the_same_result(probe: Probe, packs: list[int], check: str, options: list[object]) -> None:
    here = probe(check, *options)
    assert packs == []

    there = probe(check, *options, "--master", "local[2]")

    assert json.dumps(there) == json.dumps(here)
    assert sum(packs) > here["judged"] / 2


@pytest.mark.parametrize(
    ("check", "problem"),
    [
        (LOADS_ONCE, "check.py: FileNotFoundError: no model"),
        (DIFFERS, "check.py: expected the verdict of the driver, held, found no interpreter"),
    ],
)
def test_a_check_that_cannot_run_on_executors_is_no_breach(probe: Probe, check: str, problem: str) -> None:
    with pytest.raises(ExecutorError, match=problem):
        probe(check, "--master", "local[2]")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--master", "nowhere"], "expected local[N]"),
        (["--ship", "."], "needed for --ship and --conf"),
        (["--master", "local-cluster[1,1,1024]", "--ship", "gone"], "gone: no such file"),
    ],
)
def test_a_wrong_place_is_a_usage_error(tmp_path: Path, options: list[str], problem: str) -> None:
    check = tmp_path / "check.py"
    check.write_text(CHECK)

    done = tornlog("probe", "--check", str(check), *options, "--", "true")

    assert done.exit_code == 2
    assert problem in done.output
