"""Measurements of the store on threads and maps, and of the disk alone.

Pulls and queries read a store that was filled and stopped before, from the page cache. Starts use copy-on-write maps of
files just read, so they measure neither a disk nor repairs by the previous round; recovery writes the last seconds of
the log to memory. The disk alone is the reference for every figure that waits for it.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from time import perf_counter, sleep
from typing import Any, TypeVar

from tornlog.reports.studies.closed_loop import ClosedLoop, Sample
from tornlog.reports.studies.recovery.filled import BATCH_MESSAGES, QUEUES, TOPIC, batch, key, message
from tornlog.store.config import FlushDiskType
from tornlog.store.formats.messages import GetMessageStatus, Message, MessageBatch, PutMessageResult, PutMessageStatus
from tornlog.store.formats.scan import ScannedRecord
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import overlay_world

from .workplace import SMALL_QUEUE_BYTES, Workplace

_Put = TypeVar("_Put", Message, MessageBatch)
KEY_STRIDE = 7919  # a prime: queries jump around in the log
_LONG_AFTER_MS = 1 << 60
_POLL_SECONDS = 0.001
_CHUNK_BYTES = 1 << 20
_RAW_CHUNK = os.urandom(1 << 20)  # random, so that no lower layer can compress it
_PAGE_BYTES = 4096


def measure_puts(place: Workplace, body_bytes: int, flush: FlushDiskType, producers: int) -> Sample:
    """Measure single puts per second, all producers together."""
    with place.store(flush_disk_type=flush) as store:
        calls = [_put(store.put_message, message(body_bytes, number % QUEUES)) for number in range(producers)]
        return ClosedLoop(calls, place.settings.seconds).run()


def measure_batch_puts(place: Workplace, body_bytes: int, flush: FlushDiskType) -> Sample:
    """Measure messages per second of one producer in batches, encoded before; latencies are of batches."""
    with place.store(flush_disk_type=flush) as store:
        call = _put(store.put_messages, batch(body_bytes))
        return ClosedLoop([call], place.settings.seconds).run(BATCH_MESSAGES)


def _put(put: Callable[[_Put], PutMessageResult], what: _Put) -> Callable[[], None]:
    def call() -> None:
        status = put(what).status
        if status is not PutMessageStatus.PUT_OK:
            raise RuntimeError(f"a put was answered {status.name}")

    return call


def measure_pulls(place: Workplace, body_bytes: int) -> Sample:
    """Measure messages per second of one consumer in batches of 32, over the queue again and again."""
    with _opened(place, place.filled(place.settings.small_log_bytes, body_bytes)) as store:
        offset = 0

        def pull() -> None:
            nonlocal offset
            answer = store.get_message(TOPIC, 0, offset, BATCH_MESSAGES)
            if answer.status is GetMessageStatus.OFFSET_OVERFLOW_ONE:
                offset = 0
                answer = store.get_message(TOPIC, 0, offset, BATCH_MESSAGES)
            if len(answer.records) != BATCH_MESSAGES:
                raise RuntimeError(f"a pull was answered {answer.status.name}, {len(answer.records)} records")
            offset = answer.next_begin_offset

        return ClosedLoop([pull], place.settings.seconds).run(BATCH_MESSAGES)


def measure_queries(place: Workplace) -> Sample:
    """Measure queries per second, each for a key of one message."""
    with _opened(place, place.filled(place.settings.small_log_bytes, keyed=True)) as store:
        count = _message_count(store)
        number = 0

        def query() -> None:
            nonlocal number
            answer = store.query_message(TOPIC, key(number), BATCH_MESSAGES, 0, _LONG_AFTER_MS)
            if len(answer.records) != 1:
                raise RuntimeError(f"a query for key {number} found {len(answer.records)} records")
            number = (number + KEY_STRIDE) % count

        return ClosedLoop([query], place.settings.seconds).run()


def keys_in(place: Workplace) -> int:
    """Return the number of keys for queries: each message has one."""
    with _opened(place, place.filled(place.settings.small_log_bytes, keyed=True)) as store:
        return _message_count(store)


def _message_count(store: MessageStore) -> int:
    return sum(queue.max_offset for queue in store.queues.all_queues())


@contextmanager
def _opened(place: Workplace, directory: str) -> Iterator[MessageStore]:
    """Yield the store in a directory, loaded without services, over maps that write nothing back."""
    store = MessageStore(overlay_world(), place.config(directory))
    store.load()
    try:
        yield store
    finally:
        store.close()


def measure_dispatch(place: Workplace, *, keyed: bool = False) -> Sample:
    """Return messages per second that the dispatch service makes visible; keyed: and indexed, one key each."""
    with place.store() as store:
        may_pass = Event()

        def gate(record: ScannedRecord) -> None:
            """Block dispatch at the first record until the backlog is complete."""
            may_pass.wait()
            with suppress(ValueError):  # called again for the other records of the same run
                store.dispatchers.remove(gate)  # it is the last dispatcher, so dispatch skips no other

        store.dispatchers.append(gate)
        try:
            batches = 0
            while store.dispatch_behind_bytes < place.settings.small_log_bytes:
                store.put_messages(batch(1024, batches, keyed=keyed))
                batches += 1
        finally:
            began = perf_counter()
            may_pass.set()
        while store.dispatch_behind_bytes:
            sleep(_POLL_SECONDS)
        return Sample(batches * BATCH_MESSAGES / (perf_counter() - began))


def measure_recovery_scan(place: Workplace, *, keyed: bool = False) -> Sample:
    """Return MB (10^6 bytes) of log per second that recovery reads after an unclean exit, with CRC and queues.

    keyed: a smaller log with a key per message; recovery decides how much of the index it rebuilds.
    """
    size_bytes = place.settings.small_log_bytes if keyed else place.settings.log_bytes
    end_offset, seconds = _opened_load(place, place.filled(size_bytes, keyed=keyed), clean_exit=False)
    return Sample(end_offset / seconds / 1e6)


def measure_clean_load(place: Workplace) -> Sample:
    """Return the ms of a start after a clean exit until puts could begin, with the log of the scan."""
    _, seconds = _opened_load(place, place.filled(place.settings.log_bytes), clean_exit=True)
    return Sample(seconds * 1_000)


def measure_load_of_queues(place: Workplace, queues: int) -> Sample:
    """Return queues per second that a load opens after an unclean exit, with two messages per queue.

    The cost per message is small in comparison, and the same for any number of queues.
    """
    _, seconds = _opened_load(
        place, place.with_queues(queues), clean_exit=False, mapped_file_size_consume_queue=SMALL_QUEUE_BYTES
    )
    return Sample(queues / seconds)


def _opened_load(place: Workplace, directory: str, *, clean_exit: bool, **others: Any) -> tuple[int, float]:
    """Load the store in a directory; return its log's end, and the seconds. others: settings."""
    _read_into_page_cache(Path(directory))
    store = MessageStore(overlay_world(), place.config(directory, **others))
    began = perf_counter()
    report = store.load(clean_exit=clean_exit)
    took = perf_counter() - began
    log_bytes = store.max_phy_offset
    store.close()
    if report.end_offset != log_bytes or report.records == 0:
        raise RuntimeError(f"recovery found {report.records} records up to {report.end_offset} of {log_bytes}")
    return log_bytes, took


