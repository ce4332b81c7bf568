"""LIVE: while nothing is broken, every put is answered and every record becomes visible within a bounded time.

A broker answers each send when its time is over, and has forgotten each client whose connection has ended soon after.
It holds no pull for which there is a message.

Deadlocks, runs without progress and services that die are LIVE violations too; the kernel reports those.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING

from ....faults.kinds import Excuse, FaultKind
from ....faults.plan import FaultPlan
from ....store.config import BrokerRole
from ....store.delivery.schedule import RETRY_AFTER_ERROR_MS as DELIVERY_RETRY_MS
from ....store.formats.consume_queue import is_ext_address
from ....store.formats.messages import PutMessageResult
from ....store.log.allocate import WAIT_MS as ALLOCATE_WAIT_MS
from ....store.message_store import MessageStore
from ....store.queues.dispatch import RETRY_MS as DISPATCH_RETRY_MS
from ...claims.plan import Plan
from ...claims.possible_faults import paths_of
from ..evidence import Violation, tried
from ..put_entry import PutEntry

if TYPE_CHECKING:
    from ....store.broker.long_polling import HeldPull

_MOMENT_MS = 20
"""What tasks that wait for each other need beside syncs: on the simulated clock computing takes no time at all."""
_REQUEST_MS = 1_000
"""What a broker's tasks need for a request beside time-outs: a heartbeat may have topics to make durable."""
_SYNCS_PER_FILE = 2
"""Its bytes, and the directory that has its name."""
_FILES_BESIDE = 10
"""Checkpoint, marker, side files and their directories."""

RETRY_MS_MAX = 2 * DISPATCH_RETRY_MS + DELIVERY_RETRY_MS
"""How much longer it may take after errors, which were met in the midst of it and are behind it now: who met one waits
that long before it tries again."""

_STEPS_BACK_MAX = 10
"""How many of the longest steps a clock is never further behind, all taken together."""
_CHANCES = {field.name for field in fields(FaultPlan) if field.name.endswith("_chance")}
_slowing_chances = attrgetter(*(kind.row.knob for kind in FaultKind if kind.row.excuses and kind.row.knob in _CHANCES))
_disturbing = attrgetter(*(path for kind in FaultKind if Excuse.PAUSE in kind.row.excuses for path in paths_of(kind)))


def answer_ms_max(plan: Plan) -> int | None:
    """Return how long a put may take in ms, pauses left out; None if the plan breaks or slows the disk.

    Every put that is ahead in line, and every segment it needs, may cost a few syncs; so may those that
    overtake it, for which see `segment_ms_max`.
    """
    return None if may_slow(plan) else calm_answer_ms_max(plan)


def calm_answer_ms_max(plan: Plan) -> int:
    """Return the same of a life in which nothing breaks or slows the disk, whatever the plan has for others."""
    return _MOMENT_MS + plan.sync_ms_max * 8 * (plan.producers + 1) + _slave_ms_max(plan)


def is_calm(plan: Plan) -> bool:
    """Return whether nothing in a plan breaks or slows a disk, or makes tasks wait."""
    return not may_slow(plan) and not may_disturb(plan)


def start_ms_max(plan: Plan) -> int:
    """Return how long a store may take, in ms, from when it has recovered until its services work, or for a file."""
    return _MOMENT_MS + plan.sync_ms_max * _SYNCS_PER_FILE * _FILES_BESIDE


def _slave_ms_max(plan: Plan) -> int:
    """Return how long a put may wait for a slave in ms."""
    return plan.cluster.slave_timeout_ms if plan.cluster.sync_master else 0


def may_slow(plan: Plan) -> bool:
    """Return whether anything in a plan fails operations, makes them wait, or forces branches that cost time."""
    return plan.memory.error_chance > 0 or plan.forced_branch_chance > 0 or any(_slowing_chances(plan.faults))


def may_disturb(plan: Plan) -> bool:
    """Return whether anything in a plan makes tasks wait."""
    return any(_disturbing(plan))


def clock_ms_max(plan: Plan) -> int:
    """Return how much later something may come that is due by the wall clock, in ms: that may have been set back."""
    disturbances = plan.disturbances
    return _STEPS_BACK_MAX * disturbances.clock_step_ms_max if disturbances.clock_step_chance else 0


