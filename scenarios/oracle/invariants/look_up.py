"""READ, by log offset: the record of a put is found where its producer was told it is, as it was put."""

from collections.abc import Iterator

from ....store.message_store import MessageStore
from ..evidence import Violation, tried
from ..ledger import Ledger
from ..put_entry import PutEntry


def check(store: MessageStore, ledger: Ledger, put: PutEntry) -> Iterator[Violation]:
    """Yield what is wrong with the answer to a look-up of a put's record. Not judged: one of which nobody knows."""
    offset = put.physical_offset
    if offset is None or put.name in ledger.gone:
        return
    tried("READ")
    readable = offset + put.record_bytes <= store.dispatch.readable_limit()
    record = store.look_message_by_offset(offset)
    if record is None:
        if readable and not ledger.may_be_removed(put):
            yield _wrong(put, "record", put.name, "none")
        return
    for field, expected, found in (
        ("properties", put.properties, record.properties.encode(errors="surrogateescape")),
        ("body", put.body, record.body),
        ("topic", put.place[0], record.topic),
    ):
        if expected != found:
            yield _wrong(put, field, repr(expected)[:80], repr(found)[:80])


def _wrong(put: PutEntry, field: str, expected: str, found: str) -> Violation:
    summary = f"looking up {put.name} gives something else"
    return Violation("READ", summary, "commitlog", put.physical_offset or 0, field, expected, found)
