"""A slave copies its master's tables, registers with it, and serves pulls."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tornlog.store.broker import outer_api as slave_synchronize
from tornlog.store.broker.broker import Broker
from tornlog.store.broker.broker_config import BrokerConfig
from tornlog.store.broker.kv_config import ORDER_TOPIC_CONFIG
from tornlog.store.broker.limits import ServerLimits
from tornlog.store.broker.operator_log import LineLevel, level_of
from tornlog.store.broker.outer_api import APART_MS
from tornlog.store.broker.serve import ServedBroker
from tornlog.store.broker.server import RemotingServer
from tornlog.store.broker.topics import TopicConfig
from tornlog.store.config import BrokerRole, ConfigError, StoreConfig
from tornlog.store.errors import StoreError
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.real.network import RealNetwork
from tornlog.store.real.world import real_world


def wait_until(found: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not found():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.01)


class Served:
    runs = True

    def __init__(self, directory: Path, role: BrokerRole, **settings: object) -> None:
        world = real_world()
        self.server = RemotingServer(world, ServerLimits())
        self.address = self.server.listen(["127.0.0.1:0"])[0]
        store = StoreConfig(str(directory), broker_role=role, ha_listen_port=0, mapped_file_size_commit_log=1 << 16)
        port = int(self.address.rpartition(":")[2])
        self.broker = Broker(world, store, BrokerConfig(listen_port=port, **settings))  # type: ignore[arg-type]
        self.broker.load()
        self.broker.start()
        self.server.start(
            self.broker.routes(),
            on_channel_closed=self.broker.channel_closed,
            on_response=self.broker.calls.deliver_response,
        )

    def stop(self) -> None:
        if self.runs:
            self.runs = False
            self.server.shutdown()
            assert self.broker.shutdown()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    with ExitStack() as stack:

        def make(name: str, role: BrokerRole, **settings: object) -> Served:
            served = Served(tmp_path / name, role, **settings)
            stack.callback(served.stop)
            return served

        yield make


def test_a_slave_copies_the_tables_of_its_master(serve: Callable[..., Served]) -> None:
    master = serve("master", BrokerRole.ASYNC_MASTER)
    slave = serve("slave", BrokerRole.SLAVE, broker_id=1, master_addr=master.address, namesrv_addr=master.address)
    master.broker.topics.put("Orders", TopicConfig("Orders", 2, 2))
    master.broker.groups.find("billing")
    master.broker.offsets.commit_offset("billing", "Orders", 1, 7)
    delayed = Message.create("Orders", b"later", properties={"DELAY": "1"})
    assert master.broker.store.put_message(delayed).is_stored
    wait_until(lambda: master.broker.own_store.schedule.offsets.get(1) == 1)
    synchronize = slave.broker.synchronize
    assert synchronize is not None

    synchronize.synchronize()
    assert slave.broker.topics.table == master.broker.topics.table
    assert slave.broker.groups.table == master.broker.groups.table
    assert slave.broker.offsets.query_offset("billing", "Orders", 1) == 7
    assert slave.broker.own_store.schedule.offsets == {1: 1}

    (registration,) = slave.broker.registrations
    wait_until(lambda: registration.registered)
    route = master.broker.name_server.route("Orders", quoted_keys=True)
    assert route is not None
    addresses = {"0": master.address, "1": slave.address}
    wait_until(lambda: "Orders" in slave.broker.topics.table)
    assert route["brokerDatas"][0]["brokerAddrs"] == addresses

    assert slave.broker.ha is not None
    wait_until(lambda: slave.broker.store.get_max_offset_in_queue("Orders", 0) == 1)
    assert slave.broker.store.get_message("Orders", 0, 0).records

    slave.stop()
    route = master.broker.name_server.route("Orders", quoted_keys=True)
    assert route is not None
    assert route["brokerDatas"][0]["brokerAddrs"] == {"0": master.address}


def test_a_slave_has_a_queue_before_it_copies_the_topic(serve: Callable[..., Served]) -> None:
    master = serve("master", BrokerRole.ASYNC_MASTER)
    slave = serve("slave", BrokerRole.SLAVE, broker_id=1, namesrv_addr=master.address)
    assert master.broker.store.put_message(Message.create("Orders", b"one")).is_stored
    wait_until(lambda: slave.broker.own_store.get_max_offset_in_queue("Orders", 0) == 1)

    assert slave.broker.topics.get("Orders") is None
    assert (slave.broker.min_offset("Orders", 0), slave.broker.max_offset("Orders", 0)) == (0, 1)
    assert slave.broker.max_offset("Orders", 1) == 0
    assert master.broker.max_offset("Orders", 0) == 0, "a master knows its topics"


def test_a_slave_keeps_its_tables_if_the_master_fails(serve: Callable[..., Served]) -> None:
    master = serve("master", BrokerRole.ASYNC_MASTER)
    slave = serve("slave", BrokerRole.SLAVE, broker_id=1, master_addr=master.address)
    synchronize = slave.broker.synchronize
    assert synchronize is not None
    synchronize.synchronize()
    known = slave.broker.topics.table
    nobody = RealNetwork().listen("127.0.0.1:0")
    nobody.close()
    synchronize.update_master_address(nobody.address)
    with pytest.raises(OSError, match="REFUSED"):
        synchronize.synchronize()
    refusing = RemotingServer(real_world(), ServerLimits())
    synchronize.update_master_address(refusing.listen(["127.0.0.1:0"])[0])
    refusing.start({})
    with pytest.raises(StoreError, match="GET_ALL_TOPIC_CONFIG: 3"):
        synchronize.synchronize()
    refusing.shutdown()
    assert slave.broker.topics.table == known


def test_an_invalid_master_address_is_an_error_and_does_not_end_the_service(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slave_synchronize, "FIRST_MS", 1)
    monkeypatch.setattr(slave_synchronize, "INTERVAL_MS", 1)
    master = serve("master", BrokerRole.ASYNC_MASTER)
    slave = serve("slave", BrokerRole.SLAVE, broker_id=1, master_addr="nowhere", namesrv_addr=f"::1;{master.address}")
    synchronize, (wrong, right) = slave.broker.synchronize, slave.broker.registrations
    assert synchronize is not None
    wait_until(lambda: isinstance(synchronize.last_error, ValueError))
    wait_until(lambda: isinstance(wrong.last_error, ValueError) and right.registered)
    assert right.last_error is None
    synchronize.update_master_address(f"{'a' * 70}.example:1")  # UnicodeError
    wait_until(lambda: isinstance(synchronize.last_error, UnicodeError))
    synchronize.update_master_address(master.address)
    wait_until(lambda: synchronize.synchronized)
    wrong.last_error = None
    slave.stop()
    assert isinstance(wrong.last_error, ValueError)


def test_a_new_topic_is_registered_at_once_and_many_new_topics_together(serve: Callable[..., Served]) -> None:
    other = serve("names", BrokerRole.ASYNC_MASTER, broker_name="names")
    broker = serve("broker", BrokerRole.ASYNC_MASTER, namesrv_addr=other.address).broker
    (registration,) = broker.registrations
    wait_until(lambda: registration.registered)
    time.sleep(2 * APART_MS / 1_000)

    begin = time.monotonic()
    broker.topics.put("Orders", TopicConfig("Orders", 2, 2))
    wait_until(lambda: other.broker.name_server.route("Orders", quoted_keys=True))
    assert time.monotonic() - begin < 25, "registering comes by itself only every 30 s"

    before, begin = registration.registered, time.monotonic()
    for number in range(100):
        broker.topics.put(f"Orders-{number}", TopicConfig(f"Orders-{number}", 2, 2))
    wait_until(lambda: other.broker.name_server.route("Orders-99", quoted_keys=True))
    passed_ms = (time.monotonic() - begin) * 1_000
    assert registration.registered - before <= passed_ms / APART_MS + 2
    broker.topics.remove("Orders-99")
    wait_until(lambda: other.broker.name_server.route("Orders-99", quoted_keys=True) is None)


def test_name_servers_with_different_ordered_topics_cause_no_endless_registrations(
    serve: Callable[..., Served],
) -> None:
    ordering, other = (serve(name, BrokerRole.ASYNC_MASTER, broker_name=name) for name in ("names-a", "names-b"))
    ordering.broker.name_server.kv.put(ORDER_TOPIC_CONFIG, "Orders", "broker:2")
    other.broker.name_server.kv.put(ORDER_TOPIC_CONFIG, "Other", "broker:2")
    both = f"{ordering.address};{other.address}"
    broker = serve("broker", BrokerRole.ASYNC_MASTER, namesrv_addr=both).broker
    broker.topics.put("Orders", TopicConfig("Orders", 2, 2))
    wait_until(lambda: all(server.broker.name_server.route("Orders", quoted_keys=True) for server in (ordering, other)))
    time.sleep(2 * APART_MS / 1_000)

    before = [each.registered for each in broker.registrations]
    time.sleep(8 * APART_MS / 1_000)
    assert [each.registered for each in broker.registrations] == before


def test_a_slave_needs_a_broker_id_above_0(tmp_path: Path) -> None:
    store = StoreConfig(str(tmp_path), broker_role=BrokerRole.SLAVE)
    with pytest.raises(ConfigError, match="brokerId: expected more than 0 on a slave, found 0"):
        Broker(real_world(), store, BrokerConfig())


class Logged:
    """A served broker with its log lines."""

    def __init__(self, directory: Path, role: BrokerRole, bodies: list[bytes], master: str = "") -> None:
        store = StoreConfig(
            str(directory),
            broker_role=role,
            ha_listen_port=0,
            ha_master_address=master,
            mapped_file_size_commit_log=1 << 16,
        )
        self.lines: list[str] = []
        alone = MessageStore(real_world(), replace(store, broker_role=BrokerRole.ASYNC_MASTER))
        alone.load()
        alone.start()
        assert all(alone.put_message(Message.create("T", body)).is_stored for body in bodies)
        assert alone.shutdown()
        config = BrokerConfig(broker_id=int(role is BrokerRole.SLAVE))
        self.served = ServedBroker(real_world(), store, config, ServerLimits(), emit=self.lines.append)
        self.served.start(["127.0.0.1:0"])

    @property
    def warnings(self) -> str:
        return "\n".join(line for line in list(self.lines) if level_of(line) is LineLevel.WARNING)

    @property
    def ha_address(self) -> str:
        assert self.served._broker is not None
        assert self.served._broker.ha is not None
        return self.served._broker.ha.address

    def replication_states(self) -> dict[tuple[str, ...], float]:
        (states,) = [dict(each.values) for each in self.served.metrics() if each.name == "replication_state"]
        return states


@pytest.mark.parametrize(
    ("bodies", "of_master"),
    [
        ([b"another"] * 3, "the slave closed the connection and confirmed no data: its log may have diverged"),
        ([b"message"] * 9, "its log has diverged"),
    ],
    ids=["other bytes", "longer"],
)
def test_divergence_is_logged_by_master_and_slave(tmp_path: Path, bodies: list[bytes], of_master: str) -> None:
    with ExitStack() as stack:
        master = Logged(tmp_path / "master", BrokerRole.ASYNC_MASTER, [b"message"] * 6)
        stack.callback(master.served.shutdown)
        slave = Logged(tmp_path / "slave", BrokerRole.SLAVE, bodies, master.ha_address)
        stack.callback(slave.served.shutdown)
        wait_until(lambda: slave.warnings and master.warnings)
        assert slave.warnings.startswith(
            f"this slave has stopped copying from {master.ha_address}: their logs have diverged: log offset "
        )
        assert master.warnings.startswith("slave 127.0.0.1:")
        assert of_master in master.warnings
        states = dict.fromkeys([("not connected",), ("comparing",), ("following",)], 0.0)
        assert slave.replication_states() == {("diverged",): 1.0, **states}
