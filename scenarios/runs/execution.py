"""What runs of all kinds have in common: a kernel, a judge, and what it all comes to in the end."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

from ...faults.disk.disk import Disk
from ...sim.choices import Choices
from ...sim.kernel import Kernel
from ...sim.policies import Policy
from ...sim.policies.starving import Starving
from ...sim.trace import Trace
from ...store.marks import collected
from ...store.message import PutMessageStatus
from ...store.message_store import MessageStore
from ..claims.crash_points import CrashPoints
from ..claims.plan import Life, LifeEnding, Plan
from ..oracle.evidence import tries_collected
from ..oracle.judge import Judge, StopOnViolation
from ..oracle.ledger import Ledger
from ..workload.traffic import Traffic
from .marks import RunMarks
from .outcome import RunOutcome
from .policies import policy_of
from .settling import Settling

STEP_LIMIT = 400_000
HEAL_MESSAGES_EACH = 2
HEAL = Life(LifeEnding.STOP, "nothing-lost", -1, "after", HEAL_MESSAGES_EACH)
"""The life after the last one of the plan, in which everything has to work."""


class Execution(ABC):
    """One run of one plan."""

    def __init__(
        self,
        plan: Plan,
        choices: Choices,
        policy: Policy | None = None,
        trace: Trace | None = None,
        *,
        crash_points: CrashPoints | None = None,
        step_limit: int | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.crash_points = crash_points or CrashPoints()
        self._plan = plan
        self._choices = choices
        self._policy = policy or policy_of(plan, choices)
        self._kernel = Kernel(self._policy, step_limit=step_limit or STEP_LIMIT, trace=trace)
        self._ledger = Ledger() if ledger is None else ledger
        self._judge = Judge(plan, self._kernel, self._ledger)
        self._settling = Settling(plan, self._kernel, self._ledger, self._judge, choices.stream)
        self._outcome = RunOutcome(plan)
        self._marks = RunMarks(plan, Counter())
        self._prepare()

    @abstractmethod
    def _prepare(self) -> None:
        """Make what this kind of run needs beside that."""

    @abstractmethod
    def _play(self) -> None:
        """Let it all happen. What the judge raises ends it."""

    @abstractmethod
    def _fired(self) -> Iterable[Counter[str]]:
        """Return what has counted faults."""

    def _traffic(self, number: int, store: MessageStore, disk: Disk) -> Traffic:
        """Return the users of a store in the life of that number."""
        return Traffic(
            self._plan,
            number,
            self._kernel,
            store,
            disk,
            self._ledger,
            self._judge.report,
            self._choices.stream,
        )

    def execute(self) -> RunOutcome:
        """Run, and return what came of it. Raises only what is wrong with the harness itself."""
        outcome, kernel = self._outcome, self._kernel
        with kernel, collected() as hits, tries_collected() as tries:
            self._marks = RunMarks(self._plan, hits)
            with suppress(StopOnViolation):
                self._play()
            outcome.digest = kernel.digest()
        outcome.marks = +hits
        outcome.tried = tuple(sorted(tries))
        outcome.violations = self._judge.violations
        for fired in self._fired():
            outcome.fired += fired
        if isinstance(self._policy, Starving):
            outcome.fired += self._policy.fired
        self._count_puts()
        outcome.steps = kernel.steps
        outcome.virtual_ns = kernel.now_ns
        outcome.schedule = kernel.schedule
        return outcome

    def _count_puts(self) -> None:
        """Say how many messages there were, and how long those took that were answered OK."""
        self._outcome.messages = len(self._ledger.puts)
        self._outcome.put_us = Counter(
            (put.answered_ns - put.asked_ns) // 1000
            for put in self._ledger.puts
            if put.status is PutMessageStatus.PUT_OK and put.answered_ns is not None
        )
