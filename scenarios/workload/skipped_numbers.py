"""What a restart of RocketMQ 4.9.8 does to a queue beside an allocated, empty file: numbers are skipped.

It takes the first entry of such a file for a real one, so the queue ends in an entry of zeros, and
the next message gets the number behind it. No other broker is needed for that: between the load and the start of a
store, its queues get what such a restart leaves.
"""

from contextlib import suppress

from ...sim.choices import Stream
from ...store.formats.consume_queue import ENTRY_BYTES
from ...store.message_store import MessageStore
from ..oracle.ledger import Ledger

KIND = "skipped numbers"
_SKIPPED_CHANCE = 0.6
_UNWRITTEN_CHANCE = 0.3


def skip_numbers(store: MessageStore, stream: Stream, numbers_max: int, ledger: Ledger) -> int:
    """Let some queues of a loaded store skip up to so many numbers each; return how many queues do.

    Their entries of zeros may be there or not: a crash may have taken them with all that nobody synced.
    """
    skipping = 0
    for queue in store.queues.all():
        about = stream.within(f"{queue.topic}/{queue.queue_id} ")
        if queue.max_offset == 0 or not about.chance(_SKIPPED_CHANCE, "skips"):
            continue
        begin, count = queue.max_offset, about.between(1, numbers_max, "numbers")
        end = begin + count
        if not about.chance(_UNWRITTEN_CHANCE, "unwritten"):
            with suppress(OSError):  # a full or broken disk: what it took counts
                queue.append_entries(bytes(ENTRY_BYTES) * count)
            end = queue.max_offset
        if end > begin:
            place = (queue.topic, queue.queue_id)
            store.commit_log.topic_queue_table[place] = end
            ledger.holes.setdefault(place, set()).update(range(begin, end))
            skipping += 1
    return skipping
