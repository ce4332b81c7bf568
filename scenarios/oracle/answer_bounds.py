"""Answer bounds: each answer of store and broker, when it is legal, its bound, and the invariant that checks it.

`tests/scenarios/oracle/test_answer_bounds.py` walks the code: each member of a status, each module that gives a
response code, and each time in settings and constants must be in a row here, or in a list with a reason.
`docs/answers.md` shows the rows.
"""

from collections.abc import Mapping
from typing import NamedTuple


class AnswerBound(NamedTuple):
    """One answer, or several with the same bound."""

    answers: str
    """Members of ANSWER_ENUMS, or a description of an answer without a status of its own."""
    legal: str
    """When the answer is allowed."""
    bound: str
    """How late, how often or how far, by the settings; or why no run checks the answer."""
    invariant: str = ""
    """Empty: no run checks the answer."""
    mutant: str = ""
    """A bug that the invariant finds."""
    times: str = ""
    """The settings, and the constants as `MODULE.NAME`, that give the bound."""
    given_by: str = ""
    """The modules in `store/broker` that name the response code."""


ANSWER_ENUMS = (
    "PutMessageStatus",
    "GetMessageStatus",
    "EndTransactionStatus",
    "HalfMessageVerdict",
    "ResponseCode",
)
"""The enumerations of answers. A test compares them with all enumerations in the store."""
OTHER_ENUMS = (
    *("FlushDiskType", "BrokerRole", "TokenKind", "PartKind", "HeaderForm", "RequestCode", "MetricType", "Pool"),
    *("LineLevel", "ConnectionEnding", "RequestRefusal", "ReplicationRole", "BodyText", "DirectoryPromise"),
    *("RefusalReason", "Permission"),
)
"""Enumerations of settings, syntax, requests, figures, flags and tools."""

PUTS = (
    AnswerBound(
        "PutMessageStatus.PUT_OK",
        "the message is in the log, under SYNC_FLUSH durable",
        "without faults within 8 syncs per producer, always within `syncFlushTimeout` + `slaveTimeout`",
        "STATUS",
        "flush-answers-all",
        "sync_flush_timeout_ms slave_timeout_ms",
    ),
    AnswerBound(
        "PutMessageStatus.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_DISK_TIMEOUT",
        "SYNC_FLUSH, and the sync failed or has not ended",
        "from `syncFlushTimeout` to 20 ms later",
        "STATUS",
        "sync-timeout-in-seconds",
        "sync_flush_timeout_ms",
        "sending",
    ),
    AnswerBound(
        "PutMessageStatus.FLUSH_SLAVE_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT",
        "SYNC_MASTER, and no slave has acknowledged the message",
        "not before `slaveTimeout`, unless the store stops",
        "STATUS",
        "slave-timeout-degrades",
        "slave_timeout_ms",
        "sending",
    ),
    AnswerBound(
        "PutMessageStatus.SLAVE_NOT_AVAILABLE, ResponseCode.SLAVE_NOT_AVAILABLE",
        "SYNC_MASTER, and no slave is connected and at most `haSlaveFallbehindMax` behind",
        "until a slave connects again, within `haHousekeepingInterval` + 10 s; sends then end with SUCCESS",
        "QUIET",
        "slave-reconnects-ten-times-too-late",
        "ha_housekeeping_interval_ms replication.ha_client.RECONNECT_MS replication.ha_client.CONNECT_MS",
        "sending processors.send",
    ),
    AnswerBound(
        "PutMessageStatus.SERVICE_NOT_AVAILABLE, ResponseCode.SERVICE_NOT_AVAILABLE",
        "the store stops, is a slave's, had an error, or its disk is full",
        "at most 15 s after space returns (a look at the disk each 10 s, and a pass)",
        "STATUS",
        "puts-return-late-after-full",
        "retention.cleaning.FIRST_CHECK_MS retention.cleaning.CHECK_INTERVAL_MS",
        "router sending",
    ),
    AnswerBound(
        "PutMessageStatus.CREATE_MAPEDFILE_FAILED",
        "a segment could not be created, or no write buffer was free",
        "after an error or on a full disk; else not before 5 s (`waitTimeOut`) on a slow disk",
        "STATUS",
        "segment-not-awaited",
        "log.allocate.WAIT_MS",
    ),
    AnswerBound(
        "PutMessageStatus.OS_PAGECACHE_BUSY, ResponseCode.SYSTEM_BUSY",
        "a put holds the put lock for longer than `osPageCacheBusyTimeOutMills`, no write buffer is free, or requests"
        " wait too long",
        "while the put holds the lock; never without a fault",
        "STATUS",
        "put-lock-time-kept",
        "os_page_cache_busy_time_out_ms",
        "client_calls sending server",
    ),
    AnswerBound(
        "PutMessageStatus.MESSAGE_ILLEGAL, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED, ResponseCode.MESSAGE_ILLEGAL",
        "the message exceeds a limit of the settings or of the format",
        "each time for such a message, and never for another",
        "STATUS",
        "longest-topic-refused",
        given_by="processors.send sending",
    ),
    AnswerBound(
        "PutMessageStatus.UNKNOWN_ERROR",
        "never: a put raises the error of the disk",
        "not checked: the store has no such answer",
    ),
    AnswerBound(
        "PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED",
        "the message is for a new light queue beyond `maxLmqConsumeQueueNum`",
        "not checked: no run has so many light queues",
    ),
)

