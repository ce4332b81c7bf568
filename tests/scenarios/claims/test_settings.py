"""Scenarios draw the settings of stores and brokers, and docs/limits.md lists all others."""

import re
from dataclasses import fields
from pathlib import Path

from tornlog.scenarios.campaigns.seeds import draw_plan_of_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.machine import config_of
from tornlog.scenarios.runs.broker.broker_settings import broker_config_of
from tornlog.scenarios.runs.broker.identities import identities_of
from tornlog.store.broker.broker_config import BrokerConfig
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
    listed = page.split("No scenario changes these settings")[1].split("- No scenario changes these settings of a")[0]
    ineffective = page.split("Settings without effect:")[1].split("must be false")[0]
    assert set(re.findall(r"`(\w+)`", listed + ineffective)) >= same
    assert set(re.findall(r"`(\w+)`", listed)) <= same | RESERVED


def test_every_setting_of_a_broker_is_drawn_or_listed_as_not_drawn() -> None:
    values: dict[str, set[object]] = {each.name: set() for each in fields(BrokerConfig)}
    for scenario in SCENARIOS.values():
        for seed in range(SEEDS if scenario.ranges.has_brokers else 0):
            plan = draw_plan_of_seed(scenario, seed)[1]
            addresses = [identity.address for identity in identities_of(plan)]
            for own in addresses:
                config = broker_config_of(plan, own, [each for each in addresses if each != own], 0)
                for name, seen in values.items():
                    seen.add(getattr(config, name))
    default = BrokerConfig()
    keys = {each.name: each.metadata["key"].name for each in fields(BrokerConfig)}
    same = {keys[name] for name, seen in values.items() if seen <= {getattr(default, name)}}

    page = (Path(__file__).parents[3] / "docs" / "limits.md").read_text()
    listed = page.split("No scenario changes these settings of a broker")[1].split("- Timelines of")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == same
