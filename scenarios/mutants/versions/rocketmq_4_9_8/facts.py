"""Bugs of RocketMQ 4.9.8: every bug of the catalogue, and whether it has it.

What counts is the mechanism, not only its symptom: a bug whose place in 4.9.8 another one has taken is not there.
Sources are the versions that RocketMQ's issues and fixes name, its 4.9.8 sources, and runs of the real 4.9.8
(observed). What is not certain is not switched on.
"""

from ..version import BugPresence, Fact

_HAS, _HAS_NOT, _UNCERTAIN = BugPresence.HAS, BugPresence.HAS_NOT, BugPresence.UNCERTAIN

FACTS: tuple[Fact, ...] = (
    Fact(
        "flush-advance-on-io-error",
        _HAS,
        "MappedFile.flush logs what the sync throws and stores the position behind it; fixed after 5.3.3 (#9713)",
    ),
    Fact(
        "fsync-retry-acks",
        _HAS_NOT,
        "needs a position that a failed sync leaves alone: in 4.9.8 it moves, so nothing is ever tried again",
    ),
    Fact(
        "flush-hold-failed-fakes-progress",
        _HAS,
        "MappedFile.flush without a hold sets the flushed position to the readable one; never fixed",
    ),
    Fact(
        "reput-past-flushed",
        _HAS,
        "ReputMessageService goes up to the log's readable end under SYNC_FLUSH, too; fixed in 5.3.0 (#8239)",
    ),
    Fact(
        "group-commit-stale-result",
        _HAS_NOT,
        "fixed in 4.8.0 (#3408): doCommit tests again after its last flush",
    ),
    Fact(
        "group-commit-swap-race",
        _HAS_NOT,
        "fixed in 4.1.0 (ROCKETMQ-145): one lock for adding and swapping; what is left costs a delay only",
    ),
    Fact(
        "flush-stuck-nonzero-base",
        _HAS_NOT,
        "fixed in 4.2.0 (ROCKETMQ-270): a position of 0 falls back to the first file",
    ),
    Fact("transient-fake-commit", _HAS_NOT, "came with 5.0.0, gone in 5.1.1 (#6283)"),
    Fact(
        "transient-read-wrote-position",
        _HAS_NOT,
        "MappedFile.getReadPosition is the committed one where there is a buffer; reports on 4.x do not say where not",
    ),
    Fact(
        "normal-recovery-keeps-dirty-cq",
        _HAS_NOT,
        "fixed in 4.3.2 (#467): recoverNormally cuts the queues at the recovered end",
    ),
    Fact(
        "stale-tail-after-truncate",
        _HAS,
        "truncateDirtyFiles sets positions only; observed: records behind a cut come back after a second kill (#10666)",
    ),
    Fact(
        "foreign-offset-record-accepted",
        _HAS,
        "checkMessageAndReturnSize never compares physicalOffset with the record's place; fixed in 2026 (#10017)",
    ),
    Fact(
        "blank-marker-offset-check",
        _HAS_NOT,
        "a slip in that fix: development snapshots of 2026 only (#10038)",
    ),
    Fact(
        "props-outside-crc",
        _HAS,
        "the CRC covers the body; the one over whole records came with 5.2.0, as an option (#7437)",
    ),
    Fact(
        "abort-marker-unsynced",
        _HAS,
        "observed: `abort` is created without a sync of file or directory; never fixed",
    ),
    Fact(
        "clean-exit-with-backlog",
        _HAS_NOT,
        "fixed in 4.2.0 (ROCKETMQ-320): `abort` stays while dispatch is behind",
    ),
    Fact(
        "reput-starts-at-log-end",
        _HAS_NOT,
        "fixed in 4.5.1 (#405): dispatch starts at the greatest offset that any queue has",
    ),
    Fact(
        "reput-dies-on-error",
        _HAS,
        "the loop catches Exception, not Error; fixed in 5.3.0 (#7902)",
        "the mutant dies of a file that cannot be made: in 4.9.8 that is an exception, tried 30 times; no simulated "
        "fault is a Java Error",
    ),
    Fact(
        "zero-length-trailing-file",
        _HAS,
        "observed: with an empty file in the log, load returns false; fixed in 5.1.3 (#6904)",
    ),
    Fact("load-stops-on-odd-file", _HAS_NOT, "fixed in 4.9.3 (#3467): a file of another size fails the load"),
    Fact(
        "second-instance-recovers-before-lock",
        _HAS,
        "the lock is taken in start(), after load() has recovered and cut; never fixed",
    ),
    Fact(
        "truncate-forgets-undeleted-file",
        _HAS,
        "truncateDirtyFiles does not look at what destroy() answers; never fixed",
        "takes a reader that holds the file while the log is cut; the mutant does without one and removes no file at "
        "all, which 4.9.8 does not",
    ),
    Fact("failed-put-burns-queue-offset", _HAS_NOT, "came with 5.0.0, gone in 5.1.1 (#6570)"),
    Fact(
        "lmq-offset-lock-split",
        _HAS_NOT,
        "came with 5.0.0: in 4.9.8 one lock covers all of an append (#7511)",
    ),
    Fact(
        "offset-table-rebuilt-early",
        _HAS_NOT,
        "came with 5.0.0: 4.9.8 builds the table again when dispatch has caught up in the start (#6344)",
    ),
    Fact(
        "cq-redispatch-duplicates",
        _HAS_NOT,
        "fixed in 4.2.0 (ROCKETMQ-265); observed: a replay after a kill leaves queues that are whole unchanged",
    ),
    Fact(
        "cq-empty-tail-file",
        _HAS,
        "truncateDirtyLogicFiles keeps entry 0 unseen; observed: a queue file of zeros counts as one message (#9728)",
    ),
    Fact(
        "index-file-dropped-on-crash",
        _HAS,
        "observed: after a kill a file that is not full is deleted, and indexed from where recovery starts (#3868)",
    ),
    Fact(
        "index-roll-publishes-cq-checkpoint",
        _HAS,
        "every dispatched record moves the queues' time, and a full index file has the checkpoint written (#678)",
    ),
    Fact(
        "config-rename-without-sync",
        _HAS,
        "observed: MixAll.string2File syncs nothing; fixed in 5.1.0 (#5905)",
    ),
    Fact(
        "config-inplace-bak-pollution",
        _HAS_NOT,
        "came with 5.1.0 (#9705): 4.9.8 writes aside and renames; that it copies blindly is a deviation of its own",
    ),
    Fact(
        "delay-offset-not-clamped",
        _HAS_NOT,
        "fixed in 4.9.2 and 4.9.4 (#1869, #4004): offsets are brought into their queues at load",
    ),
    Fact("delay-retry-skips-message", _HAS_NOT, "came with 5.0.0, gone in 5.3.3 (#9248)"),
    Fact("half-msg-immunity-double-clock", _HAS_NOT, "fixed in 4.4.0 (#544)"),
    Fact("op-queue-overflow-one", _HAS_NOT, "fixed in 4.6.0 (#549)"),
    Fact(
        "ha-ack-beyond-master",
        _HAS,
        "a replica's first report is taken as it is; the guard of 4.9.3 sees to later ones (#3015)",
    ),
    Fact("ack-before-flush", _HAS_NOT, "GroupCommitService answers after its flush"),
    Fact(
        "no-dir-fsync-on-rollover",
        _HAS,
        "observed: no directory is ever synced; what that costs is up to the file system",
    ),
    Fact(
        "checkpoint-before-data",
        _HAS_NOT,
        "FlushConsumeQueueService flushes the queues, then the checkpoint, with a time read before both",
    ),
    Fact("crc-skipped-on-recovery", _HAS_NOT, "checkCRCOnRecover is true unless somebody turns it off"),
    Fact(
        "group-commit-lost-wakeup",
        _HAS_NOT,
        "the notice is cleared before the lists are swapped, and the service polls every 10 ms",
    ),
    Fact(
        "flush-jumps-to-new-file",
        _HAS_NOT,
        "MappedFileQueue.flush takes the file that holds the flushed position, one after the other",
    ),
    Fact(
        "bad-length-trusted",
        _UNCERTAIN,
        "zero and negative lengths fail the check of the magic; a huge one may be allocated first, and the mutant "
        "does all three",
    ),
    Fact(
        "append-advances-before-write",
        _HAS_NOT,
        "a put moves the position by what was written; only a replica's append moves it when the copy threw",
    ),
    Fact(
        "index-header-ahead-of-entries",
        _UNCERTAIN,
        "the file that is not full goes after a crash; whether a full one can be kept with a header ahead of its "
        "entries is not known",
    ),
    Fact(
        "final-drain-stops-early",
        _UNCERTAIN,
        "the last commit ends after ten rounds, but puts are refused a second before it; reported on 4.3 only (#574)",
    ),
    Fact(
        "partial-queue-file-refused",
        _UNCERTAIN,
        "a queue file of another size fails its load, but 4.9.8 sets lengths at once and never allocates",
    ),
    Fact(
        "strays-refused",
        _HAS_NOT,
        "loadConsumeQueue passes over what is no directory and what is no number; observed",
    ),
    Fact(
        "damaged-checkpoint-refused",
        _HAS_NOT,
        "StoreCheckpoint maps the file, extended with zeros, and takes any three numbers; observed",
    ),
    Fact(
        "full-disk-ends-commits",
        _HAS_NOT,
        "MappedFile.commit0 logs what a write throws and refuses nothing: the next commit tries again",
    ),
    Fact(
        "hole-hides-segment",
        _HAS,
        "getMessage goes on at the next file of the log (rollNextFile) after any entry that leads to nothing",
    ),
    Fact(
        "numbering-gap-refused",
        _HAS_NOT,
        "a record whose queueOffset is not the next one is logged as a bug, its entry put behind the last (observed)",
    ),
    Fact(
        "wrong-number-blanks-entry",
        _HAS_NOT,
        "entries that are there are never compared with their records: a replay passes them over (observed)",
    ),
    Fact(
        "damage-ends-segment",
        _HAS_NOT,
        "recovery does not look at what is vouched for, and cuts everything behind damage where it looks",
    ),
    Fact(
        "reput-never-retries", _HAS_NOT, "ReputMessageService.run logs what doReput throws, and tries again"
    ),
    Fact(
        "service-dies-silently",
        _HAS_NOT,
        "the loops of its services log what a round throws, and go on; by reading",
    ),
    Fact(
        "queue-removed-beside-a-put",
        _UNCERTAIN,
        "cleanExpiredConsumerQueue holds no lock that puts take; what becomes of a put in between was not observed",
    ),
    Fact(
        "slave-dispatch-unbounded",
        _HAS_NOT,
        "a record that is ahead of its queue is appended where that ends, and logged: shifted, another bug",
    ),
    Fact(
        "batch-shares-first-flag",
        _HAS_NOT,
        "MessageExtEncoder writes each message's own flag; seen in directories that it wrote",
    ),
    Fact(
        "born-time-in-seconds",
        _HAS_NOT,
        "the record has the ms that the client gave; seen in directories that it wrote",
    ),
    Fact(
        "delayed-copy-born-anew",
        _HAS_NOT,
        "messageTimeup takes born time and both hosts over; seen in directories that it wrote",
    ),
    Fact("hosts-swapped", _HAS_NOT, "bornHost stands before storeHost; seen in directories that it wrote"),
    Fact(
        "index-first-key-only",
        _HAS_NOT,
        "buildIndex puts the unique key and each word of KEYS; seen in directories that it wrote",
    ),
    Fact("ipv6-host-cut-short", _HAS_NOT, "all 16 bytes are written; seen in a directory that it wrote"),
    Fact(
        "put-back-forgets-reconsume-times",
        _HAS,
        "renewHalfMessageInner sets neither flag nor reconsumeTimes; by reading",
    ),
    Fact("reconsume-times-zeroed", _HAS_NOT, "the record has what the broker was given; by reading"),
    Fact(
        "record-flag-dropped", _HAS_NOT, "the record has the client's flag; seen in directories that it wrote"
    ),
    Fact("scan-ends-at-empty-body", _HAS_NOT, "checkMessageAndReturnSize passes over a body of 0 bytes"),
    Fact(
        "tag-code-by-code-point", _HAS_NOT, "String.hashCode goes by UTF-16 units, which is what this is not"
    ),
    Fact("tag-code-trims", _HAS_NOT, "tagsString2tagsCode hashes the tag as it is"),
)
"""In the order of the catalogue."""
