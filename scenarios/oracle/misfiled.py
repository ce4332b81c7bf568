"""Misfiled records: a torn sector can change the queue or the queue offset of a record.

No checksum covers a record's queueId and queueOffset. If the end of a sector that ends in or right after these fields
is lost, zeros replace it and the rest of the record is intact. Recovery detects a wrong queue offset only if it leaves
a gap. A misfiled record must stay in the log, but may be missing from its queue. A missing entry is permitted only at
such sector boundaries, and only if sectors may tear.
"""

from collections import defaultdict

from .ledger import Ledger
from .reader import SECTOR_BYTES, is_queued
from .recovered import RecoveredStore

_QUEUE_ID_AT, _PHYSICAL_OFFSET_ENDS_AT = 12, 36
"""Where queueId begins and physicalOffset ends in a record. The first bytes of physicalOffset are zeros anyway."""


def may_be_misfiled(position: int, *, tears: bool) -> bool:
    """Return whether a power cut may have changed queue or queue offset of the record at a position of a file.

    tears: whether sectors may be torn. A longer loss changes physicalOffset too, which recovery detects.
    """
    boundary = position + _QUEUE_ID_AT
    boundary += SECTOR_BYTES - boundary % SECTOR_BYTES
    return tears and boundary < position + _PHYSICAL_OFFSET_ENDS_AT


def note_misfiled(ledger: Ledger, store: RecoveredStore) -> None:
    """Record the queue offsets, right and wrong ones, at which misfiled records may leave no record."""
    if not ledger.tears:
        return
    numbers: dict[tuple[str, int], int] = {}
    missing_offsets = defaultdict[tuple[str, int], set[int]](set)
    misfiled = 0
    for found in store.records:
        _, _, topic, queue_id, number, sys_flag, *_ = found.record
        if not is_queued(sys_flag):
            continue
        key = topic, queue_id
        follows = numbers.get(key, number if store.min_offset > 0 else 0)
        is_torn = may_be_misfiled(found.position, tears=True)
        misfiled += is_torn
        if number < follows:
            if is_torn:  # the record may have been stored with the next queue offset
                missing_offsets[key].add(follows)
            continue
        if is_torn or number - follows <= misfiled:
            missing_offsets[key].update(range(follows, number))
        numbers[key] = number + 1
    for key, missing in missing_offsets.items():
        ledger.missing_offsets.setdefault(key, set()).update(missing)
