"""Invariants: checkers that read a store and yield every violation. They change no state.

CHECKERS check a store after each recovery. Other checks happen during a run:

    pos, status, side_files  compare the store with the simulated disk
    live, consumers          check answers to users
    quiescence               checks that services finish their work after the last request
    iso                      checks a second instance on the same directory
    files                    compares the files of a store with those that it needs
    clean                    also checks each removal by retention
    scan                     checks how much of the log recovery reads
    rep                      compares slaves with their master

START and IDEMPOTENT are in `scenarios.runs`. `oracle.judge` reports the kernel's errors as LIVE.
"""

from ..evidence import Invariant
from . import clean, dur, idx, prefix, tx
from .consume_queues import check_cq_complete, check_cq_valid, check_queue_offsets
from .consumers import check_visibility
from .delivery import check_delivered_copies, check_redelivery

# The first violation is the verdict, so causes come first: two records with one queue offset also violate CQ-COMPLETE.
CHECKERS: dict[str, Invariant] = {
    "DUR": dur.check_durable_puts,
    "PREFIX": prefix.check_log_prefix,
    "QOFF": check_queue_offsets,
    "CQ-COMPLETE": check_cq_complete,
    "CQ-VALID": check_cq_valid,
    "VIS": check_visibility,
    "IDX": idx.check_index,
    "CLEAN": clean.check_log_start,
    "SCHED": check_delivered_copies,
    "REDEL": check_redelivery,
    "TX": tx.check_transaction_records,
}

INVARIANTS: dict[str, str] = {
    "DUR": "every promised message is present with its bytes",
    "PREFIX": (
        "the recovered log is a prefix of the appended records, without duplicates, and truncated records do not "
        "reappear"
    ),
    "VIS": "a message that a consumer received does not disappear",
    "CQ-COMPLETE": "every record has exactly one entry in its queue",
    "CQ-VALID": "every queue entry points at a record of its queue, with the right size and tag",
    "QOFF": "queue offsets are unique, without gaps, and as answered",
    "IDX": "the index has every key of every record exactly once, and lookups find exactly the messages with the key",
    "POS": (
        "flushed <= readable <= committed <= wrote <= size; flushed is durable, committed cached, truncation permanent"
    ),
    "CKPT": "the checkpoint never covers data that is not durable",
    "STATUS": "every answer is true when it is sent",
    "ISO": "a second instance on the same directory is refused and changes no file",
    "START": "every crash image opens",
    "LIVE": "without faults, puts are answered and records become visible in time",
    "QUIET": (
        "once users are done and faults have ended, every cursor reaches its end within its configured time, and a "
        "table of brokers has exactly what was registered"
    ),
    "READ": "a consumer receives exactly the messages that its subscription matches, in order",
    "META": "progress, topics, groups and keys are as last changed, and after a start as last made durable or newer",
    "SCAN": (
        "recovery reads as much of the log as the settings and the checkpoint require, and no more; after a clean stop "
        "it reports no damage and changes no queue entry"
    ),
    "FILES": "a load or a clean stop leaves exactly the store's files, each in its place, with its size and its time",
    "SCHED": "delayed messages are delivered at least once, to their queue, and not before their time",
    "REDEL": "redelivery after a crash is limited by the last durable progress; a restart repeats no delivery",
    "CLEAN": "retention removes only the oldest segments, as many as requested, and none that is needed",
    "LOCK": "no two clients hold the lock of a queue at once, and a lock without a holder is granted within its expiry",
    "TX": "a transaction is checked until it is decided or given up, not after its decision, and none is lost",
    "REP": (
        "a slave's log is a prefix of its master's, has what it acknowledged, and is whole after its master's stop; a "
        "slave that diverged reports it; frames, reports and closes of their connections are in order and in time"
    ),
    "IDEMPOTENT": "a second recovery changes nothing",
}
