"""Watched keys: checks a name server's answers about key-value settings, and the effects of ORDER_TOPIC_CONFIG.

PUT_KV_CONFIG  DELETE_KV_CONFIG  GET_KV_CONFIG  GET_KVLIST_BY_NAMESPACE  UPDATE_NAMESRV_CONFIG  GET_NAMESRV_CONFIG
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from ....store.broker.broker import Broker
from ....store.broker.kv_config import ORDER_TOPIC_CONFIG
from ....store.broker.remoting_client import RemotingClient
from ....store.broker.requests import RequestCode, ResponseCode
from ....store.broker.router import Channel, Processor, Response
from ....store.formats.remoting.command import RemotingCommand
from ...oracle.evidence import Violation
from ...oracle.name_server_keys import ORDER_ENABLED, KnownNamespace, NameServerKeys, Place, Values

Process = Callable[[Processor, RemotingCommand, Channel], Response]


@dataclass(slots=True, eq=False)
class WatchedKeys:
    """The answers of one name server since its start. process, report: as in `WatchedRoutes`.

    orders: returns the topics of its own broker, and whether each is marked as ordered; None if the broker takes the
    marks from other name servers.
    """

    _process: Process
    _report: Callable[[list[Violation]], None]
    _keys: NameServerKeys
    _orders: Callable[[], Mapping[str, bool]] | None

    @property
    def judges(self) -> dict[int, Process]:
        return {
            RequestCode.PUT_KV_CONFIG: self._process_change,
            RequestCode.DELETE_KV_CONFIG: self._process_change,
            RequestCode.GET_KV_CONFIG: self._process_get,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self._process_list,
            RequestCode.UPDATE_NAMESRV_CONFIG: self._process_update,
            RequestCode.GET_NAMESRV_CONFIG: self._process_settings,
        }

    def _process_change(self, processor: Processor, request: RemotingCommand, channel: Channel) -> Response:
        fields = request.ext_fields
        place, value = (fields["namespace"], fields["key"]), fields.get("value")
        before = {} if self._orders is None else self._orders()
        has_effect = value is not None or None not in self._keys.values(place)  # not the deletion of a missing key
        response, is_certain = self._change(processor, request, channel, place, value)
        if is_certain and has_effect and place[0] == ORDER_TOPIC_CONFIG and self._orders is not None:
            # A topic that a send creates gets its mark with the next change.
            orders = {topic: order for topic, order in self._orders().items() if topic in before}
            self._report_if_any([*self._keys.check_marked(orders)])
        return response

    def _process_update(self, processor: Processor, request: RemotingCommand, channel: Channel) -> Response:
        key, _, value = request.body.decode().strip().partition("=")
        if key != ORDER_ENABLED[1]:
            return self._process(processor, request, channel)
        return self._change(processor, request, channel, ORDER_ENABLED, value)[0]

    def _change(
        self, processor: Processor, request: RemotingCommand, channel: Channel, place: Place, value: str | None
    ) -> tuple[Response, bool]:
        is_done = is_certain = False
        self._keys.begin_change(place, value)
        try:
            response = self._process(processor, request, channel)
            is_done = isinstance(response, RemotingCommand) and response.code == ResponseCode.SUCCESS
        finally:
            is_certain = self._keys.end_change(place, value, is_done=is_done)
        return response, is_certain

    def _process_get(self, processor: Processor, request: RemotingCommand, channel: Channel) -> Response:
        place = request.ext_fields["namespace"], request.ext_fields["key"]
        before = self._keys.values(place)
        response = self._process(processor, request, channel)
        if isinstance(response, RemotingCommand) and response.code in (
            ResponseCode.SUCCESS,
            ResponseCode.QUERY_NOT_FOUND,
        ):
            self._report_if_any([*self._keys.check_value(place, before, response.ext_fields.get("value"))])
        return response

    def _process_list(self, processor: Processor, request: RemotingCommand, channel: Channel) -> Response:
        name = request.ext_fields["namespace"]
        before = self._keys.namespace(name)
        response = self._process(processor, request, channel)
        if isinstance(response, RemotingCommand):
            self.check_table(name, before, response.body)
        return response

    def _process_settings(self, processor: Processor, request: RemotingCommand, channel: Channel) -> Response:
        before = self._keys.values(ORDER_ENABLED)
        response = self._process(processor, request, channel)
        if isinstance(response, RemotingCommand) and response.code == ResponseCode.SUCCESS:
            found = dict(line.partition("=")[::2] for line in response.body.decode().splitlines())
            self._report_if_any([*self._keys.check_value(ORDER_ENABLED, before, found.get(ORDER_ENABLED[1]))])
        return response

    def check_table(self, name: str, before: KnownNamespace, body: bytes) -> None:
        """Check the values of a namespace in an answer. An answer without a body has no table."""
        found = msgspec.json.decode(body)["table"] if body else None
        self._report_if_any([*self._keys.check_namespace(name, before, found)])

    def check_route(self, topic: str, before: tuple[Values, Values], route: Mapping[str, Any]) -> None:
        self._report_if_any([*self._keys.check_order_in_route(topic, before, route.get("orderTopicConf"))])

    def _report_if_any(self, found: list[Violation]) -> None:
        if found:
            self._report(found)


def watch_marks(broker: Broker, keys: NameServerKeys, report: Callable[[list[Violation]], None]) -> None:
    """After each registration of a broker, compare its marks of topics with the keys of its only name server.

    Only this name server may mark the topics. A topic that a send creates gets its mark with the next registration.
    """
    (registration,) = broker.registrations
    register = registration._register_broker

    def judged_register(client: RemotingClient) -> None:
        topics, changes, before = broker.topics.table.keys(), keys.changes, keys.namespace(ORDER_TOPIC_CONFIG).values
        register(client)
        if keys.changes == changes:
            orders = {topic: each.order for topic, each in broker.topics.table.items() if topic in topics}
            report([*keys.check_marked(orders, before)])

    cast(Any, registration)._register_broker = judged_register
