"""Retries: SCHED and REDEL for messages that consumers send back, from retry to retry until the dead letter topic.

    request       stores at most one record: in the schedule topic, or in the dead letter topic after the last retry
    SUCCESS       stores exactly one, unless the group has no queue for retries
    due           each start of the broker makes at most one copy of a record in the schedule topic, in the retry topic

A request names its message by log offset, so it belongs to every record that a recovery finds at this offset. A
consumer's own send to the retry topic has the message and its number of retries.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ....store.formats.delay_level import SCHEDULE_TOPIC
from ...claims.machine import DELAYS_MS
from ..evidence import Evidence, Violation, record_tried
from ..ledger import Ledger
from ..reader import LogRecord, property_of
from ..recovered import FoundRecord
from ..returned import RETURNED, RetryPlace, SendBackRequest, is_due_copy
from .delivery import check_late_copy

_DEAD = RETURNED[1]
Retry = tuple[str, int]
"""The name of a put, and the number of its retries."""


@dataclass(slots=True)
class _Retries:
    """The records of one put after one number of retries."""

    requests: list[SendBackRequest] = field(default_factory=list)
    """Requests that may have stored the records."""
    stored: list[FoundRecord] = field(default_factory=list)
    """Records in the schedule topic, and in the dead letter topic without a delay."""
    due_ms: list[int] = field(default_factory=list)
    """When each record of the schedule topic is due."""
    copies: Counter[int] = field(default_factory=Counter)
    """Start of the broker -> number of copies in the retry topic, or after a delay in the dead letter topic."""


def check_retries(evidence: Evidence, *, settled: bool = False) -> Iterator[Violation]:
    """Yield each record of a retry that no request explains, at a wrong place or time, or too often.

    settled: whether all delays have ended, so that every acknowledged request must have its record and copy.
    """
    ledger, origins = evidence.ledger, dict[str, set[str]]()
    if ledger.expired_to or not (ledger.returned.requests or ledger.returned.sends):
        return
    found_retries: dict[Retry, _Retries] = {}
    for name, sends in ledger.returned.sends.items():
        for send in sends:
            found_retries.setdefault((name, send.times), _Retries()).requests.append(send)
    stored_ms: list[int] = []
    for found in evidence.store.records:
        record, times = found.record, found.record.head.reconsume_times
        stored_ms.append(record.store_timestamp_ms)
        returned = ledger.put_returned_in(record)
        put = returned or ledger.put_seen_in(record)
        if put is None:
            continue
        if returned is not None:
            retries = found_retries.setdefault((put.name, times), _Retries())
            yield from _check_record(ledger, found, put.name, retries, stored_ms)
            yield from _check_origin(found, put.name, origins.get(put.name, set()))
        else:
            origins.setdefault(put.name, set()).add(_message_id(record))
        if record.topic != SCHEDULE_TOPIC and (requests := ledger.returned.requests.get(record.physical_offset)):
            found_retries.setdefault((put.name, times + 1), _Retries()).requests += requests
    if settled:
        for (name, times), retries in found_retries.items():
            yield from _check_none_lost(name, times, retries)


def _check_record(
    ledger: Ledger, found: FoundRecord, name: str, retries: _Retries, stored_ms: list[int]
) -> Iterator[Violation]:
    record, before = found.record, found.record.head.reconsume_times - 1
    record_tried("REDEL")
    if is_due_copy(record):
        yield from _check_copy(ledger, found, name, retries, stored_ms)
        return
    retries.stored.append(found)
    place = RetryPlace.of_record(record)
    explaining = [each for each in retries.requests if each.place_after(before) == place]
    same = [each for each in retries.stored if RetryPlace.of_record(each.record) == place]
    if len(same) > len(explaining):
        summary = f"{name} after {before} retries is stored again more often than requested"
        yield _broken("REDEL", found, summary, place.topic, f"<= {len(explaining)}", str(len(same)))
        return
    is_dead = place.topic.startswith(_DEAD)
    queue_id = int(property_of(record.properties, b"REAL_QID")) if place.is_delayed else record.queue_id
    operated = 0 if is_dead else ledger.returned.queues_max.get(place.topic, 0)
    queues = 1 if is_dead else max(operated, *(each.retry_queues for each in explaining))
    if queue_id >= queues:
        what = "is in a wrong dead letter queue" if is_dead else "has no queue for its retry"
        yield _broken("SCHED", found, f"{name} {what}", "queueId", f"< {queues}", queue_id)
    if not place.is_delayed:
        return
    level, levels = record.queue_id + 1, sorted({each.level_after(before, len(DELAYS_MS)) for each in explaining})
    if level not in levels:
        yield _broken("SCHED", found, f"{name} waits at another level than requested", "level", levels, level)
    retries.due_ms.append(record.store_timestamp_ms + DELAYS_MS[level])


def _check_copy(
    ledger: Ledger, found: FoundRecord, name: str, retries: _Retries, stored_ms: list[int]
) -> Iterator[Violation]:
    record_tried("SCHED")
    if not retries.due_ms:
        yield _broken("SCHED", found, f"a retry of {name} has no delayed record", "record", "before it", "none")
        return
    life, first_ms = ledger.delivery_of(found.record.physical_offset), min(retries.due_ms)
    retries.copies[life] += 1
    if retries.copies[life] > len(retries.due_ms):
        summary, most = f"a retry of {name} was delivered twice after one start of the store", len(retries.due_ms)
        yield _broken("REDEL", found, summary, "copies", f"<= {most}", retries.copies[life])
    early_ms = first_ms - found.record.store_timestamp_ms
    if early_ms > 0 and not ledger.has_clock_read(first_ms):
        summary = f"a retry of {name} was delivered early"
        yield _broken("SCHED", found, summary, "delivery", "when due", f"-{early_ms} ms")
    yield from check_late_copy(ledger, found, f"a retry of {name}", max(retries.due_ms), stored_ms)


def _check_origin(found: FoundRecord, name: str, origins: set[str]) -> Iterator[Violation]:
    """SCHED: yield a retry that does not name the first record of its message."""
    origin = property_of(found.record.properties, b"ORIGIN_MESSAGE_ID").decode()
    if origin not in origins:
        summary = f"a retry of {name} names another message as its origin"
        yield _broken("SCHED", found, summary, "ORIGIN_MESSAGE_ID", sorted(origins), origin)


def _message_id(record: LogRecord) -> str:
    return (record.head.store_host + record.physical_offset.to_bytes(8, "big")).hex().upper()


def _check_none_lost(name: str, times: int, retries: _Retries) -> Iterator[Violation]:
    kept = [each for each in retries.requests if each.is_kept and each.place_after(times - 1) is not None]
    record_tried("SCHED")
    if len(retries.stored) < len(kept):
        summary = f"{name} after {times - 1} retries was sent back, but was not stored again"
        yield Violation("SCHED", summary, "", -1, "records", f">= {len(kept)}", str(len(retries.stored)))
    elif retries.copies.total() < len(retries.due_ms):
        summary, found = f"{name} was sent back, and is not delivered again", str(retries.copies.total())
        yield Violation("SCHED", summary, "", -1, "copies", f">= {len(retries.due_ms)}", found)


def _broken(
    invariant: str, found: FoundRecord, summary: str, field_name: str, expected: object, seen: object
) -> Violation:
    return Violation(invariant, summary, found.file, found.position, field_name, str(expected), str(seen))
