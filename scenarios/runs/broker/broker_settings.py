"""Broker settings: the configuration of each broker of a run, and the topics and groups that it needs."""

from collections.abc import Sequence
from dataclasses import asdict, fields, replace

from ....store.broker.broker import Broker
from ....store.broker.broker_config import BrokerConfig
from ....store.broker.topics import SubscriptionGroupConfig, TopicConfig
from ....store.config import StoreConfig
from ....store.settings.broker_conf import read_broker_conf
from ....store.world import Files
from ...claims.plan import Plan
from ...workload.drawing import topic_of_users
from .commands import CONSUMER_GROUP
from .group_member import GROUP, SECOND_GROUP
from .light_reader import light_reader_group
from .lookup_client import GROUP as LOOKUP_GROUP
from .retry_consumer import GROUP as RETRY_GROUP
from .routes import BrokerAddress
from .tailing_consumer import tailing_group

PORT = 10911
CONF_PATH = "/broker.conf"
REGISTER_MS = 10_000
"""The interval of registrations with other name servers. RocketMQ's brokers use 30 s, and at least 10 s."""


def name_servers_of(plan: Plan, own: BrokerAddress, others: Sequence[BrokerAddress]) -> Sequence[BrokerAddress]:
    """Return the brokers with which a broker registers, because each has a name server. others: all other brokers."""
    if not (own.is_slave and plan.broker.slaves_avoid_master):
        return others
    left = [other for other in others if other.is_slave or other.broker != own.broker]
    knows_all = plan.broker.slaves_know_master and plan.broker.slaves_know_ha_address
    return left if left or knows_all else others


def broker_config_of(
    plan: Plan, own: BrokerAddress, others: Sequence[BrokerAddress], wall_start_ms: int
) -> BrokerConfig:
    """others: all other brokers. wall_start_ms: the time on the wall clock at the start of the run."""
    host, _, port = own.address.rpartition(":")
    settings = asdict(plan.broker_settings)
    settings["enable_calc_filter_bit_map"] |= plan.broker.registers_filters
    settings["enable_calc_filter_bit_map"] &= plan.settings.enable_consume_queue_ext
    if after_ms := settings.pop("accepts_sends_after_ms"):
        settings["start_accept_send_request_time_stamp_ms"] = wall_start_ms + after_ms
    masters = [other.address for other in others if other.broker == own.broker and not other.is_slave]
    knows_master = own.is_slave and plan.broker.slaves_know_master
    return BrokerConfig(
        broker_name=own.broker,
        broker_id=own.broker_id,
        broker_ip1=host,
        listen_port=int(port),
        ha_host=host,
        namesrv_addr=";".join(each.address for each in name_servers_of(plan, own, others)),
        master_addr=masters[0] if knows_master else "",
        register_name_server_period_ms=REGISTER_MS,
        slave_read_enable=plan.broker.slaves_are_read,
        default_topic_queue_nums=plan.queues_per_topic + 1,  # producers ask for one less
        enable_property_filter=plan.consuming.filtered,
        **settings,
    )


def add_conf(files: Files, config: StoreConfig, broker_config: BrokerConfig) -> tuple[StoreConfig, BrokerConfig]:
    """Return the settings of a start, with the changes in the broker.conf, if there is one."""
    if files.status(CONF_PATH) is None:
        return config, broker_config
    conf = read_broker_conf(files.read(CONF_PATH).decode(), config.store_path_root_dir)
    changed = BrokerConfig.from_settings(conf.others)
    names = [one.name for one in fields(BrokerConfig) if one.metadata["key"].name in conf.others]
    return (
        replace(config, **{name: getattr(conf.store, name) for name in conf.lines}),
        replace(broker_config, **{name: getattr(changed, name) for name in names}),
    )


def make_tables_of_users(broker: Broker, plan: Plan) -> None:
    """Create the users' topics and groups if the settings forbid that a request creates them.

    Each of several masters needs its queues of every topic from the start on. Raises OSError if the disk fails.
    """
    queues, config = plan.queues_per_topic, broker.config
    if plan.broker.masters > 1 or not config.auto_create_topic_enable:
        topics = map(topic_of_users, range(plan.topics))
        broker.topics.add_missing_entries((name, TopicConfig(name, queues, queues)) for name in topics)
    if not config.auto_create_subscription_group:
        tailing = (tailing_group(plan, number) for number in range(plan.broker.tailing_consumers))
        light = map(light_reader_group, range(plan.broker.light_readers))
        groups = (CONSUMER_GROUP, GROUP, SECOND_GROUP, LOOKUP_GROUP, *tailing, *light)
        broker.groups.add_missing_entries((name, SubscriptionGroupConfig(name)) for name in groups)
    if plan.retry.failing_consumers:
        retrying = SubscriptionGroupConfig(
            RETRY_GROUP, retry_queue_nums=plan.retry.retry_queues, retry_max_times=plan.retry.retries_max_of_group
        )
        broker.groups.add_missing_entries([(RETRY_GROUP, retrying)])