PULLS = (
    AnswerBound(
        "GetMessageStatus.FOUND",
        "the offset is in the queue",
        "each matching message once, in order; the next offset is after the last",
        "READ",
        "filtered-pull-passes-next",
    ),
    AnswerBound(
        "GetMessageStatus.NO_MATCHED_MESSAGE, GetMessageStatus.MESSAGE_WAS_REMOVING,"
        " ResponseCode.PULL_RETRY_IMMEDIATELY",
        "the offset is in the queue, and the next entries have no message that matches",
        "the next offset is later, and passes over no message that matches",
        "READ",
        "no-match-skips-to-end",
        given_by="processors.pull",
    ),
    AnswerBound(
        "GetMessageStatus.OFFSET_TOO_SMALL",
        "the first messages have expired",
        "forward, to the first message that has not expired",
        "CLEAN",
        "moved-to-the-end",
    ),
    AnswerBound(
        "GetMessageStatus.OFFSET_OVERFLOW_BADLY, ResponseCode.PULL_OFFSET_MOVED",
        "the offset is after the end of the queue: a crash lost messages that the consumer has read",
        "back to the end of the queue, which never goes back between two starts",
        "READ",
        "moved-to-the-begin",
        given_by="processors.pull",
    ),
    AnswerBound(
        "GetMessageStatus.OFFSET_OVERFLOW_ONE, GetMessageStatus.NO_MESSAGE_IN_QUEUE,"
        " GetMessageStatus.OFFSET_FOUND_NULL, ResponseCode.PULL_NOT_FOUND",
        "there is no message at or after the offset; the next offset is the same, or that of the next file",
        "after `suspendTimeoutMillis` of the pull (`shortPollingTimeMills` without `longPollingEnable`), at most a"
        " few syncs and round trips later without faults; a broker that stops answers at once, and `OFFSET_FOUND_NULL`"
        " may come at once",
        "LIVE",
        "hold-ends-early",
        "short_polling_time_ms",
        "processors.pull",
    ),
    AnswerBound(
        "end of the wait of a held pull",
        "a message arrived",
        "without faults a few syncs and round trips after the answer to its producer; with a missed arrival 5 s",
        "LIVE",
        "hold-without-second-look",
        "broker.long_polling.SCAN_MS",
    ),
    AnswerBound(
        "ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST,"
        " ResponseCode.SUBSCRIPTION_PARSE_FAILED",
        "the expression is invalid, or the pull has none and names no subscription or a later one than its group's",
        "each time for such a pull, and never for another",
        "STATUS",
        "invalid-filter-matches-all",
        given_by="processors.pull subscriptions",
    ),
)

