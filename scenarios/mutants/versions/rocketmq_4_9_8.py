"""RocketMQ 4.9.8: lists its bugs from the catalogue, with sources.

A bug counts as present only if 4.9.8 has the same mechanism, not only the same symptom. Sources are the versions named
in RocketMQ's issues and fixes, the source code of 4.9.8 ("by reading"), and runs of the real 4.9.8 ("observed").
Uncertain bugs are disabled.
"""

from .. import MUTANTS
from ..mutant import Mutant
from ..version import BugInVersion, BugPresence, Version
from . import rocketmq_4_9_8_deviations as deviations

_HAS = {
    "flush-advance-on-io-error": "MappedFile.flush logs the error and moves the position; fixed after 5.3.3 (#9713)",
    "flush-hold-failed-fakes-progress": "MappedFile.flush advances even without a reference; never fixed",
    "reput-past-flushed": "dispatch follows the readable end under SYNC_FLUSH; fixed in 5.3.0 (#8239)",
    "stale-tail-after-truncate": "observed: truncated records reappear after a second kill (#10666)",
    "foreign-offset-record-accepted": "physicalOffset is not compared with the position; fixed in 2026 (#10017)",
    "props-outside-crc": "the CRC covers the body only; 5.2.0 added an optional CRC over whole records (#7437)",
    "abort-marker-unsynced": "observed: `abort` is created without a sync of file or directory; never fixed",
    "reput-dies-on-error": "the loop catches Exception, not Error; fixed in 5.3.0 (#7902)",
    "zero-length-trailing-file": "observed: with an empty file in the log, load returns false; fixed in 5.1.3 (#6904)",
    "second-instance-recovers-before-lock": "start() takes the lock, after load() has recovered; never fixed",
    "truncate-forgets-undeleted-file": "truncateDirtyFiles ignores the result of destroy(); never fixed",
    "cq-empty-tail-file": "observed: a queue file of zeros counts as one message (#9728)",
    "index-file-dropped-on-crash": "observed: after a kill a file that is not full is deleted (#3868)",
    "index-roll-publishes-cq-checkpoint": "a full index file writes the checkpoint with the queues' time (#678)",
    "config-rename-without-sync": "observed: MixAll.string2File syncs nothing; fixed in 5.1.0 (#5905)",
    "ha-ack-beyond-master": "a replica's first report is not checked; 4.9.3 checks later reports (#3015)",
    "no-dir-fsync-on-rollover": "observed: no directory is ever synced",
    "hole-hides-segment": "after such an entry getMessage continues in the log's next file (rollNextFile)",
    "decided-again-once-passed": "EndTransactionProcessor checks the half message only; by reading",
    "decision-of-lost-message-counts": "checkPrepareMessage compares the group and both offsets only; by reading",
    "put-back-forgets-reconsume-times": "renewHalfMessageInner sets neither flag nor reconsumeTimes; by reading",
    "stop-leaves-marker-removal-unsynced": "observed: no directory is ever synced",
    "damaged-progress-counts-as-zero": "ConfigManager.load without a backup returns true with an empty table",
    "queue-begins-in-first-file": "observed: ConsumeQueue.correctMinOffset searches the first file only",
}
_HAS_NOT = {
    "fsync-retry-acks": "a failed sync advances the flushed position, so no sync is retried",
    "group-commit-stale-result": "fixed in 4.8.0 (#3408): doCommit checks the position again after its last flush",
    "group-commit-swap-race": "fixed in 4.1.0 (ROCKETMQ-145): one lock covers adding and swapping",
    "flush-stuck-nonzero-base": "fixed in 4.2.0 (ROCKETMQ-270): a position of 0 falls back to the first file",
    "transient-fake-commit": "introduced in 5.0.0, fixed in 5.1.1 (#6283)",
    "transient-read-wrote-position": "MappedFile.getReadPosition returns the committed position if there is a buffer",
    "normal-recovery-keeps-dirty-cq": "fixed in 4.3.2 (#467): recoverNormally truncates queues at the recovered end",
    "blank-marker-offset-check": "an error in the fix of foreign-offset-record-accepted in 2026 (#10038)",
    "clean-exit-with-backlog": "fixed in 4.2.0 (ROCKETMQ-320): `abort` stays while dispatch is behind",
    "reput-starts-at-log-end": "fixed in 4.5.1 (#405): dispatch starts at the greatest offset that any queue has",
    "load-stops-on-odd-file": "fixed in 4.9.3 (#3467): a file of another size fails the load",
    "failed-put-consumes-offset": "introduced in 5.0.0, fixed in 5.1.1 (#6570)",
    "lmq-offset-lock-split": "introduced in 5.0.0: in 4.9.8 one lock covers a whole append (#7511)",
    "offset-table-rebuilt-early": "introduced in 5.0.0: 4.9.8 rebuilds the table after dispatch has caught up (#6344)",
    "cq-redispatch-duplicates": "fixed in 4.2.0 (ROCKETMQ-265); observed: a replay leaves whole queues unchanged",
    "config-inplace-bak-pollution": "introduced in 5.1.0 (#9705); the unchecked copy is a separate deviation",
    "delay-offset-not-clamped": "fixed in 4.9.2 and 4.9.4 (#1869, #4004): offsets are clamped at load",
    "delay-hole-blocks-level": "DeliverDelayedMessageTimerTask skips an entry without a record",
    "resumed-is-given-up-again": "AdminBrokerProcessor.resumeCheckHalfMessage sets TRANSACTION_CHECK_TIMES to 0",
    "truncation-trusts-cached-zeros": "truncated bytes are neither zeroed nor synced: see stale-tail-after-truncate",
    "sent-back-into-nothing": "asyncConsumerSendMsgBack answers SYSTEM_ERROR unless the put returned PUT_OK",
    "delay-retry-skips-message": "introduced in 5.0.0, fixed in 5.3.3 (#9248)",
    "half-msg-immunity-double-clock": "fixed in 4.4.0 (#544)",
    "op-queue-overflow-one": "fixed in 4.6.0 (#549)",
    "ack-before-flush": "GroupCommitService answers after its flush",
    "checkpoint-before-data": "FlushConsumeQueueService flushes the queues, then the checkpoint",
    "crc-skipped-on-recovery": "checkCRCOnRecover is true by default",
    "group-commit-lost-wakeup": "the signal is cleared before the swap, and the service polls every 10 ms",
    "flush-jumps-to-new-file": "MappedFileQueue.flush flushes the file that contains the flushed position",
    "full-disk-ends-load": "load() creates no queue file: ReputMessageService creates them later; by reading",
    "old-front-removed": "MappedFileQueue.load opens the existing files and removes none",
    "gap-shifts-segment-lookup": "findMappedFileByOffset searches all files if the calculated one is wrong",
    "append-advances-before-write": "only a replica's append advances the position after the copy threw an exception",
    "last-parent-synced-only": "no directory is ever synced: see no-dir-fsync-on-rollover",
    "existing-levels-trusted": "no directory is ever synced: see no-dir-fsync-on-rollover",
    "strays-refused": "observed: loadConsumeQueue skips foreign files, and names that are not numbers",
    "damaged-checkpoint-refused": "observed: StoreCheckpoint extends the file and accepts any three numbers",
    "full-disk-ends-commits": "MappedFile.commit0 logs the error; the next commit retries",
    "numbering-gap-refused": "observed: such a record is logged, and its entry appended to the queue",
    "wrong-number-blanks-entry": "observed: existing entries are never compared with their records",
    "damage-ends-segment": "recovery truncates the log at any damage in the part that it scans",
    "reput-never-retries": "ReputMessageService.run logs an exception of doReput and retries",
    "dispatch-adds-failures-up": "putMessagePositionInfoWrapper counts its thirty attempts for one record",
    "service-dies-silently": "the loops of its services log exceptions and continue; by reading",
    "slave-dispatch-unbounded": "such a record's entry is logged and appended at a wrong offset, which is another bug",
    "batch-shares-first-flag": "MessageExtEncoder writes each message's own flag; seen in directories that it wrote",
    "born-time-in-seconds": "the record has the client's time in ms; seen in directories that it wrote",
    "delayed-copy-has-store-host": "messageTimeup copies born time and both hosts; seen in directories that it wrote",
    "hosts-swapped": "bornHost is stored before storeHost; seen in directories that it wrote",
    "index-first-key-only": "buildIndex puts the unique key and each word of KEYS; seen in directories that it wrote",
    "ipv6-host-cut-short": "all 16 bytes are written; seen in a directory that it wrote",
    "reconsume-times-zeroed": "the record has the value that the broker received; by reading",
    "record-flag-dropped": "the record has the client's flag; seen in directories that it wrote",
    "scan-ends-at-empty-body": "checkMessageAndReturnSize accepts a body of 0 bytes",
    "tag-code-by-code-point": "String.hashCode hashes UTF-16 units",
    "tag-code-trims": "tagsString2tagsCode hashes the tag as it is",
    "clean-exit-scans-all": "recoverNormally begins at the third file of the log from the end",
    "recovery-from-oldest-segment": "recoverAbnormally searches backwards for a file older than the checkpoint",
    "index-walk-bounded": "selectPhyOffset continues until it has the requested number of offsets",
    "stop-leaves-queues-unsynced": "FlushConsumeQueueService flushes every queue when it ends",
    "registers-once": "BrokerController registers every registerNameServerPeriod",
    "slave-listed-as-master": "RouteInfoManager lists an address under its registered brokerId",
    "slave-tables-in-memory": "SlaveSynchronize persists topics and groups whose version has changed",
    "slave-keeps-its-progress": "SlaveSynchronize.syncConsumerOffset is part of syncAll",
    "unreadable-page-ends-recovery": "the JVM's InternalError is not an Exception, so it ends the load",
    "unreadable-record-is-missing": "no caller catches an InternalError: the client gets SYSTEM_ERROR",
    "log-time-stands-still": "CommitLog.asyncPutMessage and ScheduleMessageService use the wall clock",
    "slave-diverges-in-silence": "HAClient logs `master pushed offset not equal the max phy offset in slave`",
    "header-fields-are-texts": "fastjson's StringCodec turns a number or a boolean into a string",
    "flush-answers-all": "doCommit compares the flushed position with the next offset of each request",
    "check-progress-lost-in-a-stop": "the check commits both offsets after each pass, durable or not",
    "number-that-does-not-fit-raises": "fields of a Java message have the same widths as those of a record",
    "stray-name-ends-dispatch": "a name depends on the clock only, and a year may have five digits",
    "short-queue-file-removed": "MappedFileQueue.load refuses a file whose length is not the setting's",
    "tags-trimmed-like-python": "FilterAPI.buildSubscriptionData trims each tag by String.trim",
}
_UNCERTAIN = {
    "bad-length-trusted": "bad magic stops zero and negative lengths; a huge one may be allocated first",
    "index-header-ahead-of-entries": "unknown whether a full file can have a header ahead of its entries",
    "final-drain-stops-early": "puts are refused a second before the last commit; reported on 4.3 only (#574)",
    "partial-queue-file-refused": "4.9.8 refuses such a file, but sets a file's length at creation and never allocates",
    "queue-removed-beside-a-put": "cleanExpiredConsumerQueue takes no put lock; the effect was not observed",
    "failed-server-stays-up": "Netty's event loops catch exceptions of handlers; not tested with EBADF",
}
_LEFT_OUT = {
    "reput-dies-on-error": "the mutant also dies after a failed file creation, which 4.9.8 retries 30 times",
    "truncate-forgets-undeleted-file": "4.9.8 keeps only files that a reader uses; the mutant keeps all files",
    "stop-leaves-marker-removal-unsynced": "a marker that reappears causes a longer recovery but loses no message",
    "damaged-progress-counts-as-zero": "the mutant only disables recovery from the log, which 4.9.8 does not have",
}
"""Disabled bugs of the version, with the reasons."""
_TABLES = {BugPresence.HAS: _HAS, BugPresence.HAS_NOT: _HAS_NOT, BugPresence.UNCERTAIN: _UNCERTAIN}
_OTHERS = sorted(MUTANTS.keys() - _HAS.keys() - _HAS_NOT.keys() - _UNCERTAIN.keys())

assert _LEFT_OUT.keys() <= _HAS.keys(), "only a bug that the version has can be left out"
_FACTS = (
    *(
        BugInVersion(id_, verdict, reason, _LEFT_OUT.get(id_, ""))
        for verdict, table in _TABLES.items()
        for id_, reason in table.items()
    ),
    *(BugInVersion(id_, BugPresence.UNCERTAIN, "not searched for in the source code of 4.9.8") for id_ in _OTHERS),
)

ROCKETMQ_4_9_8 = Version(
    "rocketmq-4.9.8",
    "the store with the bugs that Apache RocketMQ 4.9.8 has for certain",
    _FACTS,
    tuple(each for each in vars(deviations).values() if isinstance(each, Mutant)),
    # 4.9.8 cannot scan the whole log.
    lambda ranges: ranges.replace(recover_whole_log=(False,)),
)
