"""REP: a slave's log equals its master's log and has all data that the slave acknowledged.

The logs are compared byte for byte, from the slave's first byte on. A slave diverges if its master lost data that the
slave has, or has other data at the same offset. A diverged slave must report the divergence and change no file; any
other slave must continue. Only a slave with ASYNC_FLUSH that loses power may lose reported bytes.

`oracle.replica_streams` judges the connections between both. The answers of a SYNC_MASTER must agree with the reports
that it had received.

Zeros in a record's times and hosts are not checked, because recovery cannot notice them. Other invariants check the
slave's queues.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ....faults.disk.disk import Disk
from ....store.config import FlushDiskType
from ....store.formats.message import BLANK_BYTES, encode_blank
from ....store.formats.messages import PutMessageResult, PutMessageStatus
from ....store.formats.replication import FrameHeader
from ....store.log.group_transfer import GroupTransfer
from ....store.message_store import MessageStore
from ....store.replication.ha_client import RECONNECT_MS
from ..evidence import Violation, record_tried
from ..ledger import Ledger
from ..put_entry import ProducerKnowledge
from ..recovered import RecoveredStore
from ..replica_streams import MasterEnd
from ..replicas import AnsweredPut, MasterHistory, Replicas, ReportedRange, common_bytes, log_bytes, whole_log

if TYPE_CHECKING:
    from ....store.broker.versioned_table import VersionedTable

_broken = partial(Violation, "REP")
_NS_PER_MS = 1_000_000


def check_slave_acknowledged(
    master: MessageStore, history: MasterHistory, replicas: Replicas, put: AnsweredPut, result: PutMessageResult
) -> Sequence[Violation]:
    """Return a put that a SYNC_MASTER answered OK although no slave has reported the put's bytes.

    A failed fsync may have reverted the bytes on the master while a slave's report was in flight.
    """
    if result.status is not PutMessageStatus.PUT_OK or not put.wait or result.append is None:
        return ()
    record_tried("REP")
    start = result.append.wrote_offset
    wanted = history.sent_log_bytes(start, result.append.wrote_bytes)
    if start < max(master.log.min_offset, 0):
        return ()  # retention has removed the record
    was_sent = len(wanted) == result.append.wrote_bytes  # otherwise any slave has the sent part
    if was_sent and replicas.has_been_reported(start, wanted):
        return ()
    summary = f"{put.name} was answered OK, but no slave has it"
    return (_broken(summary, "commitlog", start, "replica", put.name, "none"),)


def check_slave_wait(
    put: AnsweredPut,
    result: PutMessageResult,
    ends: Sequence[MasterEnd],
    fallbehind_max: int,
    late_ns: int,
    work_ns: int,
    waits_since_ns: int,
) -> Iterator[Violation]:
    """Yield an answer of a SYNC_MASTER that its connections with slaves contradict, when it is given.

    ends: all connections since the master's start. fallbehind_max: haSlaveFallbehindMax. late_ns: for how long the
    master may not have handled a report or an end. work_ns: the time for the syncs of a put.
    waits_since_ns: when the put began to wait. A later report answers it, also if the connection closes afterwards.
    """
    append, status = result.append, result.status
    if append is None or not put.wait or put.answered_ns is None:
        return
    record_tried("REP")
    start, end = append.wrote_offset, append.wrote_offset + append.wrote_bytes
    asked_ns, now_ns, summary = put.asked_ns - late_ns, put.answered_ns, ""
    confirmed_ns = [at_ns for each in ends if (at_ns := each.confirmed_ns(start, end)) is not None]
    open_ends = [each for each in ends if each.closed_ns is None and each.is_replica]
    if status is PutMessageStatus.PUT_OK:
        if not confirmed_ns:
            summary, expected = "no slave confirmed it", "sent, then reported, on one connection"
        elif now_ns - max(min(confirmed_ns), asked_ns) > late_ns + work_ns:
            summary, expected = "long after a slave confirmed it", f"at {min(confirmed_ns) / _NS_PER_MS:g} ms"
    elif status is PutMessageStatus.FLUSH_SLAVE_TIMEOUT:
        heard = [
            each for each in ends if each.is_replica and (each.closed_ns is None or each.closed_ns > waits_since_ns)
        ]
        known = [at_ns for each in heard if (at_ns := each.confirmed_ns(start, end)) is not None]
        if known and min(known) < now_ns - late_ns:
            summary, expected = "a slave confirmed it", "PUT_OK"
    elif status is PutMessageStatus.SLAVE_NOT_AVAILABLE:
        offsets = [each.reported_offset(asked_ns - 1) for each in open_ends if not each.may_close]
        if any(0 <= end - offset < fallbehind_max for offset in offsets if offset >= 0):
            summary, expected = "a slave was close enough to wait for", "PUT_OK or FLUSH_SLAVE_TIMEOUT"
    if summary:
        summary = f"{put.name} was answered {status.value}, but {summary}"
        yield _broken(summary, "commitlog", start, "status", expected, status.value)


def check_near_slave(
    end: int, ends: Iterable[MasterEnd], fallbehind_max: int, since_ns: int, now_ns: int
) -> Iterator[Violation]:
    """Yield a put that begins to wait although every slave lags haSlaveFallbehindMax or more.

    end: the log offset after the put. since_ns, now_ns: while the master compared the lags. A master may know older
    reports than the oracle, so a lag may only seem longer to it.
    """
    record_tried("REP")
    counted = [each for each in ends if each.is_replica and (each.closed_ns is None or each.closed_ns >= since_ns)]
    lags = [end - each.reported_offset(now_ns) for each in counted]
    if not any(lag < fallbehind_max for lag in lags):
        summary = "a put waits although every slave lags too far"
        yield _broken(summary, "commitlog", end, "lag", f"below {fallbehind_max}", str(sorted(lags)))


def check_counted_slaves(
    counted: Collection[str], ends: Sequence[MasterEnd], now_ns: int, late_ns: Callable[[int], int]
) -> Iterator[Violation]:
    """Yield a slave for which puts of a SYNC_MASTER wait although it has left, or do not wait although it is connected.

    counted: the addresses of the slaves for which puts wait. ends: see `check_slave_wait`. late_ns: returns by how much
    the master may be late since a time.
    """
    record_tried("REP")
    for end in ends:
        is_open = end.closed_ns is None
        since_ns = end.reports[0][0] if is_open and end.is_replica else end.closed_ns
        is_ending = is_open and end.has_reason_to_close(now_ns)
        if since_ns is None or is_ending or (end.peer in counted) is is_open:
            continue
        if now_ns - since_ns > late_ns(since_ns):
            summary = "no put waits for a connected slave" if is_open else "puts wait for a slave that has left"
            expected = f"{'with' if is_open else 'without'} {end.peer}"
            yield _broken(summary, field="slaves", expected=expected, found=str(counted))


def check_sent_frame(master: MessageStore, disk: Disk, frame: FrameHeader) -> Iterator[Violation]:
    """Yield a frame that a master under SYNC_FLUSH is about to send, if a crash could still lose its data."""
    if frame.is_heartbeat or master.config.flush_disk_type is not FlushDiskType.SYNC_FLUSH:
        return
    record_tried("REP")
    segment = master.log.find(frame.log_offset)
    if segment is None:
        return  # retention removes only durable segments
    start = frame.log_offset - segment.base_offset
    if not disk.is_durable(segment.file.path, start, start + frame.size_bytes):
        summary = "a master sends data that is not durable"
        yield _broken(summary, segment.file.path, start, "frame", "after the sync", "before it")


def check_sent_blank(master: MessageStore, frame: FrameHeader, recovered_end: int) -> Iterator[Violation]:
    """Yield a frame with the blank record at the end of a master's log, which the next recovery may truncate.

    recovered_end: the end of the log after the last recovery, which has kept a blank record before it.
    """
    record_tried("REP")
    end = frame.log_offset + frame.size_bytes
    ends_segment = not end % master.config.mapped_file_size_commit_log
    if not frame.is_heartbeat and ends_segment and master.log.max_offset == end > recovered_end:
        summary = "a master sends the blank record at the end of its log"
        yield _broken(summary, "commitlog", end, "frame", "after the next record", "before it")


def check_sent_data_kept(master: MessageStore, sent_to: int) -> Iterator[Violation]:
    """Yield data that a master had sent as durable up to sent_to, and that its recovery truncated.

    A slave with the truncated data would have a longer log than its master.
    """
    if sent_to == 0:
        return
    record_tried("REP")
    end = master.log.max_offset
    if end < sent_to:
        summary = "the master's recovery truncated data that it had sent as durable"
        yield _broken(summary, "commitlog", end, "recovered end", f"{sent_to} or more", str(end))


def check_prefix(host: str, slave: MessageStore, history: MasterHistory) -> Iterator[Violation]:
    """Yield a slave's log that is not a prefix of any log that its master has had."""
    first = max(slave.log.min_offset, 0)
    if slave.log.max_offset > first:
        record_tried("REP")
    differs_at = history.first_difference_offset(first, log_bytes(slave.log, first, slave.log.max_offset))
    if differs_at is not None:
        summary = f"the log of {host} is no prefix of its master's"
        yield _broken(summary, "commitlog", differs_at, "prefix", "a byte of the master's", "another")


