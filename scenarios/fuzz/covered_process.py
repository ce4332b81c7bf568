"""The process that atheris has to itself: `python -m tornlog.scenarios.fuzz.covered_process TASK`, for `coverage` only.

TASK is JSON: the fields of `campaign.Settings`, and the paths `corpus`, `seeds` and `results`. To results it appends a
line for the first input of each way of breaking a promise, and at the end one with the counts.
"""

import json
import os
import sys
from base64 import b64encode
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import atheris

from ...sim.process import NoEndInSight, cpu_limit

with atheris.instrument_imports(include=["tornlog.store"]):
    from .campaign import applied_fuzzed
    from .engine import Corpus
    from .judging import FuzzViolation, address_space_limited, breach_of_memory, hang_of, judge
    from .mutation import Draw
    from .targets import TARGETS

_SEEDS = 64
_FRESH_CHANCE = 0.02
_ADDRESS_SPACE_BYTES = 1 << 30
"""libFuzzer, too, lives on it."""
_DONE = 0


class CoveredFuzzer:
    """Judges what libFuzzer hands in, and makes what it asks for."""

    def __init__(self, task: dict[str, Any]) -> None:
        self._task = task
        self._target = TARGETS[task["name"]]()
        self._corpus = Corpus()
        self._results = open(task["results"], "a", encoding="utf-8")  # noqa: SIM115 - as long as the process
        self._seen: set[str] = set()
        self._inputs = self._accepted = self._broken = 0
        self._began, self._cpu_began = perf_counter(), process_time()

    def write_seeds(self) -> None:
        """Write valid inputs for libFuzzer to begin with."""
        directory = Path(self._task["seeds"])
        directory.mkdir()
        draw = Draw(f"fuzz/{self._target.name}/{self._task['seed']}")
        for number in range(_SEEDS):
            (directory / f"{number}.bin").write_bytes(self._target.valid(draw))

    def mutate(self, data: bytes, max_size: int, seed: int) -> bytes:
        """Break an input by its shape, as our own engine does."""
        target, draw = self._target, Draw(f"{self._task['seed']}/{seed}")
        raw = bytes(data)
        if not raw or draw.chance(_FRESH_CHANCE):
            raw = target.valid(draw)
        return target.mutate(raw, target.shape(raw), draw, self._corpus.inputs)[:max_size]

    def test(self, data: bytes) -> None:
        """Judge one input. Ends the process after the last."""
        self._inputs += 1
        target = self._target
        try:
            with cpu_limit(target.cpu_seconds_max):
                judged = judge(target, data)
        except NoEndInSight:
            judged = hang_of(target)
        if not isinstance(judged, FuzzViolation):
            self._accepted += judged.accepted
            if self._corpus.note(judged, data):
                judged = breach_of_memory(target, data) or judged
        if isinstance(judged, FuzzViolation):
            self._note(judged, data)
        if self._is_over():
            self._end()

    def _note(self, breach: FuzzViolation, raw: bytes) -> None:
        self._broken += 1
        if breach.signature in self._seen:
            return
        self._seen.add(breach.signature)
        self._write(
            {
                "signature": breach.signature,
                "expected": breach.expected,
                "found": breach.found,
                "number": self._inputs,
                "input": b64encode(raw).decode(),
            }
        )

    def _is_over(self) -> bool:
        inputs, seconds = self._task["inputs"], self._task["seconds"]
        if inputs is not None and self._inputs >= inputs:
            return True
        return seconds is not None and perf_counter() - self._began > seconds

    def _end(self) -> None:
        counts = {
            "inputs": self._inputs,
            "accepted": self._accepted,
            "refused": self._inputs - self._accepted - self._broken,
            "broken": self._broken,
            "outcomes": self._corpus.outcomes,
            "corpus": len(list(Path(self._task["corpus"]).iterdir())),
            "seconds": perf_counter() - self._began,
            "cpu_seconds": process_time() - self._cpu_began,
        }
        self._write({"counts": counts})
        os._exit(_DONE)  # libFuzzer has no other way to be told

    def _write(self, line: dict[str, Any]) -> None:
        self._results.write(json.dumps(line) + "\n")
        self._results.flush()


def main() -> None:
    """Fuzz as the task says."""
    task = json.loads(sys.argv[1])
    fuzzer = CoveredFuzzer(task)
    fuzzer.write_seeds()
    flags = [
        f"-seed={task['seed'] % (1 << 31) + 1}",
        f"-max_len={TARGETS[task['name']].size_bytes_max}",
        "-len_control=0",
        "-rss_limit_mb=0",
        "-malloc_limit_mb=0",
        "-timeout=0",
        "-verbosity=0",
        "-reload=0",
    ]
    atheris.Setup(
        [sys.argv[0], task["corpus"], task["seeds"], *flags], fuzzer.test, custom_mutator=fuzzer.mutate
    )
    with applied_fuzzed(task["mutant"]), address_space_limited(_ADDRESS_SPACE_BYTES):
        atheris.Fuzz()


if __name__ == "__main__":
    main()
