"""Routes of topics on this broker and on registered brokers."""

import json
import zlib
from typing import Any

from tests.one_life import with_settings
from tornlog.store.broker.kv_config import KVConfig
from tornlog.store.broker.requests import RequestCode, ResponseCode

SLAVE = {"brokerName": "broker-a", "clusterName": "DefaultCluster", "brokerId": 1, "brokerAddr": "10.0.0.9:10911"}


def register_broker(client: Any, topics: dict[str, object], **fields: Any) -> Any:
    table = {"topicConfigTable": topics, "dataVersion": {"counter": 1, "timestamp": 2}}
    body = json.dumps({"topicConfigSerializeWrapper": table, "filterServerList": []}).encode()
    check = {"compressed": "false", "bodyCrc32": zlib.crc32(body) & 0x7FFFFFFF, "haServerAddr": "10.0.0.9:10912"}
    return client.answer(RequestCode.REGISTER_BROKER, body, **{**SLAVE, **check, **fields})


def route_text(client: Any, topic: str = "Orders", **given: Any) -> str:
    answer = client.answer(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic, **given)
    assert answer.code == ResponseCode.SUCCESS
    text: str = answer.body.decode()
    return text


def test_a_route_has_the_broker_and_its_queues(client: Any) -> None:
    answer = client.answer(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="Orders")
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    client.send_message(b"m")
    assert route_text(client) == (
        '{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:10911"},"brokerName":"broker-a",'
        '"cluster":"DefaultCluster"}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,'
        '"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
    )
    assert '"perm":7,"readQueueNums":8' in route_text(client, "TBW102")


def test_old_clients_get_unquoted_broker_ids_in_routes_by_default(client: Any) -> None:
    assert '{0:"127.0.0.1:10911"}' in route_text(client, "TBW102", version=400)
    assert '{"0":"127.0.0.1:10911"}' in route_text(client, "TBW102", version=401)
    assert '{"0":"127.0.0.1:10911"}' in route_text(client, "TBW102", version=1, acceptStandardJsonOnly="true")


@with_settings(broker_permission=4)
def test_routes_show_the_brokers_permission(bench: Any) -> None:
    assert '"perm":4' in route_text(bench.client(), "TBW102")


def test_write_permission_in_routes_can_be_removed_and_restored(bench: Any, client: Any) -> None:
    client.send_message(b"m")
    wiped = client.answer(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="broker-a")
    assert wiped.ext_fields == {"wipeTopicCount": str(len(bench.broker.topics.table))}
    assert '"perm":4' in route_text(client)
    client.answer(RequestCode.ADD_WRITE_PERM_OF_BROKER, brokerName="broker-a")
    assert '"perm":6' in route_text(client)
    none = client.answer(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="broker-x")
    assert none.ext_fields == {"wipeTopicCount": "0"}


def test_cluster_and_topics_are_listed(client: Any) -> None:
    assert client.answer(RequestCode.GET_BROKER_CLUSTER_INFO).body.decode() == (
        '{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"127.0.0.1:10911"},"brokerName":"broker-a",'
        '"cluster":"DefaultCluster"}},"clusterAddrTable":{"DefaultCluster":["broker-a"]}}'
    )
    client.send_message(b"m")
    topics = json.loads(client.answer(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER).body)["topicList"]
    assert {"Orders", "TBW102", "SCHEDULE_TOPIC_XXXX"} <= set(topics)
    of_cluster = client.answer(RequestCode.GET_TOPICS_BY_CLUSTER, cluster="DefaultCluster").body
    assert json.loads(of_cluster)["topicList"] == topics
    none = client.answer(RequestCode.GET_TOPICS_BY_CLUSTER, cluster="Other").body
    assert json.loads(none)["topicList"] == []
    system = json.loads(client.answer(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS).body)
    assert "Orders" not in system["topicList"]
    assert system["brokerAddr"] == "127.0.0.1:10911"


