"""A program that is really killed at a recorded step leaves what its record comes to, byte for byte."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.probe.tracing.killing import PROGRAMS

KILLS = 24
"""Of each program: with ten programs, 240."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_on_the_disk_is_what_the_steps_come_to(name: str, source: Path) -> None:
    command = [sys.executable, "-m", "tests.faults.probe.tracing.killing", name, str(KILLS)]

    done = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=600, check=True)

    found = json.loads(done.stdout)
    assert found["problems"] == []
    assert found["killed"] == KILLS <= found["steps"]


def test_there_are_many_programs() -> None:
    assert len(PROGRAMS) * KILLS >= 200
