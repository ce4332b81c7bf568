"""Table of settings: value, default, unit and meaning of each setting of a store.

JSON contract, `tornlog-config/1`:

    format    "tornlog-config/1"
    settings  [{"key", "value", "default", "unit", "meaning", "own"}] of the store; own: the key is unknown to RocketMQ
    others    all other keys of the broker, with their values as strings

A new field does not change the format name. A changed meaning of a field changes the name to `tornlog-config/2`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from enum import Enum
from typing import Any, NamedTuple

from ..config import StoreConfig

FORMAT = "tornlog-config/1"


class SettingMeaning(NamedTuple):
    """Unit and meaning of a setting."""

    unit: str
    """Only of a number."""
    text: str


_MEANINGS = """
storePathRootDir: Directory of all files of the store, unless the log has its own directories.
storePathCommitLog: Directories of the log, separated by commas; empty: commitlog below the root directory.
readOnlyCommitLogStorePaths: Log directories in which no segment is created, separated by commas.
mappedFileSizeCommitLog (bytes): Length of a log segment.
mappedFileSizeConsumeQueue (bytes): Length of a consume queue file, rounded up to whole entries.
enableConsumeQueueExt: Store data that does not fit into a queue entry in extension files.
mappedFileSizeConsumeQueueExt (bytes): Length of an extension file.
bitMapLengthConsumeQueueExt (bits): Accepted without effect: a bit map is as long as the Bloom filter of SQL consumers.
maxHashSlotNum (slots): Number of hash slots in an index file.
maxIndexNum (entries): Capacity of an index file; entry 0 is never used.
maxMessageSize (bytes): Maximum length of a message body.
brokerRole: Role of the store in replication.
useReentrantLockWhenPutMessage: Accepted without effect: the store has one kind of lock.
osPageCacheBusyTimeOutMills (ms): Puts are refused if another put holds the lock for longer than this.
debugLockEnable: Accepted without effect.
duplicationEnable: Accepted without effect: dispatch never passes the offset that is confirmed as durable.
putMsgIndexHightWater (messages): Accepted without effect, as in 4.9.
messageDelayLevel: Delay of each level, starting with level 1: a number with the unit s, m, h or d.
flushDiskType: Whether a put is acknowledged before or after its bytes are durable.
syncFlushTimeout (ms): Maximum time that a put waits for its flush.
flushCommitLogTimed: Flush the log only once per interval, not after each put.
flushIntervalCommitLog (ms): Interval between checks whether the log needs a flush.
flushCommitLogLeastPages (pages): Minimum amount of unflushed data in the log for a flush.
flushCommitLogThoroughInterval (ms): After this time the log is flushed even if the minimum is not reached.
commitIntervalCommitLog (ms): Interval between checks whether the pool's buffers must be written to the log.
commitCommitLogLeastPages (pages): Minimum amount of data in a buffer for writing it to the log.
commitCommitLogThoroughInterval (ms): After this time a buffer is written to the log even if the minimum is not reached.
flushIntervalConsumeQueue (ms): Interval between checks whether consume queues need a flush.
flushConsumeQueueLeastPages (pages): Minimum amount of unflushed data in a consume queue for a flush.
flushConsumeQueueThoroughInterval (ms): After this time queues are flushed even if the minimum is not reached.
flushDelayOffsetInterval (ms): Interval between writes of the delay levels' progress.
transientStorePoolEnable: Write messages to buffers of the process first; only with ASYNC_FLUSH, not on a slave.
transientStorePoolSize (buffers): Number of buffers in the pool, each as long as a segment.
fastFailIfNoBufferInStorePool: Create no segment while no buffer is free; otherwise puts write directly to its file.
warmMapedFileEnable: Touch every page of a new segment before its first put, and lock the segment in memory.
flushLeastPagesWhenWarmMapedFile (pages): Under SYNC_FLUSH, number of pages touched between two fsyncs of a new segment.
maxTransferBytesOnMessageInMemory (bytes): Maximum size of a pull's result, for messages in memory.
maxTransferCountOnMessageInMemory (messages): Maximum number of messages in a pull's result, for messages in memory.
maxTransferBytesOnMessageInDisk (bytes): Maximum size of a pull's result, for other messages.
maxTransferCountOnMessageInDisk (messages): Maximum number of messages in a pull's result, for other messages.
accessMessageInMemoryMaxRatio (%): A message counts as in memory if the distance to the log's end is at most this share
    of physicalMemoryBytes.
