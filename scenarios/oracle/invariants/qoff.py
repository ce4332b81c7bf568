"""QOFF: queue offsets are unique, gapless and in log order, and an answered one is the one found.

So are the places that records have in light queues, which they carry in their properties. What retention has removed
was counted: a queue goes on behind it, unless all that was left of it were numbers and somebody had it removed.
"""

from collections.abc import Iterator

from ....store.formats.message import TRANSACTION_MASK
from ....store.queues.dispatch import UNDISPATCHED
from ..evidence import Evidence, Violation, tried
from ..light_places import LIGHT_MARK, light_places
from ..recovered import FoundRecord


def check(evidence: Evidence) -> Iterator[Violation]:
    """Yield every record whose queueOffset does not follow, or is not what its producer was told."""
    expected: dict[tuple[str, int], int] = {}
    ledger = evidence.ledger
    put_of = ledger.by_properties.get
    expired = _counted_to(evidence) if ledger.expired_to else {}
    if evidence.store.records:
        tried("QOFF")
    for found in evidence.store.records:
        _, _, topic, queue_id, queue_offset, sys_flag, _, properties, _ = found.record
        if sys_flag & TRANSACTION_MASK in UNDISPATCHED:
            continue
        key = (topic, queue_id)
        wanted = expected.get(key)
        if wanted is None:
            wanted = max(queue_offset, expired.get(key, 0)) if evidence.store.min_offset > 0 else 0
        if queue_offset != wanted and not _is_skipped(ledger.holes.get(key), wanted, queue_offset):
            yield _out_of_order(found, key, found.position + 20, wanted, queue_offset)
        expected[key] = queue_offset + 1
        for key, place in light_places(found.record).items() if LIGHT_MARK in properties else ():
            wanted = expected.get(key, place if evidence.store.min_offset > 0 else 0)
            if place != wanted:
                yield _out_of_order(found, key, found.position, wanted, place)
            expected[key] = place + 1
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


def _is_skipped(holes: set[int] | None, wanted: int, queue_offset: int) -> bool:
    """Return whether no record is known to have any of the numbers between the two, nor the lower of them."""
    low, high = min(wanted, queue_offset), max(wanted, queue_offset)
    return holes is not None and holes.issuperset(range(low, high))


def _counted_to(evidence: Evidence) -> dict[tuple[str, int], int]:
    """Return the least queue offset, by topic and queue, that can come behind what has expired."""
    ledger, counted_to = evidence.ledger, dict[tuple[str, int], int]()
    for put in ledger.puts:
        if (
            ledger.has_expired(put.physical_offset, evidence.store.min_offset)
            and put.queue_offset is not None
            and put.name not in ledger.gone
            and put.place not in ledger.ended_queues
        ):
            counted_to[put.place] = max(put.queue_offset + 1, counted_to.get(put.place, 0))
    return counted_to


def _out_of_order(
    found: FoundRecord, key: tuple[str, int], position: int, wanted: int, queue_offset: int
) -> Violation:
    topic, queue_id = key
    return Violation(
        "QOFF",
        f"queue offsets of {topic}/{queue_id} do not count up",
        found.file,
        position,
        "queueOffset",
        str(wanted),
        str(queue_offset),
    )
