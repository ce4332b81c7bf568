"""STATUS: each answer to a put is true when it is sent, and a store that must refuse puts refuses them.

OK under SYNC_FLUSH means that every byte is durable on the simulated disk. A timeout means that the time had passed, or
that a sync failed. An error needs a fault as a reason. The store refuses puts permanently only after an error other
than a full disk. Dispatch gives up only after repeated errors.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ....faults.disk.disk import Disk
from ....sim.machine import Machine
from ....store.errors import StoreNotReadableError
from ....store.formats.messages import PutMessageResult, PutMessageStatus
from ....store.log.allocate import WAIT_MS as ALLOCATE_WAIT_MS
from ....store.log.segment import Segment
from ....store.log.transient_pool import BufferedSegment
from ....store.message_store import MessageStore
from ....store.running_flags import RefusalReason
from ...claims.plan import Plan
from .. import allowances
from ..disk_space import DiskRoom
from ..evidence import Violation, error_text, record_tried, refusals_until_restart
from ..ledger import Ledger
from ..light_places import LIGHT_PREFIX
from ..put_entry import PROPERTIES_MAX, TOPIC_MAX, PutEntry
from . import live

LOOK_MS_MAX = 15_000
"""The time limit for a store to notice free space: an interval, and a retention pass."""
_LENGTH_BYTES = 4
_UNUSED_TOPIC = "nobody's"


def check_put_status(
    plan: Plan,
    store: MessageStore,
    disk: Disk,
    put: PutEntry,
    result: PutMessageResult,
    *,
    refusal: PutMessageStatus | None,
    room: DiskRoom | None = None,
    expired_to: int = 0,
    stopping: bool = False,
) -> Sequence[Violation]:
    """Return the violations in one answer to a put, when it is sent.

    refusal: the required refusal, None for a message that can be stored. room: the capacity of a limited disk.
    expired_to: log offset before which segments may be removed; CLEAN has checked that they were durable. stopping:
    whether a stop has begun.
    """
    record_tried("STATUS")
    status = result.status
    if refusal is not None and result.is_stored:
        return _stored_violation(put, refusal, status)
    if untrue := check_refusal(put, refusal, status, plan):
        return untrue
    if status is PutMessageStatus.PUT_OK:
        append = result.append
        if append is None:
            return _wrong_status_violation(put, "answered OK without an offset", "a physical offset", status)
        must_be_durable = plan.sync_flush and put.wait and append.wrote_offset >= expired_to
        if must_be_durable and not _is_durable(store, disk, append.wrote_offset, append.wrote_bytes):
            return (_answer_too_early(put.name, append.wrote_offset),)
    elif status is PutMessageStatus.FLUSH_DISK_TIMEOUT or (
        status is PutMessageStatus.FLUSH_SLAVE_TIMEOUT and plan.cluster.sync_master
    ):
        return _early_time_out(plan, disk, put.name, status, _waited_ms(put), stopping=stopping)
    elif status is PutMessageStatus.SLAVE_NOT_AVAILABLE and plan.cluster.sync_master:
        return ()  # a master knows the state of its slaves
    elif status.is_final:
        if status is not refusal:
            expected = "PUT_OK" if refusal is None else refusal.value
            summary = "a message was refused with a wrong status"
            return _wrong_status_violation(put, summary, expected, status, put.refused_because)
    elif status is PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED and put.light_names:
        return ()  # `check_light_limit` checks the limit
    elif _is_excused(status, disk, stopping=stopping):
        return ()
    elif room is not None and _is_explained_by_full_disk(status, put, room):
        return ()  # the disk was full, or the store has not noticed the free space
    elif status is PutMessageStatus.CREATE_MAPEDFILE_FAILED and _needs_buffer(plan):
        return ()  # no write buffer was free
    elif status is PutMessageStatus.CREATE_MAPEDFILE_FAILED and allowances.count_delays(disk, plan):
        if _waited_ms(put) < ALLOCATE_WAIT_MS:
            summary = f"no segment after {_waited_ms(put)} ms"
            return _wrong_status_violation(put, summary, f"{ALLOCATE_WAIT_MS} ms", status)
    elif status is PutMessageStatus.OS_PAGECACHE_BUSY and allowances.count_delays(disk, plan):
        return ()  # an earlier put waits for a segment on the slow disk
    else:
        return _wrong_status_violation(put, "refused without a reason", "PUT_OK", status)
    return ()


def check_light_limit(ledger: Ledger, put: PutEntry, queues_max: int) -> Iterator[Violation]:
    """Yield a put that created more light queues than allowed, or was refused although there could not be so many.

    Only queues with the prefix count. Answered puts have created their queues, other puts may have done so. A queue may
    survive a crash without the messages.
    """
    record_tried("STATUS")
    created, possible, wanted = set[str](), set[str](), _limited_names(put)
    exceeded = PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED
    for each in ledger.puts:
        names = () if each is put or each.status is exceeded else _limited_names(each)
        possible.update(names)
        is_answered = each.physical_offset is not None and (each.answered_ns or put.asked_ns) < put.asked_ns
        if is_answered and each.name not in ledger.lost_puts:
            created.update(names)
    was_refused = put.status is exceeded
    if was_refused and (wanted <= created or len(possible | wanted) <= queues_max):
        summary, found = "a message was refused because of its light queues", f"{len(created)}, and {sorted(wanted)}"
        yield Violation("STATUS", summary, field="light queues", expected=f"more than {queues_max}", found=found)
    elif put.physical_offset is not None and wanted - created and len(created | wanted) > queues_max:
        summary, found = "a message created too many light queues", str(len(created | wanted))
        yield Violation("STATUS", summary, field="light queues", expected=f"at most {queues_max}", found=found)


def _limited_names(put: PutEntry) -> set[str]:
    return {name for name in put.light_names if name.startswith(LIGHT_PREFIX)}


class Allocation(NamedTuple):
    """The allocation of the log's next segment."""

    made: Segment | None
    """The next segment, if it was made ahead."""
    failure: tuple[str, int, OSError] | None
    """The last failed attempt, if none has begun since."""


