"""Invariants, one checker a file. A checker reads, yields every violation, and changes nothing.

CHECKERS judge a store after each recovery. `pos`, `ckpt` and `status` ask the simulated disk as the run goes, `live`
and `read` judge what users met, `iso` what a second instance does. START, IDEMPOTENT and what the kernel reports
under LIVE are in scenarios.run.
"""

from ..evidence import Invariant
from . import cq_complete, cq_valid, dur, prefix, qoff, vis

CHECKERS: dict[str, Invariant] = {
    "DUR": dur.check,
    "PREFIX": prefix.check,
    "CQ-COMPLETE": cq_complete.check,
    "CQ-VALID": cq_valid.check,
    "QOFF": qoff.check,
    "VIS": vis.check,
}

INVARIANTS: dict[str, str] = {
    "DUR": "what was promised is there, with its bytes",
    "PREFIX": "the recovered log is a prefix of what was appended; nothing cut comes back",
    "VIS": "what a consumer was given cannot disappear",
    "CQ-COMPLETE": "every record is reachable through exactly one entry of its queue",
    "CQ-VALID": "every entry points at a record of its queue, with the right size and tag",
    "QOFF": "queue offsets are unique, gapless and as answered",
    "POS": "flushed <= wrote <= size, and what counts as flushed is durable",
    "CKPT": "the checkpoint never claims more than is durable",
    "STATUS": "every answer is truthful at the moment it is given",
    "ISO": "a second instance on the same directory is refused, and changes nothing",
    "START": "every crash image can be opened",
    "LIVE": "while nothing is broken, puts are answered and records become visible in time",
    "READ": "a consumer gets exactly what its subscription matches, in order",
    "IDEMPOTENT": "recovering again changes nothing",
}
