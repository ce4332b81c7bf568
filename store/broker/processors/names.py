"""Names: processor of name server requests about routes, brokers and settings.

    GET_ROUTEINFO_BY_TOPIC  GET_BROKER_CLUSTER_INFO  GET_ALL_TOPIC_LIST_FROM_NAMESERVER  GET_TOPICS_BY_CLUSTER
    GET_SYSTEM_TOPIC_LIST_FROM_NS  GET_UNIT_TOPIC_LIST and its like  DELETE_TOPIC_IN_NAMESRV
    WIPE_WRITE_PERM_OF_BROKER  ADD_WRITE_PERM_OF_BROKER
    REGISTER_BROKER  UNREGISTER_BROKER  QUERY_DATA_VERSION
    PUT_KV_CONFIG  GET_KV_CONFIG  DELETE_KV_CONFIG  GET_KVLIST_BY_NAMESPACE
    UPDATE_NAMESRV_CONFIG  GET_NAMESRV_CONFIG

Source: RocketMQ DefaultRequestProcessor, RegisterBrokerBody, TopicList, KVTable.
"""

import zlib
from collections.abc import Callable

from ...formats.remoting.command import RemotingCommand
from ...formats.remoting.json_body import decode_json_body
from ...world import World
from ..broker_config import MASTER_ID
from ..kv_config import ORDER_TOPIC_CONFIG, TooManyKeysError
from ..name_server import NameServer, RegisteredBroker
from ..requests import ExtFields, RequestCode, RequestRefusedError, ResponseCode, response_to, success_response
from ..router import Channel, Processor
from ..setting_changes import SettingChangeError, properties_text, wanted_settings
from ..topics import UNIT_FLAG, UNIT_SUB_FLAG, TopicConfig
from ..versioned_table import DataVersion

STANDARD_JSON_VERSION = 401
"""MQVersion of V4_9_4. Clients from this version on accept only quoted JSON keys."""
TOPICS_MAX = 65_536
"""Maximum number of topics per registered broker."""
_DISTANT_ADDRESS_CHARACTERS_MAX = 255


