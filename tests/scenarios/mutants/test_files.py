"""Mutants of a file: found by its path in every process and from a failure file; errors name the cause."""

import json
import re
from pathlib import Path

import pytest

from tests.command_line import tornlog, usage_error
from tornlog.scenarios.mutants.files import MutantFileError, names_in_file
from tornlog.scenarios.mutants.known import applied_mutant, find_mutant, mutant_names
from tornlog.scenarios.testing.catalogued import scenario_of_mark
from tornlog.scenarios.testing.mark_arguments import MarkArguments, WrongMark
from tornlog.store.queues.consume_queue import QueueSegments

BROUGHT = Path(__file__).with_name("brought.py")
HEAD = """\
from tornlog.scenarios.mutants.mutant import Mutant, Patch, bug
from tornlog.store.log.segment import Segment
"""
BUG = """
@bug("bug", Segment, "append", found_by=())
def append(self, position, data):
    "Nothing is written."
"""


def write_mutant_file(directory: Path, text: str) -> str:
    path = directory / "bugs.py"
    path.write_text(HEAD + text)
    return str(path)


def test_every_mutant_of_a_mutant_file_is_found_by_path_and_id() -> None:
    names = mutant_names(str(BROUGHT))
    assert [name.rpartition(":")[2] for name in names] == [
        "queue-flush-ends-at-a-roll",
        "offset-committed-one-too-far",
        "recovered-queue-one-short",
        "huge-records-are-forgotten",
    ]
    assert all((mutant := find_mutant(name)) is not None and mutant.id == name for name in names)


def test_the_path_of_a_file_with_one_mutant_names_that_mutant(tmp_path: Path) -> None:
    name = write_mutant_file(tmp_path, BUG)
    mutant = find_mutant(name)
    assert mutant is not None
    assert mutant.id == f"{name}:bug"
    assert names_in_file(name) == [f"{name}:bug"]


def test_a_relative_path_of_a_mutant_starts_at_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_mutant_file(tmp_path, BUG)
    monkeypatch.chdir(tmp_path)
    assert mutant_names("bugs.py") == ["bugs.py:bug"]
    monkeypatch.chdir("/")
    with pytest.raises(MutantFileError, match=r"^bugs\.py: no such file$"):
        find_mutant("bugs.py:bug")


def test_an_override_from_a_file_is_applied_until_the_block_ends() -> None:
    name = mutant_names(str(BROUGHT))[0]
    with applied_mutant(name):
        assert "flush" in vars(QueueSegments)
    assert "flush" not in vars(QueueSegments)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("def broken(:\n", "bugs.py, line 3: invalid syntax"),
        ("Segment.flsh\n", "bugs.py, line 3: AttributeError: type object 'Segment' has no attribute 'flsh'"),
        ("import nothing_of_this_name\n", "bugs.py, line 3: ModuleNotFoundError: No module named"),
        ("", "bugs.py: expected MUTANTS, or a Mutant at the top level, found none"),
        ("MUTANTS = 3\n", "bugs.py: expected MUTANTS, or a Mutant at the top level, found none"),
        (BUG.replace('"append"', '"apend"'), "bugs.py, line 4: PatchError: Segment has no apend"),
        (BUG.replace("()", '"DUR"', 1), "bugs.py, line 4: TypeError: bug: found_by: expected a tuple"),
        ('BUG = Mutant("bug", "", Patch(Segment, "flush", 1), ())\n', "bug: patches: expected a tuple"),
        (f"{BUG}\nMUTANTS = [append, append]\n", "have the same id"),
    ],
)
def test_the_error_of_an_invalid_mutant_file_names_the_reason(tmp_path: Path, text: str, wrong: str) -> None:
    name = write_mutant_file(tmp_path, text)
    with pytest.raises(MutantFileError, match=re.escape(wrong)):
        find_mutant(name)
    commands = (("mutants", "--mutant"), ("run", "combined-faults", "--mutant"), ("fuzz", "commitlog", "--mutant"))
    for command in ((*words, name) for words in commands):
        assert wrong[-20:] in usage_error(*command)


def test_the_error_of_an_unknown_mutant_lists_those_of_the_file() -> None:
    result = tornlog("mutants", "--mutant", f"{BROUGHT}:of-nobody")
    assert result.exit_code == 2
    assert "expected one of" in result.stderr
    assert "queue-flush-ends-at-a-roll" in result.stderr


def test_a_run_with_a_file_of_several_mutants_is_refused() -> None:
    assert "expected one of" in usage_error("run", "combined-faults", "--mutant", BROUGHT)


@pytest.mark.slow
def test_a_mutant_of_a_file_is_run_in_other_processes() -> None:
    result = tornlog("mutants", "--mutant", BROUGHT, "--seeds", 2, "--jobs", 2, "--json", "-")
    rows = {row["id"].rpartition(":")[2]: row for row in json.loads(result.stdout)}
    assert result.exit_code == 1
    assert rows["queue-flush-ends-at-a-roll"]["found"]
    assert rows["queue-flush-ends-at-a-roll"]["expected"]
    forgotten = rows["huge-records-are-forgotten"]
    assert not forgotten["found"]
    assert (forgotten["reached"] > 0, forgotten["bit"]) == (True, 0)
    assert forgotten["missed_because"].endswith("never bit")


def test_fuzzing_accepts_a_mutant_of_a_file() -> None:
    result = tornlog("fuzz", "commitlog", "--mutant", f"{BROUGHT}:huge-records-are-forgotten", "--inputs", 5)
    assert result.exit_code == 0


def test_an_error_in_a_mutant_file_is_reported_for_a_pytest_mark() -> None:
    with pytest.raises(WrongMark, match=r"mutant: gone\.py: no such file"):
        scenario_of_mark(MarkArguments(scenario="combined-faults", mutant="gone.py"))


def test_a_failure_of_a_file_mutant_replays_from_the_failure_file_alone(tmp_path: Path) -> None:
    name = f"{BROUGHT}:recovered-queue-one-short"
    assert tornlog("run", "segment-rollover-crash", "--mutant", name, "--seeds", 10, "--out", tmp_path).exit_code == 1
    assert tornlog("mutants", "--mutant", name, "--seeds", 2, "--out", tmp_path).exit_code == 0
    failures = sorted((tmp_path / "failures").iterdir())
    assert len(failures) >= 2
    for failure in failures:
        replayed = tornlog("replay", failure, "--json", "-")
        assert replayed.exit_code == 1
        assert json.loads(replayed.stdout)["same"]


def test_a_failure_file_with_a_missing_mutant_names_it(tmp_path: Path) -> None:
    moved = tmp_path / "bugs.py"
    moved.write_text(BROUGHT.read_text())
    name = f"{moved}:recovered-queue-one-short"
    assert tornlog("mutants", "--mutant", name, "--seeds", 2, "--out", tmp_path).exit_code == 0
    moved.rename(tmp_path / "elsewhere.py")
    (failure,) = (tmp_path / "failures").iterdir()
    from tornlog.scenarios.mutants import files

    files._load_mutants.cache_clear()
    assert "no such file" in usage_error("replay", failure)
