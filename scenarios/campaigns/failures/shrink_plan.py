"""Smaller plans: remove parts of a failing run's plan, the largest parts first.

A plan is a list of process runs of the store, called lives. After a life is removed, the numbers of later lives in the
record decrease by one.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from ....faults.plan import FaultPlan, NetworkPlan
from ....faults.simulation.record import Record
from ....sim.shrink import ShrinkSearch
from ...claims.features import ClusterPlan
from ...claims.plan import KNOBS, LifeEnding, Plan
from ...runs.execution import HEAL_MESSAGES_EACH, life_name
from ...workload.traffic import message_names
from .failure import RunRecord

_Part = TypeVar("_Part", FaultPlan, NetworkPlan)


def _plain_values(*features: str) -> dict[str, object]:
    """Return the default values of features' settings, the most expensive setting first."""
    knobs = {
        path: knob for path, knob in KNOBS.items() if knob.plain is not None and (path.partition(".")[0] in features)
    }
    return {path: knobs[path].plain for path in sorted(knobs, key=lambda path: -knobs[path].weight)}


_OF_MACHINES = ("cluster", "broker")
_PLAIN = _plain_values(*{path.partition(".")[0] for path in KNOBS} - set(_OF_MACHINES))
_PLAIN_CLUSTER, _PLAIN_BROKER = _plain_values("cluster"), _plain_values("broker")
_LEAST = {path: knob.least for path, knob in KNOBS.items() if knob.least is not None}
"""Minimum value of each setting that shrinking lowers by bisection."""

_FILE_SIZES = {"commit_log_bytes": (1024, 2048), "consume_queue_bytes": (40, 100), "index.entries": (2, 5)}
_OTHER_BYTES = 160
"""The size of a record without its body, plus the blank record at the end of a segment."""
_FEW_MESSAGES = 2
"""Shrinking tries fewer, larger messages only in runs with more messages than this."""

_PLACE = re.compile(r"\b(?P<kind>life-|disk-|m)(?P<number>\d+)(?=[./]|$)")


def shrink_workload(search: ShrinkSearch[RunRecord]) -> None:
    for number in reversed(range(len(search.best.setup.lives))):
        if len(search.best.setup.lives) > 1:
            search.attempt(without_life(search.best, number))
    search.attempt(_with_only_messages(search.best, _message_names(search.best.setup, healing=False)))
    if not search.attempt(_with_plan_changes(search.best, _PLAIN)):
        _try_each_change(search, _PLAIN)
    _shrink_faults(search)
    if search.best.setup.cluster.slaves:
        _shrink_cluster(search)
    if search.best.setup.broker.serves:
        _try_each_change(search, _PLAIN_BROKER)
    _lower_value(search, "producers")
    for number in range(len(search.best.setup.lives)):
        search.lower_value(
            search.best.setup.lives[number].messages_each,
            0,
            lambda record, value, number=number: _with_life(record, number, messages_each=value),  # type: ignore[misc]
        )
    _drop_messages(search)
    _try_larger_messages(search)
    for path in _LEAST:
        _lower_value(search, path)


def _drop_messages(search: ShrinkSearch[RunRecord]) -> None:
    search.drop_parts(lambda record: _message_names(record.setup), _with_only_messages)


def _try_larger_messages(search: ShrinkSearch[RunRecord]) -> None:
    for changes in _smaller_files(search.best.setup):
        before = search.best
        messages = len(_message_names(before.setup))
        if messages <= _FEW_MESSAGES:
            return
        if search.attempt(_with_plan_changes(before, changes)):
            _drop_messages(search)
            if len(_message_names(search.best.setup)) >= messages:
                search.best = before


def _smaller_files(plan: Plan) -> Iterator[dict[str, object]]:
    for messages_each in (1, 2, 3):
        body_bytes = plan.commit_log_bytes // messages_each - _OTHER_BYTES
        yield {"messages.equal_sizes": True, "messages.body_bytes_max": body_bytes, "messages.property_bytes_max": 0}
    for path, sizes in _FILE_SIZES.items():
        for size in sizes:
            if size < plan.value(path):
                yield {path: size}


def shrink_lives(search: ShrinkSearch[RunRecord]) -> None:
    """Replace the end of each life by a clean stop, or a rare kind of crash by a crash during traffic."""
    for number in range(len(search.best.setup.lives)):
        life = search.best.setup.lives[number]
        if life.ending != LifeEnding.STOP and search.attempt(_with_stop_ending(search.best, number)):
            continue
        is_in_operation = any(crash.life == life_name(number) and crash.point for crash in search.best.crashes)
        if is_in_operation and life.ending not in (LifeEnding.STOP, LifeEnding.CRASH_IN_TRAFFIC):
            search.attempt(_with_life(search.best, number, ending=LifeEnding.CRASH_IN_TRAFFIC))


