"""LIVE: while nothing is broken, every put is answered and every record becomes visible within a bounded time.

Deadlocks, runs without progress and services that die are LIVE violations too; the kernel reports those.
"""

from collections.abc import Sequence

from ..evidence import Violation
from ..ledger import PutEntry
from ..plan import Plan

DISPATCH_MS_MAX = 2_000
"""How long the dispatch of everything may take after the last put, in virtual time."""


def answer_ms_max(plan: Plan) -> int | None:
    """Return how long a put may take in ms; None if the plan breaks or slows the disk.

    Every put that is ahead in line, and every segment it needs, may cost a few syncs.
    """
    if plan.slow_sync_chance or plan.failed_sync_chance or plan.failed_creation_chance:
        return None
    return 20 + plan.sync_ms_max * 8 * (plan.producers + 1)


def check_answer(limit_ms: int | None, put: PutEntry) -> Sequence[Violation]:
    """Return a put that took longer than limit_ms, which is what answer_ms_max gave."""
    if limit_ms is None or put.answered_ns is None:
        return ()
    took_ms = (put.answered_ns - put.asked_ns) // 1_000_000
    if took_ms <= limit_ms:
        return ()
    summary = f"{put.name} waited although nothing was wrong"
    return (Violation("LIVE", summary, "", -1, "answer time", f"<= {limit_ms} ms", f"{took_ms} ms"),)