OFFSETS = (
    AnswerBound(
        "offset of a group",
        "the offset is the last committed one, or the one that the last start loaded",
        "back only by a crash, by at most `flushConsumerOffsetInterval` and two writes; never by a clean stop",
        "REDEL",
        "offsets-persisted-ten-times-too-seldom",
        "flush_consumer_offset_interval_ms services.consumer_offsets.FLUSH_CONSUMER_OFFSET_INTERVAL_MS",
    ),
    AnswerBound(
        "answer that a group has no offset",
        "the group has committed none, or only 0",
        "never after a commit that a crash must keep",
        "REDEL",
        "offset-at-end-unknown",
    ),
    AnswerBound(
        "lookup by key, by id or by time",
        "the message is in the log and its queue",
        "all messages that were dispatched before the request",
        "IDX",
        "query-ignores-times",
    ),
)

DELAYS = (
    AnswerBound(
        "delivery of a delayed message",
        "the time of its level has passed",
        "from the delay of its level to a few syncs later; after an error 10 s more",
        "SCHED",
        "levels-behind-one-that-waits",
        "flush_delay_offset_interval_ms delivery.schedule._RETRY_MS delivery.schedule.RETRY_AFTER_ERROR_MS"
        " delivery.schedule._SLEEP_MS_MAX formats.delay_level.UNKNOWN_LEVEL_DELAY_MS",
    ),
    AnswerBound(
        "second delivery of a delayed message",
        "the store crashed before its progress was durable",
        "once in each life of the store, and not before the progress at its start",
        "REDEL",
        "damaged-progress-counts-as-zero",
    ),
    AnswerBound(
        "delivery of a message that was sent back",
        "a consumer sent it back, less than `retryMaxTimes` (16) times; then it is dead",
        "not before the delay of the requested level (0: level 3 + reconsumeTimes); once at least",
        "SCHED",
        "sent-back-at-first-level",
    ),
)

TRANSACTIONS = (
    AnswerBound(
        "EndTransactionStatus.DECIDED, EndTransactionStatus.ALREADY_DECIDED",
        "the half message is there",
        "DECIDED once in each life of the store",
        "TX",
        "decided-again-once-passed",
    ),
    AnswerBound(
        "EndTransactionStatus.PREPARED_NOT_FOUND, EndTransactionStatus.PRODUCER_GROUP_WRONG,"
        " EndTransactionStatus.TRAN_STATE_TABLE_OFFSET_WRONG, EndTransactionStatus.SLAVE_NOT_AVAILABLE",
        "the half message is not there, or the request names another",
        "never from the answer PUT_OK until the half message expires",
        "TX",
        "decision-forgotten-before-dispatch",
    ),
    AnswerBound(
        "EndTransactionStatus.PUT_FAILED",
        "the put of the copy failed",
        "after an error, on a full or slow disk, or without a write buffer",
        "TX",
        "failed-commit-is-a-decision",
    ),
    AnswerBound(
        "HalfMessageVerdict.DUE",
        "the half message is undecided, and `transactionCheckInterval` has passed since the last check request",
        "one check request in each interval, unless a crash lost the progress of the check",
        "TX",
        "transaction-check-ten-times-too-often",
    ),
    AnswerBound(
        "HalfMessageVerdict.TOO_YOUNG, HalfMessageVerdict.IMMUNE",
        "the half message is undecided, and younger than `transactionTimeOut` or its own immunity",
        "the first check request from `transactionTimeOut` on, and two passes of `transactionCheckInterval` later",
        "TX",
        "transaction-check-ten-times-too-slow",
        "transaction_timeout_ms transaction_check_interval_ms services.transaction_check._PASS_MS_MAX"
        " services.transaction_check._COMMIT_MS_MAX",
    ),
    AnswerBound(
        "HalfMessageVerdict.HOPELESS",
        "the half message was checked `transactionCheckMax` times, or is older than `fileReservedTime`",
        "after exactly `transactionCheckMax` check requests, once, unless a crash lost the progress of the check",
        "TX",
        "given-up-twice",
    ),
)

