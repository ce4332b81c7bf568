"""QOFF: queue offsets are unique, gapless and in log order, and an answered one is the one found."""

from collections.abc import Iterator

from ...store.dispatch import is_queued
from ..evidence import Evidence, Violation


def check(evidence: Evidence) -> Iterator[Violation]:
    """Yield every record whose queueOffset does not follow, or is not what its producer was told."""
    expected: dict[tuple[str, int], int] = {}
    for found in evidence.store.records:
        record = found.record
        if not is_queued(record):
            continue
        key = (record.topic, record.queue_id)
        wanted = expected.get(key)
        if wanted is None:
            wanted = record.queue_offset if evidence.store.min_offset > 0 else 0
        if record.queue_offset != wanted:
            yield Violation(
                "QOFF",
                f"queue offsets of {record.topic}/{record.queue_id} do not count up",
                found.file,
                found.position + 20,
                "queueOffset",
                str(wanted),
                str(record.queue_offset),
            )
        expected[key] = record.queue_offset + 1
        put = evidence.ledger.by_properties.get(record.properties)
        if put is not None and put.queue_offset not in (None, record.queue_offset):
            yield Violation(
                "QOFF",
                f"{put.name} has another queue offset than its producer was told",
                found.file,
                found.position + 20,
                "queueOffset",
                str(put.queue_offset),
                str(record.queue_offset),
            )
