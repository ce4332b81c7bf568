"""Reruns of a program, each with one difference: a fault or another thread order.

Each rerun is recorded and probed from its first difference on. After an error a program need not make further promises,
but its earlier promises must hold. Breaches that also occurred in the first run on the same disk are left out.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, count

from ...sim.interruption import EndedEarlyError
from ..crashes.at_rest import AT_REST
from ..disk.image import Image
from ..kinds import FaultKind
from .checks.checkers import Checkers
from .probe import Prober, Verdicts
from .record import ProgramRecord
from .recording.run import ProgramError
from .report import ProbeReport, ViolationGroup
from .story import step_text
from .tracing.control import CallFault, RunControl
from .tracing.run import TracedRun
from .visits import EVERY_POINT, VisitPlan

ORDER = "another order"
Rerun = Callable[[RunControl], TracedRun]
"""Runs the program with a fault or in a thread order. ProgramError: the run cannot be recorded."""


@dataclass(frozen=True, slots=True)
class RerunBreach:
    """All broken states with one signature in the reruns of one kind. control, record: of the smallest case."""

    control: RunControl
    record: ProgramRecord
    group: ViolationGroup


@dataclass(slots=True)
class Reruns:
    """The reruns of one probe. first, found, verdicts: record and results of the first run."""

    checkers: Checkers
    rerun: Rerun
    start: Image
    first: ProgramRecord
    found: ProbeReport
    verdicts: Verdicts
    limit: int
    plan: VisitPlan = EVERY_POINT
    on_progress: Callable[["Reruns", RunControl], None] = lambda reruns, control: None
    runs: int = 0
    """Number of runs with the requested difference. If no call matches a fault, no run is counted."""
    failed: int = 0
    """Number of these runs in which the program failed."""
    refusals: int = 0
    """Number of operations that the program refused in these runs."""
    enabled: Sequence[FaultKind] = ()
    tried: list[FaultKind] = field(default_factory=list)
    """Faults that were injected at every matching call, up to the limit."""
    seeds_asked: int = 0
    injected: Counter[str] = field(default_factory=Counter)
    """Number of injections of each kind of fault."""
    cut: list[FaultKind] = field(default_factory=list)
    """Faults for which the limit may have left out matching calls."""
    seeds: int = 0
    orders: int = 0
    """Number of different records among the seeds."""
    choices: int = 0
    hurried: int = 0
    """How often a thread was chosen among several, and how often while another thread was still running."""
    points: int = 0
    points_of: int = 0
    """Number of crash points in the recorded runs. `points` of them were tried."""
    states: int = 0
    judged: int = 0
    discarded: dict[str, list[RunControl]] = field(default_factory=dict)
    """Runs that could not be recorded, by reason. There is no verdict on their faults and orders."""
    breaches: dict[tuple[str, str], RerunBreach] = field(default_factory=dict)
    """Breaches by kind of difference and signature."""
    _confirmed: defaultdict[str, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))
    """Disk and signature of confirmed time-outs, by kind of difference."""

    @property
    def never_injected(self) -> list[str]:
        """Return the requested faults for which the program has no matching call."""
        lost = {one.fault.kind for controls in self.discarded.values() for one in controls if one.fault is not None}
        return [kind for kind in self.tried if not self.injected[kind] and kind not in lost]

    @property
    def untried(self) -> list[str]:
        """Return the requested faults and seeds that were not completed because the probe ended early."""
        seeds = self.seeds_asked - self.seeds - sum(one.seed is not None for one in chain(*self.discarded.values()))
        faults = [str(kind) for kind in self.enabled if kind not in self.tried]
        return [*faults, f"{seeds:,} of {self.seeds_asked:,} seeds"] if seeds else faults

    @property
    def refused(self) -> dict[str, int]:
        """Return the number of discarded runs by reason."""
        return {reason: len(controls) for reason, controls in self.discarded.items()}

    @property
    def in_order(self) -> list[tuple[tuple[str, str], RerunBreach]]:
        """Return the breaches, most severe first, then smallest first."""
        return sorted(self.breaches.items(), key=lambda one: (one[1].group.smallest.rank, one[0]))

    def leave_out(self, kinds: Sequence[FaultKind], seeds: int) -> None:
        """Do not run again; `untried` lists all faults and seeds."""
        self.enabled, self.seeds_asked = kinds, seeds

    def run(self, kinds: Sequence[FaultKind], runs_max: int, seeds: int) -> None:
        """Run again with faults and in other thread orders. If the probe ends early, `untried` lists the rest."""
        self.enabled, self.seeds_asked = kinds, seeds
        with suppress(EndedEarlyError):
            self._strike(runs_max)
            self._reorder(seeds)

    def _strike(self, runs_max: int) -> None:
        for kind in self.enabled:
            for nth in count(1):
                if nth > runs_max:
                    self.cut.append(kind)
                    break
                control = RunControl(CallFault(kind, nth))
                run = self._run(control)
                if run is None:
                    continue
                if not run.record.injected:
                    break  # the program has no further call for this fault
                self.injected[kind] += 1
                self._explore(kind, control, run.record, run.record.injected[0] - 1)
            assert kind not in self.tried, kind
            self.tried.append(kind)

    def _reorder(self, seeds: int) -> None:
        known = {_actions_of(self.first)}
        for seed in range(seeds):
            control = RunControl(seed=seed)
            run = self._run(control)
            if run is None:
                continue
            self.choices += run.choices
            self.hurried += run.hurried
            changes = _actions_of(run.record)
            if changes not in known:
                known.add(changes)
                self.orders += 1
                self._explore(ORDER, control, run.record, _common_prefix_length(changes, _actions_of(self.first)) - 1)
            self.seeds += 1

    def _run(self, control: RunControl) -> TracedRun | None:
        """Run once. Return None if the run could not be recorded, and add it to `discarded`."""
        self.on_progress(self, control)
        try:
            run = self.rerun(control)
        except ProgramError as error:
            self.discarded.setdefault(str(error), []).append(control)
            return None
        reasons = [*(f"{one.event}: {one.detail}" for one in run.record.unseen), *run.unlike]
        if reasons:
            self.discarded.setdefault(reasons[0], []).append(control)
            return None
        is_struck = control.fault is None or bool(run.record.injected)
        self.runs += is_struck
        self.failed += is_struck and run.record.exit != 0
        self.refusals += is_struck and len(run.record.refused)
        assert self.failed <= self.runs, (self.failed, self.runs)
        return run

    def _explore(self, kind: str, control: RunControl, record: ProgramRecord, first_step: int) -> None:
        answers = _common_prefix_length(_answers_of(record), _answers_of(self.first))
        verdicts = {key: verdict for key, verdict in self.verdicts.items() if key[1] <= answers}
        known = {(disk, signature) for signature, group in self.found.breaches.items() for disk in group.disks}
        prober = Prober(
            record,
            self.start,
            self.checkers,
            [disk for disk in self.found.counts if disk not in AT_REST],
            self.limit,
            verdicts,
            known=known,
            plan=self.plan,
            confirmed=self._confirmed[kind],
        )
        try:
            prober.run(first_step)
        finally:
            self.points += prober.found.points
            self.points_of += prober.found.points_of or prober.found.points
            self.states += prober.found.states
            self.judged += prober.found.judged
            for signature, group in prober.found.breaches.items():
                self._keep((kind, signature), RerunBreach(control, record, group))

    def _keep(self, key: tuple[str, str], breach: RerunBreach) -> None:
        known = self.breaches.setdefault(key, breach)
        if known is breach:
            return
        smaller = min(known, breach, key=lambda one: one.group.smallest.rank)
        group = known.group.joined(breach.group, smaller.group.smallest)
        self.breaches[key] = RerunBreach(smaller.control, smaller.record, group)


def _actions_of(record: ProgramRecord) -> tuple[tuple[object, ...], ...]:
    """Return the actions of a record in order, without the tasks."""
    return tuple((one.kind, one.path, one.target, one.file, one.at, one.size, one.data) for one in record.steps)


def _answers_of(record: ProgramRecord) -> list[tuple[str, str]]:
    """Return the promises and refusals of a record in order, without the tasks."""
    return [(step.kind, step.path) for step in record.answers]


def _common_prefix_length(one: Sequence[object], other: Sequence[object]) -> int:
    pairs = zip(one, other, strict=False)
    return next((number for number, (ours, theirs) in enumerate(pairs) if ours != theirs), min(len(one), len(other)))


def rerun_text(control: RunControl, record: ProgramRecord) -> str:
    """Describe how a rerun differed from the first run."""
    if control.fault is None:
        return f"threads in another order, by seed {control.seed}"
    kind, nth = control.fault
    struck = step_text(record, record.injected[0]).strip()
    return f"{kind} at call {nth} of those that it can strike, step {struck}"
