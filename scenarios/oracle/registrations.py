"""Registrations: the routes that a name server must return after all requests so far (QUIET).

    brokers       each is listed from the answer to its newest registration until it unregisters, the connection of
                  that registration ends, or 120 s have passed
    queues        the master's queues and permission are those of its newest registration
    permissions   an operator's change lasts until the next one, or until no broker of the name is left
    topics        a topic that an operator deleted is in no route until a broker registers it again

The end of an earlier connection has no effect, also if the name server notices it late. If two requests about a broker
overlap, either may be the newest. `possible_brokers` checks what must not be listed.
Source: RocketMQ RouteInfoManager.registerBroker, onChannelDestroy (brokerLiveTable), operateWritePermOfBroker.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ...store.broker.broker_config import MASTER_ID
from ...store.broker.topic_names import PERM_WRITE
from .evidence import Violation, record_tried
from .invariants.routes import Identity
from .operator_tables import Settings

_LISTED_NS = 110_000_000_000
"""Less than RocketMQ's 120 s, because a name server reads its clock before the request is answered."""
Key = tuple[str, int]
"""Name and id of a broker."""
_REPEATS_MAX = 8
"""How often a broker may register the same topics within one interval of registration. Changes of marks, and of topics
that a further change undoes, may cause some."""
_INTERVAL_NS = 10_000_000_000
"""The shortest interval of registration that RocketMQ allows."""


class _Connection(Protocol):
    @property
    def is_open(self) -> bool: ...


class Registration(NamedTuple):
    """A registration that a name server has answered."""

    connection: _Connection
    address: str
    topics: Mapping[str, Settings]
    """Topic -> (read queues, write queues, perm)."""
    begin_ns: int
    cluster: str = ""
    ha_address: str = ""
    version: object = None
    flags: Mapping[str, int] = {}
    """Topic -> topicSysFlag."""

    def without_topic(self, topic: str) -> "Registration":
        return self._replace(topics={name: one for name, one in self.topics.items() if name != topic})


class KnownRoutes(NamedTuple):
    """The certain facts about a name server at one time."""

    brokers: Mapping[Key, Registration]
    closed: Mapping[str, bool | None]
    """As `Registrations.closed`."""


