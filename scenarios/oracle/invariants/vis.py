"""VIS: what a consumer was given, and no fault the profile allows may take back, is at the same queue offset again.

Unless retention has removed it.
"""

from collections.abc import Iterator

from ..evidence import Evidence, Violation, tried


def check(evidence: Evidence) -> Iterator[Violation]:
    """Yield everything seen that is gone or replaced."""
    store = evidence.store
    if evidence.ledger.stable:
        tried("VIS")
    for seen in evidence.ledger.stable:
        if evidence.ledger.has_expired(seen.physical_offset, store.min_offset):
            continue
        queue = store.queues.get((seen.topic, seen.queue_id))
        index = seen.queue_offset - (queue.begin if queue else 0)
        found = None
        if queue is not None and 0 <= index < len(queue.entries):
            found = store.by_offset.get(queue.entries[index][0])
        if found is None or evidence.ledger.seen_in(found.record) is not seen.put:
            other = "nothing" if found is None else found.record.properties.decode(errors="replace")
            yield Violation(
                "VIS",
                f"{seen.put.name} was given to a consumer and is not there any more",
                f"consumequeue/{seen.topic}/{seen.queue_id}",
                seen.queue_offset * 20,
                "message",
                seen.put.name,
                other,
            )
