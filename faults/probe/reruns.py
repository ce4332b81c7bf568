"""Reruns: run the program again, each time with a fault or another thread order.

Each rerun is probed from its first difference to the first run. After an error the program need not make further
promises, but its earlier promises must hold. Breaches of the first run on the same disk are omitted.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain

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
from .tracing.control import POLICIES, CallFault, MatchedCall, RunControl, depth_of
from .tracing.process import TracedRun
from .visits import EVERY_POINT, FaultCoverage, VisitPlan

ORDER = "another order"
Rerun = Callable[[RunControl], TracedRun]
"""Runs the program with a fault or in a thread order. ProgramError: the run cannot be recorded."""


@dataclass(frozen=True, slots=True)
class RerunBreach:
    """All broken states with one signature in the reruns of one kind. control, record: belong to the smallest case."""

    control: RunControl
    record: ProgramRecord
    group: ViolationGroup


@dataclass(slots=True)
class Reruns:
    """The reruns of one probe. first, found, verdicts: the first run and its results."""

    checkers: Checkers
    rerun: Rerun
    start: Image
    first: ProgramRecord
    found: ProbeReport
    verdicts: Verdicts
    limit: int
    plan: VisitPlan = EVERY_POINT
    policy: str = POLICIES[0]
    """Scheduling policy of the seeds."""
    on_progress: Callable[["Reruns", RunControl], None] = lambda reruns, control: None
    runs: int = 0
    """Number of runs with an injected fault or a seeded thread order."""
    failed: int = 0
    """Number of runs in which the program failed."""
    refusals: int = 0
    """Number of refused operations in the runs."""
    enabled: Sequence[FaultKind] = ()
    tried: list[FaultKind] = field(default_factory=list)
    """Completed faults: injected at every matching call, up to the limit."""
    coverage: dict[FaultKind, FaultCoverage] = field(default_factory=dict)
    """Matching calls by fault."""
    rules: Sequence[CallFault] = ()
    """Fault rules of the user."""
    aimed: dict[str, Sequence[MatchedCall]] = field(default_factory=dict)
    """Calls with an injected fault, by the text of the rule."""
    seeds_asked: int = 0
    seeds_first: Sequence[int] = ()
    """Seeds of failures from earlier probes, to try first."""
    seeds_tried: set[int] = field(default_factory=set)
    seeds_failed: set[int] = field(default_factory=set)
    """Seeds with a breach that is not in `VisitPlan.known`."""
    injected: Counter[str] = field(default_factory=Counter)
    """Number of injections of each kind of fault."""
    runs_max: int = 0
    """Maximum number of runs for each kind of fault."""
    seeds: int = 0
    orders: int = 0
    """Number of different records among the seeds."""
    choices: int = 0
    hurried: int = 0
    """Number of choices between several threads, and of choices while another thread was still running."""
    points: int = 0
    points_of: int = 0
    """Number of crash points in the recorded runs. `points` counts the tried ones."""
    states: int = 0
    judged: int = 0
    discarded: dict[str, list[RunControl]] = field(default_factory=dict)
    """Runs without a record, by reason. Their faults and orders have no verdict."""
    breaches: dict[tuple[str, str], RerunBreach] = field(default_factory=dict)
    """Breaches by kind of rerun and signature."""
    _confirmed: defaultdict[str, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))
    """(disk, signature) of confirmed time-outs, by kind of rerun."""

    @property
    def never_injected(self) -> list[str]:
        """Return the requested faults without a matching call."""
        lost = {fault.kind for fault in self._discarded_faults}
        return [kind for kind in self.tried if not self.injected[kind] and kind not in lost]

    @property
    def never_reached(self) -> list[str]:
        """Return the rules without a matching call."""
        return [rule for rule, calls in self.aimed.items() if not calls]

    @property
    def is_without_fault(self) -> bool:
        """Return whether faults were requested and tried, but none was injected."""
        return bool(self.tried) and not self.injected and not any(self.aimed.values())

    @property
    def _discarded_faults(self) -> list[CallFault]:
        return [one.fault for one in chain(*self.discarded.values()) if one.fault is not None]

    @property
    def cut(self) -> list[FaultKind]:
        """Return the faults with more matching calls than the limit."""
        return [kind for kind, found in self.coverage.items() if len(found.calls) > self.runs_max]

    @property
    def untried(self) -> list[str]:
        """Return the requested faults and seeds that were not completed.

        The probe ended early, or the run that lists the calls has no record.
        """
        seeds = self.seeds_asked - self.seeds - sum(one.seed is not None for one in chain(*self.discarded.values()))
        rules = [str(rule) for rule in self.rules if rule not in self._discarded_faults and str(rule) not in self.aimed]
        faults = [*rules, *(str(kind) for kind in self.enabled if kind not in self.tried)]
        return [*faults, f"{seeds:,} of {self.seeds_asked:,} seeds"] if seeds else faults

    @property
    def refused(self) -> dict[str, int]:
        """Return the number of discarded runs by reason."""
        return {reason: len(controls) for reason, controls in self.discarded.items()}

    @property
    def in_order(self) -> list[tuple[tuple[str, str], RerunBreach]]:
        """Return the breaches, most severe first, then smallest first."""
        return sorted(self.breaches.items(), key=lambda one: (one[1].group.smallest.rank, one[0]))

    def skip_reruns(self, kinds: Sequence[FaultKind], seeds: int, rules: Sequence[CallFault] = ()) -> None:
        """Skip all reruns; `untried` lists their faults and seeds."""
        self.enabled, self.rules, self.seeds_asked = kinds, rules, seeds

    def run(self, kinds: Sequence[FaultKind], runs_max: int, seeds: int, rules: Sequence[CallFault] = ()) -> None:
        """Execute all reruns. After an early end `untried` lists the rest."""
        ordered = list(dict.fromkeys([*self.seeds_first, *range(seeds)]))
        self.enabled, self.rules, self.seeds_asked, self.runs_max = kinds, rules, len(ordered), runs_max
        with suppress(EndedEarlyError):
            self._inject_rules()
            self._inject_all_kinds()
            self._try_thread_orders(ordered)

    def _inject_rules(self) -> None:
        for rule in self.rules:
            control = RunControl(rule)
            run = self._run_once(control)
            if run is None:
                continue
            step = self._first_difference(run)
            if step is not None:
                self._explore_rerun(str(rule), control, run.record, step)
            self.aimed[str(rule)] = () if step is None else run.matched

    def _inject_all_kinds(self) -> None:
        listing = self._run_once(RunControl(listed=tuple(self.enabled))) if self.enabled else None
        if listing is None:
            return
        for kind in self.enabled:
            self.coverage[kind] = FaultCoverage([call for call in listing.matched if call.kind is kind])
        for kind, found in self.coverage.items():
            for number in found.order[: self.runs_max]:
                control = RunControl(CallFault(kind, number + 1))
                run = self._run_once(control)
                if run is not None and (step := self._first_difference(run)) is not None:
                    found.reached += run.matched
                    self.injected[kind] += 1
                    self._explore_rerun(kind, control, run.record, step)
            assert kind not in self.tried, kind
            self.tried.append(kind)

    def _try_thread_orders(self, seeds: Sequence[int]) -> None:
        known = {_actions_of(self.first)}
        for seed in seeds:
            control = RunControl(seed=seed, depth=depth_of(self.policy, seed), horizon_steps=len(self.first.steps) or 1)
            run = self._run_once(control)
            if run is None:
                continue
            self.choices += run.choices
            self.hurried += run.hurried
            changes = _actions_of(run.record)
            if changes not in known:
                known.add(changes)
                self.orders += 1
                self._explore_rerun(
                    ORDER, control, run.record, _common_prefix_length(changes, _actions_of(self.first)) - 1
                )
            self.seeds += 1
            self.seeds_tried.add(seed)

    def _run_once(self, control: RunControl) -> TracedRun | None:
        """Run once. Return None for a run without a record, and add the run to `discarded`."""
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
        is_struck = self._first_difference(run) is not None if control.fault is not None else not control.listed
        self.runs += is_struck
        self.failed += is_struck and run.record.exit != 0
        self.refusals += is_struck and len(run.record.refused)
        assert self.failed <= self.runs, (self.failed, self.runs)
        return run

    def _first_difference(self, run: TracedRun) -> int | None:
        """Return the number of the step before the fault. None: no fault was injected."""
        if not (run.matched and run.record.injected):
            return None
        if self.first.injected:  # faults that the program itself requested in every run
            return _common_prefix_length(_actions_of(run.record), _actions_of(self.first)) - 1
        return run.record.injected[0] - 1

    def _explore_rerun(self, kind: str, control: RunControl, record: ProgramRecord, first_step: int) -> None:
        answers = _common_prefix_length(_answers_of(record), _answers_of(self.first))
        verdicts = {key: verdict for key, verdict in self.verdicts.items() if key[1] <= answers}
        known = {(disk, signature) for signature, group in self.found.breaches.items() for disk in group.disks}
        prober = Prober(
            record,
            self.start,
            self.checkers,
            disks=[disk for disk in self.found.counts if disk not in AT_REST],
            limit=self.limit,
            verdicts=verdicts,
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
                self._record_breach((kind, signature), RerunBreach(control, record, group))
                if control.seed is not None and signature not in self.plan.known:
                    self.seeds_failed.add(control.seed)

    def _record_breach(self, key: tuple[str, str], breach: RerunBreach) -> None:
        known = self.breaches.setdefault(key, breach)
        if known is breach:
            return
        smaller = min(known, breach, key=lambda one: one.group.smallest.rank)
        group = known.group.merged_with(breach.group, smaller.group.smallest)
        self.breaches[key] = RerunBreach(smaller.control, smaller.record, group)


def _actions_of(record: ProgramRecord) -> tuple[tuple[object, ...], ...]:
    """Return the actions of a record, without the tasks."""
    return tuple((one.kind, one.path, one.target, one.file, one.at, one.size, one.data) for one in record.steps)


def _answers_of(record: ProgramRecord) -> list[tuple[str, str]]:
    """Return the promises and refusals of a record, without the tasks."""
    return [(step.kind, step.path) for step in record.answers]


def _common_prefix_length(one: Sequence[object], other: Sequence[object]) -> int:
    pairs = zip(one, other, strict=False)
    return next((number for number, (ours, theirs) in enumerate(pairs) if ours != theirs), min(len(one), len(other)))


def rerun_text(control: RunControl, record: ProgramRecord) -> str:
    """Describe how a rerun differed from the first run."""
    if control.fault is None:
        return f"threads in another order, by {control}"
    fault = control.fault
    steps = [
        number for number in record.injected if fault.kind in (record.steps[number].kind, record.steps[number].path)
    ]
    struck = step_text(record, (steps or record.injected)[0]).strip()
    if fault.text:
        others = len(steps) - 1
        return f"{fault}, step {struck}{f', and {others:,} more' if others else ''}"
    return f"{fault.kind} at call {fault.nth} of those to which it applies, step {struck}"