def allocation_of(store: MessageStore) -> Allocation:
    last, service = store.log.last_segment(), store.allocate
    end_offset = 0 if last is None else last.end_offset
    made = next((each for each in service.unused_segments if each.base_offset == end_offset), None)
    return Allocation(made, service.failure if service.is_idle else None)


def check_allocation(
    plan: Plan, store: MessageStore, put: PutEntry, status: PutMessageStatus, before: Allocation | None
) -> Sequence[Violation]:
    """Return a violation if a put got no segment although the next one was there, or none was tried for it.

    before: the state at the request. An earlier error, or one with a later segment, is no reason.
    """
    if status is not PutMessageStatus.CREATE_MAPEDFILE_FAILED or before is None or _needs_buffer(plan):
        return ()
    record_tried("STATUS")
    if before.made is not None and allocation_of(store).made is before.made:
        return _wrong_status_violation(put, "no segment, although the next one exists", "PUT_OK", status)
    was_tried = before.failure is None or store.allocate.failure is not before.failure
    if not was_tried and _waited_ms(put) < ALLOCATE_WAIT_MS:
        return _wrong_status_violation(put, "no segment, because an earlier attempt failed", "an attempt", status)
    return ()


def _needs_buffer(plan: Plan) -> bool:
    return plan.may_use_transient_pool and plan.settings.fast_fail_if_no_buffer_in_store_pool


def check_refusal(
    put: PutEntry, refusal: PutMessageStatus | None, status: PutMessageStatus, plan: Plan | None = None
) -> Sequence[Violation]:
    """Check that no invalid message is stored, and no valid message is refused with a final status.

    plan: the limits to name in a violation.
    """
    record_tried("STATUS")
    if refusal is not None and status is PutMessageStatus.PUT_OK:
        return _stored_violation(put, refusal, status)
    if refusal is None and status.is_final and status is not PutMessageStatus.PUT_OK:
        return _wrong_status_violation(put, "a valid message was refused", "PUT_OK", status, _sizes_text(put, plan))
    return ()


