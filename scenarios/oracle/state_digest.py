"""The state digest: what is promised at one moment. The same image is judged alike under equal ones.

Left out are puts that nobody has answered and of which nothing is known: one more of them lets more be found in a
store, and demands nothing; an image that has its record was made after it was asked for.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from ...faults.disk.image import DamagedRange
from .invariants.side_files import Versions
from .ledger import Ledger
from .put_entry import PutEntry


def state_digest_of(ledger: Ledger, versions: Iterable[Versions], damage: Sequence[DamagedRange]) -> str:
    """Return the digest of what a recovery is going to be judged by; damage: what was done to durable bytes."""
    digest = blake2b(digest_size=16)
    for put in ledger.puts:
        if put.status is not None or put.physical_offset is not None:
            digest.update(repr(_facts(put)).encode())
    facts = (
        list(ledger.promised),
        sorted(ledger.gone),
        [
            (one.put.name, one.topic, one.queue_id, one.queue_offset, one.copy_end, one.copy_is_durable)
            for one in ledger.stable
        ],
        [tuple(delivery) for delivery in ledger.deliveries],
        sorted(ledger.delivered_into_damage),
        sorted(ledger.reported.items()),
        sorted(ledger.furthest.items()),
        ledger.progress_is_final,
        ledger.expired_to,
        sorted(ledger.ended_queues),
        [(one.path, one.durable, one.begun, one.kept, one.loaded) for one in versions],
    )
    digest.update(repr((facts, list(damage))).encode())
    for name, one in ledger.transactions.by_name.items():
        decisions = [
            (decision.commits, decision.status, decision.copy_end, decision.is_acknowledged)
            for decision in one.decisions
        ]
        rest = (one.questions, list(one.copies.items()), one.settled_at, one.may_be_forgotten)
        digest.update(repr((name, decisions, rest)).encode())
    return digest.hexdigest()


def _facts(put: PutEntry) -> tuple[object, ...]:
    return (
        put.name,
        put.status,
        put.answered_ns,
        put.physical_offset,
        put.queue_offset,
        put.wrote_bytes,
        put.is_durable,
    )
