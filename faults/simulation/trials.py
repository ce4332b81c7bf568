"""Trials: run a user's scenario seed by seed, up to the first failure.

    coverage = Coverage()
    finding = find(scenario, range(1000), coverage.add)
    print(finding or coverage)

A run without a failure proves something only about injected faults, so `Coverage` counts them.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from traceback import extract_tb
from typing import Protocol

from ...sim.choices import Choices
from ...sim.errors import TaskFailedError
from ...sim.guard import leak_guard
from ...sim.policies.random_walk import draw_policy
from ...sim.trace import Trace
from . import record as records
from .explore import ExplorationCounts, WholeRunExplorer, explore_chunk, situation_of
from .finding import Finding, TrialRecord
from .promises import PromiseBroken, count_reached_promises, declared_promises, is_promise
from .record import Program, RecordReplay, execute, record_of, verify_record
from .simulation import DISK_STREAM, STEP_LIMIT, Crash, Scenario, Simulation
from .story import FailureSubjects, story_of

EXPLORE_LIMIT = 64
"""Default maximum of states per crash, low because each state takes a whole run."""
_STORY_LINES = 30
_ROOT = __file__.rsplit("/", 3)[0]
_OURS = tuple(f"{_ROOT}/{package}/" for package in ("sim", "faults", "store", "scenarios"))


class NeverInjected(UserWarning):
    """No run failed, and a possible fault or event never happened."""


class RunInjections(Protocol):
    """The input of `Coverage` from a run."""

    @property
    def injected(self) -> dict[str, int]:
        """How often each fault was injected, by the names in `kinds`."""

    @property
    def enabled(self) -> tuple[str, ...]: ...


class Coverage:
    """Injection counts of faults over all runs."""

    def __init__(self) -> None:
        self.seeds = 0
        self.injected: Counter[str] = Counter()
        """Number of injections of each fault. `crash` counts crashed machines."""
        self._enabled: dict[str, None] = {}

    def add(self, seed: int, outcome: RunInjections) -> None:
        """Add a run. `find` accepts this method as `on_run`."""
        self.seeds += 1
        self.injected.update(outcome.injected)
        self._enabled.update(dict.fromkeys(outcome.enabled))

    @property
    def never_injected(self) -> list[str]:
        """Possible faults that were never injected, and promises that no run reached."""
        return [name for name in self._enabled if not self.injected[name]]

    def __str__(self) -> str:
        faults = {name: times for name, times in self.injected.items() if not name.startswith("crash")}
        promises = {name: faults.pop(name) for name in list(faults) if is_promise(name)}
        never = self.never_injected
        unreached = [name for name in never if is_promise(name)]
        lines = [
            f"{self.seeds:,} seed{'' if self.seeds == 1 else 's'}, {self.injected['crash']:,} crashes",
            f"  injected        {_most_frequent_first(faults) or 'none'}",
            f"  never injected  {', '.join(n for n in never if not is_promise(n)) or 'none'}",
        ]
        if promises or unreached:
            lines.append(f"  reached         {_most_frequent_first(promises) or 'none'}")
            lines.append(f"  never reached   {', '.join(unreached) or 'none'}")
        return "\n".join(lines)


def _most_frequent_first(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {times:,}" for name, times in sorted(counts.items(), key=lambda one: (-one[1], one[0])))


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """The result of one run."""

    failure: Exception | None
    """The error of the run or of a failed task."""
    digest: str
    steps: int
    injected: dict[str, int]
    """How often each fault was injected, by the names in `kinds`."""
    enabled: tuple[str, ...]
    """Possible faults, and the promises and events in the source of the scenario and its modules."""
    crashes: tuple[Crash, ...]

    @property
    def signature(self) -> str:
        """Identity of the failure: the broken promise, or the type of the error. Empty: no failure."""
        failure = self.failure
        if isinstance(failure, PromiseBroken):
            return failure.promise
        return "" if failure is None else type(failure).__name__

    @property
    def error(self) -> str:
        failure = self.failure
        if isinstance(failure, PromiseBroken):
            return str(failure)
        return "" if failure is None else f"{type(failure).__name__}: {failure}"

    @property
    def raised(self) -> str:
        """Innermost line of the user's code in the traceback of the error."""
        if self.failure is None:
            return ""
        frames = extract_tb(self.failure.__traceback__)
        own = [frame for frame in frames if not frame.filename.startswith(_OURS)]
        return f"{own[-1].filename}:{own[-1].lineno} in {own[-1].name}" if own else ""


TrialReplay = RecordReplay[None, TrialOutcome]


def program_of(scenario: Scenario) -> Program[None, TrialOutcome]:
    """Return a scenario as a program. The result has the scenario's error."""
    return partial(_run_scenario, scenario)


def _run_scenario(scenario: Scenario, setup: None, run: Simulation) -> TrialOutcome:
    failure: Exception | None = None
    with run.kernel as kernel, count_reached_promises(run.promises):
        try:
            scenario(run)
        except TaskFailedError as error:
            failure = error.__cause__ if isinstance(error.__cause__, Exception) else error
        except Exception as error:
            failure = error
        digest = kernel.digest()
    enabled = tuple(dict.fromkeys([*run.enabled, *declared_promises(scenario)]))
    return TrialOutcome(failure, digest, kernel.steps, dict(run.injected), enabled, run.crashes)


