"""Table of settings: value, default, unit and meaning of each setting of a store.

JSON contract, `tornlog-config/1`:

    format    "tornlog-config/1"
    settings  [{"key", "value", "default", "unit", "meaning", "own"}], every one; own: RocketMQ does not know the key
    others    the keys of the broker that are not the store's, with their values as strings

Fields may be added to this format. A changed meaning makes it `/2`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from enum import Enum
from typing import Any, NamedTuple

from ..config import StoreConfig

FORMAT = "tornlog-config/1"


class Meaning(NamedTuple):
    """Unit and meaning of a setting."""

    unit: str
    """Unit of a number; empty otherwise."""
    text: str


_MEANINGS = """
storePathRootDir: The directory that everything is below, but for a log with directories of its own.
storePathCommitLog: Directories of the log, separated by commas; empty: commitlog below the root.
readOnlyCommitLogStorePaths: Those directories of the log where no segment is made, separated by commas.
mappedFileSizeCommitLog (bytes): Length of a segment of the log.
mappedFileSizeConsumeQueue (bytes): Length of a consume queue's file, rounded up to whole entries.
enableConsumeQueueExt: Keep what a queue entry has no room for in files of their own.
mappedFileSizeConsumeQueueExt (bytes): Length of such a file.
bitMapLengthConsumeQueueExt (bits): Taken note of only: a map of SQL consumers is as long as their bloom filter.
maxHashSlotNum (slots): Width of an index file's hash table.
maxIndexNum (entries): Room for keys in an index file; number 0 is never used.
maxMessageSize (bytes): Longest body that is stored.
brokerRole: What part the store has in replication.
useReentrantLockWhenPutMessage: Taken note of only: the world has one kind of lock.
osPageCacheBusyTimeOutMills (ms): Puts are refused while one of them has held the lock for longer.
debugLockEnable: Taken note of only.
duplicationEnable: Taken note of only: dispatch never goes past what is confirmed to be durable.
putMsgIndexHightWater (messages): Taken note of only, as in 4.9.
messageDelayLevel: Delays of the levels from 1 on, each a number and one of s m h d.
flushDiskType: Whether a put is answered before or after its bytes are durable.
syncFlushTimeout (ms): How long a put waits for the disk.
flushCommitLogTimed: Flush at the interval, however often puts would wake the flusher.
flushIntervalCommitLog (ms): From one look at the log, whether to flush, to the next.
flushCommitLogLeastPages (pages): What has to wait for a flush of the log to be worth it.
flushCommitLogThoroughInterval (ms): After this time the log is flushed however little waits.
commitIntervalCommitLog (ms): From one look at the pool's buffers, whether to write them out, to the next.
commitCommitLogLeastPages (pages): What has to wait in a buffer for writing it out to be worth it.
commitCommitLogThoroughInterval (ms): After this time a buffer is written out however little waits.
flushIntervalConsumeQueue (ms): From one look at the queues, whether to flush, to the next.
flushConsumeQueueLeastPages (pages): What has to wait for a flush of a queue to be worth it.
flushConsumeQueueThoroughInterval (ms): After this time queues are flushed however little waits.
flushDelayOffsetInterval (ms): From one write of the delay levels' progress to the next.
transientStorePoolEnable: Put into buffers of the process first; only under ASYNC_FLUSH, not on a slave.
transientStorePoolSize (buffers): Buffers in the pool, of one segment each.
fastFailIfNoBufferInStorePool: Make no segment without a buffer; else it is put into directly.
warmMapedFileEnable: Touch every page of a new segment before puts reach it, and lock it in memory.
flushLeastPagesWhenWarmMapedFile (pages): How many are touched under SYNC_FLUSH between two syncs.
maxTransferBytesOnMessageInMemory (bytes): Most a pull gives of what counts as in memory.
maxTransferCountOnMessageInMemory (messages): Most a pull gives of what counts as in memory.
maxTransferBytesOnMessageInDisk (bytes): Most a pull gives of what does not count as in memory.
maxTransferCountOnMessageInDisk (messages): Most a pull gives of what does not count as in memory.
accessMessageInMemoryMaxRatio (%): A message counts as in memory this far behind the log's end: part of all memory.
physicalMemoryBytes (bytes): The machine's memory, for accessMessageInMemoryMaxRatio; RocketMQ asks the machine.
diskFallRecorded: Note in the statistics how far behind the log's end each pull reads.
offsetCheckInSlave: Correct offsets out of range on a slave too.
longPollingEnable: Wake those who wait for messages with each; one of the broker's keys.
messageIndexEnable: Keep an index of messages by key.
messageIndexSafe: Taken note of only: recovery always leaves a whole index.
maxMsgsNumBatch (messages): Most a query by key gives.
defaultQueryMaxNum (messages): What a query by key asks for unless it says.
fileReservedTime (hours): How long after its last write a segment is kept.
deleteWhen: Hours of the day, local time, when old segments are deleted, separated by semicolons.
diskMaxUsedSpaceRatio (%): Part of the disk in use above which they are deleted at any hour; at least 10, at most 95.
diskSpaceWarningLevelRatio (of 1): Part of the disk in use above which puts are refused; in RocketMQ a system property.
diskSpaceCleanForciblyRatio (of 1): Part of the disk in use above which segments go before their time; likewise.
cleanFileForciblyEnable: Whether segments may go before their time.
cleanResourceInterval (ms): From one look for what can be deleted to the next.
deleteCommitLogFilesInterval (ms): Pause between two deletions in the log.
deleteConsumeQueueFilesInterval (ms): Pause between two queues with deletions.
destroyMapedFileIntervalForcibly (ms): Taken note of only: how long RocketMQ waits for readers of a deleted segment.
redeleteHangedFileInterval (ms): From one try to delete a file that could not be to the next.
enableScheduleMessageStats: Count deliveries in the statistics.
enableScheduleAsyncDeliver: Deliver the next message before the last one is answered.
scheduleAsyncDeliverMaxPendingLimit (messages): Most that may be unanswered when delivery does not wait.
scheduleAsyncDeliverMaxResendNum2Blocked (tries): How often one is delivered again before its level waits for it.
enableLmq: Keep light queues.
enableMultiDispatch: Dispatch a message to all queues that its properties name.
maxLmqConsumeQueueNum (queues): Most light queues there may be.
haListenPort: Where a master listens for its slaves.
haMasterAddress: host:port of a slave's master.
haSendHeartbeatInterval (ms): After this time without data a connection is given a sign of life.
haHousekeepingInterval (ms): After this time without a sign of life a connection is given up.
haTransferBatchSize (bytes): Most of the log that goes to a slave at once.
haSlaveFallbehindMax (bytes): A slave farther behind does not count.
slaveTimeout (ms): How long a put on a SYNC_MASTER waits for a slave.
enableDLegerCommitLog: Must stay off: the log is RocketMQ's own, not DLedger's.
checkCRCOnRecover: Compare every body with its checksum on load.
recoverWholeLog: Compare queues with the whole log on load, not only from the checkpoint on as 4.9 does.
"""
"""One setting per line: key, unit if any, meaning. Indented lines continue it."""

MEANINGS = {
    key: Meaning(unit, " ".join(text.split()))
    for key, unit, text in re.findall(r"^(\w+)(?: \((.+?)\))?: (.+(?:\n +.+)*)", _MEANINGS, re.MULTILINE)
}


class Setting(NamedTuple):
    """One row. Values are plain: an enum is its RocketMQ name."""

    key: str
    value: str | int | float | bool
    default: str | int | float | bool
    unit: str
    """Unit of a number; empty otherwise."""
    meaning: str
    own: bool
    """Whether RocketMQ does not know the key."""

    @property
    def differs(self) -> bool:
        return self.value != self.default


def describe(config: StoreConfig, default_root: str) -> list[Setting]:
    """Return every setting in the order of StoreConfig. `default_root` is the default of the root directory."""
    rows = []
    for one in fields(StoreConfig):
        key = one.metadata["key"]
        default = default_root if one.default is MISSING else one.default
        unit, meaning = MEANINGS[key.name]
        assert meaning, key.name
        value = getattr(config, one.name)
        rows.append(Setting(key.name, _plain(value), _plain(default), unit, meaning, key.own))
    return rows


def config_fields(settings: Sequence[Setting], others: Mapping[str, str]) -> dict[str, Any]:
    """Return the JSON fields of the contract."""
    return {"format": FORMAT, "settings": [one._asdict() for one in settings], "others": dict(others)}


def spelled(value: str | int | float | bool) -> str:
    """Return a value as written in a broker.conf."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain(value: object) -> str | int | float | bool:
    plain = value.value if isinstance(value, Enum) else value
    assert isinstance(plain, str | int | float | bool), plain
    return plain
