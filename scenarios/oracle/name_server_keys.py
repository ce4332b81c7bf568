"""Name server keys: the values that operators have set at one name server, and its setting of ordered routes (META).

A value is certain from the answer to its change on, also after a crash of the name server. A change without an answer
may have had an effect, and so may each of two that overlap. `orderMessageEnable` is off after each start.

A namespace keeps an empty table after its last key, and answers have this table: brokers change no mark without one.
Source: RocketMQ KVConfigManager.putKVConfig, persist; NamesrvConfig.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ...store.broker.kv_config import ORDER_TOPIC_CONFIG
from .evidence import Violation, record_tried

Place: TypeAlias = tuple[str, str]
"""Namespace and key."""
Values = frozenset[str | None]
_NONE: Values = frozenset((None,))
ORDER_ENABLED: Place = ("", "orderMessageEnable")
"""The setting, which has the form of a key here."""


class KnownNamespace(NamedTuple):
    """The possible values of each key that was ever set in a namespace."""

    values: Mapping[str, Values]
    has_table: bool
    """Whether a key was set, so that answers have a table."""


@dataclass(slots=True)
class NameServerKeys:
    """The possible values of each key. A missing key has the value None."""

    _possible: dict[Place, Values] = field(default_factory=dict)
    _under_way: Counter[Place] = field(default_factory=Counter)
    _overlapping: set[Place] = field(default_factory=set)
    _named: set[str] = field(default_factory=set)
    """The namespaces in which a key was set."""
    changes: int = 0
    """The number of changes that have begun."""

    def begin_process(self) -> None:
        """Record a start of the name server."""
        self._under_way.clear()
        self._overlapping.clear()
        self._possible[ORDER_ENABLED] = frozenset(("false",))

    def begin_change(self, place: Place, value: str | None) -> None:
        if self._under_way[place]:
            self._overlapping.add(place)
        self._under_way[place] += 1
        self.changes += 1
        self._possible[place] = self.values(place) | {value}

    def end_change(self, place: Place, value: str | None, *, is_done: bool) -> bool:
        """Return whether the value is certain from now on."""
        self._under_way[place] -= 1
        assert self._under_way[place] >= 0, place
        if is_done and value is not None:
            self._named.add(place[0])
        is_certain = is_done and place not in self._overlapping
        self._possible[place] = frozenset((value,)) if is_certain else frozenset([*self.values(place)])
        if not self._under_way[place]:
            self._overlapping.discard(place)
        return is_certain

    def values(self, place: Place) -> Values:
        return self._possible.get(place, _NONE)

    def namespace(self, name: str) -> KnownNamespace:
        values = {key: values for (of, key), values in self._possible.items() if of == name}
        return KnownNamespace(values, name in self._named)

    def check_value(self, place: Place, before: Values, found: str | None) -> Iterator[Violation]:
        """META: yield a value in an answer that the key cannot have. before: `values` before the request."""
        record_tried("META")
        allowed = before | self.values(place)
        if before is self.values(place) and not self._under_way[place] and found in allowed:
            self._possible[place] = frozenset((found,))  # an answer shows which of two overlapping changes came last
        if found not in allowed:
            yield _violation(f"the value of {':'.join(place)}", allowed, found)

    def check_namespace(
        self, name: str, before: KnownNamespace, found: Mapping[str, str] | None
    ) -> Iterator[Violation]:
        """META: yield each value in an answer that its key cannot have, and a missing table.

        before: `namespace` before the request.
        """
        known = {} if found is None else found
        for key in sorted({*self.namespace(name).values, *known}):
            yield from self.check_value((name, key), before.values.get(key, _NONE), known.get(key))
        if found is None and before.has_table:
            yield _violation(f"the table of {name}", frozenset(("a table",)), None)

    def check_order_in_route(self, topic: str, before: tuple[Values, Values], found: str | None) -> Iterator[Violation]:
        """META: yield the value of ORDER_TOPIC_CONFIG in a route that contradicts key or setting.

        before: the possible values of both, see `order_of`.
        """
        values, enabled = (old | new for old, new in zip(before, self.order_of(topic), strict=True))
        allowed = (values if "true" in enabled else frozenset()) | (_NONE if "false" in enabled else frozenset())
        record_tried("META")
        if found not in allowed:
            yield _violation(f"orderTopicConf of {topic}", allowed, found)

    def order_of(self, topic: str) -> tuple[Values, Values]:
        """Return the possible values of a topic's key and of the setting."""
        return self.values((ORDER_TOPIC_CONFIG, topic)), self.values(ORDER_ENABLED)

    def check_marked(
        self, orders: Mapping[str, bool], before: Mapping[str, Values] | None = None
    ) -> Iterator[Violation]:
        """META: yield each topic of a broker whose mark contradicts ORDER_TOPIC_CONFIG.

        orders: topic -> whether it is marked as ordered. before: the values that the broker may have read earlier.
        """
        record_tried("META")
        for topic, is_ordered in orders.items():
            values = self.values((ORDER_TOPIC_CONFIG, topic)) | (before or {}).get(topic, frozenset())
            if is_ordered not in {value is not None for value in values}:
                yield _violation(f"the order of {topic}", values, str(is_ordered))

    def check_loaded(self, find: Callable[[str], Mapping[str, str] | None]) -> Iterator[Violation]:
        """META: yield each value that a start does not find as set. find: returns the loaded values of a namespace."""
        for name, key in sorted(self._possible.keys() - {ORDER_ENABLED}):
            found = (find(name) or {}).get(key)
            yield from self.check_value((name, key), self.values((name, key)), found)
            self._possible[name, key] = frozenset((found,))


def _violation(what: str, allowed: Values, found: str | None) -> Violation:
    expected = str(sorted(str(each) for each in allowed))
    return Violation("META", f"{what} is not as an operator has set it", "", -1, "name server", expected, str(found))
