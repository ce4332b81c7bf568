from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornlog.store.config import BrokerRole, ConfigError, FlushDiskType, StoreConfig
from tornlog.store.settings.broker_conf import BROKER_KEYS, read_broker_conf

TYPICAL = """\
# Licensed to the Apache Software Foundation (ASF)
brokerClusterName = DefaultCluster
brokerName = broker-a
brokerId = 0
namesrvAddr=10.0.0.1:9876;10.0.0.2:9876
listenPort=10911
autoCreateTopicEnable=false

storePathRootDir=/data/rocketmq/store/
storePathCommitLog=/data/1,/data/2
storePathConsumeQueue=/data/rocketmq/store/consumequeue
mapedFileSizeCommitLog=536870912
mapedFileSizeConsumeQueue=300010
deleteWhen = 04;16
fileReservedTime = 48
diskMaxUsedSpaceRatio=88
brokerRole = ASYNC_MASTER\t
flushDiskType:SYNC_FLUSH
messageDelayLevel = 1s 5s \\
                    1h
warmMappedFileEnable TRUE
osPageCacheBusyTimeOutMills=+5000
diskSpaceWarningLevelRatio=0.95
"""


def test_a_typical_broker_conf_is_split_into_store_and_broker_keys() -> None:
    conf = read_broker_conf(TYPICAL, "/unused")

    assert conf.store == StoreConfig(
        "/data/rocketmq/store",
        store_path_commit_log="/data/1,/data/2",
        mapped_file_size_commit_log=536870912,
        mapped_file_size_consume_queue=300020,
        delete_when="04;16",
        file_reserved_time_hours=48,
        disk_max_used_space_ratio=88,
        broker_role=BrokerRole.ASYNC_MASTER,
        flush_disk_type=FlushDiskType.SYNC_FLUSH,
        message_delay_level="1s 5s 1h",
        warm_mapped_file_enable=True,
        os_page_cache_busy_time_out_ms=5000,
        disk_space_warning_level_ratio=0.95,
    )
    assert conf.others == {
        "brokerClusterName": "DefaultCluster",
        "brokerName": "broker-a",
        "brokerId": "0",
        "namesrvAddr": "10.0.0.1:9876;10.0.0.2:9876",
        "listenPort": "10911",
        "autoCreateTopicEnable": "false",
        "storePathConsumeQueue": "/data/rocketmq/store/consumequeue",
    }
    assert (conf.lines["store_path_root_dir"], conf.lines["message_delay_level"]) == (9, 19)
    assert len(conf.lines) == 13