def work_ms_max(plan: Plan, store: MessageStore) -> int:
    """Return how long a store may take to do what is due, in ms, when nothing is broken: a sync of each of its files.

    On a slow disk the end of a segment waits with the put that needs the next one, and a queue's file may be slow too.
    """
    index_files = 0 if store.index is None else len(store.index.table.files)
    files = len(store.log.segments) + sum(len(queue.queue.segments) for queue in store.queues.all()) + index_files
    return _MOMENT_MS + plan.sync_ms_max * _SYNCS_PER_FILE * (files + _FILES_BESIDE)


def delivery_ms_max(plan: Plan) -> int:
    """Return how late the copy of a delayed message may be in ms, but for what else is put meanwhile.

    It is put as any message is, when the task of delivery has seen the entry of its message; in the beginning that has
    to start.
    """
    return calm_answer_ms_max(plan) + start_ms_max(plan)


def held_up_ms_max(plan: Plan) -> int:
    """Return for how long what is slow or paused in a plan may hold a store up beyond that, in ms."""
    slow_ms = pauses_ms_max(plan)
    return ALLOCATE_WAIT_MS + slow_ms if slow_ms else 0


def paused_ms_max(plan: Plan) -> int:
    """Return how long a pause of a task may yet last that had begun before tasks were left in peace, in ms."""
    disturbances = plan.disturbances
    return disturbances.paused_task_ms_max if disturbances.paused_task_chance else 0


def pauses_ms_max(plan: Plan) -> int:
    """Return for how long a slow disk and paused tasks may hold up what a store does, in ms."""
    faults, disturbances = plan.faults, plan.disturbances
    return int(
        (faults.slow_sync_chance and faults.slow_sync_ms_max)
        + 10 * (max(faults.slow_io_chance, faults.slow_page_in_chance) and faults.slow_io_ms_max)
        + 3 * (faults.stall_chance and faults.stall_ms_max)
        + 3 * (disturbances.paused_task_chance and disturbances.paused_task_ms_max)
        + 3 * (disturbances.paused_machine_chance and disturbances.paused_machine_ms_max)
    )


def request_ms_max(plan: Plan) -> int:
    """Return how long a broker may take for a request in ms, beside what that waits for, be it slow or paused."""
    return pauses_ms_max(plan) + _REQUEST_MS


def overtaken_ms_max(plan: Plan) -> int:
    """Return how much longer a question about a half message may take for each that is put back before it, in ms.

    Each may need a segment, which is a file and a name to sync, behind another that is being made.
    """
    return 2 * segment_ms_max(plan)


def segment_ms_max(plan: Plan) -> int:
    """Return how much longer a put may take for each segment that the log grows by while it waits, in ms.

    The put lock is not fair: whoever comes by while it is free takes it, also the store itself, which puts back half
    messages and delivers delayed ones, one after the other, and some of these need a segment.
    """
    return plan.sync_ms_max * _SYNCS_PER_FILE


def check_answer(limit_ms: int | None, put: PutEntry, more_ms: int = 0) -> Sequence[Violation]:
    """Return a put that took longer than limit_ms, which is what answer_ms_max gave, and for no good reason.

    more_ms: what the segments may have cost that others were given while it waited.
    """
    if limit_ms is None or put.answered_ns is None:
        return ()
    tried("LIVE")
    took_ms = (put.answered_ns - put.asked_ns) // 1_000_000
    limit_ms += more_ms
    if took_ms <= limit_ms:
        return ()
    summary = f"{put.name} waited although nothing was wrong"
    return (Violation("LIVE", summary, "", -1, "answer time", f"<= {limit_ms} ms", f"{took_ms} ms"),)


def check_flush_wait(plan: Plan, put: PutEntry, result: PutMessageResult, now_ms: int) -> Sequence[Violation]:
    """Return a put, just answered by a store that runs, that was in the log for longer than it may wait for its flush.

    However slow the disk is. Who opens a segment has waited for that, too, and when clocks step nobody knows. now_ms:
    by the wall clock, less what of pauses there was meanwhile.
    """
    append = result.append
    if append is None or not put.wait or not plan.sync_flush or plan.disturbances.clock_step_chance:
        return ()
    if append.wrote_offset % plan.commit_log_bytes == 0:
        return ()
    tried("LIVE")
    took_ms = now_ms - append.store_timestamp_ms
    limit_ms = plan.flush.sync_timeout_ms + _slave_ms_max(plan) + _MOMENT_MS
    if took_ms <= limit_ms:
        return ()
    summary = f"{put.name} waited for its flush beyond syncFlushTimeout"
    return (Violation("LIVE", summary, "", -1, "answer time", f"<= {limit_ms} ms", f"{took_ms} ms"),)