def _sizes_text(put: PutEntry, plan: Plan | None) -> str:
    """Describe the sizes of a put that a store must take, with their limits."""
    body_max = plan.messages.limit_bytes if plan is not None else 0
    room = f" in a segment of {plan.commit_log_bytes}" if plan is not None else ""
    return (
        f"topic {len(put.topic.encode())} of at most {TOPIC_MAX} bytes, properties {len(put.properties)} of at most"
        f" {PROPERTIES_MAX}, body {len(put.body)}{f' of at most {body_max}' if body_max else ''},"
        f" record {put.record_bytes}{room}; reconsumeTimes {put.content.reconsume_times}"
    )


def check_response(
    plan: Plan,
    store: MessageStore,
    disk: Disk,
    status: PutMessageStatus,
    log_offsets: Iterable[int],
    waited_ms: int,
    *,
    expired_to: int,
) -> Iterator[Violation]:
    record_tried("STATUS")
    if status is PutMessageStatus.PUT_OK and plan.sync_flush:
        for log_offset in log_offsets:
            if log_offset >= expired_to and not _is_durable(store, disk, log_offset, _size_at(store, log_offset)):
                yield _answer_too_early("a send", log_offset)
    elif status in (PutMessageStatus.FLUSH_DISK_TIMEOUT, PutMessageStatus.FLUSH_SLAVE_TIMEOUT):
        yield from _early_time_out(plan, disk, "a send", status, waited_ms)


def check_refused_send(plan: Plan, store: MessageStore, disk: Disk, status: PutMessageStatus) -> Iterator[Violation]:
    """Yield a violation if a running broker refuses a valid send without a delay or a stop as a reason.

    UNKNOWN_ERROR stands for SYSTEM_ERROR. An operator may change the queues of a topic.
    """
    record_tried("STATUS")
    judged = {PutMessageStatus.OS_PAGECACHE_BUSY, PutMessageStatus.SERVICE_NOT_AVAILABLE}
    if not plan.broker.operators and not _needs_buffer(plan):
        judged.add(PutMessageStatus.UNKNOWN_ERROR)
    if not plan.cluster.sync_master:
        judged.add(PutMessageStatus.SLAVE_NOT_AVAILABLE)
    if status not in judged:
        return
    has_reason = allowances.count_errors(disk) or allowances.count_out_of_space(disk) or plan.capacity_bytes
    if has_reason or not live.is_calm(plan) or not store.is_accepting:
        return
    yield Violation("STATUS", "a send was refused without a reason", "", -1, "status", "PUT_OK", status.value)


def check_begin_of_sends(began_ms: int, before_ms: int, after_ms: int, *, is_done: bool) -> Iterator[Violation]:
    """Yield a send that a broker answers against startAcceptSendRequestTimeStamp.

    began_ms: the setting. before_ms, after_ms: the wall clock before and after the broker processed the send. is_done:
    whether it executed the send; False: it refused the send because of the time.
    """
    record_tried("STATUS")
    if (is_done and max(before_ms, after_ms) < began_ms) or (not is_done and min(before_ms, after_ms) >= began_ms):
        found = f"{'executed' if is_done else 'refused'} at {after_ms}"
        summary = "the answer to a send contradicts startAcceptSendRequestTimeStamp"
        yield Violation("STATUS", summary, "", -1, "answer", f"executed from {began_ms} on", found)


def check_unmatched(server: str, code: int) -> Iterator[Violation]:
    """Yield a response that a client received without an open request of its number on the connection.

    A client would take it as the answer to another request with the same number.
    """
    record_tried("STATUS")
    summary = f"{server} sends a response without an open request"
    yield Violation("STATUS", summary, field="opaque", expected="of a request without an answer", found=f"code {code}")


