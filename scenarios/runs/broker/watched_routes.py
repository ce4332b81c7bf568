"""Watched routes: checks a name server's answers against the requests of brokers and operators that it has executed."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeGuard

import msgspec

from ....store.broker.broker_config import MASTER_ID
from ....store.broker.outer_api import APART_MS, REGISTER_TIMEOUT_MS
from ....store.broker.requests import RequestCode, RequestRefusedError, ResponseCode
from ....store.broker.router import Channel, Processor, Response
from ....store.formats.remoting.command import RemotingCommand
from ...claims.plan import Plan
from ...oracle.evidence import Violation
from ...oracle.invariants import live
from ...oracle.invariants.routes import Identity
from ...oracle.operator_tables import OperatorTables, Settings
from ...oracle.registrations import KnownRoutes, Registration, Registrations
from .broker_settings import REGISTER_MS

Process = Callable[[Processor, RemotingCommand, Channel], Response]
FindTables = Callable[[str], tuple[OperatorTables, int] | None]
"""Returns what operators have changed at the master of a name, and its start in virtual ns; None while it is off."""
_MS = 1_000_000


class OwnBroker(NamedTuple):
    """The broker that contains a name server."""

    name: str
    has_topic: Callable[[str], bool]


@dataclass(slots=True, eq=False)
class WatchedRoutes:
    """The registrations at one name server since its start, and its answers about routes.

    process: executes a request. report: takes violations in a task of a processor. own: the broker that contains the
    name server. registered_ms: the time limit until a broker's change is registered, None without one.
    """

    _process: Process
    _now_ns: Callable[[], int]
    _report: Callable[[list[Violation]], None]
    _own: OwnBroker
    _find_tables: FindTables
    _registered_ms: int | None
    _registrations: Registrations = field(init=False)
    judges: dict[int, Process] = field(init=False)

    def __post_init__(self) -> None:
        self._registrations = Registrations(self._own.name)
        self.judges = {
            RequestCode.REGISTER_BROKER: partial(self._process_change, registers=True),
            RequestCode.UNREGISTER_BROKER: partial(self._process_change, registers=False),
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: partial(self._process_permission, closes=True),
            RequestCode.ADD_WRITE_PERM_OF_BROKER: partial(self._process_permission, closes=False),
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self._process_deletion,
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._process_route,
        }

    def _process_change(
        self, processor: Processor, request: RemotingCommand, channel: Channel, *, registers: bool
    ) -> Response:
        fields, registration, begin_ns = request.ext_fields, None, self._now_ns()
        broker, leaves = (fields["brokerName"], int(fields["brokerId"])), False
        before = self._registrations.begin_request(broker)
        try:
            response = self._process(processor, request, channel)
            is_done = _is_success(response)
            if registers and is_done:
                topics = msgspec.json.decode(request.body)["topicConfigSerializeWrapper"]["topicConfigTable"]
                settings = {name: _settings(entry) for name, entry in topics.items()}
                registration = Registration(channel, fields["brokerAddr"], settings, begin_ns)
            leaves = is_done and not registers
        finally:
            self._registrations.end_request(broker, registration, before, leaves=leaves)
        return response

    def _process_permission(
        self, processor: Processor, request: RemotingCommand, channel: Channel, *, closes: bool
    ) -> Response:
        name, is_done = request.ext_fields["brokerName"], False
        self._registrations.begin_permission(name)
        try:
            response = self._process(processor, request, channel)
            is_done = _is_success(response)
        finally:
            self._registrations.end_permission(name, closes=closes if is_done else None)
        return response

    def _process_deletion(self, processor: Processor, request: RemotingCommand, channel: Channel) -> Response:
        before, deleted = self._registrations.begin_deletion(), ""
        try:
            response = self._process(processor, request, channel)
            deleted = request.ext_fields["topic"] if _is_success(response) else ""
        finally:
            self._registrations.end_deletion(deleted, before)
        return response

    def _process_route(self, processor: Processor, request: RemotingCommand, channel: Channel) -> Response:
        topic, asked_ns = request.ext_fields["topic"], self._now_ns()
        expected, is_own = self._registrations.known_routes(asked_ns), self._own.has_topic(topic)
        try:
            response = self._process(processor, request, channel)
        except RequestRefusedError:  # no broker has the topic
            self._check(topic, expected, asked_ns, None, is_own=is_own)
            raise
        if _is_success(response):
            self._check(topic, expected, asked_ns, msgspec.json.decode(response.body), is_own=is_own)
        return response

    def _check(
        self, topic: str, expected: KnownRoutes, asked_ns: int, route: Mapping[str, Any] | None, *, is_own: bool
    ) -> None:
        identities, queues = set[Identity](), dict[str, Settings]()
        if route is not None:
            identities = _identities(route)
            queues = {each["brokerName"]: _settings(each) for each in route["queueDatas"]}
        is_own |= self._own.has_topic(topic)
        violations = list(self._registrations.check_route(topic, expected, identities, queues, is_own=is_own))
        violations += self._check_registered(topic, expected, asked_ns)
        if violations:
            self._report(violations)

    def _check_registered(self, topic: str, expected: KnownRoutes, asked_ns: int) -> Iterator[Violation]:
        """Yield a master if its newest registration lacks a change that an operator made long enough ago."""
        if self._registered_ms is None:
            return
        for (name, broker_id), each in self._registrations.lasting_brokers(expected).items():
            found = self._find_tables(name) if broker_id == MASTER_ID else None
            if found is not None and found[1] <= each.begin_ns:
                tables, _ = found
                yield from tables.check_registered(topic, each.topics.get(topic), asked_ns - self._registered_ms * _MS)


def registered_ms_max(plan: Plan) -> int | None:
    """Return the time limit until name servers know a change of a broker; None if network or disk may delay it.

    A broker registers again at once, unless an attempt has failed.
    """
    network = plan.network
    faults = (network.partition_chance, network.one_way_chance, network.broken_chance, network.half_open_chance)
    may_fail = any((*faults, network.refused_chance, network.slow_link_chance, plan.capacity_bytes))
    if may_fail or live.may_slow_operations(plan):
        return None
    late_ms = live.delivery_of_request_ms_max(plan)
    retry_ms = REGISTER_TIMEOUT_MS + REGISTER_MS if late_ms >= REGISTER_TIMEOUT_MS else 0
    return APART_MS + 2 * late_ms + retry_ms


def identities_of_route(body: bytes) -> set[Identity]:
    """Return name, id and address of each broker in a route."""
    return _identities(msgspec.json.decode(body))


def _identities(route: Mapping[str, Any]) -> set[Identity]:
    return {
        (each["brokerName"], int(key), at) for each in route["brokerDatas"] for key, at in each["brokerAddrs"].items()
    }


def _settings(entry: Mapping[str, Any]) -> Settings:
    return entry["readQueueNums"], entry["writeQueueNums"], entry["perm"]


def _is_success(response: Response) -> TypeGuard[RemotingCommand]:
    return isinstance(response, RemotingCommand) and response.code == ResponseCode.SUCCESS
