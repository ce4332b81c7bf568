"""Similar Python tools on one mini workload, and this simulation.

The comparison is of runs per second, each up to a power cut and the judgement, and of operations of the log (appends,
flushes, dispatches, recoveries) per second. The tools' own events are not comparable.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter

from tornlog.reports.studies.closed_loop import Sample

from . import frontrun_peer, hypothesis_peer, ours, simloom_peer, simpy_peer


@dataclass(frozen=True, slots=True)
class Peer:
    """One tool, and facts from its documentation."""

    name: str
    distribution: str
    run_many: Callable[[int, int], tuple[int, int]]
    """Makes so many runs from a seed on.

    Returns the number of log operations, and of events as the tool counts them.
    """
    runs: int
    """Number of runs in a measurement."""
    events: str
    replays: str
    shrinks: str
    torn_writes: str
    beware: str
    """Why the tool's figures are not fully comparable."""
    launcher: str = ""
    """The command that must start the tool, if any."""

    @property
    def version(self) -> str | None:
        """Return the installed version, None without one."""
        try:
            return version(self.distribution)
        except PackageNotFoundError:
            return None

    @property
    def figure_name(self) -> str:
        return f"mini workload, {self.name}"

    def measure(self) -> Sample:
        """Run the workload for a while; return runs per second, with operations and events per second."""
        timed = self._time_apart() if self.launcher else self.time()
        seconds = timed["seconds"]
        per_second = {name: timed[name] / seconds for name in ("operations", "events")}
        return Sample(self.runs / seconds, per_second=per_second)

    def time(self) -> dict[str, float]:
        """Return the duration of the runs after all imports, and the counts of operations and events."""
        self.run_many(0, 1)
        began = perf_counter()
        operations, events = self.run_many(1, self.runs)
        return {"seconds": perf_counter() - began, "operations": operations, "events": events}

    def _time_apart(self) -> dict[str, float]:
        """Return the same, measured in a process that the tool's own command starts."""
        launcher = Path(sys.executable).with_name(self.launcher)
        code = f"import json; from {__name__} import peer_of; print(json.dumps(peer_of({self.name!r}).time()))"
        done = subprocess.run([str(launcher), sys.executable, "-c", code], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{self.name}: {done.stderr}")
        found: dict[str, float] = json.loads(done.stdout)
        return found


def peer_of(name: str) -> Peer:
    return next(peer for peer in PEERS if peer.name == name)


def _many(run: Callable[[int], tuple[int, int]]) -> Callable[[int, int], tuple[int, int]]:
    def run_many(seed: int, runs: int) -> tuple[int, int]:
        results = [run(number) for number in range(seed, seed + runs)]
        return sum(operations for operations, _ in results), sum(events for _, events in results)

    return run_many


PEERS = (
    Peer(
        "tornlog",
        "tornlog",
        _many(ours.run),
        200,
        "scheduling points",
        "seed or record",
        "schedule, faults",
        "any sectors",
        "tasks, disk, digest, virtual time; a toy log, not the store",
    ),
    Peer(
        "simloom",
        "simloom",
        _many(simloom_peer.run),
        100,
        "draws",
        "seed",
        "schedule",
        "a file's prefix",
        "asyncio tasks; whole files, so a record is a file; needs Python 3.12",
    ),
    Peer(
        "SimPy",
        "simpy",
        _many(simpy_peer.run),
        200,
        "events",
        "if the user seeds",
        "no",
        "no disk",
        "one order per time; chance and a toy disk are the user's",
    ),
    Peer(
        "Hypothesis",
        "hypothesis",
        hypothesis_peer.run_many,
        50,
        "rules",
        "seed, database",
        "yes",
        "no disk",
        "rules one after another, no tasks; a run may cut the power often; toy disk",
    ),
    Peer(
        "frontrun",
        "frontrun",
        frontrun_peer.run_many,
        20,
        "schedules",
        "seed, schedule",
        "by Hypothesis",
        "no disk",
        "real threads, switched at bytecodes, which spin; toy disk; in a process of its own",
        launcher="frontrun",
    ),
)
