"""QOFF: queue offsets are unique, gapless and in log order, and an answered one is the one found."""

from collections.abc import Iterator

from ...store.dispatch import UNDISPATCHED
from ...store.formats.message import TRANSACTION_MASK
from ..evidence import Evidence, Violation


def check(evidence: Evidence) -> Iterator[Violation]:
    """Yield every record whose queueOffset does not follow, or is not what its producer was told."""
    expected: dict[tuple[str, int], int] = {}
    ledger = evidence.ledger
    put_of = ledger.by_properties.get
    for found in evidence.store.records:
        _, _, topic, queue_id, queue_offset, sys_flag, _, properties = found.record
        if sys_flag & TRANSACTION_MASK in UNDISPATCHED:
            continue
        key = (topic, queue_id)
        wanted = expected.get(key)
        if wanted is None:
            wanted = queue_offset if evidence.store.min_offset > 0 else 0
        if queue_offset != wanted:
            yield Violation(
                "QOFF",
                f"queue offsets of {topic}/{queue_id} do not count up",
                found.file,
                found.position + 20,
                "queueOffset",
                str(wanted),
                str(queue_offset),
            )
        expected[key] = queue_offset + 1
        put = put_of(properties) or ledger.put_of(found.record)
        if put is not None and put.queue_offset != queue_offset and put.queue_offset is not None:
            yield Violation(
                "QOFF",
                f"{put.name} has another queue offset than its producer was told",
                found.file,
                found.position + 20,
                "queueOffset",
                str(put.queue_offset),
                str(queue_offset),
            )
