"""Misfiled records: a power cut that tears a sector can put a record into another queue, or give it another number.

No checksum covers a record's queueId and queueOffset. If a sector ends inside or just behind them, and what lies in
front of its end is lost, zeros are left there, and the rest of the record is whole: no recovery can see it but by a
number that does not follow. The record stays what was put; of its place nothing is promised, and its own queue misses
it. Only where sectors tear is anything excused, and only for the few records that lie so.
"""

from collections import defaultdict

from ...store.formats.message import TRANSACTION_MASK
from ...store.queues.dispatch import UNDISPATCHED
from .ledger import Ledger
from .reader import SECTOR_BYTES
from .recovered import RecoveredStore

_QUEUE_ID_AT, _PHYSICAL_OFFSET_ENDS_AT = 12, 36
"""Where a record has queueId, flag, queueOffset, and physicalOffset, whose first bytes are zeros anyway."""


def may_be_misfiled(position: int, *, tears: bool) -> bool:
    """Return whether a power cut may have torn the record at a file's position so that its place is another.

    tears: whether sectors may be torn at all. Were more of it lost than that, its physicalOffset would be wrong, too.
    """
    boundary = position + _QUEUE_ID_AT
    boundary += SECTOR_BYTES - boundary % SECTOR_BYTES
    return tears and boundary < position + _PHYSICAL_OFFSET_ENDS_AT


def note_misfiled(ledger: Ledger, store: RecoveredStore) -> None:
    """Note which numbers queues may lack because of such records: their own, and those that they seem to have."""
    if not ledger.tears:
        return
    numbers: dict[tuple[str, int], int] = {}
    holes = defaultdict[tuple[str, int], set[int]](set)
    misfiled = 0
    for found in store.records:
        _, _, topic, queue_id, number, sys_flag, *_ = found.record
        if sys_flag & TRANSACTION_MASK in UNDISPATCHED:
            continue
        key = topic, queue_id
        follows = numbers.get(key, number if store.min_offset > 0 else 0)
        is_torn = may_be_misfiled(found.position, tears=True)
        misfiled += is_torn
        if number < follows:
            if is_torn:  # it may have been given the next place
                holes[key].add(follows)
            continue
        if is_torn or number - follows <= misfiled:
            holes[key].update(range(follows, number))
        numbers[key] = number + 1
    for key, missing in holes.items():
        ledger.holes.setdefault(key, set()).update(missing)