CLIENTS = (
    AnswerBound(
        "lock of a queue",
        "no other client of the group holds it",
        "to one client at a time, for 60 s after each request; free at the latest then",
        "LOCK",
        "lock-never-expires",
        "broker.clients.LOCK_MS_MAX",
    ),
    AnswerBound(
        "member of a group",
        "the client sent a heartbeat, and its connection is open",
        "until 120 s without a heartbeat, looked for each 10 s; after the end of its connection 1 s",
        "LIVE",
        "silent-member-stays",
        "broker.clients.CHANNEL_EXPIRED_MS broker.housekeeping.INTERVAL_MS",
    ),
    AnswerBound(
        "route to a broker",
        "the broker has registered",
        "from two `registerNameServerPeriod` after a start on; until its connection ends, or 120 s of silence",
        "QUIET",
        "dead-broker-keeps-routes",
        "register_name_server_period_ms broker.outer_api.REGISTER_TIMEOUT_MS broker.outer_api.APART_MS"
        " broker.name_server.BROKER_EXPIRED_MS broker.remoting_client.CONNECT_MS",
    ),
    AnswerBound(
        "tables of a slave",
        "the slave copied them from its master",
        "a first copy after 3 s, then each 10 s",
        "REP",
        "slave-keeps-its-progress",
        "broker.outer_api.FIRST_MS broker.outer_api.INTERVAL_MS broker.outer_api.SYNCHRONIZE_TIMEOUT_MS",
    ),
    AnswerBound(
        "ResponseCode.SUCCESS",
        "the request took effect",
        "within 1 s without faults; a change of a table is durable before the answer",
        "META",
        "changed-entry-not-stored",
        given_by="hooks outer_api processors.broker_admin processors.group_admin processors.names processors.pull"
        " processors.query requests sending",
    ),
    AnswerBound(
        "ResponseCode.NO_PERMISSION",
        "the topic, the group, the account or the broker lacks the permission",
        "from the change of the permission on, and never before",
        "STATUS",
        "pull-ignores-permission",
        given_by="processors.pull processors.send sending setting_changes",
    ),
    AnswerBound(
        "ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST",
        "nobody made the topic or group, or an operator deleted it",
        "never after a request that made it was answered, also after a crash",
        "META",
        "every-second-topic-in-memory",
        given_by="parts processors.client_manage processors.names sending",
    ),
    AnswerBound(
        "ResponseCode.QUERY_NOT_FOUND",
        "the key, offset or setting is not there",
        "a key: never for a dispatched message",
        "IDX",
        "look-up-ends-a-file-early",
        given_by="processors.client_manage processors.names processors.query",
    ),
    AnswerBound(
        "ResponseCode.SYSTEM_ERROR, ResponseCode.REQUEST_CODE_NOT_SUPPORTED",
        "the request is wrong, or the disk returned an error",
        "without faults never to a good send; no processor ends in an error that it did not foresee",
        "STATUS",
        "first-send-to-topic-fails",
        given_by="acl.rules processors.names processors.send requests router sending server setting_changes",
    ),
    AnswerBound(
        "ResponseCode.CONSUMER_NOT_ONLINE, ResponseCode.CONSUME_MSG_TIMEOUT",
        "the client of an operator's call is not connected, or does not answer",
        "not checked: runs have no such calls; the broker waits 5 s",
        times="broker.client_calls.TIMEOUT_MS",
        given_by="client_calls processors.group_admin",
    ),
    AnswerBound(
        "ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED, ResponseCode.DELETE_ACL_CONFIG_FAILED,"
        " ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED",
        "the change of the access list is invalid",
        "not checked: runs have no accounts",
        times="broker.acl.plain_acl.WATCH_INTERVAL_MS",
        given_by="processors.acl_admin",
    ),
)

