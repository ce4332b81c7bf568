"""CONTRIBUTING.md: the first change, in a copy of the package."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import copy_of


@pytest.mark.ci
def test_the_scenario_of_the_first_change_holds_and_fails_with_the_bug(source: Path, tmp_path: Path) -> None:
    page = (source / "CONTRIBUTING.md").read_text()
    (addition,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    lines = [line.removeprefix("   ") for line in addition.splitlines()]
    commands = re.findall(r"^ *\.venv/bin/(tornlog run .*)$", page, re.MULTILINE)
    module = copy_of(source, tmp_path / "tornlog") / "scenarios" / "claims" / "catalogue" / "crashes.py"
    before, end = module.read_text().rsplit("\n)", 1)
    module.write_text("\n".join([before, *lines, f",){end}"]))

    codes = []
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(command)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert "50 seeds in " in done.stdout, done.stdout + done.stderr
        codes.append(done.returncode)
    assert codes == [0, 1]
