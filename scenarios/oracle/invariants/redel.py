"""REDEL: what comes again after a fault is bounded by what the fault lost; a clean stop and start repeat nothing.

Of a delayed message each life of a store delivers one copy at most, and none of what the progress it began with has
passed. After a clean stop that persisted its progress, that has passed all that the life before it delivered, and
consumer groups begin where they were. What progress a crash leaves is META's.
"""

from collections.abc import Iterator, Mapping

from ....store.formats.delay_level import SCHEDULE_TOPIC
from ..evidence import Evidence, Violation, tried
from ..ledger import Group, Ledger
from ..recovered import FoundRecord


def check(evidence: Evidence) -> Iterator[Violation]:
    """Yield every copy of a delayed message that should not have been made, or is about to be made again."""
    ledger, store = evidence.ledger, evidence.store
    if not any(topic == SCHEDULE_TOPIC for topic, _ in store.queues):
        return
    waiting: dict[str, FoundRecord] = {}
    delivered_in: dict[str, set[int]] = {}
    for found in store.records:
        record = found.record
        if record.topic == SCHEDULE_TOPIC:
            put = ledger.put_of(record)
            if put is not None:
                waiting[put.name] = found
            continue
        put = ledger.copied_by(record)
        own = None if put is None else waiting.get(put.name)
        if put is None or own is None:
            continue  # SCHED's, if it is a delayed one's
        life = ledger.delivery_of(record.physical_offset)
        lives = delivered_in.setdefault(put.name, set())
        level, offset = own.record.queue_id + 1, own.record.queue_offset
        begun_at = ledger.deliveries[life].offsets.get(level, 0)
        if life in lives:
            yield _violation(
                found, f"{put.name} was delivered twice by one life of the store", "once", "again"
            )
        elif offset < begun_at:
            summary = f"{put.name} was delivered again although progress had passed it"
            yield _violation(found, summary, f"{begun_at} or later", str(offset))
        lives.add(life)
    if delivered_in:
        tried("REDEL")
    if ledger.progress_is_final:
        last = len(ledger.deliveries) - 1
        for name in [name for name, lives in delivered_in.items() if last in lives]:
            own = waiting[name]
            level, offset = own.record.queue_id + 1, own.record.queue_offset
            if offset >= store.delivered_to.get(level, 0):
                summary = f"{name} was delivered before a clean stop, and will be again"
                yield _violation(own, summary, f"beyond {offset}", str(store.delivered_to.get(level, 0)))


def _violation(found: FoundRecord, summary: str, expected: str, seen: str) -> Violation:
    return Violation("REDEL", summary, found.file, found.position, "progress", expected, seen)


def check_groups(ledger: Ledger, found: Mapping[Group, int]) -> Iterator[Violation]:
    """Yield every consumer group that begins elsewhere than it was at a clean stop."""
    if not ledger.progress_is_final:
        return
    for group, offset in ledger.reported.items():
        tried("REDEL")
        if found[group] != offset:
            name, topic, queue_id = group
            summary = f"{name} in {topic}/{queue_id} does not begin where a clean stop left it"
            yield Violation("REDEL", summary, "", -1, "offset", str(offset), str(found[group]))
