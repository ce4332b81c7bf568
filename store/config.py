"""Store settings: RocketMQ's settings in Python's spelling, with types and units.

Each field has the RocketMQ key and the range of its setting. Units are bytes, milliseconds (`_ms`) and pages of 4096
bytes. Defaults are those of RocketMQ 4.9.8.
"""

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, NamedTuple

from .formats.consume_queue import ENTRY_BYTES
from .formats.delay_level import DEFAULT_DELAY_LEVELS, parse_delay_levels
from .formats.index import index_file_bytes
from .formats.java_text import java_trim

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

_INT_MAX = 0x7FFFFFFF
_LONG_MAX = (1 << 63) - 1


class FlushDiskType(Enum):
    """When a put returns: after its bytes are durable, or after they are in the page cache."""

    SYNC_FLUSH = "SYNC_FLUSH"
    ASYNC_FLUSH = "ASYNC_FLUSH"


class BrokerRole(Enum):
    """The role of a store in replication."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


class ConfigError(ValueError):
    """An invalid setting, with the line of its file."""

    def __init__(self, name: str, expected: str, found: object, *, line: int | None = None) -> None:
        place = "" if line is None else f"line {line}: "
        super().__init__(f"{place}{name}: expected {expected}, found {found!r}")
        self.name = name
        self.expected = expected
        self.found = found
        self.line = line


class Key(NamedTuple):
    """The RocketMQ key of a setting and its range."""

    name: str
    """The RocketMQ key, or a key in the same spelling for a setting that RocketMQ lacks."""
    minimum: int
    maximum: int
    own: bool
    """Whether RocketMQ lacks the setting."""


def _setting_field(default: Any, name: str, minimum: int = 0, maximum: int = _INT_MAX, *, own: bool = False) -> Any:
    assert minimum <= maximum, name
    assert not isinstance(default, int) or minimum <= default <= maximum, (name, default)
    return field(default=default, metadata={"key": Key(name, minimum, maximum, own)})


class _PathBelowRoot:
    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, config: "StoreConfig", owner: object) -> str:
        return f"{config.store_path_root_dir}/{self._name}"


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Settings of one store directory. `describe_config` explains each setting."""

    store_path_root_dir: str = field(metadata={"key": Key("storePathRootDir", 0, 0, False)})

    # -- files -------------------------------------------------------------------------------------
    store_path_commit_log: str = _setting_field("", "storePathCommitLog")
    read_only_commit_log_store_paths: str = _setting_field("", "readOnlyCommitLogStorePaths")
    mapped_file_size_commit_log: int = _setting_field(GIB, "mappedFileSizeCommitLog", 1)
    mapped_file_size_consume_queue: int = _setting_field(
        300_000 * ENTRY_BYTES, "mappedFileSizeConsumeQueue", 1, _INT_MAX - ENTRY_BYTES
    )
    enable_consume_queue_ext: bool = _setting_field(False, "enableConsumeQueueExt")
    mapped_file_size_consume_queue_ext: int = _setting_field(48 * MIB, "mappedFileSizeConsumeQueueExt", 64)
    bit_map_length_consume_queue_ext: int = _setting_field(64, "bitMapLengthConsumeQueueExt", 0, 8 * 32000)
    max_hash_slot_num: int = _setting_field(5_000_000, "maxHashSlotNum", 1)
    max_index_num: int = _setting_field(20_000_000, "maxIndexNum", 2)
    max_message_size: int = _setting_field(4 * MIB, "maxMessageSize", 1)

    # -- putting -----------------------------------------------------------------------------------
    broker_role: BrokerRole = _setting_field(BrokerRole.ASYNC_MASTER, "brokerRole")
    use_reentrant_lock_when_put_message: bool = _setting_field(True, "useReentrantLockWhenPutMessage")
    os_page_cache_busy_time_out_ms: int = _setting_field(1_000, "osPageCacheBusyTimeOutMills", 0, _LONG_MAX)
    debug_lock_enable: bool = _setting_field(False, "debugLockEnable")
    duplication_enable: bool = _setting_field(False, "duplicationEnable")
    put_msg_index_hight_water: int = _setting_field(600_000, "putMsgIndexHightWater")
    message_delay_level: str = _setting_field(DEFAULT_DELAY_LEVELS, "messageDelayLevel")

    # -- flushing ----------------------------------------------------------------------------------
    flush_disk_type: FlushDiskType = _setting_field(FlushDiskType.ASYNC_FLUSH, "flushDiskType")
    sync_flush_timeout_ms: int = _setting_field(5_000, "syncFlushTimeout", 1)
    flush_commit_log_timed: bool = _setting_field(True, "flushCommitLogTimed")
    flush_interval_commit_log_ms: int = _setting_field(500, "flushIntervalCommitLog", 1)
    flush_commit_log_least_pages: int = _setting_field(4, "flushCommitLogLeastPages")
    flush_commit_log_thorough_interval_ms: int = _setting_field(10_000, "flushCommitLogThoroughInterval")
    commit_interval_commit_log_ms: int = _setting_field(200, "commitIntervalCommitLog", 1)
    commit_commit_log_least_pages: int = _setting_field(4, "commitCommitLogLeastPages")
    commit_commit_log_thorough_interval_ms: int = _setting_field(200, "commitCommitLogThoroughInterval")
    flush_interval_consume_queue_ms: int = _setting_field(1_000, "flushIntervalConsumeQueue", 1)
    flush_consume_queue_least_pages: int = _setting_field(2, "flushConsumeQueueLeastPages")
    flush_consume_queue_thorough_interval_ms: int = _setting_field(60_000, "flushConsumeQueueThoroughInterval")
    flush_delay_offset_interval_ms: int = _setting_field(10_000, "flushDelayOffsetInterval", 1, _LONG_MAX)

    # -- memory ------------------------------------------------------------------------------------
    transient_store_pool_enable: bool = _setting_field(False, "transientStorePoolEnable")
    transient_store_pool_size: int = _setting_field(5, "transientStorePoolSize", 1, 4096)
    fast_fail_if_no_buffer_in_store_pool: bool = _setting_field(False, "fastFailIfNoBufferInStorePool")
    warm_mapped_file_enable: bool = _setting_field(False, "warmMapedFileEnable")
    flush_least_pages_when_warm_mapped_file: int = _setting_field(4096, "flushLeastPagesWhenWarmMapedFile", 1)

    # -- reading -----------------------------------------------------------------------------------
    max_transfer_bytes_on_message_in_memory: int = _setting_field(256 * KIB, "maxTransferBytesOnMessageInMemory", 1)
    max_transfer_count_on_message_in_memory: int = _setting_field(32, "maxTransferCountOnMessageInMemory", 1)
    max_transfer_bytes_on_message_in_disk: int = _setting_field(64 * KIB, "maxTransferBytesOnMessageInDisk", 1)
    max_transfer_count_on_message_in_disk: int = _setting_field(8, "maxTransferCountOnMessageInDisk", 1)
    access_message_in_memory_max_ratio: int = _setting_field(40, "accessMessageInMemoryMaxRatio", 0, 100)
    physical_memory_bytes: int = _setting_field(20 * GIB, "physicalMemoryBytes", 0, _LONG_MAX, own=True)
    disk_fall_recorded: bool = _setting_field(True, "diskFallRecorded")
    offset_check_in_slave: bool = _setting_field(False, "offsetCheckInSlave")
    long_polling_enable: bool = _setting_field(True, "longPollingEnable")

    # -- index -------------------------------------------------------------------------------------
    message_index_enable: bool = _setting_field(True, "messageIndexEnable")
    message_index_safe: bool = _setting_field(False, "messageIndexSafe")
    max_msgs_num_batch: int = _setting_field(64, "maxMsgsNumBatch", 1)
    default_query_max_num: int = _setting_field(32, "defaultQueryMaxNum", 1)

    # -- retention ---------------------------------------------------------------------------------
    file_reserved_time_hours: int = _setting_field(72, "fileReservedTime")
    delete_when: str = _setting_field("04", "deleteWhen")
    disk_max_used_space_ratio: int = _setting_field(75, "diskMaxUsedSpaceRatio", 0, 100)
    disk_space_warning_level_ratio: float = _setting_field(0.90, "diskSpaceWarningLevelRatio")
    disk_space_clean_forcibly_ratio: float = _setting_field(0.85, "diskSpaceCleanForciblyRatio")
    clean_file_forcibly_enable: bool = _setting_field(True, "cleanFileForciblyEnable")
    clean_resource_interval_ms: int = _setting_field(10_000, "cleanResourceInterval", 1)
    delete_commit_log_files_interval_ms: int = _setting_field(100, "deleteCommitLogFilesInterval")
    delete_consume_queue_files_interval_ms: int = _setting_field(100, "deleteConsumeQueueFilesInterval")
    destroy_mapped_file_interval_forcibly_ms: int = _setting_field(120_000, "destroyMapedFileIntervalForcibly")
    redelete_hanged_file_interval_ms: int = _setting_field(120_000, "redeleteHangedFileInterval")

    # -- delayed delivery --------------------------------------------------------------------------
    enable_schedule_message_stats: bool = _setting_field(True, "enableScheduleMessageStats")
    enable_schedule_async_deliver: bool = _setting_field(False, "enableScheduleAsyncDeliver")
    """No effect, like the next two settings, because the put of a delivered copy never waits for a disk."""
    schedule_async_deliver_max_pending_limit: int = _setting_field(2000, "scheduleAsyncDeliverMaxPendingLimit", 1)
    schedule_async_deliver_max_resend_num2_blocked: int = _setting_field(3, "scheduleAsyncDeliverMaxResendNum2Blocked")

    # -- light queues ------------------------------------------------------------------------------
    enable_lmq: bool = _setting_field(False, "enableLmq")
    enable_multi_dispatch: bool = _setting_field(False, "enableMultiDispatch")
    max_lmq_consume_queue_num: int = _setting_field(20_000, "maxLmqConsumeQueueNum")

    # -- replication -------------------------------------------------------------------------------
    ha_listen_port: int = _setting_field(10912, "haListenPort", 0, 65535)
    ha_master_address: str = _setting_field("", "haMasterAddress")
    ha_send_heartbeat_interval_ms: int = _setting_field(5_000, "haSendHeartbeatInterval", 1)
    ha_housekeeping_interval_ms: int = _setting_field(20_000, "haHousekeepingInterval", 1)
    ha_transfer_batch_size: int = _setting_field(32 * KIB, "haTransferBatchSize", 1)
    ha_slave_fallbehind_max: int = _setting_field(256 * MIB, "haSlaveFallbehindMax", 1)
    slave_timeout_ms: int = _setting_field(3_000, "slaveTimeout", 1)
    enable_dleger_commit_log: bool = _setting_field(False, "enableDLegerCommitLog")

    # -- recovery ----------------------------------------------------------------------------------
    check_crc_on_recover: bool = _setting_field(True, "checkCRCOnRecover")
    recover_whole_log: bool = _setting_field(True, "recoverWholeLog", own=True)

    def __post_init__(self) -> None:
        for one in fields(self):
            value, key = getattr(self, one.name), one.metadata["key"]
            if type(value) is str and "\0" in value:
                raise ConfigError(one.name, "no zero byte", value)
            if type(value) is int and not key.minimum <= value <= key.maximum:
                bound = f"{key.minimum} or more" if value < key.minimum else f"{key.maximum} or less"
                raise ConfigError(one.name, bound, value)
        if not self.store_path_root_dir:
            raise ConfigError("store_path_root_dir", "a directory", self.store_path_root_dir)
        root = self.store_path_root_dir.rstrip("/") or "/"
        object.__setattr__(self, "store_path_root_dir", root)
        if self.enable_dleger_commit_log:
            raise ConfigError("enable_dleger_commit_log", "false, because DLedger logs are not supported", True)
        if not self.writable_commit_log_directories:
            name, found = "read_only_commit_log_store_paths", self.read_only_commit_log_store_paths
            raise ConfigError(name, "a directory of the log that is not read-only", found)
        for name in ("disk_space_warning_level_ratio", "disk_space_clean_forcibly_ratio"):
            if not 0 < getattr(self, name) <= 1:
                raise ConfigError(name, "more than 0, up to 1", getattr(self, name))
        if index_file_bytes(self.max_hash_slot_num, self.max_index_num) > _INT_MAX:
            expected = f"an index file, with maxHashSlotNum slots, of at most {_INT_MAX} bytes"
            raise ConfigError("max_index_num", expected, self.max_index_num)
        try:
            delays_ms = parse_delay_levels(self.message_delay_level)
        except ValueError as error:
            expected = "a number and one of s m h d for each level"
            raise ConfigError("message_delay_level", expected, self.message_delay_level) from error
        if max(delays_ms.values(), default=0) > _LONG_MAX:
            raise ConfigError("message_delay_level", f"delays up to {_LONG_MAX} ms", self.message_delay_level)
        for hour in self.delete_when.split(";"):
            if not (hour.isascii() and hour.isdecimal() and len(hour) <= 2 and int(hour) < 24):
                raise ConfigError("delete_when", "hours from 00 to 23, separated by ;", self.delete_when)
        rounded = -(-self.mapped_file_size_consume_queue // ENTRY_BYTES) * ENTRY_BYTES
        assert 0 < rounded <= _INT_MAX, rounded
        object.__setattr__(self, "mapped_file_size_consume_queue", rounded)

    @property
    def is_transient_store_pool_effective(self) -> bool:
        return (
            self.transient_store_pool_enable
            and self.flush_disk_type is FlushDiskType.ASYNC_FLUSH
            and self.broker_role is not BrokerRole.SLAVE
        )

    @property
    def access_message_in_memory_max_bytes(self) -> int:
        """Maximum distance from the log's end at which a message counts as in memory."""
        return self.physical_memory_bytes * self.access_message_in_memory_max_ratio // 100

    @property
    def commit_log_directories(self) -> tuple[str, ...]:
        return _split_paths(self.store_path_commit_log) or (f"{self.store_path_root_dir}/commitlog",)

    @property
    def read_only_commit_log_directories(self) -> tuple[str, ...]:
        return _split_paths(self.read_only_commit_log_store_paths)

    @property
    def writable_commit_log_directories(self) -> tuple[str, ...]:
        read_only = self.read_only_commit_log_directories
        return tuple(path for path in self.commit_log_directories if path not in read_only)

    @property
    def commit_log_directory(self) -> str:
        return self.commit_log_directories[0]

    consume_queue_directory = _PathBelowRoot("consumequeue")
    """Segments of queues, below `<topic>/<queueId>/`."""
    consume_queue_ext_directory = _PathBelowRoot("consumequeue_ext")
    """Extension files of queues, below `<topic>/<queueId>/`."""
    index_directory = _PathBelowRoot("index")
    config_directory = _PathBelowRoot("config")
    """Side files: consumerOffset.json, delayOffset.json."""
    checkpoint_path = _PathBelowRoot("checkpoint")
    abort_path = _PathBelowRoot("abort")
    """Marker file that exists while the store runs."""
    lock_path = _PathBelowRoot("lock")
    """File that only one instance can lock."""


def _split_paths(text: str) -> tuple[str, ...]:
    stripped = map(java_trim, text.split(","))
    return tuple(dict.fromkeys(path.rstrip("/") or path for path in stripped if path))
