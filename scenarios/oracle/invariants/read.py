"""READ: a consumer gets exactly the messages that its subscription matches, each once, in queue order.

A record that is damaged may be given or not. Ours, beside the catalogue's codes. Tags that share a hash pass the
store's filter; the workload's tags do not.
"""

from collections.abc import Iterator

from ....store.message_store import MessageStore
from ..evidence import Violation, tried
from ..ledger import Ledger, Pull
from ..light_places import light_places
from ..recovered import RecoveredStore


def check(ledger: Ledger, store: RecoveredStore) -> Iterator[Violation]:
    """Yield every walk of this life that missed something, repeated it, or was given what it did not ask for.

    store: as it is at the end of the same life, before any crash.
    """
    for pull in ledger.pulls:
        tried("READ")
        wanted = _wanted(pull, ledger, store)
        unreadable = ledger.known_damage.unreadable
        given = [
            put.name
            for put in pull.puts
            if not ledger.may_be_removed(put) and put.physical_offset not in unreadable
        ]
        if given != wanted:
            yield Violation(
                "READ",
                f"a walk over {pull.topic}/{pull.queue_id} for {pull.tags or '*'}",
                f"consumequeue/{pull.topic}/{pull.queue_id}",
                pull.begin_offset * 20,
                "messages",
                ", ".join(wanted) or "none",
                ", ".join(given) or "none",
            )


_FAR = 1_000_000
"""Queue offsets that no queue here ever gets to."""


def check_beyond(store: MessageStore, topic: str, queue_id: int) -> Iterator[Violation]:
    """Yield what is wrong with the answer to a pull behind the end of a queue: where to go on is the end, or 0."""
    tried("READ")
    result = store.get_message(topic, queue_id, _FAR)
    ends = (0, store.get_max_offset_in_queue(topic, queue_id))
    if result.records or not ends[0] <= result.next_begin_offset <= ends[1]:
        yield Violation(
            "READ",
            "a pull behind a queue's end leads astray",
            f"consumequeue/{topic}/{queue_id}",
            _FAR * 20,
            "next begin offset",
            f"<= {ends[1]}",
            str(result.next_begin_offset),
        )


def _wanted(pull: Pull, ledger: Ledger, store: RecoveredStore) -> list[str]:
    tags = None if pull.tags is None else {tag.strip() for tag in pull.tags.split("||")}
    names = []
    for found in store.records:
        record = found.record
        offset: int | None = record.queue_offset
        if (record.topic, record.queue_id) != (pull.topic, pull.queue_id):
            offset = light_places(record).get((pull.topic, pull.queue_id))
        if offset is None or record.physical_offset in ledger.known_damage.unreadable:
            continue
        put = ledger.seen_in(record)
        assert put is not None, (
            record
        )  # PREFIX has seen every record of an earlier life, this one's are all puts
        if ledger.may_be_removed(put):
            continue
        if pull.begin_offset <= offset < pull.end_offset and (tags is None or put.tags in tags):
            names.append(put.name)
    return names