def check_first_request(host: str, slave: MessageStore, offset: int) -> Iterator[Violation]:
    """Yield a request of a slave with SYNC_FLUSH for data after its durable data.

    The offset must be at least 1, because 0 means an empty log, and not before the slave's first segment.
    """
    kept = slave.log.flushed_where.get()
    if slave.config.flush_disk_type is not FlushDiskType.SYNC_FLUSH:
        return
    record_tried("REP")
    if offset > max(kept, slave.log.min_offset, 1):
        summary = f"{host} requests an offset after its durable data"
        yield _broken(summary, "commitlog", offset, "report", f"<= {kept}", str(offset))


def check_reconnect(host: str, since_ns: int | None, late_ns: int) -> Iterator[Violation]:
    """Yield a slave that connects again too soon or too late.

    since_ns: the time since the end of the last attempt; None if its connection is still open.
    """
    record_tried("REP")
    if since_ns is None:
        yield _broken(f"{host} connects while its last connection is open", "", -1, "connections", "1", "2")
    elif not RECONNECT_MS * _NS_PER_MS <= since_ns <= RECONNECT_MS * _NS_PER_MS + late_ns:
        summary, found = f"{host} connects again too soon or too late", f"{since_ns / _NS_PER_MS:g} ms"
        yield _broken(summary, field="back-off", expected=f"{RECONNECT_MS} ms", found=found)


