"""Checked fields: the fields that each invariant compares, and the kinds of runs that do so.

No invariant checks a record's field that is missing here. Field names are those of the format.
"""

from typing import NamedTuple

STORE, CLUSTER, BROKER = "store", "cluster", "broker"
"""A single store, a master with slaves, and brokers with clients on a network."""
RUNS = (STORE, CLUSTER, BROKER)

MESSAGE = ("topic", "queueId", "body", "properties")
"""The content and the target of a message. Tags, keys and delays are properties."""
HEAD = (
    *("magicCode", "bodyCRC", "flag", "sysFlag", "bornTimestamp", "bornHost", "storeTimestamp", "storeHost"),
    *("reconsumeTimes", "preparedTransactionOffset"),
)


class CheckedFields(NamedTuple):
    """The fields that one invariant compares."""

    fields: tuple[str, ...]
    runs: tuple[str, ...] = RUNS


CHECKED: dict[str, CheckedFields] = {
    "DUR": CheckedFields((*MESSAGE, *HEAD, "physicalOffset")),
    "PREFIX": CheckedFields((*MESSAGE, *HEAD, "physicalOffset")),
    "VIS": CheckedFields((*MESSAGE, "queueOffset")),
    "CQ-COMPLETE": CheckedFields(("topic", "queueId", "queueOffset", "entry: phyOffset", "light queues")),
    "CQ-VALID": CheckedFields(("topic", "queueId", "entry: phyOffset", "entry: size", "entry: tagsCode")),
    "QOFF": CheckedFields(("queueOffset", "light queues", "answer to a put: queueOffset", "answer: queueId, msgId")),
    "IDX": CheckedFields(("index: keys, hashes, phyOffset, times, slots", "answers of look-ups")),
    "POS": CheckedFields(
        ("flushed", "readable", "committed", "wrote", "flushedWhere", "bytes on the disk", "places of segments")
    ),
    "CKPT": CheckedFields(("checkpoint: the times of log, queues and index",)),
    "STATUS": CheckedFields(("answer to a put: status, time", "flags", "marker of an unclean exit")),
    "ISO": CheckedFields(("outcome of a second start", "changes of files"), (STORE,)),
    "START": CheckedFields(("outcome of a start",)),
    "LIVE": CheckedFields(("time of an answer", "delivery to a consumer", "services", "members of groups")),
    "QUIET": CheckedFields(("positions of services", "progress of groups", "routes, lists and tables of brokers")),
    "READ": CheckedFields(
        (*MESSAGE, *HEAD, "queueOffset", "physicalOffset", "answer to a pull: nextBeginOffset, minOffset, maxOffset")
    ),
    "META": CheckedFields(
        (
            *("progress of groups and levels", "versions of side files", "topics and groups of a broker"),
            "keys of a name server",
        )
    ),
    "SCAN": CheckedFields(("where a recovery begins to read", "the damage that it reports", "bytes of queues")),
    "FILES": CheckedFields(("names, sizes and modification times of files",)),
    "SCHED": CheckedFields(("storeTimestamp", "delivery of a delayed message", "progress of levels")),
    "REDEL": CheckedFields(("copies of a delayed message", "progress of groups and levels")),
    "CLEAN": CheckedFields(("minOffset of log and queues", "removed files", "answers about expired messages")),
    "LOCK": CheckedFields(("answers to requests to lock queues: lockOKMQSet",), (BROKER,)),
    "TX": CheckedFields(
        ("sysFlag", "preparedTransactionOffset", "TRANSACTION_CHECK_TIMES", "half messages, copies and ops")
    ),
    "REP": CheckedFields(
        (
            "bytes of the log",
            "frames and reports",
            "silence and close of connections",
            "divergence",
            "tables of a slave",
        ),
        (CLUSTER, BROKER),
    ),
    "IDEMPOTENT": CheckedFields(("bytes of log, queues and index",), (STORE,)),
}
"""`tests/scenarios/oracle/invariants/test_fields.py` checks the fields and the runs."""
