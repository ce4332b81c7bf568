import json
import re
from dataclasses import replace
from pathlib import Path

from tests.command_line import tornlog
from tornlog.scenarios.campaigns.failures.failure import Failure

BUG = ("run", "segment-rollover-crash", "--mutant", "no-dir-fsync-on-rollover")


def test_a_time_budget_without_seeds_prints_the_command_that_repeats_it(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    result = tornlog("run", "second-start-refused", "--time", "0.05s", "--json", str(file))
    again = re.search(r"reproduce: tornlog (.*--first-seed (\d+))", result.output)
    assert again is not None, result.output
    first = json.loads(file.read_text())
    assert first["first_seed"] == int(again[2])
    assert tornlog(*again[1].split()).exit_code == 0
    assert json.loads(file.read_text())["first_seed"] == first["first_seed"]
    # the number of seeds in the time depends on the machine, but their digest does not
    (scenario,) = first["scenarios"]
    seeds = f"{first['first_seed']}:{first['first_seed'] + scenario['seeds']}"
    tornlog("run", "second-start-refused", "--seeds", seeds, "--json", str(file))
    assert json.loads(file.read_text())["scenarios"][0]["digest"] == scenario["digest"]


def test_the_first_seed_option_cannot_be_combined_with_seeds() -> None:
    assert tornlog("run", "second-start-refused", "--seeds", "3", "--first-seed", "1").exit_code == 2


def test_a_stored_failure_is_replayed_before_any_seed(tmp_path: Path) -> None:
    assert tornlog(*BUG, "--seeds", "50", "--out", str(tmp_path)).exit_code == 1
    kept = sorted((tmp_path / "failures").glob("*.json"))
    assert kept
    result = tornlog(*BUG, "--time", "0.000001s", "--out", str(tmp_path))
    assert result.exit_code == 1
    assert all(f"{path}: still breaks" in result.output for path in kept)


def test_a_stored_failure_of_a_fixed_bug_is_reported_without_a_violation(tmp_path: Path) -> None:
    tornlog(*BUG, "--seeds", "50", "--out", str(tmp_path))
    (path, *_) = (tmp_path / "failures").glob("*.json")
    path.write_text(replace(Failure.from_json(path.read_text()), mutant=None).to_json())
    result = tornlog("run", "segment-rollover-crash", "--time", "0.000001s", "--out", str(tmp_path))
    assert result.exit_code == 0
    assert f"{path}: no longer breaks" in result.output


def test_the_error_for_an_invalid_failure_file_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "failures").mkdir()
    (tmp_path / "failures" / "odd.json").write_text("{")
    result = tornlog("run", "second-start-refused", "--time", "0.000001s", "--out", str(tmp_path))
    assert result.exit_code == 0
    assert "odd.json: not tried again" in result.output