def run_seed(scenario: Scenario, seed: int) -> TrialOutcome:
    """Run one seed under the guard. LeakError: a task used a resource outside its world."""
    return execute(program_of(scenario), None, _simulation_of(seed))


def _simulation_of(seed: int) -> Simulation:
    choices = Choices(str(seed))
    return Simulation(choices, draw_policy(choices.stream("schedule")))


def find(
    scenario: Scenario, seeds: Iterable[int], on_run: Callable[[int, TrialOutcome], None] = lambda seed, outcome: None
) -> Finding | None:
    """Run seeds up to the first failure, and return its finding, or None. on_run: called with each seed and its run.

    NeverInjected: a warning that no seed failed and a possible fault was never injected. LeakError: as for run_seed.
    ReplayDivergedError: the failed run cannot be repeated.
    """
    coverage = Coverage()

    def add_run(seed: int, outcome: TrialOutcome) -> None:
        coverage.add(seed, outcome)
        on_run(seed, outcome)

    finding = first_failure(scenario, seeds, add_run)
    never = coverage.never_injected
    if finding is None and never:
        text = f"no failure in {coverage.seeds:,} seeds, but these never occurred: {', '.join(never)}"
        warnings.warn(NeverInjected(text), stacklevel=2)
    return finding


def first_failure(
    scenario: Scenario, seeds: Iterable[int], on_run: Callable[[int, TrialOutcome], None]
) -> Finding | None:
    program = program_of(scenario)
    with leak_guard():  # one guard around all runs makes the guard of each run cheap
        for seed in seeds:
            simulation = _simulation_of(seed)
            outcome = execute(program, None, simulation)
            on_run(seed, outcome)
            if outcome.failure is not None:
                trace = Trace()
                replayed = record_of(program, None, simulation, outcome, trace)
                return _make_finding(seed, replayed.record, outcome, trace)
    return None


def replay(
    scenario: Scenario, record: TrialRecord, trace: Trace | None = None, *, step_limit: int = STEP_LIMIT
) -> TrialReplay:
    """Replay a record.

    Skip recorded decisions that do not occur; unrecorded decisions have their defaults.
    """
    return records.replay(program_of(scenario), record, trace, step_limit=step_limit)


def finding_of(scenario: Scenario, seed: int, record: TrialRecord) -> Finding:
    """Return the finding of a record. ReplayDivergedError: its replay diverges or does not fail."""
    trace = Trace()
    return _make_finding(seed, record, verify_record(program_of(scenario), record, trace).result, trace)


def _make_finding(seed: int, record: TrialRecord, outcome: TrialOutcome, trace: Trace) -> Finding:
    assert outcome.failure is not None, seed
    verdict = type(outcome.failure).__name__
    story = tuple(story_of(trace, _failure_subjects_of(record, outcome, trace), _STORY_LINES, verdict=verdict))
    return Finding(seed, record, outcome.signature, outcome.error, outcome.digest, outcome.steps, story, outcome.raised)


def _failure_subjects_of(record: TrialRecord, outcome: TrialOutcome, trace: Trace) -> FailureSubjects:
    """Return the files in the error, the crashes or the disk decisions, the switched tasks, and the crashed machines.

    Without the crashed machines, the story would have only events of the last machine, which often only judges.
    """
    concern = FailureSubjects(machines={crash.life for crash in record.crashes})
    concern.tasks = {task for switch in record.schedule for task in (switch.task, switch.chosen)}
    draws = [decision.label for decision in record.decisions if decision.stream.startswith(DISK_STREAM)]
    concern.add_paths(trace, [outcome.error, *draws, *(crash.point for crash in record.crashes)])
    concern.names = [*sorted(concern.paths), *sorted(concern.tasks), *sorted(concern.machines)]
    return concern


@dataclass(frozen=True, slots=True)
class TrialExploration:
    """The results of crashes at each operation of one machine."""

    life: str
    findings: tuple[Finding, ...]
    counts: ExplorationCounts[None]

    def __str__(self) -> str:
        total = self.counts.total
        every = f"all states of {total.exhausted:,} of {total.crashes:,} crashes"
        head = f"{self.life}: {total.moments:,} moments, {total.judged:,} states judged, {every}"
        return "\n".join([head, *(f"  broken  {finding.error}" for finding in self.findings)])


def explore(scenario: Scenario, seed: int = 0, *, life: str = "", limit: int = EXPLORE_LIMIT) -> TrialExploration:
    """Crash one machine of a seed at each of its operations, and judge every state.

    Other machines run as with the seed, without crashes. life: name of the machine; default: the first that may crash.
    limit: maximum states per crash. ValueError: no machine may crash.
    """
    program, choices = program_of(scenario), Choices(str(seed))
    simulation = Simulation(choices, draw_policy(choices.stream("schedule")), crashes=())
    situation, outcome = situation_of(program, None, simulation, life=life)
    found: ExplorationCounts[None] = ExplorationCounts()
    if situation is None:
        trace = Trace()
        record = record_of(program, None, simulation, outcome, trace).record
        return TrialExploration("", (_make_finding(seed, record, outcome, trace),), found)
    explore_chunk(WholeRunExplorer(program, limit), situation, range(len(situation.points)), found)
    broken = [records.replay(program, record).record for record in found.breaches.values()]
    findings = tuple(finding_of(scenario, seed, record) for record in broken)
    return TrialExploration(situation.life, findings, found)
