import json
from functools import partial
from pathlib import Path

import pytest

from tests.command_line import tornlog
from tornlog.reports.cli import exploring as explore_commands
from tornlog.sim.errors import ReplayDivergedError

pytestmark = pytest.mark.ci

QUICK = ["--messages", "1", "--limit", "6", "--seed", "3"]
SYNC = ["sync-flush-power-cut", "--disk", "ext4-ordered"]
BROKEN = ["segment-rollover-crash", "--disk", "strict-posix", "--mutant", "no-dir-fsync-on-rollover"]
BROKEN_QUICK = ["--messages", "2", "--limit", "6", "--seed", "1"]


invoke = partial(tornlog, "explore", columns=100)


def test_an_exploration_of_the_unmodified_store_is_reported() -> None:
    result = invoke(*SYNC, *QUICK)

    assert result.exit_code == 0, result.output
    assert "every promise held" in result.stdout
    assert "sync directory" in result.stdout
    assert "recovered and judged" in result.stdout
    assert "ext4-ordered" in result.stdout


@pytest.mark.slow
def test_the_counts_in_the_exploration_json_add_up() -> None:
    result = invoke(*SYNC, *QUICK, "--nest", "1", "--json", "-")
    document = json.loads(result.stdout)

    assert result.exit_code == 0
    assert document["format"] == "tornlog-explore/1"
    assert document["disk"] == "ext4-ordered"
    kinds = document["kinds"]
    for name in ("moments", "crashes", "states", "judged", "violations"):
        assert document[name] == sum(kind[name] for kind in kinds)
    assert document["violations"] == 0
    assert document["images"] <= document["judgements"] == document["judged"] < document["states"]
    assert {kind["depth"] for kind in kinds} == {0, 1}
    assert document["depths"][0]["situations"] == 1
    assert document["failures"] == []


def test_nested_crashes_are_reported_by_depth() -> None:
    result = invoke(*SYNC, *QUICK, "--nest", "1")

    assert "store, depth 1" in result.stdout
    assert "recovery at depth 1: " in result.stdout


def test_an_explored_failure_is_reported_written_and_replayable(tmp_path: Path) -> None:
    result = invoke(*BROKEN, *BROKEN_QUICK, "--out", str(tmp_path), "--json", str(tmp_path / "found.json"))

    assert result.exit_code == 1, result.output
    document = json.loads((tmp_path / "found.json").read_text())
    assert document["violations"] > 0
    assert document["mutant"] == "no-dir-fsync-on-rollover"
    assert "broken" in result.stdout
    assert "tornlog replay" in result.stdout
    for failure in document["failures"]:
        again = tornlog("replay", failure["file"], "--json", "-")
        assert again.exit_code == 1
        assert json.loads(again.stdout)["same"] is True


@pytest.mark.slow
def test_without_out_the_report_explains_how_to_get_failure_files() -> None:
    result = invoke(*BROKEN, *BROKEN_QUICK)

    assert result.exit_code == 1
    assert "--out DIR" in result.stdout


@pytest.mark.slow
def test_states_left_out_by_a_small_limit_are_reported() -> None:
    result = invoke("sync-flush-power-cut", "--disk", "strict-posix", *QUICK)

    assert "--limit left out states of" in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [["no-such-scenario"], [*SYNC[:1], "--disk", "floppy"], [*SYNC, "--mutant", "none-such"], [*SYNC, "--limit", "0"]],
)
def test_unknown_scenario_and_mutant_names_are_usage_errors(arguments: list[str]) -> None:
    assert invoke(*arguments).exit_code == 2


def test_a_run_that_differs_when_repeated_is_a_harness_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def diverge(*_: object, **__: object) -> None:
        raise ReplayDivergedError("moment", 0, "before", "nothing")

    monkeypatch.setattr(explore_commands, "explore_seed", diverge)
    result = invoke(*SYNC)

    assert result.exit_code == 3
    assert "not reproduced" in result.stderr
