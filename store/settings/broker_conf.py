"""Parser of broker.conf: strict reading of a RocketMQ configuration as a StoreConfig.

An unknown key, a repeated key or an invalid value raises ConfigError with the key and its line; RocketMQ ignores these
errors. The parser returns keys that the store does not use as text. The parser strips blanks around a value, as
RocketMQ 4.9 does. The spellings `maped` and `mapped` mean the same key.
Sources: RocketMQ MixAll.properties2Object, BrokerStartup; for the keys BrokerConfig, NettyServerConfig,
NettyClientConfig, BrokerStartup, and the DLedger part of MessageStoreConfig.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, fields
from difflib import get_close_matches
from enum import Enum
from typing import Any

from ..config import ConfigError, StoreConfig
from ..formats.java_properties import PropertiesError, Property, parse_properties
from ..formats.java_text import java_trim

_BROKER = """
    rocketmqHome namesrvAddr brokerName brokerClusterName brokerId brokerIP1 brokerIP2 brokerPermission
    messageStorePlugIn regionId highSpeedMode filterServerNums
    autoCreateTopicEnable autoCreateSubscriptionGroup defaultTopicQueueNums clusterTopicEnable brokerTopicEnable
    validateSystemTopicWhenUpdateTopic
    sendMessageThreadPoolNums putMessageFutureThreadPoolNums pullMessageThreadPoolNums
    processReplyMessageThreadPoolNums queryMessageThreadPoolNums adminBrokerThreadPoolNums
    clientManageThreadPoolNums consumerManageThreadPoolNums heartbeatThreadPoolNums endTransactionThreadPoolNums
    sendThreadPoolQueueCapacity putThreadPoolQueueCapacity pullThreadPoolQueueCapacity
    replyThreadPoolQueueCapacity queryThreadPoolQueueCapacity clientManagerThreadPoolQueueCapacity
    consumerManagerThreadPoolQueueCapacity heartbeatThreadPoolQueueCapacity endTransactionPoolQueueCapacity
    flushConsumerOffsetInterval flushConsumerOffsetHistoryInterval
    shortPollingTimeMills notifyConsumerIdsChangedEnable maxDelayTime transferMsgByHeap slaveReadEnable
    rejectPullConsumerEnable disableConsumeIfConsumerReadSlowly consumerFallbehindThreshold
    brokerFastFailureEnable waitTimeMillsInSendQueue waitTimeMillsInPullQueue waitTimeMillsInHeartbeatQueue
    waitTimeMillsInTransactionQueue startAcceptSendRequestTimeStamp
    enableCalcFilterBitMap expectConsumerNumUseFilter maxErrorRateOfBloomFilter filterDataCleanTimeSpan
    filterSupportRetry enablePropertyFilter
    fetchNamesrvAddrByAddressServer registerBrokerTimeoutMills registerNameServerPeriod compressedRegister
    forceRegister
    rejectTransactionMessage transactionTimeOut transactionCheckMax transactionCheckInterval
    msgTraceTopicName traceTopicEnable traceOn aclEnable storeReplyMessageEnable
    commercialEnable commercialTimerCount commercialTransCount commercialBigCount commercialBaseCount
    enableDetailStat autoDeleteUnusedStats isolateLogEnable
"""
_STARTUP = "rmqAddressServerDomain rmqAddressServerSubGroup"
_SERVER = """
    listenPort serverWorkerThreads serverCallbackExecutorThreads serverSelectorThreads serverOnewaySemaphoreValue
    serverAsyncSemaphoreValue serverChannelMaxIdleTimeSeconds serverSocketSndBufSize serverSocketRcvBufSize
    serverSocketBacklog serverPooledByteBufAllocatorEnable useEpollNativeSelector
    writeBufferHighWaterMark writeBufferLowWaterMark
"""
_CLIENT = """
    clientWorkerThreads clientCallbackExecutorThreads clientOnewaySemaphoreValue clientAsyncSemaphoreValue
    clientChannelMaxIdleTimeSeconds clientSocketSndBufSize clientSocketRcvBufSize
    clientPooledByteBufAllocatorEnable clientCloseSocketIfTimeout connectTimeoutMillis channelNotActiveInterval
    useTLS disableCallbackExecutor disableNettyWorkerGroup
"""
_DLEDGER = "dLegerGroup dLegerPeers dLegerSelfId preferredLeaderId enableBatchPush"
_UNREAD = """
    storePathConsumeQueue storePathConsumerQueue storePathIndex storeCheckpoint abortFile
    checkTransactionMessageEnable
"""
"""Keys that RocketMQ 4.9 brokers do not read although common instructions mention them."""

_OWN = """
    masterAddr haHost heldPullsMax heldPullsOfClientMax
    serverConnectionsMax serverConnectionsPerHostMax serverFrameTimeoutMillis serverOutputTimeoutMillis
    serverHeldBytesMax
