"""STATUS: the answer to a put is truthful at the moment it is given.

OK under SYNC_FLUSH means that the disk has every byte, which the simulated disk is asked at once; a time-out means
that the time was really up, or that a sync failed. An error that the plan gives no reason for is a lie too.
"""

from collections.abc import Iterator

from ...faults.disk import Disk
from ...store.message_store import MessageStore
from ...store.put_result import PutMessageResult, PutMessageStatus
from ...store.segments.allocate import WAIT_MS as ALLOCATE_WAIT_MS
from ..evidence import Violation
from ..ledger import PutEntry
from ..plan import Plan


def check(
    plan: Plan, store: MessageStore, disk: Disk, put: PutEntry, result: PutMessageResult, *, legal: bool
) -> Iterator[Violation]:
    """Yield what is untrue about one answer, just given; legal: whether the message could be stored at all."""
    status = result.status
    if status is PutMessageStatus.PUT_OK:
        if not legal:
            yield _lie(put, "a message no record can hold was answered OK", "MESSAGE_ILLEGAL", status)
        elif result.append is None:
            yield _lie(put, "answered OK without a place", "a physical offset", status)
        elif plan.sync_flush and put.wait and not _is_durable(store, disk, result):
            yield Violation(
                "STATUS",
                f"{put.name} was answered OK before it was durable",
                "commitlog",
                result.append.wrote_offset,
                "answer",
                "after the sync",
                "before it",
            )
    elif status is PutMessageStatus.FLUSH_DISK_TIMEOUT:
        waited_ms = _waited_ms(put)
        if waited_ms < plan.sync_flush_timeout_ms and not disk.fired["failed sync"]:
            yield _lie(put, f"timed out after {waited_ms} ms", f"{plan.sync_flush_timeout_ms} ms", status)
    elif status is PutMessageStatus.MESSAGE_ILLEGAL:
        if legal:
            yield _lie(put, "a good message was refused", "PUT_OK", status)
    elif status is PutMessageStatus.CREATE_MAPEDFILE_FAILED and disk.fired["failed creation"]:
        return
    elif status is PutMessageStatus.CREATE_MAPEDFILE_FAILED and disk.fired["slow sync"]:
        if _waited_ms(put) < ALLOCATE_WAIT_MS:
            yield _lie(put, f"no segment after {_waited_ms(put)} ms", f"{ALLOCATE_WAIT_MS} ms", status)
    elif status is PutMessageStatus.OS_PAGECACHE_BUSY and disk.fired["slow sync"]:
        return  # a put before it waits for a segment that the slow disk does not make
    elif not disk.fired["failed sync"]:
        yield _lie(put, "refused without a reason", "PUT_OK", status)


def _waited_ms(put: PutEntry) -> int:
    assert put.answered_ns is not None, put.name
    return (put.answered_ns - put.asked_ns) // 1_000_000


def _is_durable(store: MessageStore, disk: Disk, result: PutMessageResult) -> bool:
    append = result.append
    assert append is not None
    segment = store.log.find(append.wrote_offset)
    if segment is None:
        return False
    start = append.wrote_offset - segment.base_offset
    return disk.is_durable(segment.file.path, start, start + append.wrote_bytes)


def _lie(put: PutEntry, summary: str, expected: str, status: PutMessageStatus) -> Violation:
    return Violation("STATUS", f"{put.name}: {summary}", "", -1, "status", expected, status.value)
