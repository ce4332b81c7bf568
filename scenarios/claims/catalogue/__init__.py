"""Catalogue of claims, one module for each theme."""

from importlib import import_module
from pkgutil import iter_modules

from ..scenario import Scenario
from . import swarm

_THEMES = (
    "crashes",
    "answers",
    "recovery",
    "exhaustion",
    "directory",
    "lookups",
    "delivery",
    "disturbances",
    "clusters",
    "brokers",
    "broker_services",
    "unsound_disks",
    "swarm",
)
"""Simplest claims first. Each module's tuple sets the order of its scenarios."""

assert sorted(_THEMES) == [module.name for module in iter_modules(__path__)], "_THEMES is not this folder"


def _collect_scenarios() -> dict[str, Scenario]:
    scenarios: list[Scenario] = [
        scenario for theme in _THEMES for scenario in import_module(f".{theme}", __name__).SCENARIOS
    ]
    by_name = {scenario.name: scenario for scenario in scenarios}
    assert len(by_name) == len(scenarios), "two scenarios have the same name"
    return by_name


SCENARIOS: dict[str, Scenario] = _collect_scenarios()
SWARM: frozenset[str] = frozenset(scenario.name for scenario in swarm.SCENARIOS)
"""The scenarios that combine features and faults at random."""
