"""CQ-VALID: every entry points at a record of its topic and queue, with the right size and tag.

Entries in front of the log's first segment lead to what has expired, and blank ones there stand for it; behind it a
blank entry, which stands for a record that is gone, is a violation too, but where there is known to be none. A record
is of each light queue that it has a place in, as of its own. A delayed message's tag is the time it is due, that of its
copy its own.
"""

from collections.abc import Iterator

from ....store.formats.delay_level import SCHEDULE_TOPIC
from ..evidence import Evidence, Violation, tried
from ..light_places import light_places
from ..reader import BLANK_ENTRY_SIZE, tag_code, tag_code_of

_EMPTY_BYTES = (0, BLANK_ENTRY_SIZE)


def check(evidence: Evidence) -> Iterator[Violation]:
    """Yield every entry that leads nowhere or to the wrong record."""
    store, ledger = evidence.store, evidence.ledger
    found_at, put_of = store.by_offset.get, ledger.by_properties.get
    for (topic, queue_id), queue in store.queues.items():
        holes = ledger.holes.get((topic, queue_id), ())
        file = f"consumequeue/{topic}/{queue_id}"
        if queue.entries:
            tried("CQ-VALID")
        for number, (physical_offset, size_bytes, code) in enumerate(queue.entries, queue.begin):
            if size_bytes in _EMPTY_BYTES and number in holes:
                continue
            found = found_at(physical_offset)
            if found is None and physical_offset < store.min_offset:
                continue
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
            _, record_bytes, record_topic, record_queue_id, _, _, _, properties, _ = found.record
            is_own = record_queue_id == queue_id and record_topic == topic
            if not is_own and (topic, queue_id) not in light_places(found.record):
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
            put = put_of(properties) or ledger.seen_in(found.record)
            if put is None:
                if record_topic == SCHEDULE_TOPIC:
                    continue
                wanted = tag_code_of(properties)  # the store's own, or of a run whose ledger is its clients'
            elif record_topic == SCHEDULE_TOPIC and put.delay_ms is not None:
                wanted = found.record.store_timestamp_ms + put.delay_ms
            else:
                wanted = tag_code(put.tags)
            if code != wanted:
                yield Violation(
                    "CQ-VALID",
                    "an entry with another tag",
                    file,
                    number * 20 + 12,
                    "tagsCode",
                    str(wanted),
                    str(code),
                )
