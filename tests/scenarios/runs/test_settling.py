"""Settling: for how long a run waits, on a clock that a sleep moves."""

from collections.abc import Callable, Iterable
from types import SimpleNamespace

import pytest

from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.oracle.invariants.quiescence import Cursor
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.runs.settling import Settling

WITHIN_MS = 1_000


class Late(Exception):
    """QUIET was broken."""


class Waiting:
    """A service that comes to its end after a while, and a run that waits for it."""

    def __init__(self, plan: Plan, comes_ms: int, paused_ns: Callable[[], int]) -> None:
        self.now_ns = 0
        self._comes_ns = comes_ms * 1_000_000
        world = SimpleNamespace(tasks=SimpleNamespace(sleep=self._sleep))
        self._store = SimpleNamespace(world=world)
        judge = SimpleNamespace(report=self._report)
        self._settling = Settling(plan, self, Ledger(), judge, str, paused_ns)

    def _sleep(self, ms: int) -> None:
        self.now_ns += ms * 1_000_000

    def _report(self, violations: Iterable[object]) -> None:
        raise Late

    def _cursors(self) -> list[Cursor]:
        at = 1 if self.now_ns >= self._comes_ns else 0
        return [Cursor("flush", "a service", at, 1, WITHIN_MS)]

    def run(self) -> bool:
        return self._settling._await(self._store, self._cursors)


def test_a_service_that_comes_to_its_end_in_time_is_waited_for(quiet_plan: Plan) -> None:
    waiting = Waiting(quiet_plan, WITHIN_MS, int)

    assert waiting.run()
    assert waiting.now_ns >= WITHIN_MS * 1_000_000


def test_a_service_that_does_not_is_late(quiet_plan: Plan) -> None:
    with pytest.raises(Late):
        Waiting(quiet_plan, 10 * WITHIN_MS, int).run()


def test_the_time_that_tasks_were_paused_for_is_not_held_against_a_service(quiet_plan: Plan) -> None:
    waiting = Waiting(quiet_plan, 10 * WITHIN_MS, lambda: waiting.now_ns // 20 * 19)
    assert waiting.run()

    waiting = Waiting(quiet_plan, 10 * WITHIN_MS, lambda: waiting.now_ns // 2)
    with pytest.raises(Late):
        waiting.run()
