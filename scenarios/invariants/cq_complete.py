"""CQ-COMPLETE: every record of the log is reachable through exactly one entry of its queue, at its queueOffset."""

from collections import Counter
from collections.abc import Iterator

from ...store.dispatch import UNDISPATCHED
from ...store.formats.message import TRANSACTION_MASK
from ..evidence import Evidence, Violation


def check(evidence: Evidence) -> Iterator[Violation]:
    """Yield every record without its entry, and every record with more than one."""
    store = evidence.store
    queues = store.queues
    for found in store.records:
        physical_offset, _, topic, queue_id, index, sys_flag, _, _ = found.record
        if sys_flag & TRANSACTION_MASK in UNDISPATCHED:
            continue
        queue = queues.get((topic, queue_id))
        entry = None
        if queue is not None and queue.begin <= index < queue.begin + len(queue.entries):
            entry = queue.entries[index - queue.begin]
        if entry is None or entry[0] != physical_offset:
            yield Violation(
                "CQ-COMPLETE",
                "a record that its queue does not lead to",
                f"consumequeue/{topic}/{queue_id}",
                index * 20,
                "entry",
                f"phyOffset {physical_offset}",
                "none" if entry is None else f"phyOffset {entry[0]}",
            )
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