def check_busy_state(store: MessageStore) -> Sequence[Violation]:
    """Return a violation if the busy state of a store contradicts the age of its put lock."""
    begin_ms = store.commit_log.begin_time_in_lock_ms
    held_ms = store.world.clock.now_ms() - begin_ms if begin_ms else 0
    is_busy = held_ms > store.config.os_page_cache_busy_time_out_ms
    if store.is_os_page_cache_busy == is_busy:
        return ()
    summary = f"a put has held the lock for {held_ms} ms"
    expected, found = ("busy", "not busy") if is_busy else ("not busy", "busy")
    return (Violation("STATUS", summary, "", -1, "page cache", expected, found),)


def check_full_disk_refused(store: MessageStore) -> Sequence[Violation]:
    """The caller knows that the disk was too full for longer than LOOK_MS_MAX, so puts must be refused."""
    if not store.flags.is_writeable:
        return ()
    summary = "puts are accepted although the disk is too full"
    return (Violation("STATUS", summary, "", -1, "flags", "DISK_FULL", "writeable"),)


def check_room_accepted(store: MessageStore) -> Sequence[Violation]:
    """The caller knows that the disk had free space for longer than LOOK_MS_MAX, so puts must be accepted."""
    record_tried("STATUS")
    if not store.flags.bits & RefusalReason.DISK_FULL:
        return ()
    summary = "puts are refused although the disk has space again"
    return (Violation("STATUS", summary, "", -1, "flags", "writeable", "DISK_FULL"),)


def check_disk_refusal(store: MessageStore, disk: Disk) -> Iterator[Violation]:
    """Yield a violation if puts are refused because of a full disk, but the disk never lacked space."""
    record_tried("STATUS")
    lacked_space = disk.was_limited or allowances.count_out_of_space(disk)
    if store.flags.bits & RefusalReason.DISK_FULL and not lacked_space:
        summary = "puts are refused for a full disk although the disk never lacked space"
        yield Violation("STATUS", summary, "", -1, "flags", "without DISK_FULL", "DISK_FULL")


def check_permanent_refusal(store: MessageStore, disk: Disk) -> Iterator[Violation]:
    record_tried("STATUS")
    if store.flags.has_failed and not allowances.count_errors(disk) and not disk.damage:
        reasons = str(RefusalReason(store.flags.bits))
        yield Violation("STATUS", "puts stay refused without an error", "", -1, "flags", "writeable", reasons)
    given_up = store.flags.bits & RefusalReason.WRITE_LOGICS_QUEUE_ERROR
    if given_up and not allowances.needs_restart(disk) and not disk.damage:
        # Each attempt to put fails by chance. About thirty attempts in a row never all fail.
        summary, last = "dispatch gave up although all of its errors could pass", store.dispatch.last_error
        found = "set" if last is None else f"set; last error: {error_text(last)}"
        count = refusals_until_restart(store).get(RefusalReason.WRITE_LOGICS_QUEUE_ERROR, "")
        yield Violation("STATUS", summary, "", -1, "flags", "without WRITE_LOGICS_QUEUE_ERROR", found, count)


def check_stopped_store(store: MessageStore, disk: Disk, machine: Machine) -> Iterator[Violation]:
    """Yield a violation if a cleanly stopped store has an abort file, answers a request, or has a file mapped.

    The abort file would cause a needless recovery. An answer would read closed memory-mapped files.
    """
    record_tried("STATUS")
    marker = store.config.abort_path
    with disk.with_faults(failed_lookup_chance=0.0):  # the check's look-ups must not fail
        if store.world.files.status(marker) is not None:
            yield Violation("STATUS", "a clean stop left the abort file", marker, 0, "file", "none", "there")
    for path in disk.mapped_paths(machine):
        yield Violation("STATUS", "a clean stop left a file mapped", path, 0, "map", "none", "there")
    yield from check_lent_buffers(store)
    try:
        result = store.get_message(_UNUSED_TOPIC, 0, 0)  # reads no memory-mapped file
    except StoreNotReadableError:
        return
    summary = "a stopped store still answers"
    yield Violation("READ", summary, "", -1, "answer", "StoreNotReadableError", result.status.value)


