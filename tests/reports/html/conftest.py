"""Page fixtures: directories written by commands, and failures and tallies for pages."""

from pathlib import Path

import pytest

from tests.command_line import tornlog
from tornlog.scenarios.campaigns.failures.failure import Failure
from tornlog.scenarios.campaigns.seeds import run_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS

NAME = "sync-flush-power-cut"
SEVERAL_WAYS = "born-time-in-seconds"
"""A bug that breaks several promises within a few seeds."""


@pytest.fixture(scope="session")
def held(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("held")
    assert tornlog("run", "--seeds", 1, "--out", out).exit_code == 0
    return out


@pytest.fixture(scope="session")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output directory of a run that broke several promises, with its JSON in `run.json`."""
    out = tmp_path_factory.mktemp("broken")
    options = ("--seeds", 20, "--mutant", SEVERAL_WAYS, "--out", out, "--json", out / "run.json")
    assert tornlog("run", "combined-faults", NAME, *options).exit_code == 1
    return out


@pytest.fixture(scope="session")
def mutant_result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output directory of a run of four mutants, of which the seeds find three."""
    out = tmp_path_factory.mktemp("hunted")
    ids = ("ack-before-flush", "bad-length-trusted", SEVERAL_WAYS, "stale-tail-after-truncate")
    assert tornlog("mutants", *ids, "--narrowed", "--seeds", 25, "--out", out).exit_code == 1
    return out


@pytest.fixture(scope="session")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("swept") / "sweep"
    options = ("--scenario", NAME, "--scenario", "clean-shutdown", "--mutant", "ack-before-flush")
    assert (
        tornlog("sweep", "--seeds", 12, *options, "--master", "in-process", "--out", out, "--shrink", "1s").exit_code
        == 1
    )
    return out


@pytest.fixture(scope="session")
def swept_clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("swept-clean") / "sweep"
    options = ("--scenario", NAME, "--scenario", "async-flush-prefix", "--master", "in-process")
    assert tornlog("sweep", "--seeds", 12, *options, "--out", out).exit_code == 0
    return out


@pytest.fixture(scope="session")
def probed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("probed")
    program, check = out / "program.py", out / "check.py"
    program.write_text('import os\nopen("new", "w").write("one")\nos.rename("new", "value")\nprint("one")\n')
    verdict = 'assert not acknowledged or (directory / "value").exists()'
    check.write_text(f"def check(directory, acknowledged):\n    {verdict}\n")
    assert tornlog("probe", "--check", check, "--jobs", 0, "--out", out, "--", program).exit_code == 1
    return out


@pytest.fixture(scope="session")
def failure() -> Failure:
    found = run_seed(SCENARIOS[NAME], 0, mutant="ack-before-flush").failure
    assert found is not None
    return found