def check_flushed(host: str, slave: MessageStore) -> Iterator[Violation]:
    """Yield data that a slave with SYNC_FLUSH received on its last connection and left unflushed."""
    if slave.config.flush_disk_type is not FlushDiskType.SYNC_FLUSH:
        return
    record_tried("REP")
    flushed, end = slave.log.flushed_where.get(), slave.log.max_offset
    if flushed < end:
        summary = f"{host} has not flushed the data of its last connection"
        yield _broken(summary, "commitlog", flushed, "flushed", str(end), str(flushed))


def check_all_closed(ends: Iterable[MasterEnd]) -> Iterator[Violation]:
    """Yield a connection that a stopped master has left open."""
    for end in ends:
        record_tried("REP")
        if end.closed_ns is None:
            yield _broken(f"{end.label} leaves a connection open", field="connection", expected="closed", found="open")


def check_handover(host: str, slave: MessageStore, end: int) -> Iterator[Violation]:
    """Yield a slave that lacks the end of its master's log after the master has stopped. end: the log's end."""
    record_tried("REP")
    found = slave.log.max_offset
    if found < end and end % slave.log.segment_bytes:  # a slave does not get the blank record at the log's end
        summary = f"{host} lacks the end of the log of its master, which has stopped"
        yield _broken(summary, "commitlog", found, "log end", str(end), str(found))


def check_last_blank(host: str, slave: MessageStore) -> Iterator[Violation]:
    """Yield a slave's log that ends in a blank record, which its master may have lost."""
    record_tried("REP")
    end = slave.log.max_offset
    if end > max(slave.log.min_offset, 0) and not end % slave.log.segment_bytes:
        summary = f"the log of {host} ends in a blank record"
        yield _broken(summary, "commitlog", end, "log end", "in a segment", "at the end of a segment")


def check_waiting_puts(transfer: GroupTransfer | None) -> Iterator[Violation]:
    """Yield puts that a master still counts as waiting, although all puts have been answered."""
    if transfer is not None:
        record_tried("REP")
        if transfer.pending_count:
            summary, found = "answered puts still wait for a slave", str(transfer.pending_count)
            yield _broken(summary, field="puts", expected="0", found=found)


def check_reported_data_kept(host: str, slave: MessageStore, held: ReportedRange | None) -> Iterator[Violation]:
    """Yield data that a slave reported, had to keep, and lost.

    A blank record at the end of a segment may be lost if no record follows, because recovery ends the log before it.
    """
    if held is None or not held.data:
        return
    record_tried("REP")
    found = log_bytes(slave.log, held.first, held.end)
    is_whole = held.data.startswith(found) and (len(found) == held.size_bytes or _is_blank(held, len(found)))
    if not is_whole or max(slave.log.min_offset, 0) > held.first:
        summary = f"{host} has lost data that it had reported"
        end = f"all up to {held.end}"
        yield _broken(summary, "commitlog", held.first, "reported bytes", end, f"up to {slave.log.max_offset}")


def _is_blank(held: ReportedRange, at: int) -> bool:
    head = held.data[at : at + BLANK_BYTES]
    return len(head) == BLANK_BYTES and head == encode_blank(held.size_bytes - at)