def test_a_registered_slave_gets_its_masters_address_and_is_in_the_route(client: Any) -> None:
    client.send_message(b"m")
    answer = register_broker(client, {"Orders": {"topicName": "Orders", "perm": 4}})
    assert answer.ext_fields["masterAddr"] == "127.0.0.1:10911"
    found = json.loads(route_text(client))
    addresses = {"0": "127.0.0.1:10911", "1": "10.0.0.9:10911"}
    assert found["brokerDatas"][0]["brokerAddrs"] == addresses
    assert [queues["perm"] for queues in found["queueDatas"]] == [6]
    client.answer(RequestCode.UNREGISTER_BROKER, **SLAVE)
    assert json.loads(route_text(client))["brokerDatas"][0]["brokerAddrs"] == {"0": "127.0.0.1:10911"}


def test_a_silent_broker_expires_after_two_minutes(bench: Any, client: Any) -> None:
    register_broker(client, {"Theirs": {"topicName": "Theirs"}}, brokerName="broker-b", brokerId=0)
    assert "broker-b" in route_text(client, "Theirs")
    client.answer(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="Theirs")
    answer = client.answer(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="Theirs")
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    register_broker(client, {"Theirs": {"topicName": "Theirs"}}, brokerName="broker-b", brokerId=0)
    bench.sleep(121_000)
    answer = client.answer(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="Theirs")
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST


def test_the_end_of_a_connection_unregisters_its_broker_unless_it_registered_again(bench: Any) -> None:
    other, client = {"brokerName": "broker-b", "brokerId": 0}, bench.client()
    first, second = bench.client(), bench.client()
    topics = {"Theirs": {"topicName": "Theirs"}}
    register_broker(first, topics, **other)
    register_broker(second, topics, **other)
    first.close()
    assert "broker-b" in route_text(client, "Theirs")
    second.close()
    assert client.answer(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="Theirs").code == ResponseCode.TOPIC_NOT_EXIST
    register_broker(second, topics, **other)
    answer = client.answer(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="Theirs")
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST, "a registration that outlives its connection"


def test_a_corrupt_broker_registration_is_refused(client: Any) -> None:
    assert register_broker(client, {}, bodyCrc32=1).code == ResponseCode.SYSTEM_ERROR
    assert register_broker(client, {"T": 7}).code == ResponseCode.SYSTEM_ERROR
    assert register_broker(client, {}, compressed="true").code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def test_a_broker_that_registers_again_is_writable_again(bench: Any) -> None:
    client, name_server = bench.client(), bench.broker.name_server
    other = {"brokerName": "broker-b", "brokerId": 0}
    topics = {"Theirs": {"topicName": "Theirs", "perm": 6}}
    register_broker(client, topics, **other)
    client.answer(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="broker-a")
    client.answer(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="broker-b")
    register_broker(client, topics, **other)
    assert '"perm":4' in route_text(client, "Theirs")
    client.answer(RequestCode.UNREGISTER_BROKER, **SLAVE | other)
    assert name_server._read_only == {"broker-a"}
    register_broker(client, topics, **other)
    assert '"perm":6' in route_text(client, "Theirs")
    client.answer(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="broker-b")
    bench.sleep(121_000)
    assert name_server.names == ["broker-a"]
    assert name_server._read_only == {"broker-a"}


