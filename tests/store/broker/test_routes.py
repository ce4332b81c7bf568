import pytest

from tornlog.store.broker.name_server import NameServer, RegisteredBroker
from tornlog.store.broker.topics import TopicConfig
from tornlog.store.broker.versioned_table import DataVersion
from tornlog.store.world import World


def test_a_route_has_the_addresses_of_a_broker_that_leaves_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, topics = NameServer(world), {"T": TopicConfig("T", 1, 1)}
    identity = "broker-a", "cluster", 0, "10.0.0.1:10911", ""
    server.register(RegisteredBroker(*identity, topics, world.clock.monotonic_ns(), DataVersion()))
    look = server._all_brokers

    def look_once() -> list[RegisteredBroker]:
        found = look()
        server.unregister("broker-a", 0)
        return found

    monkeypatch.setattr(server, "_all_brokers", look_once)
    route = server.route("T", quoted_keys=True)
    assert route is not None
    assert [each["brokerAddrs"] for each in route["brokerDatas"]] == [{"0": "10.0.0.1:10911"}]
    assert [each["brokerName"] for each in route["queueDatas"]] == ["broker-a"]
