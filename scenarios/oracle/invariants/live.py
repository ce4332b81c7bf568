"""LIVE: while nothing is broken, every put is answered and every record becomes visible within a bounded time.

Deadlocks, runs without progress and services that die are LIVE violations too; the kernel reports those.
"""

from collections.abc import Sequence
from dataclasses import fields

from ....store.log.allocate import WAIT_MS as ALLOCATE_WAIT_MS
from ...claims.plan import Plan
from ..evidence import Violation, tried
from ..put_entry import PutEntry

DISPATCH_MS_MAX = 2_000
"""How long the dispatch of everything may take after the last put, in virtual time."""

FLUSH_MS_MAX = 5_000
"""How long after the interval of the thorough flush its syncs may take, on a disk without faults."""

RETRY_MS_MAX = 5_000
"""How much longer it may take after errors, which were met in the midst of it and are behind it now."""

_HARMLESS = {
    "short_write_chance",
    "refused_lock_chance",
    "lying_sync_chance",
    "lost_write_chance",
    "misdirected_write_chance",
    "torn_bytes_chance",
    "garbage_chance",
}
"""Faults after which nothing has to be waited for."""


def answer_ms_max(plan: Plan) -> int | None:
    """Return how long a put may take in ms; None if the plan breaks or slows the disk.

    Every put that is ahead in line, and every segment it needs, may cost a few syncs; so may one that overtakes it,
    for which see `overtaken_ms_max`.
    """
    if _may_slow(plan) or _may_disturb(plan):
        return None
    return 20 + plan.sync_ms_max * 8 * (plan.producers + 1) + _slave_ms_max(plan)


def _slave_ms_max(plan: Plan) -> int:
    """Return how long a put may wait for a slave in ms."""
    return plan.cluster.slave_timeout_ms if plan.cluster.sync_master else 0


def _may_slow(plan: Plan) -> bool:
    """Return whether anything in a plan fails operations, or makes them wait."""
    faults = plan.faults
    chances = {field.name for field in fields(faults) if field.name.endswith("_chance")} - _HARMLESS
    return plan.memory.error_chance > 0 or any(getattr(faults, name) for name in sorted(chances))


def _may_disturb(plan: Plan) -> bool:
    """Return whether anything in a plan makes tasks wait."""
    return not plan.disturbances.is_quiet or plan.starved_steps_max > 0


def dispatch_ms_max(plan: Plan) -> int:
    """Return how long the dispatch of everything may take, in ms.

    On a slow disk the end of a segment waits with the put that needs the next one, and a queue's file may be slow too.
    """
    slow_ms = pauses_ms_max(plan)
    return DISPATCH_MS_MAX + (ALLOCATE_WAIT_MS + slow_ms if slow_ms else 0)


def pauses_ms_max(plan: Plan) -> int:
    """Return for how long a slow disk and paused tasks may hold up what a store does, in ms."""
    faults, disturbances = plan.faults, plan.disturbances
    return int(
        (faults.slow_sync_chance and faults.slow_sync_ms_max)
        + 10 * (faults.slow_io_chance and faults.slow_io_ms_max)
        + 3 * (faults.stall_chance and faults.stall_ms_max)
        + 3 * (disturbances.paused_task_chance and disturbances.paused_task_ms_max)
        + 3 * (disturbances.paused_machine_chance and disturbances.paused_machine_ms_max)
    )


def durable_ms_max(plan: Plan) -> int:
    """Return how long it may take until everything that is in the page cache is durable, in ms."""
    return plan.flush.thorough_interval_ms + FLUSH_MS_MAX


def overtaken_ms_max(plan: Plan) -> int:
    """Return how much longer a put may take for each one that overtakes it, in ms.

    The put lock is not fair: whoever comes by while it is free takes it, and may need a segment, which is a file and
    a name to sync, behind another that is being made.
    """
    return 4 * plan.sync_ms_max


def check_answer(
    limit_ms: int | None, put: PutEntry, puts: Sequence[PutEntry] = (), overtaken_ms: int = 0
) -> Sequence[Violation]:
    """Return a put that took longer than limit_ms, which is what answer_ms_max gave, and for no good reason.

    puts: all that were asked, in order; each that was answered while this one waited has cost it overtaken_ms at most.
    """
    if limit_ms is None or put.answered_ns is None:
        return ()
    tried("LIVE")
    took_ms = (put.answered_ns - put.asked_ns) // 1_000_000
    if took_ms > limit_ms:
        limit_ms += overtaken_ms * _count_overtaking(put, puts)
    if took_ms <= limit_ms:
        return ()
    summary = f"{put.name} waited although nothing was wrong"
    return (Violation("LIVE", summary, "", -1, "answer time", f"<= {limit_ms} ms", f"{took_ms} ms"),)


def check_left_over(plan: Plan, put: PutEntry, stopped_ns: int) -> Sequence[Violation]:
    """Return a put, just answered, that a store left waiting when it had stopped.

    stopped_ns: when that was. Nothing has paused tasks since, but a pause may have been going on.
    """
    if _may_slow(plan) or put.answered_ns is None or put.asked_ns >= stopped_ns:
        return ()
    tried("LIVE")
    disturbances = plan.disturbances
    paused_ms = disturbances.paused_task_ms_max if disturbances.paused_task_chance else 0
    limit_ms = paused_ms + 20 + plan.sync_ms_max * 8 * (plan.producers + 1)
    took_ms = (put.answered_ns - stopped_ns) // 1_000_000
    if took_ms <= limit_ms:
        return ()
    summary = f"{put.name} was left waiting by a store that had stopped"
    return (Violation("LIVE", summary, "", -1, "answer time", f"<= {limit_ms} ms", f"{took_ms} ms"),)


def _count_overtaking(put: PutEntry, puts: Sequence[PutEntry]) -> int:
    """Return how many puts were asked after one and answered before it."""
    count = 0
    for other in reversed(puts):
        if other is put:
            break
        count += other.answered_ns is not None
    return count


def late_delivery(behind: str, detail: str = "") -> Sequence[Violation]:
    """Return delayed messages that are not delivered in a world where nothing is broken; detail: what is known."""
    summary = "delayed messages are not delivered"
    return (Violation("LIVE", summary, "", -1, "delivery", "all that is due", behind, detail),)


def late_progress(file: str, detail: str = "") -> Sequence[Violation]:
    """Return a file that does not get the progress it is there for; detail: what is known of it."""
    summary = "progress is not persisted"
    return (Violation("LIVE", summary, file, 0, "progress", "durable within an interval", "older", detail),)
