"""Hostile clients: `python -m tests.soak.hostile_main 127.0.0.1:10911 --seconds 60`."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from tests.bench.broker import ProcessError, end_process

from .hostile import KIND_NAMES, Hostility
from .hostile_kinds import Limits, Tally

_NICENESS = 10


def main(
    address: str,
    seconds: Annotated[float, typer.Option(min=1.0)] = 60.0,
    idle: Annotated[int, typer.Option(min=0, help="Idle connections to hold.")] = 10_000,
    frame_seconds: Annotated[float, typer.Option(help="The broker's time for a frame.")] = 60.0,
    output_seconds: Annotated[float, typer.Option(help="Its time for a client to take an answer.")] = 30.0,
    idle_seconds: Annotated[float, typer.Option(help="Its time for idleness.")] = 120.0,
    seed: int = 0,
    only: Annotated[
        list[str] | None, typer.Option(help=f"Of {', '.join(KIND_NAMES)}; all that go together if none is named.")
    ] = None,
) -> None:
    """Run hostile clients, and print the tally of each kind as JSON."""
    os.nice(_NICENESS)  # low priority, as if these clients ran on another machine
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    hostility = Hostility(address, Limits(frame_seconds, output_seconds, idle_seconds), idle, seed, only or ())
    tallies = hostility.run(seconds)
    typer.echo(json.dumps({name: asdict(tally) for name, tally in tallies.items()}))


class HostileProcess:
    """A process of `python -m tests.soak.hostile_main`."""

    def __init__(
        self, address: str, seconds: float, idle: int, limits: Mapping[str, float], only: Sequence[str] = ()
    ) -> None:
        """Start the process. `limits` are the broker's frame, output and idle timeouts in s. `only`: see run_soak."""
        command = [sys.executable, "-m", "tests.soak.hostile_main", address]
        command += ["--seconds", str(seconds), "--idle", str(idle)]
        for name, value in limits.items():
            command += [f"--{name}-seconds", str(value)]
        command += [f"--only={name}" for name in only]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def tallies(self) -> dict[str, Tally]:
        """Wait until the process ends, and return the tallies. Raises ProcessError if the process failed."""
        out, err = self._process.communicate()
        if self._process.returncode != 0:
            raise ProcessError(f"the hostile clients ended with {self._process.returncode}: {err.strip()[-2_000:]}")
        return {name: Tally(**fields) for name, fields in json.loads(out).items()}

    def kill(self) -> None:
        """Kill the process if it is still running."""
        end_process(self._process)


if __name__ == "__main__":
    typer.run(main)
