"""Invariants, by what they look at. A checker reads, yields every violation, and changes nothing.

CHECKERS judge a store after each recovery. `pos`, `status` and the checkpoint's in `side_files` ask the simulated disk
as the run goes, `live` and `consumers` judge what users met, `quiescence` what is behind when they are done, `iso` what
a second instance does, `clean` also each file that retention removes, `scan` what a start reads of the log,
`side_files` what it finds beside that, `rep` slaves and their master. START and IDEMPOTENT are in
`scenarios.runs`, what the kernel reports under LIVE is in `oracle.judge`.
"""

from ..evidence import Invariant
from . import clean, dur, idx, prefix, tx
from .consume_queues import check_cq_complete, check_cq_valid, check_qoff
from .consumers import check_vis
from .delivery import check_redel, check_sched

CHECKERS: dict[str, Invariant] = {
    "DUR": dur.check,
    "PREFIX": prefix.check,
    "CQ-COMPLETE": check_cq_complete,
    "CQ-VALID": check_cq_valid,
    "QOFF": check_qoff,
    "VIS": check_vis,
    "IDX": idx.check,
    "CLEAN": clean.check,
    "SCHED": check_sched,
    "REDEL": check_redel,
    "TX": tx.check,
}

INVARIANTS: dict[str, str] = {
    "DUR": "what was promised is there, with its bytes",
    "PREFIX": "the recovered log is a prefix of what was appended, each put once at most; nothing cut comes back",
    "VIS": "what a consumer was given cannot disappear",
    "CQ-COMPLETE": "every record is reachable through exactly one entry of its queue",
    "CQ-VALID": "every entry points at a record of its queue, with the right size and tag",
    "QOFF": "queue offsets are unique, gapless and as answered",
    "IDX": "the index leads to every key of every record, once, and look-ups find exactly what has the key",
    "POS": "flushed <= readable <= committed <= wrote <= size; flushed is durable, committed cached, a cut lasts",
    "CKPT": "the checkpoint never claims more than is durable",
    "STATUS": "every answer is truthful at the moment it is given",
    "ISO": "a second instance on the same directory is refused, and changes nothing",
    "START": "every crash image can be opened",
    "LIVE": "while nothing is broken, puts are answered and records become visible in time",
    "QUIET": "once users are done and nothing is broken, every cursor comes to its end, in the time that settings give",
    "READ": "a consumer gets exactly what its subscription matches, in order",
    "META": "progress is read back as it was last durable, or newer, and never ahead of what was reported",
    "SCAN": "a recovery reads no more of the log than its settings, and what is vouched for, ask",
    "SCHED": "delayed messages are delivered at least once, where they were put, and not before they are due",
    "REDEL": "what is delivered again after a crash is bounded by the last durable progress; a restart repeats nothing",
    "CLEAN": "retention removes the oldest segments only, as many as asked for, and none that is needed",
    "TX": "a transaction is asked about until it is decided or given up; a decided one is not, and none is lost",
    "REP": "a slave's log is a prefix of its master's, and it has what it acknowledges; one that does not fit says so",
    "IDEMPOTENT": "recovering again changes nothing",
}