class NameServerProcessor:
    """Processor of name server requests."""

    def __init__(self, world: World, name_server: NameServer) -> None:
        self._clock = world.clock
        self._name_server = name_server

    def route(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        fields = ExtFields(request.ext_fields)
        topic = fields.text("topic")
        quoted = fields.boolean("acceptStandardJsonOnly", False) or request.version >= STANDARD_JSON_VERSION
        found = self._name_server.route(topic, quoted_keys=quoted)
        if found is None:
            remark = f"No topic route info in name server for the topic: {topic[:255]}"
            raise RequestRefusedError(remark, ResponseCode.TOPIC_NOT_EXIST)
        return success_response(request, found)

    def delete_topic(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        self._name_server.forget_topic(ExtFields(request.ext_fields).text("topic"))
        return success_response(request)

    def set_writeable(self, request: RemotingCommand, *, writeable: bool) -> int:
        """Return the number of the broker's topics."""
        name = ExtFields(request.ext_fields).text("brokerName")
        return self._name_server.set_writeable(name, writeable=writeable)

    def register(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """The answer to a slave contains the master's address."""
        fields, body = ExtFields(request.ext_fields), request.body
        check = fields.int32("bodyCrc32", 0)
        if check and zlib.crc32(body) & 0x7FFFFFFF != check:
            raise RequestRefusedError("bodyCrc32: expected the CRC of the body")
        if fields.boolean("compressed", False):
            remark = "compressed: expected false, found true"
            raise RequestRefusedError(remark, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        topics, version = _topics_of(body)
        broker = RegisteredBroker(
            fields.text("brokerName"),
            fields.text("clusterName"),
            fields.int64("brokerId"),
            fields.text("brokerAddr")[:_DISTANT_ADDRESS_CHARACTERS_MAX],
            fields.text("haServerAddr")[:_DISTANT_ADDRESS_CHARACTERS_MAX],
            topics,
            self._clock.monotonic_ns(),
            version,
            channel,
        )
        master = self._name_server.register(broker)
        if not channel.is_open:  # if the connection ended before the registration, no later event removes the broker
            self._name_server.channel_closed(channel)
        is_slave = master is not None and broker.broker_id != MASTER_ID
        known = {"haServerAddr": master.ha_address, "masterAddr": master.address} if master and is_slave else {}
        ordered = self._name_server.kv.namespace(ORDER_TOPIC_CONFIG)
        return success_response(request, None if ordered is None else {"table": ordered}, **known)

    def unregister(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        fields = ExtFields(request.ext_fields)
        self._name_server.unregister(fields.text("brokerName"), fields.int64("brokerId"))
        return success_response(request)

    def query_version(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return whether a broker's topics have changed since its registration."""
        fields = ExtFields(request.ext_fields)
        theirs = DataVersion.from_json_members(decode_json_body(request.body))
        known = self._name_server.version_of(fields.text("brokerName"), fields.int64("brokerId"))
        changed = str(known != theirs).lower()
        return success_response(request, None if known is None else known.json_members, changed=changed)

    def put_kv_config(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        fields = ExtFields(request.ext_fields)
        try:
            self._name_server.kv.put(fields.text("namespace"), fields.text("key"), fields.text("value"))
        except TooManyKeysError as error:
            raise RequestRefusedError(str(error)) from error
        return success_response(request)

    def get_kv_config(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        fields = ExtFields(request.ext_fields)
        namespace, key = fields.text("namespace"), fields.text("key")
        value = self._name_server.kv.get(namespace, key)
        if value is None:
            remark = f"No config item, Namespace: {namespace[:255]} Key: {key[:255]}"
            raise RequestRefusedError(remark, ResponseCode.QUERY_NOT_FOUND)
        return success_response(request, value=value)

    def delete_kv_config(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        fields = ExtFields(request.ext_fields)
        self._name_server.kv.delete(fields.text("namespace"), fields.text("key"))
        return success_response(request)

    def list_kv_configs(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        namespace = ExtFields(request.ext_fields).text("namespace")
        values = self._name_server.kv.namespace(namespace)
        if values is None:
            remark = f"No config item, Namespace: {namespace[:255]}"
            raise RequestRefusedError(remark, ResponseCode.QUERY_NOT_FOUND)
        return success_response(request, {"table": values})

    def update_config(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        try:
            self._name_server.settings.change(wanted_settings(request.body))
        except SettingChangeError as error:
            raise RequestRefusedError(str(error), error.code) from error
        return success_response(request)


def _topics_of(body: bytes) -> tuple[dict[str, TopicConfig], DataVersion]:
    if not body:
        return {}, DataVersion()
    wrapper = decode_json_body(body).inner_object("topicConfigSerializeWrapper")
    topics = {
        name: TopicConfig.from_json_members(name, entry)
        for name, entry in wrapper.inner_object("topicConfigTable").table()
    }
    if len(topics) > TOPICS_MAX:
        raise RequestRefusedError(f"topics: expected {TOPICS_MAX} or fewer, found {len(topics)}")
    return topics, DataVersion.from_json_members(wrapper.inner_object("dataVersion"))


def name_server_processors(world: World, name_server: NameServer) -> dict[int, Processor]:
    names, server = NameServerProcessor(world, name_server), name_server

    def topic_list(topics: Callable[[RemotingCommand], list[str]]) -> Processor:
        return lambda request, _: success_response(request, {"topicList": topics(request)})

    def system_topics(request: RemotingCommand, _: Channel) -> RemotingCommand:
        topics, address = server.system_topics()
        return success_response(request, {"brokerAddr": address, "topicList": topics})

    def config(request: RemotingCommand, _: Channel) -> RemotingCommand:
        return response_to(request, ResponseCode.SUCCESS, body=properties_text(server.settings.table))

    return {
        RequestCode.PUT_KV_CONFIG: names.put_kv_config,
        RequestCode.GET_KV_CONFIG: names.get_kv_config,
        RequestCode.DELETE_KV_CONFIG: names.delete_kv_config,
        RequestCode.GET_KVLIST_BY_NAMESPACE: names.list_kv_configs,
        RequestCode.GET_BROKER_CLUSTER_INFO: lambda request, _: success_response(request, server.cluster_info()),
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: topic_list(lambda _: server.topics()),
        RequestCode.GET_TOPICS_BY_CLUSTER: topic_list(
            lambda request: server.topics(ExtFields(request.ext_fields).text("cluster"))
        ),
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: system_topics,
        RequestCode.GET_UNIT_TOPIC_LIST: topic_list(lambda _: server.topics_with_unit_flag(having=UNIT_FLAG)),
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: topic_list(
            lambda _: server.topics_with_unit_flag(having=UNIT_SUB_FLAG)
        ),
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: topic_list(
            lambda _: server.topics_with_unit_flag(having=UNIT_SUB_FLAG, lacking=UNIT_FLAG)
        ),
        RequestCode.WIPE_WRITE_PERM_OF_BROKER: lambda request, _: success_response(
            request, wipeTopicCount=names.set_writeable(request, writeable=False)
        ),
        RequestCode.ADD_WRITE_PERM_OF_BROKER: lambda request, _: success_response(
            request, addTopicCount=names.set_writeable(request, writeable=True)
        ),
        RequestCode.DELETE_TOPIC_IN_NAMESRV: names.delete_topic,
        RequestCode.REGISTER_BROKER: names.register,
        RequestCode.UNREGISTER_BROKER: names.unregister,
        RequestCode.QUERY_DATA_VERSION: names.query_version,
        RequestCode.UPDATE_NAMESRV_CONFIG: names.update_config,
        RequestCode.GET_NAMESRV_CONFIG: config,
        RequestCode.GET_ROUTEINFO_BY_TOPIC: names.route,
    }
