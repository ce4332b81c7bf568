"""Execution: the base class of runs, with the kernel, the judge and the outcome."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType

from ... import store as store_package
from ...faults.crashes.profiles import PROFILES, CrashProfile
from ...faults.disk.disk import Disk
from ...faults.disk.syncs import SyncTiming
from ...faults.kinds import FaultKind
from ...faults.simulation.simulation import Crash, Simulation
from ...sim.disturbances import Disturbances
from ...sim.machine import Machine
from ...sim.policies.starving import StarvingPolicy
from ...store.formats.messages import PutMessageStatus
from ...store.marks import marks_collected, marks_forced
from ...store.message_store import MessageStore
from ...store.recovery.recovery import RecoveryReport
from ..claims.landmarks import plan_landmarks_ms
from ..claims.machine import BODY_BYTES_MAX, BODY_LIMIT, config_of
from ..claims.plan import Life, LifeEnding, Plan
from ..oracle.disk_space import DiskRoom
from ..oracle.evidence import Violation, tries_collected
from ..oracle.invariants import live, side_files
from ..oracle.invariants.quiescence import Cursor
from ..oracle.judge import Judge, StopOnViolation
from ..oracle.ledger import Ledger, OnRequest, Versions
from ..oracle.progress import GroupProgress
from ..workload.store_sender import OnAnswer
from ..workload.traffic import Traffic
from ..workload.transaction_traffic import TransactionTraffic
from .crash_aims import aimed_trigger
from .loading import die_if_excused, load_judged
from .marks import ReachedMark, RunMarks
from .outcome import RunOutcome
from .settling import Settling

HEAL_MESSAGES_EACH = 2
_POWER_CUT_CHANCE = 0.5
HEAL = Life(LifeEnding.STOP, "nothing-lost", -1, "after", HEAL_MESSAGES_EACH)
"""The last start and stop, after those of the plan. No fault happens then, so all requests must succeed."""
_BROKER = "broker"
_WITHOUT_POINTS = frozenset({"filters", "formats", "plugins", "real", "settings", "stats", "tools"})
"""Parts of the store without attribute points: only values, real files, directory views, and the inexact `stats`.