def _with_stop_ending(record: RunRecord, number: int) -> RunRecord:
    crashes = tuple(crash for crash in record.crashes if crash.life != life_name(number))
    return _with_life(replace(record, crashes=crashes), number, ending=LifeEnding.STOP, operation=-1)


def without_life(record: RunRecord, gone: int) -> RunRecord:
    def rename(text: str) -> str | None:
        """Renumber the lives in a text. Return None if the text names the removed life."""
        numbers = [int(place["number"]) for place in _PLACE.finditer(text)]
        if gone in numbers:
            return None
        return _PLACE.sub(lambda place: f"{place['kind']}{int(place['number']) - (int(place['number']) > gone)}", text)

    decisions = []
    for decision in record.decisions:
        stream, label = rename(decision.stream), rename(decision.label)
        if stream is not None and label is not None:
            decisions.append(decision._replace(stream=stream, label=label))
    schedule = []
    for switch in record.schedule:
        task, label, chosen = rename(switch.task), rename(switch.label), rename(switch.chosen)
        if task is not None and label is not None and chosen is not None:
            schedule.append(switch._replace(task=task, label=label, chosen=chosen))
    crashes = []
    for crash in record.crashes:
        life = rename(crash.life)
        if life is not None:
            crashes.append(crash._replace(life=life))
    plan = record.setup
    assert 0 <= gone < len(plan.lives), (gone, len(plan.lives))
    lives = plan.lives[:gone] + plan.lives[gone + 1 :]
    left_out = tuple(name for name in map(rename, plan.left_out) if name is not None)
    plan = replace(plan, lives=lives, left_out=left_out)
    return Record(tuple(decisions), tuple(schedule), tuple(crashes), plan)


def _shrink_faults(search: ShrinkSearch[RunRecord]) -> None:
    def chances(record: RunRecord) -> list[str]:
        return [*_enabled_faults(record.setup.faults), *_enabled_faults(record.setup.network)]

    def keeping(record: RunRecord, kept: Sequence[str]) -> RunRecord:
        plan = record.setup
        return _with_plan_changes(
            record, {"faults": _with_only_faults(plan.faults, kept), "network": _with_only_faults(plan.network, kept)}
        )

    search.drop_parts(chances, keeping)


def _enabled_faults(part: FaultPlan | NetworkPlan) -> list[str]:
    """Return the faults that the plan enables on disks or the network. No fault has the same name in both."""
    names = (field.name for field in fields(part) if field.name.endswith("_chance"))
    return [name for name in names if getattr(part, name)]


def _with_only_faults(part: _Part, kept: Sequence[str]) -> _Part:
    gone: dict[str, Any] = {name: 0.0 for name in _enabled_faults(part) if name not in kept}
    return replace(part, **gone)


def _shrink_cluster(search: ShrinkSearch[RunRecord]) -> None:
    if not search.attempt(_with_plan_changes(search.best, {"cluster": ClusterPlan()})):
        _try_each_change(search, _PLAIN_CLUSTER)


def _try_each_change(search: ShrinkSearch[RunRecord], values: Mapping[str, object]) -> None:
    for path, value in values.items():
        search.attempt(_with_plan_changes(search.best, {path: value}))


def _lower_value(search: ShrinkSearch[RunRecord], path: str) -> None:
    search.lower_value(
        search.best.setup.value(path), _LEAST[path], lambda record, value: _with_plan_changes(record, {path: value})
    )


def _message_names(plan: Plan, *, healing: bool = True) -> list[str]:
    """healing: include the final life, which checks liveness."""
    each = [life.messages_each for life in plan.lives] + [HEAL_MESSAGES_EACH] * (healing and plan.heals)
    return [
        name
        for number, messages_each in enumerate(each)
        for producer in range(plan.producers)
        for name in message_names(plan, number, producer, messages_each)
    ]


def _with_only_messages(record: RunRecord, kept: Sequence[str]) -> RunRecord:
    everything = _message_names(replace(record.setup, left_out=()))
    return _with_plan_changes(record, {"left_out": tuple(name for name in everything if name not in kept)})


def _with_plan_changes(record: RunRecord, changes: Mapping[str, object]) -> RunRecord:
    return replace(record, setup=record.setup.with_values(changes))


def _with_life(record: RunRecord, number: int, **changes: object) -> RunRecord:
    lives = list(record.setup.lives)
    assert 0 <= number < len(lives), (number, len(lives))
    lives[number] = replace(lives[number], **changes)  # type: ignore[arg-type]
    return _with_plan_changes(record, {"lives": tuple(lives)})
