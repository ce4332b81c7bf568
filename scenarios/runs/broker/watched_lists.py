"""Watched lists: checks a name server's answers about clusters, lists of topics and versions of topics.

    GET_BROKER_CLUSTER_INFO  GET_ALL_TOPIC_LIST_FROM_NAMESERVER  GET_TOPICS_BY_CLUSTER  GET_UNIT_TOPIC_LIST
    GET_HAS_UNIT_SUB_TOPIC_LIST  GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST  GET_SYSTEM_TOPIC_LIST_FROM_NS  QUERY_DATA_VERSION

`watched_routes` records the registrations.
"""

import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeGuard

import msgspec

from ....store.broker.processors.names import STANDARD_JSON_VERSION
from ....store.broker.requests import RequestCode, ResponseCode
from ....store.broker.router import Channel, Processor, Response
from ....store.broker.topics import UNIT_FLAG, UNIT_SUB_FLAG
from ....store.formats.remoting.command import RemotingCommand
from ...oracle.evidence import Violation, record_tried
from ...oracle.invariants.routes import Identity
from ...oracle.operator_tables import Settings
from ...oracle.possible_brokers import PossibleBrokers, listing_violation
from ...oracle.registrations import Registration, Registrations

Process = Callable[[Processor, RemotingCommand, Channel], Response]
_BARE_KEY = re.compile(rb"([{,])(\d+):")
"""A broker id without quotes, as RocketMQ writes it."""
_UNIT_LISTS = {
    RequestCode.GET_UNIT_TOPIC_LIST: (UNIT_FLAG, 0),
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: (UNIT_SUB_FLAG, 0),
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: (UNIT_SUB_FLAG, UNIT_FLAG),
}
"""Request -> flags that a listed topic has, and flags that it lacks."""


@dataclass(slots=True, eq=False)
class WatchedLists:
    """The answers of one name server since its start. process, report: as in `WatchedRoutes`."""

    _process: Process
    _now_ns: Callable[[], int]
    _report: Callable[[list[Violation]], None]
    _registrations: Registrations
    _possible: PossibleBrokers
    _own: Identity
    _own_cluster: str
    _has_own_topic: Callable[[str], bool]

    @property
    def judges(self) -> dict[int, Process]:
        lists: dict[int, Process] = {
            code: partial(self._process_topic_list, having=having, lacking=lacking)
            for code, (having, lacking) in _UNIT_LISTS.items()
        }
        return {
            **lists,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self._process_topic_list,
            RequestCode.GET_TOPICS_BY_CLUSTER: self._process_topic_list,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self._process_system_topics,
            RequestCode.GET_BROKER_CLUSTER_INFO: self._process_clusters,
            RequestCode.QUERY_DATA_VERSION: self._process_version,
        }

    def _process_clusters(self, processor: Processor, request: RemotingCommand, channel: Channel) -> Response:
        asked_ns, possible = self._now_ns(), self._possible
        known, settled, absent = (
            self._registrations.known_routes(asked_ns),
            possible.settled(),
            possible.absent(asked_ns),
        )
        response = self._process(processor, request, channel)
        if is_success(response):
            info = decode_body(response.body)
            brokers = identities_of({"brokerDatas": info["brokerAddrTable"].values()})
            lasting = self._registrations.lasting_brokers(known)
            found = list(possible.check_listed(brokers, settled, absent, self._own))
            found += possible.check_clusters(info["clusterAddrTable"], lasting, settled)
            for broker in sorted({self._own, *((*key, each.address) for key, each in lasting.items())} - brokers):
                found.append(listing_violation("a registered broker is not in the clusters", str(broker), "none"))
            if self._own[0] not in info["clusterAddrTable"].get(self._own_cluster, ()):
                found.append(listing_violation("the clusters lack their own broker", self._own[0], "none"))
            self._report_if_any(found)
        return response

    def _process_topic_list(
        self, processor: Processor, request: RemotingCommand, channel: Channel, *, having: int = 0, lacking: int = 0
    ) -> Response:
        asked_ns, possible, cluster = self._now_ns(), self._possible, request.ext_fields.get("cluster")
        known, settled = self._registrations.known_routes(asked_ns), possible.settled()
        response = self._process(processor, request, channel)
        if is_success(response):
            topics = decode_body(response.body)["topicList"]

            def is_wanted(each: Registration, topic: str) -> bool:
                flag = each.flags.get(topic, 0)
                return cluster in (None, each.cluster) and flag & having == having and not flag & lacking

            def may_be_own(topic: str) -> bool:
                return cluster in (None, self._own_cluster) and self._has_own_topic(topic)

            lasting = self._registrations.lasting_brokers(known).values()
            self._report_if_any([*possible.check_topics(topics, lasting, settled, is_wanted, may_be_own)])
        return response

    def _process_system_topics(self, processor: Processor, request: RemotingCommand, channel: Channel) -> Response:
        """The list has the names of all brokers and clusters, and the address of a broker to ask for its own list."""
        known, settled = self._registrations.known_routes(self._now_ns()), self._possible.settled()
        response = self._process(processor, request, channel)
        if is_success(response):
            body = decode_body(response.body)
            names = {
                name
                for (broker, _), each in self._registrations.lasting_brokers(known).items()
                for name in (broker, each.cluster)
            }
            lacking = sorted({*names, self._own[0], self._own_cluster} - {*body["topicList"]})
            found = [listing_violation("the list of system topics lacks a name", name, "none") for name in lacking]
            addresses = self._possible.addresses(settled)
            if addresses is not None and body["brokerAddr"] not in {*addresses, self._own[2]}:
                summary = "the list of system topics has another address of a broker"
                found.append(listing_violation(summary, str(sorted(addresses)), body["brokerAddr"]))
            self._report_if_any(found)
        return response

    def _process_version(self, processor: Processor, request: RemotingCommand, channel: Channel) -> Response:
        """A query of a version also refreshes the broker."""
        fields, asked_ns, possible = request.ext_fields, self._now_ns(), self._possible
        broker, theirs = (fields["brokerName"], int(fields["brokerId"])), _version(decode_body(request.body))
        known, is_gone = (
            self._registrations.known_routes(asked_ns),
            broker in possible.absent(0),
        )  # expiry may come late
        possible.begin_request(broker)
        answered = None
        try:
            response = self._process(processor, request, channel)
            answered = _version(decode_body(response.body)) if is_success(response) and response.body else None
        finally:
            is_alone = possible.end_request(broker, heard_ns=0 if answered is None else self._now_ns())
        if not is_success(response):
            return response
        record_tried("QUIET")
        is_gone &= is_alone
        lasting = self._registrations.lasting_brokers(known).get(broker)
        found = []
        if lasting is not None:
            self._registrations.record_version_query(broker, lasting, asked_ns)
        if (lasting is not None and answered != lasting.version) or (is_gone and answered is not None):
            expected = str(None if lasting is None else lasting.version)
            found.append(listing_violation(f"{broker} has another version", expected, str(answered)))
        changed = str(answered != theirs).lower()
        if response.ext_fields["changed"] != changed:
            found.append(listing_violation(f"the version of {broker} is compared wrongly", changed, f"not {changed}"))
        self._report_if_any(found)
        return response

    def _report_if_any(self, found: list[Violation]) -> None:
        if found:
            self._report(found)


