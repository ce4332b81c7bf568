"""Exploring a seed's run as a whole, in this process or in several: chunks of operations, and their sum.

With several processes an image may be recovered once in each; what is told of distinct images and judgements is the
same however the work was cut up, and so are violations by their signatures.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import repeat
from multiprocessing import get_context
from time import perf_counter

from ...sim.guard import guard
from ...sim.process import garbage_kept
from ..claims.plan import Plan
from ..claims.scenario import Scenario
from ..mutants.known import applied_mutant
from ..runs.store_run import Run
from .explore import ExplorationCounts, Explorer, ExploreSettings, Situation, first_life, nested, record
from .failures.failure import Failure
from .failures.replay import breach_of_seed
from .seeds import draw

_CHUNK_OPERATIONS = 8
_Chunk = tuple[Situation, range]


@dataclass(slots=True)
class Depth:
    """What there was to explore after so many crashes."""

    situations: int = 0
    operations: int = 0


@dataclass(slots=True)
class Exploration:
    """One seed's run, explored."""

    scenario: Scenario
    seed: int
    mutant: str | None
    plan: Plan
    settings: ExploreSettings
    depths: list[Depth] = field(default_factory=list)
    found: ExplorationCounts = field(default_factory=ExplorationCounts)
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def states_per_second(self) -> float:
        """Return how many states were recovered and judged in a second, all else included."""
        return self.found.total.judged / self.seconds if self.seconds else 0.0


def explore_seed(
    scenario: Scenario,
    seed: int,
    settings: ExploreSettings,
    *,
    mutant: str | None = None,
    jobs: int = 1,
    on_progress: Callable[[ExplorationCounts, int, int], None] = lambda found, done, total: None,
) -> Exploration:
    """Explore the first life of a seed's run. on_progress(found, operations done, of how many at this depth)."""
    began = perf_counter()
    done = Exploration(scenario, seed, mutant, first_life(scenario, seed, settings.messages_each), settings)
    with applied_mutant(mutant), guard():
        situation = record(done.plan, draw(scenario, seed)[0])
        if situation is None:
            done.failures.append(_failure_without_crash(done))
    situations = [] if situation is None else [situation]
    for depth in range(settings.nest + 1):
        if not situations:
            break
        done.depths.append(Depth(len(situations), sum(len(one.points) for one in situations)))
        done.found.samples = []
        chunks = [chunk for one in situations for chunk in _chunks(one)]
        operations = 0
        for chunk, found in zip(chunks, _explored(chunks, done, jobs), strict=True):
            operations += len(chunk[1])
            if found is not done.found:
                done.found.add(found)
            on_progress(done.found, operations, done.depths[-1].operations)
        if depth < settings.nest:
            with applied_mutant(mutant), guard():
                situations = [nested(sample) for sample in done.found.samples]
    done.failures += [
        Failure(scenario.name, scenario.claim, seed, mutant, breach)
        for breach in done.found.breaches.values()
    ]
    done.seconds = perf_counter() - began
    return done


def _chunks(situation: Situation) -> list[_Chunk]:
    ends = len(situation.points)
    return [
        (situation, range(first, min(first + _CHUNK_OPERATIONS, ends)))
        for first in range(0, ends, _CHUNK_OPERATIONS)
    ]


def _explored(chunks: list[_Chunk], done: Exploration, jobs: int) -> Iterator[ExplorationCounts]:
    """Yield what each chunk comes to, in order; one process goes on with what it has found before."""
    if jobs == 1:
        for chunk in chunks:
            yield explore_chunk(chunk, done.settings, done.mutant, done.found)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(explore_chunk, chunks, repeat(done.settings), repeat(done.mutant))


def explore_chunk(
    chunk: _Chunk, settings: ExploreSettings, mutant: str | None, found: ExplorationCounts | None = None
) -> ExplorationCounts:
    """Explore some operations of a situation, adding to found if there is something."""
    found = ExplorationCounts() if found is None else found
    situation, numbers = chunk
    with applied_mutant(mutant), guard():
        explorer = Explorer(situation, settings, found)
        for number in numbers:
            with garbage_kept():
                explorer.explore(number)
    return found


def _failure_without_crash(done: Exploration) -> Failure:
    """Return the failure of a run that breaks without a crash."""
    choices = draw(done.scenario, done.seed)[0]
    outcome = Run(done.plan, choices).execute()
    breach = breach_of_seed(done.plan, choices.decisions(), outcome)
    return Failure(done.scenario.name, done.scenario.claim, done.seed, done.mutant, breach)
