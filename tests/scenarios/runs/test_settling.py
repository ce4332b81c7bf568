"""Settling: the waits of a run, with a clock that only sleeps advance."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.fixtures import QUIET_PLAN
from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.oracle import allowances
from tornlog.scenarios.oracle.invariants import clean, live, quiescence
from tornlog.scenarios.oracle.invariants.quiescence import Cursor
from tornlog.scenarios.oracle.judge import Judge, StopOnViolation
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.runs.settling import Settling
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk

WITHIN_MS = 1_000


class Late(Exception):
    """A QUIET violation."""


class Waiting:
    """A service that finishes after some time, and a run that waits for it."""

    def __init__(self, plan: Plan, comes_ms: int, paused_ns: Callable[[int], int]) -> None:
        self.now_ns = 0
        self._comes_ns = comes_ms * 1_000_000
        world = SimpleNamespace(tasks=SimpleNamespace(sleep=self._sleep))
        self._store = SimpleNamespace(world=world)
        self._judge = SimpleNamespace(report=self._report, judge_positions=lambda store, disk: None)
        self._settling = Settling(plan, self, Ledger(), self._judge, str, paused_ns)

    def _sleep(self, ms: int) -> None:
        self.now_ns += ms * 1_000_000

    def _report(self, violations: Iterable[object]) -> None:
        raise Late

    def _cursors(self) -> list[Cursor]:
        at = 1 if self.now_ns >= self._comes_ns else 0
        return [Cursor("flush", "a service", at, 1, WITHIN_MS)]

    def clean(self, uncleaned: Callable[[], list[str]], ask: Callable[[], None]) -> None:
        """Wait until no expired segment is left. ask: requests a deletion."""
        self._store.execute_delete_files_manually = ask
        self._store.config = SimpleNamespace(clean_resource_interval_ms=10_000)
        self._judge.leftover_violations = lambda store, disk: uncleaned()
        self._judge.judge_answers_about_removed = lambda store: None
        disk = SimpleNamespace(injected=Counter(), is_stopped=False, has_transient_faults=False)
        self._settling.await_retention(self._store, disk)

    def catch_up(self, disk: object) -> None:
        """Wait until dispatch, the example of a service, has finished."""
        self._store.log = SimpleNamespace(put_offset=1)
        self._store.dispatch = SimpleNamespace(readable_limit=lambda: 1)
        self._judge.judge_pulls = lambda store: None
        self._settling.await_visible(self._store, disk)

    def run(self) -> bool:
        disk = SimpleNamespace(injected=Counter(), is_stopped=False, has_transient_faults=False)
        return self._settling._await_cursors(self._store, disk, self._cursors)


def test_settling_waits_for_a_service_that_finishes_in_time() -> None:
    waiting = Waiting(QUIET_PLAN, WITHIN_MS, int)

    assert waiting.run()
    assert waiting.now_ns >= WITHIN_MS * 1_000_000


def test_a_service_that_does_not_finish_in_time_is_reported_as_late() -> None:
    with pytest.raises(Late):
        Waiting(QUIET_PLAN, 10 * WITHIN_MS, lambda _: 0).run()


def test_paused_time_does_not_make_a_service_late() -> None:
    waiting = Waiting(QUIET_PLAN, 10 * WITHIN_MS, lambda _: waiting.now_ns // 20 * 19)
    assert waiting.run()

    waiting = Waiting(QUIET_PLAN, 10 * WITHIN_MS, lambda _: waiting.now_ns // 2)
    with pytest.raises(Late):
        waiting.run()


@pytest.mark.parametrize(("began_s", "judged"), [(0, True), (300, False)])
def test_a_deletion_is_requested_again_only_after_all_passes_of_the_first_request(
    began_s: int, judged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = Waiting(QUIET_PLAN, 0, lambda _: 0)
    waiting.now_ns = began_s * 1_000_000_000
    asked: list[int] = []
    monkeypatch.setattr(clean, "passes_ms_max", lambda store, work_ms: 1_000)
    monkeypatch.setattr(live, "work_ms_max", lambda plan, store: 0)
    monkeypatch.setattr(allowances, "needs_restart", lambda disk: False)

    def run() -> None:
        waiting.clean(lambda: [] if asked else ["it stays"], lambda: asked.append(waiting.now_ns))

    if judged:
        with pytest.raises(Late):
            run()
    else:
        run()
    assert bool(asked) is not judged


class StoppingDisk:
    """A disk with a file system that shuts down later, because of an earlier sync error."""

    damage = ()
    has_transient_faults = False

    def __init__(self, waiting: Waiting, stops_ms: int) -> None:
        self._waiting = waiting
        self._stops_ns = stops_ms * 1_000_000

    @property
    def is_stopped(self) -> bool:
        return self._waiting.now_ns >= self._stops_ns

    @property
    def injected(self) -> Counter[str]:
        return Counter({"slow IO": 1, "failed sync": int(self.is_stopped)})


@pytest.mark.parametrize(("stops_ms", "is_excused"), [(WITHIN_MS // 2, True), (1_000 * WITHIN_MS, False)])
def test_a_file_system_stop_while_waiting_for_a_service_excuses_it(
    stops_ms: int, is_excused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = replace(QUIET_PLAN, heals=True, errors_stop=True)
    waiting = Waiting(plan, 2_000 * WITHIN_MS, lambda _: 0)
    monkeypatch.setattr(quiescence, "reading_cursors", lambda *_, **__: waiting._cursors())

    if is_excused:
        waiting.catch_up(StoppingDisk(waiting, stops_ms))
    else:
        with pytest.raises(Late):
            waiting.catch_up(StoppingDisk(waiting, stops_ms))


def test_several_stores_have_separate_ledgers_and_one_list_of_violations() -> None:
    kernel = Kernel(RandomWalk(Choices("judges").stream("schedule"), 4))
    ledger = Ledger(tears=True)
    first = Settling(QUIET_PLAN, kernel, ledger, Judge(QUIET_PLAN, kernel, ledger), Choices("judges").stream)
    second = first.for_other_store()

    first.ledger.record_expired_before(1024)
    assert (second.ledger.expired_to, second.ledger.tears) == (0, True)
    with pytest.raises(StopOnViolation):
        second.judge.report_and_stop("LIVE", "a service of the second", "field", "expected", "found")
    assert [violation.invariant for violation in first.judge.violations] == ["LIVE"]
