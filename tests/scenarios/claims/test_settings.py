"""Scenarios draw the settings of the store, and docs/limits.md lists all others."""

import re
from dataclasses import fields
from pathlib import Path

from tornlog.scenarios.campaigns.seeds import draw_plan_of_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.machine import config_of
from tornlog.store.config import StoreConfig

SEEDS = 20
OF_MACHINES = {"brokerRole", "haListenPort", "haMasterAddress", "haTransferBatchSize", "slaveTimeout"}
"""Settings that runs of several machines change for each machine."""
RESERVED = {"fileReservedTime"}
"""Settings with a fixed value that differs from the default."""


def test_every_setting_is_drawn_or_listed_as_not_drawn() -> None:
    values: dict[str, set[object]] = {each.name: set() for each in fields(StoreConfig)}
    for scenario in SCENARIOS.values():
        for seed in range(SEEDS):
            config = config_of(draw_plan_of_seed(scenario, seed)[1])
            for name, seen in values.items():
                seen.add(getattr(config, name))
    default = StoreConfig("/store")
    names = {each.name: each.metadata["key"].name for each in fields(StoreConfig)}
    same = {names[name] for name, seen in values.items() if seen <= {getattr(default, name)}} - OF_MACHINES

    page = (Path(__file__).parents[3] / "docs" / "limits.md").read_text()
    listed = page.split("No scenario changes these settings")[1].split("- Timelines of")[0]
    ineffective = page.split("Settings without effect:")[1].split("must be false")[0]
    assert set(re.findall(r"`(\w+)`", listed + ineffective)) >= same
    assert set(re.findall(r"`(\w+)`", listed)) <= same | RESERVED