def test_an_empty_broker_conf_keeps_all_defaults() -> None:
    conf = read_broker_conf("", "/var/store")

    assert conf.store == StoreConfig("/var/store")
    assert conf.others == conf.lines == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "\nflushDiskTyp=SYNC_FLUSH",
            "line 2: key: expected a RocketMQ key, perhaps flushDiskType, found 'flushDiskTyp'",
        ),
        ("brokername=a", "line 1: key: expected a RocketMQ key, perhaps brokerName, found 'brokername'"),
        ("zzz=1", "line 1: key: expected a RocketMQ key, found 'zzz'"),
        (
            "flushDiskType=sync_flush",
            "line 1: flushDiskType: expected one of SYNC_FLUSH, ASYNC_FLUSH, found 'sync_flush'",
        ),
        ("brokerRole=MASTER", "line 1: brokerRole: expected one of ASYNC_MASTER, SYNC_MASTER, SLAVE, found 'MASTER'"),
        ("maxMessageSize=4MB", "line 1: maxMessageSize: expected an integer, found '4MB'"),
        ("maxMessageSize=", "line 1: maxMessageSize: expected an integer, found ''"),
        ("maxMessageSize=0", "line 1: maxMessageSize: expected 1 or more, found 0"),
        ("maxMessageSize=2147483648", "line 1: maxMessageSize: expected 2147483647 or less, found 2147483648"),
        ("messageIndexEnable=yes", "line 1: messageIndexEnable: expected true or false, found 'yes'"),
        ("diskSpaceWarningLevelRatio=x", "line 1: diskSpaceWarningLevelRatio: expected a number, found 'x'"),
        (
            "diskSpaceWarningLevelRatio=90",
            "line 1: diskSpaceWarningLevelRatio: expected more than 0, up to 1, found 90.0",
        ),
        (
            "#\nmessageDelayLevel=1s 2x",
            "line 2: messageDelayLevel: expected a number and one of s m h d for each level, found '1s 2x'",
        ),
        ("deleteWhen=4pm", "line 1: deleteWhen: expected hours from 00 to 23, separated by ;, found '4pm'"),
        (
            "enableDLegerCommitLog=true",
            "line 1: enableDLegerCommitLog: expected false, because DLedger logs are not supported, found True",
        ),
        ("brokerId=1\nbrokerId=2", "line 2: brokerId: expected one value, already set in line 1, found '2'"),
        (
            "mappedFileSizeCommitLog=4096\nmapedFileSizeCommitLog=4096",
            "line 2: mapedFileSizeCommitLog: expected one value, already set in line 1, found '4096'",
        ),
        ("a\\u1=2", "line 1: escape: expected four hexadecimal digits after \\u, found '\\\\u1'"),
        ("storePathRootDir=", "line 1: storePathRootDir: expected a directory, found ''"),
        ("haMasterAddress=a\0b", "line 1: haMasterAddress: expected no zero byte, found 'a\\x00b'"),
    ],
)
def test_a_broker_conf_error_has_line_key_expectation_and_value(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_broker_conf(text, "/store")

    assert str(caught.value) == message


def test_a_broker_conf_error_truncates_a_long_value() -> None:
    for text in ("maxMessageSize=" + "9" * 9999, "k" * 9999 + "=1", "deleteWhen=" + "9" * 9999):
        with pytest.raises(ConfigError) as caught:
            read_broker_conf(text, "/store")

        assert len(str(caught.value)) < 250


def test_the_error_of_an_invalid_combination_has_a_line_only_if_a_line_sets_the_key() -> None:
    with pytest.raises(ConfigError, match=r"^maxIndexNum: expected an index file") as caught:
        read_broker_conf("maxHashSlotNum=2000000000", "/store")

    assert caught.value.line is None


def test_no_key_belongs_to_both_store_and_broker() -> None:
    keys = [one.metadata["key"].name for one in fields(StoreConfig)]

    assert len({key.replace("apped", "aped") for key in keys}) == len(keys)
    assert not BROKER_KEYS & set(keys)


def as_broker_conf_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(getattr(value, "value", value))


def test_every_setting_can_be_read_by_its_key_in_both_spellings() -> None:
    for one in fields(StoreConfig)[1:]:
        if one.name == "enable_dleger_commit_log":
            continue
        key = one.metadata["key"]
        value = {bool: not one.default, int: key.minimum + 1, float: 0.5, str: "/a"}.get(one.type, one.default)
        if one.name == "message_delay_level":
            value = "3s"
        if one.name == "delete_when":
            value = "23"
        if one.name == "mapped_file_size_consume_queue":
            value = 40
        for name in {key.name, key.name.replace("mapped", "maped"), key.name.replace("Maped", "Mapped")}:
            conf = read_broker_conf(f"{name} = {as_broker_conf_value(value)}", "/store")

            assert getattr(conf.store, one.name) == value
            assert conf.lines == {one.name: 1}


KEYS = sorted([*BROKER_KEYS, *(one.metadata["key"].name for one in fields(StoreConfig))])
VALUES = st.one_of(
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(
        ["true", "SYNC_FLUSH", "SLAVE", "1s 9h", "4;23", "/a,/b", "9" * 5000, "9" * 5000 + "s", "\\", "\\u"]
    ),
    st.text(),
)


@given(
    st.one_of(
        st.text(),
        st.text(st.characters(codec=None)),
        st.lists(st.tuples(st.sampled_from(KEYS), VALUES)).map(
            lambda rows: "\n".join(f"{key}={value}" for key, value in rows)
        ),
    )
)
def test_any_text_is_parsed_as_broker_conf_or_raises_a_config_error(text: str) -> None:
    try:
        conf = read_broker_conf(text, "/store")
    except ConfigError:
        return
    assert set(conf.others) <= BROKER_KEYS
