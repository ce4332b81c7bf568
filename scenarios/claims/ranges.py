"""Ranges: the options for each knob of a plan.

A scenario narrows the ranges to options that test its claim.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...faults.disk.fault_injector import MOMENTS
from ...sim.choices import Stream
from .disk_models import DISK_MODELS, DiskModel
from .plan import FEATURES, KNOBS, Life, LifeEnding, Plan

Options = Sequence[Any]

_OF_LIVES: dict[str, Options] = {
    "endings": ("crash in traffic", "crash in traffic", "crash at rest", "crash in load", "stop"),
    "lives": (1, 1, 2, 3),
    "messages_each": (3, 8, 16),
}
_FEATURES_DRAWN_LAST = ("faults", "rot", "disturbances", "cluster", "network", "broker")
"""The knobs of each feature are chosen in the order of their names."""
_NAMES_DRAWN_AFTER_LIVES = (
    "batch_records",
    "settings",
    "attribute_points",
    "crash_aim",
    "directories",
    "retry",
    "access",
    "broker_settings",
    "log_directories",
)
_DRAWN_FIRST = tuple(
    path for path in KNOBS if path.partition(".")[0] not in (*_FEATURES_DRAWN_LAST, *_NAMES_DRAWN_AFTER_LIVES)
)
_DRAWN_AFTER_LIVES = tuple(path for path in KNOBS if path.partition(".")[0] in _NAMES_DRAWN_AFTER_LIVES)
_DRAWN_LAST = tuple(
    path for feature in _FEATURES_DRAWN_LAST for path in sorted(KNOBS) if path.startswith(f"{feature}.")
)
POLICY_PARAMETERS: dict[str, tuple[Sequence[int], str]] = {
    "random-walk": ((1, 4, 16, 64), "mean stretch"),
    "pct": ((2, 3, 5), "depth"),
    "pos": ((0,), "no parameter"),
    "round-robin": ((1, 2, 3, 5, 8, 13), "quantum"),
}
"""The options and the meaning of each policy's parameter."""
_OPERATIONS_IN_LOAD = 24
_OPERATIONS_IN_CREATION = 7
"""A root of three levels needs a creation and a sync for each level, and the lock file."""
_OPERATIONS_IN_PERSIST = 12


