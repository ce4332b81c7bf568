"""A program killed at a recorded step leaves exactly the files of its record."""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from tests.faults.probe.tracing.killing import PROGRAMS, STEPPED
from tests.faults.probe.tracing.programs import needs_io_uring

KILLS = 24
"""Kills of each program: with 13 programs, 312."""
STEPPED_KILLS = 8


def _marked(names: Iterable[str]) -> list[ParameterSet]:
    return [pytest.param(name, marks=needs_io_uring if "Ring(" in PROGRAMS[name] else ()) for name in names]


@pytest.mark.slow
@pytest.mark.parametrize("name", _marked(PROGRAMS))
def test_recorded_steps_up_to_a_kill_equal_the_files_on_disk(name: str, source: Path) -> None:
    assert_exact(name, KILLS, source)


@pytest.mark.parametrize("name", _marked(name for name, lines in PROGRAMS.items() if "mmap" in lines))
def test_single_steps_up_to_a_kill_equal_the_files_on_disk(name: str, source: Path) -> None:
    assert_exact(name, STEPPED_KILLS, source, STEPPED)


def assert_exact(name: str, kills: int, source: Path, *how: str) -> None:
    command = [sys.executable, "-m", "tests.faults.probe.tracing.killing", name, str(kills), *how]

    done = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=600, check=True)

    found = json.loads(done.stdout)
    assert found["problems"] == []
    assert found["killed"] == kills <= found["steps"]


def test_the_kill_test_has_many_programs() -> None:
    assert len(PROGRAMS) * KILLS >= 200