def registration_of(request: RemotingCommand, channel: Channel, begin_ns: int) -> Registration:
    """Return the registration that a request asks for."""
    fields, wrapper = request.ext_fields, decode_body(request.body)["topicConfigSerializeWrapper"]
    topics = wrapper["topicConfigTable"]
    return Registration(
        channel,
        fields["brokerAddr"],
        {name: settings_of(entry) for name, entry in topics.items()},
        begin_ns,
        fields["clusterName"],
        fields["haServerAddr"],
        _version(wrapper["dataVersion"]),
        {name: entry["topicSysFlag"] for name, entry in topics.items()},
    )


def mistake_of(request: RemotingCommand) -> str:
    """Return the field of a registration that a name server must refuse, or an empty text."""
    fields, crc = request.ext_fields, zlib.crc32(request.body) & 0x7FFFFFFF
    if fields.get("compressed", "false") != "false":
        return "compressed"
    return "" if fields.get("bodyCrc32", "0") in ("0", str(crc)) else "bodyCrc32"


def identities_of(route: Mapping[str, Any]) -> set[Identity]:
    return {
        (each["brokerName"], int(key), at) for each in route["brokerDatas"] for key, at in each["brokerAddrs"].items()
    }


def settings_of(entry: Mapping[str, Any]) -> Settings:
    return entry["readQueueNums"], entry["writeQueueNums"], entry["perm"]


def is_success(response: Response) -> TypeGuard[RemotingCommand]:
    return isinstance(response, RemotingCommand) and response.code == ResponseCode.SUCCESS


def accepts_only_json(request: RemotingCommand) -> bool:
    """Return whether a client needs broker ids in quotes, as RocketMQ's do from 4.9.4 on."""
    return request.ext_fields.get("acceptStandardJsonOnly") == "true" or request.version >= STANDARD_JSON_VERSION


def has_bare_keys(body: bytes) -> bool:
    return _BARE_KEY.search(body) is not None


def decode_body(body: bytes) -> Any:
    """Decode JSON that may have integers as keys."""
    return msgspec.json.decode(_BARE_KEY.sub(rb'\1"\2":', body))


def _version(members: Mapping[str, int]) -> tuple[int, int]:
    return members["timestamp"], members["counter"]
