"""LIVE: without faults, each put is answered and each record becomes visible within a bounded time.

The kernel also reports deadlocks, runs without progress and dead services.
"""

from collections.abc import Callable, Iterable, Iterator
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
from ....store.log.segment import PAGE_BYTES
from ....store.message_store import MessageStore
from ....store.queues.dispatch import RETRY_MS as DISPATCH_RETRY_MS
from ...claims.machine import DELAYS_MS
from ...claims.plan import Plan
from ...claims.possible_faults import paths_of
from ..evidence import Violation, record_tried
from ..put_entry import PutEntry

if TYPE_CHECKING:
    from ....store.broker.long_polling import HeldPull

_MOMENT_MS = 20
"""How long tasks wait for each other, in addition to syncs. Computing takes no virtual time."""
_SEGMENTS_AHEAD = 2
_REQUEST_MS = 1_000
"""The time limit for a request to a broker, without timeouts. A heartbeat may have to make topics durable."""
_SYNCS_PER_FILE = 2
"""Syncs per file: one for the file, one for its directory."""
_OTHER_FILES = 10
"""The maximum number of other files: the checkpoint, the abort file, side files and their directories."""

RETRY_MS_MAX = 2 * DISPATCH_RETRY_MS + DELIVERY_RETRY_MS
"""Additional time after errors: the back-off before each retry."""

_STEPS_BACK_MAX = 10
"""The maximum total of a clock's backward steps, in units of the longest step."""
_CHANCES = {field.name for field in fields(FaultPlan) if field.name.endswith("_chance")}
_slowing_chances = attrgetter(*(kind.row.knob for kind in FaultKind if kind.row.excuses and kind.row.knob in _CHANCES))
_disturbing = attrgetter(*(path for kind in FaultKind if Excuse.PAUSE in kind.row.excuses for path in paths_of(kind)))


def answer_ms_max(plan: Plan) -> int | None:
    """Return the time limit for a put, pauses not counted; None if the plan makes the disk fail or slow.

    Each earlier put and each new segment may need a few syncs. `segment_ms_max` covers puts that overtake.
    """
    return None if may_slow_operations(plan) else calm_answer_ms_max(plan)


def calm_answer_ms_max(plan: Plan) -> int:
    """Return the time limit for a put while the disk has no faults, even if the plan has faults at other times."""
    return _MOMENT_MS + plan.sync_ms_max * 8 * (plan.producers + 1) + _warm_up_ms_max(plan) + _slave_ms_max(plan)


def is_calm(plan: Plan) -> bool:
    return not may_slow_operations(plan) and not may_disturb(plan)


def start_ms_max(plan: Plan) -> int:
    """Return the time limit from recovery until the services run, or for the creation of a file."""
    return _MOMENT_MS + plan.sync_ms_max * _SYNCS_PER_FILE * _OTHER_FILES