def check_left_over(plan: Plan, put: PutEntry, stopped_ns: int) -> Sequence[Violation]:
    """Return a put, just answered, that a store left waiting when it had stopped.

    stopped_ns: when that was. Nothing has paused tasks since, but a pause may have been going on.
    """
    if may_slow(plan) or put.answered_ns is None or put.asked_ns >= stopped_ns:
        return ()
    tried("LIVE")
    limit_ms = paused_ms_max(plan) + _MOMENT_MS + plan.sync_ms_max * 8 * (plan.producers + 1)
    took_ms = (put.answered_ns - stopped_ns) // 1_000_000
    if took_ms <= limit_ms:
        return ()
    summary = f"{put.name} was left waiting by a store that had stopped"
    return (Violation("LIVE", summary, "", -1, "answer time", f"<= {limit_ms} ms", f"{took_ms} ms"),)


def check_waiting(plan: Plan, asked_ns: Iterable[int], now_ns: int) -> Iterator[Violation]:
    """Yield each send that a broker has not answered although no disk or slave takes that long.

    asked_ns: when each was asked that has no answer. now_ns: while the broker was alive.
    """
    limit_ms = plan.flush.sync_timeout_ms + plan.cluster.slave_timeout_ms + request_ms_max(plan)
    for each_ns in asked_ns:
        tried("LIVE")
        waited_ms = (now_ns - each_ns) // 1_000_000
        if waited_ms > limit_ms:
            expected, found = f"<= {limit_ms} ms", f"{waited_ms} ms"
            yield Violation("LIVE", "a send is not answered", field="answer time", expected=expected, found=found)


def timed_out(timeout_ms: int, error: OSError) -> Iterator[Violation]:
    """Yield a consumer's request that is not answered in time, when all is well. error: what its client raised."""
    tried("LIVE")
    if isinstance(error, TimeoutError):
        summary = f"a request of a consumer is not answered in {timeout_ms} ms"
        yield Violation("LIVE", summary, field="answer", expected="one", found=str(error))


def check_held(store: MessageStore, pull: "HeldPull") -> Iterator[Violation]:
    """Yield a pull that a master has just begun to hold although dispatch is done with a message that it wants.

    Dispatch wakes those who wait for a record before it goes on behind it: of what it is done with it wakes nobody any
    more. To be called at one moment. What records say of messages is not looked at, nor a disk that cannot be read.
    """
    queue = store.queues.find(*pull.queue)
    if queue is None or pull.wanted.reads_records or store.config.broker_role is BrokerRole.SLAVE:
        return
    tried("LIVE")
    done_to = store.dispatch.reput_from.get()
    for queue_offset in range(pull.offset, queue.max_offset):
        try:
            entry = queue.entry(queue_offset)
            if entry is None or entry.physical_offset >= done_to:
                continue
            unit = queue.unit_at(entry.tags_code)
        except OSError:
            return
        if unit is None and is_ext_address(entry.tags_code):
            continue  # its tags are unknown here; who announced it has seen the record
        if not pull.wanted.matches_queue(entry.tags_code if unit is None else unit.tags_code, unit):
            continue
        summary = f"a pull of {pull.queue[0]}/{pull.queue[1]} is held although there is a message for it"
        expected, found = "answered", f"held, and its message {queue_offset} announced"
        yield Violation("LIVE", summary, "", -1, "pull", expected, found)
        return


def check_members(plan: Plan, ended_ns: Iterable[int], now_ns: int) -> Iterator[Violation]:
    """Yield what is wrong with members of a broker's groups whose connections have ended.

    ended_ns: when the broker was done with each of these. A heartbeat that is dealt with may have noted one since.
    """
    limit_ms = request_ms_max(plan)
    for each_ns in ended_ns:
        tried("LIVE")
        since_ms = (now_ns - each_ns) // 1_000_000
        if since_ms > limit_ms:
            summary = "a client is a member though its connection has ended"
            yield Violation(
                "LIVE", summary, "", -1, "members", f"gone after {limit_ms} ms", f"there after {since_ms} ms"
            )
