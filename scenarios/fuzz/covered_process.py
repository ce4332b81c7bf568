"""Process of atheris, started by `coverage`: fuzzes one format.

The command is `python -m tornlog.scenarios.fuzz.covered_process TASK`. TASK is JSON: the fields of
`campaign.FuzzSettings`, and the paths `corpus`, `seeds` and `results`. At the end the process writes a
`coverage.CoveredRun` to `results`.
"""

import json
import os
import sys
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import atheris
import msgspec

from ...sim.process import CpuLimitReached, cpu_limit
from ..campaigns.worker_pool import become_worker

with atheris.instrument_imports(include=["tornlog.store"]):
    from .campaign import applied_fuzz_mutant
    from .coverage import CoveredRun
    from .engine import FuzzTally
    from .judging import FuzzViolation, address_space_limited, hang_violation, judge_input, memory_violation
    from .mutation import Draw
    from .targets import TARGETS

_SEEDS = 64
_FRESH_CHANCE = 0.02
_ADDRESS_SPACE_BYTES = 1 << 30
"""Includes libFuzzer's own memory."""
_DONE = 0


class CoveredFuzzer:
    """Mutates and judges inputs for libFuzzer."""

    def __init__(self, task: dict[str, Any]) -> None:
        self._task = task
        self._target = TARGETS[task["name"]]()
        self._tally = FuzzTally()
        self._began, self._cpu_began = perf_counter(), process_time()

    def write_seeds(self) -> None:
        directory = Path(self._task["seeds"])
        directory.mkdir()
        draw = Draw(f"fuzz/{self._target.name}/{self._task['seed']}")
        for number in range(_SEEDS):
            (directory / f"{number}.bin").write_bytes(self._target.valid_input(draw))

    def mutate(self, data: bytes, max_size: int, seed: int) -> bytes:
        target, draw = self._target, Draw(f"{self._task['seed']}/{seed}")
        raw = bytes(data)
        if not raw or draw.chance(_FRESH_CHANCE):
            raw = target.valid_input(draw)
        return target.mutate(raw, target.shape(raw), draw, self._tally.corpus.inputs)[:max_size]

    def test(self, data: bytes) -> None:
        """Judge one input. After the last input, end the process."""
        target, tally = self._target, self._tally
        tally.inputs += 1
        try:
            with cpu_limit(target.cpu_seconds_max):
                judged = judge_input(target, data)
        except CpuLimitReached:
            judged = hang_violation(target)
        if not isinstance(judged, FuzzViolation):
            tally.accepted += judged.accepted
            if tally.corpus.add_if_new(judged, data):
                judged = memory_violation(target, data) or judged
        if isinstance(judged, FuzzViolation):
            tally.add_violation(judged, data, tally.inputs)
        if self._is_over():
            self._end_process()

    def _is_over(self) -> bool:
        inputs, seconds = self._task["inputs"], self._task["seconds"]
        if inputs is not None and self._tally.inputs >= inputs:
            return True
        return seconds is not None and perf_counter() - self._began > seconds

    def _end_process(self) -> None:
        kept = len(list(Path(self._task["corpus"]).iterdir()))
        seconds, cpu_seconds = perf_counter() - self._began, process_time() - self._cpu_began
        counts = {**self._tally.counts(), "corpus": kept, "seconds": seconds, "cpu_seconds": cpu_seconds}
        run = CoveredRun(counts, list(self._tally.found.values()))
        Path(self._task["results"]).write_bytes(msgspec.json.encode(run))
        os._exit(_DONE)  # the only way to stop libFuzzer


def main() -> None:
    become_worker()
    task = json.loads(sys.argv[1])
    fuzzer = CoveredFuzzer(task)
    fuzzer.write_seeds()
    off = ("len_control", "rss_limit_mb", "malloc_limit_mb", "timeout", "verbosity", "reload")
    flags = [f"-seed={task['seed'] % (1 << 31) + 1}", f"-max_len={TARGETS[task['name']].size_bytes_max}"]
    flags += [f"-{name}=0" for name in off]
    arguments = [sys.argv[0], task["corpus"], task["seeds"], *flags]
    atheris.Setup(arguments, fuzzer.test, custom_mutator=fuzzer.mutate)
    with applied_fuzz_mutant(task["mutant"]), address_space_limited(_ADDRESS_SPACE_BYTES):
        atheris.Fuzz()


if __name__ == "__main__":
    main()