FILES = (
    AnswerBound(
        "removal of a segment",
        "it is the oldest, durable, dispatched, and older than `fileReservedTime`, or the disk is too full",
        "expired files are gone after 60 s and two passes of `cleanResourceInterval`, ten segments each",
        "CLEAN",
        "retention-ten-times-too-slow",
        "file_reserved_time_hours clean_resource_interval_ms delete_commit_log_files_interval_ms"
        " delete_consume_queue_files_interval_ms redelete_hanged_file_interval_ms retention.cleaning.FIRST_CLEAN_MS",
    ),
    AnswerBound(
        "readable message",
        "dispatch has put its entry into the queue",
        "without faults after a few syncs; with a write buffer `commitCommitLogThoroughInterval` +"
        " `commitIntervalCommitLog` later; after an error 1 s more",
        "QUIET",
        "reput-never-retries",
        "commit_interval_commit_log_ms commit_commit_log_thorough_interval_ms queues.dispatch.RETRY_MS",
    ),
    AnswerBound(
        "durable data under ASYNC_FLUSH",
        "a power cut after the interval of the flush",
        "log: `flushCommitLogThoroughInterval` + `flushIntervalCommitLog`; queues, index and checkpoint:"
        " `flushConsumeQueueThoroughInterval` + `flushIntervalConsumeQueue`",
        "QUIET",
        "thorough-flush-ten-times-late",
        "flush_interval_commit_log_ms flush_commit_log_thorough_interval_ms flush_interval_consume_queue_ms"
        " flush_consume_queue_thorough_interval_ms",
    ),
    AnswerBound(
        "unlocked memory",
        "a segment that was locked in memory (`warmMapedFileEnable`) is full",
        "6 s later",
        "QUIET",
        "full-segment-stays-locked",
        "log.allocate.UNLOCK_AFTER_MS",
    ),
    AnswerBound(
        "data of a slave",
        "the slave is connected to its master",
        "after a silence of `haHousekeepingInterval`, 5 s and an attempt to connect, with two heartbeats",
        "QUIET",
        "slave-reconnects-ten-times-too-late",
        "ha_send_heartbeat_interval_ms ha_housekeeping_interval_ms replication.ha_client.RECONNECT_MS"
        " replication.ha_client.CONNECT_MS replication.ha_service._ACCEPT_RETRY_MS",
    ),
    AnswerBound(
        "end of a stop",
        "all data is durable",
        "without faults two syncs per file and one put later; a broker answers all requests first, within 10 s; with a"
        " write buffer, half messages that the check put back are committed first",
        "LIVE",
        "stop-waits-for-next-step",
        "broker.connections.DRAINED_MS broker.server.DRAIN_MS",
    ),
    AnswerBound(
        "files and answers after a stop",
        "none: no file is mapped, and each read is refused",
        "from the end of the stop on",
        "STATUS",
        "stop-leaves-queues-mapped",
    ),
    AnswerBound(
        "end of a load or a start",
        "the store is recovered",
        "without faults two syncs per file and one put later",
        "LIVE",
        "start-sleeps-a-second",
    ),
    AnswerBound(
        "records read by a start after a crash",
        "each crash image",
        "the log from the segment that the checkpoint names, 3 s earlier",
        "SCAN",
        "recovery-from-oldest-segment",
        "formats.checkpoint.SAFETY_MARGIN_MS",
    ),
)

ROWS = (*PUTS, *PULLS, *OFFSETS, *DELAYS, *TRANSACTIONS, *CLIENTS, *FILES)

OTHER_TIMES: Mapping[str, str] = {
    **dict.fromkeys(("stats.LATENCY_BOUNDS_MS", "stats.SLOW_MS", "stats._SAMPLE_MS"), "figures for operators"),
    "broker.statistics.SAMPLE_MS": "figures for operators",
    **dict.fromkeys(("broker.health.TURN_MS_MAX", "broker.health._STEP_MS"), "health for operators"),
    **dict.fromkeys(("broker.operator_log.WINDOW_MS", "broker.operator_log.CLOSE_MS"), "lines for operators"),
    "broker.connections.ACCEPTS_PAUSE_MS": "spreads accepts; the limit of a request covers it",
    "destroy_mapped_file_interval_forcibly_ms": "without effect: the store has no references to files",
    "services.consumer_filter.FORGOTTEN_AFTER_MS": "a day, longer than any run",
    "services.transaction_check._POLL_MS": "a step of a wait; the limit of the pass covers it",
    "start_accept_send_request_time_stamp_ms": "no run sets it",
}
"""Times that give no bound, with the reason."""


def answer_table() -> str:
    """Return the table of `docs/answers.md`."""
    lines = ["| answer | legal | bound | checked by | a bug that it finds |", "| --- | --- | --- | --- | --- |"]
    for row in ROWS:
        answers = ", ".join(dict.fromkeys(_shown(name) for name in row.answers.split(", ")))
        mutant = row.mutant and f"`{row.mutant}`"
        lines.append(f"| {answers} | {row.legal} | {row.bound} | {row.invariant} | {mutant} |")
    return "\n".join(lines)


def _shown(answer: str) -> str:
    kind, _, member = answer.partition(".")
    return f"`{member}`" if kind in ANSWER_ENUMS else answer
