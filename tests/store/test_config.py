from dataclasses import fields
from typing import Any

import pytest

from tornlog.store.config import ConfigError, StoreConfig
from tornlog.store.settings.broker_conf import read_broker_conf
from tornlog.store.settings.describe_config import MEANINGS

DEFAULTS = """\
storePathRootDir=/store
storePathCommitLog=
readOnlyCommitLogStorePaths=
mappedFileSizeCommitLog=1073741824
mappedFileSizeConsumeQueue=6000000
enableConsumeQueueExt=false
mappedFileSizeConsumeQueueExt=50331648
bitMapLengthConsumeQueueExt=64
flushIntervalCommitLog=500
commitIntervalCommitLog=200
useReentrantLockWhenPutMessage=true
flushCommitLogTimed=true
flushIntervalConsumeQueue=1000
cleanResourceInterval=10000
deleteCommitLogFilesInterval=100
deleteConsumeQueueFilesInterval=100
destroyMapedFileIntervalForcibly=120000
redeleteHangedFileInterval=120000
deleteWhen=04
diskMaxUsedSpaceRatio=75
fileReservedTime=72
maxMessageSize=4194304
checkCRCOnRecover=true
flushCommitLogLeastPages=4
commitCommitLogLeastPages=4
flushLeastPagesWhenWarmMapedFile=4096
flushConsumeQueueLeastPages=2
flushCommitLogThoroughInterval=10000
commitCommitLogThoroughInterval=200
flushConsumeQueueThoroughInterval=60000
maxTransferBytesOnMessageInMemory=262144
maxTransferCountOnMessageInMemory=32
maxTransferBytesOnMessageInDisk=65536
maxTransferCountOnMessageInDisk=8
accessMessageInMemoryMaxRatio=40
messageIndexEnable=true
maxHashSlotNum=5000000
maxIndexNum=20000000
maxMsgsNumBatch=64
messageIndexSafe=false
haListenPort=10912
haSendHeartbeatInterval=5000
haHousekeepingInterval=20000
haTransferBatchSize=32768
haMasterAddress=
haSlaveFallbehindMax=268435456
brokerRole=ASYNC_MASTER
flushDiskType=ASYNC_FLUSH
syncFlushTimeout=5000
slaveTimeout=3000
messageDelayLevel=1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h
flushDelayOffsetInterval=10000
cleanFileForciblyEnable=true
warmMapedFileEnable=false
offsetCheckInSlave=false
debugLockEnable=false
duplicationEnable=false
diskFallRecorded=true
osPageCacheBusyTimeOutMills=1000
defaultQueryMaxNum=32
transientStorePoolEnable=false
transientStorePoolSize=5
fastFailIfNoBufferInStorePool=false
enableDLegerCommitLog=false
enableLmq=false
enableMultiDispatch=false
maxLmqConsumeQueueNum=20000
enableScheduleMessageStats=true
enableScheduleAsyncDeliver=false
scheduleAsyncDeliverMaxPendingLimit=2000
scheduleAsyncDeliverMaxResendNum2Blocked=3
putMsgIndexHightWater=600000
diskSpaceWarningLevelRatio=0.90
diskSpaceCleanForciblyRatio=0.85
longPollingEnable=true
"""
"""Every key of RocketMQ 4.9.8's that the store knows, with its default there."""


@pytest.mark.parametrize("name", ["mapped_file_size_commit_log", "mapped_file_size_consume_queue", "max_message_size"])
@pytest.mark.parametrize("value", [0, -1])
def test_the_error_for_a_size_that_is_not_positive_names_it(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{name}: expected 1 or more, found {value}"):
        StoreConfig("/store", **{name: value})


@pytest.mark.parametrize(("asked", "rounded"), [(1, 20), (20, 20), (100, 100), (110, 120)])
def test_a_queue_file_size_is_rounded_to_whole_entries(asked: int, rounded: int) -> None:
    assert StoreConfig("/store", mapped_file_size_consume_queue=asked).mapped_file_size_consume_queue == rounded


def test_all_default_paths_are_below_the_root_with_rocketmqs_names() -> None:
    config = StoreConfig("/data/store")
    assert config.commit_log_directory == "/data/store/commitlog"
    assert config.consume_queue_directory == "/data/store/consumequeue"
    assert config.checkpoint_path == "/data/store/checkpoint"
    assert config.abort_path == "/data/store/abort"
    assert config.lock_path == "/data/store/lock"


def test_a_directory_setting_may_end_with_a_slash() -> None:
    assert StoreConfig("/data/store//") == StoreConfig("/data/store")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"store_path_root_dir": ""}, "store_path_root_dir: expected a directory, found ''"),
        ({"store_path_commit_log": "/a\0"}, "store_path_commit_log: expected no zero byte, found"),
        ({"mapped_file_size_commit_log": 1 << 31}, "mapped_file_size_commit_log: expected 2147483647 or less"),
        ({"max_index_num": 110_000_000}, "max_index_num: expected an index file, with maxHashSlotNum slots, of"),
        ({"delete_when": ""}, "delete_when: expected hours from 00 to 23, separated by ;, found ''"),
        ({"delete_when": "04;24"}, "delete_when: expected hours"),
        ({"delete_when": "004"}, "delete_when: expected hours"),
        ({"message_delay_level": "1 s"}, "message_delay_level: expected a number and one of s m h d"),
        ({"message_delay_level": f"{1 << 62}s"}, "message_delay_level: expected delays up to"),
        ({"disk_space_clean_forcibly_ratio": float("nan")}, "disk_space_clean_forcibly_ratio: expected more than 0"),
        ({"enable_dleger_commit_log": True}, "enable_dleger_commit_log: expected false"),
        ({"read_only_commit_log_store_paths": "/store/commitlog"}, "read_only_commit_log_store_paths: expected a d"),
    ],
)
def test_the_error_for_an_impossible_setting_names_it(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        StoreConfig(**{"store_path_root_dir": "/store"} | settings)
    assert str(caught.value).startswith(message)
    assert caught.value.line is None


def test_every_setting_has_a_description_and_every_description_a_setting() -> None:
    assert [one.metadata["key"].name for one in fields(StoreConfig)] == list(MEANINGS)
    assert all(meaning.text.endswith(".") for meaning in MEANINGS.values())


def test_every_numeric_setting_except_a_port_has_a_unit() -> None:
    numbers = {one.metadata["key"].name for one in fields(StoreConfig) if one.type in (int, float)}
    assert numbers - {name for name, meaning in MEANINGS.items() if meaning.unit} == {"haListenPort"}


def test_default_settings_are_those_of_rocketmq() -> None:
    conf = read_broker_conf(DEFAULTS, "/unused")
    of_rocketmq = [one.name for one in fields(StoreConfig) if not one.metadata["key"].own]
    assert conf.store == StoreConfig("/store")
    assert sorted(conf.lines) == sorted(of_rocketmq)
