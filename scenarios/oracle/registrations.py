"""Registrations: the brokers that one name server must list, by the connections over which they registered (QUIET).

A broker is listed from the answer to its newest registration until it unregisters, the connection of that
registration ends, or 120 s have passed. The end of an earlier connection changes nothing, whenever the name server
notices it. If two requests of a broker overlap, it is open which of them is the newest.
Source: RocketMQ RouteInfoManager.registerBroker, onChannelDestroy (brokerLiveTable).
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from .evidence import Violation, record_tried
from .invariants.routes import Identity

_LISTED_NS = 110_000_000_000
"""Less than RocketMQ's 120 s, because a name server reads its clock before the request is answered."""
Key = tuple[str, int]
"""Name and id of a broker."""


class _Connection(Protocol):
    @property
    def is_open(self) -> bool: ...


class Registration(NamedTuple):
    """A registration that a name server has answered."""

    connection: _Connection
    address: str
    topics: Collection[str]
    begin_ns: int


@dataclass(slots=True)
class Registrations:
    """The registrations at a name server since its start."""

    _newest: dict[Key, Registration] = field(default_factory=dict)
    _under_way: Counter[Key] = field(default_factory=Counter)
    """The number of requests of each broker that the name server executes now."""
    _overlapping: set[Key] = field(default_factory=set)

    def begin_request(self, broker: Key) -> None:
        """Record that the name server begins to register or unregister a broker."""
        if self._under_way[broker]:
            self._overlapping.add(broker)
        self._under_way[broker] += 1
        self._newest.pop(broker, None)

    def end_request(self, broker: Key, registration: Registration | None) -> None:
        """registration: None for a request to unregister, and for one that failed."""
        self._under_way[broker] -= 1
        assert self._under_way[broker] >= 0, broker
        if self._under_way[broker]:
            return
        if broker not in self._overlapping and registration is not None:
            self._newest[broker] = registration
        self._overlapping.discard(broker)

    def listed_brokers(self, topic: str, now_ns: int) -> Mapping[Key, Registration]:
        """Return the brokers that a route must have. Call this before the name server looks."""
        return {
            broker: each
            for broker, each in self._newest.items()
            if topic in each.topics and now_ns - each.begin_ns < _LISTED_NS
        }

    def check_route(self, expected: Mapping[Key, Registration], found: Collection[Identity]) -> Iterator[Violation]:
        """QUIET: yield each broker that an answer omits. expected: the result of `listed_brokers`."""
        for broker, each in expected.items():
            if self._newest.get(broker) is not each or not each.connection.is_open:
                continue  # the broker has registered again, or left
            record_tried("QUIET")
            identity = *broker, each.address
            if identity not in found:
                summary = f"{each.address} is not in a route although the connection of its registration is open"
                yield Violation("QUIET", summary, "", -1, "routes", str(identity), str(sorted(found)))
