"""The key-value store of docs/examples: each planted bug is found and shrunk, and the store itself holds."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tornlog.faults.simulation.finding import Finding, steps_taken
from tornlog.faults.simulation.shrink import shrink
from tornlog.faults.simulation.simulation import Scenario
from tornlog.faults.simulation.trials import NeverInjected, TrialOutcome, find, replay

pytestmark = pytest.mark.ci

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
BUGS = {
    "NoDirectorySync": (5, 1),
    "RenameBeforeSync": (1, 1),
    "SnapshotOutsideTheLock": (3, 1),
    "TakenWithoutTheLock": (2, 0),
}
"""Bug -> most steps of its shrunk workload, the life included, and crashes. The page shows the stories."""


@pytest.fixture(scope="module")
def check() -> Iterator[Any]:
    """The module check_kv_log, imported like by a script in its directory."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        yield import_module("check_kv_log")
    finally:
        sys.path.remove(str(EXAMPLES))


def scenario_of(check: Any, bug: str = "") -> Scenario:
    return partial(check.scenario, getattr(check.kv_bugs, bug) if bug else check.KvLog)


@pytest.mark.slow
def test_the_example_store_without_a_bug_loses_no_data(check: Any) -> None:
    injected: Counter[str] = Counter()

    def count(seed: int, outcome: TrialOutcome) -> None:
        injected.update(outcome.injected)

    with pytest.warns(
        NeverInjected, match="never occurred: truncation undone"
    ):  # no file of this store is ever emptied
        assert find(scenario_of(check), range(1_000, 2_000), count) is None  # the page runs those before
    assert injected["crash"] > 1_400
    for fault in ("name lost", "size lost", "page lost", "rename undone", "unlink undone"):
        assert injected[fault] > 20, fault


@pytest.mark.parametrize("bug", BUGS)
def test_each_bug_is_found_shrunk_and_replayed(bug: str, check: Any) -> None:
    found = find(scenario_of(check, bug), range(300))
    assert found is not None
    smallest = shrink(scenario_of(check, bug), found)
    record, steps = smallest.record, steps_taken(smallest.record)

    assert smallest.signature == found.signature
    steps_max, crashes = BUGS[bug]
    assert len(steps) <= steps_max
    assert len(record.crashes) == crashes
    assert len(record.schedule) <= 3
    assert len(record.decisions) <= len(steps) + 1
    kept = Finding.from_json(smallest.to_json())
    assert kept == smallest
    assert replay(scenario_of(check, bug), kept.record).is_same(kept)
    assert replay(scenario_of(check), kept.record).result.failure is None


def test_the_example_does_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    outputs = []
    for hash_seed in ("1", "4711"):
        directory = tmp_path / hash_seed
        directory.mkdir()
        done = subprocess.run(
            [sys.executable, EXAMPLES / "check_kv_log.py", "RenameBeforeSync"],
            cwd=directory,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (1, "")
        outputs.append((done.stdout, (directory / "finding.json").read_text()))

    assert outputs[0] == outputs[1]
