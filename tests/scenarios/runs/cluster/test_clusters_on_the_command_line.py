"""Commands with scenarios of several machines."""

import json
from pathlib import Path

import pytest

from tests.command_line import tornlog
from tornlog.reports.timeline.recording.recorder import record_seed
from tornlog.scenarios.campaigns.mutation_run import MutationLimits, MutationSettings, run_mutant
from tornlog.scenarios.campaigns.seeds import digest_of
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.mutants.known import mutant_named

pytestmark = pytest.mark.slow
NAME = "replica-prefix-of-master"


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A failure of a cluster run with a mutant."""
    mutant_result = run_mutant(
        mutant_named("ha-ack-beyond-master"), MutationSettings(MutationLimits(500), scenarios=None)
    )
    assert mutant_result.failure is not None
    assert mutant_result.clean_violation == ""
    path = tmp_path_factory.mktemp("cluster") / "failure.json"
    path.write_text(mutant_result.failure.to_json())
    return path


def test_a_cluster_scenario_runs_from_the_command_line_and_is_deterministic() -> None:
    result = tornlog("run", NAME, "--seeds", 5, "--check-determinism")

    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("name", [NAME, pytest.param("broker-crash", marks=pytest.mark.slow)])
def test_every_crash_of_a_cluster_or_broker_can_be_explored(name: str, tmp_path: Path) -> None:
    file = tmp_path / "explored.json"
    result = tornlog("explore", name, "--messages", 1, "--limit", 1, "--seed", 1, "--json", file)

    assert result.exit_code == 0, result.output
    found = json.loads(file.read_text())
    assert found["moments"] > 50
    assert found["judged"] == found["states"] >= found["moments"]


def test_exploring_a_cluster_finds_its_mutant_and_the_failure_replays(tmp_path: Path) -> None:
    mutant = ("--mutant", "ack-before-flush")
    result = tornlog("explore", NAME, "--messages", 2, "--limit", 1, "--seed", 3, *mutant, "--out", tmp_path)

    assert result.exit_code == 1, result.output
    (file, *_) = sorted((tmp_path / "failures").glob("*.json"))
    assert tornlog("replay", file).exit_code == 1


@pytest.mark.parametrize("name", [NAME, "broker-crash"])
def test_a_run_of_several_machines_can_be_drawn_as_a_timeline(name: str, tmp_path: Path) -> None:
    page = tmp_path / "t.html"
    result = tornlog("run", name, "--seed", 3, "--timeline", page)

    assert result.exit_code == 0, result.output
    assert ("master" if name == NAME else "send message") in page.read_text()


@pytest.mark.parametrize("name", [NAME, "broker-crash"])
def test_recording_a_timeline_of_several_machines_does_not_change_the_run(name: str) -> None:
    for seed in range(2):
        assert record_seed(SCENARIOS[name], seed).digest == digest_of(SCENARIOS[name], seed)


def test_the_schedules_of_a_cluster_can_be_searched() -> None:
    result = tornlog("explore", NAME, "--schedules", "--seed", 1, "--limit", 3)

    assert result.exit_code == 0, result.output


def test_a_cluster_failure_can_be_replayed_and_drawn_as_a_timeline(artefact: Path, tmp_path: Path) -> None:
    result = tornlog("replay", artefact, "--timeline", tmp_path / "t.html")

    assert result.exit_code == 1, result.output
    assert "the same violation" in result.output
    assert (tmp_path / "t.html").stat().st_size > 10_000