"""

BROKER_KEYS = frozenset(" ".join((_BROKER, _STARTUP, _SERVER, _CLIENT, _DLEDGER, _UNREAD, _OWN)).split())

_UNUSED = """
    aclEnable=false autoDeleteUnusedStats=false brokerIP2=127.0.0.1 channelNotActiveInterval=60000
    clientAsyncSemaphoreValue=65535 clientCallbackExecutorThreads=2 clientChannelMaxIdleTimeSeconds=120
    clientCloseSocketIfTimeout=true clientOnewaySemaphoreValue=65535 clientPooledByteBufAllocatorEnable=false
    clientSocketRcvBufSize=0 clientSocketSndBufSize=0 clientWorkerThreads=4 commercialBaseCount=1
    commercialBigCount=1 commercialEnable=true commercialTimerCount=1 commercialTransCount=1
    compressedRegister=false connectTimeoutMillis=3000 consumerFallbehindThreshold=17179869184
    disableConsumeIfConsumerReadSlowly=false enableDetailStat=true expectConsumerNumUseFilter=32
    fetchNamesrvAddrByAddressServer=false filterDataCleanTimeSpan=86400000 filterServerNums=0
    filterSupportRetry=false flushConsumerOffsetHistoryInterval=60000 forceRegister=true highSpeedMode=false
    isEnableBatchPush=false isolateLogEnable=false maxDelayTime=40 maxErrorRateOfBloomFilter=20
    putMessageFutureThreadPoolNums=2 putThreadPoolQueueCapacity=10000 registerBrokerTimeoutMills=6000
    rocketmqHome= serverAsyncSemaphoreValue=64 serverCallbackExecutorThreads=0 serverOnewaySemaphoreValue=256
    serverPooledByteBufAllocatorEnable=true serverSelectorThreads=3 serverWorkerThreads=8 transferMsgByHeap=true
    useEpollNativeSelector=false useTLS=false writeBufferHighWaterMark=0 writeBufferLowWaterMark=0
"""
UNUSED_DEFAULTS: Mapping[str, str] = dict(each.split("=", 1) for each in _UNUSED.split())
"""Keys without effect in this broker, with RocketMQ's defaults. RocketMQ's tools expect these keys."""

# A Java long has at most 19 digits. The parsing time grows with the square of the number of digits.
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_FRACTION = re.compile(r"[+-]?([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})([eE][+-]?[0-9]{1,3})?")
_BOOLEANS = {"true": True, "false": False}
_SHOWN_CHARACTERS = 80
_KEYS: dict[str, str] = {one.name: one.metadata["key"].name for one in fields(StoreConfig)}


@dataclass(frozen=True, slots=True)
class BrokerConf:
    """The settings of a broker.conf."""

    store: StoreConfig
    others: Mapping[str, str]
    """Other keys of the broker and their values as text."""
    lines: Mapping[str, int]
    """Field name of `store` -> line number of its setting."""


def read_broker_conf(text: str, root: str) -> BrokerConf:
    """Parse a broker.conf. `root` is the default of storePathRootDir. Raises ConfigError."""
    values: dict[str, Any] = {}
    others: dict[str, str] = {}
    lines: dict[str, int] = {}
    seen: dict[str, int] = {}
    for each in _parse_properties(text):
        spelling = canonical_key(each.key)
        if spelling in seen:
            expected = f"one value, already set in line {seen[spelling]}"
            raise ConfigError(each.key, expected, _abbreviate(each.value), line=each.line)
        seen[spelling] = each.line
        setting = _SETTINGS.get(spelling)
        if setting is not None:
            values[setting.name] = parse_setting(setting, each.key, each.value, each.line)
            lines[setting.name] = each.line
        elif each.key in BROKER_KEYS:
            others[each.key] = each.value
        else:
            raise ConfigError("key", _expected_key(each.key), _abbreviate(each.key), line=each.line)
    return BrokerConf(_config_of({"store_path_root_dir": root} | values, lines), others, lines)


def _parse_properties(text: str) -> list[Property]:
    try:
        return [each._replace(value=java_trim(each.value)) for each in parse_properties(text)]
    except PropertiesError as error:
        raise ConfigError("escape", error.expected, error.found, line=error.line) from error


def _config_of(values: dict[str, Any], lines: Mapping[str, int]) -> StoreConfig:
    try:
        return StoreConfig(**values)
    except ConfigError as error:
        found = _abbreviate(error.found) if isinstance(error.found, str) else error.found
        raise ConfigError(_KEYS[error.name], error.expected, found, line=lines.get(error.name)) from error


def canonical_key(key: str) -> str:
    """Replace `mapped` by `maped`."""
    return key.replace("apped", "aped")


_SETTINGS = {canonical_key(one.metadata["key"].name): one for one in fields(StoreConfig)}
assert len(_SETTINGS) == len(_KEYS), "two settings have the same key"


def _expected_key(key: str) -> str:
    near = get_close_matches(key[:_SHOWN_CHARACTERS], sorted([*_KEYS.values(), *BROKER_KEYS]), n=1)
    return f"a RocketMQ key, perhaps {near[0]}" if near else "a RocketMQ key"


def _abbreviate(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."


def parse_setting(setting: Field[Any], key: str, text: str, line: int | None = None) -> Any:
    """Raises ConfigError."""
    expected, read = _setting_parser(setting)
    value = read(text)
    if value is None:
        raise ConfigError(key, expected, _abbreviate(text), line=line)
    return value


def _setting_parser(setting: Field[Any]) -> tuple[str, Callable[[str], Any]]:
    """Return a description of the expected text, and a parser that returns None on an error."""
    kind = setting.type
    if kind is bool:
        return "true or false", lambda text: _BOOLEANS.get(text.lower())
    if kind is int:
        return "an integer", lambda text: int(text) if _INTEGER.fullmatch(text) else None
    if kind is float:
        return "a number", lambda text: float(text) if _FRACTION.fullmatch(text) else None
    if isinstance(kind, type) and issubclass(kind, Enum):
        return f"one of {', '.join(kind.__members__)}", kind.__members__.get
    return "a string", lambda text: text
