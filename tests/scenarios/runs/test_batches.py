"""In a share of all runs, the store reads and writes in batches, as with the C core."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.fixtures import QUIET_PLAN, execute
from tornlog.scenarios.campaigns.seeds import draw_plan_of_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.plan import Life, LifeEnding
from tornlog.scenarios.claims.simulated_core import SimulatedCore

SEEDS = 30


@pytest.mark.parametrize("records", [0, 2, 8])
def test_a_store_with_a_core_puts_dispatches_recovers_and_pulls_through_it(
    monkeypatch: pytest.MonkeyPatch, records: int
) -> None:
    called: Counter[str] = Counter()
    for name in ("scan", "store", "pull", "link", "runs"):
        original = getattr(SimulatedCore, name)

        def counting(*arguments: object, name: str = name, original: Callable[..., object] = original) -> object:
            called[name] += 1
            return original(*arguments)

        monkeypatch.setattr(SimulatedCore, name, counting)
    lives = (Life(LifeEnding.CRASH_AT_REST, "nothing-lost", -1, "after", 8),) * 2
    index = replace(QUIET_PLAN.index, slots=5, entries=200)
    outcome = execute(replace(QUIET_PLAN, batch_records=records, index=index, consumers=1, lives=lives))

    assert outcome.violations == []
    assert (called.keys() == {"scan", "store", "pull", "link", "runs"}) if records else not called


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_draws_stores_with_and_without_a_core(name: str) -> None:
    drawn = {draw_plan_of_seed(SCENARIOS[name], seed)[1].batch_records for seed in range(SEEDS)}
    assert drawn == {0, 2, 8}
