"""Hostile clients as a process."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence

from tests.bench.broker import ProcessError, end_process

from .hostile_kinds import Tally


class HostileProcess:
    """`python -m tests.soak.hostile_main`, at no higher priority than the broker."""

    def __init__(
        self, address: str, seconds: float, idle: int, limits: Mapping[str, float], only: Sequence[str] = ()
    ) -> None:
        """`limits` are the broker's frame, output and idle timeouts in seconds. `only` is as in run_soak."""
        command = [sys.executable, "-m", "tests.soak.hostile_main", address]
        command += ["--seconds", str(seconds), "--idle", str(idle)]
        for name, value in limits.items():
            command += [f"--{name}-seconds", str(value)]
        command += [f"--only={name}" for name in only]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def tallies(self) -> dict[str, Tally]:
        """Wait for the end, and return the tallies. Raises ProcessError if the process failed."""
        out, err = self._process.communicate()
        if self._process.returncode != 0:
            raise ProcessError(f"the hostile clients ended with {self._process.returncode}: {err.strip()[-2_000:]}")
        return {name: Tally(**fields) for name, fields in json.loads(out).items()}

    def kill(self) -> None:
        """Kill the process, if it runs."""
        end_process(self._process)
