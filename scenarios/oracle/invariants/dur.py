"""DUR: every put that must survive is in the log with all of its bytes.

`oracle.guarantees` decides which puts must survive. A put that retention was about to remove may be missing if the log
begins after it.
"""

from collections.abc import Iterator
from functools import partial

from ..evidence import Evidence, Violation, record_tried

_broken = partial(Violation, "DUR")


def check_durable_puts(evidence: Evidence) -> Iterator[Violation]:
    """Yield each missing or changed put that must survive, and each message sent back that was not stored again."""
    yield from _check_puts(evidence)
    yield from _check_returned(evidence)


def _check_returned(evidence: Evidence) -> Iterator[Violation]:
    ledger = evidence.ledger
    if ledger.expired_to or not (owed := ledger.returned.names_to_store_again):
        return
    record_tried("DUR")
    found = {put.name for one in evidence.store.records if (put := ledger.put_returned_in(one.record)) is not None}
    for name in owed:
        if name not in found:
            summary = f"{name} was sent back, but was not stored again"
            yield _broken(summary, field="returned message", expected=name, found="none")


def _check_puts(evidence: Evidence) -> Iterator[Violation]:
    store = evidence.store
    if evidence.ledger.promised:
        record_tried("DUR")
    for put in evidence.ledger.promised.values():
        assert put.physical_offset is not None, put.name
        found = store.by_offset.get(put.physical_offset)
        if found is None:
            if evidence.ledger.has_expired(put.physical_offset, store.min_offset):
                continue
            state = "nothing" if put.physical_offset >= store.max_offset else "no record"
            summary = f"{put.name} was promised and is gone"
            yield _broken(summary, "commitlog", put.physical_offset, "record", put.name, state)
        elif evidence.ledger.put_of(found.record) is not put or found.body != put.body:
            summary = f"{put.name} was promised and has changed"
            shown = found.record.properties.decode(errors="replace")
            yield _broken(summary, found.file, found.position, "record", put.name, shown)
        elif not put.has_expected_head(found.record) or put.stored_ms != found.record.store_timestamp_ms:
            for offset, field, expected, there in put.differences(found.record, tears=evidence.ledger.tears):
                summary = f"{put.name} was promised and has changed"
                yield _broken(summary, found.file, found.position + offset, field, expected, there)
