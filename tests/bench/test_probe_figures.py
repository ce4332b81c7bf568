import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.bench import probe
from tests.bench.probe import measure_empty_check, measure_verdict
from tests.bench.recorder import is_recordable
from tests.bench.workplace import BenchSettings, Workplace

pytestmark = pytest.mark.skipif(not is_recordable(), reason="programs are not recorded on this system")


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace(BenchSettings(str(tmp_path), seconds=0.01))


def test_a_verdict_on_one_transaction_costs_processor_time_and_breaks_no_promise(place: Workplace) -> None:
    with place:
        assert 0.0 < measure_verdict(place).rate < 60.0  # a broken promise raises an error


def test_the_rate_of_an_empty_check_is_its_states_by_its_processor_time(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = iter((3.0, 5.0))
    monkeypatch.setattr(probe, "cpu_seconds_spent", lambda: next(spent))

    def run(command: list[str], cwd: str, **_: Any) -> SimpleNamespace:
        assert len(os.sched_getaffinity(0)) == 1
        Path(cwd, "verdict.json").write_text(json.dumps({"states": 800}))
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", run)
    with place:
        assert measure_empty_check(place).rate == pytest.approx(400.0)


def test_a_probe_without_a_verdict_raises_an_error(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_COUNT_ROWS", "def check(directory, acknowledged): yield 'lost'\n")
    with place, pytest.raises(RuntimeError, match="the probe has ended with 1"):
        measure_verdict(place)
