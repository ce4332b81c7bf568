"""Watched routes: checks a name server's answers against the requests of brokers and operators that it has executed."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from ....store.broker.broker_config import MASTER_ID
from ....store.broker.kv_config import ORDER_TOPIC_CONFIG
from ....store.broker.name_server import BROKERS_MAX
from ....store.broker.outer_api import APART_MS, REGISTER_TIMEOUT_MS
from ....store.broker.requests import RequestCode, ResponseCode
from ....store.broker.router import Channel, Processor, Response
from ....store.formats.remoting.command import RemotingCommand
from ...claims.plan import Plan
from ...oracle.evidence import Violation
from ...oracle.invariants import live
from ...oracle.invariants.routes import Identity
from ...oracle.name_server_keys import NameServerKeys
from ...oracle.operator_tables import OperatorTables, Settings
from ...oracle.possible_brokers import Change, PossibleBrokers, listing_violation
from ...oracle.registrations import Key, KnownRoutes, Registrations
from .broker_settings import REGISTER_MS
from .watched_keys import WatchedKeys
from .watched_lists import (
    WatchedLists,
    accepts_only_json,
    decode_body,
    has_bare_keys,
    identities_of,
    is_success,
    mistake_of,
    registration_of,
    settings_of,
)

Process = Callable[[Processor, RemotingCommand, Channel], Response]
FindTables = Callable[[str], tuple[OperatorTables, int] | None]
"""Returns what operators have changed at the master of a name, and its start in virtual ns; None while it is off."""
_MS = 1_000_000


class OwnBroker(NamedTuple):
    """The broker that contains a name server."""

    identity: Identity
    cluster: str
    has_topic: Callable[[str], bool]
    has_ended: Callable[[Channel], bool]
    """Whether the broker has handled the end of a connection."""
    keys: NameServerKeys
    orders: Callable[[], Mapping[str, bool]] | None
    """As in `WatchedKeys`."""
    ha_addresses: Mapping[str, str]
    """The address of each broker of the run, for clients -> its address for slaves."""

    @property
    def name(self) -> str:
        return self.identity[0]


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
    _possible: PossibleBrokers = field(init=False)
    _keys: WatchedKeys = field(init=False)
    judges: dict[int, Process] = field(init=False)

    def __post_init__(self) -> None:
        own = self._own
        self._registrations, self._possible = Registrations(own.name), PossibleBrokers(own.has_ended)
        tables = self._registrations, self._possible
        lists = WatchedLists(
            self._process, self._now_ns, self._report, *tables, own.identity, own.cluster, own.has_topic
        )
        self._keys = WatchedKeys(self._process, self._report, own.keys, own.orders)
        self.judges = {
            **lists.judges,
            **self._keys.judges,
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
        known, settled, absent = self._registrations.known_routes(begin_ns), *self._absent(begin_ns)
        if registers:
            self._check_ha_address(request)
        before, ordered = self._registrations.begin_request(broker), self._own.keys.namespace(ORDER_TOPIC_CONFIG)
        count_max = self._possible.count_max()
        self._possible.begin_request(broker)
        try:
            response = self._process(processor, request, channel)
            is_done = is_success(response)
            if registers and is_done:
                registration = registration_of(request, channel, begin_ns)
            leaves = is_done and not registers
        finally:
            heard_ns = self._now_ns() if registration is not None else 0
            self._registrations.end_request(broker, registration, before, leaves=leaves)
            self._possible.end_request(broker, registration, heard_ns=heard_ns, leaves=leaves)
        if registers and isinstance(response, RemotingCommand):
            is_certain = broker in known.brokers and known.brokers[broker].connection.is_open
            self._check_refusal(broker, request, response, may_be_full=count_max >= BROKERS_MAX and not is_certain)
            if is_success(response):
                self._check_master(broker, response, known, settled, absent)
                is_calm = self._registered_ms is not None and fields["brokerAddr"] in self._own.ha_addresses
                if registration is not None and is_calm:
                    self._report([*self._registrations.check_repeats(broker, before, registration)])
                self._keys.check_table(ORDER_TOPIC_CONFIG, ordered, response.body)
        return response

    def _check_ha_address(self, request: RemotingCommand) -> None:
        """A broker registers the address at which it listens for slaves. Foreign brokers are programs without one."""
        fields = request.ext_fields
        expected = self._own.ha_addresses.get(fields["brokerAddr"])
        if expected is not None and fields["haServerAddr"] != expected:
            summary = f"{fields['brokerAddr']} registers another address for slaves than it listens at"
            self._report([listing_violation(summary, expected, fields["haServerAddr"])])

    def _check_refusal(
        self, broker: Key, request: RemotingCommand, response: RemotingCommand, *, may_be_full: bool
    ) -> None:
        """A name server refuses only wrong registrations, and further brokers if it has as many as possible."""
        mistake, is_done = mistake_of(request), is_success(response)
        if is_done if mistake else not (is_done or may_be_full):
            summary = f"a registration of {broker} is {'accepted' if is_done else 'refused'}"
            self._report([listing_violation(summary, mistake or "SUCCESS", str(response.remark))])

    def _absent(self, now_ns: int) -> tuple[Change, set[Key]]:
        return self._possible.settled(), self._possible.absent(now_ns)

    def _check_master(
        self, broker: Key, response: RemotingCommand, known: KnownRoutes, settled: Change, absent: set[Key]
    ) -> None:
        """The answer to a slave has the addresses of its master, if that is registered. No other answer has them."""
        own, fields = self._own.identity, response.ext_fields
        found, master = (fields.get("masterAddr", ""), fields.get("haServerAddr", "")), (broker[0], MASTER_ID)
        lasting = self._registrations.lasting_brokers(known).get(master)
        if broker[1] == MASTER_ID:
            expected = "", ""
        elif master == own[:2]:
            expected = own[2], self._own.ha_addresses[own[2]]
        elif lasting is not None:
            expected = lasting.address, lasting.ha_address
        elif self._possible.is_absent_still(master, settled, absent):
            expected = "", ""
        else:
            return
        if found != expected:
            summary = f"the answer to the registration of {broker} has another master"
            self._report([listing_violation(summary, str(expected), str(found))])

    def _process_permission(
        self, processor: Processor, request: RemotingCommand, channel: Channel, *, closes: bool
    ) -> Response:
        name, is_done, asked_ns = request.ext_fields["brokerName"], False, self._now_ns()
        known, (settled, absent) = self._registrations.known_routes(asked_ns), self._absent(asked_ns)
        self._registrations.begin_permission(name)
        try:
            response = self._process(processor, request, channel)
            is_done = is_success(response)
        finally:
            self._registrations.end_permission(name, closes=closes if is_done else None)
        lasting = self._registrations.lasting_brokers(known)
        topics = self._possible.topics_of_name(name, lasting, settled, absent)
        if is_success(response) and topics is not None and name != self._own.name:
            found = int(response.ext_fields["wipeTopicCount" if closes else "addTopicCount"])
            if found != len(topics):
                summary = f"a change of {name}'s permission counts other topics"
                self._report([listing_violation(summary, str(sorted(topics)), str(found))])
        return response

    def _process_deletion(self, processor: Processor, request: RemotingCommand, channel: Channel) -> Response:
        before, brokers, deleted = self._registrations.begin_deletion(), self._possible.begin_deletion(), ""
        try:
            response = self._process(processor, request, channel)
            deleted = request.ext_fields["topic"] if is_success(response) else ""
        finally:
            self._registrations.end_deletion(deleted, before)
            self._possible.end_deletion(deleted, brokers)
        return response

    def _process_route(self, processor: Processor, request: RemotingCommand, channel: Channel) -> Response:
        topic, asked_ns = request.ext_fields["topic"], self._now_ns()
        expected, is_own = self._registrations.known_routes(asked_ns), self._own.has_topic(topic)
        (settled, absent), order = self._absent(asked_ns), self._own.keys.order_of(topic)
        response = self._process(processor, request, channel)
        if isinstance(response, RemotingCommand) and response.code == ResponseCode.TOPIC_NOT_EXIST:
            self._check(topic, expected, asked_ns, None, is_own=is_own)
        if is_success(response):
            route, is_quoted = decode_body(response.body), accepts_only_json(request)
            if has_bare_keys(response.body) is is_quoted:
                self._report([listing_violation("a route has broker ids in another form", str(is_quoted), "not")])
            self._check(topic, expected, asked_ns, route, is_own=is_own)
            if found := list(self._possible.check_listed(identities_of(route), settled, absent, self._own.identity)):
                self._report(found)
            self._keys.check_route(topic, order, route)
        return response

    def _check(
        self, topic: str, expected: KnownRoutes, asked_ns: int, route: Mapping[str, Any] | None, *, is_own: bool
    ) -> None:
        identities, queues = set[Identity](), dict[str, Settings]()
        if route is not None:
            identities = identities_of(route)
            queues = {each["brokerName"]: settings_of(each) for each in route["queueDatas"]}
        is_own |= self._own.has_topic(topic)
        violations = list(self._registrations.check_route(topic, expected, identities, queues, is_own=is_own))
        violations += self._check_registered(topic, expected, asked_ns)
        violations += self._check_flags(topic, expected, () if route is None else route["queueDatas"])
        if violations:
            self._report(violations)

    def _check_flags(
        self, topic: str, expected: KnownRoutes, queues: Iterable[Mapping[str, Any]]
    ) -> Iterator[Violation]:
        """Yield queues with another topicSysFlag than a master's newest registration."""
        lasting = self._registrations.lasting_brokers(expected)
        for each in queues:
            master = lasting.get((each["brokerName"], MASTER_ID))
            if master is None or topic not in master.topics:
                continue  # the queues of a slave, which may be older
            flag, found = master.flags[topic], each["topicSysFlag"]
            if found != flag:
                yield listing_violation(f"a route of {topic} has other flags", str(flag), str(found))

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
    return identities_of(decode_body(body))