@dataclass(slots=True)
class Registrations:
    """The registrations and the operators' changes at a name server since its start."""

    own_name: str = ""
    """The broker of a built-in name server, which does not register."""
    closed: dict[str, bool | None] = field(default_factory=dict)
    """Broker -> whether an operator has removed the permission to write; None if that is open. Missing: not removed."""
    _newest: dict[Key, Registration] = field(default_factory=dict)
    _heard_ns: dict[Key, int] = field(default_factory=dict)
    """Broker -> earliest possible time of its last query of a version since its newest registration."""
    _under_way: Counter[Key] = field(default_factory=Counter)
    """The number of requests about each broker that the name server executes now."""
    _overlapping: set[Key] = field(default_factory=set)
    _deletions: int = 0
    """Number of deletions of topics under way. They may also change brokers that register meanwhile."""
    _permissions_under_way: Counter[str] = field(default_factory=Counter)
    _overlapping_permissions: set[str] = field(default_factory=set)
    _changes: int = 0
    """The number of registrations so far."""
    _streak: dict[Key, int] = field(default_factory=dict)
    """Broker -> number of the registration since which it has been listed."""
    _closed_at: dict[str, int] = field(default_factory=dict)
    """Broker -> number of the last registration before an operator removed its permission."""
    _repeated_ns: dict[Key, deque[int]] = field(default_factory=dict)
    """Broker -> times of its newest registrations of the same topics over one connection."""
    _listed: set[Key] = field(default_factory=set)
    """Brokers that may be listed: those that have registered, and not unregistered since."""

    def begin_request(self, broker: Key) -> Registration | None:
        """Record that the name server begins to register or unregister a broker. Return its newest registration."""
        if self._under_way[broker] or self._deletions:
            self._overlapping.add(broker)
        self._under_way[broker] += 1
        self._listed.add(broker)
        self._heard_ns.pop(broker, None)
        return self._newest.pop(broker, None)

    def end_request(
        self,
        broker: Key,
        registration: Registration | None,
        before: Registration | None = None,
        *,
        leaves: bool = False,
    ) -> None:
        """registration: None for a request to unregister, and for one that failed.

        before: the result of `begin_request`. leaves: whether the broker has unregistered.
        """
        # Before the count is lowered: other requests may run at each read of `is_open`, and must count as overlapping.
        follows = _follows(before, registration)
        if broker[1] == MASTER_ID and not follows:
            self._doubt_permission(broker[0], registration)  # the name may have left, with the operator's change
        self._under_way[broker] -= 1
        assert self._under_way[broker] >= 0, broker
        if self._under_way[broker]:
            return
        is_certain = broker not in self._overlapping
        self._overlapping.discard(broker)
        if is_certain and registration is not None:
            self._newest[broker] = registration
            self._changes += 1
            if not follows:
                self._streak[broker] = self._changes
        if is_certain and leaves:
            self._listed.discard(broker)
            names = {self.own_name, *(name for name, _ in self._listed)}
            if broker[0] not in names and not self._permissions_under_way[broker[0]]:
                self.closed.pop(broker[0], None)

    def check_repeats(
        self, broker: Key, before: Registration | None, registration: Registration
    ) -> Iterator[Violation]:
        """LIVE: yield a broker that registers the same topics again and again. before: as in `end_request`."""
        times_ns = self._repeated_ns.setdefault(broker, deque(maxlen=_REPEATS_MAX + 1))
        if before is None or before.connection is not registration.connection or before.topics != registration.topics:
            times_ns.clear()
        times_ns.append(registration.begin_ns)
        record_tried("LIVE")
        passed_ns = times_ns[-1] - times_ns[0]
        if len(times_ns) > _REPEATS_MAX and passed_ns < _INTERVAL_NS:
            summary = f"{registration.address} registers the same topics again and again"
            expected = f"at most {_REPEATS_MAX} times in 10 s"
            found = f"{len(times_ns)} times in {passed_ns / 1e9:.1f} s"
            yield Violation("LIVE", summary, "", -1, "registrations", expected, found)

    def _doubt_permission(self, name: str, registration: Registration | None) -> None:
        """Count a removed permission as open, unless a broker of the name has been listed since its removal."""
        if name not in self.closed or name == self.own_name or self._permissions_under_way[name]:
            return
        closed_at, now_ns = self._closed_at.get(name, 0), 0 if registration is None else registration.begin_ns
        for key, each in list(self._newest.items()):
            is_fresh = each.connection.is_open and now_ns - each.begin_ns < _LISTED_NS
            if key[0] == name and is_fresh and self._streak[key] <= closed_at:
                return
        self.closed[name] = None

    def begin_permission(self, name: str) -> None:
        """Record that the name server begins to change the permission to write of a broker."""
        if self._permissions_under_way[name]:
            self._overlapping_permissions.add(name)
        self._permissions_under_way[name] += 1
        self.closed[name] = None

    def end_permission(self, name: str, *, closes: bool | None) -> None:
        """closes: None if the request failed."""
        newest = [each for key, each in self._newest.items() if key[0] == name]
        # Before the count is lowered, as in `end_request`.
        is_listed = name == self.own_name or any(each.connection.is_open for each in newest)
        self._permissions_under_way[name] -= 1
        assert self._permissions_under_way[name] >= 0, name
        if self._permissions_under_way[name]:
            return
        is_certain = name not in self._overlapping_permissions
        self._overlapping_permissions.discard(name)
        if closes is None or not is_certain:
            return
        if not closes:
            self.closed.pop(name, None)
        elif is_listed:
            self.closed[name], self._closed_at[name] = True, self._changes

    def begin_deletion(self) -> Mapping[Key, Registration | None]:
        """Record that the name server begins to delete a topic from all registrations."""
        before = {broker: self.begin_request(broker) for broker in sorted(self._listed)}
        self._deletions += 1
        return before

    def end_deletion(self, topic: str, before: Mapping[Key, Registration | None]) -> None:
        """topic: empty if the request failed. before: the result of `begin_deletion`."""
        self._deletions -= 1
        assert self._deletions >= 0, topic
        for broker, each in before.items():
            self.end_request(broker, None if each is None else each.without_topic(topic), each)

    def known_routes(self, now_ns: int) -> KnownRoutes:
        """Return the required content of a route. Call this before the name server reads its tables."""
        heard = self._heard_ns
        brokers = {
            key: each
            for key, each in self._newest.items()
            if now_ns - max(each.begin_ns, heard.get(key, 0)) < _LISTED_NS
        }
        return KnownRoutes(brokers, dict(self.closed))

    def record_version_query(self, broker: Key, registration: Registration, begin_ns: int) -> None:
        """Record that the name server has answered the version of a registration, which postpones the expiry."""
        if self._newest.get(broker) is registration:
            self._heard_ns[broker] = begin_ns

    def lasting_brokers(self, before: KnownRoutes) -> Mapping[Key, Registration]:
        """Return the brokers of which the same registrations still count."""
        return {
            key: each
            for key, each in before.brokers.items()
            if self._newest.get(key) is each and each.connection.is_open
        }

    def check_route(
        self,
        topic: str,
        before: KnownRoutes,
        found: Collection[Identity],
        queues: Mapping[str, Settings],
        *,
        is_own: bool = False,
    ) -> Iterator[Violation]:
        """QUIET: yield each broker that an answer omits, and wrong queues.

        before: the result of `known_routes`. queues: (read queues, write queues, perm) by broker. is_own: whether the
        own broker may have the topic.
        """
        for (name, broker_id), each in self.lasting_brokers(before).items():
            identity = name, broker_id, each.address
            if topic in each.topics or name in queues:
                record_tried("QUIET")
                if identity not in found:
                    summary = f"{each.address} is not in a route although it is registered"
                    yield _violation(summary, str(identity), str(sorted(found)))
            if broker_id == MASTER_ID:
                slaves = {key[0] for key in self._listed if key[1] != MASTER_ID}
                may_be_others = name in slaves or (is_own and name == self.own_name)
                settings = each.topics.get(topic), queues.get(name)
                yield from self._check_queues(name, before, *settings, may_be_others=may_be_others)
        own = queues.get(self.own_name)
        if own is not None and self._closed(self.own_name, before) and int(str(own[2])) & PERM_WRITE:
            yield _violation("a broker keeps its permission to write", "none", str(own))

    def _check_queues(
        self,
        name: str,
        before: KnownRoutes,
        registered: Settings | None,
        found: Settings | None,
        *,
        may_be_others: bool,
    ) -> Iterator[Violation]:
        """registered: the queues of the master. may_be_others: whether other brokers of its name may have the topic."""
        if registered is None:
            if found is not None and not may_be_others:
                yield _violation(f"a route has queues of {name}, which has none of the topic", "none", str(found))
            return
        closed, (reads, writes, perm) = self._closed(name, before), registered
        allowed = [registered] if closed is not True else []
        if closed is not False:
            allowed.append((reads, writes, int(str(perm)) & ~PERM_WRITE))
        if found is not None and found not in allowed:
            yield _violation(f"a route has other queues of {name} than registered", str(allowed), str(found))

    def _closed(self, name: str, before: KnownRoutes) -> bool | None:
        closed = before.closed.get(name, False)
        return closed if self.closed.get(name, False) is closed else None


def _follows(before: Registration | None, registration: Registration | None) -> bool:
    """Return whether a broker was listed from one registration to the next."""
    if before is None or not before.connection.is_open:
        return False
    return registration is None or registration.begin_ns - before.begin_ns < _LISTED_NS


def _violation(summary: str, expected: str, found: str) -> Violation:
    return Violation("QUIET", summary, "", -1, "routes", expected, found)
