"""Garbage is collected between runs, whatever happens in one."""

import gc
import weakref

import pytest

from tornlog.scenarios.campaigns import seeds
from tornlog.scenarios.campaigns.seeds import run_seed
from tornlog.scenarios.claims.scenario import Scenario
from tornlog.sim.garbage import garbage_kept


class Cycle:
    """Something that only the collector can free."""

    def __init__(self) -> None:
        self.itself = self


def test_what_a_block_makes_is_kept_until_its_end() -> None:
    with garbage_kept():
        made = weakref.ref(Cycle())
        assert not gc.isenabled()
        assert made() is not None

    assert gc.isenabled()
    assert made() is None


def test_a_run_that_raises_leaves_the_collector_as_it_was(
    monkeypatch: pytest.MonkeyPatch, quiet_scenario: Scenario
) -> None:
    def run_nothing(*_: object, **__: object) -> None:
        assert not gc.isenabled()
        raise MemoryError

    monkeypatch.setattr(seeds, "_run", run_nothing)

    assert run_seed(quiet_scenario, 0).outcome == "harness-error"
    assert gc.isenabled()
