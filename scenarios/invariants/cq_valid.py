"""CQ-VALID: every entry points at a record of its topic and queue, with the right size and tag.

Nothing expires in these runs, so a blank entry, which stands for a record that is gone, is a violation too.
"""

from collections.abc import Iterator

from ...store.formats.consume_queue import tags_code
from ..evidence import Evidence, Violation


def check(evidence: Evidence) -> Iterator[Violation]:
    """Yield every entry that leads nowhere or to the wrong record."""
    store = evidence.store
    found_at, put_of = store.by_offset.get, evidence.ledger.by_properties.get
    for (topic, queue_id), queue in store.queues.items():
        file = f"consumequeue/{topic}/{queue_id}"
        for number, (physical_offset, size_bytes, code) in enumerate(queue.entries, queue.begin):
            found = found_at(physical_offset)
            if found is None:
                yield Violation(
                    "CQ-VALID",
                    "an entry that leads to no record",
                    file,
                    number * 20,
                    "phyOffset",
                    "a record's",
                    str(physical_offset),
                )
                continue
            _, record_bytes, record_topic, record_queue_id, _, _, _, properties = found.record
            if record_queue_id != queue_id or record_topic != topic:
                there = f"{record_topic}/{record_queue_id}"
                yield Violation(
                    "CQ-VALID",
                    "an entry that leads to another queue's record",
                    file,
                    number * 20,
                    "queue",
                    f"{topic}/{queue_id}",
                    there,
                )
            if record_bytes != size_bytes:
                yield Violation(
                    "CQ-VALID",
                    "an entry of the wrong size",
                    file,
                    number * 20 + 8,
                    "size",
                    str(record_bytes),
                    str(size_bytes),
                )
            put = put_of(properties)
            if put is not None and code != tags_code(put.tags):
                yield Violation(
                    "CQ-VALID",
                    "an entry with another tag",
                    file,
                    number * 20 + 12,
                    "tagsCode",
                    str(tags_code(put.tags)),
                    str(code),
                )
