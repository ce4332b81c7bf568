"""Catalogue of claims, one module for each theme."""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

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

_LATE_TIMERS_CHANCE = 0.3
_LATE_TIMERS: Mapping[str, Any] = {"disturbances": {"timer_slack_us": (1_000, 10_000)}}
"""Times as long as between the arrivals of requests of several clients, so that these requests race."""
_ENOUGH_TASKS: Mapping[str, Any] = {"broker": {"tasks_each": (4,)}}
"""As many as a broker has by default: it handles that many requests of a kind at the same time."""
_BACKLOG_CHANCE = 0.01
BACKLOG: Mapping[str, Any] = {
    "consumers": (1,),
    "topics": (1,),
    "queues_per_topic": (1,),
    "consuming": {"filtered": (True,)},
    "commit_log_bytes": (131_072,),
    "consume_queue_bytes": (6_000, 20_000, 20_000),
    "index": {"slots": (0, 0, 40), "entries": (2_000,)},
    "messages": {
        "backlog": (900,),
        "equal_sizes": (False,),
        "body_bytes_max": (0,),
        "property_bytes_max": (0,),
        "illegal_chance": (0.0,),
    },
    "attribute_points": (False,),
}
"""A queue with 900 messages of one tag, which few subscriptions match. A pull ends at a limit of an answer, or after
800 messages that do not match. Recovery and dispatch have far to catch up, and a power cut tears long queue files.
"""

assert sorted(_THEMES) == [module.name for module in iter_modules(__path__)], "_THEMES is not this folder"


def _collect_scenarios() -> dict[str, Scenario]:
    scenarios: list[Scenario] = [
        _with_backlog(_with_late_timers(scenario))
        for theme in _THEMES
        for scenario in import_module(f".{theme}", __name__).SCENARIOS
    ]
    by_name = {scenario.name: scenario for scenario in scenarios}
    assert len(by_name) == len(scenarios), "two scenarios have the same name"
    return by_name


def _with_late_timers(scenario: Scenario) -> Scenario:
    """Let timers fire late in some runs of the scenario. Then a broker has enough tasks, unless it varies them."""
    ranges = scenario.ranges
    varies_tasks = any("broker.tasks_each" in group for group in ranges.optional.values())
    late = {**_LATE_TIMERS, **_ENOUGH_TASKS} if ranges.has_brokers and not varies_tasks else _LATE_TIMERS
    return scenario.with_late_optional(_LATE_TIMERS_CHANCE, late_timers=late)


def _with_backlog(scenario: Scenario) -> Scenario:
    """Let some runs begin with a backlog, if they have a single store and the scenario does not set its sizes."""
    ranges = scenario.ranges
    has_sizes = bool({"commit_log_bytes", "consume_queue_bytes"} & ranges.chosen.keys())
    may_be_full = any("capacity_bytes" in group for group in (ranges.chosen, *ranges.optional.values()))
    if not ranges.is_alone or has_sizes or may_be_full:
        return scenario
    return scenario.with_late_optional(_BACKLOG_CHANCE, backlog=BACKLOG)


SCENARIOS: dict[str, Scenario] = _collect_scenarios()
SWARM: frozenset[str] = frozenset(scenario.name for scenario in swarm.SCENARIOS)
"""The scenarios that combine features and faults at random."""