class Ranges:
    """Options for each part of a plan. A single option fixes the value.

    A knob that is not named has its default options.

    >>> ranges = Ranges(consumers=(0,), delay={"chance": (0.3, 0.8)})
    >>> ranges["delay.chance"], ranges["topics"]
    ((0.3, 0.8), (1, 2))
    """

    __slots__ = ("_chances", "_chosen", "_late", "_optional")

    def __init__(self, **chosen: Options | Mapping[str, Options]) -> None:
        """Set options: `endings`, `lives`, `messages_each` and core knobs by name, the knobs of a feature in a mapping.

        Raises ValueError for an unknown name.
        """
        self._chosen = _checked_options(chosen)
        self._optional: dict[str, dict[str, Options]] = {}
        self._chances: dict[str, float] = {}
        self._late: frozenset[str] = frozenset()
        """Names of the optional groups that are drawn after the lives."""

    def __getitem__(self, path: str) -> Options:
        if path in self._chosen:
            return self._chosen[path]
        return _OF_LIVES[path] if path in _OF_LIVES else KNOBS[path].options

    @property
    def chosen(self) -> Mapping[str, Options]:
        """The options that differ from the default options, by path."""
        return self._chosen

    @property
    def optional(self) -> Mapping[str, Mapping[str, Options]]:
        """The options of each optional group, by path."""
        return self._optional

    def with_optional(
        self, chance: float = 0.5, /, **optional: Mapping[str, Options | Mapping[str, Options]]
    ) -> "Ranges":
        """Return ranges with optional groups.

        A seed enables each group independently with the given probability. The options have the form of the
        constructor's. If several active groups set the same knob, the last group wins.
        """
        assert 0.0 < chance < 1.0, chance
        ranges = self.replace()
        assert not ranges._optional.keys() & optional.keys(), optional.keys()
        ranges._optional |= {name: _checked_options(chosen) for name, chosen in optional.items()}
        ranges._chances |= dict.fromkeys(optional, chance)
        return ranges

    def with_late_optional(
        self, chance: float, /, **optional: Mapping[str, Options | Mapping[str, Options]]
    ) -> "Ranges":
        """Return ranges with optional groups that are drawn after the lives, so that other seeds keep their plans.

        They cannot choose the disk, because lives are drawn for it.
        """
        assert not any("disk" in chosen for chosen in optional.values()), optional
        ranges = self.with_optional(chance, **optional)
        ranges._late |= optional.keys()
        return ranges

    def draw_optional(self, stream: Stream) -> "Ranges":
        """Choose which optional groups are enabled, before any other choice. Late groups are left out."""
        if not self._optional:
            return self
        ranges = Ranges()
        ranges._chosen = dict(self._chosen)
        for name, chosen in self._optional.items():
            if name not in self._late and stream.chance(self._chances[name], f"{name} takes part"):
                ranges._chosen |= chosen
        assert not ranges._optional, ranges._optional
        return ranges

    def draw_late(self, stream: Stream) -> dict[str, Any]:
        """Choose the values of the enabled late groups, by path."""
        values: dict[str, Any] = {}
        for name, chosen in self._optional.items():
            if name in self._late and stream.chance(self._chances[name], f"{name} takes part"):
                values |= {path: stream.choice(options, path) for path, options in chosen.items()}
        return values

    @property
    def is_alone(self) -> bool:
        return not any(self["cluster.slaves"]) and not self.has_brokers

    @property
    def has_brokers(self) -> bool:
        return any(self["broker.serves"])

    def replace(self, **changes: Options | Mapping[str, Options] | None) -> "Ranges":
        """Return ranges with other options. None restores a knob's default options.

        Other knobs of a feature do not change. A changed knob is no longer optional.
        """
        kept = {
            path: options
            for path, options in self._chosen.items()
            if changes.get(path.partition(".")[0], ()) is not None
        }
        ranges = Ranges(**{name: change for name, change in changes.items() if change is not None})
        for name, optional in self._optional.items():
            left = {path: options for path, options in optional.items() if not _is_option(path, changes)}
            if left:
                ranges._optional[name] = left
                ranges._chances[name] = self._chances[name]
        ranges._late = self._late & ranges._optional.keys()
        ranges._chosen = {**kept, **ranges._chosen}
        assert ranges._chances.keys() == ranges._optional.keys(), (ranges._chances, ranges._optional)
        return ranges

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranges) and (self._chosen, self._optional, self._late) == (
            other._chosen,
            other._optional,
            other._late,
        )

    def __hash__(self) -> int:
        return hash(frozenset(self._chosen))

    def __repr__(self) -> str:
        return f"Ranges({self._chosen})" + (f".with_optional({self._optional})" if self._optional else "")


def _checked_options(chosen: Mapping[str, Options | Mapping[str, Options]]) -> dict[str, Options]:
    options = dict(_option_paths(chosen))
    for path in options:
        if path not in KNOBS and path not in _OF_LIVES:
            raise ValueError(f"{path}: expected a knob of a plan")
    for ending in options.get("endings", ()):
        LifeEnding(ending)
    return options


def _is_option(path: str, changes: Mapping[str, Options | Mapping[str, Options] | None]) -> bool:
    feature, _, name = path.rpartition(".")
    if not feature:
        return name in changes
    change = changes.get(feature, ())
    return change is None or (isinstance(change, Mapping) and name in change)


def _option_paths(chosen: Mapping[str, Options | Mapping[str, Options]]) -> Iterator[tuple[str, Options]]:
    for name, options in chosen.items():
        if isinstance(options, Mapping) != (name in FEATURES):
            raise ValueError(f"{name}: expected {'a mapping' if name in FEATURES else 'options'}")
        if isinstance(options, Mapping):
            yield from ((f"{name}.{one}", each) for one, each in options.items())
        else:
            yield name, options


