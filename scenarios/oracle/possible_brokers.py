"""Possible brokers: the brokers that a name server may list, and its answers about clusters and topics (QUIET).

A broker must not be listed

    after it has unregistered, until it registers again
    after the end of the connection of its newest registration, as soon as the name server has handled the end
    120 s after its newest registration or query of a version

If two requests about a broker overlap, both of their registrations are possible. Registrations that a name server must
list are in `registrations`.
Source: RocketMQ RouteInfoManager.unregisterBroker, onChannelDestroy, scanNotActiveBroker, getAllClusterInfo.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .evidence import Violation, record_tried
from .invariants.routes import Identity
from .registrations import Key, Registration

_EXPIRED_NS = 120_000_000_000  # RocketMQ RouteInfoManager.BROKER_CHANNEL_EXPIRED_TIME
Change = Mapping[Key, int]
"""Broker -> number of requests about it so far."""


@dataclass(slots=True)
class PossibleBrokers:
    """The possible registrations of each broker that does not contain the name server.

    has_ended: whether the name server has handled the end of a connection.
    """

    has_ended: Callable[[Any], bool] = lambda connection: False
    _possible: dict[Key, list[Registration]] = field(default_factory=dict)
    _heard_ns: dict[Key, int] = field(default_factory=dict)
    """Broker -> latest possible time of its last registration or query of a version."""
    _under_way: Counter[Key] = field(default_factory=Counter)
    _overlapping: set[Key] = field(default_factory=set)
    _requests: Counter[Key] = field(default_factory=Counter)
    _deletions: int = 0
    """Number of deletions of topics under way. They may also change brokers that register meanwhile."""

    def begin_request(self, broker: Key) -> None:
        """Record that the name server begins a request that may change, remove or refresh a broker."""
        if self._under_way[broker] or self._deletions:
            self._overlapping.add(broker)
        self._under_way[broker] += 1
        self._requests[broker] += 1
        self._possible.setdefault(broker, [])

    def end_request(
        self, broker: Key, registration: Registration | None = None, *, heard_ns: int = 0, leaves: bool = False
    ) -> bool:
        """Return whether no other request about the broker was under way.

        registration: None if the request has registered nothing. heard_ns: 0 if the request does not refresh it.
        """
        self._under_way[broker] -= 1
        assert self._under_way[broker] >= 0, broker
        is_alone = broker not in self._overlapping
        if not self._under_way[broker]:
            self._overlapping.discard(broker)
        if is_alone and (leaves or registration is not None):
            self._possible[broker] = []
        if registration is not None:
            self._possible[broker].append(registration)
        self._heard_ns[broker] = max(self._heard_ns.get(broker, 0), heard_ns)
        return is_alone

    def begin_deletion(self) -> list[Key]:
        """Record that the name server begins to delete a topic. Return the brokers that may have it."""
        brokers = [*self._possible]
        for broker in brokers:
            self.begin_request(broker)
        self._deletions += 1
        return brokers

    def end_deletion(self, topic: str, brokers: Iterable[Key]) -> None:
        """topic: empty if the request failed. brokers: the result of `begin_deletion`."""
        self._deletions -= 1
        assert self._deletions >= 0, topic
        for broker in brokers:
            if broker not in self._overlapping:
                self._possible[broker] = [each.without_topic(topic) for each in self._possible[broker]]
            self.end_request(broker)

    def settled(self) -> Change:
        """Return the brokers without a request under way. Call this before the name server reads its tables."""
        return {broker: self._requests[broker] for broker in self._possible if not self._under_way[broker]}

    def absent(self, now_ns: int) -> set[Key]:
        """Return the brokers that must not be listed. Call this before the name server reads its tables."""
        return {broker for broker in self.settled() if self._is_absent(broker, now_ns)}

    def _is_absent(self, broker: Key, now_ns: int) -> bool:
        if now_ns - self._heard_ns.get(broker, 0) >= _EXPIRED_NS:
            return True
        return all(self.has_ended(each.connection) for each in self._possible[broker])

    def _unchanged(self, settled: Change) -> set[Key]:
        return {broker for broker, requests in settled.items() if self._requests[broker] == requests}

    def is_absent_still(self, broker: Key, settled: Change, absent: Collection[Key]) -> bool:
        """Return whether no answer since `settled` and `absent` may list a broker."""
        return broker in absent and broker in self._unchanged(settled)

    def registrations_of(self, broker: Key, settled: Change) -> list[Registration] | None:
        """Return the possible registrations of a broker since `settled`; None if they have changed."""
        if broker in self._possible and broker not in self._unchanged(settled):
            return None
        return self._possible.get(broker, [])

    def topics_of_name(
        self, name: str, brokers: Mapping[Key, Registration], settled: Change, absent: Collection[Key]
    ) -> set[str] | None:
        """Return the topics of all brokers of a name since `settled`; None if they are uncertain.

        brokers: those that must be listed. absent: as in `check_listed`.
        """
        keys = [broker for broker in self._possible if broker[0] == name]
        if not all(key in brokers or self.is_absent_still(key, settled, absent) for key in keys):
            return None
        return {topic for key in keys if key in brokers for topic in brokers[key].topics}

    def addresses(self, settled: Change) -> set[str] | None:
        """Return the possible addresses of all brokers since `settled`; None if they have changed."""
        every = [self.registrations_of(broker, settled) for broker in self._possible]
        return None if None in every else {each.address for some in every if some for each in some}

    def count_max(self) -> int:
        """Return how many brokers may be listed."""
        return sum(bool(each) for each in self._possible.values())

    def check_listed(
        self, found: Iterable[Identity], settled: Change, absent: Collection[Key], own: Identity
    ) -> Iterator[Violation]:
        """QUIET: yield each broker in an answer that has left, or that has registered with another address.

        settled, absent: the results of the methods before the request. own: the broker that contains the name server.
        """
        for name, broker_id, address in sorted(found):
            if (name, broker_id) == own[:2]:
                continue
            record_tried("QUIET")
            broker = name, broker_id
            possible = self.registrations_of(broker, settled)
            if self.is_absent_still(broker, settled, absent):
                yield listing_violation("a broker is listed after its end", "no broker", f"{broker} at {address}")
            elif possible is not None and address not in {each.address for each in possible}:
                expected = str(sorted(each.address for each in possible))
                yield listing_violation(f"{broker} is listed with an address of another", expected, address)

    def check_clusters(
        self, clusters: Mapping[str, Collection[str]], brokers: Mapping[Key, Registration], settled: Change
    ) -> Iterator[Violation]:
        """QUIET: yield each broker that the table of clusters omits, or has in a cluster that it is not in.

        brokers: those that must be listed.
        """
        record_tried("QUIET")
        for (name, _), each in brokers.items():
            if name not in clusters.get(each.cluster, ()):
                yield listing_violation(f"cluster {each.cluster} lacks a broker", name, str(clusters))
        for cluster, names in clusters.items():
            for name in names:
                found = [self.registrations_of(key, settled) for key in self._possible if key[0] == name]
                known = {each.cluster for some in found if some is not None for each in some}
                if found and None not in found and cluster not in known:
                    yield listing_violation(f"{name} is listed in another cluster", str(sorted(known)), cluster)

    def check_topics(
        self,
        found: Collection[str],
        brokers: Iterable[Registration],
        settled: Change,
        is_wanted: Callable[[Registration, str], bool],
        may_be_own: Callable[[str], bool],
    ) -> Iterator[Violation]:
        """QUIET: yield each topic that a list of topics omits, and each one that no broker has.

        is_wanted: whether the list must have a topic of a registration. may_be_own: whether the broker that contains
        the name server may have it.
        """
        record_tried("QUIET")
        for each in brokers:
            for topic in each.topics:
                if is_wanted(each, topic) and topic not in found:
                    yield listing_violation("a list of topics omits a registered topic", topic, str(sorted(found)))
        every = [self.registrations_of(broker, settled) for broker in self._possible]
        if None in every:
            return
        possible = {topic for some in every if some for each in some for topic in each.topics if is_wanted(each, topic)}
        for topic in sorted({*found} - possible):
            if not may_be_own(topic):
                yield listing_violation("a list of topics has one that no broker has", str(sorted(possible)), topic)


def listing_violation(summary: str, expected: str, found: str) -> Violation:
    return Violation("QUIET", summary, "", -1, "name server", expected, found)
