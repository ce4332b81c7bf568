"""SCHED: a delayed message is delivered to where it was put, not before it is due, and at least once.

After each recovery: every copy has the record it was made of in front of it, and was stored no earlier than that was
and its delay; every record that progress has passed has a copy. As the run goes, no consumer is given one before its
time. That progress gets to the end of each level, so that all are delivered, is LIVE's; that nothing else comes where
copies do, and all that a copy keeps of its message, are PREFIX's; how many copies there may be is REDEL's.
"""

from collections.abc import Iterator

from ....store.formats.delay_level import SCHEDULE_TOPIC
from ..evidence import Evidence, Violation, tried
from ..put_entry import PutEntry
from ..recovered import FoundRecord


def check(evidence: Evidence) -> Iterator[Violation]:
    """Yield every copy without its record or too early, and every record that was passed over."""
    waiting: dict[str, FoundRecord] = {}
    delivered: set[str] = set()
    if not any(topic == SCHEDULE_TOPIC for topic, _ in evidence.store.queues):
        return
    ledger, store = evidence.ledger, evidence.store
    delivered |= ledger.delivered_into_damage
    for found in store.records:
        record = found.record
        if record.topic == SCHEDULE_TOPIC:
            put = ledger.put_of(record)
            if put is not None:
                waiting[put.name] = found
            continue
        put = ledger.copied_by(record)
        if put is None or put.delay_ms is None:
            continue
        delivered.add(put.name)
        own = waiting.get(put.name)
        if own is None:
            if store.min_offset == 0:
                yield _violation(
                    found, f"{put.name} was delivered without having been put", "put", "before it", "no"
                )
            continue
        due_ms = own.record.store_timestamp_ms + put.delay_ms
        if record.store_timestamp_ms < due_ms:
            early_ms = due_ms - record.store_timestamp_ms
            yield _violation(
                found, f"{put.name} was delivered early", "delivery", "when due", f"{early_ms} ms before"
            )
    if waiting:
        tried("SCHED")
    for name, own in waiting.items():
        level = own.record.queue_id + 1
        if own.record.queue_offset < store.delivered_to.get(level, 0) and name not in delivered:
            yield _violation(own, f"{name} was passed over", "delivery", "one at least", "none")


def check_seen(put: PutEntry, now_ns: int) -> Iterator[Violation]:
    """Yield a delayed message that a consumer is given at now_ns, sooner than its delay after it was asked for."""
    assert put.delay_ms is not None, put.name
    tried("SCHED")
    waited_ms = now_ns // 1_000_000 - put.asked_ns // 1_000_000  # store times are whole ms
    if waited_ms < put.delay_ms:
        summary = f"{put.name} was given to a consumer early"
        yield Violation("SCHED", summary, "", -1, "delivery", f">= {put.delay_ms} ms", f"{waited_ms} ms")


def _violation(found: FoundRecord, summary: str, field: str, expected: str, seen: str) -> Violation:
    return Violation("SCHED", summary, found.file, found.position, field, expected, seen)
