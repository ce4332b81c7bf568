import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import tornlog

WRITER = """\
import os
for number in range(4):
    fd = os.open(f"log{number}", os.O_CREAT | os.O_RDWR, 0o644)
    os.write(fd, b"x" * 5000)
    if number != 2:
        os.fsync(fd)
    os.close(fd)
    print(number, flush=True)
"""
CHECK = """\
def check(directory, acknowledged):
    for line in acknowledged:
        file = directory / f"log{line}"
        if not file.exists() or file.read_bytes() != b"x" * 5000:
            yield f"{line} is lost"
"""
MUTANT = ("sync-flush-power-cut", "--mutant", "ack-before-flush")
Command = Callable[..., tuple[dict[str, Any], str]]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command in a directory of its own; return its JSON without times, and its output."""
    monkeypatch.delenv("TORNLOG_NO_CORPUS")
    monkeypatch.chdir(tmp_path)
    Path("writer.py").write_text(WRITER)
    Path("check.py").write_text(CHECK)

    def run(*words: object) -> tuple[dict[str, Any], str]:
        done = tornlog(words[0], "--json", "found.json", *map(str, words[1:]))
        assert done.exit_code in (0, 1), done.output
        found = json.loads(Path("found.json").read_text())
        for part in (found, *found.get("scenarios", ())):
            del part["seconds"]
        found.pop("states_per_second", None)
        return found, done.output

    return run


@pytest.fixture
def probe(command: Command) -> Command:
    return lambda *options: command(
        "probe", "--check", "check.py", "--disk", "ext4-ordered", *options, "--", "writer.py"
    )


def kept(name: str = "probe", directory: str = ".tornlog") -> list[tuple[str, int]]:
    document = json.loads(Path(directory, f"{name}.json").read_text())
    assert document["format"] == "tornlog-corpus/1"
    return [(one["case"], one["passes"]) for one in document["failures"]]


def test_a_failed_crash_point_is_tried_first_and_changes_no_result(probe: Command) -> None:
    first, _ = probe()
    again, output = probe()
    stopped, _ = probe("--stop-at-first")

    assert kept() == [("after acknowledge 2 #1", 0)]
    assert Path(".tornlog/.gitignore").read_text().splitlines()[-1] == "*"
    assert again.pop("corpus") == {"tried": ["after acknowledge 2 #1"], "failed": ["after acknowledge 2 #1"]} | {
        "dropped": [],
        "gone": [],
    }
    assert again == first
    assert "states broken, 1 failure from .tornlog" in output
    assert stopped["judged"] < 5 < first["judged"]
    assert "corpus" not in first


def test_a_sample_includes_the_kept_points(probe: Command) -> None:
    probe()

    found, _ = probe("--points", 1)

    assert found["points"] == 2
    assert found["corpus"]["failed"] == ["after acknowledge 2 #1"]


def test_a_case_that_passes_three_times_is_dropped(probe: Command) -> None:
    probe()
    Path("writer.py").write_text(WRITER.replace("number != 2", "True"))

    passes = []
    for _ in range(2):
        _, output = probe()
        assert "1 case of .tornlog tried first: 0 failed again" in output
        passes += kept()
    found, output = probe()

    assert [count for _, count in passes] == [1, 2]
    assert found["corpus"]["dropped"] == ["after acknowledge 2 #1"]
    assert "dropped from .tornlog: after acknowledge 2 #1, passed 3 times in a row" in output
    assert kept() == []


def test_a_point_that_the_program_no_longer_has_is_dropped(probe: Command) -> None:
    probe()
    Path("writer.py").write_text(WRITER.replace("range(4)", "range(2)"))

    found, output = probe()

    assert found["corpus"]["gone"] == ["after acknowledge 2 #1"]
    assert "dropped from .tornlog: after acknowledge 2 #1, which this run does not have" in output
    assert kept() == []


def test_other_programs_and_directories_have_other_cases(command: Command, probe: Command) -> None:
    probe("--no-corpus")
    assert not Path(".tornlog").exists()
    probe("--corpus", "kept")
    assert kept(directory="kept") == [("after acknowledge 2 #1", 0)]

    found, _ = command("probe", "--corpus", "kept", "--check", "check.py", "--", "writer.py", "other")

    assert "corpus" not in found
    assert len(kept(directory="kept")) == 2


def test_a_corpus_that_cannot_be_read_is_replaced(probe: Command) -> None:
    Path(".tornlog").mkdir()
    Path(".tornlog/probe.json").write_text("{")

    _, output = probe()

    assert ".tornlog/probe.json: expected a corpus" in output
    assert kept() == [("after acknowledge 2 #1", 0)]


def test_a_kept_thread_order_is_tried_with_the_seeds(probe: Command) -> None:
    probe()
    file = Path(".tornlog/probe.json")
    document = json.loads(file.read_text())
    document["failures"].append({**document["failures"][0], "case": "thread order of seed 7", "passes": 1})
    file.write_text(json.dumps(document))

    probe()
    assert ("thread order of seed 7", 1) in kept()
    found, _ = probe("--seeds", 1)

    assert found["reruns"]["seeds"] == 2
    assert ("thread order of seed 7", 2) in kept()


def test_a_kept_thread_order_stays_if_the_policy_makes_another_one(probe: Command) -> None:
    probe()
    file = Path(".tornlog/probe.json")
    document = json.loads(file.read_text())
    document["failures"].append({**document["failures"][0], "case": "thread order of seed 7 (pct:2)", "passes": 1})
    file.write_text(json.dumps(document))

    other, _ = probe("--seeds", 1)
    assert other["reruns"]["seeds"] == 1
    assert ("thread order of seed 7 (pct:2)", 1) in kept()
    same, _ = probe("--seeds", 1, "--policy", "pct:2")

    assert same["reruns"]["seeds"] == 2
    assert ("thread order of seed 7 (pct:2)", 2) in kept()


def test_failed_seeds_of_scenarios_are_run_first_and_counted_once(command: Command) -> None:
    first, _ = command("run", *MUTANT, "--seeds", 6)
    again, output = command("run", *MUTANT, "--seeds", 6)
    ((case, _),) = kept("run")
    others, _ = command("run", *MUTANT, "--seeds", "100:102")
    plain, _ = command("run", "sync-flush-power-cut", "--seeds", 2)

    assert again.pop("corpus")["failed"] == [case]
    assert again == first
    assert "1 failure from .tornlog" in output
    assert others["scenarios"][0]["seeds"] == 3
    assert others["corpus"]["tried"] == [case]
    assert "corpus" not in plain