def check_slave_settled(
    host: str, slave: MessageStore, master: MessageStore, diverged: str | None, *, is_logged: bool
) -> Iterator[Violation]:
    """Yield a slave that follows another log, does not follow an equal one, or stops without a report.

    diverged: why the slave follows no master; None if it follows one. is_logged: whether its broker's log has this
    reason.
    """
    record_tried("REP")
    first, end = max(slave.log.min_offset, master.log.min_offset, 0), slave.log.max_offset
    found, own = log_bytes(slave.log, first, end), whole_log(master.log)
    # Retention at the master removed the data that the slave needs next. The slave's data may end in a blank record
    # that its own recovery did not count.
    is_left_behind, may_be_left_behind = 0 < end < first, 0 < end <= first
    fits = common_bytes(own, first, found) == len(found) and not is_left_behind
    notices_later = is_left_behind and master.log.min_offset == master.log.max_offset  # at the master's next record
    if found == own[first:end] and not may_be_left_behind and diverged is not None:
        summary = f"{host} reports a divergence although its log is equal"
        yield _broken(summary, "commitlog", end, "divergence", "none", diverged)
    elif not fits and not notices_later and diverged is None:
        summary = f"{host} follows a master with a different log"
        yield _broken(summary, "commitlog", end, "divergence", "found", "not found")
    if diverged is not None and not is_logged:
        summary = f"{host} stopped replication without a log message"
        yield _broken(summary, "commitlog", end, "divergence", "a line in the log", "none", diverged)


def check_takeover(ledger: Ledger, slaves: Sequence[RecoveredStore]) -> Iterator[Violation]:
    """Yield acknowledged puts that no slave has, although all slaves must keep reported data."""
    found = {
        put.name: record.body
        for slave in slaves
        for record in slave.records
        if (put := ledger.put_of(record.record)) is not None
    }
    for put in ledger.puts:
        if put.knowledge is not ProducerKnowledge.ACKNOWLEDGED or not put.wait or ledger.may_be_removed(put):
            continue
        record_tried("DUR")
        if found.get(put.name) != put.body:
            summary = f"{put.name} was acknowledged, and is lost with its master"
            yield Violation("DUR", summary, "commitlog", put.physical_offset or -1, "record", put.name, "nothing")


class PromotedPut(NamedTuple):
    """A put to a slave that has replaced its lost master."""

    topic: str
    queue_id: int
    body: bytes
    result: PutMessageResult


def check_promoted(
    host: str, before: RecoveredStore, puts: Sequence[PromotedPut], after: RecoveredStore
) -> Iterator[Violation]:
    """Yield a put that does not continue the log and the queue of a promoted slave, and a lost or changed message.

    before, after: the store before the puts, and after a stop and another load.
    """
    record_tried("REP")
    following = {place: queue.max_offset for place, queue in before.queues.items()}
    expected_at: dict[int, int] = {}
    for each in after.records:  # delivery may put other messages in between
        record, queue = each.record, (each.record.topic, each.record.queue_id)
        if record.physical_offset >= before.max_offset:
            expected_at[record.physical_offset] = following.get(queue, 0)
            following[queue] = record.queue_offset + 1
    wanted = {each.record.physical_offset: each.body for each in before.records}
    log_end = before.max_offset
    for put in puts:
        place, append = (put.topic, put.queue_id), put.result.append
        if put.result.status is not PutMessageStatus.PUT_OK or append is None:
            summary = f"{host} refuses a put as the new master"
            yield _broken(summary, "commitlog", log_end, "status", "PUT_OK", put.result.status.value)
            continue
        for field, expected, found in (
            ("queueOffset", expected_at.get(append.wrote_offset), append.queue_offset),
            ("offset", max(log_end, append.wrote_offset), append.wrote_offset),
            ("queue entry", append.wrote_offset, _entry_at(after, place, append.queue_offset)),
        ):
            if found != expected:
                summary = f"{host} does not continue its log and its queues as the new master"
                yield _broken(summary, "commitlog", append.wrote_offset, field, str(expected), str(found))
        log_end = append.wrote_offset + append.wrote_bytes
        wanted[append.wrote_offset] = put.body
    found_bodies = {each.record.physical_offset: each.body for each in after.records}
    for offset in sorted(wanted):
        if found_bodies.get(offset) != wanted[offset]:
            summary = f"{host} has lost or changed a message as the new master"
            texts = (str(bodies.get(offset, b"none")[:40]) for bodies in (wanted, found_bodies))
            yield _broken(summary, "commitlog", offset, "record", *texts)


def _entry_at(store: RecoveredStore, place: tuple[str, int], queue_offset: int) -> int | None:
    """Return the log offset in an entry of a queue; None without the entry."""
    queue = store.queues.get(place)
    at = -1 if queue is None else queue_offset - queue.begin
    return queue.entries[at][0] if queue is not None and 0 <= at < len(queue.entries) else None


def check_table(name: str, own: "VersionedTable[Any]", other: "VersionedTable[Any]") -> Iterator[Violation]:
    """Yield a slave's table that differs from its master's at the same version, and so is never copied."""
    if own.version != other.version:
        return
    record_tried("REP")
    if own.table != other.table:
        summary = f"a slave has other {name} than its master at the same version"
        yield _broken(summary, "", -1, name, str(dict(other.table)), str(dict(own.table)))
