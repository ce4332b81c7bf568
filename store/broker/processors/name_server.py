"""What a name server is asked: routes, the cluster, lists of topics; and told by brokers.

Source: RocketMQ DefaultRequestProcessor, TopicList, RegisterBrokerBody.
"""

import zlib

from ...formats.remoting.command import RemotingCommand
from ...formats.remoting.json_body import decode_json_body, encode_json_body
from ..channel import Channel
from ..ext_fields import ExtFields
from ..name_server import NameServer, RegisteredBroker
from ..parts import BrokerParts
from ..requests import RequestRefusedError, ResponseCode
from ..responses import response_to
from ..topics import TopicConfig

STANDARD_JSON_VERSION = 401
"""Clients from V4_9_4 on read quoted keys only."""
TOPICS_MAX = 65_536
"""Of one broker that registers."""
_DISTANT_ADDRESS_CHARACTERS_MAX = 255


class NameServerProcessor:
    """Answers them."""

    def __init__(self, parts: BrokerParts, name_server: NameServer) -> None:
        self._parts = parts
        self._name_server = name_server

    def route(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return where a topic is."""
        fields = ExtFields(request.ext_fields)
        topic = fields.text("topic")
        quoted = fields.boolean("acceptStandardJsonOnly", False) or request.version >= STANDARD_JSON_VERSION
        found = self._name_server.route(topic, quoted_keys=quoted)
        if found is None:
            raise RequestRefusedError(
                ResponseCode.TOPIC_NOT_EXIST, f"No topic route info: no broker has topic {topic[:255]!r}"
            )
        return response_to(request, ResponseCode.SUCCESS, body=encode_json_body(found))

    def cluster_info(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return all brokers and clusters."""
        body = encode_json_body(self._name_server.cluster_info())
        return response_to(request, ResponseCode.SUCCESS, body=body)

    def topic_list(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return every topic."""
        body = encode_json_body({"topicList": self._name_server.topics()})
        return response_to(request, ResponseCode.SUCCESS, body=body)

    def topics_of_cluster(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return the topics of a cluster."""
        cluster = ExtFields(request.ext_fields).text("cluster")
        body = encode_json_body({"topicList": self._name_server.topics(cluster)})
        return response_to(request, ResponseCode.SUCCESS, body=body)

    def system_topics(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return the topics that brokers have for their own purposes, and where the broker is."""
        config = self._parts.config
        topics = [topic for topic in self._name_server.topics() if self._parts.topics.is_system(topic)]
        own = dict.fromkeys((config.broker_cluster_name, config.broker_name))
        topics += [name for name in own if name not in topics]
        body = encode_json_body({"brokerAddr": config.address, "topicList": topics})
        return response_to(request, ResponseCode.SUCCESS, body=body)

    def delete_topic(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Forget where a topic is."""
        self._name_server.forget_topic(ExtFields(request.ext_fields).text("topic"))
        return response_to(request, ResponseCode.SUCCESS)

    def wipe_write_perm(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Have producers send to a broker no more."""
        return self._set_writeable(request, "wipeTopicCount", writeable=False)

    def add_write_perm(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Have producers send to a broker again."""
        return self._set_writeable(request, "addTopicCount", writeable=True)

    def _set_writeable(self, request: RemotingCommand, counted: str, *, writeable: bool) -> RemotingCommand:
        name = ExtFields(request.ext_fields).text("brokerName")
        if name not in self._name_server.names:
            raise RequestRefusedError(ResponseCode.SYSTEM_ERROR, f"brokerName: there is no {name[:255]!r}")
        topics = self._name_server.set_writeable(name, writeable=writeable)
        return response_to(request, ResponseCode.SUCCESS, ext_fields={counted: str(topics)})

    # -- brokers -----------------------------------------------------------------------------------

    def register(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Note another broker, and tell it who its master is."""
        fields = ExtFields(request.ext_fields)
        body = request.body
        check = fields.int32("bodyCrc32", 0)
        if check and zlib.crc32(body) & 0x7FFFFFFF != check:
            raise RequestRefusedError(ResponseCode.SYSTEM_ERROR, "bodyCrc32: expected that of the body")
        if fields.boolean("compressed", False):
            raise RequestRefusedError(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "compressed: expected false, found true"
            )
        broker = RegisteredBroker(
            fields.text("brokerName"),
            fields.text("clusterName"),
            fields.int64("brokerId"),
            fields.text("brokerAddr")[:_DISTANT_ADDRESS_CHARACTERS_MAX],
            fields.text("haServerAddr")[:_DISTANT_ADDRESS_CHARACTERS_MAX],
            _topics_of(body),
            self._parts.world.clock.monotonic_ns(),
        )
        try:
            master = self._name_server.register(broker)
        except ValueError as error:
            raise RequestRefusedError(ResponseCode.SYSTEM_ERROR, str(error)) from error
        answer = {}
        if master is not None and broker.broker_id:
            answer = {"haServerAddr": master.ha_address, "masterAddr": master.address}
        return response_to(request, ResponseCode.SUCCESS, ext_fields=answer)

    def unregister(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Forget another broker."""
        fields = ExtFields(request.ext_fields)
        self._name_server.unregister(fields.text("brokerName"), fields.int64("brokerId"))
        return response_to(request, ResponseCode.SUCCESS)


def _topics_of(body: bytes) -> dict[str, TopicConfig]:
    if not body:
        return {}
    wrapper = decode_json_body(body).inner("topicConfigSerializeWrapper")
    topics = {name: TopicConfig.of(name, entry) for name, entry in wrapper.inner("topicConfigTable").table()}
    if len(topics) > TOPICS_MAX:
        raise RequestRefusedError(
            ResponseCode.SYSTEM_ERROR, f"topics: expected {TOPICS_MAX} or fewer, found {len(topics)}"
        )
    return topics