def _warm_up_ms_max(plan: Plan) -> int:
    """Return the time of the syncs while two new segments are touched page by page."""
    if not plan.memory.warm_files:
        return 0
    synced_bytes = plan.settings.flush_least_pages_when_warm_mapped_file * PAGE_BYTES
    return plan.sync_ms_max * _SEGMENTS_AHEAD * (plan.commit_log_bytes // synced_bytes)


def _slave_ms_max(plan: Plan) -> int:
    return plan.cluster.slave_timeout_ms if plan.cluster.sync_master else 0


def may_slow_operations(plan: Plan) -> bool:
    return plan.memory.error_chance > 0 or plan.forced_branch_chance > 0 or any(_slowing_chances(plan.faults))


def may_disturb(plan: Plan) -> bool:
    return any(_disturbing(plan))


def clock_ms_max(plan: Plan) -> int:
    """Return how long a step back of the wall clock may delay a step of the store."""
    disturbances = plan.disturbances
    steps_ms = _STEPS_BACK_MAX * disturbances.clock_step_ms_max if disturbances.clock_step_chance else 0
    return steps_ms + max(-disturbances.last_clock_step_ms, 0)


def work_ms_max(plan: Plan, store: MessageStore) -> int:
    """Return how long a store without faults may need to sync all of its files."""
    queues = store.queues.all_queues()
    files = len(store.log.segments) + sum(len(queue.queue.segments) for queue in queues)
    files += sum(len(queue.ext.queue.segments) for queue in queues if queue.ext is not None)
    files += 0 if store.index is None else len(store.index.table.files)
    return _MOMENT_MS + plan.sync_ms_max * _SYNCS_PER_FILE * (files + _OTHER_FILES)


def commit_ms_max(plan: Plan) -> int:
    """Return how long a record may be in the write buffer, where readers cannot see it."""
    return plan.settings.commit_commit_log_thorough_interval_ms + plan.settings.commit_interval_commit_log_ms


def buffered_copies_ms_max(plan: Plan) -> int:
    """Return how long the check of transactions waits at a stop, until the half messages that it put back are in the
    log."""
    return commit_ms_max(plan) if plan.may_use_transient_pool and plan.transactions.chance else 0


def delivery_ms_max(plan: Plan) -> int:
    """Return the limit for the lateness of a delayed message's copy, without the time for other puts.

    Delivery starts, reads the queue entry, and puts the copy like any message.
    """
    return calm_answer_ms_max(plan) + start_ms_max(plan)


def hidden_ms_max(plan: Plan) -> int:
    """Return how long a delayed message may stay in the write buffer after its delay, where delivery cannot see it."""
    return max(commit_ms_max(plan) - min(DELAYS_MS.values()), 0) if plan.may_use_transient_pool else 0


def held_up_ms_max(plan: Plan) -> int:
    slow_ms = pauses_ms_max(plan)
    return ALLOCATE_WAIT_MS + slow_ms if slow_ms else 0


def paused_ms_max(plan: Plan) -> int:
    disturbances = plan.disturbances
    return disturbances.paused_task_ms_max if disturbances.paused_task_chance else 0


def pauses_ms_max(plan: Plan) -> int:
    faults, disturbances = plan.faults, plan.disturbances
    return int(
        (faults.slow_sync_chance and faults.slow_sync_ms_max)
        + 10 * (max(faults.slow_io_chance, faults.slow_page_in_chance) and faults.slow_io_ms_max)
        + 3 * (faults.stall_chance and faults.stall_ms_max)
        + 3 * (disturbances.paused_task_chance and disturbances.paused_task_ms_max)
        + 3 * (disturbances.paused_machine_chance and disturbances.paused_machine_ms_max)
    )


def request_ms_max(plan: Plan) -> int:
    """Return the time limit for a request, in addition to the time for which the broker holds it."""
    return pauses_ms_max(plan) + _REQUEST_MS


def delivery_of_request_ms_max(plan: Plan) -> int:
    """Return the time limit for a request or the end of a connection to take effect on a network without partitions."""
    network = plan.network
    late_ms = 2 * network.late_ms_max if network.late_chance else 0
    return pauses_ms_max(plan) + late_ms + undelayed_request_ms_max(plan)


def undelayed_request_ms_max(plan: Plan) -> int:
    """Return the time limit for a request without pauses, faults of the disk and late deliveries."""
    return _REQUEST_MS + 4 * plan.network.latency_us_max // 1_000


def overtaken_ms_max(plan: Plan) -> int:
    """Return the additional delay of a check request for each half message that the store puts back before it.

    Such a put may need a new segment, with a sync for the file and one for its name.
    """
    return 2 * segment_ms_max(plan)


def segment_ms_max(plan: Plan) -> int:
    """Return the additional delay of a put for each new segment of the log.

    The put lock is not fair, so delayed messages and half messages that the store puts back may overtake. Some need a
    segment.
    """
    return plan.sync_ms_max * _SYNCS_PER_FILE


def check_time(summary: str, took_ms: int, limit_ms: int, field: str = "answer time") -> Iterator[Violation]:
    """Yield a time over its limit."""
    record_tried("LIVE")
    if took_ms > limit_ms:
        yield Violation("LIVE", summary, "", -1, field, f"<= {limit_ms} ms", f"{took_ms} ms")


def check_answer_time(limit_ms: int | None, put: PutEntry, more_ms: int = 0) -> Iterator[Violation]:
    if limit_ms is not None and put.answered_ns is not None:
        took_ms = (put.answered_ns - put.asked_ns) // 1_000_000
        yield from check_time(f"{put.name} waited too long without a fault", took_ms, limit_ms + more_ms)


def check_flush_wait(plan: Plan, put: PutEntry, result: PutMessageResult, now_ms: int) -> Iterator[Violation]:
    """Yield a violation if a put, just answered, waited for its flush longer than the timeout, also on a slow disk.

    Runs with clock steps are not checked, and neither are puts that open a segment, because they wait twice.
    now_ms: the wall clock without pauses.
    """
    append = result.append
    if append is None or not put.wait or not plan.sync_flush or plan.disturbances.clock_step_chance:
        return
    if append.wrote_offset % plan.commit_log_bytes:
        limit_ms = plan.flush.sync_timeout_ms + _slave_ms_max(plan) + _MOMENT_MS
        summary = f"{put.name} waited for its flush beyond syncFlushTimeout"
        yield from check_time(summary, now_ms - append.store_timestamp_ms, limit_ms)


def check_left_over_put(plan: Plan, put: PutEntry, stopped_ns: int) -> Iterator[Violation]:
    """Yield a violation if a put, just answered, waited too long after the store had stopped.

    stopped_ns: the end of the stop. No pause began after the stop, but an earlier pause may have continued.
    """
    if may_slow_operations(plan) or put.answered_ns is None or put.asked_ns >= stopped_ns:
        return
    limit_ms = paused_ms_max(plan) + _MOMENT_MS + plan.sync_ms_max * 8 * (plan.producers + 1)
    summary = f"{put.name} was left waiting by a stopped store"
    yield from check_time(summary, (put.answered_ns - stopped_ns) // 1_000_000, limit_ms)


def check_waiting(plan: Plan, asked_ns: Iterable[int], now_ns: int) -> Iterator[Violation]:
    """Yield each send that a broker leaves unanswered for longer than any disk or slave may take.

    asked_ns: the times of unanswered sends. now_ns: a time at which the broker was running.
    """
    limit_ms = plan.flush.sync_timeout_ms + plan.cluster.slave_timeout_ms + request_ms_max(plan)
    for each_ns in asked_ns:
        yield from check_time("a send is not answered", (now_ns - each_ns) // 1_000_000, limit_ms)


def check_send_time(plan: Plan, waited_ms: int, made: int, paused_ms: int) -> Iterator[Violation]:
    """Yield a send that waited for its flush or a slave longer than a disk without faults permits.

    waited_ms: since the broker began to process the send. made: new segments since then. paused_ms: pauses since then.
    """
    limit_ms = answer_ms_max(plan)
    if limit_ms is None or plan.capacity_bytes:
        return
    # Other services of the broker write their files meanwhile, as a store does at its start.
    limit_ms += start_ms_max(plan) + made * segment_ms_max(plan) + paused_ms
    yield from check_time("a send is answered late", waited_ms, limit_ms)


def check_queued_requests(
    plan: Plan, queued: Iterable[tuple[str, int]], now_ns: int, paused_ns: Callable[[int], int]
) -> Iterator[Violation]:
    """Yield each kind of request that waits too long for a task, although the disk is not slow.

    queued: the name of a pool, and the arrival of its oldest request in its queue. paused_ns: returns the duration of
    all pauses since a time. Several requests before it may each wait for a paused task.
    """
    if may_slow_operations(plan) or plan.capacity_bytes:
        return
    limit_ms = plan.flush.sync_timeout_ms + plan.cluster.slave_timeout_ms + _REQUEST_MS
    for name, arrived_ns in queued:
        waited_ms, paused_ms = (now_ns - arrived_ns) // 1_000_000, -(-paused_ns(arrived_ns) // 1_000_000)
        yield from check_time(f"a request of {name} gets no task", waited_ms, limit_ms + paused_ms, "wait in queue")


def check_held_until(plan: Plan, pulls: Iterable[tuple[int, int]], now_ns: int) -> Iterator[Violation]:
    """Yield each pull that a broker has not answered although its hold time is over.

    pulls: arrivals in ns, with hold times in ms. now_ns: a time at which the broker was running.
    """
    for asked_ns, hold_ms in pulls:
        waited_ms = (now_ns - asked_ns) // 1_000_000
        yield from check_time("a held pull is not answered", waited_ms, hold_ms + request_ms_max(plan), "hold time")


def check_still_held(store: MessageStore, pulls: Iterable["HeldPull"], now_ns: int) -> Iterator[Violation]:
    """Yield each pull that ended without an answer, although it has time left and its queue has no message for it.

    pulls: the pulls of an open connection that a broker has held, and neither holds now nor has answered.
    """
    for pull in pulls:
        record_tried("LIVE")
        queue = store.queues.find(*pull.queue)
        if now_ns < pull.due_ns and (queue is None or queue.max_offset <= pull.offset):
            summary = f"a pull of {pull.queue[0]}/{pull.queue[1]} is neither held nor answered"
            yield Violation("LIVE", summary, "", -1, "hold time", f"until {pull.due_ns} ns", f"ended by {now_ns} ns")


def violation_of_time_out(timeout_ms: int, error: OSError) -> Iterator[Violation]:
    """Yield a client's request that timed out after the last fault."""
    record_tried("LIVE")
    if isinstance(error, TimeoutError):
        summary = f"a request of a client is not answered in {timeout_ms} ms"
        yield Violation("LIVE", summary, field="answer", expected="one", found=str(error))


def check_held_pull(store: MessageStore, pull: "HeldPull") -> Iterator[Violation]:
    """Yield a pull that a master holds although it has dispatched a message for the pull.

    Dispatch wakes the held pulls once per record, before the next record. The check is atomic, reads no records, and
    yields no violation if the disk cannot be read. While long polling is off, nothing wakes a pull.
    """
    queue, config = store.queues.find(*pull.queue), store.config
    wakes_pulls = config.long_polling_enable and config.broker_role is not BrokerRole.SLAVE
    if queue is None or pull.wanted.reads_records or not wakes_pulls:
        return
    record_tried("LIVE")
    done_to = store.dispatch.reput_from.get()
    for queue_offset in range(pull.offset, queue.max_offset):
        try:
            entry = queue.entry(queue_offset)
            if entry is None or entry.physical_offset >= done_to:
                continue
            unit = queue.ext_unit_at(entry.tags_code)
        except OSError:
            return
        if unit is None and is_ext_address(entry.tags_code):
            continue  # only dispatch has read the tags
        if not pull.wanted.matches_queue(entry.tags_code if unit is None else unit.tags_code, unit):
            continue
        summary = f"a pull of {pull.queue[0]}/{pull.queue[1]} is held although there is a message for it"
        expected, found = "answered", f"held, and its message {queue_offset} announced"
        yield Violation("LIVE", summary, "", -1, "pull", expected, found)
        return


def check_held_count(plan: Plan, held_count: int, of_client_count: int) -> Iterator[Violation]:
    """Yield a broker that holds more pulls, of all clients or of one, than its settings allow."""
    record_tried("LIVE")
    settings = plan.broker_settings
    for found, most in ((held_count, settings.held_pulls_max), (of_client_count, settings.held_pulls_of_client_max)):
        if found > most:
            yield Violation("LIVE", "a broker holds too many pulls", "", -1, "held pulls", f"<= {most}", str(found))


def check_requests_of_host(plan: Plan, host: str, count: int) -> Iterator[Violation]:
    """Yield a host that keeps more tasks of a pool busy than it may, so that it may hold up all other hosts."""
    record_tried("LIVE")
    most = plan.broker.tasks_of_host_max
    if count > most:
        summary = f"a broker serves too many requests of {host} at once"
        yield Violation("LIVE", summary, "", -1, "requests", f"<= {most}", str(count))


def check_members(plan: Plan, ended_ns: Iterable[int], now_ns: int) -> Iterator[Violation]:
    """Yield each member of a broker's groups that remains too long after its connection has ended.

    ended_ns: when the broker had handled the end of each connection. A late heartbeat may have added a member since.
    """
    limit_ms = request_ms_max(plan)
    for each_ns in ended_ns:
        summary = "a client is a member although its connection has ended"
        yield from check_time(summary, (now_ns - each_ns) // 1_000_000, limit_ms, "members")


def check_pending_requests(
    plan: Plan, pending: Iterable[tuple[str, int, int]], now_ns: int, limit_ms: int | None = None
) -> Iterator[Violation]:
    """Yield each client of a broker with requests that count as pending although they must have ended.

    pending: the address of a client, the counted bytes, and the time of its last traffic. limit_ms: the time after it,
    by default the longest that a disk, a slave and pauses permit.
    """
    if limit_ms is None:
        limit_ms = plan.flush.sync_timeout_ms + plan.cluster.slave_timeout_ms + request_ms_max(plan)
    for address, counted_bytes, since_ns in pending:
        record_tried("LIVE")
        since_ms = (now_ns - since_ns) // 1_000_000
        if counted_bytes and since_ms >= limit_ms:
            summary = f"requests of {address} that have ended count as pending"
            expected, found = f"0 bytes after {limit_ms} ms", f"{counted_bytes} bytes after {since_ms} ms"
            yield Violation("LIVE", summary, "", -1, "pending requests", expected, found)