A cached function runs its code only once in a process, so points in that code would make a first run differ from a
second. The caches of expressions (`filters`) and of values (`formats`) are such functions.
"""


@cache
def shared_modules(*, broker: bool) -> tuple[ModuleType, ...]:
    """Return the store's modules with objects that several tasks share. Some runs set attribute points there.

    broker: whether to include the broker's modules, which are slow to import.
    """
    below = f"{store_package.__name__}."
    return tuple(
        import_module(found.name)
        for found in walk_packages(store_package.__path__, below)
        for part in [found.name.removeprefix(below).partition(".")[0]]
        if part not in _WITHOUT_POINTS and (broker or part != _BROKER)
    )


def life_name(number: int) -> str:
    return f"life-{number}"


def sync_timing_of(plan: Plan) -> SyncTiming:
    return SyncTiming(base_ns_max=plan.sync_ms_max * 1_000_000)


def _ledger_of(plan: Plan) -> Ledger:
    config = config_of(plan).config_directory
    of_groups = "lmqConsumerOffset.json" if plan.light_queues.chance else "consumerOffset.json"
    progress = Versions(f"{config}/delayOffset.json"), Versions(f"{config}/{of_groups}")
    return Ledger(tears=plan.faults.torn_bytes_chance > 0.0, delay_progress=progress[0], group_progress=progress[1])


class Execution(ABC):
    """One run of one plan."""

    def __init__(self, plan: Plan, simulation: Simulation, *, on_request: OnRequest | None = None) -> None:
        self.simulation = simulation
        self._plan = plan
        self._choices = choices = simulation.choices
        self._kernel = simulation.kernel
        simulation.landmarks_ms = plan_landmarks_ms(plan)
        drawn = [Crash(life_name(number), life.profile, life.moment, "") for number, life in enumerate(plan.lives)]
        self._crashes = tuple(simulation.planned_crash(crash, crash) for crash in drawn)
        self._lives = tuple(
            replace(life, profile=crash.profile, moment=crash.moment)
            for life, crash in zip(plan.lives, self._crashes, strict=True)
        )
        if plan.attribute_points:
            simulation.switch_at_attributes(*shared_modules(broker=plan.broker.serves))
        self._number = 0
        """The index of the present `Life` in the plan; the number of lives after the last one."""
        self._ledger = _ledger_of(plan)
        self._ledger.on_request = on_request
        self._progress = GroupProgress(plan, self._ledger)
        """The progress files of the store that receives users' requests."""
        self._judge = Judge(plan, self._kernel, self._ledger)
        self._disturbances = Disturbances(self._kernel, choices.stream("disturbances"), plan.disturbances)
        self._settling = Settling(
            plan, self._kernel, self._ledger, self._judge, choices.stream, self._disturbances.paused_ns
        )
        self._outcome = RunOutcome(plan)
        self._marks = RunMarks(plan, Counter())
        self._prepare()

    @abstractmethod
    def _prepare(self) -> None:
        """Create the objects that only this kind of run needs."""

    @abstractmethod
    def _run_all_lives(self) -> None:
        """Run all lives of the plan. The judge ends a run with an exception."""

    @abstractmethod
    def _injection_counters(self) -> Iterable[Counter[str]]:
        """Return the counters of all faults except disk faults."""

    def _arm_death(self, disk: Disk) -> None:
        operation, crash = self._plan.lives[self._number].operation, self._crashes[self._number]
        aimed = aimed_trigger(self._plan.crash_aim, operation, self._marks.hits)
        self.simulation.arm_crash(disk, crash, None if operation < 0 else operation, aimed=aimed)

    def _power_cut_after_stop(self, life: Life, host: str = "") -> CrashProfile | None:
        """Choose at random whether the power fails right after a clean stop, which must have synced all data.

        The power never fails on a disk that lies about syncs.
        """
        profile = PROFILES[(self._lives[-1] if life is HEAL else life).profile]
        if profile.page_cache_survives or self._plan.faults.lying_sync_chance:
            return None
        power = self._choices.stream("power after stops")
        return profile if power.chance(_POWER_CUT_CHANCE, f"{life_name(self._number)}{host}") else None

    def _note_crash(self, *, ends_life: bool = True) -> None:
        """ends_life: whether the crash ends the current `Life` of the plan."""
        self._outcome.crash_points += 1
        if ends_life and self._number < len(self._crashes):
            self.simulation.note_crash(self._crashes[self._number])

    def _load_store(
        self,
        store: MessageStore,
        disk: Disk,
        machine: Machine,
        load_progress: Callable[[], Iterable[Violation]] = tuple,
    ) -> None:
        """Load a store, then its progress files, and report violations.

        Raises MachineDied if a disk fault permits a failed load, else StopOnViolation.
        """
        if self._kernel.trace is not None:
            self._kernel.trace.emit(store)
        progress: list[Violation] = []

        def load() -> tuple[MessageStore, RecoveryReport]:
            return store, store.load()

        def load_progress_files() -> None:
            progress.extend(load_progress())

        with self._timed_step("a load", store) if disk.capacity_bytes is None else nullcontext():
            place = self._kernel, self._plan, self._judge, machine, disk, store.config
            load_judged(*place, load, load_progress_files, awaits_room=True)
        self._judge.report(progress)

    def _timed_step(self, name: str, store: MessageStore) -> AbstractContextManager[None]:
        return self._judge.timed_step(name, store, after_faults=self._number == len(self._lives))

    def _start_store(self, store: MessageStore, disk: Disk, machine: Machine) -> None:
        """Raises MachineDied if a disk fault makes the start fail."""
        self._judge.watch_queue_flushes(store, disk)
        try:
            with self._timed_step("a start", store):
                store.start()
        except OSError as error:
            die_if_excused(self._kernel, machine, disk, error)
            raise
        self._judge.report(side_files.check_started_delivery(store, disk))

    def _make_users(
        self,
        number: int,
        store: MessageStore,
        disk: Disk,
        room: DiskRoom | None = None,
        on_answer: OnAnswer | None = None,
    ) -> Traffic:
        """Return the users of a store in a life, and start the store's transaction check.

        room: the capacity of a limited disk. on_answer: an additional check of answers to puts.
        """
        plan, manager, transactions = self._plan, self._progress.manager, None
        fields = plan, store, disk, self._ledger, self._judge.report
        if manager is not None and plan.transactions.chance:
            # A master that waits for slaves has no time limit for a put.
            # A half message that is too long for now delays the checks of all later ones.
            has_limit = plan.starts.switched == BODY_LIMIT and store.config.max_message_size < BODY_BYTES_MAX
            is_calm = plan.is_alone and not has_limit and (number == len(plan.lives) or live.is_calm(plan))
            transactions = TransactionTraffic(*fields, manager, is_calm)
            transactions.start()
        progress = manager if plan.consuming.commits_offsets else None
        after_put = room, self._disturbances.paused_ns, on_answer
        return Traffic(*fields, number, self._choices.stream, progress, transactions, *after_put)

    def _await_users_settled(self, store: MessageStore, disk: Disk, traffic: Traffic) -> None:
        transactions = traffic.transactions
        if transactions is not None:
            transactions.await_settled()

        def progress_cursors() -> Iterator[Cursor]:
            yield from self._progress.cursors(store, disk)
            if transactions is not None:
                yield from transactions.cursors()

        self._settling.await_idle(store, disk, progress_cursors, known=self._progress.last_error_text)

    def execute(self) -> RunOutcome:
        """Execute the run. Raises only errors of the test code itself."""
        outcome, kernel = self._outcome, self._kernel
        with (
            kernel,
            marks_collected(self._observer_of_marks()) as hits,
            tries_collected() as tries,
            self._forced_branches(),
        ):
            self._marks = RunMarks(self._plan, hits)
            with suppress(StopOnViolation), self.simulation.with_attribute_points():
                self._run_all_lives()
            outcome.digest = kernel.digest()
        outcome.marks = +hits
        outcome.tried = tuple(sorted(tries))
        outcome.violations = self._judge.violations
        outcome.ledger = self._ledger
        outcome.injected += self.simulation.injected
        for injected in self._injection_counters():
            outcome.injected += injected
        if isinstance(self.simulation.policy, StarvingPolicy):
            outcome.injected += self.simulation.policy.injected
        self._count_puts()
        outcome.steps = kernel.steps
        outcome.virtual_ns = kernel.now_ns
        return outcome

    def _observer_of_marks(self) -> Callable[[str], None] | None:
        trace = self._kernel.trace
        return None if trace is None else lambda name: trace.emit(ReachedMark(name))

    @contextmanager
    def _forced_branches(self) -> Iterator[None]:
        chance, stream = self._plan.forced_branch_chance, self._choices.stream("forced branches")

        def decide(mark: str) -> bool:
            # After the lives of the plan, all time limits must hold, as without faults.
            is_forced = self._number < len(self._lives) and stream.chance(chance, mark)
            self._outcome.injected[FaultKind.FORCED_BRANCH] += is_forced
            return is_forced

        if not chance:  # a callback would only cost time
            yield
            return
        with marks_forced(decide):
            yield

    def _count_puts(self) -> None:
        self._outcome.messages = len(self._ledger.puts)
        self._outcome.put_us = Counter(
            (put.answered_ns - put.asked_ns) // 1000
            for put in self._ledger.puts
            if put.status is PutMessageStatus.PUT_OK and put.answered_ns is not None
        )
