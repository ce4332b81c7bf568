"""LIVE: without faults, every put is answered and every record becomes visible within a bounded time.

A broker answers each send by its timeout, forgets a client soon after its connection has ended, and holds no pull that
has a message. Deadlocks, runs without progress and services that die are LIVE violations, too; the kernel reports them.
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
"""Time for tasks that wait for each other, in addition to syncs. Computing takes no virtual time."""
_REQUEST_MS = 1_000
"""Time for a request to a broker, in addition to timeouts. A heartbeat may have to make topics durable."""
_SYNCS_PER_FILE = 2
"""One for its bytes, one for its directory."""
_FILES_BESIDE = 10
"""Checkpoint, marker, side files and their directories."""

RETRY_MS_MAX = 2 * DISPATCH_RETRY_MS + DELIVERY_RETRY_MS
"""The additional time after errors, because a service pauses before each retry."""

_STEPS_BACK_MAX = 10
"""The sum of all steps back of a clock, in longest steps."""
_CHANCES = {field.name for field in fields(FaultPlan) if field.name.endswith("_chance")}
_slowing_chances = attrgetter(*(kind.row.knob for kind in FaultKind if kind.row.excuses and kind.row.knob in _CHANCES))
_disturbing = attrgetter(*(path for kind in FaultKind if Excuse.PAUSE in kind.row.excuses for path in paths_of(kind)))


def answer_ms_max(plan: Plan) -> int | None:
    """Return the limit for a put in ms, without pauses; None if the plan makes the disk fail or slow.

    Every earlier put and every new segment may cost a few syncs. For puts that overtake it see `segment_ms_max`.
    """
    return None if may_slow(plan) else calm_answer_ms_max(plan)


def calm_answer_ms_max(plan: Plan) -> int:
    """Return the limit for a life without disk faults, whatever the plan has for other lives."""
    return _MOMENT_MS + plan.sync_ms_max * 8 * (plan.producers + 1) + _slave_ms_max(plan)


def is_calm(plan: Plan) -> bool:
    """Return whether a plan has neither disk faults nor pauses."""
    return not may_slow(plan) and not may_disturb(plan)


def start_ms_max(plan: Plan) -> int:
    """Return how long a store may take in ms from its recovery until its services work, or for one file."""
    return _MOMENT_MS + plan.sync_ms_max * _SYNCS_PER_FILE * _FILES_BESIDE


def _slave_ms_max(plan: Plan) -> int:
    """Return how long a put may wait for a slave in ms."""
    return plan.cluster.slave_timeout_ms if plan.cluster.sync_master else 0


def may_slow(plan: Plan) -> bool:
    """Return whether a plan has failed or slow operations, or forced branches that cost time."""
    return plan.memory.error_chance > 0 or plan.forced_branch_chance > 0 or any(_slowing_chances(plan.faults))


def may_disturb(plan: Plan) -> bool:
    """Return whether a plan pauses tasks."""
    return any(_disturbing(plan))


def clock_ms_max(plan: Plan) -> int:
    """Return how much later a step may come in ms because the wall clock was set back."""
    disturbances = plan.disturbances
    return _STEPS_BACK_MAX * disturbances.clock_step_ms_max if disturbances.clock_step_chance else 0


def work_ms_max(plan: Plan, store: MessageStore) -> int:
    """Return how long a store without faults may take for pending work in ms: a sync of each of its files.

    On a slow disk the end of a segment waits with the put that needs the next one, and a queue's file may be slow, too.
    """
    index_files = 0 if store.index is None else len(store.index.table.files)
    files = len(store.log.segments) + sum(len(queue.queue.segments) for queue in store.queues.all()) + index_files
    return _MOMENT_MS + plan.sync_ms_max * _SYNCS_PER_FILE * (files + _FILES_BESIDE)


def delivery_ms_max(plan: Plan) -> int:
    """Return how late the copy of a delayed message may be in ms, without the time for other puts.

    Delivery puts it like any message after it has seen its queue entry. At first delivery itself has to start.
    """
    return calm_answer_ms_max(plan) + start_ms_max(plan)


def held_up_ms_max(plan: Plan) -> int:
    """Return the additional delay by slow operations and pauses of a plan in ms."""
    slow_ms = pauses_ms_max(plan)
    return ALLOCATE_WAIT_MS + slow_ms if slow_ms else 0


def paused_ms_max(plan: Plan) -> int:
    """Return how long the last pause of a task may still last after disturbances have ended, in ms."""
    disturbances = plan.disturbances
    return disturbances.paused_task_ms_max if disturbances.paused_task_chance else 0


def pauses_ms_max(plan: Plan) -> int:
    """Return how long a slow disk and pauses may delay a step of a store in ms."""
    faults, disturbances = plan.faults, plan.disturbances
    return int(
        (faults.slow_sync_chance and faults.slow_sync_ms_max)
        + 10 * (max(faults.slow_io_chance, faults.slow_page_in_chance) and faults.slow_io_ms_max)
        + 3 * (faults.stall_chance and faults.stall_ms_max)
        + 3 * (disturbances.paused_task_chance and disturbances.paused_task_ms_max)
        + 3 * (disturbances.paused_machine_chance and disturbances.paused_machine_ms_max)
    )


def request_ms_max(plan: Plan) -> int:
    """Return how long a broker may take for a request in ms, without the waits of the request itself."""
    return pauses_ms_max(plan) + _REQUEST_MS


def overtaken_ms_max(plan: Plan) -> int:
    """Return how much longer a question about a half message may take for each one put back before it, in ms.

    Each may need a new segment, with a sync for the file and one for its name, after another segment.
    """
    return 2 * segment_ms_max(plan)


def segment_ms_max(plan: Plan) -> int:
    """Return how much longer a put may take for each segment that the log grows by meanwhile, in ms.

    The put lock is not fair, so other puts may overtake, also those of the store itself, which puts back half messages
    and delivers delayed ones. Some of these need a segment.
    """
    return plan.sync_ms_max * _SYNCS_PER_FILE


def check_answer(limit_ms: int | None, put: PutEntry, more_ms: int = 0) -> Sequence[Violation]:
    """Return a put that took longer than limit_ms, the result of answer_ms_max.

    more_ms: additional time for the segments of other puts.
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
    """Return a put, just answered by a running store, that waited for its flush beyond the timeout.

    This holds on slow disks, too. A put that opens a segment has another wait, and clock steps hide the time. now_ms:
    the wall clock without pauses.
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
    """Return a put, just answered, that a store left waiting after its stop.

    stopped_ns: the end of the stop. No pause began after it, but one may have been under way.
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
    """Yield a consumer's request that was not answered in time, after all faults. error: of its client."""
    tried("LIVE")
    if isinstance(error, TimeoutError):
        summary = f"a request of a consumer is not answered in {timeout_ms} ms"
        yield Violation("LIVE", summary, field="answer", expected="one", found=str(error))


def check_held(store: MessageStore, pull: "HeldPull") -> Iterator[Violation]:
    """Yield a pull that a master has just begun to hold although dispatch is past a message for it.

    Dispatch wakes the pulls for a record before it goes on, and never again. The check runs at one moment. It does not
    read records, and ignores a disk that cannot be read.
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
            continue  # its tags are unknown here, only dispatch has read them
        if not pull.wanted.matches_queue(entry.tags_code if unit is None else unit.tags_code, unit):
            continue
        summary = f"a pull of {pull.queue[0]}/{pull.queue[1]} is held although there is a message for it"
        expected, found = "answered", f"held, and its message {queue_offset} announced"
        yield Violation("LIVE", summary, "", -1, "pull", expected, found)
        return


def check_members(plan: Plan, ended_ns: Iterable[int], now_ns: int) -> Iterator[Violation]:
    """Yield members of a broker's groups whose connections ended too long ago.

    ended_ns: when the broker had handled the end of each connection. A late heartbeat may have added a member since.
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
