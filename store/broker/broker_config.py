"""Broker settings except the store's: RocketMQ's keys and defaults.

`read_broker_conf` returns the keys that the store does not use; `BrokerConfig.from_settings` ignores unknown keys.
Source: RocketMQ BrokerConfig.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ..config import ConfigError, Key
from ..formats.host import Host
from ..formats.java_text import java_trim
from ..settings.broker_conf import parse_setting
from ..settings.describe_config import setting_text
from .requests import INT_MAX, LONG_MAX
from .topic_names import PERM_READ_WRITE

MASTER_ID = 0


def _setting_field(default: Any, name: str, minimum: int = 0, maximum: int = INT_MAX, *, own: bool = False) -> Any:
    return field(default=default, metadata={"key": Key(name, minimum, maximum, own)})


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """Settings of one broker. `_ms` are milliseconds."""

    # -- identity ------------------------------------------------------------------------------------
    broker_name: str = _setting_field("broker-a", "brokerName")
    broker_cluster_name: str = _setting_field("DefaultCluster", "brokerClusterName")
    broker_id: int = _setting_field(MASTER_ID, "brokerId", 0, LONG_MAX)
    broker_ip1: str = _setting_field("127.0.0.1", "brokerIP1")
    """The address for clients, also stored in records as storeHost."""
    listen_port: int = _setting_field(10911, "listenPort", 0, 65535)
    ha_host: str = _setting_field("127.0.0.1", "haHost", own=True)
    """The address for slaves, at haListenPort. RocketMQ listens on all addresses."""
    region_id: str = _setting_field("DefaultRegion", "regionId")
    namesrv_addr: str = _setting_field("", "namesrvAddr")
    """Name servers with which the broker registers: `host:port`, separated by semicolons."""
    register_name_server_period_ms: int = _setting_field(30_000, "registerNameServerPeriod", 10_000, 60_000)
    master_addr: str = _setting_field("", "masterAddr", own=True)
    """`host:port` of the master from which a slave copies topics, groups and offsets."""

    message_store_plug_in: str = _setting_field("", "messageStorePlugIn")
    """Wrapper classes of the store: `package.module:Class`, separated by commas, the outermost first."""

    # -- topics and groups -------------------------------------------------------------------------
    broker_permission: int = _setting_field(PERM_READ_WRITE, "brokerPermission", 0, 7)
    auto_create_topic_enable: bool = _setting_field(True, "autoCreateTopicEnable")
    auto_create_subscription_group: bool = _setting_field(True, "autoCreateSubscriptionGroup")
    default_topic_queue_nums: int = _setting_field(8, "defaultTopicQueueNums", 1, 1024)
    cluster_topic_enable: bool = _setting_field(True, "clusterTopicEnable")
    broker_topic_enable: bool = _setting_field(True, "brokerTopicEnable")
    trace_topic_enable: bool = _setting_field(False, "traceTopicEnable")
    msg_trace_topic_name: str = _setting_field("RMQ_SYS_TRACE_TOPIC", "msgTraceTopicName")
    trace_on: bool = _setting_field(True, "traceOn")
    validate_system_topic_when_update_topic: bool = _setting_field(True, "validateSystemTopicWhenUpdateTopic")

    # -- sending -----------------------------------------------------------------------------------
    start_accept_send_request_time_stamp_ms: int = _setting_field(0, "startAcceptSendRequestTimeStamp", 0, LONG_MAX)
    reject_transaction_message: bool = _setting_field(False, "rejectTransactionMessage")
    transaction_timeout_ms: int = _setting_field(6_000, "transactionTimeOut", 0, LONG_MAX)
    transaction_check_max: int = _setting_field(15, "transactionCheckMax")
    transaction_check_interval_ms: int = _setting_field(60_000, "transactionCheckInterval", 1, LONG_MAX)
    store_reply_message_enable: bool = _setting_field(True, "storeReplyMessageEnable")

    # -- consuming ---------------------------------------------------------------------------------
    short_polling_time_ms: int = _setting_field(1_000, "shortPollingTimeMills", 1, LONG_MAX)
    notify_consumer_ids_changed_enable: bool = _setting_field(True, "notifyConsumerIdsChangedEnable")
    slave_read_enable: bool = _setting_field(False, "slaveReadEnable")
    enable_property_filter: bool = _setting_field(False, "enablePropertyFilter")
    enable_calc_filter_bit_map: bool = _setting_field(False, "enableCalcFilterBitMap")
    flush_consumer_offset_interval_ms: int = _setting_field(5_000, "flushConsumerOffsetInterval", 1)
    held_pulls_max: int = _setting_field(100_000, "heldPullsMax", own=True)
    """Maximum number of held pulls. The broker answers further pulls at once with PULL_NOT_FOUND."""
    held_pulls_of_client_max: int = _setting_field(10_000, "heldPullsOfClientMax", own=True)

    def __post_init__(self) -> None:
        for one in fields(self):
            value, key = getattr(self, one.name), one.metadata["key"]
            if type(value) is int and not key.minimum <= value <= key.maximum:
                raise ConfigError(key.name, f"{key.minimum} to {key.maximum}", value)
        for name in (self.broker_name, self.broker_cluster_name):
            if not name:
                raise ConfigError("brokerName and brokerClusterName", "a name", name)
        try:
            Host.of_address(self.address)
        except ValueError as error:
            raise ConfigError("brokerIP1", "an IP address", self.broker_ip1) from error

    @classmethod
    def from_settings(cls, others: Mapping[str, str], **settings: Any) -> "BrokerConfig":
        """Read the keys of a broker.conf; `settings` override them. Raises ConfigError."""
        keys = {one.metadata["key"].name: one for one in fields(cls)}
        parsed = {one.name: parse_setting(one, key, others[key]) for key, one in keys.items() if key in others}
        return cls(**{**parsed, **settings})

    @property
    def address(self) -> str:
        """The address for clients, `host:port`, with an IPv6 host in brackets."""
        host = f"[{self.broker_ip1}]" if ":" in self.broker_ip1 else self.broker_ip1
        return f"{host}:{self.listen_port}"

    @property
    def store_host(self) -> Host:
        """The address for clients in the format of records."""
        return Host.of_address(self.address)

    @property
    def name_servers(self) -> tuple[str, ...]:
        return tuple(filter(None, map(java_trim, self.namesrv_addr.split(";"))))


def settings_of(config: BrokerConfig) -> dict[str, str]:
    """Return the key and text of every setting, as in a broker.conf."""
    return {one.metadata["key"].name: setting_text(getattr(config, one.name)) for one in fields(config)}