def check_lent_buffers(store: MessageStore) -> Iterator[Violation]:
    """Yield a violation if the transient pool has lent a buffer that no segment holds. No put or allocation may run."""
    if store.pool is None:
        return
    segments = (*store.log.segments, *store.allocate.unused_segments)
    held = sum(isinstance(segment, BufferedSegment) and segment.holds_buffer for segment in segments)
    if store.pool.lent_count != held:
        summary, found = "a buffer of the transient pool belongs to no segment", str(store.pool.lent_count)
        yield Violation("STATUS", summary, "", -1, "lent buffers", str(held), found)


def _is_excused(status: PutMessageStatus, disk: Disk, *, stopping: bool) -> bool:
    if status is PutMessageStatus.SERVICE_NOT_AVAILABLE:
        return stopping or allowances.count_errors(disk) > 0
    if status is PutMessageStatus.CREATE_MAPEDFILE_FAILED and allowances.count_out_of_space(disk):
        return True
    return allowances.count_errors(disk) > disk.injected["failed write"]


def _is_explained_by_full_disk(status: PutMessageStatus, put: PutEntry, room: DiskRoom) -> bool:
    """A full disk may cause a refusal until the store measures the disk again."""
    if status is PutMessageStatus.SERVICE_NOT_AVAILABLE:
        return room.was_limited(put.asked_ns, LOOK_MS_MAX * 1_000_000)
    return status is PutMessageStatus.CREATE_MAPEDFILE_FAILED and room.was_limited(put.asked_ns)


def _waited_ms(put: PutEntry) -> int:
    assert put.answered_ns is not None, put.name
    return (put.answered_ns - put.asked_ns) // 1_000_000


def _is_durable(store: MessageStore, disk: Disk, log_offset: int, size_bytes: int) -> bool:
    segment = store.log.find(log_offset)
    if segment is None:
        return False
    start = log_offset - segment.base_offset
    return disk.is_durable(segment.file.path, start, start + size_bytes)


def _size_at(store: MessageStore, log_offset: int) -> int:
    segment = store.log.find(log_offset)
    if segment is None:
        return 0
    start = log_offset - segment.base_offset
    return int.from_bytes(segment.file.view(start, start + _LENGTH_BYTES), "big")


def _answer_too_early(name: str, log_offset: int) -> Violation:
    summary = f"{name} was answered OK before it was durable"
    return Violation("STATUS", summary, "commitlog", log_offset, "answer", "after the sync", "before it")


def _early_time_out(
    plan: Plan, disk: Disk, name: str, status: PutMessageStatus, waited_ms: int, *, stopping: bool = False
) -> Sequence[Violation]:
    """A failed sync permits an early disk timeout; a stop permits an early slave timeout."""
    limit_ms, excused = plan.cluster.slave_timeout_ms, stopping
    if status is PutMessageStatus.FLUSH_DISK_TIMEOUT:
        limit_ms, excused = plan.flush.sync_timeout_ms, allowances.count_sync_errors(disk) > 0
    if waited_ms >= limit_ms or excused:
        return ()
    summary, expected = f"{name}: timed out after {waited_ms} ms", f"{status.value} after {limit_ms} ms"
    return (Violation("STATUS", summary, "", -1, "status", expected, f"{status.value} after {waited_ms} ms"),)


def _stored_violation(put: PutEntry, refusal: PutMessageStatus, status: PutMessageStatus) -> Sequence[Violation]:
    summary = "a message that no record can hold was stored"
    return _wrong_status_violation(put, summary, refusal.value, status, f"to be refused: {put.refused_because}")


def _wrong_status_violation(
    put: PutEntry, summary: str, expected: str, status: PutMessageStatus, detail: str = ""
) -> Sequence[Violation]:
    return (Violation("STATUS", f"{put.name}: {summary}", "", -1, "status", expected, status.value, detail),)
