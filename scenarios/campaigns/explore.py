"""Exploration: recovers every crash state of one seed's run.

Exploration covers the run up to the first clean stop of the store. With `nest`, recovery itself also crashes: for the
images with the smallest digests, the machine crashes at each disk operation of the store's load, up to `nest` times in
a row.

Processes explore chunks of operations. Two processes may recover the same image, but the number of processes does not
change the reported counts and violations.

A single store is recovered from each crash state directly (`explore_store`). A run with a cluster or a broker is
repeated from its beginning for each crash state, which takes longer. `limit` is the maximum number of states per crash.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter

from ...faults.disk.fault_injector import CrashPhase
from ...faults.simulation.explore import (
    LIMIT,
    Explorable,
    ExplorationCounts,
    Situation,
    WholeRunExplorer,
    explore_chunk,
    situation_of,
)
from ...faults.simulation.simulation import Simulation
from ...sim.errors import ReplayDivergedError
from ...sim.guard import leak_guard
from ...sim.interruption import Interruption
from ..claims.disk_models import DISK_MODELS
from ..claims.plan import Life, LifeEnding, Plan
from ..claims.scenario import Scenario
from ..mutants.known import applied_mutant
from ..runs.execution import life_name
from ..runs.run_of import policy_of
from .explore_store import StoreRunExplorer, run_lives, situation_of_load
from .failures.failure import FailingRun, Failure, RunRecord
from .failures.replay import failing_run_of, replay, run_plan, verified_run
from .seeds import draw_plan_of_seed
from .worker_pool import run_jobs

NEST_SAMPLES = 4
"""The number of images at each depth with crashes during recovery."""
WHOLE_LIMIT = 4
"""The default number of states per crash if each state needs a whole run."""
_CHUNK_OPERATIONS = 8
_Chunk = tuple[Situation[Plan], range]


@dataclass(frozen=True, slots=True)
class ExploreSettings:
    """limit: the maximum number of states per crash point and crash profile. heal: also check that each recovered store
    accepts and returns messages."""

    limit: int = LIMIT
    nest: int = 0
    heal: bool = False
    messages_each: int | None = None


@dataclass(slots=True)
class Depth:
    """The number of crash images and operations to explore at one depth of crashes."""

    situations: int = 0
    operations: int = 0


@dataclass(slots=True)
class Exploration:
    """The result of exploring one seed's run."""

    scenario: Scenario
    seed: int
    mutant: str | None
    plan: Plan
    settings: ExploreSettings
    depths: list[Depth] = field(default_factory=list)
    found: ExplorationCounts[Plan] = field(default_factory=ExplorationCounts)
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0
    is_interrupted: bool = False
    """Whether the user interrupted the exploration."""

    @property
    def states_per_second(self) -> float:
        return self.found.total.judged / self.seconds if self.seconds else 0.0


def first_life(scenario: Scenario, seed: int, messages_each: int | None = None) -> Plan:
    """Return the plan of a seed, reduced to the first run of the store with a clean stop at its end."""
    plan = draw_plan_of_seed(scenario, seed)[1]
    first = plan.lives[0]
    assert first.node == 0 or not plan.is_alone, first
    each = first.messages_each if messages_each is None else messages_each
    return replace(plan, lives=(Life(LifeEnding.STOP, "process-kill", -1, CrashPhase.BEFORE, each, node=first.node),))


def first_situation(scenario: Scenario, seed: int, plan: Plan) -> tuple[Situation[Plan] | None, FailingRun | None]:
    """Return the initial state of the exploration. If the plan violates a guarantee without a crash, return the failing
    run."""
    choices = draw_plan_of_seed(scenario, seed)[0]
    simulation = Simulation(choices, policy_of(plan, choices), crashes=())
    profiles = DISK_MODELS[plan.disk].crashes
    program = run_lives if plan.is_alone else run_plan
    situation, outcome = situation_of(program, plan, simulation, life=life_name(0), profiles=profiles)
    return situation, failing_run_of(outcome, simulation) if situation is None else None