def test_kv_values_are_stored_by_namespace_and_key(bench: Any, client: Any) -> None:
    for key, value in (("north", "1"), ("south", "2")):
        client.answer(RequestCode.PUT_KV_CONFIG, namespace="PLACES", key=key, value=value)
    assert client.answer(RequestCode.GET_KV_CONFIG, namespace="PLACES", key="north").ext_fields == {"value": "1"}
    client.answer(RequestCode.DELETE_KV_CONFIG, namespace="PLACES", key="south")
    client.answer(RequestCode.DELETE_KV_CONFIG, namespace="NONE", key="south")
    none = client.answer(RequestCode.GET_KV_CONFIG, namespace="PLACES", key="south")
    assert (none.code, none.remark) == (ResponseCode.QUERY_NOT_FOUND, "No config item, Namespace: PLACES Key: south")
    for wrong in ({"namespace": "PLACES"}, {"namespace": "PLACES", "key": "east"}):
        assert client.answer(RequestCode.PUT_KV_CONFIG, **wrong).code == ResponseCode.SYSTEM_ERROR

    again = KVConfig(bench.world, "/store/config/kvConfig.json")
    again.load()
    assert again.namespace("PLACES") == {"north": "1"}
    listed = client.answer(RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="PLACES")
    assert json.loads(listed.body) == {"table": {"north": "1"}}
    none = client.answer(RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="NONE")
    assert none.code == ResponseCode.QUERY_NOT_FOUND


def test_a_topic_is_ordered_while_it_has_an_order_configuration(bench: Any) -> None:
    client, topics = bench.client(), bench.broker.topics
    client.send_message(b"m")
    order = {"namespace": "ORDER_TOPIC_CONFIG", "key": "Orders"}
    client.answer(RequestCode.PUT_KV_CONFIG, **order, value="broker-a:4")
    assert topics.table["Orders"].order
    assert "orderTopicConf" not in route_text(client)
    client.answer(RequestCode.UPDATE_NAMESRV_CONFIG, b"orderMessageEnable=true")
    assert '"orderTopicConf":"broker-a:4"' in route_text(client)
    registered = register_broker(client, {})
    assert json.loads(registered.body) == {"table": {"Orders": "broker-a:4"}}
    client.answer(RequestCode.DELETE_KV_CONFIG, **order)
    assert not topics.table["Orders"].order


def test_a_change_of_a_fixed_name_server_setting_is_refused(client: Any) -> None:
    told = client.answer(RequestCode.GET_NAMESRV_CONFIG).body.decode()
    assert "listenPort=10911\n" in told
    assert "orderMessageEnable=false\n" in told
    wrong = client.answer(RequestCode.UPDATE_NAMESRV_CONFIG, b"listenPort=1")
    assert (wrong.code, wrong.remark) == (
        ResponseCode.NO_PERMISSION,
        "listenPort cannot change while the name server runs",
    )
    bad = client.answer(RequestCode.UPDATE_NAMESRV_CONFIG, b"orderMessageEnable=perhaps")
    assert "orderMessageEnable: expected true or false" in bad.remark
    assert "is not a name server setting" in client.answer(RequestCode.UPDATE_NAMESRV_CONFIG, b"noSuchKey=1").remark
    client.answer(RequestCode.UPDATE_NAMESRV_CONFIG, b"orderMessageEnable=true\nnoSuchKey=1")
    assert "orderMessageEnable=false\n" in client.answer(RequestCode.GET_NAMESRV_CONFIG).body.decode()


def test_a_broker_can_query_whether_its_registration_is_current(client: Any) -> None:

    def asked(counter: int) -> Any:
        version = json.dumps({"counter": counter, "timestamp": 2}).encode()
        return client.answer(RequestCode.QUERY_DATA_VERSION, version, **SLAVE)

    assert asked(1).ext_fields == {"changed": "true"}
    register_broker(client, {})
    assert asked(1).ext_fields == {"changed": "false"}
    assert json.loads(asked(2).body) == {"counter": 1, "timestamp": 2}
    assert asked(2).ext_fields == {"changed": "true"}


def test_unit_topics_are_listed_by_their_system_flags(client: Any) -> None:
    register_broker(
        client, {name: {"topicName": name, "topicSysFlag": flag} for name, flag in (("a", 1), ("b", 2), ("c", 3))}
    )

    def topics(code: RequestCode) -> list[str]:
        found: list[str] = json.loads(client.answer(code).body)["topicList"]
        return found

    assert topics(RequestCode.GET_UNIT_TOPIC_LIST) == ["a", "c"]
    assert topics(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST) == ["b", "c"]
    assert topics(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST) == ["b"]
