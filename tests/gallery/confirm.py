"""Confirmation without tornlog: runs the scripts of a row, each in an empty directory."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from .install import InstalledProgram
from .results import CONFIRMED, ConfirmRun
from .rows import Finding, Row

_SECONDS_MAX = 300
_CANNOT = 77
"""Exit code of a script that cannot run on this machine, as is usual in test suites."""
_LINES_MAX = 30


def confirm(row: Row, finding: Finding, program: InstalledProgram) -> ConfirmRun:
    """Run a finding's script with the packages of the row."""
    script = row.folder / finding.confirm
    environment = {**os.environ, **program.environment, "PYTHON": sys.executable}
    environment |= {"PROGRAM": program.command[-1], "COMMAND": shlex.join(program.command)}
    with TemporaryDirectory(prefix="tornlog-confirm-") as place:
        try:
            done = subprocess.run(
                ["bash", str(script)],
                cwd=place,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=_SECONDS_MAX,
            )
        except subprocess.TimeoutExpired:
            return ConfirmRun("not confirmed", (f"no end after {_SECONDS_MAX} s",))
        said = tuple(_plain(line, Path(place), row) for line in done.stdout.splitlines()[-_LINES_MAX:])
    if done.returncode == _CANNOT:
        return ConfirmRun("cannot be run here", said)
    return ConfirmRun(CONFIRMED if done.returncode == 0 else "not confirmed", said)


def _plain(line: str, place: Path, row: Row) -> str:
    """Remove the paths of this machine from a line."""
    return line.replace(f"{place}/", "").replace(str(place), ".").replace(f"{row.folder}/", "")
