"""Store machine: Hypothesis runs a store in steps and shrinks failures.

    from tornlog.scenarios.testing.strategies import StoreMachine

    TestStore = StoreMachine.TestCase

The steps are put, pull, look-up, query, passing time, flush, power cut, recovery and stop. The model is the ledger,
which records the store's answers. Random values within a step, such as the size of a message or the data lost in a
power cut, are 0 except for a few unusual ones. The schedule of tasks has a few deviations. A failed test prints the
unusual values and the deviations. Only one user runs at a time, concurrently with the store's tasks. For concurrent
users see `plans`.
"""

from collections.abc import Callable
from typing import ClassVar

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from ....faults.disk.fault_injector import MOMENTS
from ....sim.policies import Policy
from ...claims.plan import KNOBS
from ...claims.ranges import Ranges, draw_plan
from ...mutants.known import applied_mutant
from .choices import NONE, DrawnChoices, Surprise, UnusualDraws, schedules, surprises
from .session import StoreSession

_OPERATIONS_IN_LOAD, _OPERATIONS_IN_USE = 24, 40
_PASSED_MS_MAX = 12_000

SMALL = Ranges(
    lives=(1,),
    endings=("stop",),
    commit_log_bytes=(1024, 2048),
    consume_queue_bytes=(100, 200),
    producers=(1,),
    consumers=(0,),
    messages_each=(1,),
    messages={
        "body_bytes_max": (40, 300),
        "property_bytes_max": (0,),
        "equal_sizes": (False,),
        "batch_chance": (0.2,),
        "illegal_chance": (0.0,),
        "no_wait_chance": (0.0, 0.2),
    },
    pauses={"chance": (0.0,), "ms_max": (1,)},
    consuming={"filtered": (False, True)},
    sync_ms_max=(1,),
    disk=("ext4-ordered", "strict-posix", "xfs", "btrfs", "process-kill"),
    index={"slots": (5,), "entries": (5, 12), "keys_chance": (0.3,), "seekers": (1,)},
    memory={"warm_files": (False,)},
    heals=(False,),
    policy=("random-walk",),
)
"""Small stores, in which a few messages fill a segment, on disks that lose only unsynced data."""


class StoreMachine(RuleBasedStateMachine):
    """A store and its users. A subclass can set `ranges` for other stores, or `mutant` for a store with a bug."""

    ranges: ClassVar[Ranges] = SMALL
    mutant: ClassVar[str | None] = None

    def __init__(self) -> None:
        super().__init__()
        self._surprises = UnusualDraws()
        self._choices = DrawnChoices(self._surprises)
        self._session: StoreSession | None = None

    @initialize(surprise=surprises(), schedule=schedules())
    def begin(self, surprise: Surprise, schedule: Policy) -> None:
        """Set up a store on an empty disk. surprise: unusual sizes and settings."""
        self._surprises.set_surprise(surprise)
        drawn, chosen = draw_plan(self._choices.stream("plan"), self.ranges), self.ranges.chosen
        unsupported = {path: knob.plain for path, knob in KNOBS.items() if not knob.in_sessions and path not in chosen}
        plan = drawn.with_values(unsupported)
        self._session = StoreSession(plan, self._choices, schedule)

    @rule(surprise=surprises())
    def put(self, surprise: Surprise) -> None:
        self._run_step(StoreSession.put, surprise)

    @rule(surprise=surprises())
    def pull(self, surprise: Surprise) -> None:
        self._run_step(StoreSession.pull, surprise)

    @rule(surprise=surprises())
    def look_up(self, surprise: Surprise) -> None:
        self._run_step(StoreSession.look_up, surprise)

    @rule(surprise=surprises())
    def query(self, surprise: Surprise) -> None:
        self._run_step(StoreSession.query, surprise)

    @rule(ms=st.integers(1, _PASSED_MS_MAX))
    def time_passes(self, ms: int) -> None:
        self._run_step(lambda session: session.pass_time(ms))

    @rule()
    def flush(self) -> None:
        self._run_step(lambda session: session.flush() and session.catch_up())

    @rule(surprise=surprises())
    def crash(self, surprise: Surprise) -> None:
        """Cut the power between two steps. surprise: unusual choices of the lost data."""
        self._run_step(StoreSession.crash, surprise)

    @rule()
    def stop(self) -> None:
        self._run_step(StoreSession.stop)

    @rule(after=st.integers(0, _OPERATIONS_IN_USE), moment=st.sampled_from(MOMENTS))
    def power_will_fail(self, after: int, moment: str) -> None:
        self._run_step(lambda session: session.fail_power(after, moment))

    @rule(
        power_fails_after=st.none() | st.integers(0, _OPERATIONS_IN_LOAD),
        moment=st.sampled_from(MOMENTS),
        surprise=surprises(),
    )
    def recover(self, power_fails_after: int | None, moment: str, surprise: Surprise) -> None:
        """Cut the power if it is on. Then switch the machine on and check the recovered store."""
        session = self._started_session
        self._surprises.set_surprise(surprise)
        with applied_mutant(self.mutant):
            if session.is_running:
                session.crash()
            session.open(power_fails_after, moment)

    def teardown(self) -> None:
        if self._session is not None:
            self._session.close()
            for decision in self._choices.decisions():
                note(f"drawn: {decision}")

    @property
    def _started_session(self) -> StoreSession:
        assert self._session is not None, "begun"
        return self._session

    def _run_step(self, step: Callable[[StoreSession], object], surprise: Surprise = NONE) -> None:
        """Run a step, and first open the store if necessary. So shrinking can drop any earlier step."""
        session = self._started_session
        self._surprises.set_surprise(surprise)
        with applied_mutant(self.mutant):
            if session.is_running or session.open():
                step(session)
