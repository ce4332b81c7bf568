"""Start and stop of brokers, persistent state, and failed starts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tornlog.faults.disk.image import FileImage, Image
from tornlog.store.broker.broker import Broker
from tornlog.store.broker.broker_config import BrokerConfig
from tornlog.store.config import StoreConfig
from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.messages import Message, PutMessageResult, PutMessageStatus
from tornlog.store.plugins import AbstractPluginMessageStore
from tornlog.store.real.network import RealNetwork
from tornlog.store.real.world import real_world
from tornlog.store.world import World

Make = Callable[..., Any]


class Refusing(AbstractPluginMessageStore):
    """A plug-in that refuses all messages."""

    def put_message(self, message: Message) -> PutMessageResult:
        return PutMessageResult(PutMessageStatus.SERVICE_NOT_AVAILABLE)


def started_broker(world: World, config: StoreConfig, **settings: Any) -> Broker:
    broker = Broker(world, config, BrokerConfig(**settings))
    broker.load()
    broker.start()
    return broker


@pytest.mark.parametrize(
    "name", ["topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json", "../checkpoint"]
)
def test_a_damaged_side_file_is_reported_and_kept(lab: Make, small: Make, name: str) -> None:
    path = f"/store/config/{name}" if name.endswith(".json") else "/store/checkpoint"

    def life(world: World) -> None:
        broker = started_broker(world, small())
        assert [finding.file for finding in broker.findings] == [path]
        broker.topics.create("Orders", 2)
        broker.groups.find("billing")
        broker.offsets.commit_offset("billing", "Orders", 0, 0)
        broker.own_store.schedule.take_over({1: 0})
        assert broker.shutdown()
        if name.endswith(".json"):
            assert world.files.read(f"{path}.damaged") == b"{broken"

    lab(Image({path: FileImage(b"{broken", 0)}, ("/store", "/store/config"))).run(life)


def test_groups_and_offsets_survive_a_stop_and_offsets_are_clamped(lab: Make, small: Make) -> None:
    first = lab()

    def one_life(world: World) -> None:
        broker = started_broker(world, small())
        broker.groups.find("billing")
        broker.topics.create("Orders", 2)
        assert broker.store.put_message(Message.create("Orders", b"m")).is_stored
        broker.offsets.commit_offset("billing", "Orders", 0, 1)
        broker.offsets.commit_offset("billing", "Orders", 1, 9)
        assert broker.shutdown()

    def next_life(world: World) -> None:
        broker = started_broker(world, small())
        assert broker.groups.get("billing") is not None
        assert broker.offsets.query_offset("billing", "Orders", 0) == 1
        assert broker.offsets.query_offset("billing", "Orders", 1) == 0
        assert broker.shutdown()

    first.run(one_life)
    lab(first.switch_off()).run(next_life)


def test_kv_settings_survive_a_stop_and_further_changes(lab: Make, small: Make) -> None:
    first = lab()

    def one_life(world: World) -> None:
        broker = started_broker(world, small())
        broker.name_server.kv.put("ORDER_TOPIC_CONFIG", "Orders", "broker-a:4")
        assert broker.shutdown()

    def next_life(world: World) -> None:
        broker = started_broker(world, small())
        broker.name_server.kv.put("ORDER_TOPIC_CONFIG", "Bills", "broker-a:2")
        assert broker.name_server.kv.namespace("ORDER_TOPIC_CONFIG") == {"Orders": "broker-a:4", "Bills": "broker-a:2"}
        assert broker.shutdown()

    first.run(one_life)
    lab(first.switch_off()).run(next_life)


@pytest.mark.parametrize("file", ["topics.json", "subscriptionGroup.json", "consumerOffset.json", "kvConfig.json"])
def test_a_start_with_unreadable_tables_releases_the_directory_lock(lab: Make, small: Make, file: str) -> None:
    damaged = FileImage(b"{", 0)
    path = f"/store/config/{file}"
    image = Image({path: damaged, f"{path}.bak": damaged}, ("/store", "/store/config"))

    def life(world: World) -> None:
        with pytest.raises(CorruptFileError, match=file):
            started_broker(world, small())
        for each in (path, f"{path}.bak"):
            world.files.unlink(each)
        assert started_broker(world, small()).shutdown()

    lab(image).run(life)


@pytest.mark.parametrize(
    ("call", "file"), [("sync", "topics.json"), ("sync", "subscriptionGroup.json"), ("write", "abort")]
)
def test_a_failed_start_releases_the_directory_lock(lab: Make, small: Make, call: str, file: str) -> None:
    bench = lab()

    def life(world: World) -> None:
        broker = Broker(world, small(), BrokerConfig())
        broker.load()
        bench.failures.plan(call, file)
        with pytest.raises(OSError, match="Input/output"):
            broker.start()
        assert world.files.status("/store/abort") is None
        assert started_broker(world, small()).shutdown()

    bench.run(life)


def test_the_error_for_an_ha_port_in_use_names_it(tmp_path: Path) -> None:
    taken = RealNetwork().listen("127.0.0.1:0")
    port = int(taken.address.rpartition(":")[2])
    config = StoreConfig(str(tmp_path / "s"), ha_listen_port=port, mapped_file_size_commit_log=1 << 16)
    broker = Broker(real_world(), config, BrokerConfig())
    broker.load()
    with pytest.raises(OSError, match=f"slaves: .*127.0.0.1:{port}"):
        broker.start()
    taken.close()
    again = started_broker(real_world(), config)
    assert again.name_server.ha_address == taken.address
    assert again.shutdown()


def test_the_ha_host_can_be_ipv6(tmp_path: Path) -> None:
    config = StoreConfig(str(tmp_path / "s"), ha_listen_port=0, mapped_file_size_commit_log=1 << 16)
    broker = started_broker(real_world(), config, ha_host="::1", broker_ip1="::1")
    assert broker.ha is not None
    assert broker.ha.address.startswith("[::1]:")
    assert broker.name_server.ha_address == broker.ha.address
    assert broker.shutdown()


def test_an_invalid_ha_host_releases_the_directory_lock(tmp_path: Path) -> None:
    config = StoreConfig(str(tmp_path / "s"), ha_listen_port=0, mapped_file_size_commit_log=1 << 16)
    broker = Broker(real_world(), config, BrokerConfig(ha_host=""))
    broker.load()
    with pytest.raises(ValueError, match="address"):
        broker.start()
    assert started_broker(real_world(), config).shutdown()


def test_plug_ins_wrap_the_store_of_a_broker(world: World, small: Make) -> None:
    broker = started_broker(world, small(), message_store_plug_in=f"{__name__}:Refusing")
    status = broker.store.put_message(Message.create("Orders", b"m")).status
    assert status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert broker.own_store.put_message(Message.create("Orders", b"m")).is_stored
    assert broker.shutdown()