def _read_into_page_cache(directory: Path) -> None:
    for path in directory.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                while file.read(_CHUNK_BYTES):
                    pass


def measure_memory_copy(place: Workplace) -> Sample:
    """Return MB (10^6 bytes) per second of a copy in memory."""
    source = bytes(place.settings.raw_bytes)
    target = bytearray(source)  # allocates its pages
    began = perf_counter()
    target[:] = source
    return Sample(len(source) / (perf_counter() - began) / 1e6)


def measure_sequential_write(place: Workplace) -> Sample:
    """Return MB (10^6 bytes) per second written to one file, including its sync at the end."""
    size_bytes = place.settings.raw_bytes
    with place.directory() as directory:
        descriptor = os.open(f"{directory}/raw", os.O_WRONLY | os.O_CREAT)
        try:
            began = perf_counter()
            for _ in range(size_bytes // len(_RAW_CHUNK)):
                os.write(descriptor, _RAW_CHUNK)
            os.fdatasync(descriptor)
            return Sample(size_bytes // len(_RAW_CHUNK) * len(_RAW_CHUNK) / (perf_counter() - began) / 1e6)
        finally:
            os.close(descriptor)


def measure_page_sync(place: Workplace) -> Sample:
    """Return writes with sync per second, each of the next page, in a file allocated before."""
    size_bytes = place.settings.raw_bytes
    with place.directory() as directory:
        descriptor = os.open(f"{directory}/raw", os.O_WRONLY | os.O_CREAT)
        at = 0

        def write_and_sync() -> None:
            nonlocal at
            os.pwrite(descriptor, _RAW_CHUNK[:_PAGE_BYTES], at)
            os.fdatasync(descriptor)
            at = (at + _PAGE_BYTES) % size_bytes

        try:
            os.posix_fallocate(descriptor, 0, size_bytes)
            os.fdatasync(descriptor)
            return ClosedLoop([write_and_sync], place.settings.seconds).run()
        finally:
            os.close(descriptor)
