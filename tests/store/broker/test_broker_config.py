"""Broker settings: parsing, ranges and output."""

from dataclasses import fields

import pytest

from tornlog.store.broker.broker import Broker
from tornlog.store.broker.broker_config import BrokerConfig, settings_of
from tornlog.store.config import ConfigError, StoreConfig
from tornlog.store.real.world import real_world
from tornlog.store.settings.broker_conf import BROKER_KEYS, read_broker_conf


def test_every_broker_setting_has_a_valid_broker_conf_key() -> None:
    assert {one.metadata["key"].name for one in fields(BrokerConfig)} <= BROKER_KEYS


def test_a_broker_conf_sets_broker_settings_by_key() -> None:
    conf = read_broker_conf(
        "brokerName = b1\nlistenPort=20911\nenablePropertyFilter=true\nflushDiskType=SYNC_FLUSH\nhighSpeedMode=true",
        "/store",
    )
    config = BrokerConfig.from_settings(conf.others, broker_ip1="10.0.0.1")
    assert (config.broker_name, config.enable_property_filter) == ("b1", True)
    assert config.address == "10.0.0.1:20911"
    assert str(config.store_host) == "10.0.0.1|20911"


def test_an_invalid_broker_setting_is_reported_by_its_key() -> None:
    with pytest.raises(ConfigError, match="traceOn: expected true or false, found 'maybe'"):
        BrokerConfig.from_settings({"traceOn": "maybe"})
    with pytest.raises(ConfigError, match="listenPort: expected 0 to 65535, found 70000"):
        BrokerConfig(listen_port=70000)
    with pytest.raises(ConfigError, match="brokerIP1: expected an IP address, found 'localhost'"):
        BrokerConfig(broker_ip1="localhost")
    with pytest.raises(ConfigError, match="brokerName"):
        BrokerConfig(broker_name="")


def test_an_ipv6_broker_address_is_in_brackets_for_clients_and_bare_in_records() -> None:
    config = BrokerConfig(broker_ip1="2001:db8::1", listen_port=1)
    assert config.address == "[2001:db8::1]:1"
    assert str(config.store_host) == "2001:db8:0:0:0:0:0:1|1"


def test_name_servers_are_separated_by_semicolons() -> None:
    assert BrokerConfig(namesrv_addr=" a:1; b:2 ;").name_servers == ("a:1", "b:2")


def test_broker_settings_survive_a_round_trip_through_a_broker_conf() -> None:
    config = BrokerConfig(broker_name="b9", trace_on=False)
    assert BrokerConfig.from_settings(settings_of(config)) == config


def test_enabling_bit_maps_requires_queue_extensions() -> None:
    with pytest.raises(ConfigError, match="enableCalcFilterBitMap: expected false without enableConsumeQueueExt"):
        Broker(real_world(), StoreConfig("/none"), BrokerConfig(enable_calc_filter_bit_map=True))