def explorable_program(plan: Plan, settings: ExploreSettings) -> Explorable[Plan]:
    if plan.is_alone:
        return StoreRunExplorer(settings.limit, heal=settings.heal)
    return WholeRunExplorer(run_plan, settings.limit)


def explore_seed(
    scenario: Scenario,
    seed: int,
    settings: ExploreSettings,
    *,
    mutant: str | None = None,
    jobs: int = 1,
    on_progress: Callable[[ExplorationCounts[Plan], int, int], None] = lambda found, done, total: None,
    interruption: Interruption | None = None,
) -> Exploration:
    """Explore a seed's run up to its first clean stop. on_progress: called with the counts, the number of explored
    operations, and the number of operations at this depth.

    After an interruption, the result covers the states judged so far.
    """
    began, interruption = perf_counter(), interruption or Interruption()
    done = Exploration(scenario, seed, mutant, first_life(scenario, seed, settings.messages_each), settings)
    failing: list[FailingRun] = []
    with applied_mutant(mutant), leak_guard():
        situation, broken = first_situation(scenario, seed, done.plan)
        failing += [broken] if broken is not None else []
    situations = [] if situation is None else [situation]
    for depth in range(settings.nest + 1):
        if not situations:
            break
        done.depths.append(Depth(len(situations), sum(len(one.points) for one in situations)))
        done.found.samples = []
        chunks = [chunk for one in situations for chunk in _operation_chunks(one)]
        operations = 0
        for chunk, found in _explored_chunks(chunks, done, jobs, interruption):
            operations += len(chunk[1])
            if found is not done.found:
                done.found.add(found, NEST_SAMPLES)
            on_progress(done.found, operations, done.depths[-1].operations)
        assert interruption.is_requested or operations == done.depths[-1].operations, (operations, done.depths[-1])
        if interruption.is_requested:
            break
        if depth < settings.nest:
            with applied_mutant(mutant), leak_guard():
                situations = [situation_of_load(sample, situations[0]) for sample in done.found.samples]
    with applied_mutant(mutant), leak_guard():
        failing += [_reproduced_run(signature, record) for signature, record in done.found.breaches.items()]
    done.failures += [Failure(scenario.name, scenario.claim, seed, mutant, one) for one in failing]
    done.seconds, done.is_interrupted = perf_counter() - began, interruption.is_requested
    return done


def _reproduced_run(signature: str, record: RunRecord) -> FailingRun:
    replayed = replay(record)
    if replayed.result.signature != signature:
        raise ReplayDivergedError("violation", 0, signature, replayed.result.signature or "none")
    return verified_run(replayed.record)


def _operation_chunks(situation: Situation[Plan]) -> list[_Chunk]:
    ends = len(situation.points)
    return [
        (situation, range(first, min(first + _CHUNK_OPERATIONS, ends))) for first in range(0, ends, _CHUNK_OPERATIONS)
    ]


def _explored_chunks(
    chunks: list[_Chunk], done: Exploration, jobs: int, interruption: Interruption
) -> Iterator[tuple[_Chunk, ExplorationCounts[Plan]]]:
    """Explore chunks of operations in order, each with its counts. With one process, the counts are cumulative."""
    shared = done.found if jobs == 1 else None
    explore = partial(explore_operations, settings=done.settings, mutant=done.mutant, found=shared)
    return run_jobs(explore, chunks, jobs, interruption)


def explore_operations(
    chunk: _Chunk, settings: ExploreSettings, mutant: str | None, found: ExplorationCounts[Plan] | None = None
) -> ExplorationCounts[Plan]:
    """Explore a chunk of operations. Add the counts to `found`, if given."""
    situation, numbers = chunk
    found = ExplorationCounts() if found is None else found
    samples_max = NEST_SAMPLES if settings.nest > situation.depth else 0
    explorable = explorable_program(situation.record.setup, settings)
    with applied_mutant(mutant):
        return explore_chunk(explorable, situation, numbers, found, samples_max=samples_max)
