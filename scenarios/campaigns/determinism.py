"""Determinism checks: compare digests across hash seeds, run orders and Pythons.

The checking process runs the seeds in order, like `tornlog run`. A witness process with another hash seed runs the same
seeds in a shuffled order and in batches of another size. If the digests of a seed differ, both processes run the seed
again with a trace and report the first different event.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from time import perf_counter
from typing import Any

from ...sim.choices import Choices
from ...sim.determinism import first_difference
from ...sim.trace import TraceRecording
from .determinism_witness import Job, SeedStatement, TracedSeed, WitnessRuns, main, record_run, results_of_job
from .runner import BATCH_SEEDS

_BATCH_OF_A_WITNESS = 7
TRACED_MAX = 3
"""Maximum number of traced seeds. Further differing seeds are reported without a trace."""


class WitnessError(Exception):
    """A witness process died or failed to start."""


@dataclass(frozen=True, slots=True)
class WitnessProcess:
    """A Python process that runs the same seeds for comparison."""

    name: str
    python: str = sys.executable
    hash_seed: int = 4242
    path: str | None = None
    """The PYTHONPATH of the witness; None: the PYTHONPATH of this process."""

    def answer(self, job: Job) -> Any:
        """Run a job in a new witness process. Raises WitnessError."""
        environment = dict(os.environ, PYTHONHASHSEED=str(self.hash_seed), PYTHONDONTWRITEBYTECODE="1")
        if self.path is not None:
            environment["PYTHONPATH"] = self.path
        command = [self.python, "-c", f"from {main.__module__} import main; main()"]
        done = subprocess.run(command, input=pickle.dumps(job), capture_output=True, env=environment, check=False)
        if done.returncode:
            raise WitnessError(f"{self.name}: {done.stderr.decode(errors='replace').strip()}")
        return pickle.loads(done.stdout)


@dataclass(frozen=True, slots=True)
class DigestDifference:
    """A seed with different digests in this process and in a witness."""

    witness: str
    here: SeedStatement
    there: SeedStatement
    where: str = ""
    """The first different event, or empty if the seed was not traced."""

    def __str__(self) -> str:
        outcomes = [f"{one.outcome} {one.digest or one.error}".rstrip() for one in (self.here, self.there)]
        where = f"; {self.where}" if self.where else ""
        place = f"{self.here.scenario} --seed {self.here.seed}"
        return f"{place}: {outcomes[0]} here, {outcomes[1]} with {self.witness}{where}"


@dataclass(slots=True)
class DeterminismReport:
    """The result of a determinism check."""

    runs: int = 0
    digests: dict[str, str] = field(default_factory=dict)
    """For each scenario, one digest of all its seeds."""
    differences: list[DigestDifference] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """Runs of this process without a digest, because of a harness error."""
    seconds: float = 0.0


def compare_digests(
    scenarios: Sequence[str],
    seeds: range,
    witnesses: Sequence[WitnessProcess],
    *,
    jobs: int = 1,
    on_progress: Callable[[int], None] = lambda runs: None,
) -> DeterminismReport:
    """Run seeds in this process and in every witness. Raises WitnessError.

    jobs: the number of worker processes, and of processes per witness. on_progress: called with the number of runs that
    this process has completed since the previous call.
    """
    began = perf_counter()
    in_order = [(name, seed) for name in scenarios for seed in seeds]
    slices = [
        (one, WitnessRuns(part, _BATCH_OF_A_WITNESS)) for one in witnesses for part in shuffled_shares(in_order, jobs)
    ]
    with ThreadPoolExecutor(jobs) as pool:
        answers = [pool.submit(witness.answer, job) for witness, job in slices]
        here = {}
        for statement in results_of_job(WitnessRuns(in_order, BATCH_SEEDS)):
            here[statement[:2]] = statement
            on_progress(1)
        witnessed = [(witness, answer.result()) for (witness, _), answer in zip(slices, answers, strict=True)]
    assert len(here) == len(in_order), "a seed is compared with its own run"
    found = DeterminismReport(len(in_order), _fold_statements(here.values()))
    found.errors = [f"{one.scenario} --seed {one.seed}: {one.error}" for one in here.values() if one.error]
    differences = chain.from_iterable(_digest_differences(witness, here, there) for witness, there in witnessed)
    order = {run: number for number, run in enumerate(in_order)}
    by_name = {witness.name: witness for witness in witnesses}
    for difference in sorted(differences, key=lambda one: order[one.here[:2]]):
        is_looked_at = len(found.differences) < TRACED_MAX
        found.differences.append(_with_first_different_event(difference, by_name) if is_looked_at else difference)
    found.seconds = perf_counter() - began
    return found


def shuffled_shares(runs: Sequence[tuple[str, int]], hands: int) -> list[list[tuple[str, int]]]:
    """Shuffle runs reproducibly, and divide them among processes."""
    shuffled, stream = list(runs), Choices("witness").stream("order")
    for last in range(len(shuffled) - 1, 0, -1):
        other = stream.randbelow(last + 1, "place")
        shuffled[last], shuffled[other] = shuffled[other], shuffled[last]
    hands_dealt = [hand for number in range(hands) if (hand := shuffled[number::hands])]
    assert sum(map(len, hands_dealt)) == len(runs), (hands, len(runs))
    return hands_dealt


def _fold_statements(statements: Iterable[SeedStatement]) -> dict[str, str]:
    digests: dict[str, Any] = {}
    for one in statements:
        digests.setdefault(one.scenario, blake2b(digest_size=16)).update(one.digest.encode())
    return {name: digest.hexdigest() for name, digest in digests.items()}


def _digest_differences(
    witness: WitnessProcess, here: dict[tuple[str, int], SeedStatement], there: list[SeedStatement]
) -> Iterator[DigestDifference]:
    for one in there:
        own = here[one.scenario, one.seed]
        if (own.outcome, own.digest) != (one.outcome, one.digest):
            yield DigestDifference(witness.name, own, one)


def _with_first_different_event(difference: DigestDifference, witnesses: dict[str, WitnessProcess]) -> DigestDifference:
    own = difference.here
    job = TracedSeed(own.scenario, own.seed)
    try:
        there: TraceRecording = witnesses[difference.witness].answer(job)
        where = first_difference(record_run(job), there)
    except Exception as error:
        where = f"a second run with a trace ends with {type(error).__name__}: {error}"
    return DigestDifference(
        difference.witness, own, difference.there, where or "no difference in a second run: it is intermittent"
    )