physicalMemoryBytes (bytes): Memory of the machine; RocketMQ reads it from the system.
diskFallRecorded: Record in the statistics how far before the log's end each pull reads.
offsetCheckInSlave: Correct out-of-range pull offsets on a slave too.
longPollingEnable: Wake waiting pulls when a message arrives; a broker setting in RocketMQ.
messageIndexEnable: Keep an index of messages by key.
messageIndexSafe: Accepted without effect: after recovery the index is always complete.
maxMsgsNumBatch (messages): Maximum number of messages in the result of a query by key.
defaultQueryMaxNum (messages): Maximum number of messages in the result of a query by a client's message id.
fileReservedTime (hours): Time that a segment is kept after its last write.
deleteWhen: Hours of the day, in local time, when expired segments are deleted; separated by semicolons.
diskMaxUsedSpaceRatio (%): Disk usage above which expired segments are deleted at any hour; from 10 to 95.
diskSpaceWarningLevelRatio (of 1): Disk usage above which puts are refused; a system property in RocketMQ.
diskSpaceCleanForciblyRatio (of 1): Disk usage above which segments are deleted before they
    expire; a system property in RocketMQ.
cleanFileForciblyEnable: Allow the deletion of segments before they expire.
cleanResourceInterval (ms): Interval between checks for files to delete.
deleteCommitLogFilesInterval (ms): Pause between the deletions of two log segments.
deleteConsumeQueueFilesInterval (ms): Pause between deletions in two consume queues.
destroyMapedFileIntervalForcibly (ms): Accepted without effect: RocketMQ's wait for readers of a deleted segment.
redeleteHangedFileInterval (ms): Interval between attempts to delete a file after a failed deletion.
enableScheduleMessageStats: Accepted without effect: RocketMQ counts deliveries of delayed messages.
enableScheduleAsyncDeliver: Accepted without effect: the delivery of a delayed message never waits for a disk.
scheduleAsyncDeliverMaxPendingLimit (messages): Accepted without effect, like enableScheduleAsyncDeliver.
scheduleAsyncDeliverMaxResendNum2Blocked (tries): Accepted without effect, like enableScheduleAsyncDeliver.
enableLmq: Enable light queues.
enableMultiDispatch: Dispatch a message to all queues that its properties name.
maxLmqConsumeQueueNum (queues): Maximum number of light queues.
haListenPort: Port where a master listens for its slaves.
haMasterAddress: Address of a slave's master, as host:port.
haSendHeartbeatInterval (ms): After this time without data a heartbeat is sent on a replication connection.
haHousekeepingInterval (ms): A replication connection without received data is closed after this time.
haTransferBatchSize (bytes): Maximum amount of log data sent to a slave at once.
haSlaveFallbehindMax (bytes): A slave that lags by this much or more counts as not available.
slaveTimeout (ms): Maximum time that a put on a SYNC_MASTER waits for a slave.
enableDLegerCommitLog: Must stay off: the log has RocketMQ's own format, not DLedger's.
checkCRCOnRecover: Verify the checksum of every body when the store is loaded.
recoverWholeLog: On load, compare consume queues with the whole log; 4.9 compares only the part after the checkpoint.
"""
"""One setting per line: key, optional unit, meaning. An indented line continues the meaning."""

MEANINGS = {
    key: SettingMeaning(unit, " ".join(text.split()))
    for key, unit, text in re.findall(r"^(\w+)(?: \((.+?)\))?: (.+(?:\n +.+)*)", _MEANINGS, re.MULTILINE)
}


class Setting(NamedTuple):
    """One row of the table, with RocketMQ's names for enum values."""

    key: str
    value: str | int | float | bool
    default: str | int | float | bool
    unit: str
    """Only of a number."""
    meaning: str
    own: bool

    @property
    def differs_from_default(self) -> bool:
        return self.value != self.default


def describe_settings(config: StoreConfig, default_root: str) -> list[Setting]:
    """Return the settings in the field order of StoreConfig. `default_root` is the default of storePathRootDir."""
    rows = []
    for one in fields(StoreConfig):
        key = one.metadata["key"]
        default = default_root if one.default is MISSING else one.default
        unit, meaning = MEANINGS[key.name]
        assert meaning, key.name
        value = getattr(config, one.name)
        rows.append(Setting(key.name, _json_value(value), _json_value(default), unit, meaning, key.own))
    return rows


def config_fields(settings: Sequence[Setting], others: Mapping[str, str]) -> dict[str, Any]:
    return {"format": FORMAT, "settings": [one._asdict() for one in settings], "others": dict(others)}


def setting_text(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _json_value(value: object) -> str | int | float | bool:
    plain = value.value if isinstance(value, Enum) else value
    assert isinstance(plain, str | int | float | bool), plain
    return plain
