"""What commands make of scenarios about several machines."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from tornlog.scenarios.campaigns.failures.failure import Failure
from tornlog.scenarios.campaigns.mutation_run import run_mutant
from tornlog.scenarios.mutants.known import mutant_named

Tornlog = Callable[..., Result]
NAME = "a-replica-is-a-prefix-of-its-master"


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A failure of a cluster, under its mutant."""
    mutant_result = run_mutant(mutant_named("ha-ack-beyond-master"), 500)
    assert mutant_result.failure is not None
    assert mutant_result.clean_violation == ""
    path = tmp_path_factory.mktemp("cluster") / "failure.json"
    path.write_text(mutant_result.failure.to_json())
    return path


def test_a_cluster_is_run_like_any_scenario_and_a_seed_is_a_run(tornlog: Tornlog) -> None:
    result = tornlog("run", NAME, "--seeds", 5, "--check-determinism")

    assert result.exit_code == 0, result.output


def test_exploring_a_cluster_is_refused_in_words(tornlog: Tornlog) -> None:
    result = tornlog("explore", NAME)

    assert result.exit_code == 2
    assert "machines" in result.output


def test_drawing_a_cluster_is_refused_in_words(tornlog: Tornlog, tmp_path: Path) -> None:
    result = tornlog("run", NAME, "--seed", 1, "--timeline", tmp_path / "t.html")

    assert result.exit_code == 2
    assert "machines" in result.output


def test_the_schedules_of_a_cluster_are_searched(tornlog: Tornlog) -> None:
    result = tornlog("explore", NAME, "--schedules", "--seed", 1, "--limit", 3)

    assert result.exit_code == 0, result.output


def test_a_failure_of_a_cluster_is_replayed(tornlog: Tornlog, artefact: Path) -> None:
    result = tornlog("replay", artefact)

    assert result.exit_code == 1
    assert "the same violation" in result.output


def test_drawing_a_failure_of_a_cluster_is_refused_in_words(
    tornlog: Tornlog, artefact: Path, tmp_path: Path
) -> None:
    result = tornlog("replay", artefact, "--timeline", tmp_path / "t.html")

    assert result.exit_code == 2
    assert "machines" in result.output


def test_the_mutant_of_replication_is_what_breaks_the_promise(artefact: Path) -> None:
    failure = Failure.from_json(artefact.read_text())

    assert failure.mutant == "ha-ack-beyond-master"
    assert failure.violations[0].invariant in ("REP", "DUR")