def draw_plan(stream: Stream, ranges: Ranges) -> Plan:
    late = ranges
    ranges = ranges.draw_optional(stream)
    drawn = {path: stream.choice(ranges[path], path) for path in _DRAWN_FIRST}
    disk_model = DISK_MODELS[drawn["disk"]]
    drawn["recover_whole_log"] |= disk_model.needs_whole_log
    if disk_model.capacity_bytes:
        drawn["capacity_bytes"] = stream.choice(disk_model.capacity_bytes, "capacity_bytes of the disk")
    on_disk = options_of_disk(disk_model)
    for path in _DRAWN_LAST:
        options = on_disk.get(path) if path not in ranges.chosen else None
        drawn[path] = stream.choice(ranges[path] if options is None else options, path)
    parameter = stream.choice(*POLICY_PARAMETERS[drawn["policy"]])
    lives = tuple(
        _draw_life(stream, ranges, drawn, disk_model.crashes, first=number == 0)
        for number in range(stream.choice(ranges["lives"], "lives"))
    )
    drawn |= {path: stream.choice(ranges[path], path) for path in _DRAWN_AFTER_LIVES}
    drawn |= late.draw_late(stream)
    if drawn["directories.killed_in_creation"]:
        operation = stream.randbelow(_OPERATIONS_IN_CREATION, "operation in creation")
        moment = stream.choice(MOMENTS, "moment in creation")
        lives = (Life(LifeEnding.CRASH_IN_LOAD, "process-kill", operation, moment, 0), *lives)
    # Before the first load there is no traffic, so a crash in it would only test an empty directory.
    assert lives[0].ending != LifeEnding.CRASH_IN_LOAD or drawn["directories.killed_in_creation"], lives[0]
    return _plan_from_values(drawn, policy_parameter=parameter, lives=lives)


def options_of_disk(model: DiskModel) -> dict[str, Options]:
    return dict(_option_paths({"faults": model.faults, "rot": model.rot}))


def _plan_from_values(drawn: Mapping[str, Any], **core_values: Any) -> Plan:
    parts: dict[str, Any] = {name: {} for name in FEATURES}
    for path, value in drawn.items():
        feature, _, name = path.rpartition(".")
        (parts[feature] if feature else core_values)[name] = value
    return Plan(**{name: FEATURES[name](**values) for name, values in parts.items()}, **core_values)


def _draw_life(stream: Stream, ranges: Ranges, drawn: dict[str, Any], crashes: Sequence[str], *, first: bool) -> Life:
    endings = [ending for ending in ranges["endings"] if not first or ending != LifeEnding.CRASH_IN_LOAD]
    ending = stream.choice(endings or [LifeEnding.CRASH_IN_TRAFFIC], "ending")
    messages_each = stream.choice(ranges["messages_each"], "messages each")
    operation = -1
    if ending == LifeEnding.CRASH_IN_LOAD:
        operation = stream.randbelow(_OPERATIONS_IN_LOAD, "crash operation")
    elif ending == LifeEnding.CRASH_IN_TRAFFIC:
        per_message = 4 if drawn["sync_flush"] else 2
        if drawn["delay.chance"]:
            per_message *= 2  # a delayed message is put twice
        if drawn["transactions.chance"]:
            per_message *= 4  # a committed message is put twice too and has an op message; an undecided one is put back
        operation = stream.randbelow(30 + messages_each * drawn["producers"] * per_message, "crash operation")
    elif ending == LifeEnding.CRASH_IN_PERSIST:
        operation = stream.randbelow(_OPERATIONS_IN_PERSIST, "crash operation")
    others = drawn["cluster.slaves"] + drawn["broker.masters"] - 1
    return Life(
        LifeEnding(ending),
        stream.choice(crashes, "profile"),
        operation,
        stream.choice(MOMENTS, "moment"),
        messages_each,
        node=stream.randbelow(others + 1, "node") if others else 0,
    )
