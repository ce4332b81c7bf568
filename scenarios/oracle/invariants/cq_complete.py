"""CQ-COMPLETE: every record of the log is reachable through exactly one entry of its queue, at its queueOffset.

So is it through each light queue that it names, once it does not wait for anything; it has its place there in its
properties. A record that is damaged may have lost its entry, and no other with it.
"""

from collections import Counter
from collections.abc import Iterator

from ....store.formats.message import TRANSACTION_MASK
from ....store.queues.dispatch import UNDISPATCHED
from ..evidence import Evidence, Violation, tried
from ..light_places import light_places, missing_places
from ..recovered import FoundQueue, FoundRecord

_LIGHT = b"INNER_MULTI_DISPATCH\1"


def check(evidence: Evidence) -> Iterator[Violation]:
    """Yield every record without its entry, and every record with more than one."""
    store = evidence.store
    queues, unreadable = store.queues, evidence.ledger.known_damage.unreadable
    if store.records:
        tried("CQ-COMPLETE")
    for found in store.records:
        physical_offset, _, topic, queue_id, index, sys_flag, _, properties, _ = found.record
        if sys_flag & TRANSACTION_MASK in UNDISPATCHED:
            continue
        entry = _entry(queues.get((topic, queue_id)), index)
        if (entry is None or entry[0] != physical_offset) and physical_offset not in unreadable:
            yield _unreachable(topic, queue_id, index, physical_offset, entry)
        if _LIGHT in properties:
            yield from _check_light(evidence, found)
    for (topic, queue_id), queue in queues.items():
        if len({entry[0] for entry in queue.entries}) == len(queue.entries):
            continue
        counts = Counter(entry[0] for entry in queue.entries if entry[1] != 0x7FFFFFFF and entry[1] > 0)
        for physical_offset, count in counts.items():
            if count > 1:
                yield Violation(
                    "CQ-COMPLETE",
                    "a record that its queue leads to more than once",
                    f"consumequeue/{topic}/{queue_id}",
                    queue.begin * 20,
                    "entries",
                    f"1 for phyOffset {physical_offset}",
                    str(count),
                )


def _entry(queue: FoundQueue | None, index: int) -> tuple[int, int, int] | None:
    if queue is None or not queue.begin <= index < queue.begin + len(queue.entries):
        return None
    return queue.entries[index - queue.begin]


def _check_light(evidence: Evidence, found: FoundRecord) -> Iterator[Violation]:
    record, queues = found.record, evidence.store.queues
    put = evidence.ledger.seen_in(record)
    for topic, queue_id in missing_places(record, () if put is None else put.light_names):
        yield Violation(
            "CQ-COMPLETE",
            "a record without a place in a light queue that it names",
            found.file,
            found.position,
            "INNER_MULTI_QUEUE_OFFSET",
            f"a place in {topic}/{queue_id}",
            "none",
        )
    for (topic, queue_id), index in light_places(record).items():
        entry = _entry(queues.get((topic, queue_id)), index)
        if entry is None or entry[0] != record.physical_offset:
            yield _unreachable(topic, queue_id, index, record.physical_offset, entry)


def _unreachable(
    topic: str, queue_id: int, index: int, physical_offset: int, entry: tuple[int, int, int] | None
) -> Violation:
    return Violation(
        "CQ-COMPLETE",
        "a record that its queue does not lead to",
        f"consumequeue/{topic}/{queue_id}",
        index * 20,
        "entry",
        f"phyOffset {physical_offset}",
        "none" if entry is None else f"phyOffset {entry[0]}",
    )
